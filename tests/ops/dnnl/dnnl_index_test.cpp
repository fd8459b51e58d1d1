#include <algorithm>
#include <cstring>
#include <span>

#include <gmock/gmock.h>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

namespace ctxgen::testing {
namespace {

/// The graph behind a convolution (channels-last) and as it stands.
template <class Build>
void in_both_layouts(std::int64_t opset, const Build& build) {
  TestGraph plain(opset);
  plain.output(build(plain, plain.input("x", {2, 6, 5, 7})));
  expect_same(plain, 1e-5);
  TestGraph last(opset);
  const std::string c =
      last.add("Conv", {last.input("x", {2, 3, 7, 9}), last.constant({6, 3, 3, 3})});
  last.output(build(last, c));
  expect_same(last, 1e-5);
}

TEST(DnnlIndex, PadsInEveryMode) {
  for (const char* mode : {"constant", "reflect", "edge"}) {
    for (const List& pads : {List{0, 0, 1, 2, 0, 0, 3, 1}, List{1, 2, 0, 0, 0, 1, 0, 3},
                             List{0, 0, 0, 0, 0, 3, 0, 0}}) {
      SCOPED_TRACE(mode);
      if (std::string(mode) == "reflect" && pads[0] == 1) continue;  // ONNX's limit is 1 here
      in_both_layouts(13, [&](TestGraph& g, const std::string& x) {
        return g.add("Relu", {g.add("Pad", {x, g.ints(pads)}, {attr("mode", std::string(mode))})});
      });
    }
  }
}

TEST(DnnlIndex, PadValuesAxesAndNegativePads) {
  in_both_layouts(11, [](TestGraph& g, const std::string& x) {
    return g.add("Abs", {g.add("Pad", {x, g.ints({0, 0, -1, 2, 0, 1, 1, -2}),
                                       g.constant({}, std::vector<float>{2.5F})})});
  });
  in_both_layouts(18, [](TestGraph& g, const std::string& x) {
    return g.add("Abs", {g.add("Pad", {x, g.ints({1, 2, 3, 4}), "", g.ints({3, -3})})});
  });
  in_both_layouts(19, [](TestGraph& g, const std::string& x) {
    return g.add("Abs", {g.add("Pad", {x, g.ints({0, 0, 2, 3, 0, 0, 1, 4})},
                               {attr("mode", std::string("wrap"))})});
  });
  in_both_layouts(2, [](TestGraph& g, const std::string& x) {
    return g.add(
        "Abs",
        {g.add("Pad", {x}, {attr("pads", List{0, 0, 1, 1, 0, 0, 2, 2}), attr("value", -1.5F)})});
  });
}

TEST(DnnlIndex, PadReference) {
  TestGraph g(13);
  const std::string x = g.input("x", {4, 6});
  const std::string y =
      g.add("Pad", {x, g.ints({2, 1, 1, 3})}, {attr("mode", std::string("reflect"))});
  const std::string z = g.add("Neg", {y});
  g.output(z);
  const std::int64_t rows[] = {2, 1, 0, 1, 2, 3, 2}, columns[] = {1, 0, 1, 2, 3, 4, 5, 4, 3, 2};
  std::vector<double> expected;
  for (const std::int64_t r : rows)
    for (const std::int64_t c : columns) expected.push_back(-at(g.value(x), r * 6 + c));
  expect_reference(g, z, expected);
  expect_same(g);
}

TEST(DnnlIndex, GathersOfConstantIndices) {
  for (const int axis : {0, 1, 2, 3, -1}) {
    SCOPED_TRACE(axis);
    in_both_layouts(13, [&](TestGraph& g, const std::string& x) {
      return g.add("Relu", {g.add("Gather", {x, g.ints({1, 0, -1, 1})}, {attr("axis", axis)})});
    });
  }
}

TEST(DnnlIndex, ScalarAndMatrixIndices) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 5, 4});
  const std::string matrix = g.int_tensor({2, 3}, {4, 3, 2, 1, 0, -1});
  const std::string scalar = g.int_tensor({}, {-2});
  const std::string y = g.add("Abs", {g.add("Gather", {x, matrix}, {attr("axis", 1)})});
  const std::string z = g.add("Gather", {y, scalar}, {attr("axis", 2)});
  const std::string w = g.add("Neg", {z});
  g.output(w);
  std::vector<double> expected;
  for (std::int64_t n = 0; n < 2; ++n)
    for (const std::int64_t row : {3, 0})
      for (std::int64_t c = 0; c < 4; ++c)
        expected.push_back(-std::abs(at(g.value(x), (n * 5 + row) * 4 + c)));
  expect_reference(g, w, expected);
  expect_same(g);
}

