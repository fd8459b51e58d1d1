#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/base/workers.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// A cache of a program: an output that is an input with rows appended along `axis`, and may be in the
/// same memory. Nothing else of the program reads either.
struct CachePair {
  std::uint32_t input = 0, output = 0;  // of the program
  std::size_t axis = 0;
  std::size_t op = 0;  // caches of one op, keys and values, stay in place together or not at all
  [[nodiscard]] bool operator==(const CachePair&) const = default;
};

/// Memory of a cache with room for `rows` along its axis: as a dense tensor of so many. What its input
/// has is there.
struct CachePlace {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
};

/// Gives an executable the memory of its outputs once their dims are known.
class OutputAllocator {
 public:
  virtual ~OutputAllocator() = default;
  /// Memory of at least the dense size of `type` x `dims`, or nullptr if the caller does not want
  /// this output (the executable then uses scratch memory or skips it). Any alignment.
  [[nodiscard]] virtual Result<std::byte*> allocate(std::size_t output, DataType type,
                                                    const Dims& dims) = 0;
  /// For cache `cache` of Executable::caches(), before allocate() of any output: where it stays, with
  /// room for `dims`; its rows are appended there, and allocate() is not called for its output. Nothing:
  /// it is an input and an output like others. All caches of one op have room for as many rows, or none
  /// is kept.
  [[nodiscard]] virtual Result<std::optional<CachePlace>> keep(std::size_t /*cache*/,
                                                               const Dims& /*dims*/) {
    return std::nullopt;
  }
};

/// What one run needs of its own (arena, memory objects). Not shared between running threads.
class ExecutionState {
 public:
  virtual ~ExecutionState() = default;
  /// Memory that runs have taken for it so far, kept or not.
  [[nodiscard]] virtual std::uint64_t allocated_bytes() const { return 0; }
};

/// One op's share of a profiled run.
struct OpTiming {
  std::string name;            // ONNX node name
  std::string kind;            // op kind of the program or CPU operator
  std::string implementation;  // oneDNN impl_info_str, or "cpu"
  double microseconds = 0;
  double flops = 0;         // 0: unknown
  std::uint64_t bytes = 0;  // read + written; 0: unknown
  /// From when to when, on std::chrono::steady_clock; besides its own time this holds that of the
  /// nodes of its bodies, which have entries too.
  double start_us = 0, end_us = 0;
  bool int8 = false;  // its flops are operations on 8-bit integers
};

/// The present time as OpTiming has it.
[[nodiscard]] inline double steady_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// What a caller wants from a run besides its outputs.
struct ExecutionControl {
  std::vector<OpTiming>* timings = nullptr;  // receives one entry per op
  const std::atomic<bool>* stop = nullptr;   // true: end with CANCELLED before the next op
  /// Per input, not 0: the same memory with the same content in every run of this executable that
  /// says so. Empty: not known of any.
  std::span<const std::uint8_t> constant_inputs = {};
  Workers* workers = nullptr;  // of this run, in place of LoadOptions::workers
  [[nodiscard]] bool stopped() const {
    return stop != nullptr && stop->load(std::memory_order_relaxed);
  }
};

/// What became of the shapes that an executable has met: plans of the context binary, plans made at
/// run time, and the weights that those wanted in another layout than the stored ones.
struct PlanStatistics {
  std::uint64_t stored = 0;
  std::uint64_t made = 0;             // at run time
  std::uint64_t primitives_made = 0;  // for those
  std::uint64_t kept = 0;             // of those, now
  std::uint64_t dropped = 0;          // given up for more recent ones
  std::uint64_t waits = 0;            // runs that waited for a plan which another thread was making
  std::uint64_t repacked_weights = 0;
  std::uint64_t repacked_bytes = 0;

  PlanStatistics& operator+=(const PlanStatistics& other) {
    stored += other.stored;
    made += other.made;
    primitives_made += other.primitives_made;
    kept += other.kept;
    dropped += other.dropped;
    waits += other.waits;
    repacked_weights += other.repacked_weights;
    repacked_bytes += other.repacked_bytes;
    return *this;
  }
};

/// A partition made ready to run.
///
/// Threads  const members may be called from several threads, each with its own state.
class Executable {
 public:
  virtual ~Executable() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<ExecutionState>> make_state() const = 0;
  /// Inputs are dense row-major tensors in the order of Program::inputs, any alignment. Shapes
  /// that no plan covers are planned now (bounded LRU).
  /// An output may be in the memory of an input: if they are a cache of the same dims, rows are
  /// appended there, otherwise it is written there at the end.
  /// Errors  INVALID_ARGUMENT (type or shape does not fit the program), RESOURCE_LIMIT,
  ///         BACKEND_ERROR, CANCELLED.
  [[nodiscard]] virtual Status run(ExecutionState& state, std::span<const TensorView> inputs,
                                   OutputAllocator& outputs,
                                   const ExecutionControl& control = {}) const = 0;
  [[nodiscard]] virtual PlanStatistics plan_statistics() const { return {}; }
  /// In order of their ops.
  [[nodiscard]] virtual std::span<const CachePair> caches() const { return {}; }
};

