#include <algorithm>
#include <memory>
#include <span>

#include "byte_products.h"
#include "contrib_families.h"
#include "kernel/attributes.h"
#include "kernel/inputs_context.h"
#include "kernel/stop.h"
#include "kernel/widen.h"
#include "numbers/dot.h"
#include "ops/quantized/quantized_tensors.h"
#include "tensors/strided_copy.h"

// com.microsoft: products of quantised or transposed operands. Each brings its operands into the form
// of the ONNX operator that it stands for, and runs that one's kernel.

namespace ctxgen::cpu {
namespace {

using SharedKernel = std::shared_ptr<const Kernel>;

Result<SharedKernel> kernel_like(std::string_view domain, std::string_view op, std::int64_t since,
                                 const Node& node) {
  const OpRow* row = find_op(domain, op, since);
  CTXGEN_ASSERT(row != nullptr);
  return SharedKernel(CTXGEN_TRY(row->make(node)));
}

// (element - zero) * scale, per channel of `axis`.
Result<Tensor> dequantized(KernelContext& context, const Tensor& tensor,
                           const Quantization& quantization, std::size_t axis) {
  const auto values = CTXGEN_TRY(bytes_as_ints(tensor));
  Tensor result = CTXGEN_TRY(context.make_tensor(DataType::kFloat, tensor.dims()));
  const AxisSplit split = split_at(tensor.dims(), axis);
  float* to = mutable_data_of<float>(result);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t channel = static_cast<std::int64_t>(i) / split.inner % split.extent;
    to[i] =
        static_cast<float>(values[i] - quantization.zero(channel)) * quantization.scale(channel);
  }
  return result;
}

std::int64_t last_dim(const Tensor& tensor) {
  return tensor.rank() == 0 ? 1 : tensor.dims().back();
}
std::size_t last_axis(const Tensor& tensor) { return tensor.rank() == 0 ? 0 : tensor.rank() - 1; }

// Adds a bias along the last axis; the output is new, nothing else sees it yet.
Status add_bias(Tensor& output, const Tensor* bias) {
  if (bias == nullptr) return {};
  if (bias->type() != output.type())
    return fail(ErrorCode::kInvalidGraph, "bias is {}", name_of(bias->type()));
  CTXGEN_CHECK(expect_dims(*bias, "bias", {last_dim(output)}));
  float* to = mutable_data_of<float>(output);
  for (std::int64_t i = 0; i < output.element_count(); ++i)
    to[i] += data_of<float>(*bias)[i % bias->element_count()];
  return {};
}

/// Remembers output 0 of the kernel inside.
class OutputContext final : public ForwardingContext {
 public:
  using ForwardingContext::ForwardingContext;
  [[nodiscard]] Result<Tensor*> make_output(std::size_t i, DataType type,
                                            const Dims& dims) override {
    output = CTXGEN_TRY(inner().make_output(i, type, dims));
    return output;
  }
  Tensor* output = nullptr;
};

Status run_product(KernelContext& context, const Kernel& matmul, const Tensor& a, const Tensor& b,
                   const Tensor* bias) {
  InputsContext inputs(context, {&a, &b});
  OutputContext outputs(inputs);
  CTXGEN_CHECK(matmul.run(outputs));
  return outputs.output == nullptr ? Status() : add_bias(*outputs.output, bias);
}

// ---- FusedMatMul ----

Result<Tensor> last_two_swapped(KernelContext& context, const Tensor& tensor, bool swap) {
  if (!swap || tensor.rank() < 2) return tensor;
  ScratchVector<std::size_t> perm(tensor.rank());
  for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = i;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  Tensor result = CTXGEN_TRY(context.make_tensor(tensor.type(), permuted(tensor.dims(), perm)));
  CTXGEN_CHECK(transpose_into(tensor, perm, result));
  return result;
}

KernelResult make_fused_matmul(const Node& node) {
  for (std::string_view name : {"transBatchA", "transBatchB"})
    if (node.int_or(name, 0) != 0)
      return fail(ErrorCode::kUnsupported, "{}: attribute {}", node.describe(), name);
  const SharedKernel matmul = CTXGEN_TRY(kernel_like(kOnnx, "MatMul", 13, node));
  return kernel(
      [matmul, swap_a = node.int_or("transA", 0) != 0, swap_b = node.int_or("transB", 0) != 0,
       alpha =
           static_cast<double>(node.float_or("alpha", 1.0f))](KernelContext& context) -> Status {
        const Tensor* a = CTXGEN_TRY(required(context, 0));
        const Tensor* b = CTXGEN_TRY(required(context, 1, a->type()));
        const Tensor left = CTXGEN_TRY(last_two_swapped(context, *a, swap_a));
        const Tensor right = CTXGEN_TRY(last_two_swapped(context, *b, swap_b));
        InputsContext inputs(context, {&left, &right});
        OutputContext outputs(inputs);
        CTXGEN_CHECK(matmul->run(outputs));
        if (alpha == 1 || outputs.output == nullptr) return {};
        return dispatch(RealTypes{}, a->type(), [&]<class T>() -> Status {
          T* to = mutable_data_of<T>(*outputs.output);
          for (std::int64_t i = 0; i < outputs.output->element_count(); ++i)
            to[i] = store<T>(static_cast<double>(load(to[i])) * alpha);
          return {};
        });
      });
}

// ---- MatMulNBits ----

struct BlockParams {
  std::int64_t k = 0, n = 0, bits = 0, block = 0;
  [[nodiscard]] std::int64_t blocks() const { return (k + block - 1) / block; }
};

// Element i of a row of packed numbers, low bits first.
std::int64_t packed_element(const std::uint8_t* row, std::int64_t i, std::int64_t bits) {
  const std::int64_t per_byte = 8 / bits;
  return (row[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
}

Status check_blocks(const KernelContext& context, const BlockParams& p) {
  const Tensor* b = CTXGEN_TRY(required(context, 1, DataType::kUint8));
  const Tensor* scales = CTXGEN_TRY(required(context, 2, DataType::kFloat));
  if (b->element_count() != p.n * p.blocks() * (p.block * p.bits / 8) ||
      scales->element_count() != p.n * p.blocks())
    return fail(ErrorCode::kInvalidGraph, "B {} and scales {} do not fit {} x {} in blocks of {}",
                to_string(b->dims()), to_string(scales->dims()), p.n, p.k, p.block);
  const Tensor* zeros = optional_input(context, 3);
  if (zeros == nullptr) return {};
  const bool packed = zeros->type() == DataType::kUint8;
  const std::int64_t row = packed ? (p.blocks() * p.bits + 7) / 8 : p.blocks();
  if ((!packed && zeros->type() != DataType::kFloat) || zeros->element_count() != p.n * row)
    return fail(ErrorCode::kInvalidGraph, "zero_points is {} {}", name_of(zeros->type()),
                to_string(zeros->dims()));
  return {};
}

float zero_point(const KernelContext& context, const BlockParams& p, std::int64_t n,
                 std::int64_t block) {
  const Tensor* zeros = optional_input(context, 3);
  if (zeros == nullptr) return static_cast<float>(1 << (p.bits - 1));
  if (zeros->type() == DataType::kFloat) return data_of<float>(*zeros)[n * p.blocks() + block];
  const std::int64_t row = (p.blocks() * p.bits + 7) / 8;
  return static_cast<float>(packed_element(data_of<std::uint8_t>(*zeros) + n * row, block, p.bits));
}

// Column n of B as floats.
void unpack_column(const KernelContext& context, const BlockParams& p, std::int64_t n,
                   std::span<float> column) {
  const std::uint8_t* packed =
      data_of<std::uint8_t>(*context.input(1)) + n * p.blocks() * (p.block * p.bits / 8);
  const float* scales = data_of<float>(*context.input(2)) + n * p.blocks();
  for (std::int64_t block = 0; block < p.blocks(); ++block) {
    const float zero = zero_point(context, p, n, block);
    const std::int64_t end = std::min((block + 1) * p.block, p.k);
    for (std::int64_t k = block * p.block; k < end; ++k)
      column[static_cast<std::size_t>(k)] =
          (static_cast<float>(packed_element(packed, k, p.bits)) - zero) * scales[block];
  }
}

// One column of B in memory at a time. accuracy_level is the least accuracy that is asked for.
Status multiply_blocks(KernelContext& context, const BlockParams& p) {
  const Tensor* a = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  CTXGEN_CHECK(check_blocks(context, p));
  if (a->rank() == 0 || a->dims().back() != p.k)
    return fail(ErrorCode::kInvalidGraph, "A is {}, expected {} in the last dim",
                to_string(a->dims()), p.k);
  const Tensor* bias = optional_input(context, 5);
  if (bias != nullptr && bias->type() != DataType::kFloat)
    return fail(ErrorCode::kInvalidGraph, "bias is {}", name_of(bias->type()));
  if (bias != nullptr) CTXGEN_CHECK(expect_dims(*bias, "bias", {p.n}));
  Dims dims = a->dims();
  dims[dims.size() - 1] = p.n;
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, dims));
  ScratchVector<float> column(static_cast<std::size_t>(p.k));
  const std::int64_t rows = a->element_count() / p.k;
  for (std::int64_t n = 0; n < p.n && !run_stopped(); ++n) {
    unpack_column(context, p, n, column);
    const double start = bias == nullptr ? 0.0 : static_cast<double>(data_of<float>(*bias)[n]);
    for (std::int64_t row = 0; row < rows; ++row)
      mutable_data_of<float>(*output)[row * p.n + n] = static_cast<float>(
          start + double_dot(p.k, column.data(), data_of<float>(*a) + row * p.k));
  }
  return {};
}

KernelResult make_matmul_nbits(const Node& node) {
  const BlockParams p{.k = node.int_or("K", 0),
                      .n = node.int_or("N", 0),
                      .bits = node.int_or("bits", 4),
                      .block = node.int_or("block_size", 0)};
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  if (p.k < 1 || p.n < 1 || p.k > kMost || p.n > kMost || p.block < 16 || p.block > kMost ||
      (p.block & (p.block - 1)) != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} x {} in blocks of {}", node.describe(), p.k, p.n,
                p.block);
  if (p.bits != 2 && p.bits != 4 && p.bits != 8)
    return fail(ErrorCode::kUnsupported, "{}: {} bits", node.describe(), p.bits);
  if (node.input(4).valid())
    return fail(ErrorCode::kUnsupported, "{}: input g_idx", node.describe());
  return widened_kernel([p](KernelContext& context) { return multiply_blocks(context, p); });
}

