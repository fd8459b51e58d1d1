#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ctxgen/partition/provider.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// Seeded inputs for a model: floats in [-1, 1), integers and bools 0 or 1, empty strings. Symbols
/// and unknown dimensions are 1 unless `shapes` has a size for them. Inputs in `given` (names) are
/// left out, so are those with a default, and optionals, which are empty then.
///
/// Determinism  the same seed gives the same values on every machine; each input's values depend on
///              its position only, not on which other inputs are given.
/// Errors  INVALID_ARGUMENT: unknown rank without --shape, a type that has no random values, a name
///         of `shapes` that the model lacks. RESOURCE_LIMIT: more than default_memory_limit_bytes().
[[nodiscard]] Result<std::vector<NamedTensor>> random_inputs(std::span<const IoInfo> infos,
                                                             std::span<const std::string> given,
                                                             const ShapeProfile& shapes,
                                                             std::uint64_t seed);

/// The dims of an input under `shapes`, or INVALID_ARGUMENT.
[[nodiscard]] Result<Dims> input_dims(const IoInfo& info, const ShapeProfile& shapes);

}  // namespace ctxgen::cli
