#include "run/execution.h"

#include <cstring>
#include <optional>

#include "ctxgen/base/checked.h"

#include "plan/builder.h"
#include "plan/dnnl_error.h"
#include "plan/omp_workers.h"
#include "plan/shapes.h"

namespace ctxgen::onednn {

std::byte* BoundPlan::address(const Location& location) {
  switch (location.kind) {
    case Location::Kind::kNumbers: {
      const auto place = lengths_->place_of(location.index);
      return place ? reinterpret_cast<std::byte*>(numbers_[*place].data()) : nullptr;
    }
    case Location::Kind::kScratch: return scratch_ + location.offset_bytes;
    case Location::Kind::kPacked: return const_cast<std::byte*>(plan_->packed_data[location.index]);
    case Location::Kind::kConstant: return nullptr;  // bind_step has them
    case Location::Kind::kBuffer: break;
  }
  const Buffer& buffer = plan_->buffers[location.index];
  if (buffer.kind == Buffer::Kind::kArena)
    return arena_ + buffer.arena_offset + location.offset_bytes;
  if (buffer.kind == Buffer::Kind::kWeight)
    return const_cast<std::byte*>(plan_->weight_data[location.index]) + location.offset_bytes;
  return nullptr;  // inputs and outputs: patched at each run
}

void BoundPlan::bind_step(const Step& step, BoundStep& bound) {
  const bool primitive = step.kernel == nullptr;
  if (!primitive) bound.pointers.resize(step.args.size());
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    const Arg& arg = step.args[i];
    std::byte* data = address(arg.location);
    if (arg.location.kind == Location::Kind::kConstant) {
      constants_.push_back(arg.location.index);
      data = reinterpret_cast<std::byte*>(&constants_.back());
    }
    Patch patch{arg.location.offset_bytes, nullptr, nullptr};
    if (primitive) {
      // A null handle would make oneDNN allocate: DNNL_MEMORY_NONE until the first run sets it.
      memories_.emplace_back(arg.md, cpu_engine(), data == nullptr ? DNNL_MEMORY_NONE : data);
      bound.args.push_back({arg.id, memories_.back().get()});
      patch.memory = memories_.back().get();
    } else {
      bound.pointers[i] = data;
      patch.pointer = &bound.pointers[i];
      if (arg.location.kind == Location::Kind::kNumbers)
        if (const auto place = lengths_->place_of(arg.location.index))
          numbered_[*place] = step.kernel.get();
    }
    if (arg.location.kind != Location::Kind::kBuffer) continue;
    const Buffer& buffer = plan_->buffers[arg.location.index];
    if (buffer.kind == Buffer::Kind::kInput) input_patches_[buffer.index].push_back(patch);
    if (buffer.kind == Buffer::Kind::kOutput) output_patches_[buffer.index].push_back(patch);
  }
}

Result<std::unique_ptr<BoundPlan>> BoundPlan::bind(std::shared_ptr<const Plan> plan,
                                                   const RunLengths& lengths, std::byte* arena,
                                                   std::byte* scratch) {
  auto bound = std::unique_ptr<BoundPlan>(new BoundPlan());
  bound->plan_ = std::move(plan);
  bound->arena_ = arena;
  bound->scratch_ = scratch;
  bound->lengths_ = &lengths;
  bound->numbers_.resize(lengths.ops().size());
  bound->numbered_.resize(lengths.ops().size());
  const Plan& p = *bound->plan_;
  bound->output_dims_ = p.output_dims;
  bound->input_patches_.resize(p.input_dims.size());
  bound->output_patches_.resize(p.output_dims.size());
  bound->steps_.resize(p.steps.size());
  CTXGEN_CHECK(guarded("execution state", [&] {
    for (std::size_t i = 0; i < p.steps.size(); ++i) bound->bind_step(p.steps[i], bound->steps_[i]);
  }));
  const auto wants_team = [](const Step& step) { return !step.one_thread && !step.kernel; };
  bound->team_from_ =
      static_cast<std::size_t>(std::ranges::find_if(p.steps, wants_team) - p.steps.begin());
  return bound;
}

Result<std::uint64_t> BoundPlan::set_numbers(std::span<const RunLengths::Numbers> numbers) {
  std::uint64_t scratch_bytes = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbered_[i] == nullptr) return fail(ErrorCode::kInternal, "an op without its kernel");
    const RunLength measured = CTXGEN_TRY(numbered_[i]->measure(numbers[i]));
    scratch_bytes = std::max(scratch_bytes, measured.scratch_bytes);
    for (const RunLengths::Op::Output& output : lengths_->ops()[i].outputs) {
      Dims& dims = output_dims_[output.index];
      dims[output.axis] = measured.length;
      const auto bytes = checked_size_bytes(DataType::kFloat, dims);
      if (!bytes || *bytes > kMaxTensorBytes)
        return fail(ErrorCode::kResourceLimit, "output {}: {} is too large", output.index,
                    to_string(dims));
    }
    numbers_[i] = numbers[i];
  }
  return scratch_bytes;
}

void BoundPlan::set_input(std::size_t index, const std::byte* data) {
  for (const Patch& patch : input_patches_[index]) {
    std::byte* at = const_cast<std::byte*>(data) + patch.offset;
    if (patch.memory != nullptr)
      dnnl_memory_set_data_handle(patch.memory, at);
    else
      *patch.pointer = at;
  }
}

