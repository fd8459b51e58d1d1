
#include "families.h"
#include "kernel/widen.h"
#include "numbers/gemm.h"
#include "tensors/matmul_shape.h"

namespace ctxgen::cpu {

Result<MatmulShape> matmul_shape(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty())
    return fail(ErrorCode::kInvalidGraph, "cannot multiply {} and {}", to_string(a), to_string(b));
  const bool a_is_row = a.size() == 1;
  const bool b_is_column = b.size() == 1;
  MatmulShape shape;
  shape.m = a_is_row ? 1 : a[a.size() - 2];
  shape.k = a.back();
  shape.n = b_is_column ? 1 : b.back();
  const std::int64_t b_rows = b_is_column ? b[0] : b[b.size() - 2];
  if (b_rows != shape.k)
    return fail(ErrorCode::kInvalidGraph, "cannot multiply {} and {}", to_string(a), to_string(b));
  const Dims a_batch(a.span().first(a_is_row ? 0 : a.size() - 2));
  const Dims b_batch(b.span().first(b_is_column ? 0 : b.size() - 2));
  shape.batches = CTXGEN_TRY(plan_broadcast({&a_batch, &b_batch}));
  shape.output = shape.batches.dims;
  if (!a_is_row) shape.output.push_back(shape.m);
  if (!b_is_column) shape.output.push_back(shape.n);
  return shape;
}

namespace {

// The element type that products of T are computed in: unsigned integers wrap like signed ones.
template <class T>
using ProductOf =
    std::conditional_t<std::is_integral_v<T>,
                       std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>, T>;
using MatmulTypes = Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>;

template <class T>
void multiply_all(const MatmulShape& shape, const Tensor& a, const Tensor& b, Tensor& output) {
  using E = ProductOf<T>;
  const E* a_data = data_of<E>(a);
  const E* b_data = data_of<E>(b);
  const ProductSize size{shape.m, shape.n, shape.k};
  for_each_matrix(shape, [&](std::int64_t ia, std::int64_t ib, std::int64_t ic) {
    T* c = mutable_data_of<T>(output) + ic * shape.m * shape.n;
    multiply<E>(size, {a_data + ia * shape.m * shape.k, shape.k, 1},
                MatrixPacker<E>{{b_data + ib * shape.k * shape.n, shape.n, 1}, shape.k, shape.n},
                [&](std::int64_t m, std::int64_t n, const auto* sums, std::int64_t count) {
                  for (std::int64_t j = 0; j < count; ++j)
                    c[m * shape.n + n + j] = static_cast<T>(sums[j]);
                });
  });
}

Status run_matmul(KernelContext& context) {
  const Tensor* a = CTXGEN_TRY(required(context, 0));
  const Tensor* b = CTXGEN_TRY(required(context, 1, a->type()));
  const auto shape = CTXGEN_TRY(matmul_shape(a->dims(), b->dims()));
  Tensor* output = CTXGEN_TRY(context.make_output(0, a->type(), shape.output));
  return dispatch(MatmulTypes{}, a->type(), [&]<class T>() -> Status {
    multiply_all<T>(shape, *a, *b, *output);
    return {};
  });
}

KernelResult make_matmul(const Node&) { return widened_kernel(run_matmul); }

struct GemmParams {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
};

// alpha or beta in the type that sums have: integers cut it.
template <class A>
A factor(double value) {
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(saturated<std::int64_t>(value));
  else
    return static_cast<A>(value);
}

template <class T>
void gemm(const GemmParams& params, const ProductSize& size, const Tensor& a, const Tensor& b,
          const Tensor* c, const BroadcastPlan& c_plan, Tensor& output) {
  using E = ProductOf<T>;
  using A = typename SumOf<E>::Type;
  ScratchVector<A> addend(static_cast<std::size_t>(size.m * size.n), A(0));
  if (c != nullptr)
    for_each_row(c_plan, [&](const auto& offset, std::int64_t out) {
      for (std::int64_t i = 0; i < c_plan.row_length(); ++i)
        addend[static_cast<std::size_t>(out + i)] =
            static_cast<A>(factor<A>(params.beta) *
                           static_cast<A>(data_of<T>(*c)[offset[1] + i * c_plan.row_stride(1)]));
    });
  const MatrixView<E> a_view{data_of<E>(a), params.transpose_a ? 1 : size.k,
                             params.transpose_a ? size.m : 1};
  const MatrixView<E> b_view{data_of<E>(b), params.transpose_b ? 1 : size.n,
                             params.transpose_b ? size.k : 1};
  T* to = mutable_data_of<T>(output);
  multiply<E>(size, a_view, MatrixPacker<E>{b_view, size.k, size.n},
              [&](std::int64_t m, std::int64_t n, const A* sums, std::int64_t count) {
                for (std::int64_t j = 0; j < count; ++j) {
                  const std::int64_t at = m * size.n + n + j;
                  to[at] = static_cast<T>(factor<A>(params.alpha) * sums[j] +
                                          addend[static_cast<std::size_t>(at)]);
                }
              });
}

Status run_gemm(KernelContext& context, const GemmParams& params) {
  const Tensor* a = CTXGEN_TRY(required(context, 0));
  const Tensor* b = CTXGEN_TRY(required(context, 1, a->type()));
  const Tensor* c = optional_input(context, 2);
  CTXGEN_CHECK(expect_rank(*a, "A", 2, 2));
  CTXGEN_CHECK(expect_rank(*b, "B", 2, 2));
  const ProductSize size{a->dims()[params.transpose_a ? 1 : 0],
                         b->dims()[params.transpose_b ? 0 : 1],
                         a->dims()[params.transpose_a ? 0 : 1]};
  if (b->dims()[params.transpose_b ? 1 : 0] != size.k)
    return fail(ErrorCode::kInvalidGraph, "cannot multiply {} and {}", to_string(a->dims()),
                to_string(b->dims()));
  const Dims dims{size.m, size.n};
  BroadcastPlan plan;
  if (c != nullptr) {
    CTXGEN_CHECK(same_type(*a, *c));
    plan = CTXGEN_TRY(plan_broadcast({&dims, &c->dims()}));
    if (!(plan.dims == dims))
      return fail(ErrorCode::kInvalidGraph, "C {} does not broadcast to {}", to_string(c->dims()),
                  to_string(dims));
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, a->type(), dims));
  return dispatch(MatmulTypes{}, a->type(), [&]<class T>() -> Status {
    gemm<T>(params, size, *a, *b, c, plan, *output);
    return {};
  });
}

KernelResult make_gemm(const Node& node) {
  const GemmParams params{.transpose_a = node.int_or("transA", 0) != 0,
                          .transpose_b = node.int_or("transB", 0) != 0,
                          .alpha = node.float_or("alpha", 1.0f),
                          .beta = node.float_or("beta", 1.0f)};
  return widened_kernel([params](KernelContext& context) { return run_gemm(context, params); });
}

constexpr std::string_view kLimits = "floats, int32, int64, uint32, uint64";

constexpr OpRow kMatmulRows[] = {
    {kOnnx, "Gemm", 1, 13, make_gemm, kLimits},
    {kOnnx, "MatMul", 1, 13, make_matmul, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kMatmulOps = kMatmulRows;

}  // namespace ctxgen::cpu
