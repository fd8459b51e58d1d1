#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "program_maker.h"

// Shapes with known answers: those of the ONNX specification's examples.
namespace ctxgen::onednn::test {
namespace {

Result<Dims> shape_of(std::string_view kind, const std::vector<Dims>& in,
                      std::vector<Param> params) {
  Maker maker(1);
  std::vector<Operand> inputs;
  // Shapes may be huge here: values get their dims by hand, not from tensors.
  std::vector<Dims> input_dims;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool weight = kind == kind::kConv && i > 0;
    inputs.push_back(weight ? maker.weight(in[i]) : maker.input(Dims{}));
    if (!weight) input_dims.push_back(in[i]);
  }
  maker.op(kind, inputs, std::move(params));
  const auto dims = infer_value_dims(maker.program(), input_dims);
  if (!dims) return std::unexpected(dims.error());
  return dims->back();
}

Param mode() { return text("mode", "max"); }

TEST(ExecShapes, ConvPadsAndStrides) {
  const std::vector<Dims> in{Dims{1, 1, 7, 5}, Dims{1, 1, 3, 3}};
  EXPECT_EQ(shape_of(kind::kConv, in, {ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1})}),
            (Dims{1, 1, 4, 3}));
  EXPECT_EQ(shape_of(kind::kConv, in, {ints("strides", {2, 2})}), (Dims{1, 1, 3, 2}));
  EXPECT_EQ(shape_of(kind::kConv, in, {ints("strides", {2, 2}), ints("pads", {1, 0, 1, 0})}),
            (Dims{1, 1, 4, 2}));
  EXPECT_EQ(shape_of(kind::kConv, in, {text("auto_pad", "SAME_LOWER"), ints("strides", {2, 2})}),
            (Dims{1, 1, 4, 3}));
  EXPECT_EQ(shape_of(kind::kConv, in, {ints("dilations", {3, 2})}), (Dims{1, 1, 1, 1}));
}

TEST(ExecShapes, PoolCeilMode) {
  EXPECT_EQ(
      shape_of(kind::kPool, {Dims{1, 1, 4, 4}},
               {mode(), ints("kernel", {3, 3}), ints("strides", {2, 2}), integer("ceil_mode", 1)}),
      (Dims{1, 1, 2, 2}));
  // The last window would start on padding only.
  EXPECT_EQ(
      shape_of(kind::kPool, {Dims{1, 3, 2, 2}},
               {mode(), ints("kernel", {1, 1}), ints("strides", {2, 2}), integer("ceil_mode", 1)}),
      (Dims{1, 3, 1, 1}));
  EXPECT_EQ(shape_of(kind::kPool, {Dims{1, 3, 32, 32}},
                     {mode(), ints("kernel", {5, 5}), ints("strides", {3, 3})}),
            (Dims{1, 3, 10, 10}));
}

TEST(ExecShapes, MatmulBroadcasting) {
  EXPECT_EQ(shape_of(kind::kMatmul, {Dims{4, 1, 2, 3}, Dims{5, 3, 7}}, {}), (Dims{4, 5, 2, 7}));
  EXPECT_EQ(shape_of(kind::kMatmul, {Dims{3, 2}, Dims{7, 3}},
                     {integer("trans_a", 1), integer("trans_b", 1)}),
            (Dims{2, 7}));
  EXPECT_EQ(shape_of(kind::kMatmul, {Dims{2, 3}, Dims{4, 7}}, {}).error().code,
            ErrorCode::kInvalidGraph);
}

TEST(ExecShapes, ReshapeRules) {
  const std::vector<Dims> in{Dims{2, 3, 4}};
  EXPECT_EQ(shape_of(kind::kReshape, in, {ints("shape", {4, -1})}), (Dims{4, 6}));
  EXPECT_EQ(shape_of(kind::kReshape, in, {ints("shape", {0, -1, 2, 2})}), (Dims{2, 3, 2, 2}));
  EXPECT_EQ(shape_of(kind::kReshape, {Dims{0, 3, 4}},
                     {ints("shape", {3, 4, 0}), integer("allowzero", 1)}),
            (Dims{3, 4, 0}));
  for (const std::vector<std::int64_t>& bad :
       {std::vector<std::int64_t>{5, -1}, {-1, -1}, {2, 3, 5}, {2, 3, 4, 0}, {-2, 12}})
    EXPECT_EQ(shape_of(kind::kReshape, in, {ints("shape", bad)}).error().code,
              ErrorCode::kInvalidGraph);
  EXPECT_EQ(shape_of(kind::kFlatten, in, {integer("axis", 0)}), (Dims{1, 24}));
  EXPECT_EQ(shape_of(kind::kFlatten, in, {integer("axis", -1)}), (Dims{6, 4}));
  EXPECT_EQ(shape_of(kind::kFlatten, in, {integer("axis", 3)}), (Dims{24, 1}));
}

