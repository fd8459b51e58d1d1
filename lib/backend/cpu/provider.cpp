#include "ctxgen/cpu/provider.h"

#include "ctxgen/cpu/kernel.h"

namespace ctxgen::cpu {
namespace {

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
      if (kernel)
        capabilities.claims.push_back({.nodes = {id}, .glue = false});
      else
        capabilities.rejections.push_back({.node = id, .reason = kernel.error().message});
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
};

}  // namespace

std::unique_ptr<Provider> make_provider() { return std::make_unique<CpuProvider>(); }

}  // namespace ctxgen::cpu
