#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstring>
#include <format>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ctxgen {

/// Immutable text in 16 bytes, half of a std::string: up to 15 characters are in it, more on the
/// heap. For words that a graph repeats in each node (operator types, domains, names of kinds and
/// parameters). Reads as std::string_view, but is not terminated by a zero.
class ShortText {
 public:
  ShortText() = default;
  ShortText(std::string_view text) {  // implicit, as are assignments of any text
    if (text.size() < bytes_.size()) {
      text.copy(bytes_.data(), text.size());
      bytes_.back() = static_cast<char>(text.size());
      return;
    }
    char* const block = new char[sizeof(std::size_t) + text.size()];
    const std::size_t size = text.size();
    std::memcpy(block, &size, sizeof size);
    text.copy(block + sizeof size, size);
    std::memcpy(bytes_.data(), static_cast<const void*>(&block), sizeof block);
    bytes_.back() = kOnHeap;
  }
  ShortText(const char* text) : ShortText(std::string_view(text)) {}
  ShortText(const std::string& text) : ShortText(std::string_view(text)) {}
  ShortText(const ShortText& other) : ShortText(other.view()) {}
  ShortText(ShortText&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  ShortText& operator=(ShortText other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ShortText() {
    if (bytes_.back() == kOnHeap) delete[] block();
  }

  [[nodiscard]] std::string_view view() const {
    if (bytes_.back() != kOnHeap) return {bytes_.data(), static_cast<std::size_t>(bytes_.back())};
    const char* const there = block();
    std::size_t size = 0;
    std::memcpy(&size, there, sizeof size);
    return {there + sizeof size, size};
  }
  operator std::string_view() const { return view(); }
  [[nodiscard]] std::string str() const { return std::string(view()); }
  [[nodiscard]] bool empty() const { return bytes_.back() == 0; }
  [[nodiscard]] std::size_t size() const { return view().size(); }

  [[nodiscard]] friend bool operator==(const ShortText& a, const ShortText& b) {
    return a.view() == b.view();
  }
  [[nodiscard]] friend bool operator==(const ShortText& a, std::string_view b) {
    return a.view() == b;
  }
  [[nodiscard]] friend bool operator==(const ShortText& a, const char* b) { return a.view() == b; }
  [[nodiscard]] friend bool operator==(const ShortText& a, const std::string& b) {
    return a.view() == b;
  }
  [[nodiscard]] friend auto operator<=>(const ShortText& a, const ShortText& b) {
    return a.view() <=> b.view();
  }
  [[nodiscard]] friend std::string operator+(std::string a, const ShortText& b) {
    return std::move(a.append(b.view()));
  }
  template <class Stream>
  friend Stream& operator<<(Stream& stream, const ShortText& text) {
    stream << text.view();
    return stream;
  }

 private:
  static constexpr char kOnHeap = 127;
  [[nodiscard]] char* block() const {
    char* pointer = nullptr;
    std::memcpy(static_cast<void*>(&pointer), bytes_.data(), sizeof pointer);
    return pointer;
  }
  alignas(8) std::array<char, 16> bytes_{};  // the text and its length, or a pointer and kOnHeap
};

}  // namespace ctxgen

template <>
struct std::formatter<ctxgen::ShortText> : std::formatter<std::string_view> {
  auto format(const ctxgen::ShortText& text, std::format_context& context) const {
    return std::formatter<std::string_view>::format(text.view(), context);
  }
};

// So that std::ranges algorithms compare it with std::string_view.
template <template <class> class T, template <class> class U>
struct std::basic_common_reference<ctxgen::ShortText, std::string_view, T, U> {
  using type = std::string_view;
};
template <template <class> class T, template <class> class U>
struct std::basic_common_reference<std::string_view, ctxgen::ShortText, T, U> {
  using type = std::string_view;
};
