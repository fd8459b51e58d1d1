#include "ctxgen/tuning/form_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ctxgen/tuning/precision_search.h"

namespace ctxgen {
namespace {

constexpr int kLeastRounds = 3, kMostRounds = 100;
/// Of the time; the rest is for what won.
constexpr double kShareOfTrials = 0.7;
/// Of the time, for forms, where precisions are measured after them.
constexpr double kShareOfForms = 0.6;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A shape of the models, and what is known of it.
struct ShapeForms {
  TunedShape shape;
  std::string table_form;
  std::vector<std::string> others;
  std::vector<std::string> ops;        // names
  std::size_t tried = 0;               // of the others
  std::string best;                    // that won a trial; "": none
  double best_share = 1 - kLeastGain;  // of the time that the table's form takes
  std::string closest;                 // of all that were tried; "": none was taken
  double closest_share = kNever;
  double table_us = 0;  // the least that was seen
};

/// The least times of runs.
class LeastTimes {
 public:
  void add(const RunTimes& times) {
    run_us_ = std::min(run_us_, times.run_us);
    for (const auto& [op, us] : times.op_us) {
      const auto [known, added] = op_us_.try_emplace(op, us);
      if (!added) known->second = std::min(known->second, us);
    }
  }
  [[nodiscard]] double run_us() const { return run_us_ == kNever ? 0 : run_us_; }
  /// Of all of these; 0 where one did not run.
  [[nodiscard]] double of(std::span<const std::string> ops) const {
    double sum = 0;
    for (const std::string& op : ops) {
      const auto known = op_us_.find(op);
      if (known == op_us_.end() || known->second <= 0) return 0;
      sum += known->second;
    }
    return sum;
  }

 private:
  double run_us_ = kNever;
  std::map<std::string, double> op_us_;
};

class Searcher {
 public:
  Searcher(FormBench& bench, const FormSearch& search)
      : bench_(bench), search_(search), start_(bench.seconds()) {}

  Result<FormFinding> run() {
    finding_.table = search_.known;
    base_ = CTXGEN_TRY(bench_.make(with_rows({})));
    find_candidates();
    if (!candidates_.empty()) {
      CTXGEN_CHECK(warm_up(*base_));
      CTXGEN_CHECK(try_all());
      CTXGEN_CHECK(confirm());
      if (search_.precisions) CTXGEN_CHECK(try_precisions());
    }
    std::ranges::sort(finding_.table.rows, {}, &TuningRow::shape);
    report_gains();
    finding_.report.interrupted = stopped_;
    finding_.report.seconds = elapsed();
    return std::move(finding_);
  }

 private:
  [[nodiscard]] double elapsed() const { return bench_.seconds() - start_; }
  [[nodiscard]] bool stopped() {
    stopped_ = stopped_ || (search_.stop && search_.stop());
    return stopped_;
  }
  [[nodiscard]] TuningTable with_rows(std::vector<TuningRow> rows) const {
    TuningTable table = search_.known;
    table.rows = std::move(rows);
    std::ranges::sort(table.rows, {}, &TuningRow::shape);
    return table;
  }

  /// The shapes of the models; those that are known already go into the finding.
  void find_candidates() {
    std::map<TunedShape, ShapeForms> shapes;
    for (const TunableOp& op : base_->ops()) {
      ShapeForms& one = shapes[op.shape];
      one.shape = op.shape;
      one.table_form = op.form;
      one.others = op.others;
      one.ops.push_back(op.name);
    }
    finding_.report.shapes = shapes.size();
    for (auto& [shape, candidate] : shapes) {
      all_.push_back(candidate);
      if (is_known(shape))
        ++finding_.report.known;
      else
        candidates_.push_back(std::move(candidate));
    }
    std::ranges::sort(finding_.table.rows, {}, &TuningRow::shape);
  }

  [[nodiscard]] bool tells_all(const TuningRow& row) const {
    return !search_.precisions || row.precisions.has_value();
  }

  bool is_known(const TunedShape& shape) {
    if (const TuningRow* row = find_row(search_.known, shape)) return tells_all(*row);
    auto row = search_.recall ? search_.recall(shape) : std::nullopt;
    if (!row || !tells_all(*row)) return false;
    finding_.table.rows.push_back(*std::move(row));
    return true;
  }

  /// The first run makes memory and brings weights into it.
  static Status warm_up(FormTrial& trial) {
    (void)CTXGEN_TRY(trial.run());
    return {};
  }

