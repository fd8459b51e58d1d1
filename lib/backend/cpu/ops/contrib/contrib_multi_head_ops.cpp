#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib_families.h"
#include "kernel/attributes.h"
#include "kernel/widen.h"
#include "ops/nn/attention_head.h"

// com.microsoft: MultiHeadAttention and RotaryEmbedding.

namespace ctxgen::cpu {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct Params {
  std::int64_t heads = 0;
  double mask_value = -10000, scale = 0;  // scale 0: 1 / sqrt(head size)
  bool causal = false;
};

struct Sizes {
  std::int64_t batch = 0, queries = 0, past = 0, rows = 0;  // rows: new keys
  std::int64_t head = 0, v_head = 0;
  [[nodiscard]] std::int64_t keys() const { return past + rows; }
};

// Width of one head in [batch, rows, heads * size], or in [batch, heads, rows, size].
Result<std::int64_t> head_size(const Tensor& tensor, std::int64_t heads) {
  CTXGEN_CHECK(expect_rank(tensor, "query, key or value", 3, 4));
  if (tensor.rank() == 4 && tensor.dims()[1] == heads) return tensor.dims()[3];
  if (tensor.rank() == 3 && tensor.dims()[2] % heads == 0) return tensor.dims()[2] / heads;
  return fail(ErrorCode::kInvalidGraph, "{} does not fit {} heads", to_string(tensor.dims()),
              heads);
}

Result<Sizes> read_sizes(const KernelContext& context, const Params& params) {
  const Tensor* q = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  const Tensor* k = optional_input(context, 1);
  const Tensor* v = optional_input(context, 2);
  if (k == nullptr || v == nullptr || q->rank() != 3)
    return fail(ErrorCode::kUnsupported, "packed query, key and value");
  Sizes sizes{.batch = q->dims()[0], .queries = q->dims()[1]};
  sizes.head = CTXGEN_TRY(head_size(*q, params.heads));
  sizes.v_head = CTXGEN_TRY(head_size(*v, params.heads));
  const std::int64_t k_head = CTXGEN_TRY(head_size(*k, params.heads));
  sizes.rows = k->dims()[k->rank() - 2];
  if (k->rank() == 3) sizes.rows = k->dims()[1];
  if (k->type() != DataType::kFloat || v->type() != DataType::kFloat || k_head != sizes.head ||
      k->dims()[0] != sizes.batch || v->dims()[0] != sizes.batch || v->rank() != k->rank() ||
      v->dims()[v->rank() == 3 ? 1 : 2] != sizes.rows)
    return fail(ErrorCode::kInvalidGraph, "query {}, key {} and value {} do not fit together",
                to_string(q->dims()), to_string(k->dims()), to_string(v->dims()));
  const Tensor* past_key = optional_input(context, 6);
  const Tensor* past_value = optional_input(context, 7);
  if ((past_key == nullptr) != (past_value == nullptr))
    return fail(ErrorCode::kInvalidGraph, "past_key and past_value go together");
  if (past_key == nullptr) return sizes;
  if (past_key->type() != DataType::kFloat || past_value->type() != DataType::kFloat)
    return fail(ErrorCode::kInvalidGraph, "past_key is {}", name_of(past_key->type()));
  CTXGEN_CHECK(expect_rank(*past_key, "past_key", 4, 4));
  sizes.past = past_key->dims()[2];
  CTXGEN_CHECK(
      expect_dims(*past_key, "past_key", {sizes.batch, params.heads, sizes.past, sizes.head}));
  CTXGEN_CHECK(expect_dims(*past_value, "past_value",
                           {sizes.batch, params.heads, sizes.past, sizes.v_head}));
  return sizes;
}

/// A tensor of heads brought into [batch, heads, past + rows, size], with its part of the bias.
struct Source {
  const Tensor* tensor = nullptr;
  const Tensor* past = nullptr;
  const float* bias = nullptr;
  std::int64_t heads = 0, size = 0;
};

void gather_heads(const Source& source, float* to) {
  const Dims& d = source.tensor->dims();
  const bool flat = d.size() == 3;
  const std::int64_t rows = flat ? d[1] : d[2];
  const std::int64_t past = source.past == nullptr ? 0 : source.past->dims()[2];
  for (std::int64_t i = 0; i < d[0] * source.heads; ++i) {
    const std::int64_t b = i / source.heads;
    const std::int64_t h = i % source.heads;
    if (source.past != nullptr)
      to = std::copy_n(data_of<float>(*source.past) + i * past * source.size, past * source.size,
                       to);
    for (std::int64_t s = 0; s < rows; ++s) {
      const std::int64_t at =
          flat ? ((b * rows + s) * source.heads + h) * source.size : (i * rows + s) * source.size;
      const float* from = data_of<float>(*source.tensor) + at;
      for (std::int64_t c = 0; c < source.size; ++c)
        *to++ = from[c] + (source.bias == nullptr ? 0.0f : source.bias[h * source.size + c]);
    }
  }
}

// Keys or values with their past: output `index` if that is wanted, else memory of `own`.
Result<const float*> present(KernelContext& context, std::size_t index, const Source& source,
                             const Sizes& sizes, Tensor& own) {
  const Dims dims{sizes.batch, source.heads, sizes.keys(), source.size};
  Tensor* target = &own;
  if (context.output_wanted(index))
    target = CTXGEN_TRY(context.make_output(index, DataType::kFloat, dims));
  else
    own = CTXGEN_TRY(context.make_tensor(DataType::kFloat, dims));
  gather_heads(source, mutable_data_of<float>(*target));
  return data_of<float>(*target);
}

/// key_padding_mask: lengths [B], or ones and zeros [B, T] or [B, S, T].
struct PaddingMask {
  const std::int32_t* data = nullptr;
  std::size_t rank = 0;
  [[nodiscard]] bool visible(const Sizes& sizes, std::int64_t b, std::int64_t s,
                             std::int64_t t) const {
    if (data == nullptr) return true;
    if (rank == 1) return t < data[b];
    return data[(rank == 2 ? b : b * sizes.queries + s) * sizes.keys() + t] > 0;
  }
};

Result<PaddingMask> read_mask(const KernelContext& context, const Sizes& sizes) {
  const Tensor* mask = optional_input(context, 4);
  if (mask == nullptr) return PaddingMask{};
  const Dims& d = mask->dims();
  if (mask->type() == DataType::kInt32 &&
      (d == Dims{sizes.batch} || d == Dims{sizes.batch, sizes.keys()} ||
       d == Dims{sizes.batch, sizes.queries, sizes.keys()}))
    return PaddingMask{data_of<std::int32_t>(*mask), d.size()};
  return fail(ErrorCode::kUnsupported, "key_padding_mask is {} {} for {} keys",
              name_of(mask->type()), to_string(d), sizes.keys());
}

/// attention_bias, which broadcasts over batch and heads.
struct Addend {
  const float* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  [[nodiscard]] double at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t t) const {
    return data == nullptr ? 0.0 : data[b * batch_stride + h * head_stride + s * row_stride + t];
  }
};

