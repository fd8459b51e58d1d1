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
#include "run/run_lengths.h"

namespace ctxgen::onednn {

/// A plan bound to the memory of one state: memory objects and argument arrays made once, so that a
/// run only sets the addresses of inputs and outputs.
class BoundPlan {
 public:
  /// Errors  BACKEND_ERROR, RESOURCE_LIMIT.
  [[nodiscard]] static Result<std::unique_ptr<BoundPlan>> bind(std::shared_ptr<const Plan> plan,
                                                               const RunLengths& lengths,
                                                               std::byte* arena,
                                                               std::byte* scratch);
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  /// The numbers of the next run, per op of `lengths`. Out  the scratch memory that it needs.
  /// Errors  those of Kernel::measure(); RESOURCE_LIMIT.
  [[nodiscard]] Result<std::uint64_t> set_numbers(std::span<const RunLengths::Numbers> numbers);
  /// After set_numbers(): the memory of the caches of op `place` of the lengths has room for `rows`.
  void set_capacity(std::size_t place, std::int64_t rows) { numbers_[place].back() = rows; }
  [[nodiscard]] std::int64_t capacity(std::size_t place) const { return numbers_[place].back(); }
  /// Of the outputs, with the numbers of the next run.
  [[nodiscard]] std::span<const Dims> output_dims() const { return output_dims_; }
  void set_input(std::size_t index, const std::byte* data);
  void set_output(std::size_t index, std::byte* data);
  /// The first step that the threads of a team are wanted for, as far as runs have shown: all before it run in one.
  [[nodiscard]] std::size_t team_from() const { return team_from_; }
  void set_team_from(std::size_t step) { team_from_ = step; }
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
  [[nodiscard]] std::byte* address(const Location& location);
  void bind_step(const Step& step, BoundStep& bound);

  std::shared_ptr<const Plan> plan_;
  const RunLengths* lengths_ = nullptr;
  std::vector<RunLengths::Numbers> numbers_;  // per op of lengths_
  std::vector<const Kernel*> numbered_;       // likewise
  std::vector<Dims> output_dims_;
  std::byte* arena_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::deque<std::uint32_t> constants_;  // what kConstant locations point to
  std::vector<dnnl::memory> memories_;
  std::vector<BoundStep> steps_;
  std::size_t team_from_ = 0;
  std::vector<std::vector<Patch>> input_patches_, output_patches_;
};

/// Arena, scratch and bound plans of one run at a time.
class OnednnState final : public ExecutionState {
 public:
  /// Keeps `most_bound` plans bound. `program` and `lengths`, of it: of the executable.
  OnednnState(dnnl::stream stream, std::size_t most_bound, const Program& program,
              const RunLengths& lengths);

  /// The plan bound to this state's memory, which grows as plans need it.
  [[nodiscard]] Result<BoundPlan*> bound(const std::shared_ptr<const Plan>& plan);
  /// The same for a run with these inputs, which fit the plan but for their numbers of the run.
  /// Errors  INVALID_ARGUMENT, INVALID_GRAPH: numbers that do not fit the program.
  [[nodiscard]] Result<BoundPlan*> bound(const std::shared_ptr<const Plan>& plan,
                                         std::span<const TensorView> inputs);
  /// The bytes of input `index`, or a copy of them where their place does not suit their type.
  [[nodiscard]] Result<const std::byte*> input(std::size_t index, const TensorView& view);
  /// Where a run writes output `index` that the caller wants at `wanted` (nullptr: nowhere). If that
  /// place does not suit the type, or the run has to write elsewhere (`apart`), deliver() copies it there.
  [[nodiscard]] Result<std::byte*> output(std::size_t index, DataType type, std::uint64_t bytes,
                                          std::byte* wanted, bool apart);
  /// Scratch of a run: outputs whose memory is a cache's.
  [[nodiscard]] std::vector<bool>& kept_outputs() { return kept_outputs_; }
  /// After the run.
  void deliver();
  /// Of a run that failed.
  void forget_deliveries() { deliveries_.clear(); }
  [[nodiscard]] const dnnl::stream& stream() const { return stream_; }
  [[nodiscard]] std::uint64_t allocated_bytes() const override { return allocated_bytes_; }

 private:
  [[nodiscard]] Status enlarge(AlignedBytes& memory, std::uint64_t bytes);
  [[nodiscard]] Result<std::byte*> memory_of(std::vector<AlignedBytes>& all, std::size_t index,
                                             std::uint64_t bytes);

  dnnl::stream stream_;
  std::uint64_t allocated_bytes_ = 0;
  std::size_t most_bound_;
  const Program& program_;
  const RunLengths& lengths_;
  std::vector<bool> kept_outputs_;
  std::vector<std::int64_t> symbols_;         // of a run
  std::vector<RunLengths::Numbers> numbers_;  // of a run
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
