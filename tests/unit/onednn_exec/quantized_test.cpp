#include <cmath>

#include <gtest/gtest.h>

#include "ctxgen/base/half.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// The kinds that work on integers and f16, against double precision.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

Tensor random_of(DataType type, const Dims& dims, std::mt19937& random) {
  Tensor tensor = Tensor::allocate(type, dims).value();
  for (std::byte& b : tensor.mutable_bytes()) b = static_cast<std::byte>(random() >> 5);
  if (type == DataType::kFloat16)
    for (std::uint16_t& h : tensor.mutable_elements<std::uint16_t>())
      h = float_to_float16(static_cast<float>(random() % 4096) / 256.0F - 8.0F);
  if (type == DataType::kFloat)
    for (float& f : tensor.mutable_elements<float>())
      f = static_cast<float>(random() % 4096) / 256.0F - 8.0F;
  if (type == DataType::kInt32)
    for (std::int32_t& i : tensor.mutable_elements<std::int32_t>())
      i = static_cast<std::int32_t>(random() % 20000) - 10000;
  return tensor;
}

double element(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  switch (tensor.type()) {
    case DataType::kUint8: return tensor.elements<std::uint8_t>()[at];
    case DataType::kInt8: return tensor.elements<std::int8_t>()[at];
    case DataType::kInt32: return tensor.elements<std::int32_t>()[at];
    case DataType::kFloat16: return float16_to_float(tensor.elements<std::uint16_t>()[at]);
    default: return tensor.elements<float>()[at];
  }
}

struct Quant {
  double scale = 1, zero = 0;
};

/// Expects integers that are a rounding of `expected` within `slack` quanta: what f32 arithmetic may
/// move a number that lies on a tie. Gives how many differ from the rounding of the exact number.
std::int64_t expect_rounded(const Tensor& actual, const std::vector<double>& expected, Quant q,
                            double slack) {
  const double low = actual.type() == DataType::kInt8 ? -128 : 0;
  std::int64_t moved = 0;
  EXPECT_EQ(static_cast<std::size_t>(actual.element_count()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double exact = std::clamp(expected[i] / q.scale + q.zero, low, low + 255);
    const double got = element(actual, static_cast<std::int64_t>(i));
    EXPECT_LE(std::fabs(got - exact), 0.5 + slack) << "element " << i;
    moved += got != std::nearbyint(expected[i] / q.scale) + q.zero &&
             std::clamp(std::nearbyint(expected[i] / q.scale) + q.zero, low, low + 255) != got;
    if (::testing::Test::HasFailure()) return moved;
  }
  return moved;
}

bool is_integer(DataType type) { return type != DataType::kFloat && type != DataType::kFloat16; }

TEST(Quantized, PointConvertsBetweenAllTypes) {
  std::mt19937 random(1);
  using enum DataType;
  for (const DataType from : {kFloat, kFloat16, kUint8, kInt8, kInt32})
    for (const DataType to : {kFloat, kFloat16, kUint8, kInt8}) {
      SCOPED_TRACE(std::format("{} to {}", name_of(from), name_of(to)));
      const Quant in{is_integer(from) ? (from == kInt32 ? 0.0009765625 : 0.03125) : 1,
                     from == kUint8  ? 130.0
                     : from == kInt8 ? -5.0
                                     : 0.0};
      const Quant out{0.0625, to == kUint8 ? 100.0 : 3.0};
      Maker maker(1);
      const Operand x = maker.input(random_of(from, Dims{2, 3, 5, 7}, random));
      const Operand y = maker.op(
          kind::kPoint, {x},
          {real("in_scale", in.scale), integer("in_zero", static_cast<std::int64_t>(in.zero)),
           real("out_scale", out.scale), integer("out_zero", static_cast<std::int64_t>(out.zero))});
      maker.program().values[y.index].type = to;
      maker.output(y);
      const auto results = compile_and_run_typed(maker);
      ASSERT_TRUE(results.has_value()) << results.error().message;
      std::vector<double> expected;
      for (std::int64_t i = 0; i < 210; ++i) {
        const double v = element(maker.inputs()[0], i);
        expected.push_back(is_integer(from) ? (v - in.zero) * in.scale : v);
      }
      const Tensor& got = (*results)[0];
      ASSERT_EQ(got.type(), to);
      // All scales are powers of two: nothing but the last rounding happens.
      if (is_integer(to)) {
        EXPECT_EQ(expect_rounded(got, expected, out, 0.0), 0);
      } else {
        for (std::int64_t i = 0; i < 210; ++i) {
          const float want = static_cast<float>(expected[static_cast<std::size_t>(i)]);
          EXPECT_EQ(element(got, i),
                    to == kFloat ? want : float16_to_float(float_to_float16(want)));
        }
      }
    }
}

TEST(Quantized, PointStepsWithQuantizedOperands) {
  std::mt19937 random(2);
  for (const Dims& operand_dims : {Dims{2, 8, 9, 11}, Dims{1, 8, 1, 1}, Dims{11}, Dims{1}}) {
    Maker maker(2);
    const Operand a = maker.input(random_of(DataType::kUint8, Dims{2, 8, 9, 11}, random));
    const Operand b = maker.input(random_of(DataType::kInt8, operand_dims, random));
    const Operand y = maker.op(kind::kPoint, {a},
                               {real("in_scale", 0.02), integer("in_zero", 120),
                                real("out_scale", 0.035), integer("out_zero", 7)},
                               {PostOp{"add", 0.011F, -3.0F, b}, unary("relu")});
    maker.program().values[y.index].type = DataType::kUint8;
    maker.output(y);
    const auto results = compile_and_run_typed(maker);
    ASSERT_TRUE(results.has_value()) << results.error().message;
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 2 * 8 * 9 * 11; ++i) {
      std::int64_t at = i;
      if (operand_dims == Dims{1, 8, 1, 1}) at = i / 99 % 8;
      if (operand_dims == Dims{11}) at = i % 11;
      if (operand_dims == Dims{1}) at = 0;
      const double x = (element(maker.inputs()[0], i) - 120) * double{0.02F};
      const double z = (element(maker.inputs()[1], at) + 3) * double{0.011F};
      expected.push_back(std::max(0.0, x + z));
    }
    // Sums below 8, rounded three times to 24 bits, in units of 0.035: 8 * 3 * 2^-24 / 0.035.
    expect_rounded((*results)[0], expected, {double{0.035F}, 7}, 5e-5);
  }
}

