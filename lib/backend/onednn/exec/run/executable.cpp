#include "run/executable.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "ctxgen/onednn/kind_traits.h"

#include "plan/dnnl_error.h"
#include "plan/omp_workers.h"
#include "plan/payload.h"
#include "plan/planner.h"

namespace ctxgen::onednn {
namespace {

/// A stored plan that does not fit its program is a damaged file, whatever its planning reports.
Error as_corrupt(Error error) {
  if (error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kInvalidGraph)
    error.code = ErrorCode::kCorruptContext;
  return with_context(std::move(error), "stored plan");
}

}  // namespace

OnednnExecutable::OnednnExecutable(std::shared_ptr<const Program> program,
                                   const LoadOptions& options)
    : threads_(options.threads),
      workers_(options.workers != nullptr ? *options.workers : omp_workers()),
      team_(options.threads),
      kept_plans_(options.kept_plans),
      program_(std::move(program)),
      lengths_(RunLengths::find(*program_)),
      recent_(options.kept_plans, lengths_) {
  for (const RunLengths::Cache& cache : lengths_.caches())
    caches_.push_back({cache.input, cache.output, cache.axis, cache.place});
}

Result<std::unique_ptr<OnednnExecutable>> OnednnExecutable::load(
    std::shared_ptr<const Program> shared, const BlobSource& blobs, const LoadOptions& options,
    LoadStatistics* statistics) {
  auto executable =
      std::unique_ptr<OnednnExecutable>(new OnednnExecutable(std::move(shared), options));
  const Program& program = *executable->program_;
  const OmpThreads scope(options.threads);
  executable->bank_ = CTXGEN_TRY(WeightBank::create(program, blobs, executable->team_));
  for (const StoredPlan& stored : program.plans) {
    const auto choices = CTXGEN_TRY(decode_choices(stored.payload, program.ops.size()));
    auto plan = executable->new_plan(stored.input_dims, choices);
    if (!plan) return std::unexpected(as_corrupt(std::move(plan).error()));
    if (statistics != nullptr) {
      statistics->primitive_creation_ms += (*plan)->creation_ms;
      statistics->primitives += (*plan)->primitives;
    }
    executable->stored_.push_back(std::move(*plan));
  }
  if (statistics != nullptr) {
    statistics->repacked_weights += executable->bank_->repacked_weights();
    statistics->repacked_bytes += executable->bank_->repacked_bytes();
  }
  return executable;
}

Result<std::shared_ptr<const Plan>> OnednnExecutable::new_plan(
    std::span<const Dims> input_dims, std::span<const PlanChoice> choices) const {
  auto plan = std::make_shared<Plan>(CTXGEN_TRY(make_plan({.program = *program_,
                                                           .input_dims = input_dims,
                                                           .forms = &bank_->forms(),
                                                           .choices = choices,
                                                           .threads = threads_,
                                                           .references = References::kAllowed})));
  if (!lengths_.hold_for(*plan))
    return fail(ErrorCode::kInternal, "program \"{}\": a plan depends on lengths", program_->name);
  CTXGEN_CHECK(bank_->bind(*plan));
  return plan;
}

Result<std::shared_ptr<const Plan>> OnednnExecutable::plan_for(
    std::span<const TensorView> inputs) const {
  for (const auto& plan : stored_)
    if (lengths_.fit(plan->input_dims, inputs)) return plan;
  return recent_.get(inputs, [&] {
    std::vector<Dims> dims;
    for (const TensorView& input : inputs) dims.push_back(input.dims);
    return new_plan(dims, {});
  });
}

PlanStatistics OnednnExecutable::plan_statistics() const {
  const PlanCache::Counters counters = recent_.counters();
  return {.stored = stored_.size(),
          .made = counters.made,
          .primitives_made = counters.primitives,
          .kept = counters.kept,
          .dropped = counters.dropped,
          .waits = counters.waits,
          .repacked_weights = bank_->repacked_weights(),
          .repacked_bytes = bank_->repacked_bytes()};
}

Result<std::unique_ptr<ExecutionState>> OnednnExecutable::make_state() const {
  auto stream = CTXGEN_TRY(guarded("stream", [] { return dnnl::stream(cpu_engine()); }));
  auto state = std::make_unique<OnednnState>(std::move(stream), kept_plans_, *program_, lengths_);
  // The usual case is one planned shape: its memory is ready before the first run.
  if (stored_.size() == 1) (void)CTXGEN_TRY(state->bound(stored_.front()));
  return state;
}

Status OnednnExecutable::run(ExecutionState& state, std::span<const TensorView> inputs,
                             OutputAllocator& outputs, const ExecutionControl& control) const {
  auto* own = dynamic_cast<OnednnState*>(&state);
  if (own == nullptr)
    return fail(ErrorCode::kInternal, "program \"{}\": foreign state", program_->name);
  if (inputs.size() != program_->inputs.size())
    return fail(ErrorCode::kInvalidArgument, "program \"{}\": {} inputs, expected {}",
                program_->name, inputs.size(), program_->inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const ProgramValue& value = program_->values[program_->inputs[i]];
        inputs[i].type != value.type)
      return fail(ErrorCode::kInvalidArgument, "input \"{}\": type {}, expected {}", value.name,
                  name_of(inputs[i].type), name_of(value.type));
  const OmpThreads scope(threads_);
  const auto plan = CTXGEN_TRY(plan_for(inputs));
  BoundPlan* bound = CTXGEN_TRY(own->bound(plan, inputs));
  own->forget_deliveries();
  CTXGEN_CHECK(place(*own, *bound, inputs, outputs));
  CTXGEN_CHECK(run_steps(*bound, own->stream(), control));
  own->deliver();
  return {};
}

Status OnednnExecutable::place(OnednnState& state, BoundPlan& bound,
                               std::span<const TensorView> inputs, OutputAllocator& outputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    bound.set_input(i, CTXGEN_TRY(state.input(i, inputs[i])));
  std::vector<bool>& kept = state.kept_outputs();
  kept.assign(bound.output_dims().size(), false);
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    const CachePair& cache = caches_[i];
    const auto place = CTXGEN_TRY(outputs.keep(i, bound.output_dims()[cache.output]));
    const std::int64_t rows = place ? place->rows : 0;
    const bool first = i == 0 || caches_[i - 1].op != cache.op;
    if (!first && bound.capacity(cache.op) != rows)
      return fail(ErrorCode::kInternal, "program \"{}\": caches of {} and {} rows in one op",
                  program_->name, bound.capacity(cache.op), rows);
    if (!place) continue;
    kept[cache.output] = true;
    bound.set_capacity(cache.op, rows);
    bound.set_input(cache.input, place->data);
    bound.set_output(cache.output, place->data);
  }
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (kept[k]) continue;
    const Dims& dims = bound.output_dims()[k];
    const DataType type = program_->values[program_->outputs[k]].type;
    const auto bytes = static_cast<std::uint64_t>(volume(dims)) * element_bytes(type);
    std::byte* wanted = CTXGEN_TRY(outputs.allocate(k, type, dims));
    const bool apart = overwrites_input(k, dims, {wanted, wanted == nullptr ? 0 : bytes}, inputs);
    bound.set_output(k, CTXGEN_TRY(state.output(k, type, bytes, wanted, apart)));
  }
  return {};
}

