#include "stages/prepare_models.h"

#include <span>
#include <utility>

namespace ctxgen {
namespace {

Status start_variants(PreparedModels& prepared, const CompileEnv& env) {
  if (env.target.isas.size() <= 1) return {};
  if (!env.options.start_variant)
    return fail(
        ErrorCode::kInvalidArgument,
        "several instruction sets need a process each: CompileOptions::start_variant is not "
        "set");
  for (const std::string& isa : std::span(env.target.isas).subspan(1))
    prepared.variants.push_back(CTXGEN_TRY(env.options.start_variant(isa)));
  return {};
}

}  // namespace

Result<PreparedModels> prepare_models(ImportedModels imported, const CompileEnv& env) {
  PreparedModels prepared;
  prepared.sources = std::move(imported.sources);
  CTXGEN_CHECK(start_variants(prepared, env));
  const double share = 1.0 / static_cast<double>(imported.models.size());
  for (ImportedModel& model : std::exchange(imported.models, {})) {
    const double before = static_cast<double>(prepared.models.size()) * share;
    const auto stage = [&](CompileStage s) { return env.enter(s, before); };
    prepared.models.push_back(CTXGEN_TRY(prepare_model(std::move(model), env.options, env.providers,
                                                       env.target, stage, env.spill.get())));
  }
  return prepared;
}

}  // namespace ctxgen
