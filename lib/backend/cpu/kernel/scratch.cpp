#include "ctxgen/cpu/scratch.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen::cpu {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
constexpr bool kKeeps = !__has_feature(address_sanitizer);
#else
constexpr bool kKeeps = true;
#endif

constexpr std::size_t kLeastBytes = 64;

/// Four sizes per power of two: a block is at most a fifth larger than what was asked.
struct SizeClass {
  std::size_t index = 0, bytes = 0;
};
SizeClass size_class(std::size_t size_bytes) {
  const std::size_t wanted = std::max(size_bytes, kLeastBytes);
  const auto bits = static_cast<std::size_t>(std::bit_width(wanted - 1));  // 2^(bits-1) < wanted
  const std::size_t step = std::size_t{1} << (bits - 3);
  const std::size_t steps = (wanted + step - 1) / step;  // 5 to 8; 8 of least
  return {bits * 4 + steps - 5, steps * step};
}
std::size_t bytes_of_class(std::size_t index) { return (index % 4 + 5) << (index / 4 - 3); }

}  // namespace

/// Before each block.
struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) Scratch::Header {
  Scratch* home = nullptr;  // nullptr: the system
  union {
    std::size_t index = 0;  // in use
    Header* next;           // free
  };
};

constinit thread_local Scratch* Scratch::current_ = nullptr;

Scratch::~Scratch() { drop_free(); }

void Scratch::drop_free() noexcept {
  for (Class& one : std::span(classes_).first(used_classes_)) {
    while (one.first != nullptr) ::operator delete(std::exchange(one.first, one.first->next));
    one = {};
  }
  free_bytes_ = 0;
}

Scratch::Header* Scratch::take_free(std::size_t index) {
  Class& one = classes_[index];
  if (one.first == nullptr) return nullptr;
  one.least = std::min(one.least, --one.count);
  free_bytes_ -= bytes_of_class(index);
  return std::exchange(one.first, one.first->next);
}

void Scratch::keep(Header* header) noexcept {
  Class& one = classes_[header->index];
  used_classes_ = std::max(used_classes_, header->index + 1);
  used_bytes_ -= bytes_of_class(header->index);
  free_bytes_ += bytes_of_class(header->index);
  header->next = std::exchange(one.first, header);
  ++one.count;
}

void* Scratch::take(std::size_t size_bytes) {
  if (size_bytes > SIZE_MAX / 4) throw std::bad_alloc();
  const SizeClass size = size_class(size_bytes);
  if (current_ != nullptr && size.bytes > current_->limit_bytes_ - current_->used_bytes_)
    throw std::bad_alloc();
  Header* header = current_ != nullptr ? current_->take_free(size.index) : nullptr;
  if (header == nullptr) {
    const std::size_t bytes = current_ != nullptr ? size.bytes : size_bytes;
    if (current_ != nullptr &&
        current_->free_bytes_ > current_->limit_bytes_ - current_->used_bytes_ - bytes)
      current_->drop_free();
    header = new (::operator new(sizeof(Header) + bytes)) Header{current_, {0}};
  }
  header->index = size.index;
  if (header->home != nullptr) header->home->used_bytes_ += size.bytes;
  return header + 1;
}

void Scratch::give(void* memory) noexcept {
  if (memory == nullptr) return;
  Header* header = static_cast<Header*>(memory) - 1;
  if (header->home != nullptr)
    header->home->keep(header);
  else
    ::operator delete(header);
}

void Scratch::end_run() {
  for (std::size_t i = 0; i < used_classes_; ++i) {
    Class& one = classes_[i];
    free_bytes_ -= one.least * bytes_of_class(i);
    for (; one.least > 0; --one.least, --one.count)
      ::operator delete(std::exchange(one.first, one.first->next));
    one.least = one.count;
  }
}

bool Scratch::keeps() { return kKeeps; }

ScratchScope::ScratchScope(Scratch* scratch)
    : outer_(std::exchange(Scratch::current_, kKeeps ? scratch : nullptr)) {}

ScratchScope::~ScratchScope() { Scratch::current_ = outer_; }

}  // namespace ctxgen::cpu
