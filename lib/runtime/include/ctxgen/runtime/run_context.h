#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/runtime/model_state.h"

namespace ctxgen {

/// What runs of a session need of their own, kept from run to run: arenas, buffers of intermediate
/// tensors, outputs, and what the caller has bound. With inputs and outputs of the same shapes, no
/// run after the first takes memory.
///
/// Threads   a session has any number of contexts, which run at the same time; each runs once at a
///           time. stop() may be called from anywhere.
/// Lifetime  must not outlive its session. What a RuntimeValue borrows without an owner, and output
///           memory, must live until it is replaced or the context goes.
class RunContext {
 public:
  virtual ~RunContext() = default;

  /// Input `index` of Session::inputs() for all runs to come; an undefined value takes the input
  /// back. Bytes are used in place, whatever their alignment.
  /// Errors  INVALID_ARGUMENT (no such input). Whether the value fits is checked by run().
  [[nodiscard]] virtual Status set_input(std::size_t index, RuntimeValue value) = 0;
  /// Memory that receives output `index` of Session::outputs(), dense and row-major, in all runs to
  /// come; it may be larger than the output. Empty: the context has the output in memory of its own.
  /// It may be an input's memory where they are a cache to which rows are appended in place (docs/runtime.md).
  /// Errors  INVALID_ARGUMENT (no such output).
  [[nodiscard]] virtual Status set_output(std::size_t index, std::span<std::byte> memory) = 0;

  /// What all runs to come continue: they take the inputs of the session's state_pairs() from it and leave
  /// the outputs in it, where read() finds them; among outputs() those are undefined. Null: no longer.
  /// It must live until then. Errors  INVALID_ARGUMENT: a state of another session.
  [[nodiscard]] virtual Status set_state(ModelState* state) = 0;

  /// Errors  as Session::run_values(); INVALID_ARGUMENT (output memory that is too small, or shares
  ///         bytes with an input or another output; an input or output memory of the state; a run is
  ///         under way), CANCELLED (stop()).
  ///         `timings`, where given, receives one entry per node and op.
  [[nodiscard]] virtual Status run(std::vector<OpTiming>* timings = nullptr) = 0;
  /// Outputs of the last run, in the model's order; none before it and after a failed one. They are
  /// good until the next run, in which the context uses their memory again. Who keeps a copy of an
  /// output that is not in the caller's memory keeps its bytes.
  [[nodiscard]] virtual std::span<const RuntimeValue> outputs() const = 0;

  /// Memory that runs have taken so far, kept or not: arenas, scratch memory, tensors, the state's. 0 after
  /// a run that failed.
  [[nodiscard]] virtual std::uint64_t allocated_bytes() const = 0;

  /// Ends the run that is under way, before its next op, or else the next run.
  virtual void stop() = 0;
};

}  // namespace ctxgen
