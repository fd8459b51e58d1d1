
#include "families.h"
#include "ops/nn/convolution.h"
#include "ops/quantized/quantized_tensors.h"
#include "tensors/matmul_shape.h"

namespace ctxgen::cpu {
namespace {

// ---- products ----

struct IntProduct {
  MatmulShape shape;
  ScratchVector<std::int32_t> a, b;  // without zero points
};

// Zero points of A may differ per row (its last axis but one), those of B per column.
Result<IntProduct> int_product(const Tensor& a, const Quantization& qa, const Tensor& b,
                               const Quantization& qb) {
  IntProduct product;
  product.shape = CTXGEN_TRY(matmul_shape(a.dims(), b.dims()));
  product.a = CTXGEN_TRY(centred(a, qa, a.rank() < 2 ? 0 : a.rank() - 2));
  product.b = CTXGEN_TRY(centred(b, qb, b.rank() - 1));
  return product;
}

// put(output index, row, column, sum).
template <class F>
void multiply_ints(const IntProduct& product, F put) {
  const MatmulShape& s = product.shape;
  for_each_matrix(s, [&](std::int64_t ia, std::int64_t ib, std::int64_t ic) {
    multiply<std::int32_t>(
        {s.m, s.n, s.k}, {product.a.data() + ia * s.m * s.k, s.k, 1},
        MatrixPacker<std::int32_t>{{product.b.data() + ib * s.k * s.n, s.n, 1}, s.k, s.n},
        [&](std::int64_t m, std::int64_t n, const std::uint32_t* sums, std::int64_t count) {
          for (std::int64_t j = 0; j < count; ++j)
            put((ic * s.m + m) * s.n + n + j, m, n + j, static_cast<std::int32_t>(sums[j]));
        });
  });
}

// What a per-row quantisation of A and a per-column one of B may count.
std::int64_t rows_of(const Tensor& a) { return a.rank() < 2 ? 1 : a.dims()[a.rank() - 2]; }
std::int64_t columns_of(const Tensor& b) { return b.rank() < 2 ? 1 : b.dims().back(); }

KernelResult make_matmul_integer(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0));
    const Tensor* b = CTXGEN_TRY(required(context, 1));
    const auto qa = CTXGEN_TRY(quantization_of(context, SIZE_MAX, 2, rows_of(*a)));
    const auto qb = CTXGEN_TRY(quantization_of(context, SIZE_MAX, 3, columns_of(*b)));
    const auto product = CTXGEN_TRY(int_product(*a, qa, *b, qb));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kInt32, product.shape.output));
    std::int32_t* to = mutable_data_of<std::int32_t>(*output);
    multiply_ints(product, [&](std::int64_t at, std::int64_t, std::int64_t, std::int32_t sum) {
      to[at] = sum;
    });
    return {};
  });
}

KernelResult make_qlinear_matmul(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0));
    const Tensor* b = CTXGEN_TRY(required(context, 3));
    const Tensor* y_zero = CTXGEN_TRY(required(context, 7));
    const auto qa = CTXGEN_TRY(quantization_of(context, 1, 2, rows_of(*a)));
    const auto qb = CTXGEN_TRY(quantization_of(context, 4, 5, columns_of(*b)));
    const auto qy = CTXGEN_TRY(quantization_of(context, 6, 7, rows_of(*a)));
    const auto product = CTXGEN_TRY(int_product(*a, qa, *b, qb));
    Tensor* output = CTXGEN_TRY(context.make_output(0, y_zero->type(), product.shape.output));
    return dispatch(ByteTypes{}, y_zero->type(), [&]<class T>() -> Status {
      T* to = mutable_data_of<T>(*output);
      multiply_ints(product,
                    [&](std::int64_t at, std::int64_t m, std::int64_t n, std::int32_t sum) {
                      const float scale = qa.scale(m) * qb.scale(n) / qy.scale(m);
                      to[at] = requantized<T>(static_cast<float>(sum) * scale, qy.zero(m));
                    });
      return {};
    });
  });
}

// ---- convolutions ----

struct IntConvParams {
  WindowAttributes window;
  std::int64_t groups = 1;
};

Result<IntConvParams> int_conv_params(const Node& node) {
  return IntConvParams{CTXGEN_TRY(window_attributes(node)), node.int_or("group", 1)};
}

