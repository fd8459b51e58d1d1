#pragma once

#include <cstdint>

#include "kernel/function_kernel.h"

namespace ctxgen::cpu {

/// What is added to logits [batch, heads, rows, columns]; it broadcasts over batch and heads.
class BiasReader {
 public:
  BiasReader() = default;
  explicit BiasReader(const Tensor& bias) : data_(data_of<float>(bias)), dims_(bias.dims()) {}
  [[nodiscard]] double operator()(std::int64_t b, std::int64_t n, std::int64_t s,
                                  std::int64_t t) const {
    if (data_ == nullptr) return 0;
    const std::int64_t plane = (dims_[0] == 1 ? 0 : b) * dims_[1] + (dims_[1] == 1 ? 0 : n);
    return static_cast<double>(data_[(plane * dims_[2] + s) * dims_[3] + t]);
  }

 private:
  const float* data_ = nullptr;  // absent: 0
  Dims dims_;
};

/// Of a tensor that may be null, and may have more columns.
/// Errors  INVALID_GRAPH: other dims or another type.
[[nodiscard]] Result<BiasReader> bias_reader(const Tensor* bias, std::int64_t batch,
                                             std::int64_t heads, std::int64_t rows,
                                             std::int64_t columns);

}  // namespace ctxgen::cpu
