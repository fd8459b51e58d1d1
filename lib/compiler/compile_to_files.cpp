#include <chrono>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/option_table.h"

#include "cache/output_cache.h"
#include "output/output_transaction.h"
#include "regroup/like_context.h"
#include "stages/cut_model.h"
#include "stages/report_model.h"

namespace ctxgen {
namespace {

/// Where weights may be meanwhile: a dry run makes no folder, and a device has none.
std::filesystem::path spill_place(const CompileEnv& env) {
  const std::filesystem::path& output = env.outputs.front();
  return env.options.dry_run || is_stream(output) ? std::filesystem::path() : output;
}

}  // namespace

Result<CompileReport> compile_to_files(const std::vector<ModelInput>& inputs,
                                       const std::vector<std::filesystem::path>& outputs,
                                       const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<CompileReport> {
    const auto start = std::chrono::steady_clock::now();
    const auto run = [&]() -> Result<CompileReport> {
      CompileEnv env = CTXGEN_TRY(CompileEnv::make(inputs, outputs, options));
      OutputTransaction files = CTXGEN_TRY(OutputTransaction::begin(inputs, env));
      CTXGEN_CHECK(env.start(spill_place(env)));
      ImportedModels imported = CTXGEN_TRY(import_models(inputs, env));
      const auto like = CTXGEN_TRY(LikeContext::read(env));
      if (like) CTXGEN_CHECK(like->check_request(imported.sources, env));
      auto kept = CTXGEN_TRY(files.replay(imported));
      if (kept) return std::move(*kept);
      CTXGEN_CHECK(env.choose_precision());
      const ContextReader* appended = CTXGEN_TRY(files.open_appended());
      PreparedModels prepared = CTXGEN_TRY(prepare_models(std::move(imported), env));
      BuiltModels built = CTXGEN_TRY(build_models(prepared, appended, env));
      const RewrittenModels rewritten = CTXGEN_TRY(rewrite_models(prepared, built, env));
      if (like) CTXGEN_CHECK(like->check_result(prepared, built, rewritten, env));
      return files.commit(prepared, built, rewritten);
    };
    CompileReport report = CTXGEN_TRY(run());
    report.seconds = seconds_since(start);
    return report;
  });
}

Result<CompileKey> compile_key(const std::vector<ModelInput>& inputs,
                               const std::vector<std::filesystem::path>& outputs,
                               const CompileOptions& options) {
  return at_boundary("finding the key of a compile", [&]() -> Result<CompileKey> {
    const CompileEnv env = CTXGEN_TRY(CompileEnv::make(inputs, outputs, options));
    if (options.initializer_location)
      return fail(ErrorCode::kInvalidArgument,
                  "a compile with an initializer location function has no key");
    ImportedModels imported =
        CTXGEN_TRY(import_checked(inputs, {outputs}, Writable::kOtherFiles, env));
    ModelSources& sources = imported.sources;
    return CompileKey{sources.key, std::move(sources.keys), std::move(sources.bin_references),
                      std::move(sources.files_read)};
  });
}

Result<Blob> part_of_model(const ModelInput& input, const CompileOptions& options) {
  return at_boundary("cutting a model", [&]() -> Result<Blob> {
    if (!asks_for_part(options))
      return fail(ErrorCode::kInvalidArgument, "neither {} nor {} names a value",
                  option_name(options, &CompileOptions::input_names),
                  option_name(options, &CompileOptions::output_names));
    const ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    return CTXGEN_TRY(import_model(input, options, providers)).model.source;
  });
}

Result<CacheLookup> look_up_compile(const std::vector<ModelInput>& inputs,
                                    const std::vector<std::filesystem::path>& outputs,
                                    const CompileOptions& options) {
  return at_boundary("looking into caches", [&]() -> Result<CacheLookup> {
    CompileEnv env = CTXGEN_TRY(CompileEnv::make(inputs, outputs, options));
    CTXGEN_CHECK(env.start({}));
    if (env.cache == nullptr)
      return fail(ErrorCode::kInvalidArgument,
                  "there is no cache to look into: give {} or set "
                  "CTXGEN_CACHE_DIR",
                  option_name(options, &CompileOptions::cache_dir));
    if (!is_kept_whole(inputs, options))
      return fail(ErrorCode::kInvalidArgument, "no cache keeps the outputs of such a compile");
    const ImportedModels imported = CTXGEN_TRY(import_models(inputs, env));
    const Hash128 key = output_key(imported.sources.key, env.outputs, options);
    CacheLookup lookup;
    lookup.key = imported.sources.key;
    if (find_outputs(*env.cache, key, imported.bytes(), env.outputs, options)) {
      lookup.place = CacheLookup::Place::kFolder;
    } else if (env.remote != nullptr) {
      if (env.remote->holds(remote_key(imported.sources.strong_key, key)))
        lookup.place = CacheLookup::Place::kRemote;
      lookup.remote = env.remote->finish();
    }
    return lookup;
  });
}

Result<ModelReport> explain(const ModelInput& input, const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<ModelReport> {
    const ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    const CompileTarget target = CTXGEN_TRY(make_target(options, providers));
    const StageFunction stage = [&](CompileStage s) -> Status {
      if (options.cancelled && options.cancelled())
        return fail(ErrorCode::kCancelled, "interrupted");
      if (options.progress) options.progress(s, 0);
      return {};
    };
    CTXGEN_CHECK(limit_process(target, providers));
    CTXGEN_CHECK(stage(CompileStage::kImport));
    ImportedModel imported = CTXGEN_TRY(import_model(input, options, providers));
    CTXGEN_CHECK(check_external_data_folder(std::span(&imported, 1), options));
    const PreparedModel prepared =
        CTXGEN_TRY(prepare_model(std::move(imported), options, providers, target, stage));
    std::vector<BuiltPartition> partitions;
    const auto add = [&](const Assignment& assignment, int body) {
      for (std::size_t p = 0; p < providers.all().size(); ++p)
        for (std::size_t i = 0; i < assignment.partitions[p].size(); ++i) {
          BuiltPartition one;
          one.provider = p;
          one.partition = i;
          one.body = body;
          partitions.push_back(std::move(one));
        }
    };
    add(prepared.assignment, -1);
    for (std::size_t b = 0; b < prepared.bodies.size(); ++b)
      add(prepared.bodies[b].assignment, static_cast<int>(b));
    ModelReport report = report_model(prepared, providers, target, partitions);
    report_assignment(report, prepared, providers, partitions);
    return report;
  });
}

}  // namespace ctxgen
