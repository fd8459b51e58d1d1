#include "reference.h"

namespace ctxgen::testing {
namespace {

struct ConvCase {
  const char* name;
  Dims src, weights;
  List strides, dilations, pads;  // empty: default
  std::int64_t group = 1;
  std::string auto_pad;
  bool bias = true;
  std::int64_t opset = 11;
};

std::string build(TestGraph& g, const ConvCase& c) {
  std::vector<Attribute> attributes = {attr("group", c.group)};
  if (!c.strides.empty()) attributes.push_back(attr("strides", c.strides));
  if (!c.dilations.empty()) attributes.push_back(attr("dilations", c.dilations));
  if (!c.pads.empty()) attributes.push_back(attr("pads", c.pads));
  if (!c.auto_pad.empty()) attributes.push_back(attr("auto_pad", c.auto_pad));
  std::vector<std::string> inputs = {g.input("x", c.src), g.constant(c.weights)};
  if (c.bias) inputs.push_back(g.constant({c.weights[0]}));
  const std::string y = g.add("Conv", inputs, std::move(attributes));
  g.output(y);
  return y;
}

/// The textbook loop over a 2-D convolution without padding helpers.
std::vector<double> reference(const TestGraph& g, const ConvCase& c, const std::string& y) {
  const Tensor& x = g.value("x");
  const Tensor& w = g.value("c0");
  const Dims &xd = x.dims(), &wd = w.dims();
  const Dims& yd = g.value(y).dims();
  const auto or_one = [](const List& list, std::size_t i) { return list.empty() ? 1 : list[i]; };
  std::vector<double> out;
  const std::int64_t per_group = wd[0] / c.group;
  for (std::int64_t n = 0; n < yd[0]; ++n)
    for (std::int64_t m = 0; m < yd[1]; ++m)
      for (std::int64_t oy = 0; oy < yd[2]; ++oy)
        for (std::int64_t ox = 0; ox < yd[3]; ++ox) {
          double sum = c.bias ? at(g.value("c1"), m) : 0.0;
          for (std::int64_t k = 0; k < wd[1]; ++k)
            for (std::int64_t ky = 0; ky < wd[2]; ++ky)
              for (std::int64_t kx = 0; kx < wd[3]; ++kx) {
                const std::int64_t channel = m / per_group * wd[1] + k;
                const std::int64_t iy = oy * or_one(c.strides, 0) + ky * or_one(c.dilations, 0) -
                                        (c.pads.empty() ? 0 : c.pads[0]);
                const std::int64_t ix = ox * or_one(c.strides, 1) + kx * or_one(c.dilations, 1) -
                                        (c.pads.empty() ? 0 : c.pads[1]);
                if (iy < 0 || ix < 0 || iy >= xd[2] || ix >= xd[3]) continue;
                sum += at(x, ((n * xd[1] + channel) * xd[2] + iy) * xd[3] + ix) *
                       at(w, ((m * wd[1] + k) * wd[2] + ky) * wd[3] + kx);
              }
          out.push_back(sum);
        }
  return out;
}

// {.bias} and what follows keep their defaults where a case does not name them.
const ConvCase kPlain2d[] = {
    {"1x1", {1, 16, 7, 7}, {32, 16, 1, 1}, {}, {}, {}, 1, "", true, 11},
    {"3x3 pads", {2, 3, 9, 10}, {8, 3, 3, 3}, {}, {}, {1, 1, 1, 1}, 1, "", true, 11},
    {"asymmetric pads", {1, 5, 9, 10}, {7, 5, 3, 3}, {2, 1}, {}, {0, 1, 2, 0}, 1, "", false, 11},
    {"groups", {1, 12, 8, 8}, {24, 3, 3, 3}, {}, {}, {1, 1, 1, 1}, 4, "", true, 11},
    {"depthwise", {1, 20, 8, 8}, {20, 1, 3, 3}, {2, 2}, {}, {1, 1, 1, 1}, 20, "", true, 11},
    {"depthwise multiplier", {1, 6, 8, 8}, {12, 1, 3, 3}, {}, {}, {}, 6, "", true, 11},
    {"dilations", {1, 8, 12, 12}, {8, 8, 3, 3}, {}, {2, 3}, {2, 3, 2, 3}, 1, "", true, 11},
    {"opset 1", {1, 3, 8, 8}, {4, 3, 2, 2}, {2, 2}, {}, {}, 1, "NOTSET", true, 1},
    {"VALID", {1, 3, 8, 8}, {4, 3, 3, 3}, {2, 2}, {}, {}, 1, "VALID", true, 22},
};

TEST(DnnlConv, TwoDims) {
  for (const ConvCase& c : kPlain2d) {
    SCOPED_TRACE(c.name);
    TestGraph g(c.opset);
    const std::string y = build(g, c);
    expect_reference(g, y, reference(g, c, y));
    expect_same(g);
  }
}

/// Weights, bias or both may be computed: they are packed in each run.
TEST(DnnlConv, ComputedWeightsAndBias) {
  for (const ConvCase& c : kPlain2d)
    for (const bool weights : {true, false})
      for (const bool bias : {true, false}) {
        SCOPED_TRACE(c.name);
        TestGraph g(c.opset);
        std::vector<Attribute> attributes = {attr("group", c.group)};
        if (!c.strides.empty()) attributes.push_back(attr("strides", c.strides));
        if (!c.dilations.empty()) attributes.push_back(attr("dilations", c.dilations));
        if (!c.pads.empty()) attributes.push_back(attr("pads", c.pads));
        const auto parameter = [&](const char* name, const Dims& dims, bool computed) {
          return computed ? g.add("Neg", {g.input(name, dims)}) : g.constant(dims);
        };
        const std::string y = g.add("Conv",
                                    {g.input("x", c.src), parameter("w", c.weights, weights),
                                     parameter("b", {c.weights[0]}, bias)},
                                    std::move(attributes));
        // What would be folded into constant weights.
        if (c.opset < 7)
          g.output(y);
        else
          g.output(g.add("Relu", {g.add("Mul", {y, g.constant({c.weights[0], 1, 1})})}));
        expect_same(g);
      }
}

TEST(DnnlConv, OtherRanksAndAutoPad) {
  const ConvCase cases[] = {
      {"1d", {2, 4, 15}, {6, 4, 3}, {2}, {}, {1, 1}, 1, "", true, 11},
      {"1d depthwise", {1, 8, 15}, {8, 1, 5}, {}, {}, {4, 0}, 8, "", true, 11},
      {"3d", {1, 2, 5, 6, 7}, {3, 2, 3, 3, 3}, {1, 2, 1}, {}, {1, 1, 1, 1, 1, 1}, 1, "", true, 11},
      {"SAME_UPPER", {1, 3, 9, 8}, {4, 3, 3, 2}, {2, 2}, {}, {}, 1, "SAME_UPPER", true, 11},
      {"SAME_LOWER", {1, 3, 9, 8}, {4, 3, 3, 2}, {2, 2}, {}, {}, 1, "SAME_LOWER", true, 11},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c.name);
    TestGraph g(c.opset);
    build(g, c);
    expect_same(g);
  }
}

/// A residual without the batch dim lies as it is, whatever the layout of the result.
TEST(DnnlConv, SumsOfALowerRank) {
  for (const char* op : {"Conv", "ConvTranspose"}) {
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(op);
      TestGraph g(13);
      const std::string conv = g.add(op, {g.input("x", {1, 8, 6, 7}), g.constant({8, 8, 1, 1})});
      const std::string other = constant ? g.constant({8, 6, 7}) : g.input("r", {8, 6, 7});
      g.output(g.add("Add", {conv, other}));
      g.output(g.add("Mul", {g.constant({6, 7}), g.add("Conv", {conv, g.constant({4, 8, 1, 1})})}));
      expect_same(g, 1e-5);
    }
  }
}

}  // namespace
}  // namespace ctxgen::testing
