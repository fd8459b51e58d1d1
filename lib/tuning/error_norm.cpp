#include "ctxgen/tuning/error_norm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ctxgen/runtime/elements.h"

namespace ctxgen {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Sums over the elements of one output, each times `scale`: a power of two, so that nothing is rounded.
class Differences {
 public:
  explicit Differences(double scale) : scale_(scale) {}

  void add(double y, double reference) {
    ++count_;
    if (!std::isfinite(y) || !std::isfinite(reference)) {
      alike_ = alike_ && (y == reference || (std::isnan(y) && std::isnan(reference)));
      return;
    }
    const double apart = std::fabs(y * scale_ - reference * scale_);
    const double size = std::fabs(reference * scale_);
    differ_ += y != reference ? 1 : 0;
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
    const double error = size > 0 ? apart / size : kInfinite;
    return std::isfinite(error) ? error : kInfinite;
  }

  double scale_;
  std::uint64_t count_ = 0;
  bool alike_ = true;
  double differ_ = 0, most_apart_ = 0, largest_ = 0, apart_ = 0, size_ = 0;
  double squares_apart_ = 0, squares_ = 0;
};

/// What makes the largest finite element about 1, so that no sum of squares overflows or vanishes.
double scale_of(const ElementReader& y, const ElementReader& reference, std::int64_t count) {
  constexpr int kMostExponent = 1000;  // of a scale that is a normal number
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    for (const double value : {y.at(i), reference.at(i)})
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  if (largest == 0) return 1;
  return std::ldexp(1.0, -std::clamp(std::ilogb(largest), -kMostExponent, kMostExponent));
}

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
  const std::int64_t count = expected.element_count();
  Differences differences(scale_of(found, wanted, count));
  for (std::int64_t i = 0; i < count; ++i) differences.add(found.at(i), wanted.at(i));
  return ElementReader::is_floating(expected.type()) ? differences.error(norm)
                                                     : differences.share_of_different();
}

bool has_finite_number(const RuntimeValue& output) {
  if (!output.is_tensor() || !ElementReader::has_numbers(output.tensor().type())) return false;
  const ElementReader elements(output.tensor());
  for (std::int64_t i = 0; i < output.tensor().element_count(); ++i)
    if (std::isfinite(elements.at(i))) return true;
  return false;
}

}  // namespace ctxgen
