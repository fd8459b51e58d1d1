#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ctxgen {

/// Divides models among `shards` machines by their names alone: the shard of each, from 0. A name has the same shard in every list.
/// Requires  shards > 0.
[[nodiscard]] std::vector<std::size_t> shards_by_name(std::span<const std::string> names,
                                                      std::size_t shards);

/// Divides them so that models that have a larger initializer in common come to one machine, which then packs it once, and
/// bytes of initializers are spread evenly. Reads all initializers, not the whole of a model. One that cannot be read counts as one without: its
/// compile says why.
/// Determinism  follows from contents and order, not from paths.
[[nodiscard]] std::vector<std::size_t> shards_by_weights(
    std::span<const std::filesystem::path> models, std::size_t shards);

}  // namespace ctxgen