// put(output index, channel, sum) for all images.
template <class F>
void convolve_ints(const ConvShape& shape, const ScratchVector<std::int32_t>& input,
                   const ScratchVector<std::int32_t>& weights, F put) {
  if (shape.batch == 0) return;
  const std::int64_t positions = element_count(shape.window.outputs());
  const std::int64_t image = static_cast<std::int64_t>(input.size()) / shape.batch;
  for (std::int64_t i = 0; i < shape.batch; ++i)
    convolve<std::int32_t>(
        shape, input.data() + i * image, weights.data(),
        [&](std::int64_t m, std::int64_t at, const std::uint32_t* sums, std::int64_t count) {
          for (std::int64_t j = 0; j < count; ++j)
            put((i * shape.out_channels + m) * positions + at + j, m, sums[j]);
        });
}

KernelResult make_conv_integer(const Node& node) {
  const IntConvParams params = CTXGEN_TRY(int_conv_params(node));
  return kernel([params](KernelContext& context) -> Status {
    const Tensor* x = CTXGEN_TRY(required(context, 0));
    const Tensor* w = CTXGEN_TRY(required(context, 1));
    const auto shape = CTXGEN_TRY(conv_shape(params.window, params.groups, x->dims(), w->dims()));
    const auto qx = CTXGEN_TRY(quantization_of(context, SIZE_MAX, 2, 1));
    const auto qw = CTXGEN_TRY(quantization_of(context, SIZE_MAX, 3, shape.out_channels));
    const auto input = CTXGEN_TRY(centred(*x, qx, 0));
    const auto weights = CTXGEN_TRY(centred(*w, qw, 0));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kInt32, shape.output));
    convolve_ints(shape, input, weights, [&](std::int64_t at, std::int64_t, std::uint32_t sum) {
      mutable_data_of<std::int32_t>(*output)[at] = static_cast<std::int32_t>(sum);
    });
    return {};
  });
}

KernelResult make_qlinear_conv(const Node& node) {
  const IntConvParams params = CTXGEN_TRY(int_conv_params(node));
  return kernel([params](KernelContext& context) -> Status {
    const Tensor* x = CTXGEN_TRY(required(context, 0));
    const Tensor* w = CTXGEN_TRY(required(context, 3));
    const Tensor* y_zero = CTXGEN_TRY(required(context, 7));
    const Tensor* bias = optional_input(context, 8);
    const auto shape = CTXGEN_TRY(conv_shape(params.window, params.groups, x->dims(), w->dims()));
    const auto qx = CTXGEN_TRY(quantization_of(context, 1, 2, 1));
    const auto qw = CTXGEN_TRY(quantization_of(context, 4, 5, shape.out_channels));
    const auto qy = CTXGEN_TRY(quantization_of(context, 6, 7, 1));
    if (bias != nullptr) {
      CTXGEN_CHECK(expect_dims(*bias, "bias", {shape.out_channels}));
      if (bias->type() != DataType::kInt32)
        return fail(ErrorCode::kInvalidGraph, "bias is {}", name_of(bias->type()));
    }
    const auto input = CTXGEN_TRY(centred(*x, qx, 0));
    const auto weights = CTXGEN_TRY(centred(*w, qw, 0));
    Tensor* output = CTXGEN_TRY(context.make_output(0, y_zero->type(), shape.output));
    return dispatch(ByteTypes{}, y_zero->type(), [&]<class T>() -> Status {
      convolve_ints(shape, input, weights, [&](std::int64_t at, std::int64_t m, std::uint32_t sum) {
        if (bias != nullptr) sum += static_cast<std::uint32_t>(data_of<std::int32_t>(*bias)[m]);
        const float scale = qx.scale(0) * qw.scale(m) / qy.scale(0);
        const auto steps = static_cast<float>(static_cast<std::int32_t>(sum)) * scale;
        mutable_data_of<T>(*output)[at] = requantized<T>(steps, qy.zero(0));
      });
      return {};
    });
  });
}

constexpr std::string_view kMathLimits = "int8, uint8";

constexpr OpRow kQuantizedMathRows[] = {
    {kOnnx, "ConvInteger", 10, 10, make_conv_integer, kMathLimits},
    {kOnnx, "MatMulInteger", 10, 10, make_matmul_integer, kMathLimits},
    {kOnnx, "QLinearConv", 10, 10, make_qlinear_conv, kMathLimits},
    {kOnnx, "QLinearMatMul", 10, 21, make_qlinear_matmul, kMathLimits},
};

}  // namespace

constinit const std::span<const OpRow> kQuantizedMathOps = kQuantizedMathRows;

}  // namespace ctxgen::cpu
