#include "run/run_context.h"

#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "ctxgen/base/boundary.h"

namespace ctxgen {
namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<> before;  // total order also for pointers into different memory
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

std::span<const std::byte> bytes_of(const OutputMemory& memory) {
  return {memory.data, memory.size_bytes};
}

/// Bytes of an input, or of its items.
bool overlaps(const RuntimeValue& value, std::span<const std::byte> memory) {
  if (value.is_tensor()) return overlap(value.tensor().bytes(), memory);
  if (value.kind() != RuntimeValue::Kind::kSequence) return false;
  for (const RuntimeValue& item : value.sequence().items)
    if (overlaps(item, memory)) return true;
  return false;
}

Result<RuntimeValue> owned(const RuntimeValue& value, TensorPool& pool);

Result<Tensor> owned_tensor(const Tensor& tensor, TensorPool& pool) {
  if (!tensor.defined() || tensor.owner() != nullptr || tensor.bytes().empty()) return tensor;
  Tensor copy = CTXGEN_TRY(pool.allocate(tensor.type(), tensor.dims()));
  std::memcpy(copy.mutable_bytes().data(), tensor.bytes().data(), tensor.bytes().size());
  return copy;
}

Result<RuntimeValue> owned_sequence(const SequenceValue& sequence, TensorPool& pool) {
  auto copy = std::make_shared<SequenceValue>();
  copy->element = sequence.element;
  for (const RuntimeValue& item : sequence.items)
    copy->items.push_back(CTXGEN_TRY(owned(item, pool)));
  return copy;
}

/// Whether it refers to bytes that only the caller of a run keeps alive.
bool is_borrowed(const RuntimeValue& value) {
  const auto borrows = [](const Tensor& tensor) {
    return tensor.defined() && tensor.owner() == nullptr && !tensor.bytes().empty();
  };
  if (value.is_tensor()) return borrows(value.tensor());
  if (value.kind() == RuntimeValue::Kind::kMap)
    return borrows(value.map().keys) || borrows(value.map().values);
  if (value.kind() != RuntimeValue::Kind::kSequence) return false;
  for (const RuntimeValue& item : value.sequence().items)
    if (is_borrowed(item)) return true;
  return false;
}

Result<RuntimeValue> owned(const RuntimeValue& value, TensorPool& pool) {
  if (!is_borrowed(value)) return value;
  if (value.is_tensor()) return CTXGEN_TRY(owned_tensor(value.tensor(), pool));
  if (value.kind() == RuntimeValue::Kind::kSequence) return owned_sequence(value.sequence(), pool);
  auto map = std::make_shared<MapValue>();
  map->keys = CTXGEN_TRY(owned_tensor(value.map().keys, pool));
  map->values = CTXGEN_TRY(owned_tensor(value.map().values, pool));
  return RuntimeValue(std::shared_ptr<const MapValue>(std::move(map)));
}

}  // namespace

SessionContext::SessionContext(const InputTable& inputs, std::span<const IoInfo> outputs,
                               const GraphExecutor& executor, std::span<const KeptPair> pairs,
                               std::uint64_t max_run_bytes)
    : inputs_(inputs),
      outputs_(outputs),
      executor_(executor),
      pairs_(pairs),
      max_run_bytes_(max_run_bytes),
      given_(inputs.infos().size()),
      memory_(outputs.size()) {}

Status SessionContext::set_input(std::size_t index, RuntimeValue value) {
  if (index >= given_.size())
    return fail(ErrorCode::kInvalidArgument, "no input {}: the model has {}", index, given_.size());
  given_[index] = std::move(value);
  return {};
}

Status SessionContext::set_output(std::size_t index, std::span<std::byte> memory) {
  if (index >= memory_.size())
    return fail(ErrorCode::kInvalidArgument, "no output {}: the model has {}", index,
                memory_.size());
  memory_[index] = {memory.data(), memory.size()};
  return {};
}

Status SessionContext::set_state(ModelState* state) {
  auto* kept = dynamic_cast<KeptState*>(state);
  if (state != nullptr && (kept == nullptr || kept->pairs().data() != pairs_.data()))
    return fail(ErrorCode::kInvalidArgument, "a state of another session");
  kept_ = kept;
  return {};
}

