#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// A list of small, trivially copyable elements (ids, indices) in 16 bytes: those that fit into 8
/// bytes are in it, more of them on the heap. Most nodes have one or two operands, and a graph has
/// millions of such lists. Used as std::vector; at most 2^32 - 1 elements.
template <class T>
class SmallList {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8 && 8 % sizeof(T) == 0 &&
                alignof(T) <= 8);

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;
  static constexpr std::size_t kInline = 8 / sizeof(T);

  SmallList() = default;
  SmallList(std::initializer_list<T> elements) {
    append(std::span(elements.begin(), elements.size()));
  }
  SmallList(std::span<const T> elements) { append(elements); }     // implicit, as are
  SmallList(const std::vector<T>& elements) { append(elements); }  // assignments of ranges
  template <std::input_iterator It, std::sentinel_for<It> End>
  SmallList(It first, End last) {
    for (; first != last; ++first) push_back(*first);
  }
  explicit SmallList(std::size_t count, const T& element = T()) { resize(count, element); }
  SmallList(const SmallList& other) { append(other); }
  SmallList(SmallList&& other) noexcept { swap(other); }
  SmallList& operator=(SmallList other) noexcept {
    swap(other);
    return *this;
  }
  operator std::vector<T>() const { return std::vector<T>(begin(), end()); }
  ~SmallList() {
    if (on_heap()) delete[] heap();
  }

  void swap(SmallList& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() {
    return on_heap() ? heap() : std::launder(reinterpret_cast<T*>(store_.data()));
  }
  [[nodiscard]] const T* data() const { return const_cast<SmallList*>(this)->data(); }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] const T& at(std::size_t i) const {
    CTXGEN_ASSERT(i < size_);
    return data()[i];
  }
  [[nodiscard]] T& front() { return data()[0]; }
  [[nodiscard]] const T& front() const { return data()[0]; }
  [[nodiscard]] T& back() { return data()[size_ - 1]; }
  [[nodiscard]] const T& back() const { return data()[size_ - 1]; }

  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    CTXGEN_ASSERT(count <= std::numeric_limits<std::uint32_t>::max());
    T* const grown = new T[count];
    std::ranges::copy(*this, grown);
    if (on_heap()) delete[] heap();
    std::memcpy(store_.data(), static_cast<const void*>(&grown), sizeof grown);
    capacity_ = static_cast<std::uint32_t>(count);
  }
  void push_back(T element) {
    if (size_ == capacity_) reserve(std::size_t{capacity_} * 2);
    data()[size_++] = element;
  }
  void append(std::span<const T> elements) {
    reserve(size_ + elements.size());
    std::ranges::copy(elements, end());
    size_ += static_cast<std::uint32_t>(elements.size());
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(std::size_t count, T element = T()) {
    reserve(count);
    for (std::size_t i = size_; i < count; ++i) data()[i] = element;
    size_ = static_cast<std::uint32_t>(count);
  }
  T* erase(const T* first, const T* last) {
    T* const to = begin() + (first - begin());
    std::copy(last, static_cast<const T*>(end()), to);
    size_ -= static_cast<std::uint32_t>(last - first);
    return to;
  }
  T* erase(const T* place) { return erase(place, place + 1); }
  T* insert(const T* place, T element) {
    const std::size_t at = static_cast<std::size_t>(place - begin());
    push_back(element);
    std::rotate(begin() + at, end() - 1, end());
    return begin() + at;
  }

  [[nodiscard]] friend bool operator==(const SmallList& a, const SmallList& b) {
    return std::ranges::equal(a, b);
  }
  [[nodiscard]] friend bool operator==(const SmallList& a, const std::vector<T>& b) {
    return std::ranges::equal(a, b);
  }
  template <class Predicate>
  friend std::size_t erase_if(SmallList& list, Predicate predicate) {
    T* const kept = std::remove_if(list.begin(), list.end(), predicate);
    const auto count = static_cast<std::size_t>(list.end() - kept);
    list.size_ -= static_cast<std::uint32_t>(count);
    return count;
  }

 private:
  [[nodiscard]] bool on_heap() const { return capacity_ > kInline; }
  [[nodiscard]] T* heap() const {
    T* pointer = nullptr;
    std::memcpy(static_cast<void*>(&pointer), store_.data(), sizeof pointer);
    return pointer;
  }

  alignas(8) std::array<std::byte, 8> store_{};  // the elements, or the pointer to them
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kInline;
};

}  // namespace ctxgen
