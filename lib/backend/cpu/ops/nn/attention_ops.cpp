#include <algorithm>
#include <cmath>
#include <limits>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/widen.h"
#include "ops/nn/attention_head.h"

// Attention of the default domain. com.microsoft has its own in contrib_attention_ops.cpp.

namespace ctxgen::cpu {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct Params {
  std::int64_t opset = 0;
  std::int64_t query_heads = 0, key_heads = 0;  // needed for inputs of rank 3 only
  double scale = 0, softcap = 0;                // scale 0: 1 / sqrt(head size)
  bool causal = false;
  LogitStage observed = LogitStage::kProduct;  // of output 3
};

/// One of Q, K, V: [batch, heads, rows, size], or flat [batch, rows, heads * size].
struct Heads {
  const Tensor* tensor = nullptr;
  bool flat = false;
  std::int64_t batch = 0, heads = 0, rows = 0, size = 0;

  template <class E>
  [[nodiscard]] RowsOf<E> of(std::int64_t b, std::int64_t h) const {
    if (flat) return {data_of<E>(*tensor) + b * rows * heads * size + h * size, heads * size};
    return {data_of<E>(*tensor) + (b * heads + h) * rows * size, size};
  }
};

Result<Heads> heads_of(const KernelContext& context, std::size_t index, std::int64_t heads) {
  const Tensor* tensor = CTXGEN_TRY(required(context, index));
  CTXGEN_CHECK(same_type(*context.input(0), *tensor));
  CTXGEN_CHECK(expect_rank(*tensor, "Q, K or V", 3, 4));
  const Dims& d = tensor->dims();
  if (d.size() == 4 && (heads == 0 || heads == d[1]) && d[1] > 0)
    return Heads{tensor, false, d[0], d[1], d[2], d[3]};
  if (d.size() == 3 && heads > 0 && heads <= std::max<std::int64_t>(d[2], 1) && d[2] % heads == 0)
    return Heads{tensor, true, d[0], heads, d[1], d[2] / heads};
  return fail(ErrorCode::kInvalidGraph, "input {} is {} with {} heads", index, to_string(d), heads);
}

/// attn_mask as addends, broadcast over [batch, heads, queries, keys].
class Mask {
 public:
  static Result<Mask> of(const Tensor* tensor, const Dims& full, std::int64_t opset) {
    Mask mask;
    if (tensor == nullptr) return mask;
    CTXGEN_CHECK(expect_rank(*tensor, "attn_mask", 1, 4));
    const Dims& d = tensor->dims();
    Dims dims(4, 1);
    for (std::size_t i = 0; i < d.size(); ++i) dims[4 - d.size() + i] = d[i];
    // From 24 on a shorter last dimension hides the keys beyond it.
    const bool pads = opset >= 24 && dims[3] <= full[3];
    for (std::size_t i = 0; i < 4; ++i)
      if (dims[i] != 1 && dims[i] != full[i] && !(i == 3 && pads))
        return fail(ErrorCode::kInvalidGraph, "attn_mask {} does not broadcast to {}", to_string(d),
                    to_string(full));
    const Dims strides = strides_of(dims);
    for (std::size_t i = 0; i < 4; ++i)
      mask.strides_[i] = dims[i] == 1 && !(i == 3 && pads) ? 0 : strides[i];
    mask.columns_ = pads ? dims[3] : full[3];
    CTXGEN_CHECK(dispatch(NumericAndBoolTypes{}, tensor->type(), [&]<class T>() -> Status {
      const T* from = data_of<T>(*tensor);
      mask.addends_.resize(static_cast<std::size_t>(tensor->element_count()));
      for (std::size_t i = 0; i < mask.addends_.size(); ++i) {
        if constexpr (std::is_same_v<T, Bit>)
          mask.addends_[i] = load(from[i]) ? 0.0 : kHidden;
        else
          mask.addends_[i] = static_cast<double>(load(from[i]));
      }
      return {};
    }));
    return mask;
  }
  [[nodiscard]] double at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t t) const {
    if (t >= columns_) return kHidden;
    if (addends_.empty()) return 0;
    return addends_[static_cast<std::size_t>(b * strides_[0] + h * strides_[1] + s * strides_[2] +
                                             t * strides_[3])];
  }

