#include "ctxgen/tuning/tune_models.h"

#include <algorithm>
#include <format>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/cache/build_identity.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/partition/provider.h"
#include "ctxgen/registry/providers.h"
#include "ctxgen/runtime/verify.h"
#include "ctxgen/tuning/precision_search.h"
#include "ctxgen/tuning/tuning_file.h"

#include "precision_trial.h"

namespace ctxgen {
namespace {

/// The first provider of a compile that writes programs.
Result<std::unique_ptr<Provider>> tuned_provider(const CompileOptions& options) {
  for (const std::string& name :
       options.providers.empty() ? default_providers() : options.providers) {
    auto provider = CTXGEN_TRY(make_provider(name));
    if (provider->compiles()) return provider;
  }
  return fail(ErrorCode::kInvalidArgument, "tuning: no provider compiles");
}

/// Times are told by name: of two ops of one name nothing is known.
void drop_ambiguous(std::vector<TunableOp>& ops) {
  std::map<std::string, int> uses;
  for (const TunableOp& op : ops) ++uses[op.name];
  std::erase_if(ops, [&](const TunableOp& op) { return uses.at(op.name) > 1; });
}

/// Several models as one: their ops' names are told apart by the models' numbers.
class ModelsTrial final : public FormTrial {
 public:
  /// `narrow`: a table for each model, or none.
  static Result<std::unique_ptr<ModelsTrial>> make(std::span<const ModelInput> models,
                                                   const CompileOptions& options,
                                                   const TuneRequest& request,
                                                   std::span<const ChoiceTable> narrow = {}) {
    auto made = std::make_unique<ModelsTrial>();
    for (const ModelInput& model : models) {
      const ChoiceTable& choices =
          made->runs_.size() < narrow.size() ? narrow[made->runs_.size()] : options.precision.table;
      Trial trial = CTXGEN_TRY(make_trial(model, options, choices, request.threads));
      auto inputs = CTXGEN_TRY(request.make_inputs(trial.session->inputs()));
      made->add(std::move(trial), std::move(inputs));
    }
    drop_ambiguous(made->ops_);
    return made;
  }

  [[nodiscard]] std::span<const TunableOp> ops() const override { return ops_; }

  /// For each model the ops that may have this precision.
  [[nodiscard]] std::vector<ChoiceTable> able_to(std::string_view precision) const {
    std::vector<ChoiceTable> tables;
    for (const Run& run : runs_) {
      ChoiceTable& table = tables.emplace_back();
      for (const OpPrecision& op : run.precisions)
        if (!op.op.empty() && std::ranges::contains(op.others, precision))
          table.push_back({op.op, std::string(precision)});
      std::ranges::sort(table, {}, &OpChoice::op);
      const auto twice = std::ranges::unique(table, {}, &OpChoice::op);
      table.erase(twice.begin(), twice.end());
    }
    return tables;
  }

  [[nodiscard]] Result<RunTimes> run() override {
    RunTimes times;
    for (std::size_t m = 0; m < runs_.size(); ++m) {
      std::vector<OpTiming> timings;
      const double start_us = steady_us();
      (void)CTXGEN_TRY(runs_[m].session->run_values(runs_[m].inputs, {.timings = &timings}));
      times.run_us += steady_us() - start_us;
      for (const OpTiming& timing : timings)
        times.op_us[own_name(m, timing.name)] += timing.microseconds;
    }
    return times;
  }

 private:
  struct Run {
    std::unique_ptr<Session> session;
    std::vector<NamedValue> inputs;
    std::vector<OpPrecision> precisions;
  };

  static std::string own_name(std::size_t model, std::string_view op) {
    return std::format("{}:{}", model, op);
  }

  void add(Trial trial, std::vector<NamedValue> inputs) {
    for (TunableOp& op : trial.tunable) {
      op.name = own_name(runs_.size(), op.name);
      ops_.push_back(std::move(op));
    }
    runs_.push_back({std::move(trial.session), std::move(inputs), std::move(trial.precisions)});
  }

  std::vector<Run> runs_;
  std::vector<TunableOp> ops_;
};

class ModelsBench final : public FormBench {
 public:
  ModelsBench(std::span<const ModelInput> models, CompileOptions options,
              const TuneRequest& request)
      : models_(models), options_(std::move(options)), request_(request) {
    options_.cancelled = {};  // a compile that began is finished: what is known is kept
  }
  [[nodiscard]] Result<std::unique_ptr<FormTrial>> make(const TuningTable& table) override {
    options_.tuning = table;
    auto trial = CTXGEN_TRY(ModelsTrial::make(models_, options_, request_));
    if (able_.empty())
      for (const std::string_view precision : narrow_precisions())
        able_.emplace(precision, trial->able_to(precision));
    return trial;
  }
  [[nodiscard]] Result<std::unique_ptr<FormTrial>> make_narrow(
      const TuningTable& table, std::string_view precision) override {
    if (able_.empty()) (void)CTXGEN_TRY(make(table));
    const std::vector<ChoiceTable>& narrow = able_.find(precision)->second;
    if (std::ranges::all_of(narrow, &ChoiceTable::empty)) return nullptr;
    options_.tuning = table;
    return CTXGEN_TRY(ModelsTrial::make(models_, options_, request_, narrow));
  }
  [[nodiscard]] double seconds() override { return steady_us() * 1e-6; }