// ---- DynamicQuantizeMatMul, MatMulIntegerToFloat ----

struct RoundedRows {
  ScratchVector<float> steps;  // less the zero point
  float scale = 1;
};

// As DynamicQuantizeLinear: the range of A with zero in it becomes 0 to 255.
RoundedRows rounded_to_bytes(const Tensor& a) {
  float low = 0;
  float high = 0;
  for (float x : a.elements<float>()) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  RoundedRows rows;
  rows.scale = high == low ? 1.0f : (high - low) / 255.0f;
  const float zero = std::clamp(std::nearbyint(-low / rows.scale), 0.0f, 255.0f);
  rows.steps.resize(static_cast<std::size_t>(a.element_count()));
  std::ranges::transform(a.elements<float>(), rows.steps.data(), [&](float x) {
    return std::clamp(std::nearbyint(x / rows.scale) + zero, 0.0f, 255.0f) - zero;
  });
  return rows;
}

// Rows of whole numbers times B [K, N], scaled, plus a bias [N].
Status multiply_rows(KernelContext& context, const Dims& a_dims, const RoundedRows& a,
                     const Tensor& b, const Quantization& qb, const Tensor* bias) {
  if (a_dims.empty() || a_dims.back() != b.dims()[0])
    return fail(ErrorCode::kInvalidGraph, "A is {}, B {}", to_string(a_dims), to_string(b.dims()));
  const std::int64_t depth = b.dims()[0], columns = b.dims()[1];
  if (bias != nullptr && bias->type() != DataType::kFloat)
    return fail(ErrorCode::kInvalidGraph, "bias is {}", name_of(bias->type()));
  if (bias != nullptr) CTXGEN_CHECK(expect_dims(*bias, "bias", {columns}));
  Dims dims = a_dims;
  dims[dims.size() - 1] = columns;
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, dims));
  const std::int64_t rows = depth == 0
                                ? output->element_count() / std::max<std::int64_t>(columns, 1)
                                : static_cast<std::int64_t>(a.steps.size()) / depth;
  float* to = mutable_data_of<float>(*output);
  return multiply_columns(
      a.steps, rows, {&b, &qb}, [&](std::int64_t row, std::int64_t column, double sum) {
        const auto real = static_cast<float>(sum * double{a.scale} * double{qb.scale(column)});
        to[row * columns + column] =
            real + (bias == nullptr ? 0.0f : data_of<float>(*bias)[column]);
      });
}