 private:
  ScratchVector<double> addends_;
  std::array<std::int64_t, 4> strides_{};
  std::int64_t columns_ = INT64_MAX;
};

struct Inputs {
  Heads q, k, v;
  const Tensor *past_key = nullptr, *past_value = nullptr, *lengths = nullptr;
  std::int64_t past = 0;
  [[nodiscard]] std::int64_t keys() const { return past + k.rows; }
};

Status check_past(Inputs& in) {
  if ((in.past_key == nullptr) != (in.past_value == nullptr))
    return fail(ErrorCode::kInvalidGraph, "past_key and past_value go together");
  if (in.past_key == nullptr) return {};
  if (in.lengths != nullptr)
    return fail(ErrorCode::kInvalidGraph, "nonpad_kv_seqlen cannot be combined with past_key");
  CTXGEN_CHECK(same_type(*in.q.tensor, *in.past_key));
  CTXGEN_CHECK(same_type(*in.q.tensor, *in.past_value));
  CTXGEN_CHECK(expect_rank(*in.past_key, "past_key", 4, 4));
  in.past = in.past_key->dims()[2];
  CTXGEN_CHECK(expect_dims(*in.past_key, "past_key", {in.k.batch, in.k.heads, in.past, in.k.size}));
  return expect_dims(*in.past_value, "past_value", {in.v.batch, in.v.heads, in.past, in.v.size});
}

Result<Inputs> read_inputs(const KernelContext& context, const Params& params) {
  Inputs in;
  (void)CTXGEN_TRY(required(context, 0));
  in.q = CTXGEN_TRY(heads_of(context, 0, params.query_heads));
  in.k = CTXGEN_TRY(heads_of(context, 1, params.key_heads));
  in.v = CTXGEN_TRY(heads_of(context, 2, params.key_heads));
  if (in.k.batch != in.q.batch || in.v.batch != in.q.batch || in.k.heads != in.v.heads ||
      in.k.rows != in.v.rows || in.k.size != in.q.size || in.q.size == 0 || in.v.size == 0 ||
      in.q.heads % in.k.heads != 0 || in.k.flat != in.q.flat || in.v.flat != in.q.flat)
    return fail(ErrorCode::kInvalidGraph, "Q {}, K {} and V {} do not fit together",
                to_string(in.q.tensor->dims()), to_string(in.k.tensor->dims()),
                to_string(in.v.tensor->dims()));
  in.past_key = optional_input(context, 4);
  in.past_value = optional_input(context, 5);
  in.lengths = optional_input(context, 6);
  CTXGEN_CHECK(check_past(in));
  if (in.lengths != nullptr) {
    if (in.lengths->type() != DataType::kInt64)
      return fail(ErrorCode::kInvalidGraph, "nonpad_kv_seqlen is {}", name_of(in.lengths->type()));
    CTXGEN_CHECK(expect_dims(*in.lengths, "nonpad_kv_seqlen", {in.q.batch}));
  }
  return in;
}

// [batch, heads, past + rows, size]: the past, then the new rows.
template <class E>
void join_past(const Heads& heads, const Tensor* past, std::int64_t past_rows, E* to) {
  for (std::int64_t i = 0; i < heads.batch * heads.heads; ++i) {
    if (past != nullptr)
      to = std::copy_n(data_of<E>(*past) + i * past_rows * heads.size, past_rows * heads.size, to);
    const RowsOf<E> rows = heads.of<E>(i / heads.heads, i % heads.heads);
    for (std::int64_t s = 0; s < heads.rows; ++s)
      to = std::copy_n(rows.data + s * rows.stride, heads.size, to);
  }
}

