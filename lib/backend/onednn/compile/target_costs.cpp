#include "ctxgen/onednn/target_costs.h"

#include <format>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ctxgen/base/suggest.h"
#include "ctxgen/onednn/exec.h"

#include "node_view.h"
#include "quantized_constant.h"

namespace ctxgen::onednn {
namespace {

bool is_product(const Node& node) {
  return node.domain.empty() &&
         (node.op_type == "Conv" || node.op_type == "MatMul" || node.op_type == "Gemm");
}

/// What it is that kernels of our own have no integer product for, either; "": they have one.
std::string_view stays_real(const Node& node, const Dims& weights) {
  if (node.op_type != "Conv")
    return weights.size() == 2  ? ""
           : weights.size() > 2 ? "products by several matrices"
                                : "products by a vector";
  if (weights.size() != 3 && weights.size() != 4) return "convolutions over three dims";
  const std::int64_t group = node.int_or("group", 1);
  const bool depthwise = group == weights[0] && weights[1] == 1;
  return group == 1 || depthwise ? "" : "convolutions in groups of several channels";
}

bool is_dequantized(const GraphView& view, ValueId id) {
  if (!id.valid()) return false;
  const NodeId producer = view.graph().value(id).producer;
  return producer.valid() && view.graph().node(producer).op_type == "DequantizeLinear";
}

/// What a model in 16 bits is computed in.
std::optional<std::string> cost_of_halves(const GraphView& view,
                                          std::span<const Partition> partitions) {
  std::size_t nodes = 0;
  DataType type = DataType::kUndefined;
  for (const Partition& partition : partitions)
    for (const NodeId id : partition.nodes)
      for (const ValueId output : view.graph().node(id).outputs) {
        if (!output.valid()) continue;
        const DataType element = view.graph().value(output).type.element;
        if (!is_half(element)) continue;
        type = element;
        ++nodes;
        break;
      }
  if (nodes == 0) return std::nullopt;
  return std::format("{} operators of {} are computed in float32; weights stay in 16 bits", nodes,
                     name_of(type));
}

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

std::vector<std::string> costs_of_bytes(const GraphView& view,
                                        std::span<const Partition> partitions) {
  if (has_fast_int8() && !view.target().portable) return {};
  std::unordered_set<ValueId> seen;
  std::uint64_t bytes = 0;
  std::set<std::string, std::less<>> kinds;
  for (const Partition& partition : partitions)
    for (const NodeId id : partition.nodes) {
      const Node& node = view.graph().node(id);
      if (!is_product(node) || node.inputs.size() < 2 || !is_dequantized(view, node.inputs[0]))
        continue;
      if (!seen.insert(node.inputs[1]).second) continue;
      const auto weight = quantized_constant(view, node.inputs[1]);
      const std::string_view kind = weight ? stays_real(node, weight->stored.dims()) : "";
      if (kind.empty()) continue;
      bytes += weight->stored.bytes().size();
      kinds.emplace(kind);
    }
  if (bytes == 0) return {};
  const std::string why =
      view.target().portable
          ? "a portable context cannot count on VNNI: --isa NAME compiles for machines that have it"
          : std::format(
                "instruction set {} has no VNNI, which avx2_vnni, avx512_core_vnni and later have",
                isa_name());
  return {std::format(
      "8-bit weights of {:.1f} MiB ({}) are stored as float32, {:.1f} MiB, and their products "
      "computed in float32: {}",
      mebibytes(bytes), list_text(std::vector<std::string>(kinds.begin(), kinds.end())),
      mebibytes(4 * bytes), why)};
}

}  // namespace

std::vector<std::string> target_costs(const GraphView& view,
                                      std::span<const Partition> partitions) {
  std::vector<std::string> costs = costs_of_bytes(view, partitions);
  if (auto cost = cost_of_halves(view, partitions)) costs.push_back(*std::move(cost));
  return costs;
}

}  // namespace ctxgen::onednn
