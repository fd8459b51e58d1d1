#include <algorithm>
#include <cmath>
#include <format>
#include <limits>

#include <gmock/gmock.h>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

// Attention with a past, node by node as exporters write it, against the CPU kernels of those nodes.
namespace ctxgen::testing {
namespace {

using ::testing::StartsWith;

constexpr float kLowest = std::numeric_limits<float>::lowest();

enum class Scale { kMul, kDiv, kQuery, kBoth, kNone };
enum class Mask {
  kNone,
  kFull,
  kKeys,
  kCut,
  kHeads,
  kSized,
  kPositions,
  kZeros,
  kPlaces
};  // kSized: made of the number of keys; kPositions: and a mask, as T5's; kZeros: and a mask; kPlaces: compared

struct Chain {
  std::int64_t batch = 2, heads = 4, kv_heads = 2, size = 8, tokens = 3, past = 5;
  Scale scale = Scale::kMul;
  Mask mask = Mask::kFull;
  bool causal = false;     // by a Where of a triangle
  float hidden = kLowest;  // of the triangle
  bool symbolic = true;
  bool minus_one = false;     // the Expand's -1 is replaced by a Where
  std::int64_t shift = 0;     // of its first row
  bool upper = false;         // the wrong triangle
  bool crossed = false;       // without a past: keys and values are inputs
  bool alike = false;         // of which there are as many as queries
  bool shares_sizes = false;  // a node after it reads the size of what only the chain has
  bool shares_bias = false;   // and another the bias
  std::int64_t late = 0;      // positions of queries begin so much later
  bool of_present = false;    // places of keys are those of the present, not of past and new ones
};

class ChainGraph {
 public:
  explicit ChainGraph(const Chain& form) : g(17), form_(form) {}

  void build() {
    const std::string q = g.input("q", {form_.batch, form_.heads, form_.tokens, form_.size});
    if (form_.symbolic) g.set_dims(q, {"batch", "", "tokens", ""});
    const std::string key = present("key"), value = present("value");
    keys_ = repeated(key);
    const std::string values = repeated(value);
    std::string left = q, right = g.add("Transpose", {keys_}, {attr("perm", List{0, 1, 3, 2})});
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(form_.size)));
    if (form_.scale == Scale::kQuery) left = scaled("Mul", left, factor);
    if (form_.scale == Scale::kBoth) {
      left = scaled("Mul", left, std::sqrt(factor));
      right = scaled("Mul", right, std::sqrt(factor));
    }
    std::string logits = g.add("MatMul", {left, right});
    if (form_.scale == Scale::kMul) logits = scaled("Mul", logits, factor);
    if (form_.scale == Scale::kDiv) logits = scaled("Div", logits, 1 / factor);
    if (form_.causal)
      logits =
          g.add("Where", {triangle(q), logits, g.constant({}, std::vector<float>{form_.hidden})});
    if (form_.mask != Mask::kNone) {
      const std::string bias = mask();
      logits = g.add("Add", {logits, bias});
      if (form_.shares_bias) g.output(g.add("Neg", {bias}));
    }
    const std::string weights = g.add("Softmax", {logits}, {attr("axis", -1)});
    result = g.add("MatMul", {weights, values});
    g.output(result);
    if (form_.shares_sizes)
      g.output(g.add("Slice", {result, g.ints({0}), size_of(keys_, 2), g.ints({2}), g.ints({1})}));
    if (form_.crossed) return;
    g.output(key);
    g.output(value);
  }

  TestGraph g;
  std::string result;

