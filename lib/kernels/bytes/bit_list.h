#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ctxgen::kernels {

/// The numbers of the bits of a word, ascending: loops over them take less than loops over the bits.
class BitList {
 public:
  /// Of a word whose bits from `end` on are not set: how many of them are looks the same to branches.
  BitList(std::uint64_t word, std::uint64_t end) {
    std::uint8_t* to = numbers_;
    for (std::uint64_t first = 0; first < end; first += 8, word >>= 8) {
      const auto byte = static_cast<std::uint8_t>(word);
      std::uint64_t eight = 0;
      std::memcpy(&eight, kBits[byte].data(), sizeof eight);
      eight += first * 0x0101010101010101;  // to each of them
      std::memcpy(to, &eight, sizeof eight);
      to += std::popcount(byte);
    }
    end_ = to;
  }
  BitList(const BitList&) = delete;
  BitList& operator=(const BitList&) = delete;
  [[nodiscard]] const std::uint8_t* begin() const { return numbers_; }
  [[nodiscard]] const std::uint8_t* end() const { return end_; }

 private:
  static constexpr auto kBits = [] {
    std::array<std::array<std::uint8_t, 8>, 256> bits{};
    for (std::size_t byte = 0; byte < bits.size(); ++byte)
      for (std::size_t bit = 0, size = 0; bit < 8; ++bit)
        if ((byte >> bit & 1) != 0) bits[byte][size++] = static_cast<std::uint8_t>(bit);
    return bits;
  }();
  std::uint8_t numbers_[64 + 8];  // eight are written at once
  const std::uint8_t* end_;
};

}  // namespace ctxgen::kernels