Result<Addend> read_addend(const KernelContext& context, const Sizes& sizes, std::int64_t heads) {
  const Tensor* bias = optional_input(context, 5);
  if (bias == nullptr) return Addend{};
  const Dims& d = bias->dims();
  if (bias->type() != DataType::kFloat || d.size() != 4 || (d[0] != 1 && d[0] != sizes.batch) ||
      (d[1] != 1 && d[1] != heads) || d[2] != sizes.queries || d[3] != sizes.keys())
    return fail(ErrorCode::kInvalidGraph, "attention_bias is {} {}", name_of(bias->type()),
                to_string(d));
  const std::int64_t plane = d[2] * d[3];
  return Addend{data_of<float>(*bias), d[0] == 1 ? 0 : d[1] * plane, d[1] == 1 ? 0 : plane, d[3]};
}

Status run_multi_head(KernelContext& context, const Params& params) {
  const Sizes sizes = CTXGEN_TRY(read_sizes(context, params));
  const PaddingMask mask = CTXGEN_TRY(read_mask(context, sizes));
  const Addend addend = CTXGEN_TRY(read_addend(context, sizes, params.heads));
  const std::int64_t width = params.heads * sizes.head;
  const std::int64_t v_width = params.heads * sizes.v_head;
  const float* bias = nullptr;
  if (const Tensor* tensor = optional_input(context, 3)) {
    CTXGEN_CHECK(expect_dims(*tensor, "bias", {2 * width + v_width}));
    bias = data_of<float>(*CTXGEN_TRY(required(context, 3, DataType::kFloat)));
  }
  const auto part = [bias](std::int64_t offset) {
    return bias == nullptr ? nullptr : bias + offset;
  };
  Tensor* output =
      CTXGEN_TRY(context.make_output(0, DataType::kFloat, {sizes.batch, sizes.queries, v_width}));
  Tensor own_q, own_k, own_v;
  own_q = CTXGEN_TRY(context.make_tensor(DataType::kFloat,
                                         {sizes.batch, params.heads, sizes.queries, sizes.head}));
  gather_heads({context.input(0), nullptr, part(0), params.heads, sizes.head},
               mutable_data_of<float>(own_q));
  const float* keys = CTXGEN_TRY(
      present(context, 1,
              {context.input(1), optional_input(context, 6), part(width), params.heads, sizes.head},
              sizes, own_k));
  const float* values = CTXGEN_TRY(present(
      context, 2,
      {context.input(2), optional_input(context, 7), part(2 * width), params.heads, sizes.v_head},
      sizes, own_v));
  const AttendParams attend_params{
      .queries = sizes.queries,
      .keys = sizes.keys(),
      .size = sizes.head,
      .value_size = sizes.v_head,
      .scale = params.scale != 0 ? params.scale : 1 / std::sqrt(static_cast<double>(sizes.head))};
  for (std::int64_t i = 0; i < sizes.batch * params.heads; ++i) {
    const std::int64_t b = i / params.heads;
    const std::int64_t h = i % params.heads;
    const auto logit_bias = [&](std::int64_t s, std::int64_t t) {
      if (params.causal && t > sizes.past + s) return kHidden;
      return addend.at(b, h, s, t) + (mask.visible(sizes, b, s, t) ? 0.0 : params.mask_value);
    };
    attend(attend_params, {data_of<float>(own_q) + i * sizes.queries * sizes.head, sizes.head},
           {keys + i * sizes.keys() * sizes.head, sizes.head},
           {values + i * sizes.keys() * sizes.v_head, sizes.v_head}, logit_bias,
           mutable_data_of<float>(*output) + b * sizes.queries * v_width + h * sizes.v_head,
           v_width);
  }
  return {};
}