TEST(Quantized, PointTablesForFunctionsWithoutLoop) {
  Maker maker(3);
  Tensor all = Tensor::allocate(DataType::kUint8, Dims{1, 4, 8, 8}).value();
  for (std::size_t i = 0; i < 256; ++i)
    all.mutable_elements<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  const Operand x = maker.input(all);
  const Operand y = maker.op(kind::kPoint, {x},
                             {real("in_scale", 0.05), integer("in_zero", 128),
                              real("out_scale", 1.0 / 256), integer("out_zero", 0)},
                             {unary("sigmoid")});
  maker.program().values[y.index].type = DataType::kUint8;
  maker.output(y);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  std::vector<double> expected;
  for (int i = 0; i < 256; ++i) expected.push_back(1 / (1 + std::exp(-(i - 128) * double{0.05F})));
  // One rounding of x (below 8) and one of the result: 2 * 2^-21 * 256.
  expect_rounded((*results)[0], expected, {1.0 / 256, 0}, 3e-4);
}

/// Whether this machine has no products of bytes: then loading has to refuse them.
bool refused_without_vnni(const Result<std::vector<Tensor>>& results) {
  if (has_fast_int8()) return false;
  EXPECT_EQ(code_of(results), ErrorCode::kVersionMismatch);
  return true;
}

struct ConvCase {
  Dims src, weights;
  std::int64_t group, stride, pad, dilation;
  bool bias, per_channel;
  DataType from, to;
  std::int64_t in_zero;
};