bool OnednnExecutable::overwrites_input(std::size_t output, const Dims& dims,
                                        std::span<const std::byte> bytes,
                                        std::span<const TensorView> inputs) const {
  if (bytes.empty()) return false;
  const std::less<> before;  // a total order, for pointers into different memory too
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& input = inputs[i];
    const std::uint64_t input_bytes = input.size_bytes();
    if (input_bytes == 0 || !before(bytes.data(), input.data + input_bytes) ||
        !before(input.data, bytes.data() + bytes.size()))
      continue;
    const bool in_place = input.data == bytes.data() && input.dims == dims &&
                          std::ranges::any_of(caches_, [&](const CachePair& cache) {
                            return cache.input == i && cache.output == output;
                          });
    if (!in_place) return true;
  }
  return false;
}

Status OnednnExecutable::run_step(const BoundPlan& bound, std::size_t step,
                                  const dnnl::stream& stream, Workers& workers,
                                  const ExecutionControl& control) const {
  if (control.stopped()) return fail(ErrorCode::kCancelled, "the run was stopped");
  const double start_us = control.timings != nullptr ? steady_us() : 0;
  CTXGEN_CHECK(bound.execute(stream, step, workers));
  if (control.timings == nullptr) return {};
  const Step& planned = bound.plan().steps[step];
  const ProgramOp& op = program_->ops[planned.op];
  const double end_us = steady_us();
  control.timings->push_back({op.name, op.kind.str(), planned.implementation, end_us - start_us,
                              planned.flops, planned.bytes, start_us, end_us,
                              traits_of(op).quantised});
  return {};
}

Status OnednnExecutable::run_steps(BoundPlan& bound, const dnnl::stream& stream,
                                   const ExecutionControl& control) const {
  Workers& workers = control.workers != nullptr ? *control.workers : workers_;
  TeamWorkers of_team(team_, workers);
  Workers& here = &workers == &omp_workers() ? of_team : workers;
  std::size_t step = 0;
  for (; step < bound.team_from(); ++step) {
    CTXGEN_CHECK(run_step(bound, step, stream, here, control));
    if (of_team.called()) bound.set_team_from(step);
  }
  const std::size_t steps = bound.plan().steps.size();
  if (step == steps) return {};
  Status status;
  team_.run([&] {
    for (; step < steps && status; ++step) status = run_step(bound, step, stream, workers, control);
  });
  return status;
}

}  // namespace ctxgen::onednn
