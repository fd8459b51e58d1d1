#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ctxgen/base/memory_account.h"
#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/cpu/scratch.h"

namespace ctxgen {

/// Memory of intermediate tensors, kept from run to run: a model with fixed shapes allocates nothing
/// in its second run. One account bounds all that a run holds, so that a loop that grows without end
/// ends with RESOURCE_LIMIT and not with the process.
///
/// Threads  none: one pool per run; its tensors may end in any thread.
class TensorPool {
 public:
  explicit TensorPool(std::uint64_t limit_bytes = UINT64_MAX);

  /// As Tensor::allocate, from a free buffer where one is large enough and not wastefully larger.
  /// Errors  RESOURCE_LIMIT, also where the run would hold more than the limit.
  [[nodiscard]] Result<Tensor> allocate(DataType type, const Dims& dims);
  /// So many runs may follow that are like the last two: small tensors that grew between those go on growing, and get
  /// buffers that are large enough for that at once. 0: none do.
  void expect_runs(std::uint64_t count) { runs_left_ = count; }
  /// The same, for a tensor that leaves with the caller: from new memory, or from what a caller has let go of since the
  /// last run. At most the bytes of one run's such tensors wait for the next run, which frees what it does not take.
  [[nodiscard]] Result<Tensor> allocate_lasting(DataType type, const Dims& dims);
  /// Counts the content of strings that were written since the pool made the tensor, and all of one
  /// that a kernel made by itself: `strings` then has an owner that gives the bytes back.
  [[nodiscard]] Status settle(Tensor& strings);
  /// Takes the tensor's memory back if the pool made it and nothing else can see it.
  void release(RuntimeValue&& value);
  /// Ends a run: gives back to the system what two runs in a row had no use for, and forgets what
  /// left with the caller.
  void end_run();

  [[nodiscard]] const std::shared_ptr<MemoryAccount>& account() const { return account_; }
  /// What kernels need while they run: not counted, but bounded by the limit, too.
  [[nodiscard]] cpu::Scratch& scratch() { return scratch_; }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  /// Of tensors other than strings, in all.
  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  [[nodiscard]] std::size_t free_buffers() const { return free_.size(); }

  class Returned;

 private:
  struct Free {
    std::uint64_t capacity_bytes = 0;
    std::uint64_t last_run = 0;
    std::shared_ptr<const void> owner;
  };
  [[nodiscard]] std::uint64_t with_room(std::uint64_t size_bytes);
  [[nodiscard]] Result<Tensor> strings(const Dims& dims);
  [[nodiscard]] Result<void*> new_memory(std::uint64_t capacity_bytes);

  std::shared_ptr<MemoryAccount> account_;
  std::vector<Free> free_;  // ascending capacity
  std::shared_ptr<Returned> returned_;
  std::uint64_t lasting_bytes_ = 0;  // of this run
  cpu::Scratch scratch_;
  std::uint64_t run_ = 0;
  std::uint64_t runs_left_ = 0;
  std::vector<std::uint64_t> sizes_;  // that were asked for in the last run, in order
  std::size_t place_ = 0;             // of the next one
  std::uint64_t allocations_ = 0;
  std::uint64_t allocated_bytes_ = 0;
};

}  // namespace ctxgen