std::vector<double> conv_reference(const ConvCase& c, const Tensor& src, const Tensor& weights,
                                   const std::vector<double>& scales,
                                   const std::vector<double>& bias) {
  const std::int64_t kh = c.weights[2], kw = c.weights[3], per_group = c.weights[0] / c.group;
  const auto size = [&](std::int64_t in, std::int64_t k) {
    return (in + 2 * c.pad - (k - 1) * c.dilation - 1) / c.stride + 1;
  };
  const std::int64_t oh = size(c.src[2], kh), ow = size(c.src[3], kw);
  std::vector<double> out;
  for (std::int64_t n = 0; n < c.src[0]; ++n)
    for (std::int64_t m = 0; m < c.weights[0]; ++m)
      for (std::int64_t y = 0; y < oh; ++y)
        for (std::int64_t x = 0; x < ow; ++x) {
          double sum = 0;
          for (std::int64_t i = 0; i < c.weights[1]; ++i)
            for (std::int64_t a = 0; a < kh; ++a)
              for (std::int64_t b = 0; b < kw; ++b) {
                const std::int64_t row = y * c.stride + a * c.dilation - c.pad;
                const std::int64_t column = x * c.stride + b * c.dilation - c.pad;
                if (row < 0 || row >= c.src[2] || column < 0 || column >= c.src[3]) continue;
                const std::int64_t channel = m / per_group * c.weights[1] + i;
                const double value =
                    element(src, ((n * c.src[1] + channel) * c.src[2] + row) * c.src[3] + column);
                sum += (value - static_cast<double>(c.in_zero)) *
                       element(weights, ((m * c.weights[1] + i) * kh + a) * kw + b);
              }
          const auto channel = static_cast<std::size_t>(m);
          out.push_back(sum * scales[scales.size() == 1 ? 0 : channel] +
                        (bias.empty() ? 0 : bias[channel]));
        }
  return out;
}

void check_conv(const ConvCase& c, std::int64_t& moved, std::int64_t& total) {
  Maker maker(4);
  const Operand x = maker.input(random_of(c.from, c.src, maker.random()));
  const Tensor weights = random_of(DataType::kInt8, c.weights, maker.random());
  Tensor scales =
      Tensor::allocate(DataType::kFloat, Dims{c.per_channel ? c.weights[0] : 1}).value();
  for (float& s : scales.mutable_elements<float>())
    s = 0.0001F * static_cast<float>(1 + maker.random()() % 8);
  Tensor bias = Tensor::allocate(DataType::kFloat, Dims{c.weights[0]}).value();
  for (float& b : bias.mutable_elements<float>())
    b = static_cast<float>(maker.random()() % 64) / 64.0F;
  const bool sum_only = c.to == DataType::kInt32;
  std::vector<Operand> inputs{x, maker.weight(weights)};
  if (!sum_only) {
    inputs.push_back(c.bias ? maker.weight(bias) : Operand{});
    inputs.push_back(maker.weight(scales));
  }
  const Quant out{0.05, c.to == DataType::kUint8 ? 117.0 : -3.0};
  const Operand y =
      maker.op(kind::kQConv, inputs,
               {ints("pads", {c.pad, c.pad, c.pad, c.pad}), ints("strides", {c.stride, c.stride}),
                ints("dilations", {c.dilation, c.dilation}), integer("group", c.group),
                integer("in_zero", c.in_zero), real("out_scale", out.scale),
                integer("out_zero", static_cast<std::int64_t>(out.zero))},
               sum_only ? std::vector<PostOp>{} : std::vector<PostOp>{unary("relu", 0.25F)});
  maker.program().values[y.index].type = c.to;
  maker.output(y);
  const auto results = compile_and_run_typed(maker);
  if (refused_without_vnni(results)) return;
  ASSERT_TRUE(results.has_value()) << results.error().message;
  std::vector<double> factors, offsets;
  for (const float s : scales.elements<float>()) factors.push_back(sum_only ? 1.0 : double{s});
  if (c.bias && !sum_only)
    for (const float b : bias.elements<float>()) offsets.push_back(b);
  auto expected = conv_reference(c, maker.inputs()[0], weights, factors, offsets);
  if (!sum_only)
    for (double& v : expected) v = v < 0 ? 0.25 * v : v;
  const Tensor& got = (*results)[0];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = element(got, static_cast<std::int64_t>(i));
    // The sum is exact; scale, bias, slope round to 24 bits.
    const double slack = sum_only ? 0.0 : 1e-6 * (1 + std::fabs(expected[i]));
    if (sum_only || c.to == DataType::kFloat) {
      ASSERT_NEAR(value, expected[i], slack) << i;
    }
  }
  // Numbers that matter are below 256 quanta, rounded about six times to 24 bits.
  if (c.to == DataType::kUint8 || c.to == DataType::kInt8)
    moved += expect_rounded(got, expected, {double{0.05F}, out.zero}, 256 * 6.0 / (1 << 24));
  total += got.element_count();
}