TEST(DnnlIndex, EmbeddingsOfAConstantTable) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
    TestGraph g(13);
    const std::string table = g.tensor_constant(g.random_of(type, {9, 3, 4}));
    Tensor ids = *Tensor::allocate(DataType::kInt64, {2, 3});
    const std::int64_t rows[] = {8, 0, -1, 3, 3, -9};
    std::memcpy(ids.mutable_bytes().data(), rows, sizeof rows);
    g.output(g.add("Relu", {g.add("Gather", {table, g.tensor_input("ids", ids)})}));
    Program program;
    const auto results = compiled_results(g, &program);
    EXPECT_TRUE(summary(program)[0].starts_with("lookup")) << summary(program)[0];
    EXPECT_EQ(program.weights.at(0).type, type) << "kept as small as it is";
    expect_same(g, 0);
  }
}

/// The row-major indices of a box of `sizes` from `first`, one row of coordinates each.
List box_indices(const List& first, const List& sizes) {
  List indices;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    List tuple(first);
    std::int64_t left = i;
    for (std::size_t axis = sizes.size(); axis-- > 0; left /= sizes[axis])
      tuple[axis] += left % sizes[axis];
    indices.insert(indices.end(), tuple.begin(), tuple.end());
  }
  return indices;
}

TEST(DnnlIndex, ScattersIntoBoxes) {
  struct Box {
    List first, sizes;
  };
  // Of [2, 6, 5, 7]: an image, channels, a part of every axis, negative indices, single elements, all.
  for (const auto& [first, sizes] :
       {Box{{1}, {1}}, Box{{0, 2}, {2, 3}}, Box{{0, 0, -3}, {2, 6, 2}},
        Box{{1, 1, 2, 3}, {1, 4, 2, 4}}, Box{{0, -1, -1, -1}, {1, 1, 1, 1}}, Box{{0, 0}, {2, 6}}}) {
    SCOPED_TRACE(::testing::PrintToString(first));
    in_both_layouts(16, [&](TestGraph& g, const std::string& x) {
      List dims(sizes), updates(sizes);
      dims.push_back(std::ssize(sizes));
      const List data{2, 6, 5, 7};
      updates.insert(updates.end(), data.begin() + std::ssize(sizes), data.end());
      const std::string indices = g.int_tensor(Dims(std::span(dims)), box_indices(first, sizes));
      return g.add("Relu",
                   {g.add("ScatterND", {x, indices, g.input("u", Dims(std::span(updates)))})});
    });
  }
}

/// What exporters write for x[:, 1:3] = y where indices are listed: updates of other dims than the box.
TEST(DnnlIndex, ScattersListsOfRows) {
  TestGraph g(11);
  const std::string x = g.input("x", {3, 4, 2});
  const std::string indices = g.int_tensor({4, 2}, {0, 1, 0, 2, 1, 1, 1, 2});
  g.output(g.add("Abs", {g.add("ScatterND", {x, indices, g.input("u", {4, 2})})}));
  Program program;
  (void)compiled_results(g, &program);
  EXPECT_TRUE(std::ranges::any_of(summary(program),
                                  [](const std::string& op) { return op.starts_with("concat"); }));
  expect_same(g);
}

TEST(DnnlIndex, ScattersElementsIntoRanges) {
  TestGraph g(18);
  const std::string x = g.input("x", {4, 5});
  const std::string rows = g.int_tensor({2, 3}, {1, 1, 1, 2, 2, 2});
  const std::string columns = g.int_tensor({4, 2}, {3, -1, 3, 4, 3, 4, -2, 4});
  const std::string y =
      g.add("ScatterElements", {x, rows, g.input("u", {2, 3})}, {attr("axis", 0)});
  g.output(g.add(
      "Abs", {g.add("ScatterElements", {y, columns, g.input("v", {4, 2})}, {attr("axis", -1)})}));
  expect_same(g);
}

