#include <cmath>
#include <utility>

#include "families.h"
#include "kernel/function_kernel.h"
#include "kernel/stop.h"

namespace ctxgen::cpu {
namespace {

// Gaussian elimination with the largest pivot of each column.
double determinant(ScratchVector<double>& m, std::size_t n) {
  double result = 1;
  for (std::size_t column = 0; column < n && !run_stopped(); ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row)
      if (std::abs(m[row * n + column]) > std::abs(m[pivot * n + column])) pivot = row;
    const double head = m[pivot * n + column];
    if (head == 0) return 0;
    if (pivot != column) {
      for (std::size_t i = column; i < n; ++i) std::swap(m[pivot * n + i], m[column * n + i]);
      result = -result;
    }
    result *= head;
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = m[row * n + column] / head;
      for (std::size_t i = column; i < n; ++i) m[row * n + i] -= factor * m[column * n + i];
    }
  }
  return result;
}

KernelResult make_det(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "X", 2));
    const std::int64_t n = input->dims().back();
    if (input->dims()[input->rank() - 2] != n)
      return fail(ErrorCode::kInvalidGraph, "X {} has no square matrices",
                  to_string(input->dims()));
    const Dims dims(input->dims().span().first(input->rank() - 2));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
    return dispatch(RealTypes{}, input->type(), [&]<class T>() -> Status {
      ScratchVector<double> matrix(static_cast<std::size_t>(n * n));
      for (std::int64_t i = 0; i < output->element_count(); ++i) {
        for (std::size_t k = 0; k < matrix.size(); ++k)
          matrix[k] = static_cast<double>(
              load(data_of<T>(*input)[i * n * n + static_cast<std::int64_t>(k)]));
        mutable_data_of<T>(*output)[i] = store<T>(determinant(matrix, static_cast<std::size_t>(n)));
      }
      return {};
    });
  });
}

constexpr OpRow kLinearAlgebraRows[] = {
    {kOnnx, "Det", 11, 22, make_det, "floats; computed in double"},
};

}  // namespace

constinit const std::span<const OpRow> kLinearAlgebraOps = kLinearAlgebraRows;

}  // namespace ctxgen::cpu