  void tell(std::size_t trial, bool confirming) const {
    if (!search_.progress) return;
    search_.progress({.shapes = candidates_.size(),
                      .trial = trial + 1,
                      .trials = trials_ + 1,
                      .confirming = confirming,
                      .precision = {},
                      .seconds_left = std::max(0.0, search_.seconds - elapsed())});
  }

  /// The trials take turns, until `deadline`; false: stopped before there were enough rounds.
  Result<bool> take_turns(FormTrial& trial, double deadline, LeastTimes& table, LeastTimes& other) {
    CTXGEN_CHECK(warm_up(trial));
    for (int round = 0; round < kMostRounds; ++round) {
      if (stopped()) return round >= kLeastRounds;
      if (round >= kLeastRounds && elapsed() >= deadline) break;
      const bool base_first = round % 2 == 0;
      if (base_first) table.add(CTXGEN_TRY(base_->run()));
      other.add(CTXGEN_TRY(trial.run()));
      if (!base_first) table.add(CTXGEN_TRY(base_->run()));
    }
    return true;
  }

  /// Each trial has the next other form of every shape.
  Status try_all() {
    for (const ShapeForms& candidate : candidates_)
      trials_ = std::max(trials_, candidate.others.size());
    for (std::size_t t = 0; t < trials_; ++t) {
      const double until = seconds_for_forms() * kShareOfTrials;
      if (stopped() || elapsed() >= until) break;
      tell(t, false);
      const double deadline = elapsed() + (until - elapsed()) / static_cast<double>(trials_ - t);
      CTXGEN_CHECK(try_forms(t, deadline));
    }
    return {};
  }

  Status try_forms(std::size_t t, double deadline) {
    std::vector<TuningRow> rows;
    for (const ShapeForms& one : candidates_)
      if (t < one.others.size()) rows.push_back({.shape = one.shape, .form = one.others[t]});
    const auto trial = CTXGEN_TRY(bench_.make(with_rows(std::move(rows))));
    LeastTimes table, other;
    if (!CTXGEN_TRY(take_turns(*trial, deadline, table, other))) return {};
    for (ShapeForms& one : candidates_) {
      if (t >= one.others.size()) continue;
      ++one.tried;
      const double share = share_of(one, *trial, one.others[t], table, other);
      if (share < one.closest_share) {
        one.closest_share = share;
        one.closest = one.others[t];
      }
      if (share >= one.best_share) continue;
      one.best_share = share;
      one.best = one.others[t];
    }
    return {};
  }

  /// The time of a shape's ops with another form, over that with the table's; kNever where it was not taken.
  static double share_of(ShapeForms& one, const FormTrial& trial, const std::string& form,
                         const LeastTimes& table, const LeastTimes& other) {
    const double before = table.of(one.ops), after = other.of(one.ops);
    if (before > 0) one.table_us = one.table_us > 0 ? std::min(one.table_us, before) : before;
    const bool taken = std::ranges::all_of(
        trial.ops(), [&](const TunableOp& op) { return op.shape != one.shape || op.form == form; });
    return taken && before > 0 && after > 0 ? after / before : kNever;
  }

  /// Measures all that won together.
  Status confirm() {
    std::vector<TuningRow> rows;
    for (const ShapeForms& one : candidates_)
      rows.push_back(
          {.shape = one.shape, .form = one.best.empty() ? std::string(kTableForm) : one.best});
    // What is known counts in the whole.
    for (const ShapeForms& one : all_)
      if (const TuningRow* row = find_row(finding_.table, one.shape);
          row != nullptr && !std::ranges::contains(rows, one.shape, &TuningRow::shape))
        rows.push_back({.shape = one.shape, .form = row->form});
    LeastTimes table, other;
    std::unique_ptr<FormTrial> trial;
    bool measured = false;
    if (steers(with_rows(rows)) && !stopped()) {
      tell(trials_, true);
      trial = CTXGEN_TRY(bench_.make(with_rows(std::move(rows))));
      measured = CTXGEN_TRY(take_turns(*trial, seconds_for_forms(), table, other));
    }
    if (measured) {
      finding_.report.table_run_us = table.run_us();
      finding_.report.run_us = other.run_us();
    }
    for (ShapeForms& one : candidates_) settle(one, measured ? trial.get() : nullptr, table, other);
    return {};
  }

