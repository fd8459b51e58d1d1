#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "ctxgen/runtime/model_state.h"

#include "run/executor.h"
#include "run/state_pairs.h"
#include "run/tensor_pool.h"

namespace ctxgen {

/// The state of a loaded session's runs. A run brackets its use by begin() and end().
class KeptState final : public ModelState, public CacheKeeper {
 public:
  /// `pairs` and `limit_bytes` are the session's.
  KeptState(std::span<const KeptPair> pairs, std::uint64_t limit_bytes);

  [[nodiscard]] std::int64_t length() const override;
  [[nodiscard]] std::uint64_t size_bytes() const override;
  [[nodiscard]] Status reserve(std::int64_t length) override;
  [[nodiscard]] Status reset() override;
  [[nodiscard]] Status rewind(std::int64_t length) override;
  [[nodiscard]] Result<std::unique_ptr<ModelState>> fork() override;
  [[nodiscard]] Result<RuntimeValue> read(std::size_t pair) override;

  [[nodiscard]] std::span<const KeptPair> pairs() const { return pairs_; }
  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  /// How much longer it may become before it allocates: up to its memory, or what it was told to reserve.
  [[nodiscard]] std::uint64_t room_left() const;
  /// Takes the state for a run. Errors  INVALID_ARGUMENT: it is in use.
  [[nodiscard]] Status begin();
  /// The values of the pairs for the run, into `given` by input; `symbols`: sizes that the run's other
  /// inputs have, -1 where they have none. What outputs are written to goes into `memory`, by output.
  /// Errors  INVALID_ARGUMENT: no input says a dim of a first value; RESOURCE_LIMIT.
  [[nodiscard]] Status give(std::span<RuntimeValue> given, std::span<const std::int64_t> symbols,
                            std::span<OutputMemory> memory);
  /// The run has succeeded: its outputs are the values from now on, and leave `results`.
  void take(std::span<RuntimeValue> results, TensorPool& pool);
  /// Gives the state back. Without take() it is as before begin().
  void end();

  [[nodiscard]] Result<std::optional<CachePlace>> keep(std::size_t step, std::size_t cache,
                                                       const Dims& dims) override;
  [[nodiscard]] bool keeps(ValueId output) const override;

 private:
  /// The value of a pair. In place: the first rows of `memory`, which has room for more along the axis.
  /// Fixed dims: `memory` and `spare` take turns. Else: `memory` is a run's output.
  struct Value {
    bool is_set = false;
    bool is_first = false;  // of the run that is under way
    Dims dims;
    Tensor memory, spare;
    Dims next;  // in place: of the run that is under way
  };
  [[nodiscard]] Status first_value(const KeptPair& pair, std::span<const std::int64_t> symbols,
                                   Value& value);
  [[nodiscard]] Result<Tensor> allocate(DataType type, const Dims& dims);
  /// Gives `value` room for so many rows along its axis, and moves what it has there.
  [[nodiscard]] Status grow(const KeptPair& pair, Value& value, const Dims& dims);

  const std::span<const KeptPair> pairs_;
  const std::uint64_t limit_bytes_;
  std::vector<Value> values_;  // as pairs_
  std::int64_t reserved_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::atomic<bool> in_use_ = false;
};

}  // namespace ctxgen
