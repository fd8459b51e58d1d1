#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/plan_view.h"
#include "ctxgen/ctxfile/resolve.h"

#include "running/bench_measure.h"
#include "running/verify_runs.h"
#include "show/inspect_model.h"

namespace ctxgen::cli {

inline constexpr std::uint32_t kNoIndex = UINT32_MAX;

/// A node of the source; where there is none, an op of a program or a node that stayed in the model.
struct ShownNode {
  std::string name, op_type, graph;  // graph "": the main one
  std::string provider;              // "": none runs it
  std::uint32_t program = kNoIndex;  // into ReportData::programs
  std::uint32_t op = kNoIndex;       // of that program, which computes it
  bool folded = false;
  std::vector<std::string> reasons;
  std::vector<std::uint32_t> reads;  // nodes whose results it takes, ascending
  double microseconds = -1;          // of a node that runs by itself; negative: not measured
};

/// A program with what its loader shows of it.
struct ReportProgram {
  std::string provider, hash;
  std::size_t context = 0;  // into ReportData::contexts
  std::shared_ptr<const Program> program;
  ShownProgram shown;  // without a program: `error` says why
  std::string error = {};
  /// Per step of the first plan; empty: not measured.
  std::vector<double> microseconds = {};
};

/// Something that costs time or memory, and what helps.
struct Lint {
  std::string
      kind;  // "reference", "reorder", "f32_island", "unplanned", "between", "split_layout", ...
  std::string title, text, help;
  std::vector<std::uint32_t> nodes;  // of ReportData::nodes
  struct StepRef {
    std::uint32_t program = 0, step = 0;
  };
  std::vector<StepRef> steps;  // of the first plan
  std::uint64_t bytes = 0;     // that it costs; 0: not told
  double microseconds = -1;    // negative: not measured
};

/// All that a report tells of one model.
struct ReportData {
  ModelFacts facts;        // of the context model
  CompileReport compiled;  // for a context model: what can be told without its source
  bool from_source = false;
  std::vector<ShownNode> nodes;
  std::vector<OpenContext> contexts;
  std::vector<ReportProgram> programs;
  std::optional<BenchResult> measured;
  std::uint64_t iterations = 0;  // of the measurement
  std::vector<VerificationRun> verification;
  std::vector<Lint> lints;
};

}  // namespace ctxgen::cli