// Any rank of B, which becomes floats as a whole where it is not a matrix.
Status multiply_rounded(KernelContext& context, const Kernel& matmul, const Tensor& a,
                        const RoundedRows& rows, std::size_t b_at, const Quantization& qb,
                        const Tensor* bias) {
  const Tensor& b = *context.input(b_at);
  if (b.rank() == 2 && a.rank() > 0) return multiply_rows(context, a.dims(), rows, b, qb, bias);
  const Tensor right = CTXGEN_TRY(dequantized(context, b, qb, last_axis(b)));
  Tensor left = CTXGEN_TRY(context.make_tensor(DataType::kFloat, a.dims()));
  std::ranges::transform(rows.steps, mutable_data_of<float>(left),
                         [&](float steps) { return steps * rows.scale; });
  return run_product(context, matmul, left, right, bias);
}

KernelResult make_dynamic_matmul(const Node& node) {
  const SharedKernel matmul = CTXGEN_TRY(kernel_like(kOnnx, "MatMul", 13, node));
  return kernel([matmul](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0, DataType::kFloat));
    const Tensor* b = CTXGEN_TRY(required(context, 1));
    const auto qb = CTXGEN_TRY(quantization_of(context, 2, 3, last_dim(*b)));
    return multiply_rounded(context, *matmul, *a, rounded_to_bytes(*a), 1, qb,
                            optional_input(context, 4));
  });
}

