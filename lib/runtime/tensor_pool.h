#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// Memory of intermediate tensors, kept from run to run: a model with fixed shapes allocates nothing
/// in its second run.
///
/// Threads  none: one pool per run state.
class TensorPool {
 public:
  /// As Tensor::allocate, from a free buffer where one is large enough and not wastefully larger.
  [[nodiscard]] Result<Tensor> allocate(DataType type, const Dims& dims);
  /// Takes the tensor's memory back if the pool made it and nobody else can see it.
  void release(Tensor&& tensor);
  /// Ends a run: gives back to the system what two runs in a row had no use for.
  void end_run();

  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  [[nodiscard]] std::size_t free_buffers() const { return free_.size(); }

 private:
  struct Free {
    std::uint64_t capacity_bytes = 0;
    std::uint64_t last_run = 0;
    std::shared_ptr<const void> owner;
  };
  std::vector<Free> free_;  // ascending capacity
  std::uint64_t run_ = 0;
  std::uint64_t allocations_ = 0;
};

}  // namespace ctxgen
