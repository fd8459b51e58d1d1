#include "output/output_transaction.h"

#include <algorithm>
#include <utility>

#include "output/output_files.h"

namespace ctxgen {

namespace {

/// The folder of the outputs while it is not there, but will be.
std::filesystem::path folder_to_make(const CompileEnv& env) {
  const auto folder = env.outputs.front().parent_path();
  std::error_code ignored;
  return env.options.make_folder && !std::filesystem::exists(folder, ignored)
             ? folder
             : std::filesystem::path();
}

Status check_writable_files(const std::vector<ModelInput>& inputs, const PlannedOutputs& outputs,
                            Writable writable, const CompileEnv& env) {
  const CompileOptions& options = env.options;
  const bool all = writable == Writable::kAll && !options.keep_unchanged;  // those may stay
  return check_all_writable(
      all ? file_uses(inputs, outputs, env.providers, {}, options) : options.other_files,
      folder_to_make(env));
}

}  // namespace

Result<ImportedModels> import_checked(const std::vector<ModelInput>& inputs,
                                      const PlannedOutputs& outputs, Writable writable,
                                      const CompileEnv& env) {
  CTXGEN_CHECK(check_files(inputs, outputs, env.providers, {}, env.options));
  CTXGEN_CHECK(check_writable_files(inputs, outputs, writable, env));
  ImportedModels imported = CTXGEN_TRY(import_models(inputs, env));
  CTXGEN_CHECK(check_files(inputs, outputs, env.providers, imported.models, env.options));
  return imported;
}

Result<OutputTransaction> OutputTransaction::begin(const std::vector<ModelInput>& inputs,
                                                   const CompileEnv& env) {
  const CompileOptions& options = env.options;
  OutputTransaction transaction(inputs, env);
  CTXGEN_CHECK(check_files(inputs, {env.outputs}, env.providers, {}, options));
  if (options.no_clobber)
    for (const auto& output : env.outputs) CTXGEN_CHECK(refuse_existing(output, options));
  CTXGEN_CHECK(transaction.folder_->prepare(env.outputs.front().parent_path(), options));
  CTXGEN_CHECK(check_writable_files(inputs, {env.outputs}, Writable::kAll, env));
  return transaction;
}

/// Null where the key of the compile does not say all about it, or the cache would not know which programs
/// are in a bin.
CacheFolder* OutputTransaction::output_cache() const {
  return is_kept_whole(*inputs_, env_->options) && std::ranges::all_of(users_, &BinUsers::empty)
             ? env_->cache.get()
             : nullptr;
}

Result<std::optional<CompileReport>> OutputTransaction::replay(const ImportedModels& imported) {
  CTXGEN_CHECK(
      check_files(*inputs_, {env_->outputs}, env_->providers, imported.models, env_->options));
  read_ = imported.bytes();
  users_ = find_bin_users(env_->providers, env_->outputs, env_->outputs, env_->options);
  key_ = output_key(imported.sources.key, env_->outputs, env_->options);
  CacheFolder* cache = output_cache();
  if (cache == nullptr) return std::nullopt;
  const auto find = [&] { return find_outputs(*cache, key_, read_, env_->outputs, env_->options); };
  auto kept = find();
  if (!kept && env_->remote != nullptr) {
    remote_key_ = remote_key(imported.sources.strong_key, key_);
    if (env_->remote->fetch(*remote_key_, CacheKind::kOutput, key_)) {
      kept = find();
      if (!kept) env_->remote->reject();
    }
  }
  if (!kept) return std::nullopt;
  CompileReport report = CTXGEN_TRY(write_kept(std::move(*kept), imported.sources));
  if (remote_key_) report.remote = env_->remote->finish();
  return report;
}

Result<CompileReport> OutputTransaction::write_kept(KeptOutputs kept,
                                                    const ModelSources& sources) const {
  if (env_->options.no_clobber)
    for (const OutputFile& file : kept.files)
      CTXGEN_CHECK(refuse_existing(file.path, env_->options));
  CTXGEN_CHECK(env_->enter(CompileStage::kWrite, 0));
  CompileReport report = std::move(kept.report);
  report.files = CTXGEN_TRY(write_files(kept.files, env_->options));
  report.dry_run = env_->options.dry_run;
  CTXGEN_CHECK(env_->enter(CompileStage::kWrite, 1));
  report.key = sources.key;
  report.files_read = sources.files_read;
  report.counts.outputs_cached = true;
  report.counts.bytes_cached = report.bytes_stored;
  for (const ModelReport& model : report.models)
    report.counts.programs_cached += model.partitions.size();
  return report;
}

Result<const ContextReader*> OutputTransaction::open_appended() {
  if (env_->options.append.empty()) return nullptr;
  appended_ = CTXGEN_TRY(AppendedBin::open(env_->options.append, env_->options.cancelled));
  CTXGEN_CHECK(check_appendable(appended_->reader(), *env_));
  return &appended_->reader();
}

Result<CompileReport> OutputTransaction::commit(const PreparedModels& prepared, BuiltModels& built,
                                                const RewrittenModels& rewritten) {
  const CompileOptions& options = env_->options;
  CompileReport& report = built.report;
  CTXGEN_CHECK(check_bin_users(users_, built.contents, options));
  CTXGEN_CHECK(env_->enter(CompileStage::kWrite, 0));
  std::vector<OutputFile> files = CTXGEN_TRY(plan_files(prepared, built, rewritten, *env_));
  if (options.no_clobber)
    for (const OutputFile& file : files)
      if (file.path != options.append) CTXGEN_CHECK(refuse_existing(file.path, options));
  if (appended_)
    for (CompileReport::Bin& bin : report.bins)
      if (bin.name == options.append.filename())
        bin.kept_programs = appended_->reader().programs().size();
  std::optional<OutputRecorder> recorder;
  if (CacheFolder* cache = output_cache(); cache != nullptr && !options.dry_run)
    files = recorder.emplace(*cache, read_, built.contents).record(files);
  const auto add_nodes = [&]() -> Status {
    report_nodes(built, prepared, *env_);
    return {};
  };
  report.files = CTXGEN_TRY(write_files(files, options, add_nodes));
  if (recorder) keep(*recorder, report);
  report.dry_run = options.dry_run;
  CTXGEN_CHECK(env_->enter(CompileStage::kWrite, 1));
  if (remote_key_) report.remote = env_->remote->finish();
  return std::move(report);
}

void OutputTransaction::keep(const OutputRecorder& recorder, const CompileReport& report) const {
  auto kept = recorder.kept(env_->outputs, env_->options, report);
  if (!kept || !env_->cache->add(CacheKind::kOutput, key_, kept->entry)) return;
  if (remote_key_)
    env_->remote->store(*remote_key_, std::move(kept->entry), std::move(kept->blobs));
}

}  // namespace ctxgen
