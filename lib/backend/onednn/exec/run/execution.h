#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

#include "plan/aligned_bytes.h"
#include "plan/plan.h"

namespace ctxgen::onednn {

/// A plan bound to the memory of one state: memory objects and argument arrays made once, so that a
/// run only sets the addresses of inputs and outputs.
class BoundPlan {
 public:
  /// Errors  BACKEND_ERROR, RESOURCE_LIMIT.
  [[nodiscard]] static Result<std::unique_ptr<BoundPlan>> bind(std::shared_ptr<const Plan> plan,
                                                               std::byte* arena,
                                                               std::byte* scratch);
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  void set_input(std::size_t index, const std::byte* data);
  void set_output(std::size_t index, std::byte* data);
  /// Errors  BACKEND_ERROR naming the step; those of own kernels.
  [[nodiscard]] Status execute(const dnnl::stream& stream, std::size_t step,
                               Workers& workers) const;

 private:
  /// An address inside a user's tensor that changes with each run.
  struct Patch {
    std::uint64_t offset;
    dnnl_memory_t memory;  // of a primitive, or
    std::byte** pointer;   // of a kernel
  };
  struct BoundStep {
    std::vector<dnnl_exec_arg_t> args;  // of a primitive
    std::vector<std::byte*> pointers;   // of a kernel
  };
  BoundPlan() = default;
  [[nodiscard]] std::byte* address(const Location& location) const;
  void bind_step(const Step& step, BoundStep& bound);

  std::shared_ptr<const Plan> plan_;
  std::byte* arena_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::deque<std::uint32_t> constants_;  // what kConstant locations point to
  std::vector<dnnl::memory> memories_;
  std::vector<BoundStep> steps_;
  std::vector<std::vector<Patch>> input_patches_, output_patches_;
};

/// Arena, scratch and bound plans of one run at a time.
class OnednnState final : public ExecutionState {
 public:
  /// Keeps `most_bound` plans bound.
  OnednnState(dnnl::stream stream, std::size_t most_bound)
      : stream_(std::move(stream)), most_bound_(std::max<std::size_t>(most_bound, 1)) {}

  /// The plan bound to this state's memory, which grows as plans need it.
  [[nodiscard]] Result<BoundPlan*> bound(const std::shared_ptr<const Plan>& plan);
  /// The bytes of input `index`, or a copy of them where their place does not suit their type.
  [[nodiscard]] Result<const std::byte*> input(std::size_t index, const TensorView& view);
  /// Where a run writes output `index` that the caller wants at `wanted` (nullptr: nowhere). If that
  /// place does not suit the type, deliver() copies it there.
  [[nodiscard]] Result<std::byte*> output(std::size_t index, DataType type, std::uint64_t bytes,
                                          std::byte* wanted);
  /// After the run.
  void deliver();
  /// Of a run that failed.
  void forget_deliveries() { deliveries_.clear(); }
  [[nodiscard]] const dnnl::stream& stream() const { return stream_; }

 private:
  dnnl::stream stream_;
  std::size_t most_bound_;
  struct Delivery {
    std::byte* to;
    const std::byte* from;
    std::uint64_t bytes;
  };
  AlignedBytes arena_, scratch_;
  std::vector<AlignedBytes> copied_inputs_, spare_outputs_;  // by index
  std::vector<Delivery> deliveries_;                         // of this run
  std::list<std::unique_ptr<BoundPlan>> bound_;              // most recently used first
};

}  // namespace ctxgen::onednn
