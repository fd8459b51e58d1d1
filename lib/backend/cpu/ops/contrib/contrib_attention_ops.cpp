#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention_bias.h"
#include "byte_products.h"
#include "families.h"
#include "kernel/attributes.h"
#include "kernel/inputs_context.h"
#include "kernel/widen.h"
#include "numbers/gemm.h"
#include "ops/nn/attention_head.h"

namespace ctxgen::cpu {

Result<BiasReader> bias_reader(const Tensor* bias, std::int64_t batch, std::int64_t heads,
                               std::int64_t rows, std::int64_t columns) {
  if (bias == nullptr) return BiasReader();
  const Dims& d = bias->dims();
  if (bias->type() != DataType::kFloat || d.size() != 4 || (d[0] != 1 && d[0] != batch) ||
      (d[1] != 1 && d[1] != heads) || d[2] != rows || d[3] < columns)
    return fail(ErrorCode::kInvalidGraph, "the attention bias is {} {}", name_of(bias->type()),
                to_string(d));
  return BiasReader(*bias);
}

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// ---- Attention ----

struct AttentionParams {
  std::int64_t heads = 0;
  std::vector<std::int64_t> hidden_sizes;  // of q, k, v
  double mask_value = -10000, scale = 0;   // scale 0: 1 / sqrt(head size)
  bool causal = false;
};

struct AttentionSizes {
  std::int64_t batch, sequence, past, total, qk_hidden, v_hidden, head, v_head;
};

/// Of inputs in the order of Attention, whatever the types of the first two.
Result<AttentionSizes> attention_sizes(const KernelContext& context,
                                       const AttentionParams& params) {
  const Tensor* x = CTXGEN_TRY(required(context, 0));
  const Tensor* w = CTXGEN_TRY(required(context, 1));
  const Tensor* past = optional_input(context, 4);
  CTXGEN_CHECK(expect_rank(*x, "input", 3, 3));
  CTXGEN_CHECK(expect_rank(*w, "weights", 2, 2));
  AttentionSizes sizes{.batch = x->dims()[0],
                       .sequence = x->dims()[1],
                       .past = 0,
                       .total = 0,
                       .qk_hidden = w->dims()[1] / 3,
                       .v_hidden = w->dims()[1] / 3,
                       .head = 0,
                       .v_head = 0};
  if (params.hidden_sizes.size() == 3) {
    sizes.qk_hidden = params.hidden_sizes[0];
    sizes.v_hidden = params.hidden_sizes[2];
  }
  const std::int64_t columns = w->dims()[1];
  if (w->dims()[0] != x->dims()[2] || sizes.qk_hidden < 1 || sizes.qk_hidden > columns ||
      sizes.v_hidden < 1 || sizes.v_hidden > columns ||
      columns != 2 * sizes.qk_hidden + sizes.v_hidden || params.heads < 1 ||
      sizes.qk_hidden % params.heads != 0 || sizes.v_hidden % params.heads != 0 ||
      (params.hidden_sizes.size() == 3 && params.hidden_sizes[1] != sizes.qk_hidden))
    return fail(ErrorCode::kInvalidGraph, "weights {} do not fit input {} and {} heads",
                to_string(w->dims()), to_string(x->dims()), params.heads);
  sizes.head = sizes.qk_hidden / params.heads;
  sizes.v_head = sizes.v_hidden / params.heads;
  if (const Tensor* bias = optional_input(context, 2)) {
    if (bias->type() != DataType::kFloat)
      return fail(ErrorCode::kInvalidGraph, "bias is {}", name_of(bias->type()));
    CTXGEN_CHECK(expect_dims(*bias, "bias", {columns}));
  }
  if (context.output_wanted(1) && sizes.head != sizes.v_head)
    return fail(ErrorCode::kUnsupported, "present of heads of {} and {}", sizes.head, sizes.v_head);
  if (past != nullptr) {
    CTXGEN_CHECK(expect_rank(*past, "past", 5, 5));
    sizes.past = past->dims()[3];
    CTXGEN_CHECK(
        expect_dims(*past, "past", {2, sizes.batch, params.heads, sizes.past, sizes.head}));
    if (past->type() != DataType::kFloat || sizes.head != sizes.v_head)
      return fail(ErrorCode::kUnsupported, "past of another type or head size");
  }
  sizes.total = sizes.past + sizes.sequence;
  return sizes;
}

// input x weights + bias: rows of q, k and v side by side.
ScratchVector<float> project(const KernelContext& context) {
  const Tensor& x = *context.input(0);
  const Tensor& w = *context.input(1);
  const Tensor* bias = optional_input(context, 2);
  const std::int64_t columns = w.dims()[1];
  const std::int64_t depth = w.dims()[0];
  const std::int64_t rows = x.dims()[0] * x.dims()[1];
  ScratchVector<float> result(static_cast<std::size_t>(rows * columns));
  multiply<float>({rows, columns, depth}, {data_of<float>(x), depth, 1},
                  MatrixPacker<float>{{data_of<float>(w), columns, 1}, depth, columns},
                  [&](std::int64_t m, std::int64_t n, const double* sums, std::int64_t count) {
                    for (std::int64_t j = 0; j < count; ++j)
                      result[static_cast<std::size_t>(m * columns + n + j)] = static_cast<float>(
                          sums[j] + (bias == nullptr ? 0.0f : data_of<float>(*bias)[n + j]));
                  });
  return result;
}

// What the mask input adds, by its form: lengths [B], ends and starts [2B], or ones and zeros
// [B, T], [B, S, T], [B, 1, M, M]. [1, 1] and [B, 1] hide nothing, whatever they hold, unless T is 1:
// ONNX Runtime's fusions leave such masks (MASK_2D_DUMMY).
class Mask {
 public:
  static Result<Mask> of(const Tensor* tensor, const AttentionSizes& sizes, double value) {
    Mask mask(tensor, sizes, value);
    if (tensor == nullptr) return mask;
    if (tensor->type() != DataType::kInt32)
      return fail(ErrorCode::kUnsupported, "mask_index is {}", name_of(tensor->type()));
    const Dims& d = tensor->dims();
    const bool known =
        is_dummy(d, sizes) || (d.size() == 1 && (d[0] == sizes.batch || d[0] == 2 * sizes.batch)) ||
        d == Dims{sizes.batch, sizes.total} ||
        d == Dims{sizes.batch, sizes.sequence, sizes.total} ||
        (d.size() == 4 && d[0] == sizes.batch && d[1] == 1 && d[2] >= sizes.total && d[3] == d[2]);
    if (!known)
      return fail(ErrorCode::kUnsupported, "mask_index has shape {} for {} keys", to_string(d),
                  sizes.total);
    if (is_dummy(d, sizes)) mask.tensor_ = nullptr;
    return mask;
  }