void BoundPlan::set_output(std::size_t index, std::byte* data) {
  for (const Patch& patch : output_patches_[index]) {
    if (patch.memory != nullptr)
      dnnl_memory_set_data_handle(patch.memory, data + patch.offset);
    else
      *patch.pointer = data + patch.offset;
  }
}

Status BoundPlan::execute(const dnnl::stream& stream, std::size_t step, Workers& workers) const {
  const Step& planned = plan_->steps[step];
  const BoundStep& bound = steps_[step];
  if (planned.kernel != nullptr) return planned.kernel->run(bound.pointers.data(), workers);
  std::optional<OmpThreads> one_thread;
  if (planned.one_thread) one_thread.emplace(1);
  const dnnl_status_t status =
      dnnl_primitive_execute(planned.primitive.get(), stream.get(),
                             static_cast<int>(bound.args.size()), bound.args.data());
  if (status != dnnl_success)
    return fail(ErrorCode::kBackendError, "op {} ({}): oneDNN status {}", planned.op,
                planned.implementation, static_cast<int>(status));
  return {};
}

OnednnState::OnednnState(dnnl::stream stream, std::size_t most_bound, const Program& program,
                         const RunLengths& lengths)
    : stream_(std::move(stream)),
      most_bound_(std::max<std::size_t>(most_bound, 1)),
      program_(program),
      lengths_(lengths),
      symbols_(program.symbols.size()),
      numbers_(lengths.ops().size()) {}

Result<BoundPlan*> OnednnState::bound(const std::shared_ptr<const Plan>& plan) {
  for (auto it = bound_.begin(); it != bound_.end(); ++it)
    if (&(*it)->plan() == plan.get()) {
      bound_.splice(bound_.begin(), bound_, it);
      return bound_.front().get();
    }
  if (plan->arena_bytes > arena_.size() || plan->run_scratch_bytes > scratch_.size()) {
    bound_.clear();  // their memory objects point into what goes away
    CTXGEN_CHECK(enlarge(arena_, plan->arena_bytes));
    CTXGEN_CHECK(enlarge(scratch_, plan->run_scratch_bytes));
  }
  bound_.push_front(CTXGEN_TRY(BoundPlan::bind(plan, lengths_, arena_.data(), scratch_.data())));
  if (bound_.size() > most_bound_) bound_.pop_back();
  return bound_.front().get();
}

Result<BoundPlan*> OnednnState::bound(const std::shared_ptr<const Plan>& plan,
                                      std::span<const TensorView> inputs) {
  BoundPlan* found = CTXGEN_TRY(bound(plan));
  if (lengths_.ops().empty()) return found;
  std::ranges::fill(symbols_, -1);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    CTXGEN_CHECK(check_input(program_, i, inputs[i].dims, symbols_));
  CTXGEN_CHECK(lengths_.read(program_, inputs, numbers_));
  const std::uint64_t needed = CTXGEN_TRY(found->set_numbers(numbers_));
  if (needed <= scratch_.size()) return found;
  bound_.clear();
  CTXGEN_CHECK(enlarge(scratch_, 2 * needed));  // lengths grow step by step
  found = CTXGEN_TRY(bound(plan));
  (void)CTXGEN_TRY(found->set_numbers(numbers_));
  return found;
}

namespace {

/// Kernels read and write elements, not bytes.
bool suits(DataType type, const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % std::max<std::size_t>(bits_of(type) / 8, 1) == 0;
}

}  // namespace

Status OnednnState::enlarge(AlignedBytes& memory, std::uint64_t bytes) {
  if (bytes <= memory.size()) return {};
  memory = AlignedBytes();
  memory = CTXGEN_TRY(AlignedBytes::allocate(bytes));
  allocated_bytes_ += bytes;
  return {};
}

Result<std::byte*> OnednnState::memory_of(std::vector<AlignedBytes>& all, std::size_t index,
                                          std::uint64_t bytes) {
  if (all.size() <= index) all.resize(index + 1);
  CTXGEN_CHECK(enlarge(all[index], bytes));
  return all[index].data();
}

Result<const std::byte*> OnednnState::input(std::size_t index, const TensorView& view) {
  if (suits(view.type, view.data)) return view.data;
  const std::uint64_t bytes = view.size_bytes();
  if (bytes == 0) return view.data;
  std::byte* copy = CTXGEN_TRY(memory_of(copied_inputs_, index, bytes));
  std::memcpy(copy, view.data, bytes);
  return copy;
}

Result<std::byte*> OnednnState::output(std::size_t index, DataType type, std::uint64_t bytes,
                                       std::byte* wanted, bool apart) {
  if (wanted != nullptr && !apart && suits(type, wanted)) return wanted;
  std::byte* spare = CTXGEN_TRY(memory_of(spare_outputs_, index, bytes));
  if (wanted != nullptr && bytes > 0) deliveries_.push_back({wanted, spare, bytes});
  return spare;
}

void OnednnState::deliver() {
  for (const Delivery& one : deliveries_) std::memcpy(one.to, one.from, one.bytes);
  deliveries_.clear();
}

}  // namespace ctxgen::onednn
