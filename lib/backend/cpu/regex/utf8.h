#pragma once

#include <string>
#include <string_view>

namespace ctxgen::cpu {

/// Bytes that are not UTF-8 come out as 0xDC00 + byte: append_utf8 gives them back as they were.
inline constexpr char32_t kRawByte = 0xDC00;

/// The code points of a text.
[[nodiscard]] std::u32string decode_utf8(std::string_view text);
void append_utf8(char32_t letter, std::string& text);

}  // namespace ctxgen::cpu