/// The machines that programs are compiled for.
struct CompileTarget {
  /// Any machine that the library knows and any minor version of the library: nothing in a program
  /// depends on the machine that compiled it, weights are stored plain and packed at load.
  bool portable = false;
  /// Instruction sets as ProgramLoader::sort_isas() gives them, smallest first; none: that of this process.
  std::vector<std::string> isas;
};

/// Whether a context fits this machine (ORT's OrtCompiledModelCompatibility without "n/a").
enum class Compatibility { kOptimal, kPreferRecompilation, kUnsupported };

struct CompatibilityVerdict {
  Compatibility verdict = Compatibility::kUnsupported;
  std::string reason;  // found and expected values; empty for kOptimal
};

struct LoadOptions {
  int threads = 0;  // OpenMP threads for planning and running; 0: physical cores allowed here
  /// Plans kept for shapes met at run time, per executable (and bound to memory, per state); the
  /// least recently used one goes. At least one is kept.
  std::size_t kept_plans = 8;
  /// Run the loops of ctxgen's own kernels, and outlive the executable; null: the OpenMP threads
  /// that oneDNN's primitives use.
  Workers* workers = nullptr;
};

/// Facts about a load that benches and `-v` report.
struct LoadStatistics {
  double primitive_creation_ms = 0;  // sum over all primitives, on one thread's clock each
  std::uint64_t primitives = 0;
  std::uint64_t repacked_weights = 0;
  std::uint64_t repacked_bytes = 0;
};

/// Resolves a blob index of a program to its bytes (64-byte aligned if packed, alive with the owner).
using BlobSource = std::function<Result<Blob>(BlobIndex index)>;

/// In which precision an op with a constant matrix, filter or table works.
struct OpPrecision {
  std::string op;  // as OpChoice has it
  std::string
      precision;  // "f32", "int8", or as OpChoice has it: "weights=bf16", "precision=bf16", "weights=s4:32"
  std::uint64_t elements = 0;  // of the constant
  std::vector<std::string> others =
      {};  // what an f32 one could be on this machine, as OpChoice has it
};

/// The load side of a provider: needs ctxfile and below only, so that a process that runs contexts
/// links no compiler.
///
/// What is about targets has defaults for a provider whose programs are the same for every
/// instruction set. One whose programs or fingerprint depend on the machine overrides
/// fingerprint_of() and best_isa(); one whose library has a switch of its own, use_isa().
class ProgramLoader {
 public:
  virtual ~ProgramLoader() = default;
  /// In the order of the program's ops; those without such a constant are left out.
  [[nodiscard]] virtual std::vector<OpPrecision> precisions(const Program& /*program*/) const {
    return {};
  }
  [[nodiscard]] virtual std::string_view source() const = 0;  // EPContext `source`
  /// Makes `program` runnable; stored plans get their primitives here.
  /// Requires  validate() has passed it: those of a ContextReader it has.
  /// Errors  kCorruptContext (payload or weights do not fit the program), kVersionMismatch,
  ///         BACKEND_ERROR. Lifetime: the executable keeps `program` and `blobs`' owners alive.
  [[nodiscard]] virtual Result<std::unique_ptr<Executable>> load(
      std::shared_ptr<const Program> program, const BlobSource& blobs, const LoadOptions& options,
      LoadStatistics* statistics) const = 0;
  /// The fingerprint of what this process would write now (format, library, ISA).
  [[nodiscard]] virtual std::string fingerprint() const = 0;
  /// The fingerprint of programs for `target`. Default: that of any other.
  /// Errors  INVALID_ARGUMENT: the provider has no programs for such a target.
  [[nodiscard]] virtual Result<std::string> fingerprint_of(const CompileTarget& /*target*/) const {
    return fingerprint();
  }
  /// Names of instruction sets, each once, one that another includes before it: for all providers of
  /// a compile the same order. Default: those of ctxgen/base/instruction_set.h.
  /// Errors  INVALID_ARGUMENT: unknown (naming the known ones), there twice, or the first one is not
  ///         part of all others.
  [[nodiscard]] virtual Result<std::vector<std::string>> sort_isas(
      std::span<const std::string> names) const {
    return sort_instruction_sets(names);
  }
  /// Limits this process to `isa`, for good: what it compiles and runs from now on uses nothing
  /// beyond. A library may allow that only once, before its first use. Default: a limit for the code
  /// that obeys usable_instruction_set().
  /// Errors  INVALID_ARGUMENT: unknown, beyond this machine, or the library is in use with another.
  [[nodiscard]] virtual Status use_isa(std::string_view isa) const {
    return limit_to_instruction_set(isa);
  }
  /// Index of the one to use in this process, where it has any of them.
  [[nodiscard]] virtual std::optional<std::size_t> best_isa(
      std::span<const std::string> isas) const {
    return best_instruction_set(isas, usable_instruction_set());
  }
  /// Compares a fingerprint from a model's metadata or a context binary with this machine.
  /// `threads`: of the run, which fingerprints of older files name.
  [[nodiscard]] virtual CompatibilityVerdict compatibility(std::string_view fingerprint,
                                                           int threads) const = 0;
};

}  // namespace ctxgen