  /// Enters what is known of a shape now. `trial`: of all that won, if there was time for it.
  void settle(ShapeForms& one, const FormTrial* trial, const LeastTimes& table,
              const LeastTimes& other) {
    const bool whole = one.tried == one.others.size();
    const bool won = !one.best.empty();
    if (won && trial == nullptr) {
      ++finding_.report.unfinished;
      return;
    }
    if (won && share_of(one, *trial, one.best, table, other) <= 1 - kLeastGain) {
      keep({one.shape, one.best, other.of(one.ops), table.of(one.ops)});
    } else if (whole) {
      keep({one.shape, std::string(kTableForm), one.table_us, one.table_us});
      finding_.report.stays.push_back({one.shape, one.table_form, one.ops.size(), one.closest,
                                       one.closest.empty() ? 0 : one.closest_share});
    } else {
      ++finding_.report.unfinished;
      return;
    }
    ++finding_.report.measured;
  }

  void keep(TuningRow row) {
    std::erase_if(finding_.table.rows,
                  [&](const TuningRow& known) { return known.shape == row.shape; });
    finding_.table.rows.push_back(row);
    finding_.measured.push_back(std::move(row));
  }

  [[nodiscard]] double seconds_for_forms() const {
    return search_.seconds * (search_.precisions ? kShareOfForms : 1);
  }

  /// How long ops take with narrow constants. Rows say so only if there was time for all precisions.
  Status try_precisions() {
    const auto precisions = narrow_precisions();
    std::vector<std::vector<double>> shares(candidates_.size());
    for (std::size_t p = 0; p < precisions.size(); ++p) {
      if (stopped() || elapsed() >= search_.seconds) return {};
      if (search_.progress)
        search_.progress({.shapes = candidates_.size(),
                          .trial = p + 1,
                          .trials = precisions.size(),
                          .precision = precisions[p],
                          .seconds_left = std::max(0.0, search_.seconds - elapsed())});
      const double left = search_.seconds - elapsed();
      const double deadline = elapsed() + left / static_cast<double>(precisions.size() - p);
      const auto trial = CTXGEN_TRY(bench_.make_narrow(with_rows({}), precisions[p]));
      LeastTimes table, other;
      if (trial && !CTXGEN_TRY(take_turns(*trial, deadline, table, other))) return {};
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const double before = table.of(candidates_[i].ops), after = other.of(candidates_[i].ops);
        shares[i].push_back(before > 0 && after > 0 ? after / before : kNever);
      }
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      enter_precisions(candidates_[i].shape, shares[i]);
    return {};
  }

  /// `shares`: of the time that the table's form takes in f32.
  void enter_precisions(const TunedShape& shape, std::span<const double> shares) {
    const auto of_shape = [&](std::vector<TuningRow>& rows) {
      return std::ranges::find(rows, shape, &TuningRow::shape);
    };
    const auto row = of_shape(finding_.measured);
    if (row == finding_.measured.end()) return;
    const double f32 = row->table_us > 0 ? row->us / row->table_us : 1;
    std::vector<std::pair<int, std::string>> faster;  // times that differ by noise are equal
    for (std::size_t p = 0; p < shares.size(); ++p)
      if (shares[p] <= f32 * (1 - kLeastGain))
        faster.emplace_back(static_cast<int>(shares[p] / kLeastGain), narrow_precisions()[p]);
    std::ranges::stable_sort(faster, {}, &std::pair<int, std::string>::first);
    row->precisions.emplace();
    for (auto& [time, precision] : faster) row->precisions->push_back(std::move(precision));
    *of_shape(finding_.table.rows) = *row;
  }

  void report_gains() {
    for (const ShapeForms& one : all_)
      if (const TuningRow* row = find_row(finding_.table, one.shape);
          row != nullptr && row->form != kTableForm)
        finding_.report.gains.push_back({*row, one.table_form, one.ops.size()});
  }

  FormBench& bench_;
  const FormSearch& search_;
  double start_;
  std::unique_ptr<FormTrial> base_;
  std::vector<ShapeForms> all_, candidates_;  // candidates_: those that are to be measured
  std::size_t trials_ = 0;
  bool stopped_ = false;
  FormFinding finding_;
};

}  // namespace

Result<FormFinding> search_forms(FormBench& bench, const FormSearch& search) {
  return Searcher(bench, search).run();
}

}  // namespace ctxgen