  [[nodiscard]] double at(std::int64_t b, std::int64_t s, std::int64_t t) const {
    if (tensor_ == nullptr) return 0;
    const std::int32_t* data = data_of<std::int32_t>(*tensor_);
    const Dims& d = tensor_->dims();
    bool visible = true;
    if (d.size() == 1) {
      const std::int64_t start = d[0] == sizes_.batch ? 0 : data[sizes_.batch + b];
      visible = t >= start && t < data[b];
    } else if (d.size() == 2) {
      visible = data[b * sizes_.total + t] > 0;
    } else if (d.size() == 3) {
      visible = data[(b * sizes_.sequence + s) * sizes_.total + t] > 0;
    } else {
      visible = data[(b * d[2] + sizes_.past + s) * d[3] + t] > 0;
    }
    return visible ? 0 : value_;
  }

 private:
  static bool is_dummy(const Dims& d, const AttentionSizes& sizes) {
    return sizes.total != 1 && (d == Dims{1, 1} || d == Dims{sizes.batch, 1});
  }

  Mask(const Tensor* tensor, const AttentionSizes& sizes, double value)
      : tensor_(tensor), sizes_(sizes), value_(value) {}
  const Tensor* tensor_;
  AttentionSizes sizes_;
  double value_;
};

// keys and values of all heads: [2][B][N][T][h], past first.
void fill_present(const AttentionSizes& sizes, std::int64_t heads, const Tensor* past,
                  const ScratchVector<float>& qkv, float* keys, float* values) {
  const std::int64_t row = 2 * sizes.qk_hidden + sizes.v_hidden;
  for (std::int64_t i = 0; i < sizes.batch * heads; ++i) {
    const std::int64_t b = i / heads;
    const std::int64_t n = i % heads;
    for (int part = 0; part < 2; ++part) {
      const std::int64_t head = part == 0 ? sizes.head : sizes.v_head;
      float* to = (part == 0 ? keys : values) + i * sizes.total * head;
      if (past != nullptr) {
        const float* from =
            data_of<float>(*past) + (part * sizes.batch * heads + i) * sizes.past * head;
        to = std::copy_n(from, sizes.past * head, to);
      }
      const std::int64_t column = sizes.qk_hidden * (part + 1) + n * head;
      for (std::int64_t s = 0; s < sizes.sequence; ++s)
        to = std::copy_n(qkv.data() + (b * sizes.sequence + s) * row + column, head, to);
    }
  }
}

using Rows = Result<ScratchVector<float>>;

/// `rows` gives the rows of q, k and v, once the sizes have been checked.
Status run_attention(KernelContext& context, const AttentionParams& params,
                     FunctionRef<Rows()> rows) {
  const AttentionSizes sizes = CTXGEN_TRY(attention_sizes(context, params));
  const Mask mask = CTXGEN_TRY(Mask::of(optional_input(context, 3), sizes, params.mask_value));
  const auto bias = CTXGEN_TRY(bias_reader(optional_input(context, 5), sizes.batch, params.heads,
                                           sizes.sequence, sizes.total));
  const ScratchVector<float> qkv = CTXGEN_TRY(rows());
  const std::int64_t heads = sizes.batch * params.heads;
  ScratchVector<float> keys(static_cast<std::size_t>(heads * sizes.total * sizes.head));
  ScratchVector<float> values(static_cast<std::size_t>(heads * sizes.total * sizes.v_head));
  fill_present(sizes, params.heads, optional_input(context, 4), qkv, keys.data(), values.data());
  Tensor* output = CTXGEN_TRY(
      context.make_output(0, DataType::kFloat, {sizes.batch, sizes.sequence, sizes.v_hidden}));
  const AttendParams attend_params{
      .queries = sizes.sequence,
      .keys = sizes.total,
      .size = sizes.head,
      .value_size = sizes.v_head,
      .scale = params.scale != 0 ? params.scale : 1 / std::sqrt(static_cast<double>(sizes.head))};
  const std::int64_t row = 2 * sizes.qk_hidden + sizes.v_hidden;
  for (std::int64_t i = 0; i < heads; ++i) {
    const std::int64_t b = i / params.heads;
    const std::int64_t n = i % params.heads;
    const auto logit_bias = [&](std::int64_t s, std::int64_t t) {
      if (params.causal && t > sizes.past + s) return kHidden;
      return mask.at(b, s, t) + bias(b, n, s, t);
    };
    attend(attend_params, {qkv.data() + b * sizes.sequence * row + n * sizes.head, row},
           {keys.data() + i * sizes.total * sizes.head, sizes.head},
           {values.data() + i * sizes.total * sizes.v_head, sizes.v_head}, logit_bias,
           mutable_data_of<float>(*output) + b * sizes.sequence * sizes.v_hidden + n * sizes.v_head,
           sizes.v_hidden);
  }
  if (!context.output_wanted(1)) return {};
  Tensor* present = CTXGEN_TRY(context.make_output(
      1, DataType::kFloat, {2, sizes.batch, params.heads, sizes.total, sizes.head}));
  float* to = std::ranges::copy(keys, mutable_data_of<float>(*present)).out;
  std::ranges::copy(values, to);
  return {};
}

Result<AttentionParams> params_of(const Node& node) {
  for (std::string_view name : {"do_rotary", "past_present_share_buffer"})
    if (node.int_or(name, 0) != 0)
      return fail(ErrorCode::kUnsupported, "{}: attribute {}", node.describe(), name);
  return AttentionParams{.heads = node.int_or("num_heads", 0),
                         .hidden_sizes = ints_or(node, "qkv_hidden_sizes", {}),
                         .mask_value = node.float_or("mask_filter_value", -10000.0f),
                         .scale = node.float_or("scale", 0.0f),
                         .causal = node.int_or("unidirectional", 0) != 0};
}

KernelResult make_attention(const Node& node) {
  const AttentionParams params = CTXGEN_TRY(params_of(node));
  return widened_kernel([params](KernelContext& context) -> Status {
    for (const std::size_t i : {0, 1}) (void)CTXGEN_TRY(required(context, i, DataType::kFloat));
    return run_attention(context, params, [&]() -> Rows { return project(context); });
  });
}

// ---- QAttention: inputs x, weights, bias, their scales, mask, their zero points, past ----

Rows project_bytes(const KernelContext& context) {
  const Tensor& x = *context.input(0);
  const Tensor& w = *context.input(1);
  const Tensor* bias = optional_input(context, 2);
  const std::int64_t columns = w.dims()[1], rows = x.dims()[0] * x.dims()[1];
  const auto qx = CTXGEN_TRY(quantization_of(context, 3, 6, 1));
  const auto qw = CTXGEN_TRY(quantization_of(context, 4, 7, columns));
  const auto a = CTXGEN_TRY(centred_floats(x, qx.zero(0)));
  ScratchVector<float> result(static_cast<std::size_t>(rows * columns));
  CTXGEN_CHECK(
      multiply_columns(a, rows, {&w, &qw}, [&](std::int64_t row, std::int64_t column, double sum) {
        const double real = sum * double{qx.scale(0)} * double{qw.scale(column)};
        result[static_cast<std::size_t>(row * columns + column)] =
            static_cast<float>(real) + (bias == nullptr ? 0.0f : data_of<float>(*bias)[column]);
      }));
  return result;
}

KernelResult make_qattention(const Node& node) {
  const AttentionParams params = CTXGEN_TRY(params_of(node));
  return kernel([params](KernelContext& context) -> Status {
    const Tensor* x = CTXGEN_TRY(required(context, 0));
    const Tensor* w = CTXGEN_TRY(required(context, 1));
    InputsContext inputs(context, {x, w, optional_input(context, 2), optional_input(context, 5),
                                   optional_input(context, 8)});
    return run_attention(inputs, params, [&] { return project_bytes(context); });
  });
}

constexpr OpRow kContribAttentionRows[] = {
    {kMicrosoft, "Attention", 1, 1, make_attention, "floats; no rotary, no shared buffer"},
    {kMicrosoft, "QAttention", 1, 1, make_qattention, "int8, uint8; output float"},
};

}  // namespace

constinit const std::span<const OpRow> kContribAttentionOps = kContribAttentionRows;

}  // namespace ctxgen::cpu
