#include "regex/utf8.h"

#include <cstdint>

namespace ctxgen::cpu {
namespace {

// How many bytes the letter takes that starts with this one; 0: none starts so.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

// The letter at the front, or nothing if these bytes are none; overlong forms are none.
bool take_letter(std::string_view text, std::size_t length, char32_t& letter) {
  if (length == 0 || length > text.size()) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  letter = length == 1 ? byte(0) : byte(0) & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return false;
    letter = (letter << 6U) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = letter >= 0xD800 && letter < 0xE000;
  return letter >= kLeast[length] && letter < 0x110000 && !surrogate;
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string letters;
  letters.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = length_of(static_cast<unsigned char>(text.front()));
    char32_t letter = 0;
    if (!take_letter(text, length, letter)) {
      letter = kRawByte + static_cast<unsigned char>(text.front());
      length = 1;
    }
    letters.push_back(letter);
    text.remove_prefix(length);
  }
  return letters;
}

void append_utf8(char32_t letter, std::string& text) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (letter < 0x80) {
    put(letter);
  } else if (letter < 0x800) {
    put(0xC0 | (letter >> 6U));
    put(0x80 | (letter & 0x3FU));
  } else if (letter >= kRawByte && letter < kRawByte + 0x100) {
    put(letter - kRawByte);
  } else if (letter < 0x10000) {
    put(0xE0 | (letter >> 12U));
    put(0x80 | ((letter >> 6U) & 0x3FU));
    put(0x80 | (letter & 0x3FU));
  } else {
    put(0xF0 | (letter >> 18U));
    put(0x80 | ((letter >> 12U) & 0x3FU));
    put(0x80 | ((letter >> 6U) & 0x3FU));
    put(0x80 | (letter & 0x3FU));
  }
}

}  // namespace ctxgen::cpu
