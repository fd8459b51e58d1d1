// Operators of opsets 26 and 27, and mixtures of experts: attributes and shapes that they must refuse.
// Results are compared by tests/ops.

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

Tensor zeros(const Dims& dims) {
  return floats(dims, std::vector<float>(static_cast<std::size_t>(element_count(dims))));
}
Tensor bytes(const Dims& dims) {
  return tensor<std::uint8_t>(
      dims, std::vector<std::uint8_t>(static_cast<std::size_t>(element_count(dims))));
}

Node bit_cast(std::int64_t to) {
  Node node = make_node("BitCast", 26);
  set_int(node, "to", to);
  return node;
}

TEST(RecentNodes, BitsOfAnotherWidth) {
  EXPECT_EQ(code_of(make_node("BitCast", 26), {zeros({2})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(bit_cast(7), {zeros({2})}), ErrorCode::kInvalidGraph) << "int64";
  EXPECT_EQ(code_of(bit_cast(8), {zeros({2})}), ErrorCode::kInvalidGraph) << "string";
  EXPECT_EQ(code_of(bit_cast(0), {zeros({2})}), ErrorCode::kUnsupported) << "undefined";
  EXPECT_EQ(code_of(bit_cast(6), {Tensor::of_strings({1}, {"abcd"})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(bit_cast(kHuge), {zeros({2})}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(bit_cast(6), {zeros({0})}), ErrorCode::kInternal) << "it runs";
}

TEST(RecentNodes, ProductsAlongAnAxisThatIsNotThere) {
  const Node node = make_node("CumProd", 26);
  EXPECT_EQ(code_of(node, {zeros({2, 3}), ints({}, {2})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {zeros({2, 3}), ints({}, {INT64_MIN})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {zeros({2, 3}), ints({2}, {0, 1})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {zeros({2, 3})}), ErrorCode::kInvalidGraph);
}

TEST(RecentNodes, RangesInATypeThatIsNotKnown) {
  Node node = make_node("Range", 27);
  set_int(node, "stash_type", 6);
  const Tensor half = tensor<std::uint16_t>({}, {0x3C00});
  const Tensor one = Tensor::borrow(DataType::kFloat16, {}, half.owner(), half.bytes());
  EXPECT_EQ(code_of(node, {one, one, one}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(node, {ints({}, {0}), ints({}, {kHuge}), ints({}, {1})}),
            ErrorCode::kInvalidGraph);
}

Node linear(std::int64_t q_heads, std::int64_t kv_heads, const char* rule = "linear",
            std::string domain = "") {
  Node node = make_node("LinearAttention", domain.empty() ? 27 : 1, 2, std::move(domain));
  set_int(node, "q_num_heads", q_heads);
  set_int(node, "kv_num_heads", kv_heads);
  set_string(node, "update_rule", rule);
  return node;
}

TEST(RecentNodes, HeadsOfLinearAttention) {
  const Tensor x = zeros({1, 2, 12});
  for (const auto& [q, kv] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 1}, {1, 0}, {-1, -1}, {3, 2}, {1, 2}, {kHuge, 1}, {kHuge, kHuge}})
    EXPECT_EQ(code_of(linear(q, kv), {x, x, x}), ErrorCode::kInvalidGraph) << q << " " << kv;
  EXPECT_EQ(code_of(linear(5, 5), {x, x, x}), ErrorCode::kInvalidGraph) << "12 / 5";
  const Node shared = linear(2, 2, "linear", "com.microsoft");
  EXPECT_EQ(code_of(shared, {x, zeros({1, 2, 6}), x}), ErrorCode::kInternal) << "it runs";
  EXPECT_EQ(code_of(shared, {x, zeros({1, 2, 18}), x}), ErrorCode::kInvalidGraph) << "3 heads";
  EXPECT_EQ(code_of(shared, {x, zeros({1, 2, 0}), x}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(linear(2, 2, "other"), {x, x, x}), ErrorCode::kUnsupported);
  Node window = linear(2, 2, "linear", "com.microsoft");
  set_int(window, "state_window", 2);
  EXPECT_EQ(code_of(window, {x, x, x}), ErrorCode::kUnsupported);
}

TEST(RecentNodes, InputsOfLinearAttention) {
  const Tensor x = zeros({1, 2, 12}), gate = zeros({1, 2, 2});
  const Tensor state = zeros({1, 2, 6, 6});
  const Node plain = linear(2, 2);
  EXPECT_EQ(code_of(plain, {x, x, x, state}), ErrorCode::kInternal) << "it runs";
  EXPECT_EQ(code_of(plain, {x, x, x, zeros({1, 2, 6, 5})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, x, x, zeros({72})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, x, zeros({2, 1, 12})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, zeros({1, 2, 6}), x}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {zeros({2, 12}), x, x}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, x, ints({1, 2, 12}, std::vector<std::int64_t>(24))}),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, x, x, kNone, gate}), ErrorCode::kInvalidGraph) << "no decay";
  EXPECT_EQ(code_of(linear(2, 2, "gated"), {x, x, x}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(linear(2, 2, "delta"), {x, x, x}), ErrorCode::kInvalidGraph);
  const Node both = linear(2, 2, "gated_delta");
  EXPECT_EQ(code_of(both, {x, x, x, kNone, gate, gate}), ErrorCode::kInternal) << "it runs";
  EXPECT_EQ(code_of(both, {x, x, x, kNone, zeros({1, 2, 3}), gate}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(both, {x, x, x, kNone, gate, zeros({1, 1, 2})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(both, {x, x, x, kNone, gate, x}), ErrorCode::kInvalidGraph);
  const Tensor empty = zeros({0, 2, 12});
  EXPECT_EQ(code_of(plain, {empty, empty, empty}), ErrorCode::kInternal) << "it runs";
  const Tensor no_size = zeros({1, 2, 0});
  EXPECT_EQ(code_of(linear(2, 2, "linear", "com.microsoft"), {no_size, no_size, no_size}),
            ErrorCode::kInternal)
      << "it runs";
}

TEST(RecentNodes, CausalConvolutions) {
  const Tensor x = zeros({1, 2, 5}), w = zeros({2, 1, 4});
  const Node plain = make_node("CausalConvWithState", 27, 2);
  EXPECT_EQ(code_of(plain, {x, w}), ErrorCode::kInternal) << "it runs";
  EXPECT_EQ(code_of(plain, {x, zeros({2, 4})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, zeros({3, 1, 4})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, zeros({2, 1, 0})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {zeros({2, 5}), w}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, w, zeros({3})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, w, kNone, zeros({1, 2, 4})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(plain, {x, w, kNone, ints({1, 2, 3}, std::vector<std::int64_t>(6))}),
            ErrorCode::kUnsupported);
  Node activated = plain;
  set_string(activated, "activation", "relu");
  EXPECT_EQ(code_of(activated, {x, w}), ErrorCode::kUnsupported);
  const auto with = [&](const char* name, std::int64_t value) {
    Node node = make_node("CausalConvWithState", 1, 2, "com.microsoft");
    set_int(node, name, value);
    return code_of(node, {x, w});
  };
  EXPECT_EQ(with("dilation", 0), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with("dilation", kHuge), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with("dilation", std::int64_t{1} << 36), ErrorCode::kResourceLimit);
  EXPECT_EQ(with("ndim", 2), ErrorCode::kUnsupported);
  EXPECT_EQ(with("state_window", 1), ErrorCode::kUnsupported);
}

TEST(RecentNodes, MixturesOfExperts) {
  const Tensor x = zeros({3, 8}), router = zeros({3, 2});
  const Tensor first = zeros({2, 6, 8}), second = zeros({2, 8, 6});
  const auto moe = [](std::int64_t k, const char* unit = "relu", std::int64_t fusion = 0) {
    Node node = make_node("MoE", 1, 1, "com.microsoft");
    set_int(node, "k", k);
    set_string(node, "activation_type", unit);
    set_int(node, "swiglu_fusion", fusion);
    return node;
  };
  const auto run_with = [&](const Node& node) {
    return code_of(node, {x, router, first, kNone, second});
  };
  EXPECT_EQ(run_with(moe(2)), ErrorCode::kInternal) << "it runs";
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{3}, kHuge})
    EXPECT_EQ(run_with(moe(k)), ErrorCode::kInvalidGraph) << k;
  EXPECT_EQ(run_with(moe(1, "other")), ErrorCode::kUnsupported);
  EXPECT_EQ(run_with(moe(1, "swiglu", 3)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(moe(1, "swiglu")), ErrorCode::kInvalidGraph) << "no fc3";
  EXPECT_EQ(run_with(moe(1, "swiglu", 1)), ErrorCode::kInvalidGraph) << "fc2 is of 6, not 3";
  Node sparse = moe(2);
  set_int(sparse, "use_sparse_mixer", 1);
  EXPECT_EQ(run_with(sparse), ErrorCode::kUnsupported);
  const Node node = moe(1);
  EXPECT_EQ(code_of(node, {x, zeros({2, 2}), first, kNone, second}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {x, router, zeros({3, 6, 8}), kNone, second}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {x, router, zeros({96}), kNone, second}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {x, router, first, kNone, zeros({2, 6, 8})}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {x, router, first, zeros({6}), second}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {zeros({8}), router, first, kNone, second}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(node, {zeros({0, 8}), zeros({0, 2}), first, kNone, second}),
            ErrorCode::kInternal)
      << "no tokens";
}

TEST(RecentNodes, MixturesOfPackedExperts) {
  const auto qmoe = [](std::int64_t bits, std::int64_t block) {
    Node node = make_node("QMoE", 1, 1, "com.microsoft");
    set_int(node, "expert_weight_bits", bits);
    set_int(node, "block_size", block);
    return node;
  };
  const auto run_with = [](const Node& node, const Tensor& packed, const Tensor& scales,
                           const Tensor& points) {
    std::vector<Tensor> inputs{zeros({3, 32}), zeros({3, 2}), packed, scales,
                               kNone,          packed,        scales};
    inputs.resize(13);
    inputs[11] = points;
    return code_of(node, inputs);
  };
  const Tensor packed = bytes({2, 32, 16}), rows = zeros({2, 32}), blocks = zeros({2, 32, 2});
  EXPECT_EQ(run_with(qmoe(4, 0), packed, rows, kNone), ErrorCode::kInternal) << "it runs";
  EXPECT_EQ(run_with(qmoe(4, 0), packed, rows, bytes({2, 16})), ErrorCode::kInternal) << "it runs";
  EXPECT_EQ(run_with(qmoe(4, 16), packed, blocks, bytes({2, 32, 1})), ErrorCode::kInternal);
  EXPECT_EQ(run_with(qmoe(4, 0), packed, blocks, kNone), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(4, 16), packed, rows, kNone), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(4, 16), packed, blocks, bytes({2, 16})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(4, 16), packed, blocks, bytes({64})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(4, 64), packed, rows, kNone), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(8, 0), packed, rows, kNone), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(4, 0), packed, kNone, kNone), ErrorCode::kInvalidGraph);
  EXPECT_EQ(run_with(qmoe(4, 0), zeros({2, 32, 16}), rows, kNone), ErrorCode::kInvalidGraph);
  for (const std::int64_t bits : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{3}, kHuge})
    EXPECT_EQ(run_with(qmoe(bits, 0), packed, rows, kNone), ErrorCode::kUnsupported) << bits;
  for (const std::int64_t block : {std::int64_t{-16}, std::int64_t{8}, std::int64_t{24}, kHuge})
    EXPECT_EQ(run_with(qmoe(4, block), packed, rows, kNone), ErrorCode::kInvalidGraph) << block;
  Node other = qmoe(4, 0);
  set_string(other, "quant_type", "fp4");
  EXPECT_EQ(run_with(other, packed, rows, kNone), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ctxgen::cpu