 private:
  [[nodiscard]] const char* keys_name() const { return form_.alike ? "tokens" : "total"; }
  std::string scaled(const char* op, const std::string& value, float factor) {
    return g.add(op, {value, g.constant({}, std::vector<float>{factor})});
  }
  std::string size_of(const std::string& value, std::int64_t axis) {
    return g.add("Gather", {g.add("Shape", {value}), g.ints({axis})}, {attr("axis", 0)});
  }
  std::string present(const std::string& name) {
    if (form_.crossed) {
      const std::string encoded =
          g.input(name, {form_.batch, form_.kv_heads, form_.past + form_.tokens, form_.size});
      if (form_.symbolic) g.set_dims(encoded, {"batch", "", keys_name(), ""});
      return encoded;
    }
    const std::string past =
        g.input("past_" + name, {form_.batch, form_.kv_heads, form_.past, form_.size});
    const std::string added =
        g.input(name, {form_.batch, form_.kv_heads, form_.tokens, form_.size});
    if (form_.symbolic) {
      g.set_dims(past, {"batch", "", "past", ""});
      g.set_dims(added, {"batch", "", "tokens", ""});
    }
    const std::string made = g.add("Concat", {past, added}, {attr("axis", -2)});
    if (form_.symbolic) g.set_dims(made, {"batch", "", keys_name(), ""});
    return made;
  }
  std::string repeated(const std::string& value) {
    const std::int64_t copies = form_.heads / form_.kv_heads;
    if (copies == 1) return value;
    const std::string lifted = g.add("Unsqueeze", {value, g.ints({2})});
    const std::string batch = size_of(value, 0), length = size_of(value, 2);
    std::string shape = g.add("Concat",
                              {batch, g.ints({form_.minus_one ? -1 : form_.kv_heads}),
                               g.ints({copies}), length, g.ints({form_.size})},
                              {attr("axis", 0)});
    if (form_.minus_one) {
      const std::string ones = g.ints({1, 1, 1, 1, 1}), minus = g.ints({-1, -1, -1, -1, -1});
      shape = g.add("Where", {g.add("Equal", {shape, minus}), ones, shape});
    }
    const std::string wide = g.add("Expand", {lifted, shape});
    if (form_.symbolic) {
      g.set_dims(lifted, {"batch", "", "", keys_name(), ""});
      g.set_dims(wide, {"batch", "", "", keys_name(), ""});
    }
    const std::string flat =
        g.add("Reshape",
              {wide, g.add("Concat", {batch, g.ints({form_.heads}), length, g.ints({form_.size})},
                           {attr("axis", 0)})});
    if (form_.symbolic) g.set_dims(flat, {"batch", "", keys_name(), ""});
    return flat;
  }
  std::string triangle(const std::string& q) {
    constexpr std::int64_t kContext = 40;
    Tensor lower = Tensor::allocate(DataType::kBool, {1, 1, kContext, kContext}).value();
    for (std::int64_t i = 0; i < kContext * kContext; ++i)
      lower.mutable_bytes()[static_cast<std::size_t>(i)] =
          std::byte{(i % kContext <= i / kContext) != form_.upper};
    const std::string total = size_of(keys_, 2);
    std::string first = g.add("Sub", {total, size_of(q, 2)});
    std::string end = total;
    if (form_.shift != 0) {
      first = g.add("Add", {first, g.ints({form_.shift})});
      end = g.add("Add", {end, g.ints({form_.shift})});
    }
    const std::string step = g.ints({1});
    const std::string rows =
        g.add("Slice", {g.tensor_constant(std::move(lower)), first, end, g.ints({2}), step});
    if (form_.symbolic) g.set_dims(rows, {"", "", "tokens", ""});
    const std::string cut = g.add("Slice", {rows, g.ints({0}), total, g.ints({3}), step});
    if (form_.symbolic) g.set_dims(cut, {"", "", "tokens", keys_name()});
    return cut;
  }
  /// The number of keys, less each one's place.
  std::string sized_mask() {
    const std::string keys = g.add("Squeeze", {size_of(keys_, 2), g.ints({0})});
    const std::string places = g.add("Range", {g.int_tensor({}, {0}), keys, g.int_tensor({}, {1})});
    return g.add("Cast", {g.add("Sub", {places, keys})}, {attr("to", 1)});
  }
  std::string range_of(const std::string& value) {
    const std::string count = g.add("Squeeze", {size_of(value, 2), g.ints({0})});
    return g.add("Range", {g.int_tensor({}, {0}), count, g.int_tensor({}, {1})});
  }
  std::string places_of(const std::string& value, std::int64_t axis) {
    return g.add("Unsqueeze", {range_of(value), g.ints({axis})});
  }
  std::string number(float value) { return g.constant({}, std::vector<float>{value}); }
  /// By the distance of each key, in 8 buckets: from 16 on all are in the last.
  std::string positions(const std::string& mask) {
    std::string past = g.add("Squeeze", {size_of("past_key", 2), g.ints({0})});
    if (form_.late != 0) past = g.add("Add", {past, g.int_tensor({}, {form_.late})});
    const std::string queries = g.add("Add", {places_of("q", 1), past});
    const std::string relative = g.add("Sub", {places_of(keys_, 0), queries});
    const std::string distance = g.add("Neg", {g.add("Min", {relative, g.int_tensor({}, {0})})});
    std::string far = g.add("Div", {g.add("Cast", {distance}, {attr("to", 1)}), number(4)});
    far = g.add("Div", {g.add("Log", {far}), number(std::log(4.0F))});
    far = g.add("Cast", {g.add("Mul", {far, number(4)})}, {attr("to", 7)});
    far = g.add("Min", {g.add("Add", {far, g.int_tensor({}, {4})}), g.int_tensor({}, {7})});
    const std::string bucket =
        g.add("Where", {g.add("Less", {distance, g.int_tensor({}, {4})}), distance, far});
    const std::string table = g.constant({8, form_.heads}, -3, 3);
    const std::string rows =
        g.add("Transpose", {g.add("Gather", {table, bucket})}, {attr("perm", List{2, 0, 1})});
    return g.add("Add", {g.add("Unsqueeze", {rows, g.ints({0})}), mask});
  }
  /// Keys up to the query's place, without the first one of the first sequence.
  std::string compared_places() {
    std::string past = g.add("Squeeze", {size_of("past_key", 2), g.ints({0})});
    if (form_.late != 0) past = g.add("Add", {past, g.int_tensor({}, {form_.late})});
    const std::string queries =
        g.add("Unsqueeze", {g.add("Add", {range_of("q"), past}), g.ints({0, 1, 3})});
    const std::string total = form_.of_present
                                  ? size_of(keys_, 2)
                                  : g.add("Add", {size_of("past_key", 2), size_of("key", 2)});
    const std::string range = g.add(
        "Range",
        {g.int_tensor({}, {0}), g.add("Squeeze", {total, g.ints({0})}), g.int_tensor({}, {1})});
    const std::string keys = g.add("Unsqueeze", {range, g.ints({0, 1, 2})});
    Tensor kept =
        Tensor::allocate(DataType::kBool, {form_.batch, 1, 1, form_.past + form_.tokens}).value();
    std::ranges::fill(kept.mutable_bytes(), std::byte{1});
    kept.mutable_bytes()[0] = std::byte{0};
    const std::string kept_input = g.tensor_input("kept", std::move(kept));
    if (form_.symbolic) g.set_dims(kept_input, {"batch", "", "", keys_name()});
    const std::string both = g.add("And", {g.add("LessOrEqual", {keys, queries}), kept_input});
    const float none = -std::numeric_limits<float>::infinity();
    return g.add("Where", {both, number(0), number(none)});
  }
  std::string zeros(const std::string& mask) {
    const std::string shape =
        g.add("Concat", {g.ints({1}), g.ints({form_.heads}), size_of("q", 2), size_of(keys_, 2)},
              {attr("axis", 0)});
    return g.add("Add", {g.add("ConstantOfShape", {shape}), mask});
  }
  std::string mask() {
    if (form_.mask == Mask::kSized) return sized_mask();
    if (form_.mask == Mask::kPositions) return positions(plain_mask());
    if (form_.mask == Mask::kZeros) return zeros(plain_mask());
    if (form_.mask == Mask::kPlaces) return compared_places();
    return plain_mask();
  }
  std::string plain_mask() {
    const std::int64_t keys = form_.past + form_.tokens;
    const bool cut = form_.mask >= Mask::kCut && form_.mask != Mask::kHeads;
    const bool full = form_.mask == Mask::kFull || cut;
    const std::int64_t heads = form_.mask == Mask::kHeads ? form_.heads : 1;
    const std::int64_t columns = keys + (cut ? 4 : 0);
    const std::int64_t rows = full || heads > 1 ? form_.tokens : 1;
    Tensor bias = Tensor::allocate(DataType::kFloat, {form_.batch, heads, rows, columns}).value();
    for (std::size_t i = 0; float& one : bias.mutable_elements<float>())
      one = std::sin(0.7F * static_cast<float>(i++));
    // The last sequence begins with what is hidden from all, and whole rows where there are rows.
    const std::int64_t hidden = form_.mask == Mask::kKeys ? form_.past + 1 : keys;
    for (std::int64_t k = 0; k < hidden; ++k)
      bias.mutable_elements<float>()[static_cast<std::size_t>(
          (form_.batch - 1) * heads * rows * columns + k)] = kLowest;
    std::string made = g.tensor_input("mask", std::move(bias));
    if (form_.symbolic)
      g.set_dims(made, {"batch", "", rows == 1 ? "" : "tokens", cut ? "longer" : keys_name()});
    if (!cut) return made;
    return g.add("Slice", {made, g.ints({0}), size_of(keys_, 2), g.ints({3}), g.ints({1})});
  }