TEST(Quantized, ConvolutionsOfEveryKind) {
  using enum DataType;
  std::int64_t moved = 0, total = 0;
  for (const DataType from : {kUint8, kInt8})
    for (const DataType to : {kFloat, kUint8, kInt8, kInt32})
      for (const std::int64_t in_zero : {0, 13})
        for (const bool per_channel : {false, true}) {
          SCOPED_TRACE(std::format("{} to {}, zero {}, per channel {}", name_of(from), name_of(to),
                                   in_zero, per_channel));
          const bool bias = per_channel;
          check_conv(
              {{1, 16, 9, 10}, {24, 16, 3, 3}, 1, 1, 1, 1, bias, per_channel, from, to, in_zero},
              moved, total);
          check_conv({{2, 7, 8, 8}, {5, 7, 1, 1}, 1, 2, 0, 1, bias, per_channel, from, to, in_zero},
                     moved, total);
          check_conv(
              {{1, 16, 8, 8}, {16, 1, 3, 3}, 16, 1, 1, 1, bias, per_channel, from, to, in_zero},
              moved, total);
          check_conv({{1, 8, 8, 9}, {8, 4, 3, 3}, 2, 1, 1, 2, bias, per_channel, from, to, in_zero},
                     moved, total);
          check_conv(
              {{1, 3, 20, 20}, {16, 3, 5, 5}, 1, 2, 2, 1, bias, per_channel, from, to, in_zero},
              moved, total);
          if (HasFailure()) return;
        }
  // Exact numbers rarely lie on a tie; those that f32 moved over one are few.
  RecordProperty("moved", static_cast<int>(moved));
  EXPECT_LE(moved, total / 1000) << "of " << total;
}

TEST(Quantized, MatrixProducts) {
  using enum DataType;
  std::int64_t moved = 0, total = 0;
  for (const DataType from : {kUint8, kInt8})
    for (const DataType to : {kFloat, kUint8, kInt8, kInt32})
      for (const std::int64_t in_zero : {0, -7})
        for (const std::int64_t rows : {1, 37})
          for (const std::int64_t columns : {10, 128}) {
            SCOPED_TRACE(std::format("{} to {}, zero {}, {} x {}", name_of(from), name_of(to),
                                     in_zero, rows, columns));
            constexpr std::int64_t kInner = 100;
            Maker maker(5);
            const Operand a = maker.input(random_of(from, Dims{rows, kInner}, maker.random()));
            const Tensor b = random_of(kInt8, Dims{kInner, columns}, maker.random());
            std::vector<Operand> inputs{a, maker.weight(b)};
            Tensor scales = Tensor::allocate(kFloat, Dims{columns}).value();
            for (float& s : scales.mutable_elements<float>())
              s = 0.0001F * static_cast<float>(1 + maker.random()() % 8);
            if (to != kInt32) {
              inputs.push_back({});
              inputs.push_back(maker.weight(scales));
            }
            const Quant out{0.04, 5};
            const Operand y = maker.op(kind::kQMatmul, inputs,
                                       {integer("in_zero", in_zero), real("out_scale", out.scale),
                                        integer("out_zero", 5)});
            maker.program().values[y.index].type = to;
            maker.output(y);
            const auto results = compile_and_run_typed(maker);
            if (refused_without_vnni(results)) continue;
            ASSERT_TRUE(results.has_value()) << results.error().message;
            std::vector<double> expected;
            for (std::int64_t i = 0; i < rows; ++i)
              for (std::int64_t j = 0; j < columns; ++j) {
                double sum = 0;
                for (std::int64_t k = 0; k < kInner; ++k)
                  sum +=
                      (element(maker.inputs()[0], i * kInner + k) - static_cast<double>(in_zero)) *
                      element(b, k * columns + j);
                expected.push_back(
                    to == kInt32 ? sum
                                 : sum * scales.elements<float>()[static_cast<std::size_t>(j)]);
              }
            const Tensor& got = (*results)[0];
            if (to == kInt32 || to == kFloat) {
              for (std::size_t i = 0; i < expected.size(); ++i)
                ASSERT_NEAR(element(got, static_cast<std::int64_t>(i)), expected[i],
                            to == kInt32 ? 0.0 : 1e-6 * (1 + std::fabs(expected[i])));
            } else {
              moved += expect_rounded(got, expected, {double{0.04F}, 5}, 256 * 4.0 / (1 << 24));
              total += got.element_count();
            }
          }
  EXPECT_LE(moved, total / 1000) << "of " << total;
}

