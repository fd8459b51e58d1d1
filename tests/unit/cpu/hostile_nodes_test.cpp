// Numbers of a hostile model that operators must refuse, not follow.

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "build_node.h"

namespace ctxgen::cpu {
namespace {

constexpr std::int64_t kHuge = INT64_MAX;
const Tensor kNone;

ErrorCode code_of(const Node& node, const std::vector<Tensor>& inputs) {
  const auto out = run(node, inputs);
  return out ? ErrorCode::kInternal : out.error().code;
}

TEST(HostileNodes, SizesThatNothingCanHold) {
  Node dft = make_node("DFT", 20);
  EXPECT_EQ(code_of(dft, {floats({1, 4, 1}, {1, 2, 3, 4}), ints({}, {kHuge})}),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(dft, {floats({1, 4, 1}, {1, 2, 3, 4}), ints({}, {0})}),
            ErrorCode::kInvalidGraph);
  const Node grid = make_node("AffineGrid", 20);
  EXPECT_EQ(code_of(grid, {floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), ints({4}, {1, 1, kHuge, kHuge})}),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(grid, {floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), ints({4}, {1, 1, -1, 1})}),
            ErrorCode::kInvalidGraph);
  const Node crop = make_node("CenterCropPad", 18);
  EXPECT_EQ(code_of(crop, {floats({1}, {1}), ints({1}, {-1})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(crop, {floats({1}, {1}), ints({1}, {kHuge / 4})}), ErrorCode::kResourceLimit);
  const Node col = make_node("Col2Im", 18);
  EXPECT_NE(code_of(col, {floats({1, 1, 1}, {1}), ints({2}, {kHuge, kHuge}), ints({2}, {1, 1})}),
            ErrorCode::kInternal);
  EXPECT_NE(code_of(col, {floats({1, 1, 1}, {1}), ints({2}, {1, 1}), ints({2}, {kHuge, kHuge})}),
            ErrorCode::kInternal);
  Node random = make_node("RandomUniform", 22);
  set_ints(random, "shape", {kHuge, kHuge});
  EXPECT_EQ(code_of(random, {}), ErrorCode::kInvalidGraph);
  Node pad = make_node("Pad", 18);
  EXPECT_EQ(code_of(pad, {floats({1}, {1}), ints({2}, {INT64_MIN, 0})}), ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, MelBandsOutsideOfTheSpectrum) {
  const Node node = make_node("MelWeightMatrix", 17);
  const auto with = [&](std::int64_t bands, std::int64_t length, std::int64_t rate, float high) {
    return code_of(node, {ints({}, {bands}), ints({}, {length}), ints({}, {rate}), floats({}, {0}),
                          floats({}, {high})});
  };
  EXPECT_EQ(with(8, 16, 8192, 20000), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with(8, 16, 0, 4096), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with(kHuge, 16, 8192, 4096), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with(8, 16, 8192, NAN), ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, RegionsWithoutEnd) {
  Node align = make_node("RoiAlign", 16);
  const Tensor image = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(code_of(align, {image, floats({1, 4}, {0, 0, 1e30f, 1}), ints({1}, {0})}),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(align, {image, floats({1, 4}, {0, 0, NAN, 1}), ints({1}, {0})}),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(align, {image, floats({1, 4}, {0, 0, 1, 1}), ints({1}, {1})}),
            ErrorCode::kInvalidGraph);
  set_int(align, "sampling_ratio", kHuge);
  EXPECT_EQ(code_of(align, {image, floats({1, 4}, {0, 0, 1, 1}), ints({1}, {0})}),
            ErrorCode::kResourceLimit);
  Node pool = make_node("MaxRoiPool", 1);
  set_ints(pool, "pooled_shape", {1, 1});
  EXPECT_EQ(code_of(pool, {image, floats({1, 5}, {-1, 0, 0, 1, 1})}), ErrorCode::kInvalidGraph);
  const auto far = run(pool, {image, floats({1, 5}, {0, -1e30f, -1e30f, 1e30f, NAN})});
  EXPECT_TRUE(far) << far.error().message;
}

TEST(HostileNodes, PositionsThatAreNoNumbers) {
  Node node = make_node("GridSample", 22);
  set_string(node, "padding_mode", "reflection");
  const auto out = run(node, {floats({1, 1, 2, 2}, {1, 2, 3, 4}),
                              floats({1, 1, 3, 2}, {NAN, 0, INFINITY, 0, 1e38f, -1e38f})});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(values<float>((*out)[0])[0], 0);
}

TEST(HostileNodes, IndicesOutsideOfTheirTables) {
  Node loss = make_node("NegativeLogLikelihoodLoss", 22);
  EXPECT_EQ(code_of(loss, {floats({1, 2}, {1, 2}), ints({1}, {2})}), ErrorCode::kInvalidGraph);
  set_int(loss, "ignore_index", 2);
  EXPECT_TRUE(run(loss, {floats({1, 2}, {1, 2}), ints({1}, {2})}));
  const Node rotary = make_node("RotaryEmbedding", 23);
  EXPECT_EQ(code_of(rotary, {floats({1, 1, 1, 2}, {1, 2}), floats({1, 1}, {1}), floats({1, 1}, {0}),
                             ints({1, 1}, {5})}),
            ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, AttentionThatDoesNotFitTogether) {
  Node node = make_node("Attention", 24);
  const Tensor four = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(run(node, {four, four, four}));
  EXPECT_EQ(code_of(node, {four, floats({1, 1, 2, 1}, {1, 2}), four}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {four, four, four, floats({3, 3}, std::vector<float>(9))}),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {four, four, four, kNone, four}), ErrorCode::kInvalidGraph);
  const Tensor flat = floats({1, 2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(code_of(node, {flat, flat, flat}), ErrorCode::kInvalidGraph);
  set_int(node, "q_num_heads", INT64_MIN);
  EXPECT_EQ(code_of(node, {flat, flat, flat}), ErrorCode::kInvalidGraph);
}

Node tree_ensemble(std::vector<std::int64_t> if_true, std::vector<std::int64_t> true_leaf) {
  Node node = make_node("TreeEnsemble", 5, 1, "ai.onnx.ml");
  const std::size_t count = if_true.size();
  const auto same = [&](std::int64_t value) { return std::vector<std::int64_t>(count, value); };
  set_ints(node, "tree_roots", {0});
  set_ints(node, "nodes_featureids", same(0));
  set_ints(node, "nodes_truenodeids", std::move(if_true));
  set_ints(node, "nodes_trueleafs", std::move(true_leaf));
  set_ints(node, "nodes_falsenodeids", same(0));
  set_ints(node, "nodes_falseleafs", same(1));
  set_ints(node, "leaf_targetids", {0});
  const auto add_tensor = [&](const char* name, Tensor value) {
    Attribute attribute;
    attribute.name = name;
    attribute.kind = AttributeKind::kTensor;
    attribute.tensors.push_back(std::move(value));
    node.attributes.push_back(std::move(attribute));
  };
  const auto length = static_cast<std::int64_t>(count);
  add_tensor("nodes_modes", tensor<std::uint8_t>({length}, std::vector<std::uint8_t>(count, 0)));
  add_tensor("nodes_splits", floats({length}, std::vector<float>(count, 0)));
  add_tensor("leaf_weights", floats({1}, {7}));
  return node;
}

TEST(HostileNodes, TreesWithCyclesAndForeignChildren) {
  const Tensor x = floats({1, 1}, {-1});
  EXPECT_EQ(values<float>(run(tree_ensemble({0}, {1}), {x}).value()[0])[0], 7);
  EXPECT_EQ(code_of(tree_ensemble({0}, {0}), {x}), ErrorCode::kInvalidGraph);  // its own child
  EXPECT_EQ(code_of(tree_ensemble({1}, {0}), {x}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(tree_ensemble({-1}, {1}), {x}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(tree_ensemble({1, 0}, {0, 0}), {x}),
            ErrorCode::kInvalidGraph);  // a longer cycle
  EXPECT_EQ(code_of(tree_ensemble({0}, {1}), {floats({1, 0}, {})}), ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, ListsThatDoNotFitTheirInputs) {
  Node extract = make_node("ArrayFeatureExtractor", 1, 1, "ai.onnx.ml");
  EXPECT_EQ(code_of(extract, {floats({2}, {1, 2}), ints({1}, {2})}), ErrorCode::kInvalidGraph);
  Node join = make_node("FeatureVectorizer", 1, 1, "ai.onnx.ml");
  set_ints(join, "inputdimensions", {kHuge});
  EXPECT_EQ(code_of(join, {floats({1, 1}, {1})}), ErrorCode::kInvalidGraph);
  Node linear = make_node("LinearRegressor", 1, 1, "ai.onnx.ml");
  set_floats(linear, "coefficients", {1, 2, 3});
  EXPECT_EQ(code_of(linear, {floats({1, 2}, {1, 2})}), ErrorCode::kInvalidGraph);
  Node svm = make_node("SVMRegressor", 1, 1, "ai.onnx.ml");
  set_floats(svm, "coefficients", {1});
  set_floats(svm, "rho", {0});
  EXPECT_EQ(code_of(svm, {floats({1, 0}, {})}), ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, PackedWeightsOfAnotherSize) {
  Node node = make_node("MatMulNBits", 1, 1, "com.microsoft");
  set_int(node, "K", 16);
  set_int(node, "N", 2);
  set_int(node, "block_size", 16);
  const Tensor a = floats({1, 16}, std::vector<float>(16, 1));
  const Tensor b = tensor<std::uint8_t>({2, 1, 8}, std::vector<std::uint8_t>(16, 0x99));
  const Tensor scales = floats({2}, {1, 2});
  EXPECT_EQ(values<float>(run(node, {a, b, scales}).value()[0]), (std::vector<float>{16, 32}));
  EXPECT_EQ(code_of(node, {a, tensor<std::uint8_t>({8}, std::vector<std::uint8_t>(8)), scales}),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {a, b, floats({1}, {1})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {floats({1, 3}, {1, 2, 3}), b, scales}), ErrorCode::kInvalidGraph);
  Node huge = make_node("MatMulNBits", 1, 1, "com.microsoft");
  set_int(huge, "K", kHuge);
  set_int(huge, "N", 2);
  set_int(huge, "block_size", 16);
  EXPECT_EQ(code_of(huge, {a, b, scales}), ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, PowersOfTwoInEightBits) {
  Node node = make_node("Cast", 25);
  set_int(node, "to", static_cast<std::int64_t>(DataType::kFloat8E8M0));
  const auto out = run(node, {floats({5}, {1, 1.1f, -3, 0, INFINITY})});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(values<std::uint8_t>((*out)[0]), (std::vector<std::uint8_t>{127, 128, 129, 0, 254}));
  set_string(node, "round_mode", "sideways");
  EXPECT_EQ(code_of(node, {floats({1}, {1})}), ErrorCode::kUnsupported);
}

// Nothing lies in memory that would bound the other dims.
TEST(HostileNodes, EmptyTensorsOfHugeDims) {
  EXPECT_EQ(checked_element_count({std::int64_t{1} << 31, 0}), 0U);
  EXPECT_EQ(checked_element_count({(std::int64_t{1} << 31) + 1, 0}), std::nullopt);
  EXPECT_EQ(checked_element_count({0, 1 << 20, 1 << 20}), std::nullopt);
  EXPECT_FALSE(Tensor::allocate(DataType::kFloat, {kHuge, 0}));
  const Tensor a = floats({std::int64_t{1} << 31, 1, 0}, {}),
               b = floats({1, std::int64_t{1} << 31, 0}, {});
  EXPECT_EQ(code_of(make_node("Add", 14), {a, b}), ErrorCode::kResourceLimit);
}

TEST(HostileNodes, MoreGroupsThanChannels) {
  for (const char* op : {"Conv", "ConvTranspose"}) {
    Node node = make_node(op, 11);
    set_int(node, "group", std::int64_t{1} << 62);
    EXPECT_EQ(code_of(node, {floats({1, 0, 1}, {}), floats({0, op[4] == 'T' ? 4 : 0, 1}, {})}),
              ErrorCode::kInvalidGraph);
  }
  Node norm = make_node("GroupNormalization", 21);
  set_int(norm, "num_groups", std::int64_t{1} << 62);
  EXPECT_EQ(code_of(norm, {floats({1, 0, 1}, {}), floats({0}, {}), floats({0}, {})}),
            ErrorCode::kInvalidGraph);
  Node rotary = make_node("RotaryEmbedding", 23);
  set_int(rotary, "num_heads", std::int64_t{1} << 62);
  EXPECT_EQ(code_of(rotary, {floats({1, 1, 0}, {}), floats({1, 1, 0}, {}), floats({1, 1, 0}, {})}),
            ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, AttentionOfOtherSizesAndTypes) {
  const auto attention = [](std::vector<std::int64_t> sizes, std::size_t outputs) {
    Node node = make_node("Attention", 1, outputs, "com.microsoft");
    set_int(node, "num_heads", 1);
    set_ints(node, "qkv_hidden_sizes", std::move(sizes));
    return node;
  };
  const Tensor x = floats({1, 1, 1}, {1});
  const Tensor w = floats({1, 1002}, std::vector<float>(1002, 1.0F));
  EXPECT_TRUE(run(attention({1, 1, 1000}, 1), {x, w}));
  EXPECT_EQ(code_of(attention({1, 1, 1000}, 2), {x, w}), ErrorCode::kUnsupported);
  const Tensor bytes = tensor<std::uint8_t>({1002}, std::vector<std::uint8_t>(1002, 1));
  EXPECT_EQ(code_of(attention({1, 1, 1000}, 1), {x, w, bytes}), ErrorCode::kInvalidGraph);
  const std::int64_t third = 3 * (std::int64_t{1} << 61);
  EXPECT_EQ(
      code_of(attention({third, third, (std::int64_t{1} << 62) + 4}, 1),
              {floats({1, 8, 4}, std::vector<float>(32)), floats({4, 4}, std::vector<float>(16))}),
      ErrorCode::kInvalidGraph);
  Node gqa = make_node("GroupQueryAttention", 1, 3, "com.microsoft");
  set_int(gqa, "num_heads", 1);
  set_int(gqa, "kv_num_heads", 1);
  const Tensor past = tensor<std::uint8_t>({1, 1, 2, 4}, std::vector<std::uint8_t>(8));
  const Tensor rows = floats({1, 1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(code_of(gqa, {rows, rows, rows, past, past, tensor<std::int32_t>({1}, {2}),
                          tensor<std::int32_t>({1}, {3})}),
            ErrorCode::kInvalidGraph);
}

// One value as segment ids and as position ids that all rows share.
TEST(HostileNodes, IdsInTwoPlaces) {
  const Node node = make_node("EmbedLayerNormalization", 1, 1, "com.microsoft");
  const Tensor ids = tensor<std::int32_t>({2, 4}, std::vector<std::int32_t>(8));
  const Tensor one = tensor<std::int32_t>({1, 4}, std::vector<std::int32_t>(4));
  const Tensor table = floats({4, 2}, std::vector<float>(8)), scale = floats({2}, {1, 1});
  EXPECT_EQ(code_of(node, {ids, one, table, table, table, scale, scale, kNone, one}),
            ErrorCode::kInvalidGraph);
  EXPECT_TRUE(run(node, {ids, kNone, table, table, kNone, scale, scale, kNone, one}));
}

TEST(HostileNodes, WritesIntoNothing) {
  Node node = make_node("TensorScatter", 24);
  set_string(node, "mode", "circular");
  EXPECT_EQ(code_of(node, {floats({1, 0, 4}, {}), floats({1, 3, 4}, std::vector<float>(12))}),
            ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, ElementsThatShareAByte) {
  const Tensor halves = Tensor::allocate(DataType::kInt4, {2, 4}).value();
  Node concat = make_node("Concat", 13);
  set_int(concat, "axis", 0);
  EXPECT_EQ(code_of(concat, {halves, halves}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(make_node("Split", 13, 2), {halves}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(make_node("GatherND", 13), {halves, ints({1, 1}, {0})}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(make_node("Compress", 11), {halves, tensor<bool>({2}, {true, true})}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(make_node("ReverseSequence", 10), {halves, ints({4}, {1, 1, 1, 1})}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(
      code_of(make_node("ArrayFeatureExtractor", 1, 1, "ai.onnx.ml"), {halves, ints({1}, {0})}),
      ErrorCode::kUnsupported);
}

// Under the undefined-behaviour sanitizer.
TEST(HostileNodes, NumbersThatIntegersCannotHold) {
  const auto whole = [](const char* op, std::int64_t opset, const std::vector<Tensor>& inputs) {
    const auto out = run(make_node(op, opset), inputs);
    return out ? values<std::int64_t>((*out)[0])[0] : -1;
  };
  EXPECT_EQ(whole("ReduceLogSum", 18, {ints({1}, {0})}), INT64_MIN);
  EXPECT_EQ(whole("ReduceL2", 18, {ints({1}, {3037000500})}), 0);  // the sum wraps
  EXPECT_EQ(whole("ReduceLogSumExp", 18, {ints({1}, {0})}), 0);
  EXPECT_EQ(whole("Pow", 15, {ints({1}, {10}), floats({1}, {100})}), INT64_MAX);
  EXPECT_EQ(whole("Pow", 15, {ints({1}, {10}), floats({1}, {NAN})}), 0);
  EXPECT_EQ(whole("PRelu", 16, {ints({1}, {INT64_MIN}), ints({1}, {2})}), 0);
  EXPECT_EQ(whole("Slice", 13,
                  {ints({2}, {5, 6}), ints({1}, {1}), ints({1}, {INT64_MIN}), ints({1}, {0}),
                   ints({1}, {INT64_MIN})}),
            6);
  const auto quantised = run(make_node("DynamicQuantizeLinear", 11, 3), {floats({1}, {-INFINITY})});
  EXPECT_TRUE(quantised);
  // Columns 0 and 1 of a window of two over three elements meet in the middle.
  EXPECT_EQ(
      values<std::int64_t>(run(make_node("Col2Im", 18), {ints({1, 2, 2}, {1, INT64_MAX, 1, 1}),
                                                         ints({1}, {3}), ints({1}, {2})})
                               .value()[0])[1],
      INT64_MIN);
  Node transposed = make_node("ConvTranspose", 11);
  set_ints(transposed, "output_shape", {INT64_MIN});
  EXPECT_EQ(code_of(transposed, {floats({1, 1, 2}, {1, 2}), floats({1, 1, 2}, {1, 2})}),
            ErrorCode::kInvalidGraph);
}

TEST(HostileNodes, PaddingOfSameBeyondItsLimit) {
  Node conv = make_node("Conv", 11);
  set_string(conv, "auto_pad", "SAME_UPPER");
  set_ints(conv, "dilations", {std::int64_t{1} << 30});
  EXPECT_EQ(code_of(conv, {floats({1, 1, 4}, {1, 2, 3, 4}), floats({1, 1, 4}, {1, 2, 3, 4})}),
            ErrorCode::kInvalidGraph);
  EXPECT_TRUE(run(conv, {floats({1, 1, 4}, {1, 2, 3, 4}), floats({1, 1, 2}, {1, 2})}));
}

TEST(HostileNodes, RegionsAndSizesOfResize) {
  Node crop = make_node("Resize", 13);
  set_string(crop, "mode", "linear");
  set_string(crop, "coordinate_transformation_mode", "tf_crop_and_resize");
  set_float(crop, "extrapolation_value", 7);
  const Tensor row = floats({4}, {0, 1, 2, 3});
  const auto resized = [&](std::vector<float> roi) {
    return values<float>(
        run(crop, {row, floats({2}, std::move(roi)), kNone, ints({1}, {4})}).value()[0]);
  };
  EXPECT_EQ(resized({0, 0.5f}), (std::vector<float>{0, 0.5f, 1, 1.5f}));
  EXPECT_EQ(resized({0, 1}), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(resized({NAN, 1}), (std::vector<float>{7, 7, 7, 7}));
  set_string(crop, "nearest_mode", "floor");
  crop.attributes.front().s = "nearest";
  EXPECT_EQ(resized({0, NAN}), (std::vector<float>{7, 7, 7, 7}));
  Node larger = make_node("Resize", 18);
  set_string(larger, "keep_aspect_ratio_policy", "not_smaller");
  EXPECT_NE(code_of(larger, {floats({1, 4}, {0, 1, 2, 3}), kNone, kNone, ints({2}, {kHuge, 1})}),
            ErrorCode::kInternal);
}

TEST(HostileNodes, ScoresThatAreNoNumbers) {
  const auto out = run(make_node("NonMaxSuppression", 11),
                       {floats({1, 3, 4}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}),
                        floats({1, 1, 3}, {0.5f, NAN, 0.9f}), ints({1}, {3})});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(values<std::int64_t>((*out)[0]),
            (std::vector<std::int64_t>{0, 0, 1, 0, 0, 2, 0, 0, 0}));
}

TEST(HostileNodes, ZeroPointsOfAnotherType) {
  const Tensor bytes = tensor<std::int8_t>({2}, {1, 2});
  const auto dequantized = [&](Tensor zero) {
    return code_of(make_node("DequantizeLinear", 13), {bytes, floats({}, {2}), std::move(zero)});
  };
  EXPECT_EQ(dequantized(tensor<std::uint8_t>({}, {1})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(dequantized(floats({}, {1})), ErrorCode::kInvalidGraph);
  EXPECT_TRUE(run(make_node("DequantizeLinear", 13),
                  {bytes, floats({}, {2}), tensor<std::int8_t>({}, {1})}));
}

}  // namespace
}  // namespace ctxgen::cpu