 private:
  std::span<const ModelInput> models_;
  CompileOptions options_;
  const TuneRequest& request_;
  std::map<std::string, std::vector<ChoiceTable>, std::less<>>
      able_;  // by precision; of each model
};

/// What was found before on this machine, shape by shape.
class Memory {
 public:
  static Result<Memory> open(const CompileOptions& options, const TuningTable& about) {
    Memory memory;
    memory.about_ = about;
    memory.about_.rows.clear();
    const auto folder = options.cache_dir.value_or(cache_folder_from_environment());
    if (!folder.empty() && !about.machine.empty())
      memory.cache_ = CTXGEN_TRY(CacheFolder::open(folder, options.cache_max_bytes));
    return memory;
  }

  [[nodiscard]] std::optional<TuningRow> recall(const TunedShape& shape) const {
    const auto entry = cache_ ? cache_->find(CacheKind::kTuning, key_of(shape)) : std::nullopt;
    if (!entry) return std::nullopt;
    auto table = parse_tuning(as_text(entry->bytes));
    if (!table || table->rows.size() != 1 || table->rows[0].shape != shape) return std::nullopt;
    return std::move(table->rows[0]);
  }

  void keep(const TuningRow& row) {
    if (!cache_) return;
    TuningTable one = about_;
    one.rows = {row};
    cache_->add(CacheKind::kTuning, key_of(row.shape), as_bytes(tuning_text(one)));
  }

 private:
  [[nodiscard]] Hash128 key_of(const TunedShape& shape) const {
    Hasher hasher;
    for (const std::string_view part :
         {std::string_view("ctxgen tuning"), build_identity(), std::string_view(about_.library),
          std::string_view(about_.instruction_set), std::string_view(about_.machine)})
      hasher.add(part);
    hasher.add(std::uint64_t(about_.threads));
    hasher.add(to_string(shape));
    return hasher.finish();
  }

  TuningTable about_;
  std::unique_ptr<CacheFolder> cache_;
};

Result<TuningTable> table_of_machine(const CompileOptions& options, const TuneRequest& request) {
  const auto provider = CTXGEN_TRY(tuned_provider(options));
  const ProviderInfo info = provider->info();
  TuningTable table{.library = info.library,
                    .instruction_set = info.instruction_set,
                    .machine = request.machine,
                    .threads = request.threads,
                    .rows = request.known.rows};
  if (request.known.library.empty()) return table;
  CTXGEN_CHECK(provider->check_tuning(request.known));
  CTXGEN_CHECK(check_continued(request.known, table));
  return table;
}

}  // namespace

Status check_tunable(const CompileOptions& options) {
  if (const auto slot = ruled_out_by_tuning(options))
    return fail(ErrorCode::kInvalidArgument, "tuning cannot be combined with {}",
                option_name(options, *slot));
  if (options.isas.empty()) return {};
  const auto provider = CTXGEN_TRY(tuned_provider(options));
  const std::string here = provider->info().instruction_set;
  if (options.isas.front() == here) return {};
  return fail(ErrorCode::kInvalidArgument,
              "tuning: {} {} cannot be measured on this machine, which uses {}",
              option_name(options, &CompileOptions::isas), options.isas.front(), here);
}

Result<FormFinding> tune_models(std::span<const ModelInput> models, const CompileOptions& options,
                                const TuneRequest& request) {
  return at_boundary("tuning", [&]() -> Result<FormFinding> {
    CTXGEN_CHECK(check_tunable(options));
    FormSearch search{.seconds = request.seconds,
                      .known = CTXGEN_TRY(table_of_machine(options, request)),
                      .precisions = !options.budget.request.empty(),
                      .progress = request.progress,
                      .stop = options.cancelled};
    Memory memory = CTXGEN_TRY(Memory::open(options, search.known));
    search.recall = [&](const TunedShape& shape) { return memory.recall(shape); };
    ModelsBench bench(models, options, request);
    FormFinding found = CTXGEN_TRY(search_forms(bench, search));
    for (const TuningRow& row : found.measured) memory.keep(row);
    return found;
  });
}

Result<std::optional<TunedShape>> find_unmeasured(const std::filesystem::path& context,
                                                  const CompileOptions& options) {
  std::vector<TunableOp> ops = CTXGEN_TRY(tunable_ops_in(context));
  drop_ambiguous(ops);
  const auto is_measured = [&](const TunedShape& shape) {
    if (options.budget.request.empty()) return find_row(options.tuning, shape) != nullptr;
    // The constant may have been narrowed since it was measured.
    return std::ranges::any_of(options.tuning.rows, [&](const TuningRow& row) {
      TunedShape measured = row.shape;
      measured.weight = shape.weight;
      measured.source = shape.source;
      if (measured.rows == 0) measured.rows = shape.rows;
      return row.precisions && measured == shape;
    });
  };
  for (TunableOp& op : ops)
    if (!is_measured(op.shape)) return std::move(op.shape);
  return std::nullopt;
}

}  // namespace ctxgen
