#include "ctxgen/cpu/kernel.h"

#include <new>
#include <stdexcept>
#include <string>

#include "kernel/stop.h"
#include "kernel/vector_context.h"

namespace ctxgen::cpu {
namespace {

// Adds the node to the errors of its kernel, and turns memory that runs out into an error.
class NodeKernel final : public Kernel {
 public:
  NodeKernel(std::string description, std::unique_ptr<Kernel> kernel)
      : description_(std::move(description)), kernel_(std::move(kernel)) {}

  [[nodiscard]] Status run(KernelContext& context) const override {
    const ScratchScope scope(context.scratch());
    const StopScope stop(context.stop());
    Status status;
    try {
      status = kernel_->run(context);
    } catch (const std::bad_alloc&) {
      status = fail(ErrorCode::kResourceLimit, "out of memory");
    } catch (const std::length_error&) {
      status = fail(ErrorCode::kResourceLimit, "out of memory");
    }
    if (stop.seen()) status = fail(ErrorCode::kCancelled, "the run was stopped");
    if (!status) return std::unexpected(with_context(std::move(status).error(), description_));
    return {};
  }
  [[nodiscard]] bool takes_values() const override { return kernel_->takes_values(); }

 private:
  std::string description_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

const RuntimeValue* KernelContext::value(std::size_t) const { return nullptr; }

RuntimeValue KernelContext::take(std::size_t index) {
  const RuntimeValue* found = value(index);
  return found != nullptr ? *found : RuntimeValue();
}

void KernelContext::set_value(std::size_t index, RuntimeValue value) {
  if (value.is_tensor()) set_output(index, std::move(value.tensor()));
}

Result<ScratchVector<RuntimeValue>> KernelContext::run_body(const Graph& graph,
                                                            std::span<RuntimeValue>) {
  return fail(ErrorCode::kUnsupported, "graph \"{}\" cannot be run here", graph.name);
}

Result<Tensor> KernelContext::make_tensor(DataType type, const Dims& dims) {
  return Tensor::allocate(type, dims);
}

Result<std::unique_ptr<Kernel>> make_kernel(const Node& node) {
  const OpRow* row = find_op(node.domain, node.op_type, node.opset);
  if (row == nullptr)
    return fail(ErrorCode::kUnsupported, "operator {} ({}, opset {}) has no cpu kernel",
                node.op_type, node.domain.empty() ? "ai.onnx" : node.domain, node.opset);
  auto kernel = CTXGEN_TRY(row->make(node));
  return std::make_unique<NodeKernel>(node.describe(), std::move(kernel));
}

Result<std::vector<Tensor>> run_node(const Node& node, std::span<const Tensor* const> inputs) {
  const auto kernel = CTXGEN_TRY(make_kernel(node));
  VectorContext context(node, CTXGEN_TRY(aligned_inputs(inputs)));
  CTXGEN_CHECK(kernel->run(context));
  return context.take_outputs();
}

}  // namespace ctxgen::cpu
