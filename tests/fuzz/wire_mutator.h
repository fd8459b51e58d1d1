#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ctxgen::fuzz {

/// Changes a protobuf message without knowing its schema and keeps it well formed: fields are
/// taken for messages where they read as such, and lengths are worked out anew. `bytes_mutator`
/// changes the content of one field of text or numbers (libFuzzer's own mutator).
using BytesMutator = std::size_t (*)(std::uint8_t* data, std::size_t size, std::size_t max_size);

[[nodiscard]] std::vector<std::uint8_t> mutate_message(std::span<const std::uint8_t> message,
                                                       std::uint32_t seed, BytesMutator mutator);
/// One field of `from` put into `message`.
[[nodiscard]] std::vector<std::uint8_t> cross_messages(std::span<const std::uint8_t> message,
                                                       std::span<const std::uint8_t> from,
                                                       std::uint32_t seed);

}  // namespace ctxgen::fuzz
