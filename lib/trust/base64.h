#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ctxgen {

/// RFC 4648, section 4, with padding.
[[nodiscard]] std::string base64_of(std::span<const std::byte> bytes);

/// Nothing for text that base64_of() does not write: other characters, blanks, missing padding, bits after the end.
[[nodiscard]] std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace ctxgen
