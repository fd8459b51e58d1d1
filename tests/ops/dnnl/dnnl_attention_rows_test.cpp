#include <cmath>
#include <format>

#include <gmock/gmock.h>

#include "reference.h"

// Attention of encoders, node by node from the rows of projections and back to rows, against the CPU kernels of those nodes.
namespace ctxgen::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::StartsWith;

struct Encoder {
  std::int64_t batch = 2, heads = 3, size = 8, queries = 40, keys = 200;
  bool at_once = true;      // keys are turned by one Transpose
  bool masked = false;      // by keys, of each sequence
  bool scaled = false;      // queries and keys, else logits
  bool read_twice = false;  // rows of keys in heads are an output, too
  bool stays = false;       // the result stays in heads
};

class EncoderGraph {
 public:
  explicit EncoderGraph(const Encoder& form) : g(17), form_(form) {
    const std::string q = turned("q", form.queries, {0, 2, 1, 3});
    std::string k = turned("k", form.keys, form.at_once ? List{0, 2, 3, 1} : List{0, 2, 1, 3});
    if (!form.at_once) k = g.add("Transpose", {k}, {attr("perm", List{0, 1, 3, 2})});
    const std::string v = turned("v", form.keys, {0, 2, 1, 3});
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(form.size)));
    const std::string root = g.constant({}, std::vector<float>{std::sqrt(factor)});
    std::string logits = form.scaled
                             ? g.add("MatMul", {g.add("Mul", {q, root}), g.add("Mul", {k, root})})
                             : g.add("Div", {g.add("MatMul", {q, k}),
                                             g.constant({}, std::vector<float>{1 / factor})});
    if (form.masked) logits = g.add("Add", {logits, mask()});
    const std::string weights = g.add("Softmax", {logits}, {attr("axis", -1)});
    result = g.add("MatMul", {weights, v});
    if (!form.stays) {
      result = g.add("Transpose", {result}, {attr("perm", List{0, 2, 1, 3})});
      result = g.add("Reshape", {result, g.ints({0, 0, form.heads * form.size})});
    }
    g.output(result);
    if (form.read_twice) g.output(split_);
  }

  TestGraph g;
  std::string result;

 private:
  std::string turned(const std::string& name, std::int64_t rows, const List& perm) {
    const std::string flat = g.input(name, {form_.batch, rows, form_.heads * form_.size});
    split_ = g.add("Reshape", {flat, g.ints({0, 0, form_.heads, form_.size})});
    return g.add("Transpose", {split_}, {attr("perm", perm)});
  }
  /// The last sequence has 60 keys, the others all.
  std::string mask() {
    Tensor bias = Tensor::allocate(DataType::kFloat, {form_.batch, 1, 1, form_.keys}).value();
    for (std::int64_t i = 0; float& one : bias.mutable_elements<float>())
      one = i++ >= (form_.batch - 1) * form_.keys + 60 ? -1e4F : 0.0F;
    return g.tensor_input("mask", std::move(bias));
  }

  const Encoder form_;
  std::string split_;
};

std::vector<std::string> ops_of(const Encoder& form) {
  EncoderGraph encoder(form);
  Program program;
  const std::vector<Tensor> results = compiled_results(encoder.g, &program);
  EXPECT_LE(difference(results[0], encoder.g.value(encoder.result)), 2e-5);
  return summary(program);
}

TEST(DnnlAttentionRows, OfManyKeysAreOneOp) {
  for (const bool at_once : {true, false})
    for (const bool masked : {true, false})
      for (const bool scaled : {true, false})
        for (const std::int64_t queries : {1, 40, 200}) {
          SCOPED_TRACE(std::format("at once {}, masked {}, scaled {}, {} queries", at_once, masked,
                                   scaled, queries));
          EXPECT_THAT(
              ops_of({.queries = queries, .at_once = at_once, .masked = masked, .scaled = scaled}),
              ElementsAre(StartsWith("attention")));
        }
}

TEST(DnnlAttentionRows, OfFewKeysAreProducts) {
  EXPECT_THAT(ops_of({.keys = 100}), Each(Not(StartsWith("attention"))));
  EXPECT_THAT(ops_of({.keys = 100, .at_once = false}), Each(Not(StartsWith("attention"))));
}

TEST(DnnlAttentionRows, RowsThatOthersReadStay) {
  EXPECT_THAT(ops_of({.at_once = true, .read_twice = true}), Each(Not(StartsWith("attention"))));
  EXPECT_THAT(ops_of({.at_once = false, .stays = true}),
              ::testing::Contains(StartsWith("attention")));
  EXPECT_THAT(ops_of({.at_once = true, .stays = true}), Each(Not(StartsWith("attention"))));
}

}  // namespace
}  // namespace ctxgen::testing