TEST(Quantized, MoversAndMaximaKeepTheirType) {
  using enum DataType;
  std::mt19937 random(6);
  for (const DataType type : {kUint8, kInt8, kFloat16, kInt32}) {
    SCOPED_TRACE(name_of(type));
    Maker maker(6);
    const Dims dims{2, 6, 5, 7};
    const auto made = [&](Operand operand) {
      maker.program().values[operand.index].type = type;
      return operand;
    };
    const Operand x = maker.input(random_of(type, dims, random));
    const Operand t = made(maker.op(kind::kTranspose, {x}, {ints("perm", {0, 2, 3, 1})}));
    const Operand c = made(maker.op(kind::kConcat, {t, t}, {integer("axis", 3)}));
    maker.output(made(
        maker.op(kind::kSlice, {c}, {ints("starts", {2}), ints("ends", {9}), ints("axes", {3})})));
    const auto results = compile_and_run_typed(maker);
    ASSERT_TRUE(results.has_value()) << results.error().message;
    ASSERT_EQ((*results)[0].type(), type);
    ASSERT_EQ((*results)[0].dims(), (Dims{2, 5, 7, 7}));
    for (std::int64_t i = 0; i < 2 * 5 * 7 * 7; ++i) {
      const std::int64_t channel = (i % 7 + 2) % 6, pixel = i / 7 % 35, n = i / 245;
      ASSERT_EQ(element((*results)[0], i),
                element(maker.inputs()[0], (n * 6 + channel) * 35 + pixel));
    }
  }
  for (const DataType type : {kUint8, kInt8})
    for (const std::int64_t dilation : {1, 2}) {
      Maker maker(7);
      const Operand x = maker.input(random_of(type, Dims{1, 3, 9, 9}, random));
      const Operand y = maker.op(
          kind::kPool, {x},
          {text("mode", "max"), ints("kernel", {2, 2}), ints("dilations", {dilation, dilation})});
      maker.program().values[y.index].type = type;
      maker.output(y);
      const auto results = compile_and_run_typed(maker);
      ASSERT_TRUE(results.has_value()) << results.error().message;
      const std::int64_t out = 9 - dilation;
      for (std::int64_t i = 0; i < 3 * out * out; ++i) {
        const std::int64_t at = (i / (out * out) * 9 + i / out % out) * 9 + i % out;
        double best = -1000;
        for (const std::int64_t step : {std::int64_t{0}, dilation, 9 * dilation, 10 * dilation})
          best = std::max(best, element(maker.inputs()[0], at + step));
        ASSERT_EQ(element((*results)[0], i), best);
      }
    }
}

TEST(Quantized, TypesThatAKindHasNoKernelForAreRefused) {
  using enum DataType;
  struct Case {
    std::string_view kind;
    DataType from, to;
  };
  const Case cases[] = {{kind::kEltwise, kUint8, kUint8},   {kind::kEltwise, kFloat, kFloat16},
                        {kind::kSoftmax, kInt8, kInt8},     {kind::kIdentity, kUint8, kFloat},
                        {kind::kPoint, kFloat, kInt32},     {kind::kPoint, kInt64, kFloat},
                        {kind::kGlobalPool, kUint8, kFloat}};
  for (const Case& c : cases) {
    Maker maker(8);
    const Operand x = maker.input(Tensor::allocate(c.from, Dims{1, 2, 3, 3}).value());
    const Operand y = maker.op(c.kind, {x}, {text("alg", "relu"), text("mode", "max")});
    maker.program().values[y.index].type = c.to;
    maker.output(y);
    const auto results = compile_and_run_typed(maker);
    ASSERT_FALSE(results.has_value()) << c.kind;
    EXPECT_EQ(results.error().code, ErrorCode::kUnsupported) << results.error().message;
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
