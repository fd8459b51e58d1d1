#include "reference.h"

namespace ctxgen::testing {
namespace {

struct DeconvCase {
  Dims src, weights;  // weights as ONNX has them: [C, M/group, K...]
  List strides, pads, dilations, output_padding;
  std::int64_t group = 1;
};

std::vector<DeconvCase> deconv_cases() {
  return {
      {{1, 8, 5, 6}, {8, 12, 2, 2}, {2, 2}, {}, {}, {}},
      {{2, 16, 7, 5}, {16, 8, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}},
      {{1, 8, 6, 6}, {8, 8, 3, 3}, {2, 2}, {0, 0, 1, 1}, {}, {}},
      {{1, 8, 6, 6}, {8, 8, 3, 3}, {2, 2}, {1, 1, 1, 1}, {}, {1, 1}},
      {{1, 6, 4, 9}, {6, 4, 3, 3}, {}, {}, {}, {}},                   // a convolution
      {{1, 6, 4, 9}, {6, 4, 3, 3}, {}, {1, 0, 1, 2}, {1, 2}, {}},     // dilated
      {{1, 8, 5, 5}, {8, 3, 3, 3}, {2, 1}, {1, 1, 0, 1}, {}, {}, 2},  // groups
      {{1, 8, 5, 5}, {8, 1, 3, 3}, {}, {2, 1, 2, 1}, {2, 1}, {}, 8},  // depthwise, as convolution
      {{2, 8, 5, 5}, {8, 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}, 8},  // depthwise, own loop
      {{2, 8, 5, 5}, {8, 1, 3, 3}, {3, 2}, {0, 1, 0, 1}, {2, 2}, {2, 1}, 8},
      {{1, 8, 11}, {8, 6, 4}, {2}, {1, 1}, {}, {}},
      {{1, 4, 3, 4, 5}, {4, 6, 2, 2, 2}, {2, 2, 2}, {}, {}, {}},
      {{1, 4, 3, 3}, {4, 4, 1, 1}, {3, 3}, {}, {}, {2, 0}},  // padding with nothing
      {{1, 4, 6, 6}, {4, 4, 2, 2}, {1, 1}, {1, 1, 1, 1}, {}, {}},
      {{1, 4, 6, 6}, {4, 4, 1, 1}, {1, 1}, {1, 1, 1, 1}, {}, {}},  // cuts the rim off
  };
}

std::vector<Attribute> attributes_of(const DeconvCase& c) {
  std::vector<Attribute> attributes{attr("group", c.group)};
  if (!c.strides.empty()) attributes.push_back(attr("strides", c.strides));
  if (!c.pads.empty()) attributes.push_back(attr("pads", c.pads));
  if (!c.dilations.empty()) attributes.push_back(attr("dilations", c.dilations));
  if (!c.output_padding.empty()) attributes.push_back(attr("output_padding", c.output_padding));
  return attributes;
}

/// 2-D ones in double precision: every source pixel spreads its taps.
std::vector<double> reference(const TestGraph& g, const DeconvCase& c, const std::string& x,
                              const std::string& w, const Dims& out) {
  const auto one = [](const List& list, std::size_t i, std::int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  };
  std::vector<double> y(static_cast<std::size_t>(element_count(out)), 0.0);
  const std::int64_t per_group = c.src[1] / c.group;
  for (std::int64_t n = 0; n < c.src[0]; ++n)
    for (std::int64_t i = 0; i < c.src[1]; ++i)
      for (std::int64_t m = 0; m < c.weights[1]; ++m)
        for (std::int64_t h = 0; h < c.src[2]; ++h)
          for (std::int64_t v = 0; v < c.src[3]; ++v)
            for (std::int64_t a = 0; a < c.weights[2]; ++a)
              for (std::int64_t b = 0; b < c.weights[3]; ++b) {
                const std::int64_t oh =
                    h * one(c.strides, 0, 1) + a * one(c.dilations, 0, 1) - one(c.pads, 0, 0);
                const std::int64_t ow =
                    v * one(c.strides, 1, 1) + b * one(c.dilations, 1, 1) - one(c.pads, 1, 0);
                if (oh < 0 || oh >= out[2] || ow < 0 || ow >= out[3]) continue;
                const std::int64_t o = i / per_group * c.weights[1] + m;
                y[static_cast<std::size_t>(((n * out[1] + o) * out[2] + oh) * out[3] + ow)] +=
                    at(g.value(x), ((n * c.src[1] + i) * c.src[2] + h) * c.src[3] + v) *
                    at(g.value(w), ((i * c.weights[1] + m) * c.weights[2] + a) * c.weights[3] + b);
              }
  return y;
}

TEST(DnnlDeconv, WindowsGroupsAndRanks) {
  for (const DeconvCase& c : deconv_cases()) {
    SCOPED_TRACE(std::format("{} x {} group {}", to_string(c.src), to_string(c.weights), c.group));
    TestGraph g(11);
    const std::string x = g.input("x", c.src), w = g.constant(c.weights);
    const std::string y = g.add("ConvTranspose", {x, w}, attributes_of(c));
    g.output(y);
    if (c.src.size() == 4) expect_reference(g, y, reference(g, c, x, w, g.value(y).dims()), 2e-5);
    expect_same(g, 2e-5);
  }
}

TEST(DnnlDeconv, BiasAndWhatFollows) {
  for (const std::int64_t group : {1, 8}) {
    TestGraph g(13);
    const std::string x = g.input("x", {2, 8, 6, 5});
    const std::int64_t m = group == 1 ? 12 : 8;
    const std::string y =
        g.add("ConvTranspose", {x, g.constant({8, m / group, 2, 2}), g.constant({m})},
              {attr("group", group), attr("strides", List{2, 2})});
    const std::string n =
        g.add("BatchNormalization",
              {y, g.constant({m}), g.constant({m}), g.constant({m}), g.constant({m}, 0.1F, 2.0F)});
    const std::string r = g.add("Relu", {n});
    g.output(g.add("Add", {r, g.input("z", {2, m, 12, 10})}));
    expect_same(g, 2e-5);
  }
}

TEST(DnnlDeconv, PadsFromShapes) {
  for (const char* pad : {"SAME_UPPER", "SAME_LOWER"}) {
    TestGraph g(11);
    const std::string x = g.input("x", {1, 4, 5, 6});
    g.output(g.add("ConvTranspose", {x, g.constant({4, 4, 3, 3})},
                   {attr("auto_pad", std::string(pad)), attr("strides", List{2, 2})}));
    expect_same(g, 2e-5);
  }
  TestGraph g(11);
  const std::string x = g.input("x", {1, 4, 5, 6});
  g.output(g.add("ConvTranspose", {x, g.constant({4, 4, 3, 3})},
                 {attr("output_shape", List{10, 11}), attr("strides", List{2, 2})}));
  expect_same(g, 2e-5);
}

}  // namespace
}  // namespace ctxgen::testing
