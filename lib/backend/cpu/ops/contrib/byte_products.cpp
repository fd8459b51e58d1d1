#include "byte_products.h"

#include <algorithm>

#include "kernel/stop.h"
#include "numbers/dot.h"

namespace ctxgen::cpu {
namespace {

// Columns [first, last), one after the other; those of a row-major matrix are next to each other.
template <class T>
void read_columns(const ByteColumns& b, std::int64_t first, std::int64_t last, float* to) {
  const T* from = data_of<T>(*b.matrix);
  const std::int64_t depth = b.depth(), columns = b.columns();
  const std::int64_t next = b.transposed ? 1 : columns, apart = b.transposed ? depth : 1;
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t column = first; column < last; ++column)
      to[(column - first) * depth + k] = static_cast<float>(
          std::int32_t{from[column * apart + k * next]} - b.quantization->zero(column));
}

}  // namespace

Result<ScratchVector<float>> centred_floats(const Tensor& tensor, std::int32_t zero) {
  ScratchVector<float> values(static_cast<std::size_t>(tensor.element_count()));
  CTXGEN_CHECK(dispatch(ByteTypes{}, tensor.type(), [&]<class T>() -> Status {
    std::transform(data_of<T>(tensor), data_of<T>(tensor) + tensor.element_count(), values.data(),
                   [&](T value) { return static_cast<float>(std::int32_t{value} - zero); });
    return {};
  }));
  return values;
}

Status multiply_columns(std::span<const float> a, std::int64_t rows, const ByteColumns& b,
                        FunctionRef<void(std::int64_t, std::int64_t, double)> emit) {
  constexpr std::int64_t kAtOnce = 16;
  const std::int64_t depth = b.depth(), columns = b.columns();
  ScratchVector<float> some(static_cast<std::size_t>(depth * kAtOnce));
  return dispatch(ByteTypes{}, b.matrix->type(), [&]<class T>() -> Status {
    for (std::int64_t first = 0; first < columns && !run_stopped(); first += kAtOnce) {
      const std::int64_t last = std::min(first + kAtOnce, columns);
      read_columns<T>(b, first, last, some.data());
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = first; column < last; ++column)
          emit(row, column,
               double_dot(depth, a.data() + row * depth, some.data() + (column - first) * depth));
    }
    return {};
  });
}

}  // namespace ctxgen::cpu