TEST(DnnlIndex, ScattersThatAreNoBoxStayOutside) {
  const auto reason = [](std::int64_t opset, const char* type, const List& dims,
                         const List& indices, const List& updates,
                         const std::vector<Attribute>& attributes) -> std::string {
    TestGraph g(opset);
    const std::string x = g.input("x", {4, 5});
    const std::string given = g.int_tensor(Dims(std::span(dims)), indices);
    g.output(g.add(type, {x, given, g.input("u", Dims(std::span(updates)))}, attributes));
    const auto capabilities = onednn::make_provider()->capabilities(g.view());
    EXPECT_TRUE(capabilities.has_value());
    for (const Rejection& rejection : capabilities->rejections)
      if (rejection.node == g.last_node()) return rejection.reason;
    return "";
  };
  EXPECT_EQ(reason(16, "ScatterND", {2, 1}, {1, 2}, {2, 5}, {}), "");
  EXPECT_NE(reason(16, "ScatterND", {2, 1}, {2, 1}, {2, 5}, {}), "");
  EXPECT_NE(reason(16, "ScatterND", {2, 1}, {1, 1}, {2, 5}, {}), "");
  EXPECT_NE(reason(16, "ScatterND", {2, 1}, {0, 2}, {2, 5}, {}), "");
  EXPECT_NE(reason(16, "ScatterND", {3, 2}, {0, 0, 0, 1, 1, 0}, {3}, {}), "");
  EXPECT_NE(
      reason(16, "ScatterND", {2, 1}, {1, 2}, {2, 5}, {attr("reduction", std::string("add"))}), "");
  EXPECT_NE(reason(18, "ScatterElements", {2, 2}, {1, 2, 2, 1}, {2, 2}, {attr("axis", 0)}), "");
  EXPECT_NE(reason(18, "ScatterElements", {1, 2}, {1, 2}, {1, 2}, {attr("axis", 0)}), "");
}

TEST(DnnlIndex, TileAndExpand) {
  in_both_layouts(13, [](TestGraph& g, const std::string& x) {
    return g.add("Relu", {g.add("Tile", {x, g.ints({1, 2, 3, 1})})});
  });
  in_both_layouts(13, [](TestGraph& g, const std::string& x) {
    const std::string m = g.add("ReduceMean", {x}, {attr("axes", List{2}), attr("keepdims", 1)});
    return g.add("Relu", {g.add("Expand", {m, g.ints({3, 1, 6, 4, 7})})});
  });
}

TEST(DnnlIndex, DepthToSpaceAndBack) {
  for (const char* mode : {"DCR", "CRD"}) {
    TestGraph g(13);
    const std::string c = g.add("Conv", {g.input("x", {2, 3, 6, 7}), g.constant({12, 3, 3, 3})});
    const std::string d =
        g.add("DepthToSpace", {c}, {attr("blocksize", 2), attr("mode", std::string(mode))});
    g.output(g.add("Relu", {d}));
    expect_same(g, 1e-5);
    TestGraph plain(13);
    const std::string x = plain.input("x", {2, 12, 3, 4});
    plain.output(plain.add(
        "Abs",
        {plain.add("DepthToSpace", {x}, {attr("blocksize", 2), attr("mode", std::string(mode))})}));
    expect_same(plain);
  }
  in_both_layouts(13, [](TestGraph& g, const std::string& x) {
    const std::string even = g.add("Slice", {x, g.ints({0, 0}), g.ints({4, 6}), g.ints({2, 3})});
    return g.add("Abs", {g.add("SpaceToDepth", {even}, {attr("blocksize", 2)})});
  });
}

TEST(DnnlIndex, SlicesBackwards) {
  in_both_layouts(13, [](TestGraph& g, const std::string& x) {
    return g.add("Relu", {g.add("Slice", {x, g.ints({-1, 4, 5}), g.ints({-1000, 0, 1}),
                                          g.ints({1, 2, 3}), g.ints({-1, -2, -3})})});
  });
}

}  // namespace
}  // namespace ctxgen::testing