  const Chain form_;
  std::string keys_;
};

/// Expects the CPU's results, and one op.
void expect_attention(const Chain& form) {
  ChainGraph chain(form);
  chain.build();
  Program program;
  const std::vector<Tensor> results = compiled_results(chain.g, &program);
  EXPECT_THAT(summary(program), ::testing::ElementsAre(StartsWith("attention")));
  ASSERT_EQ(results.size(), form.crossed ? 1 : 3);
  EXPECT_LE(difference(results[0], chain.g.value(chain.result)), 2e-5);
}

/// How many nodes are taken together with the Softmax.
std::size_t taken_with_softmax(const Chain& form) {
  ChainGraph chain(form);
  chain.build();
  const Graph& graph = chain.g.model.graph;
  const auto capabilities = onednn::make_provider()->capabilities(chain.g.view());
  for (const Claim& claim : capabilities.value().claims)
    if (std::ranges::any_of(claim.nodes,
                            [&](NodeId id) { return graph.node(id).op_type == "Softmax"; }))
      return claim.nodes.size();
  return 0;
}

TEST(DnnlAttentionChain, ScalesAndMasks) {
  for (const Scale scale : {Scale::kMul, Scale::kDiv, Scale::kQuery, Scale::kBoth, Scale::kNone})
    for (const Mask mask : {Mask::kNone, Mask::kFull, Mask::kKeys, Mask::kCut, Mask::kHeads}) {
      SCOPED_TRACE(
          std::format("scale {}, mask {}", static_cast<int>(scale), static_cast<int>(mask)));
      expect_attention({.scale = scale, .mask = mask});
    }
}