KernelResult make_multi_head(const Node& node) {
  const Params params{.heads = node.int_or("num_heads", 0),
                      .mask_value = node.float_or("mask_filter_value", -10000.0f),
                      .scale = node.float_or("scale", 0.0f),
                      .causal = node.int_or("unidirectional", 0) != 0};
  if (params.heads < 1 || params.heads > (1 << 20))
    return fail(ErrorCode::kInvalidGraph, "{}: {} heads", node.describe(), params.heads);
  for (std::size_t i = 8; i < node.inputs.size(); ++i)
    if (node.inputs[i].valid())
      return fail(ErrorCode::kUnsupported, "{}: input {}", node.describe(), i);
  if (node.output(3).valid()) return fail(ErrorCode::kUnsupported, "{}: output 3", node.describe());
  return widened_kernel(
      [params](KernelContext& context) { return run_multi_head(context, params); });
}

// ---- RotaryEmbedding ----

struct RotaryParams {
  std::int64_t heads = 0, dim = 0;  // 0: as the cache has it
  bool interleaved = false;
};

struct RotaryShape {
  std::int64_t batch = 0, rows = 0, heads = 0, size = 0, half = 0;
  bool flat = true;
};

Result<RotaryShape> rotary_shape(const KernelContext& context, const RotaryParams& params) {
  const Tensor* x = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  const Tensor* cos = CTXGEN_TRY(required(context, 2, DataType::kFloat));
  const Tensor* sin = CTXGEN_TRY(required(context, 3, DataType::kFloat));
  CTXGEN_CHECK(expect_rank(*x, "input", 3, 4));
  CTXGEN_CHECK(expect_rank(*cos, "cos_cache", 2, 2));
  CTXGEN_CHECK(expect_dims(*sin, "sin_cache", cos->dims()));
  const Dims& d = x->dims();
  RotaryShape shape{.batch = d[0], .half = cos->dims()[1], .flat = d.size() == 3};
  if (shape.flat) {
    shape.rows = d[1];
    if (params.heads > 0)
      shape.size = d[2] % params.heads == 0 ? d[2] / params.heads : 0;
    else
      shape.size = 2 * shape.half;
    shape.heads = shape.size > 0 && d[2] % shape.size == 0 ? d[2] / shape.size : 0;
  } else {
    shape.heads = d[1];
    shape.rows = d[2];
    shape.size = d[3];
  }
  if (shape.heads < 1 || 2 * shape.half > shape.size ||
      (params.dim != 0 && params.dim != 2 * shape.half))
    return fail(ErrorCode::kInvalidGraph, "input {} and cos_cache {} do not fit", to_string(d),
                to_string(cos->dims()));
  return shape;
}

