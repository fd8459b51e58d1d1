#include "ctxgen/tuning/precision_search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <format>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"

#include "precision_trial.h"

namespace ctxgen {
namespace {

constexpr std::array<std::string_view, 5> kForms{"weights=s4:32", "weights=s8:32", "precision=bf16",
                                                 "weights=f16", "weights=bf16"};
constexpr int kMostTrials = 64, kMostTrialsOfTurn = 20;
/// Of the bound: what is left is for samples that the search does not see.
constexpr double kShareSearched = 0.75;
/// Groups with a smaller share of all constants are not divided further.
constexpr std::uint64_t kSmallestGroup = 64;

struct Candidate {
  std::string op;
  std::uint64_t elements = 0;
  std::set<std::string> forms = {};
  /// What is tried for it, turn by turn; "": nothing.
  std::array<std::string_view, kForms.size()> order = {};
  std::string chosen = {};  // "": f32
};

/// By bits, or by time where it was measured.
void order_forms(Candidate& candidate, const TuningRow* row) {
  const auto possible = [&](std::string_view form) {
    return candidate.forms.contains(std::string(form));
  };
  const bool by_time = row != nullptr && row->precisions;
  candidate.order = {};
  for (std::size_t turn = 0; turn < kForms.size(); ++turn) {
    if (!by_time && possible(kForms[turn])) candidate.order[turn] = kForms[turn];
    if (!by_time || turn >= row->precisions->size()) continue;
    const auto known = std::ranges::find(kForms, (*row->precisions)[turn]);
    if (known != kForms.end() && possible(*known)) candidate.order[turn] = *known;
  }
}

/// Ops that read one constant get one choice. What this machine multiplies, others may not.
std::vector<Candidate> candidates_of(std::span<const OpPrecision> precisions,
                                     const CompileOptions& options) {
  std::vector<Candidate> all;
  for (const OpPrecision& one : precisions) {
    if (one.others.empty() || one.op.empty()) continue;
    auto found = std::ranges::find(all, one.op, &Candidate::op);
    if (found == all.end()) found = all.insert(all.end(), Candidate{.op = one.op});
    found->elements += one.elements;
    for (const std::string& form : one.others)
      if (!options.portable || !form.starts_with("precision=")) found->forms.insert(form);
  }
  return all;
}

class PrecisionSearch {
 public:
  PrecisionSearch(const ModelInput& input, const CompileOptions& options,
                  const PrecisionRequest& request)
      : input_(input), options_(options), request_(request) {}

  Result<PrecisionFinding> run() {
    const auto start = std::chrono::steady_clock::now();
    const Trial f32 = CTXGEN_TRY(make_trial(input_, options_, {}));
    samples_ = CTXGEN_TRY(split_samples(request_.samples, f32.session->inputs()));
    references_ = CTXGEN_TRY(run_samples(*f32.session, samples_.searched));
    candidates_ = candidates_of(f32.precisions, options_);
    for (const Candidate& candidate : candidates_) elements_ += candidate.elements;
    order_candidates(f32);
    for (std::size_t turn = 0; turn < kForms.size(); ++turn) CTXGEN_CHECK(search_turn(turn));
    PrecisionFinding found = CTXGEN_TRY(finish(f32));
    found.report.seconds = seconds_since(start);
    return found;
  }

 private:
  using Group = std::span<const std::size_t>;  // candidates

  [[nodiscard]] ChoiceTable table() const {
    ChoiceTable table;
    for (const Candidate& candidate : candidates_)
      if (!candidate.chosen.empty()) table.push_back({candidate.op, candidate.chosen});
    std::ranges::sort(table, {}, &OpChoice::op);
    return table;
  }

  void order_candidates(const Trial& f32) {
    for (Candidate& candidate : candidates_) {
      const auto op = std::ranges::find(f32.tunable, candidate.op, &TunableOp::constant);
      order_forms(candidate,
                  op == f32.tunable.end() ? nullptr : find_row(options_.tuning, op->shape));
    }
  }