KernelResult make_integer_to_float(const Node& node) {
  const SharedKernel matmul = CTXGEN_TRY(kernel_like(kOnnx, "MatMul", 13, node));
  return kernel([matmul](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0));
    const Tensor* b = CTXGEN_TRY(required(context, 1));
    const auto qa = CTXGEN_TRY(quantization_of(context, 2, 4, 1));
    const auto qb = CTXGEN_TRY(quantization_of(context, 3, 5, last_dim(*b)));
    const RoundedRows rows{CTXGEN_TRY(centred_floats(*a, qa.zero(0))), qa.scale(0)};
    return multiply_rounded(context, *matmul, *a, rows, 1, qb, optional_input(context, 6));
  });
}

// ---- QGemm: A, B and Y with scale and zero point each, but C between B and Y ----

struct QGemmParams {
  bool trans_a = false, trans_b = false;
  float alpha = 1;
};

// C [M, N] broadcast, in units of the scales.
double c_at(const Tensor* c, std::int64_t row, std::int64_t column) {
  if (c == nullptr) return 0.0;
  const std::int64_t rank = static_cast<std::int64_t>(c->rank());
  const std::int64_t columns = rank < 1 ? 1 : c->dims().back();
  const std::int64_t rows = rank < 2 ? 1 : c->dims()[0];
  return data_of<std::int32_t>(*c)[(rows == 1 ? 0 : row) * columns + (columns == 1 ? 0 : column)];
}

Status check_c(const Tensor* c, std::int64_t rows, std::int64_t columns) {
  if (c == nullptr) return {};
  const auto fits = [&](std::size_t back, std::int64_t size) {
    return c->rank() < back || c->dims()[c->rank() - back] == 1 ||
           c->dims()[c->rank() - back] == size;
  };
  if (c->type() == DataType::kInt32 && c->rank() <= 2 && fits(1, columns) && fits(2, rows))
    return {};
  return fail(ErrorCode::kInvalidGraph, "C is {} {}", name_of(c->type()), to_string(c->dims()));
}

Status run_qgemm(KernelContext& context, const QGemmParams& p) {
  const Tensor* given = CTXGEN_TRY(required(context, 0));
  const Tensor* b = CTXGEN_TRY(required(context, 3));
  CTXGEN_CHECK(expect_rank(*given, "A", 2, 2));
  CTXGEN_CHECK(expect_rank(*b, "B", 2, 2));
  const Tensor a = CTXGEN_TRY(last_two_swapped(context, *given, p.trans_a));
  const auto qa = CTXGEN_TRY(quantization_of(context, 1, 2, 1));
  const auto qb = CTXGEN_TRY(quantization_of(context, 4, 5, b->dims()[p.trans_b ? 0 : 1]));
  const ByteColumns columns{b, &qb, p.trans_b};
  const std::int64_t m = a.dims()[0], n = columns.columns();
  if (a.dims()[1] != columns.depth())
    return fail(ErrorCode::kInvalidGraph, "A is {}, B {}", to_string(given->dims()),
                to_string(b->dims()));
  const Tensor* c = optional_input(context, 6);
  CTXGEN_CHECK(check_c(c, m, n));
  const Tensor* zero = optional_input(context, 8);
  const auto qy = CTXGEN_TRY(quantization_of(context, 7, 8, 1));
  const auto steps = CTXGEN_TRY(centred_floats(a, qa.zero(0)));
  const auto multiply_into = [&](const auto& put) {
    return multiply_columns(
        steps, m, columns, [&](std::int64_t row, std::int64_t column, double sum) {
          const double scale = double{p.alpha} * double{qa.scale(0)} * double{qb.scale(column)};
          put(row * n + column, (sum + c_at(c, row, column)) * scale);
        });
  };
  if (zero == nullptr) {
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, {m, n}));
    return multiply_into([to = mutable_data_of<float>(*output)](std::int64_t i, double real) {
      to[i] = static_cast<float>(real);
    });
  }
  return dispatch(ByteTypes{}, zero->type(), [&]<class T>() -> Status {
    Tensor* output = CTXGEN_TRY(context.make_output(0, kElementTypeOf<T>, {m, n}));
    T* to = mutable_data_of<T>(*output);
    return multiply_into([&](std::int64_t i, double real) {
      to[i] = requantized<T>(static_cast<float>(real / double{qy.scale(0)}), qy.zero(0));
    });
  });
}

