// Memory that kernels take is the run's, so that the run can bound it.

#include <gtest/gtest.h>

#include <memory>

#include "build_node.h"
#include "forwarding_context.h"
#include "vector_context.h"

namespace ctxgen::cpu {
namespace {

/// Counts the tensors that a kernel makes beside its outputs.
class CountingContext final : public ForwardingContext {
 public:
  using ForwardingContext::ForwardingContext;
  [[nodiscard]] Result<Tensor> make_tensor(DataType type, const Dims& dims) override {
    ++made;
    return ForwardingContext::make_tensor(type, dims);
  }
  int made = 0;
};

int tensors_made(const Node& node, std::vector<std::optional<Tensor>> inputs) {
  const auto kernel = make_kernel(node).value();
  VectorContext outputs(node, std::move(inputs));
  CountingContext context(outputs);
  const auto status = kernel->run(context);
  EXPECT_TRUE(status) << status.error().message;
  return context.made;
}

Tensor of_type(DataType type, const Dims& dims) {
  Tensor tensor = Tensor::allocate(type, dims).value();
  std::ranges::fill(tensor.mutable_bytes(), std::byte{0});
  return tensor;
}

TEST(KernelMemory, KernelsInsideOfKernelsTakeItFromTheRun) {
  const Tensor half = of_type(DataType::kFloat16, {2, 2});
  // MatMul in it widens both, and its output.
  EXPECT_EQ(tensors_made(make_node("FusedMatMul", 1, 1, "com.microsoft"), {half, half}), 3);
  Node transposed = make_node("FusedMatMul", 1, 1, "com.microsoft");
  set_int(transposed, "transA", 1);
  EXPECT_EQ(tensors_made(transposed, {half, half}), 4);
  Node gemm = make_node("FusedGemm", 1, 1, "com.microsoft");
  set_string(gemm, "activation", "Relu");
  EXPECT_EQ(tensors_made(gemm, {half, half}), 3);
}

TEST(KernelMemory, CastsThroughAnotherTypeTakeItFromTheRun) {
  const auto made = [](DataType from, DataType to) {
    Node node = make_node("Cast", 23);
    set_int(node, "to", static_cast<std::int64_t>(to));
    return tensors_made(node, {of_type(from, {4})});
  };
  EXPECT_EQ(made(DataType::kFloat8E5M2, DataType::kFloat), 0);
  EXPECT_EQ(made(DataType::kFloat8E5M2, DataType::kFloat16), 1);
  EXPECT_EQ(made(DataType::kFloat16, DataType::kFloat8E5M2), 1);
  EXPECT_EQ(made(DataType::kFloat8E5M2, DataType::kInt4), 2);
  EXPECT_EQ(made(DataType::kFloat8E8M0, DataType::kFloat8E5M2), 1);
  EXPECT_EQ(made(DataType::kInt4, DataType::kInt4), 0);
}

}  // namespace
}  // namespace ctxgen::cpu
