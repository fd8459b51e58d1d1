#include <algorithm>
#include <cmath>
#include <optional>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "numbers/random_stream.h"

// Operators that draw random numbers. A seeded one gives the same numbers in every run.

namespace ctxgen::cpu {
namespace {

// The attribute is a float; numbers that are not seeds of 32 bits are folded into one.
std::optional<std::uint32_t> seed_of(const Node& node) {
  if (node.attribute("seed") == nullptr) return std::nullopt;
  const double seed = node.float_or("seed", 0.0f);
  if (!(std::abs(seed) < 9e18)) return 0;
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(seed));
}

Result<DataType> type_attribute(const Node& node, DataType otherwise) {
  const std::int64_t type = node.int_or("dtype", static_cast<std::int64_t>(otherwise));
  if (type != 0 && !is_known_data_type(type))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), type);
  return static_cast<DataType>(type);
}

// ---- RandomNormal, RandomUniform and their Like forms ----

struct Distribution {
  bool normal = false;
  double first = 0, second = 1;  // mean and scale, or low and high
  std::optional<std::uint32_t> seed;
  DataType type = DataType::kUndefined;  // undefined: that of the input
};

Result<Distribution> read_distribution(const Node& node, bool normal, DataType otherwise) {
  Distribution d{.normal = normal, .seed = seed_of(node)};
  d.first = node.float_or(normal ? "mean" : "low", 0.0f);
  d.second = node.float_or(normal ? "scale" : "high", 1.0f);
  d.type = CTXGEN_TRY(type_attribute(node, otherwise));
  return d;
}

Status draw(KernelContext& context, const Distribution& d, DataType type, const Dims& dims) {
  Tensor* output = CTXGEN_TRY(context.make_output(0, type, dims));
  RandomStream stream(d.seed);
  return dispatch(RealTypes{}, type, [&]<class T>() -> Status {
    for (std::int64_t i = 0; i < output->element_count(); ++i)
      mutable_data_of<T>(*output)[i] =
          store<T>(d.normal ? d.first + d.second * stream.normal()
                            : d.first + (d.second - d.first) * stream.uniform());
    return {};
  });
}

template <bool kNormal>
KernelResult make_random(const Node& node) {
  const Distribution d = CTXGEN_TRY(read_distribution(node, kNormal, DataType::kFloat));
  const auto shape = ints_or(node, "shape", {});
  if (shape.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "{}: rank {} is above {}", node.describe(), shape.size(),
                kMaxRank);
  const Dims dims(shape);
  if (!checked_element_count(dims))
    return fail(ErrorCode::kInvalidGraph, "{}: {} is not a shape", node.describe(),
                to_string(dims));
  return kernel([d, dims](KernelContext& context) { return draw(context, d, d.type, dims); });
}

template <bool kNormal>
KernelResult make_random_like(const Node& node) {
  const Distribution d = CTXGEN_TRY(read_distribution(node, kNormal, DataType::kUndefined));
  return kernel([d](KernelContext& context) -> Status {
    const Tensor* like = CTXGEN_TRY(required(context, 0));
    return draw(context, d, d.type == DataType::kUndefined ? like->type() : d.type, like->dims());
  });
}

// ---- Bernoulli, Multinomial ----

KernelResult make_bernoulli(const Node& node) {
  const DataType type = CTXGEN_TRY(type_attribute(node, DataType::kUndefined));
  return kernel([type, seed = seed_of(node)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const DataType to = type == DataType::kUndefined ? input->type() : type;
    Tensor* output = CTXGEN_TRY(context.make_output(0, to, input->dims()));
    RandomStream stream(seed);
    return dispatch(RealTypes{}, input->type(), [&]<class T>() {
      return dispatch(NumericAndBoolTypes{}, to, [&]<class R>() -> Status {
        for (std::int64_t i = 0; i < input->element_count(); ++i) {
          const bool one = stream.uniform() < static_cast<double>(load(data_of<T>(*input)[i]));
          mutable_data_of<R>(*output)[i] = store<R>(one ? 1.0f : 0.0f);
        }
        return {};
      });
    });
  });
}

// Sums of the probabilities of one row up to each class, from logarithms that need no norm.
template <class T>
Status cumulate(const T* logs, ScratchVector<double>& sums) {
  double most = -INFINITY;
  for (std::size_t c = 0; c < sums.size(); ++c)
    most = std::max(most, static_cast<double>(load(logs[c])));
  if (!std::isfinite(most))
    return fail(ErrorCode::kInvalidGraph, "a row has no class with a finite probability");
  double sum = 0;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    const double p = std::exp(static_cast<double>(load(logs[c])) - most);
    sum += std::isnan(p) ? 0 : p;
    sums[c] = sum;
  }
  return {};
}

template <class T, class R>
Status sample_classes(const Tensor& logs, RandomStream& stream, Tensor& output) {
  ScratchVector<double> sums(static_cast<std::size_t>(logs.dims()[1]));
  R* to = mutable_data_of<R>(output);
  for (std::int64_t row = 0; row < logs.dims()[0]; ++row) {
    CTXGEN_CHECK(cumulate(data_of<T>(logs) + row * logs.dims()[1], sums));
    for (std::int64_t i = 0; i < output.dims()[1]; ++i) {
      const auto found = std::ranges::upper_bound(sums, stream.uniform() * sums.back());
      *to++ = static_cast<R>(std::min<std::ptrdiff_t>(found - sums.begin(), std::ssize(sums) - 1));
    }
  }
  return {};
}

KernelResult make_multinomial(const Node& node) {
  const DataType type = CTXGEN_TRY(type_attribute(node, DataType::kInt32));
  const std::int64_t count = node.int_or("sample_size", 1);
  if (count < 0)
    return fail(ErrorCode::kInvalidGraph, "{}: sample_size is {}", node.describe(), count);
  return kernel([type, count, seed = seed_of(node)](KernelContext& context) -> Status {
    const Tensor* logs = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*logs, "input", 2, 2));
    if (logs->dims()[1] < 1) return fail(ErrorCode::kInvalidGraph, "input has no classes");
    Tensor* output = CTXGEN_TRY(context.make_output(0, type, {logs->dims()[0], count}));
    RandomStream stream(seed);
    return dispatch(RealTypes{}, logs->type(), [&]<class T>() {
      return dispatch(IndexTypes{}, type,
                      [&]<class R>() { return sample_classes<T, R>(*logs, stream, *output); });
    });
  });
}

constexpr std::string_view kFloats = "floats; a seed gives the same numbers in every run";

constexpr OpRow kRandomRows[] = {
    {kOnnx, "Bernoulli", 15, 22, make_bernoulli, kFloats},
    {kOnnx, "Multinomial", 7, 22, make_multinomial, kFloats},
    {kOnnx, "RandomNormal", 1, 22, make_random<true>, kFloats},
    {kOnnx, "RandomNormalLike", 1, 22, make_random_like<true>, kFloats},
    {kOnnx, "RandomUniform", 1, 22, make_random<false>, kFloats},
    {kOnnx, "RandomUniformLike", 1, 22, make_random_like<false>, kFloats},
};

}  // namespace

constinit const std::span<const OpRow> kRandomOps = kRandomRows;

}  // namespace ctxgen::cpu
