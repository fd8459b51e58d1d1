#include "stages/add_variants.h"

#include <format>
#include <utility>

#include "stages/variant_exchange.h"

namespace ctxgen {

std::unordered_map<std::string_view, const Program*> programs_by_name(
    std::span<const Program> programs) {
  std::unordered_map<std::string_view, const Program*> names;
  for (const Program& program : programs) names.try_emplace(program.name, &program);
  return names;
}

Status add_variants(BuiltModels& built, PreparedModels& prepared, const CompileEnv& env) {
  if (prepared.variants.empty()) return {};
  const std::vector<std::byte> request = encode_request(prepared.models);
  for (std::size_t v = 0; v < prepared.variants.size(); ++v) {
    CTXGEN_CHECK(env.enter(CompileStage::kCompile, 1));
    const std::string& isa = env.target.isas[v + 1];
    auto response = prepared.variants[v]->compile(request);
    prepared.variants[v].reset();  // and with it the other process and its memory
    if (!response) return std::unexpected(with_context(std::move(response).error(), isa));
    const VariantAnswer answer = CTXGEN_TRY(decode_answer(*response, prepared.models.size()));
    const auto programs = programs_by_name(answer.reader.programs());
    for (std::size_t m = 0; m < built.partitions.size(); ++m) {
      for (BuiltPartition& partition : built.partitions[m]) {
        const auto graph = static_cast<std::size_t>(partition.body) + 1;
        const auto found =
            programs.find(answer_name({m, graph, partition.provider, partition.partition}));
        // Where it has none, that instruction set runs the program of the smallest.
        if (found != programs.end())
          CTXGEN_CHECK(built.builder->add_variant(partition, isa, *found->second, answer.reader));
      }
      if (const std::uint64_t left = answer.left_out[m]; left > 0)
        built.report.models[m].warnings.push_back(
            std::format("{} node{} compile{} only for {}: excluded, because {} cannot run {}", left,
                        left == 1 ? "" : "s", left == 1 ? "s" : "", isa, env.target.isas.front(),
                        left == 1 ? "it" : "them"));
    }
  }
  return {};
}

}  // namespace ctxgen
