#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/tuning_table.h"

namespace ctxgen {

/// What one run of a trial took, in microseconds.
struct RunTimes {
  double run_us = 0;
  std::map<std::string, double> op_us;  // by TunableOp::name
};

/// Models that were compiled with a table, ready to run.
class FormTrial {
 public:
  virtual ~FormTrial() = default;
  /// Names differ.
  [[nodiscard]] virtual std::span<const TunableOp> ops() const = 0;
  /// Runs each model once.
  [[nodiscard]] virtual Result<RunTimes> run() = 0;
};

/// Where forms are measured: models and a clock.
class FormBench {
 public:
  virtual ~FormBench() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<FormTrial>> make(const TuningTable& table) = 0;
  /// With every constant that can be in this precision (narrow_precisions()); null: none can. Ops that do not
  /// become narrow take as long as before.
  [[nodiscard]] virtual Result<std::unique_ptr<FormTrial>> make_narrow(
      const TuningTable& table, std::string_view precision) = 0;
  /// Since any moment.
  [[nodiscard]] virtual double seconds() = 0;
};

struct FormProgress {
  std::size_t shapes = 0, trial = 0, trials = 0;
  bool confirming = false;          // the last trial of forms: all that won
  std::string_view precision = {};  // that is measured; "": forms are
  double seconds_left = 0;
};

struct FormSearch {
  double seconds = 60;      // it takes no longer, but for the trial that is being made
  TuningTable known = {};   // for which library and machine; its rows are not measured again
  bool precisions = false;  // measure TuningRow::precisions, too
  /// Of earlier searches; nothing: not known. Asked once for each shape that `known` lacks.
  std::function<std::optional<TuningRow>(const TunedShape&)> recall = {};
  std::function<void(const FormProgress&)> progress = {};
  std::function<bool()> stop = {};  // asked between runs: then what is known so far is all
};

struct FormFinding {
  TuningTable table;                // `known`, and what was found
  std::vector<TuningRow> measured;  // of the table, those that were measured now
  TuningReport report;
};

/// A form has to take less time than the table's by this share: more than two measurements of one form differ.
inline constexpr double kLeastGain = 0.03;

/// Finds for each shape of ops the fastest form.
///
/// A trial has one form for each shape; it takes turns with the one that has the tables' forms, so that both see the
/// same load, and the least time of each op counts. What wins by kLeastGain is compiled together, measured once more,
/// and kept if it wins again. A precision counts as faster if ops take less time by kLeastGain than in the form that
/// was kept; of those that differ by less than that, the one with fewer bits comes first.
/// Errors  those of the bench.
[[nodiscard]] Result<FormFinding> search_forms(FormBench& bench, const FormSearch& search);

}  // namespace ctxgen