// K or V with its past, in output `index` if that is wanted.
template <class E>
Result<Heads> present_of(KernelContext& context, std::size_t index, const Heads& heads,
                         const Tensor* past, std::int64_t past_rows, Tensor& own) {
  const bool wanted = context.output_wanted(index);
  if (!wanted && past == nullptr) return heads;
  const Dims dims{heads.batch, heads.heads, past_rows + heads.rows, heads.size};
  Tensor* present = &own;
  if (wanted)
    present = CTXGEN_TRY(context.make_output(index, kElementTypeOf<E>, dims));
  else
    own = CTXGEN_TRY(context.make_tensor(kElementTypeOf<E>, dims));
  join_past<E>(heads, past, past_rows, mutable_data_of<E>(*present));
  return Heads{present, false, dims[0], dims[1], dims[2], dims[3]};
}

template <class E>
Status run_attention(KernelContext& context, const Params& params) {
  const Inputs in = CTXGEN_TRY(read_inputs(context, params));
  const Heads& q = in.q;
  const Dims full{q.batch, q.heads, q.rows, in.keys()};
  const Mask mask = CTXGEN_TRY(Mask::of(optional_input(context, 3), full, params.opset));
  const bool flat = q.flat;
  const Dims out_dims =
      flat ? Dims{q.batch, q.rows, q.heads * in.v.size} : Dims{q.batch, q.heads, q.rows, in.v.size};
  Tensor* output = CTXGEN_TRY(context.make_output(0, kElementTypeOf<E>, out_dims));
  Tensor own_keys, own_values;
  const Heads keys = CTXGEN_TRY(present_of<E>(context, 1, in.k, in.past_key, in.past, own_keys));
  const Heads values =
      CTXGEN_TRY(present_of<E>(context, 2, in.v, in.past_value, in.past, own_values));
  E* observed = nullptr;
  if (context.output_wanted(3)) {
    Tensor* logits = CTXGEN_TRY(context.make_output(3, kElementTypeOf<E>, full));
    observed = mutable_data_of<E>(*logits);
  }
  const AttendParams attend_params{
      .queries = q.rows,
      .keys = in.keys(),
      .size = q.size,
      .value_size = in.v.size,
      .scale = params.scale != 0 ? params.scale : 1 / std::sqrt(static_cast<double>(q.size)),
      .softcap = params.softcap,
      .cap_bias = true,
      .observed = params.observed};
  for (std::int64_t i = 0; i < q.batch * q.heads; ++i) {
    const std::int64_t b = i / q.heads;
    const std::int64_t h = i % q.heads;
    const std::int64_t length =
        in.lengths == nullptr ? in.keys() : data_of<std::int64_t>(*in.lengths)[b];
    const auto bias = [&](std::int64_t s, std::int64_t t) {
      if (t >= length || (params.causal && t > in.past + s)) return kHidden;
      return mask.at(b, h, s, t);
    };
    const auto keep = [&](std::int64_t s, std::span<const double> logits) {
      std::ranges::transform(logits, observed + (i * q.rows + s) * in.keys(),
                             [](double x) { return static_cast<E>(x); });
    };
    const LogitObserver observe(keep);
    const std::int64_t kv = h / (q.heads / keys.heads);
    E* out = mutable_data_of<E>(*output) +
             (flat ? (b * q.rows * q.heads + h) * in.v.size : i * q.rows * in.v.size);
    attend(attend_params, q.of<E>(b, h), keys.of<E>(b, kv), values.of<E>(b, kv), bias, out,
           flat ? q.heads * in.v.size : in.v.size, observed != nullptr ? &observe : nullptr);
  }
  return {};
}