  Status search_turn(std::size_t turn) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].chosen.empty() && !candidates_[i].order[turn].empty()) open.push_back(i);
    left_of_turn_ = kMostTrialsOfTurn;
    return open.empty() ? Status() : take(open, turn);
  }

  /// All of the group, or what of its halves can be.
  Status take(Group group, std::size_t turn) {
    if (left_of_turn_ == 0 || trials_ == kMostTrials) return {};
    --left_of_turn_;
    for (const std::size_t i : group) candidates_[i].chosen = candidates_[i].order[turn];
    if (CTXGEN_TRY(holds())) return {};
    for (const std::size_t i : group) candidates_[i].chosen.clear();
    std::uint64_t elements = 0;
    for (const std::size_t i : group) elements += candidates_[i].elements;
    if (group.size() == 1 || elements < elements_ / kSmallestGroup) return {};
    CTXGEN_CHECK(take(group.first(group.size() / 2), turn));
    return take(group.subspan(group.size() / 2), turn);
  }

  /// Whether the choices as they are keep the bound. Ops that did not become what was chosen are f32 again.
  Result<bool> holds() {
    if (options_.cancelled && options_.cancelled())
      return fail(ErrorCode::kCancelled, "interrupted");
    ++trials_;
    Trial trial = CTXGEN_TRY(make_trial(input_, options_, table()));
    const auto outputs = CTXGEN_TRY(run_samples(*trial.session, samples_.searched));
    const double error = CTXGEN_TRY(largest_error(outputs, references_, request_.bound.norm));
    const bool within = error <= kShareSearched * request_.bound.most;
    if (within) {
      error_ = error;
      drop_refused(trial);
      kept_ = std::move(trial);
    }
    tell();
    return within;
  }

  void drop_refused(const Trial& trial) {
    std::set<std::pair<std::string_view, std::string_view>> made;
    for (const OpPrecision& one : trial.precisions) made.emplace(one.op, one.precision);
    for (Candidate& candidate : candidates_)
      if (!made.contains({candidate.op, candidate.chosen})) candidate.chosen.clear();
  }

  void tell() const {
    if (!request_.progress) return;
    const auto narrow =
        std::ranges::count_if(candidates_, [](const Candidate& c) { return !c.chosen.empty(); });
    request_.progress({.trials = trials_,
                       .most_trials = kMostTrials,
                       .narrow_ops = static_cast<std::size_t>(narrow),
                       .ops = candidates_.size(),
                       .error = error_});
  }

  Result<PrecisionFinding> finish(const Trial& f32) {
    const Trial& last = kept_ ? *kept_ : f32;
    const auto references = CTXGEN_TRY(run_samples(*f32.session, samples_.held_out));
    const auto outputs = CTXGEN_TRY(run_samples(*last.session, samples_.held_out));
    const double held_out = CTXGEN_TRY(largest_error(outputs, references, request_.bound.norm));
    if (!(held_out <= request_.bound.most))
      return fail(
          ErrorCode::kNotSatisfied,
          "--max-error: the choices keep within {:.3g} on {} samples, but on {} held out an "
          "output is {:.3g} from f32, expected at most {}: give more samples, or a smaller "
          "bound",
          error_, samples_.searched.size(), samples_.held_out.size(), held_out,
          request_.bound.most);
    PrecisionFinding found;
    found.choice.table = table();
    found.choice.certificate = Certificate{.bound = request_.bound.most,
                                           .norm = std::string(name_of(request_.bound.norm)),
                                           .samples = request_.samples.hash,
                                           .searched = samples_.searched.size(),
                                           .held_out = samples_.held_out.size(),
                                           .searched_error = error_,
                                           .held_out_error = held_out,
                                           .producer = "ctxgen " CTXGEN_VERSION_STRING,
                                           .fingerprint = last.fingerprint,
                                           .choices = found.choice.table};
    for (const OpPrecision& one : last.precisions) ++found.report.ops[one.precision];
    found.report.trials = trials_;
    found.report.bytes_f32 = f32.bytes;
    found.report.bytes = last.bytes;
    found.report.run_ms_f32 = CTXGEN_TRY(least_run_ms(*f32.session));
    found.report.run_ms = CTXGEN_TRY(least_run_ms(*last.session));
    return found;
  }

  [[nodiscard]] Result<double> least_run_ms(const Session& session) const {
    constexpr int kRuns = 5;
    double least = 0;
    for (int i = 0; i < kRuns; ++i) {
      const auto start = std::chrono::steady_clock::now();
      (void)CTXGEN_TRY(session.run_values(samples_.searched.front()));
      const double ms = milliseconds_since(start);
      least = i == 0 ? ms : std::min(least, ms);
    }
    return least;
  }

  const ModelInput& input_;
  const CompileOptions& options_;
  const PrecisionRequest& request_;
  Samples samples_;
  std::vector<Outputs> references_;  // of the samples that are searched by
  std::vector<Candidate> candidates_;
  std::uint64_t elements_ = 0;
  std::optional<Trial> kept_;
  double error_ = 0;
  int trials_ = 0, left_of_turn_ = 0;
};

}  // namespace

std::span<const std::string_view> narrow_precisions() { return kForms; }

std::string describe(const PrecisionRequest& request) {
  return std::format("{}:{} {}", name_of(request.bound.norm), request.bound.most,
                     request.samples.hash.hex());
}

Result<PrecisionFinding> search_precision(const ModelInput& input, const CompileOptions& options,
                                          const PrecisionRequest& request) {
  return at_boundary("choosing precisions",
                     [&] { return PrecisionSearch(input, options, request).run(); });
}

}  // namespace ctxgen
