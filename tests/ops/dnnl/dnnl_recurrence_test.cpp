#include <format>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

// LinearAttention and CausalConvWithState in both domains, against the CPU kernels.
namespace ctxgen::testing {
namespace {

constexpr const char* kContrib = "com.microsoft";

struct LinearCase {
  std::string rule = "gated_delta", domain = {};
  std::int64_t heads = 4, states = 2, steps = 5;
  bool past = true, per_row = false, unused_gates = false;
  std::size_t outputs = 2;
};

/// Size 8, width 12, two images.
std::string add_linear(TestGraph& g, const LinearCase& c, std::vector<Attribute> more = {}) {
  const auto input = [&](const std::string& name, std::int64_t width) {
    return g.input(name, {2, c.steps, width});
  };
  const bool decays = c.rule.starts_with("gated"), corrects = c.rule.ends_with("delta");
  std::vector<std::string> inputs{
      input("q", c.heads * 8), input("k", c.states * 8), input("v", c.states * 12), "", "", ""};
  if (c.past) inputs[3] = g.input("past", {2, c.states, 8, 12});
  if (decays || c.unused_gates) inputs[4] = input("decay", c.states * (c.per_row ? 8 : 1));
  if (corrects || c.unused_gates) inputs[5] = input("beta", c.states);
  std::vector<Attribute> attributes{attr("q_num_heads", c.heads), attr("kv_num_heads", c.states),
                                    attr("update_rule", c.rule)};
  for (Attribute& each : more) attributes.push_back(std::move(each));
  const std::string y =
      c.domain.empty() ? g.add("LinearAttention", inputs, attributes, c.outputs)
                       : g.add_in(c.domain, "LinearAttention", inputs, attributes, 1, c.outputs);
  const std::string stem = y.substr(0, y.size() - 1);
  for (std::size_t i = 0; i < c.outputs; ++i) g.output(stem + std::to_string(i));
  return y;
}

void expect_linear(const LinearCase& c) {
  SCOPED_TRACE(std::format("{} {} heads, {} states, {} steps {} {}", c.rule, c.heads, c.states,
                           c.steps, c.past, c.per_row));
  TestGraph g(27);
  add_linear(g, c);
  expect_same(g, 2e-5);
}

TEST(DnnlRecurrence, LinearAttention) {
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"})
    for (const std::int64_t steps : {1, 5})
      for (const bool past : {false, true}) {
        expect_linear({.rule = rule, .steps = steps, .past = past});
        expect_linear({.rule = rule, .domain = kContrib, .steps = steps, .past = past});
      }
  expect_linear({.per_row = true});
  expect_linear({.outputs = 1});
  expect_linear({.domain = kContrib, .heads = 2, .states = 6});
  expect_linear({.rule = "linear", .domain = kContrib, .unused_gates = true});
}

TEST(DnnlRecurrence, LinearAttentionWithUnknownSizes) {
  TestGraph g(27);
  add_linear(g, {});
  for (const char* name : {"q", "k", "v", "decay", "beta"})
    g.set_dims(name, {"batch", "steps", ""});
  g.set_dims("past", {"batch", "", "", ""});
  expect_same(g, 2e-5);
}

struct CausalCase {
  std::string activation = "silu", domain = {};
  std::int64_t length = 5, taps = 4;
  bool bias = true, past = true;
  std::size_t outputs = 2;
};

void add_causal(TestGraph& g, const CausalCase& c) {
  const std::vector<std::string> inputs{g.input("x", {2, 20, c.length}),
                                        g.constant({20, 1, c.taps}), c.bias ? g.constant({20}) : "",
                                        c.past ? g.input("past", {2, 20, c.taps - 1}) : ""};
  const std::vector<Attribute> attributes{attr("activation", c.activation)};
  const std::string y =
      c.domain.empty()
          ? g.add("CausalConvWithState", inputs, attributes, c.outputs)
          : g.add_in(c.domain, "CausalConvWithState", inputs, attributes, 1, c.outputs);
  const std::string stem = y.substr(0, y.size() - 1);
  for (std::size_t i = 0; i < c.outputs; ++i) g.output(stem + std::to_string(i));
}

TEST(DnnlRecurrence, CausalConvolutions) {
  for (const char* activation : {"none", "silu", "swish"})
    for (const std::int64_t length : {1, 2, 40})
      for (const std::int64_t taps : {2, 4})
        for (const bool given : {false, true})
          for (const char* domain : {"", kContrib}) {
            SCOPED_TRACE(std::format("{} {} {} {} {}", activation, length, taps, given, domain));
            TestGraph g(27);
            add_causal(g, {.activation = activation,
                           .domain = domain,
                           .length = length,
                           .taps = taps,
                           .bias = given,
                           .past = given});
            expect_same(g);
          }
  TestGraph g(27);
  add_causal(g, {.outputs = 1});
  expect_same(g);
}

TEST(DnnlRecurrence, CausalConvolutionsOfUnknownLength) {
  TestGraph g(27);
  add_causal(g, {});
  g.set_dims("x", {"batch", "", "length"});
  g.set_dims("past", {"batch", "", ""});
  expect_same(g);
}

// Windows of states stay on the CPU provider, which refuses them too.
TEST(DnnlRecurrence, OtherFormsAreRefused) {
  const auto reason = [](const std::string& op, const Dims& dims,
                         std::vector<Attribute> attributes) {
    TestGraph g(27);
    const std::string x = g.input("x", dims);
    const std::string w = g.constant({6, 1, 4});
    g.output(g.add_in(kContrib, op, {x, w}, std::move(attributes), 1, 2));
    const auto capabilities = onednn::make_provider()->capabilities(g.view());
    EXPECT_TRUE(capabilities && capabilities->claims.empty());
    return capabilities && !capabilities->rejections.empty() ? capabilities->rejections[0].reason
                                                             : std::string();
  };
  EXPECT_EQ(reason("CausalConvWithState", {2, 6, 5}, {attr("dilation", 2)}), "dilation 2");
  EXPECT_EQ(reason("CausalConvWithState", {2, 5, 6}, {attr("channels_last", 1)}), "channels_last");
}

}  // namespace
}  // namespace ctxgen::testing
