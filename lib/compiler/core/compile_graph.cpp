#include "ctxgen/compiler/compile_graph.h"

#include <algorithm>
#include <utility>

#include "ctxgen/cache/build_identity.h"
#include "ctxgen/compiler/build_graph.h"
#include "ctxgen/cpu/fold.h"

#include "core/program_key.h"

namespace ctxgen {
namespace {

/// As a compile of the command line: constants beyond this stay nodes.
constexpr std::uint64_t kMaxFoldedBytes = std::uint64_t{8} << 30;

}  // namespace

Result<ClaimedGraph> claim_graph(Model& model, const Provider& provider, SpillFile* spill) {
  ClaimedGraph claimed;
  {
    const GraphView view(model, model.graph);
    const auto stays_unfolded = [&](NodeId node) { return provider.keeps_unfolded(view, node); };
    std::uint64_t used_bytes = 0;
    claimed.folded_nodes =
        CTXGEN_TRY(cpu::fold_constants(model, kMaxFoldedBytes, &used_bytes, spill, stays_unfolded));
    if (std::ranges::any_of(model.graph.values(), &Value::is_overridable))
      (void)CTXGEN_TRY(cpu::fold_defaults(model, kMaxFoldedBytes - used_bytes, &used_bytes, spill,
                                          stays_unfolded));
  }
  const Provider* const providers[] = {&provider};
  claimed.assignment = CTXGEN_TRY(partition_graph(model, model.graph, providers));
  return claimed;
}

Result<CompiledGraph> compile_graph(const Model& model, ClaimedGraph claimed,
                                    const Provider& provider, const GraphCompileOptions& options) {
  const Provider* const providers[] = {&provider};
  ProviderCompileOptions one;
  one.jobs = options.jobs;
  one.provider_options = options.provider_options;
  one.spill = options.spill;
  const CompileTarget target;
  CompiledGraph compiled;
  compiled.assignment = std::move(claimed.assignment);
  ContextBuilder builder(providers, target, options.spill, options.cache);
  if (options.added != nullptr) CTXGEN_CHECK(builder.adopt(0, *options.added));
  const GraphBuild build{.providers = providers,
                         .options = std::span(&one, 1),
                         .target = target,
                         .prefix = options.prefix};
  compiled.partitions =
      CTXGEN_TRY(build_graph(builder, model, model.graph, compiled.assignment, build));
  compiled.content = CTXGEN_TRY(builder.content(0));
  return compiled;
}

Result<Hash128> graph_key(const Model& model, const Provider& provider,
                          const GraphCompileOptions& options) {
  Hasher hasher;
  for (const std::string_view part :
       {std::string_view("ctxgen graph"), build_identity(), provider.name(), provider.source()})
    hasher.add(part);
  if (const ProgramLoader* loader = provider.loader())
    hasher.add(std::string_view(CTXGEN_TRY(loader->fingerprint_of({}))));
  hasher.add(std::string_view(options.prefix));
  hasher.add(std::uint64_t{options.provider_options.size()});
  for (const auto& [key, value] : options.provider_options) {
    hasher.add(std::string_view(key));
    hasher.add(std::string_view(value));
  }
  const Hash128 structure = hash_structure(model, model.graph).structure;
  hasher.add(structure.high);
  hasher.add(structure.low);
  for (const Value& value : model.graph.values()) {
    if (!value.initializer || value.initializer->is_string()) continue;
    const Hash128 content = hash_bytes(value.initializer->bytes());
    hasher.add(content.high);
    hasher.add(content.low);
  }
  return hasher.finish();
}

}  // namespace ctxgen