TEST(ExecShapes, SqueezeAndUnsqueeze) {
  EXPECT_EQ(shape_of(kind::kSqueeze, {Dims{1, 3, 1, 5}}, {ints("axes", {-2})}), (Dims{1, 3, 5}));
  EXPECT_EQ(shape_of(kind::kSqueeze, {Dims{1, 3, 1, 5}}, {}), (Dims{3, 5}));
  EXPECT_EQ(shape_of(kind::kSqueeze, {Dims{1, 3}}, {ints("axes", {1})}).error().code,
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(shape_of(kind::kUnsqueeze, {Dims{3, 4}}, {ints("axes", {-1, 0})}), (Dims{1, 3, 4, 1}));
  EXPECT_EQ(shape_of(kind::kUnsqueeze, {Dims{3}}, {ints("axes", {0, -3})}).error().code,
            ErrorCode::kInvalidGraph);
}

TEST(ExecShapes, SliceRules) {
  const std::vector<Dims> in{Dims{20, 10, 5}};
  const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return shape_of(
        kind::kSlice, in,
        {ints("starts", {start}), ints("ends", {end}), ints("axes", {1}), ints("steps", {step})});
  };
  EXPECT_EQ(slice(1, 1000, 1), (Dims{20, 9, 5}));
  EXPECT_EQ(slice(0, -1, 2), (Dims{20, 5, 5}));
  EXPECT_EQ(slice(1000, 1000, 1), (Dims{20, 0, 5}));
  EXPECT_EQ(slice(-1, -1000, -3), (Dims{20, 4, 5}));
  EXPECT_EQ(slice(INT64_MIN, INT64_MAX, INT64_MAX), (Dims{20, 1, 5}));
  EXPECT_EQ(slice(INT64_MAX, INT64_MIN, -1), (Dims{20, 10, 5}));
  EXPECT_EQ(slice(INT64_MAX, INT64_MIN, INT64_MIN), (Dims{20, 1, 5}));
  EXPECT_EQ(slice(INT64_MIN, INT64_MIN, -1), (Dims{20, 1, 5}));  // starts at 0, ends before it
  EXPECT_EQ(slice(-11, 10, 10), (Dims{20, 1, 5}));
  EXPECT_EQ(slice(-10, 10, 9), (Dims{20, 2, 5}));
  EXPECT_EQ(slice(9, -11, -9), (Dims{20, 2, 5}));
  EXPECT_EQ(slice(9, -10, -9), (Dims{20, 1, 5}));
  EXPECT_EQ(slice(9, -1, -1), (Dims{20, 0, 5}));  // -1 is 9
  EXPECT_EQ(slice(0, 1, 0).error().code, ErrorCode::kInvalidGraph);
}

TEST(ExecShapes, SliceOfAnEmptyAndOfAHugeDim) {
  const auto slice = [&](std::int64_t dim, std::int64_t start, std::int64_t end,
                         std::int64_t step) {
    return shape_of(kind::kSlice, {Dims{dim}},
                    {ints("starts", {start}), ints("ends", {end}), ints("steps", {step})});
  };
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN})
    for (const std::int64_t start : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN})
      for (const std::int64_t end : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN})
        EXPECT_EQ(slice(0, start, end, step), (Dims{0})) << start << " " << end << " " << step;
  const std::int64_t dim = std::int64_t{1} << 36;
  EXPECT_EQ(slice(dim, 0, INT64_MAX, dim - 1), (Dims{2}));
  EXPECT_EQ(slice(dim, 0, INT64_MAX, dim), (Dims{1}));
  EXPECT_EQ(slice(dim, -1, INT64_MIN, 1 - dim), (Dims{2}));
  EXPECT_EQ(slice(dim, -1, INT64_MIN, INT64_MIN), (Dims{1}));
}

TEST(ExecShapes, HugeResultsAreRefusedBeforeAllocation) {
  const std::int64_t big = std::int64_t{1} << 30;
  EXPECT_EQ(
      shape_of(kind::kBinary, {Dims{big, 1}, Dims{1, big}}, {text("alg", "add")}).error().code,
      ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ctxgen::onednn::test
