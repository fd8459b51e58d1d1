#include "stages/compile_env.h"

#include <utility>

#include "ctxgen/base/suggest.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/partition/provider.h"
#include "ctxgen/weights/codec.h"

#include "cache/output_cache.h"
#include "output/output_files.h"
#include "output/output_names.h"

namespace ctxgen {

Result<CompileTarget> make_target(const CompileOptions& options, const ProviderList& providers) {
  if (options.compress_level < 0 || options.compress_level > kMaxCompressLevel)
    return fail(ErrorCode::kInvalidArgument,
                "compression level {}, expected {} to {}, or 0 for none", options.compress_level,
                kMinCompressLevel, kMaxCompressLevel);
  CompileTarget target{.portable = options.portable, .isas = {}};
  if (options.isas.empty()) return target;
  if (options.portable)
    return fail(ErrorCode::kInvalidArgument,
                "a portable context ({}) cannot be combined with an instruction set ({})",
                option_name(options, &CompileOptions::portable),
                option_name(options, &CompileOptions::isas));
  const Provider* first = nullptr;
  for (const Provider* provider : providers.all()) {
    if (!provider->compiles()) continue;
    auto sorted = CTXGEN_TRY(provider->loader()->sort_isas(options.isas));
    if (first == nullptr) {
      first = provider;
      target.isas = std::move(sorted);
    } else if (sorted != target.isas) {  // the smallest one decides what all of them compile
      return fail(ErrorCode::kInternal,
                  "provider \"{}\" sorts the instruction sets as {}, \"{}\" as {}",
                  provider->name(), list_text(sorted), first->name(), list_text(target.isas));
    }
  }
  if (first == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "an instruction set ({}) is given, but no provider compiles",
                option_name(options, &CompileOptions::isas));
  return target;
}

Status limit_process(const CompileTarget& target, const ProviderList& providers) {
  if (target.isas.empty()) return {};
  for (const Provider* provider : providers.all())
    if (provider->compiles()) CTXGEN_CHECK(provider->loader()->use_isa(target.isas.front()));
  return {};
}

namespace {

/// Uses the library of a provider: not before limit_process().
Status check_tuning(const TuningTable& tuning, const ProviderList& providers) {
  if (tuning.library.empty()) return {};
  bool compiles = false;
  for (const Provider* provider : providers.all()) {
    if (!provider->compiles()) continue;
    compiles = true;
    CTXGEN_CHECK(provider->check_tuning(tuning));
  }
  if (compiles) return {};
  return fail(ErrorCode::kInvalidArgument, "tuning: no provider compiles");
}

}  // namespace

Result<CompileEnv> CompileEnv::make(const std::vector<ModelInput>& inputs,
                                    std::vector<std::filesystem::path> outputs,
                                    CompileOptions options, Outputs kind) {
  CTXGEN_CHECK(check_file_options(inputs, outputs, options));
  if (!options.append.empty()) {
    options.bin = options.append;
    for (const auto& output : outputs)
      (void)CTXGEN_TRY(ctxgen::bin_reference(output.parent_path(), options.bin));
  }
  ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
  CompileTarget target = CTXGEN_TRY(make_target(options, providers));
  return CompileEnv{.options = std::move(options),
                    .outputs = std::move(outputs),
                    .kind = kind,
                    .providers = std::move(providers),
                    .target = std::move(target)};
}

Status CompileEnv::start(const std::filesystem::path& beside) {
  cache = CTXGEN_TRY(open_cache(options));
  remote = CTXGEN_TRY(open_remote(options, cache.get()));
  CTXGEN_CHECK(limit_process(target, providers));
  CTXGEN_CHECK(check_tuning(options.tuning, providers));
  if (!beside.empty()) spill = std::make_unique<SpillFile>(beside, options.weight_memory_bytes);
  return {};
}

Status CompileEnv::choose_precision() {
  if (options.budget.search) options.precision = CTXGEN_TRY(options.budget.search());
  return {};
}

Status CompileEnv::enter(CompileStage stage, double fraction) const {
  if (options.cancelled && options.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
  if (options.progress) options.progress(stage, fraction);
  return {};
}

std::optional<std::filesystem::path> CompileEnv::output_folder(std::size_t model) const {
  if (kind == Outputs::kNames) return std::nullopt;
  return outputs[model].parent_path();
}

std::filesystem::path CompileEnv::bin_path(std::string_view provider) const {
  return ctxgen::bin_path(outputs, options, provider);
}

Result<std::string> CompileEnv::bin_reference(const Provider& provider) const {
  if (!provider.compiles() || options.embed) return std::string();
  return shared_bin_reference(outputs, bin_path(provider.name()));
}

}  // namespace ctxgen
