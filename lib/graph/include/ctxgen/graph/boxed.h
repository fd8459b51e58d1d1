#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace ctxgen {

/// An optional T that is absent most of the time: a pointer, where std::optional keeps room for a T.
/// Copies hold a T of their own; what was moved from is empty.
template <class T>
class Boxed {
 public:
  Boxed() = default;
  Boxed(std::nullopt_t) {}  // implicit, as std::optional
  Boxed(T content) : content_(std::make_unique<T>(std::move(content))) {}  // likewise
  Boxed(const Boxed& other) : content_(other ? std::make_unique<T>(*other) : nullptr) {}
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(Boxed other) noexcept {
    content_ = std::move(other.content_);
    return *this;
  }
  ~Boxed() = default;

  [[nodiscard]] bool has_value() const { return content_ != nullptr; }
  [[nodiscard]] explicit operator bool() const { return has_value(); }
  [[nodiscard]] T& operator*() { return *content_; }  // these require has_value()
  [[nodiscard]] const T& operator*() const { return *content_; }
  [[nodiscard]] T* operator->() { return content_.get(); }
  [[nodiscard]] const T* operator->() const { return content_.get(); }
  void reset() { content_.reset(); }

 private:
  std::unique_ptr<T> content_;
};

}  // namespace ctxgen