KernelResult make_qgemm(const Node& node) {
  const QGemmParams params{.trans_a = node.int_or("transA", 0) != 0,
                           .trans_b = node.int_or("transB", 0) != 0,
                           .alpha = node.float_or("alpha", 1.0f)};
  return kernel([params](KernelContext& context) { return run_qgemm(context, params); });
}

// ---- QLinearConcat ----

// Output scale and zero point, then tensor, scale and zero point of each input.
template <class T>
Status concat_bytes(KernelContext& context, std::size_t axis, const Dims& dims) {
  const auto qy = CTXGEN_TRY(quantization_of(context, 0, 1, 1));
  Tensor* output = CTXGEN_TRY(context.make_output(0, kElementTypeOf<T>, dims));
  const AxisSplit whole = split_at(dims, axis);
  std::int64_t start = 0;
  for (std::size_t i = 2; i + 2 < context.input_count(); i += 3) {
    const Tensor& part = *context.input(i);
    const auto q = CTXGEN_TRY(quantization_of(context, i + 1, i + 2, 1));
    const auto values = CTXGEN_TRY(bytes_as_ints(part));
    const std::int64_t line = part.dims()[axis] * whole.inner;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      const float x = static_cast<float>(values[k] - q.zero(0)) * q.scale(0);
      mutable_data_of<T>(*output)[at / line * whole.extent * whole.inner + start + at % line] =
          requantized<T>(x / qy.scale(0), qy.zero(0));
    }
    start += line;
  }
  return {};
}

KernelResult make_qlinear_concat(const Node& node) {
  return kernel([axis_number = node.int_or("axis", 0)](KernelContext& context) -> Status {
    const Tensor* y_zero = CTXGEN_TRY(required(context, 1));
    const Tensor* first = CTXGEN_TRY(required(context, 2));
    if (context.input_count() % 3 != 2)
      return fail(ErrorCode::kInvalidGraph, "{} inputs", context.input_count());
    const std::size_t axis = CTXGEN_TRY(normalize_axis(axis_number, first->rank()));
    Dims dims = first->dims();
    for (std::size_t i = 5; i < context.input_count(); i += 3) {
      const Tensor* part = CTXGEN_TRY(required(context, i, first->type()));
      Dims expected = first->dims();
      if (part->rank() == expected.size()) expected[axis] = part->dims()[axis];
      CTXGEN_CHECK(expect_dims(*part, "an input", expected));
      dims[axis] += part->dims()[axis];
    }
    return dispatch(ByteTypes{}, y_zero->type(),
                    [&]<class T>() { return concat_bytes<T>(context, axis, dims); });
  });
}

constexpr OpRow kContribMatmulRows[] = {
    {kMicrosoft, "DynamicQuantizeMatMul", 1, 1, make_dynamic_matmul, "float; B int8 or uint8"},
    {kMicrosoft, "FusedMatMul", 1, 1, make_fused_matmul, "floats; no transposed batch"},
    {kMicrosoft, "MatMulIntegerToFloat", 1, 1, make_integer_to_float, "int8, uint8; output float"},
    {kMicrosoft, "MatMulNBits", 1, 1, make_matmul_nbits,
     "float, float16, bfloat16; 2, 4 or 8 bits; no g_idx"},
    {kMicrosoft, "QGemm", 1, 1, make_qgemm, "int8, uint8; output int8, uint8 or float"},
    {kMicrosoft, "QLinearConcat", 1, 1, make_qlinear_concat, "int8, uint8"},
};

}  // namespace

constinit const std::span<const OpRow> kContribMatmulOps = kContribMatmulRows;

}  // namespace ctxgen::cpu