TEST(DnnlAttentionChain, HeadsThatShareKeys) {
  for (const std::int64_t kv_heads : {1, 2, 4})
    for (const bool minus_one : {false, true})
      for (const std::int64_t tokens : {1, 3, 17}) {
        SCOPED_TRACE(
            std::format("{} heads of keys, {} tokens, -1: {}", kv_heads, tokens, minus_one));
        expect_attention({.kv_heads = kv_heads, .tokens = tokens, .minus_one = minus_one});
      }
}

TEST(DnnlAttentionChain, TrianglesAreCausal) {
  for (const Mask mask : {Mask::kNone, Mask::kKeys, Mask::kCut})
    for (const std::int64_t kv_heads : {2, 4})
      for (const std::int64_t tokens : {1, 3, 12}) {
        SCOPED_TRACE(std::format("mask {}, {} heads of keys, {} tokens", static_cast<int>(mask),
                                 kv_heads, tokens));
        expect_attention(
            {.kv_heads = kv_heads, .tokens = tokens, .past = 2, .mask = mask, .causal = true});
      }
}

TEST(DnnlAttentionChain, OtherTrianglesAreLeft) {
  const Chain causal{.kv_heads = 4, .mask = Mask::kNone, .causal = true};
  EXPECT_GT(taken_with_softmax(causal), 1);
  for (const auto& change : {+[](Chain& c) { c.upper = true; }, +[](Chain& c) { c.shift = 1; },
                             +[](Chain& c) { c.hidden = -100.0F; }}) {
    Chain form = causal;
    change(form);
    EXPECT_EQ(taken_with_softmax(form), 1);
  }
}

