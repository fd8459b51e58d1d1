#include "reference.h"

namespace ctxgen::testing {
namespace {

struct PoolCase {
  const char* name;
  Dims src;
  std::vector<Attribute> attributes;
};

TEST(DnnlPool, MaxAndAverage) {
  const PoolCase cases[] = {
      {"2x2", {1, 4, 8, 8}, {attr("kernel_shape", List{2, 2}), attr("strides", List{2, 2})}},
      {"3x3 pads",
       {2, 5, 9, 7},
       {attr("kernel_shape", List{3, 3}), attr("pads", List{1, 1, 1, 1})}},
      {"asymmetric",
       {1, 3, 9, 7},
       {attr("kernel_shape", List{3, 2}), attr("strides", List{2, 1}),
        attr("pads", List{0, 1, 2, 0})}},
      {"ceil",
       {1, 3, 8, 8},
       {attr("kernel_shape", List{3, 3}), attr("strides", List{2, 2}), attr("ceil_mode", 1)}},
      {"ceil pads",
       {1, 3, 7, 8},
       {attr("kernel_shape", List{3, 3}), attr("strides", List{2, 2}),
        attr("pads", List{1, 1, 1, 1}), attr("ceil_mode", 1)}},
      {"same upper",
       {1, 3, 7, 8},
       {attr("kernel_shape", List{3, 3}), attr("strides", List{2, 2}),
        attr("auto_pad", std::string("SAME_UPPER"))}},
      {"same lower",
       {1, 3, 7, 8},
       {attr("kernel_shape", List{2, 2}), attr("auto_pad", std::string("SAME_LOWER"))}},
      {"1d", {2, 3, 11}, {attr("kernel_shape", List{3}), attr("strides", List{2})}},
      {"3d", {1, 2, 5, 6, 7}, {attr("kernel_shape", List{2, 2, 2})}},
  };
  for (const PoolCase& c : cases) {
    SCOPED_TRACE(c.name);
    for (const int mode : {0, 1, 2}) {
      TestGraph g(mode == 2 ? 19 : 11);  // include with ceil is taken from 19 on
      std::vector<Attribute> attributes = c.attributes;
      if (mode == 2) attributes.push_back(attr("count_include_pad", 1));
      g.output(g.add(mode == 0 ? "MaxPool" : "AveragePool", {g.input("x", c.src)},
                     std::move(attributes)));
      expect_same(g);
    }
  }
}

TEST(DnnlPool, DilatedMaxPool) {
  TestGraph g(12);
  g.output(g.add("MaxPool", {g.input("x", {1, 4, 9, 9})},
                 {attr("kernel_shape", List{3, 3}), attr("dilations", List{2, 2})}));
  expect_same(g);
}

TEST(DnnlPool, FirstOpset) {
  TestGraph g(1);
  const std::string x = g.input("x", {1, 4, 8, 8});
  g.output(g.add("MaxPool", {x}, {attr("kernel_shape", List{2, 2})}));
  g.output(g.add("AveragePool", {x}, {attr("kernel_shape", List{2, 2})}));
  expect_same(g);
}

TEST(DnnlPool, Global) {
  for (const Dims& dims : {Dims{2, 5, 7}, Dims{2, 5, 7, 6}, Dims{1, 3, 4, 5, 6}}) {
    TestGraph g(13);
    const std::string x = g.input("x", dims);
    g.output(g.add("GlobalAveragePool", {x}));
    g.output(g.add("GlobalMaxPool", {x}));
    expect_same(g);
  }
}

TEST(DnnlPool, DoublePrecisionReference) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 2, 20, 20});
  const std::string y = g.add("GlobalAveragePool", {x});
  g.output(y);
  std::vector<double> expected(2, 0.0);
  for (std::int64_t i = 0; i < 800; ++i)
    expected[static_cast<std::size_t>(i / 400)] += at(g.value(x), i) / 400.0;
  expect_reference(g, y, expected);
  expect_same(g);
}

}  // namespace
}  // namespace ctxgen::testing
