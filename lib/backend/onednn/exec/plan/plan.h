#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/base/workers.h"

#include "layout/layout.h"

namespace ctxgen::onednn {

inline constexpr std::uint32_t kNone = UINT32_MAX;
using SlotId = std::uint32_t;
using BufferId = std::uint32_t;

/// Memory that a run needs: a part of its arena, a user's tensor, or a plain weight.
struct Buffer {
  enum class Kind : std::uint8_t { kArena, kInput, kOutput, kWeight };
  Kind kind = Kind::kArena;
  std::uint32_t index = 0;  // of the program's input, output or weight
  std::uint64_t bytes = 0;
  std::uint64_t arena_offset = 0;  // kArena: bytes from the arena's start
  bool shared = false;             // several values live in it: never overwritten in place
};

/// A tensor in memory: a value, or part of one, in some layout. Strides and offset in elements.
struct Slot {
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;
  BufferId buffer = 0;
  DataType type = DataType::kFloat;
};

/// Where a step finds an argument.
struct Location {
  enum class Kind : std::uint8_t { kBuffer, kPacked, kScratch, kConstant, kNumbers };
  Kind kind = Kind::kBuffer;
  /// Buffer, packed use of the plan, the constant's 4 bytes, or the op whose numbers of the run it is
  /// (run/run_lengths.h; null where it has none).
  std::uint32_t index = 0;
  std::uint64_t offset_bytes = 0;  // inside a buffer or the scratch
};

/// A descriptor of nothing. oneDNN allocates 768 bytes for an empty one; copies of this share none.
[[nodiscard]] inline const dnnl::memory::desc& no_descriptor() {
  static const dnnl::memory::desc none(dnnl_memory_desc_t{nullptr});
  return none;
}

/// An argument of a step. Own kernels get the addresses in this order and ignore id and md.
struct Arg {
  int id = 0;
  dnnl::memory::desc md = no_descriptor();
  Location location;
};

/// What an op's numbers of a run (KindRow::lengths) come to.
struct RunLength {
  std::int64_t length = 0;          // the dims of its results that depend on them
  std::uint64_t scratch_bytes = 0;  // as KernelCosts has them
};

/// An own loop where oneDNN has no fast kernel or creating a primitive does not pay.
///
/// Threads  run() is const and may run on several threads with different pointers.
class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  /// Errors  what the values of an argument, not its dims, make impossible: INVALID_ARGUMENT.
  [[nodiscard]] virtual Status run(std::byte* const* args, Workers& workers) const = 0;
  /// For kernels that read numbers of the run. Errors  INVALID_GRAPH: the numbers do not fit the op.
  [[nodiscard]] virtual Result<RunLength> measure(std::span<const std::int64_t> /*numbers*/) const {
    return RunLength{};
  }
};

/// One thing to execute: a primitive or an own kernel.
struct Step {
  std::uint32_t op = kNone;
  std::string implementation;
  double flops = 0;
  std::uint64_t bytes = 0;
  std::uint64_t scratch_bytes = 0, run_scratch_bytes = 0;  // as KernelCosts has them
  dnnl::primitive primitive;
  std::shared_ptr<const Kernel> kernel;
  std::vector<Arg> args;
  /// Whether the scratch is the step's alone, and its size known: such scratch is in the arena, where values leave room.
  bool scratch_in_arena = false;
  /// Whether the primitive was made for one thread: it is over before a team has started.
  bool one_thread = false;
};

/// A weight in the layout that a primitive wants.
struct PackedUse {
  std::uint32_t op = kNone;
  std::uint32_t weight = 0;
  bool transposed = false;     // the stored tensor has its last two dims swapped
  dnnl::memory::desc logical;  // the plain bytes seen with the primitive's dims
  dnnl::memory::desc wanted;
  bool library_choice = false;  // oneDNN chose it, for these threads, caches and shapes
};

/// A program specialised for concrete input dims. Immutable once made.
struct Plan {
  std::vector<Dims> input_dims;
  std::vector<Dims> output_dims;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<PackedUse> packed;
  std::vector<const std::byte*> packed_data;  // per packed use; empty while compiling
  std::vector<const std::byte*> weight_data;  // per buffer of kind kWeight, else null
  std::uint64_t arena_bytes = 0;
  std::uint64_t scratch_bytes = 0;      // on every machine: what files tell
  std::uint64_t run_scratch_bytes = 0;  // on this one, at least as much
  double creation_ms = 0;               // sum over descriptors and primitives
  std::uint64_t primitives = 0;
};

}  // namespace ctxgen::onednn