KernelResult make_attention(const Node& node) {
  const std::int64_t mode = node.int_or("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return fail(ErrorCode::kInvalidGraph, "{}: qk_matmul_output_mode is {}", node.describe(), mode);
  // softmax_precision asks for a precision at least; all is computed in double.
  const Params params{.opset = node.opset,
                      .query_heads = node.int_or("q_num_heads", 0),
                      .key_heads = node.int_or("kv_num_heads", 0),
                      .scale = node.float_or("scale", 0.0f),
                      .softcap = node.float_or("softcap", 0.0f),
                      .causal = node.int_or("is_causal", 0) != 0,
                      .observed = static_cast<LogitStage>(mode)};
  return widened_kernel([params](KernelContext& context) -> Status {
    const Tensor* query = CTXGEN_TRY(required(context, 0));
    return dispatch(FloatTypes{}, query->type(),
                    [&]<class E>() { return run_attention<E>(context, params); });
  });
}

// ---- RotaryEmbedding ----

struct RotaryParams {
  std::int64_t heads = 0, dim = 0;  // 0: of the input; the whole head
  bool interleaved = false;
};

// Where the pairs of cos and sin of (batch, row) are.
Result<std::int64_t> cache_row(const Tensor& cos, const Tensor* positions, std::int64_t b,
                               std::int64_t s, std::int64_t rows) {
  if (positions == nullptr) return b * rows + s;
  const std::int64_t position = data_of<std::int64_t>(*positions)[b * rows + s];
  if (position < 0 || position >= cos.dims()[0])
    return fail(ErrorCode::kInvalidGraph, "position {} is outside of cos_cache {}", position,
                to_string(cos.dims()));
  return position;
}

Status check_caches(const KernelContext& context, const Heads& x, std::int64_t half) {
  const Tensor* cos = CTXGEN_TRY(required(context, 1, DataType::kFloat));
  const Tensor* sin = CTXGEN_TRY(required(context, 2, DataType::kFloat));
  CTXGEN_CHECK(expect_dims(*sin, "sin_cache", cos->dims()));
  const Tensor* positions = optional_input(context, 3);
  if (positions == nullptr) return expect_dims(*cos, "cos_cache", {x.batch, x.rows, half});
  if (positions->type() != DataType::kInt64)
    return fail(ErrorCode::kInvalidGraph, "position_ids is {}", name_of(positions->type()));
  CTXGEN_CHECK(expect_dims(*positions, "position_ids", {x.batch, x.rows}));
  CTXGEN_CHECK(expect_rank(*cos, "cos_cache", 2, 2));
  return expect_dims(*cos, "cos_cache", {cos->dims()[0], half});
}

Status run_rotary(KernelContext& context, const RotaryParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  const Heads x = CTXGEN_TRY(heads_of(context, 0, input->rank() == 4 ? 0 : params.heads));
  const std::int64_t dim = params.dim == 0 ? x.size : params.dim;
  if (dim < 0 || dim > x.size || dim % 2 != 0)
    return fail(ErrorCode::kInvalidGraph, "rotary_embedding_dim {} for heads of {}", dim, x.size);
  CTXGEN_CHECK(check_caches(context, x, dim / 2));
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, input->dims()));
  copy_elements(*input, 0, *output, 0, input->element_count());
  const Heads to{output, x.flat, x.batch, x.heads, x.rows, x.size};
  for (std::int64_t r = 0; r < x.batch * x.rows; ++r) {
    const std::int64_t b = r / x.rows;
    const std::int64_t s = r % x.rows;
    const std::int64_t at =
        CTXGEN_TRY(cache_row(*context.input(1), optional_input(context, 3), b, s, x.rows)) *
        (dim / 2);
    for (std::int64_t h = 0; h < x.heads; ++h) {
      const HeadRows rows = to.of<float>(b, h);
      float* head =
          mutable_data_of<float>(*output) + (rows.data - data_of<float>(*output)) + s * rows.stride;
      rotate(head, data_of<float>(*context.input(1)) + at, data_of<float>(*context.input(2)) + at,
             dim / 2, params.interleaved);
    }
  }
  return {};
}

KernelResult make_rotary(const Node& node) {
  const RotaryParams params{.heads = node.int_or("num_heads", 0),
                            .dim = node.int_or("rotary_embedding_dim", 0),
                            .interleaved = node.int_or("interleaved", 0) != 0};
  return widened_kernel([params](KernelContext& context) { return run_rotary(context, params); });
}

constexpr OpRow kAttentionRows[] = {
    {kOnnx, "Attention", 23, 24, make_attention,
     "floats, all inputs of one type; computed in double"},
    {kOnnx, "RotaryEmbedding", 23, 23, make_rotary, "float, float16, bfloat16"},
};

}  // namespace

constinit const std::span<const OpRow> kAttentionOps = kAttentionRows;

}  // namespace ctxgen::cpu
