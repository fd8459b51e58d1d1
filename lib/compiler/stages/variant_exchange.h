#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"

#include "stages/prepare_model.h"

namespace ctxgen {

// What the processes of a compile for several instruction sets tell each other. Both read the same
// inputs; the first one says which nodes make a partition, the others compile exactly those.

/// The partitions of all models, and what tells the models' files apart from changed ones.
[[nodiscard]] std::vector<std::byte> encode_request(std::span<PreparedModel> models);

/// Sets the partitions of `models`, read from the same files, to those of a request.
/// Errors  kCorruptContext (no request), INVALID_GRAPH: a file has changed in between.
[[nodiscard]] Status apply_request(std::span<const std::byte> request,
                                   std::span<PreparedModel> models);

/// Programs under answer_name(), for the partitions that this instruction set compiles.
struct VariantAnswer {
  std::vector<std::uint64_t> left_out;  // per model: nodes that it would compile besides
  ContextReader reader;
};

[[nodiscard]] Result<VariantAnswer> decode_answer(const Blob& answer, std::size_t models);
/// The bytes of an answer before the context binary.
[[nodiscard]] std::vector<std::byte> encode_answer(std::span<const std::uint64_t> left_out);
/// Where a partition is: indices of the model, its graph (graphs_of()), the provider, and among the
/// provider's partitions of that graph.
[[nodiscard]] std::string answer_name(const std::array<std::size_t, 4>& place);

}  // namespace ctxgen