TEST(DnnlAttentionChain, TrianglesWithoutAPast) {
  for (const Mask mask : {Mask::kNone, Mask::kKeys, Mask::kCut})
    for (const std::int64_t tokens : {1, 3, 30}) {
      SCOPED_TRACE(std::format("mask {}, {} tokens", static_cast<int>(mask), tokens));
      Chain form{.tokens = tokens,
                 .past = 0,
                 .mask = mask,
                 .causal = true,
                 .crossed = true,
                 .alike = true};
      expect_attention(form);
      // More keys than queries: the last row is that of the last key.
      form.past = 7;
      form.alike = false;
      expect_attention(form);
    }
  EXPECT_EQ(taken_with_softmax({.mask = Mask::kNone, .causal = true, .shift = 1, .crossed = true}),
            1);
}

TEST(DnnlAttentionChain, SizesThatOthersReadKeepTheNodes) {
  Chain form{.mask = Mask::kNone};
  EXPECT_GT(taken_with_softmax(form), 1);
  form.shares_sizes = true;
  EXPECT_EQ(taken_with_softmax(form), 1);
}

TEST(DnnlAttentionChain, KeysOfAnyNumberWithoutAPast) {
  for (const Mask mask : {Mask::kNone, Mask::kFull, Mask::kKeys, Mask::kHeads})
    for (const std::int64_t kv_heads : {2, 4})
      for (const std::int64_t tokens : {1, 3}) {
        SCOPED_TRACE(std::format("mask {}, {} heads of keys, {} tokens", static_cast<int>(mask),
                                 kv_heads, tokens));
        expect_attention({.kv_heads = kv_heads, .tokens = tokens, .mask = mask, .crossed = true});
      }
  EXPECT_EQ(taken_with_softmax({.kv_heads = 4, .symbolic = false, .crossed = true}), 1);
}

TEST(DnnlAttentionChain, BiasesOfTheSizeOfThePresent) {
  // Transpose, MatMul, Mul, Add, Softmax, MatMul: not the Concats, which the bias needs before them.
  EXPECT_EQ(taken_with_softmax({.kv_heads = 4, .mask = Mask::kSized}), 6);
  EXPECT_EQ(taken_with_softmax({.kv_heads = 4, .mask = Mask::kFull}), 8);
}

TEST(DnnlAttentionChain, BiasesOfPositionsAreMadeByTheOp) {
  for (const std::int64_t past : {1, 5, 40})
    for (const std::int64_t kv_heads : {2, 4})
      for (const std::int64_t tokens : {1, 3, 40}) {
        SCOPED_TRACE(std::format("{} past, {} heads of keys, {} tokens", past, kv_heads, tokens));
        expect_attention(
            {.kv_heads = kv_heads, .tokens = tokens, .past = past, .mask = Mask::kPositions});
      }
  for (const bool crossed : {false, true})
    expect_attention({.kv_heads = 4, .mask = Mask::kZeros, .crossed = crossed});
}

/// tests/e2e/test_exported_decoders.py has the numbers: nodes before these masks are not compiled.
TEST(DnnlAttentionChain, ComparedPlacesAreCausal) {
  for (const std::int64_t kv_heads : {2, 4}) {
    const Chain form{.kv_heads = kv_heads, .mask = Mask::kPlaces};
    Chain late = form;
    late.late = 1;
    EXPECT_EQ(taken_with_softmax(form), taken_with_softmax(late) + 2);  // LessOrEqual, And
    // The mask has to be made after the present and before the rest: it is a value of others.
    Chain later = form;
    later.of_present = true;
    EXPECT_LT(taken_with_softmax(later), taken_with_softmax(late));
  }
}

TEST(DnnlAttentionChain, BiasesThatOthersReadAreValues) {
  const Chain form{.kv_heads = 4, .mask = Mask::kPositions};
  EXPECT_GT(taken_with_softmax(form), 25);
  Chain shared = form;
  shared.shares_bias = true;
  EXPECT_LT(taken_with_softmax(shared), 25);
  Chain late = form;
  late.late = 1;
  EXPECT_LT(taken_with_softmax(late), 25);
}

TEST(DnnlAttentionChain, FixedSizes) {
  expect_attention({.kv_heads = 4, .mask = Mask::kFull, .symbolic = false});
  expect_attention({.kv_heads = 2, .mask = Mask::kCut, .symbolic = false});
}

}  // namespace
}  // namespace ctxgen::testing
