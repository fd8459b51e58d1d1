#include "ctxgen/tuning/error_norm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ctxgen/runtime/elements.h"

namespace ctxgen {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Sums over the elements of one output.
class Differences {
 public:
  void add(double y, double reference) {
    ++count_;
    if (!std::isfinite(y) || !std::isfinite(reference)) {
      alike_ = alike_ && (y == reference || (std::isnan(y) && std::isnan(reference)));
      return;
    }
    const double apart = std::fabs(y - reference), size = std::fabs(reference);
    differ_ += apart > 0 ? 1 : 0;
    most_apart_ = std::max(most_apart_, apart);
    largest_ = std::max(largest_, size);
    apart_ += apart;
    size_ += size;
    squares_apart_ += apart * apart;
    squares_ += size * size;
  }

  [[nodiscard]] double error(ErrorNorm norm) const {
    if (!alike_) return kInfinite;
    switch (norm) {
      case ErrorNorm::kMax: return ratio(most_apart_, largest_);
      case ErrorNorm::kRms: return ratio(std::sqrt(squares_apart_), std::sqrt(squares_));
      case ErrorNorm::kMean: break;
    }
    return ratio(apart_, size_);
  }

  [[nodiscard]] double share_of_different() const {
    return count_ == 0 ? 0 : differ_ / static_cast<double>(count_);
  }

 private:
  static double ratio(double apart, double size) {
    if (apart == 0) return 0;
    return size > 0 ? apart / size : kInfinite;
  }

  std::uint64_t count_ = 0;
  bool alike_ = true;
  double differ_ = 0, most_apart_ = 0, largest_ = 0, apart_ = 0, size_ = 0;
  double squares_apart_ = 0, squares_ = 0;
};

}  // namespace

std::string_view name_of(ErrorNorm norm) {
  switch (norm) {
    case ErrorNorm::kMax: return "max";
    case ErrorNorm::kRms: return "rms";
    case ErrorNorm::kMean: break;
  }
  return "mean";
}

Result<ErrorNorm> norm_named(std::string_view name) {
  for (const ErrorNorm norm : {ErrorNorm::kMax, ErrorNorm::kRms, ErrorNorm::kMean})
    if (name == name_of(norm)) return norm;
  return fail(ErrorCode::kInvalidArgument, "norm \"{}\", expected max, rms or mean", name);
}

Result<ErrorBound> parse_error_bound(std::string_view text) {
  ErrorBound bound;
  std::string_view number = text;
  if (const std::size_t end = text.find(':'); end != text.npos) {
    bound.norm = CTXGEN_TRY(norm_named(text.substr(0, end)));
    number = text.substr(end + 1);
  }
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), bound.most);
  if (error != std::errc() || end != number.data() + number.size() || !(bound.most > 0) ||
      !std::isfinite(bound.most))
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\": expected a number above 0, or a norm and such a number, as in 0.01 or "
                "rms:0.01",
                text);
  return bound;
}

Result<double> error_of(const RuntimeValue& output, const RuntimeValue& reference, ErrorNorm norm) {
  if (!output.is_tensor() || !reference.is_tensor())
    return fail(ErrorCode::kUnsupported, "an output that is not a tensor has no error");
  const Tensor& y = output.tensor();
  const Tensor& expected = reference.tensor();
  if (!ElementReader::has_numbers(expected.type()))
    return fail(ErrorCode::kUnsupported, "an output of type {} has no error",
                name_of(expected.type()));
  if (y.type() != expected.type() || y.dims() != expected.dims()) return kInfinite;
  const ElementReader found(y), wanted(expected);
  Differences differences;
  for (std::int64_t i = 0; i < expected.element_count(); ++i)
    differences.add(found.at(i), wanted.at(i));
  return ElementReader::is_floating(expected.type()) ? differences.error(norm)
                                                     : differences.share_of_different();
}

}  // namespace ctxgen
