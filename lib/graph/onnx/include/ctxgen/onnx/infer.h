#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Nodes that the onnx package's tools are shown at once: its objects for a million nodes take more
/// than a gigabyte.
inline constexpr std::size_t kNodesAtOnce = std::size_t{1} << 16;

/// The onnx package's checker as a second opinion on the model's skeleton (tensors of 1 KiB and
/// more are left out). Messages of real errors come back as INVALID_GRAPH; what the checker is
/// known to refuse in models that run (missing shape fields, foreign domains) is only logged.
/// Graphs of more than `nodes_at_once` nodes are shown to it in parts.
[[nodiscard]] Status check_with_onnx(const Model& model, std::size_t nodes_at_once = kNodesAtOnce);
/// Fills in the types of the main graph's and subgraphs' values with the onnx package's shape
/// inference (data propagation on). Folded values and small constants take part; types that the
/// file declares are dropped first where an operator schema can infer them.
/// Errors  INVALID_GRAPH where inference contradicts itself.
/// Main graphs of more than `nodes_at_once` nodes are inferred in parts, one after the other: sizes that
/// nodes compute are followed within a part only, types across all.
[[nodiscard]] Status infer_shapes(Model& model, std::size_t nodes_at_once = kNodesAtOnce);
/// Dims of the main graph's values (by ValueId) under a profile: numbers for symbolic dims, and for
/// inputs by name. Nothing where a dim stays unknown. The model is not changed; what was inferred
/// for it before is used too.
/// Errors  INVALID_ARGUMENT for names that the model does not have, and for numbers that contradict
///         it or each other.
[[nodiscard]] Result<std::vector<std::optional<Dims>>> infer_dims_with(
    const Model& model, const std::vector<std::pair<std::string, std::int64_t>>& symbols,
    const std::vector<std::pair<std::string, Dims>>& inputs);

/// Expands calls of ONNX function operators (LayerNormalization, ...) for which `keep` says no.
/// Bodies of bodies too. New nodes have no source and name the call they came from; the types of
/// new values are inferred. Returns how many calls were expanded, those in bodies included.
[[nodiscard]] Result<std::size_t> expand_schema_functions(
    Model& model, const std::function<bool(const Graph&, const Node&)>& keep);

/// Version of the onnx package, "1.20.0".
[[nodiscard]] std::string onnx_version();

}  // namespace ctxgen
