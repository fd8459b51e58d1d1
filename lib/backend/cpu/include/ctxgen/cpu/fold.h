#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ctxgen/base/spill_file.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen::cpu {

/// Whether a node may give something else each time: a random operator, Dropout in training mode.
[[nodiscard]] bool is_random(const Node& node);

/// No folded value may be larger.
inline constexpr std::uint64_t kMaxFoldedBytes = std::uint64_t{2} << 30;
/// What a kernel may compute in while it folds: vectors, and as much again in tensors.
inline constexpr std::uint64_t kMaxFoldScratchBytes = std::uint64_t{8} << 30;

/// Nodes of the main graph to leave alone; empty: none.
using StaysUnfolded = std::function<bool(NodeId)>;

/// Computes what is known at compile time in the main graph and stores it in Value::folded: nodes
/// whose inputs are all constants (Value::constant()), and Shape and Size of values with fixed dims.
/// Nodes stay where they are. Left alone: random operators, nodes with subgraphs, nodes without a
/// kernel, those that `stays` names, outputs above kMaxFoldedBytes, kernels that want more than kMaxFoldScratchBytes, and
/// whatever would take the sum of new bytes above `max_bytes` (checked before memory is allocated). An
/// error of a kernel means "not folded"; it is logged. `used_bytes`, where given, grows by the new
/// bytes. `spill`, where given, keeps the values.
///
/// Errors        IO_ERROR of `spill`.
/// Returns       how many nodes were folded now; 0 when called again.
/// Determinism   the same model gives the same bytes.
[[nodiscard]] Result<std::size_t> fold_constants(Model& model, std::uint64_t max_bytes,
                                                 std::uint64_t* used_bytes = nullptr,
                                                 SpillFile* spill = nullptr,
                                                 const StaysUnfolded& stays = {});

/// The same for what follows from defaults of initializers that callers may override, which it stores in
/// Value::by_default: to be called after fold_constants() found no more.
[[nodiscard]] Result<std::size_t> fold_defaults(Model& model, std::uint64_t max_bytes,
                                                std::uint64_t* used_bytes = nullptr,
                                                SpillFile* spill = nullptr,
                                                const StaysUnfolded& stays = {});

/// The same for the bodies of the main graph's nodes, and theirs. What a body captures from an
/// enclosing graph and is a constant there becomes one in the body, sharing its bytes.
[[nodiscard]] Result<std::size_t> fold_bodies(Model& model, std::uint64_t max_bytes,
                                              std::uint64_t* used_bytes = nullptr,
                                              SpillFile* spill = nullptr);

}  // namespace ctxgen::cpu