/// An op may write an output before all of the inputs have been read, but for a cache in one place.
Status SessionContext::check_overlaps() const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const auto bytes = bytes_of(memory_[i]);
    for (std::size_t k = 0; k < given_.size(); ++k)
      if (overlaps(given_[k], bytes) &&
          !(given_[k].is_tensor() && given_[k].tensor().bytes().data() == bytes.data() &&
            executor_.has_cache(inputs_.id(k), i)))
        return fail(ErrorCode::kInvalidArgument, "memory of output \"{}\" and input \"{}\" overlap",
                    outputs_[i].name, inputs_.infos()[k].name);
    for (std::size_t k = 0; k < i; ++k)
      if (overlap(bytes_of(memory_[k]), bytes))
        return fail(ErrorCode::kInvalidArgument, "memory of outputs \"{}\" and \"{}\" overlaps",
                    outputs_[k].name, outputs_[i].name);
  }
  return {};
}

/// Outputs of the last run go back to the pool, unless a caller kept them.
void SessionContext::prepare() {
  if (!state_) state_ = executor_.make_state(std::make_shared<TensorPool>(max_run_bytes_));
  for (RuntimeValue& result : results_) state_->pool->release(std::move(result));
  results_.clear();
  state_->pool->end_run();
  written_ = memory_;
  state_->output_memory = written_;
  state_->keeper = kept_;
  state_->pool->expect_runs(kept_ == nullptr ? 0 : kept_->room_left());
}

/// What a state has is not the caller's to give.
Status SessionContext::check_unstated() const {
  for (const KeptPair& pair : pairs_) {
    if (given_[pair.names.input_index].defined())
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" is given, and part of the state",
                  pair.names.input);
    if (memory_[pair.names.output_index].data != nullptr)
      return fail(ErrorCode::kInvalidArgument, "output \"{}\" has memory, and is part of the state",
                  pair.names.output);
  }
  return {};
}

Status SessionContext::give_state() {
  std::vector<std::int64_t>& symbols = state_->symbols;
  inputs_.read_symbols(given_, symbols);
  return kept_->give(given_, symbols, written_);
}

void SessionContext::end_state() {
  for (const KeptPair& pair : pairs_) given_[pair.names.input_index] = RuntimeValue();
  kept_->end();
}

/// An output may be an input that passed through, or hold one: its bytes are the caller's.
Status SessionContext::keep_outputs() {
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (written_[i].data == nullptr && is_borrowed(results_[i]))
      results_[i] = CTXGEN_TRY(owned(results_[i], *state_->pool));
  return {};
}

Status SessionContext::run_bound(const RunControl& control) {
  CTXGEN_CHECK(check_overlaps());
  prepare();
  if (kept_ != nullptr) CTXGEN_CHECK(give_state());
  CTXGEN_CHECK(inputs_.bind_all(given_, bindings_, state_->symbols));
  CTXGEN_CHECK(executor_.run_into(*state_, bindings_, control, results_));
  for (Binding& binding : bindings_) binding.value = RuntimeValue();
  CTXGEN_CHECK(keep_outputs());
  if (kept_ == nullptr) return {};
  for (const KeptPair& pair : pairs_) given_[pair.names.input_index] = RuntimeValue();
  kept_->take(results_, *state_->pool);
  return {};
}

Status SessionContext::run_stated(const RunControl& control) {
  if (kept_ == nullptr) return run_bound(control);
  CTXGEN_CHECK(check_unstated());
  CTXGEN_CHECK(kept_->begin());
  Status status = at_boundary("running", [&] { return run_bound(control); });
  if (!status) bindings_.clear();
  end_state();
  return status;
}

std::uint64_t SessionContext::allocated_bytes() const {
  if (state_ == nullptr) return 0;
  return state_->allocated_bytes() + state_->pool->allocated_bytes() +
         (kept_ == nullptr ? 0 : kept_->allocated_bytes());
}

Status SessionContext::run(std::vector<OpTiming>* timings) {
  if (running_.exchange(true))
    return fail(ErrorCode::kInvalidArgument, "the context is in use by another run");
  Status status =
      at_boundary("running", [&] { return run_stated({.timings = timings, .stop = &stop_}); });
  if (!status) {  // the state, or that of a body, may be half changed
    if (status.error().code == ErrorCode::kCancelled) stop_ = false;
    results_.clear();
    bindings_.clear();
    state_.reset();
  }
  running_ = false;
  return status;
}

}  // namespace ctxgen