// One first position for all, or a position per row.
Result<ScratchVector<std::int64_t>> rotary_positions(const KernelContext& context,
                                                     const RotaryShape& shape) {
  const Tensor* tensor = CTXGEN_TRY(required(context, 1, DataType::kInt64));
  const auto given = CTXGEN_TRY(ints_of(*tensor));
  ScratchVector<std::int64_t> positions;
  const std::int64_t count = shape.batch * shape.rows;
  const bool first_only = tensor->rank() < 2 && given.size() == 1;
  if (!first_only) CTXGEN_CHECK(expect_dims(*tensor, "position_ids", {shape.batch, shape.rows}));
  const std::int64_t limit = context.input(2)->dims()[0];
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t position = first_only ? given[0] : given[static_cast<std::size_t>(i)];
    if (position >= 0 && position < limit && first_only) position += i % shape.rows;
    if (position < 0 || position >= limit)
      return fail(ErrorCode::kInvalidGraph, "position {} is outside of a cache of {}", position,
                  limit);
    positions.push_back(position);
  }
  return positions;
}

Status run_rotary(KernelContext& context, const RotaryParams& params) {
  const RotaryShape shape = CTXGEN_TRY(rotary_shape(context, params));
  const auto positions = CTXGEN_TRY(rotary_positions(context, shape));
  const Tensor& x = *context.input(0);
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, x.dims()));
  copy_elements(x, 0, *output, 0, x.element_count());
  for (std::int64_t r = 0; r < shape.batch * shape.rows; ++r)
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t b = r / shape.rows;
      const std::int64_t head =
          shape.flat ? r * shape.heads + h : (b * shape.heads + h) * shape.rows + r % shape.rows;
      const std::int64_t at = positions[static_cast<std::size_t>(r)] * shape.half;
      rotate(mutable_data_of<float>(*output) + head * shape.size,
             data_of<float>(*context.input(2)) + at, data_of<float>(*context.input(3)) + at,
             shape.half, params.interleaved);
    }
  return {};
}

KernelResult make_rotary(const Node& node) {
  const RotaryParams params{.heads = node.int_or("num_heads", 0),
                            .dim = node.int_or("rotary_embedding_dim", 0),
                            .interleaved = node.int_or("interleaved", 0) != 0};
  if (node.int_or("is_packed_batching", 0) != 0 || node.float_or("scale", 1.0f) != 1.0f)
    return fail(ErrorCode::kUnsupported, "{}: packed batches or a scale", node.describe());
  return widened_kernel([params](KernelContext& context) { return run_rotary(context, params); });
}

constexpr OpRow kContribMultiHeadRows[] = {
    {kMicrosoft, "MultiHeadAttention", 1, 1, make_multi_head,
     "float, float16, bfloat16; key and value not packed; no beam search inputs"},
    {kMicrosoft, "RotaryEmbedding", 1, 1, make_rotary,
     "float, float16, bfloat16; no packed batches, no scale"},
};

}  // namespace

constinit const std::span<const OpRow> kContribMultiHeadOps = kContribMultiHeadRows;

}  // namespace ctxgen::cpu
