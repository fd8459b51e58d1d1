#include <format>
#include <optional>
#include <string>

#include "ctxgen/cpu/kernel.h"
#include "ctxgen/cpu/provider.h"

namespace ctxgen::cpu {
namespace {

// The first node inside of `node`'s bodies that has no kernel: the session would refuse it.
std::optional<std::string> missing_inside(const Node& node) {
  for (const Attribute& attribute : node.attributes)
    for (const auto& graph : attribute.graphs)
      for (const Node& inner : graph->nodes()) {
        if (find_op(inner.domain, inner.op_type, inner.opset) == nullptr)
          return std::format("{}: {}", attribute.name, make_kernel(inner).error().message);
        if (auto missing = missing_inside(inner))
          return std::format("{}: {}", attribute.name, *missing);
      }
  return std::nullopt;
}

class CpuProvider final : public Provider {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] std::string_view source() const override { return "CtxgenCpuExecutionProvider"; }

  [[nodiscard]] Result<Capabilities> capabilities(const GraphView& view) const override {
    Capabilities capabilities;
    for (std::uint32_t i = 0; i < view.graph().node_count(); ++i) {
      const NodeId id{i};
      if (view.taken(id)) continue;
      const auto kernel = make_kernel(view.graph().node(id));
      const auto missing =
          kernel ? missing_inside(view.graph().node(id)) : std::optional(kernel.error().message);
      if (missing)
        capabilities.rejections.push_back({.node = id, .reason = *missing});
      else
        capabilities.claims.push_back({.nodes = {id}, .glue = false});
    }
    return capabilities;
  }

  [[nodiscard]] Result<std::vector<CompiledPartition>> compile(
      const GraphView&, std::span<const Partition> partitions, const ProviderCompileOptions&,
      WeightStore&) const override {
    if (!partitions.empty())
      return fail(ErrorCode::kInternal, "the cpu provider was asked to compile");
    return std::vector<CompiledPartition>{};
  }

  [[nodiscard]] std::vector<EpContextAttributes> context_nodes(
      std::span<const Program>) const override {
    return {};
  }
  [[nodiscard]] bool compiles() const override { return false; }
  [[nodiscard]] const ProgramLoader* loader() const override { return nullptr; }
  [[nodiscard]] std::vector<OperatorInfo> operators() const override {
    std::vector<OperatorInfo> operators;
    for (const OpRow* row : all_ops())
      operators.push_back({.domain = row->domain,
                           .op_type = row->op_type,
                           .since_min = row->since_min,
                           .since_max = row->since_max,
                           .joins = false,
                           .limits = row->limits});
    return operators;
  }
};

}  // namespace

std::unique_ptr<Provider> make_provider() { return std::make_unique<CpuProvider>(); }

}  // namespace ctxgen::cpu
