#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/executable.h"

namespace ctxgen {

/// A step of a plan as people look at it: a primitive of a library, a loop of our own, or a copy that
/// the plan adds between two layouts.
struct PlanStep {
  std::uint32_t op = 0;        // of ShownProgram::program
  std::string implementation;  // as OpTiming has it
  std::string types;           // "u8 * s8 -> f32", "" where the step does not tell
  std::string layouts;         // "acdb, Acdb16a -> acdb": source, weight and result; "" likewise
  double flops = 0;            // 0: unknown
  std::uint64_t bytes = 0, scratch_bytes = 0;
  bool moves = false;  // a copy or a reorder: it computes nothing
};

/// A part of the arena that one value takes.
struct PlanRegion {
  std::uint64_t offset = 0, bytes = 0;
  std::uint32_t first = 0, last = 0;  // steps that use it, both included
};

/// A stored plan: what a run does, in order, and where it keeps what.
struct PlanView {
  std::vector<Dims> input_dims;
  std::vector<PlanStep> steps;
  std::vector<PlanRegion> regions;
  std::uint64_t arena_bytes = 0, scratch_bytes = 0;
};

/// A program's stored plans, in their order.
struct ShownProgram {
  std::shared_ptr<const Program> program;  // whose ops they run: the one asked for, or a part of it
  std::vector<PlanView> plans;
};

/// What a ProgramLoader may also be: one that shows its plans and layouts to tools.
class ShowsPlans {
 public:
  virtual ~ShowsPlans() = default;
  /// Requires and errors  those of load(), as which this takes as long.
  [[nodiscard]] virtual Result<ShownProgram> show_plans(std::shared_ptr<const Program> program,
                                                        const BlobSource& blobs,
                                                        const LoadOptions& options) const = 0;
  /// "Acdb16a"; "plain" for ONNX's order; "unknown" if it is not one of this release's.
  [[nodiscard]] virtual std::string layout_name(const ProgramWeight& weight,
                                                const PackedWeight& packed) const = 0;
};

}  // namespace ctxgen
