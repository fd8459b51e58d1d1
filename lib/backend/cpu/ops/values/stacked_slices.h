#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/function_kernel.h"

namespace ctxgen::cpu {

/// Stacks equal tensors along a new first axis while they come: the scan output of a Loop. Where
/// the number is known ahead each goes straight to its place in the result; otherwise the memory
/// doubles when it is full, so the cost stays linear.
class Stack {
 public:
  /// `expected`: how many will come at most; negative: not known.
  Stack(KernelContext& context, std::int64_t expected);

  /// Errors  INVALID_GRAPH where type or shape differ from the earlier ones, RESOURCE_LIMIT.
  [[nodiscard]] Status append(const Tensor& slice);
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Makes the output. Requires size() > 0.
  [[nodiscard]] Status finish(std::size_t output_index);

 private:
  [[nodiscard]] Status start(const Tensor& slice);
  [[nodiscard]] Status append_strings(const Tensor& slice);
  [[nodiscard]] Status grow(std::int64_t capacity);
  [[nodiscard]] std::int64_t first_capacity() const;
  [[nodiscard]] Dims dims_of(std::int64_t count) const;

  KernelContext& context_;
  std::int64_t expected_;
  DataType type_ = DataType::kUndefined;
  Dims slice_dims_;
  std::uint64_t slice_bytes_ = 0;
  std::int64_t size_ = 0, capacity_ = 0;
  Tensor memory_;                     // [capacity_, slice_dims_...]
  std::vector<std::string> strings_;  // instead of memory_
  MemoryCharge string_charge_;
};

}  // namespace ctxgen::cpu
