#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "attention_bias.h"
#include "contrib_families.h"
#include "kernel/attributes.h"
#include "kernel/widen.h"
#include "ops/nn/attention_head.h"

// com.microsoft: GroupQueryAttention.

namespace ctxgen::cpu {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSinks,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
};

/// How a cache keeps its numbers: as floats, or as signed integers times a scale, one for all or one for each
/// element of each head. Integers of 4 bits are two in a byte, the first one in its low half, 8 more than they are.
struct CacheForm {
  std::int64_t bits = 0;  // 0: floats
  bool per_channel = false;
  [[nodiscard]] DataType type() const {
    return bits == 0 ? DataType::kFloat : bits == 8 ? DataType::kInt8 : DataType::kUint8;
  }
  [[nodiscard]] std::int64_t width(std::int64_t head) const {
    return bits == 4 ? (head + 1) / 2 : head;
  }
};

struct Params {
  std::int64_t heads = 0, kv_heads = 0, window = -1;
  double scale = 0, softcap = 0, norm_epsilon = 1e-6;
  bool rotary = false, interleaved = false, smooth = false, causal = true;
  CacheForm cache = {};
};

struct Sizes {
  std::int64_t batch, sequence, head, past, present, total;
  bool first_prompt;
};

// q, k and v as rows [B, S, heads * size]; packed ones come in one tensor.
struct Rows {
  ScratchVector<float> q, k, v;
};

ScratchVector<float> columns_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  const std::int64_t width = tensor.dims().back();
  ScratchVector<float> result;
  for (std::int64_t r = 0; r < tensor.dims()[0] * tensor.dims()[1]; ++r) {
    const float* from = data_of<float>(tensor) + r * width + first;
    result.insert(result.end(), from, from + count);
  }
  return result;
}

Result<std::pair<Sizes, Rows>> read_rows(const KernelContext& context, const Params& params) {
  const Tensor* query = CTXGEN_TRY(required(context, kQuery, DataType::kFloat));
  const Tensor* key = optional_input(context, kKey);
  const Tensor* value = optional_input(context, kValue);
  CTXGEN_CHECK(expect_rank(*query, "query", 3, 3));
  const bool packed = key == nullptr;
  const std::int64_t shares = params.heads + (packed ? 2 * params.kv_heads : 0);
  Sizes sizes{.batch = query->dims()[0],
              .sequence = query->dims()[1],
              .head = query->dims()[2] / shares,
              .past = 0,
              .present = 0,
              .total = 0,
              .first_prompt = false};
  if (query->dims()[2] % shares != 0 || sizes.head < 1)
    return fail(ErrorCode::kInvalidGraph, "query {} does not fit {} heads",
                to_string(query->dims()), params.heads);
  const std::int64_t q_width = params.heads * sizes.head;
  const std::int64_t kv_width = params.kv_heads * sizes.head;
  if (packed)
    return std::pair(sizes,
                     Rows{columns_of(*query, 0, q_width), columns_of(*query, q_width, kv_width),
                          columns_of(*query, q_width + kv_width, kv_width)});
  if (value == nullptr || key->type() != DataType::kFloat || value->type() != DataType::kFloat)
    return fail(ErrorCode::kInvalidGraph, "key and value do not fit the query");
  const Dims dims{sizes.batch, sizes.sequence, kv_width};
  CTXGEN_CHECK(expect_dims(*key, "key", dims));
  CTXGEN_CHECK(expect_dims(*value, "value", dims));
  return std::pair(sizes, Rows{columns_of(*query, 0, q_width), columns_of(*key, 0, kv_width),
                               columns_of(*value, 0, kv_width)});
}

// Number of earlier positions per batch entry.
Result<ScratchVector<std::int64_t>> past_lengths(const KernelContext& context, Sizes& sizes,
                                                 const Params& params) {
  const Tensor* lengths = CTXGEN_TRY(required(context, kLengths, DataType::kInt32));
  const Tensor* total = CTXGEN_TRY(required(context, kTotal, DataType::kInt32));
  const Tensor* past = optional_input(context, kPastKey);
  const Tensor* past_value = optional_input(context, kPastValue);
  sizes.total = CTXGEN_TRY(scalar_int_of(*total));
  if ((past == nullptr) != (past_value == nullptr) || lengths->element_count() != sizes.batch ||
      sizes.total < sizes.sequence)
    return fail(ErrorCode::kInvalidGraph, "past, seqlens_k and total_sequence_length do not fit");
  if (past != nullptr) {
    CTXGEN_CHECK(expect_rank(*past, "past_key", 4, 4));
    sizes.past = past->dims()[2];
    const Dims dims{sizes.batch, params.kv_heads, sizes.past, params.cache.width(sizes.head)};
    CTXGEN_CHECK(expect_dims(*past, "past_key", dims));
    CTXGEN_CHECK(expect_dims(*past_value, "past_value", dims));
    if (past->type() != params.cache.type() || past_value->type() != params.cache.type())
      return fail(ErrorCode::kInvalidGraph, "past is {} and {}, expected {}", name_of(past->type()),
                  name_of(past_value->type()), name_of(params.cache.type()));
  }
  sizes.present = std::max(sizes.past, sizes.total);
  sizes.first_prompt = sizes.sequence == sizes.total;
  ScratchVector<std::int64_t> result;
  for (std::int32_t last : lengths->elements<std::int32_t>()) {
    const std::int64_t before = sizes.first_prompt ? 0 : std::int64_t{last} + 1 - sizes.sequence;
    if (before < 0 || before > sizes.past || before + sizes.sequence > sizes.present)
      return fail(ErrorCode::kInvalidGraph, "seqlens_k has {} for {} past and {} new positions",
                  last, sizes.past, sizes.sequence);
    result.push_back(before);
  }
  return result;
}

// ---- before attention: norms of heads, rotation ----

// Divides each head by the root of its mean square, then multiplies it by the weights.
Status norm_rows(const KernelContext& context, const Sizes& sizes, const Params& params,
                 std::size_t input, ScratchVector<float>& rows) {
  const Tensor* weights = CTXGEN_TRY(required(context, input, DataType::kFloat));
  CTXGEN_CHECK(expect_dims(*weights, "q_norm_weight or k_norm_weight", {sizes.head}));
  const float* by = data_of<float>(*weights);
  for (auto head = rows.begin(); head != rows.end(); head += sizes.head) {
    double squares = 0;
    for (std::int64_t i = 0; i < sizes.head; ++i) squares += double{head[i]} * double{head[i]};
    const double root = std::sqrt(squares / static_cast<double>(sizes.head) + params.norm_epsilon);
    for (std::int64_t i = 0; i < sizes.head; ++i)
      head[i] = static_cast<float>(double{head[i]} / root * double{by[i]});
  }
  return {};
}

// The position of each row [B, S], by which it is rotated: what position_ids says, where it is given. Of a first
// prompt ONNX Runtime reads its first number only.
Result<ScratchVector<std::int64_t>> positions_of(const KernelContext& context, const Sizes& sizes,
                                                 const ScratchVector<std::int64_t>& before) {
  const Tensor* given = optional_input(context, kPositions);
  if (given != nullptr) {
    (void)CTXGEN_TRY(required(context, kPositions, DataType::kInt64));
    CTXGEN_CHECK(expect_dims(*given, "position_ids", {sizes.batch, sizes.sequence}));
  }
  const std::int64_t limit = CTXGEN_TRY(required(context, kCos, DataType::kFloat))->dims()[0];
  ScratchVector<std::int64_t> positions;
  for (std::int64_t r = 0; r < sizes.batch * sizes.sequence; ++r) {
    std::int64_t first = before[static_cast<std::size_t>(r / sizes.sequence)];
    if (given != nullptr) first = data_of<std::int64_t>(*given)[sizes.first_prompt ? 0 : r];
    const bool counts = given == nullptr || sizes.first_prompt;
    const std::int64_t position =
        first >= 0 && first < limit && counts ? first + r % sizes.sequence : first;
    if (position < 0 || position >= limit)
      return fail(ErrorCode::kInvalidGraph, "position {} is outside of a cos_cache of {}", position,
                  limit);
    positions.push_back(position);
  }
  return positions;
}

Status rotate_rows(const KernelContext& context, const Sizes& sizes, const Params& params,
                   const ScratchVector<std::int64_t>& before, Rows& rows) {
  const Tensor* cos = CTXGEN_TRY(required(context, kCos, DataType::kFloat));
  const Tensor* sin = CTXGEN_TRY(required(context, kSin, DataType::kFloat));
  CTXGEN_CHECK(expect_rank(*cos, "cos_cache", 2, 2));
  CTXGEN_CHECK(expect_dims(*sin, "sin_cache", cos->dims()));
  const std::int64_t half = cos->dims()[1];
  if (2 * half > sizes.head)
    return fail(ErrorCode::kInvalidGraph, "cos_cache {} for heads of {}", to_string(cos->dims()),
                sizes.head);
  const auto positions = CTXGEN_TRY(positions_of(context, sizes, before));
  const auto rotate_all = [&](ScratchVector<float>& all, std::int64_t heads) {
    for (std::int64_t r = 0; r < sizes.batch * sizes.sequence; ++r) {
      const std::int64_t at = positions[static_cast<std::size_t>(r)] * half;
      for (std::int64_t n = 0; n < heads; ++n)
        rotate(all.data() + (r * heads + n) * sizes.head, data_of<float>(*cos) + at,
               data_of<float>(*sin) + at, half, params.interleaved);
    }
  };
  rotate_all(rows.q, params.heads);
  rotate_all(rows.k, params.kv_heads);
  return {};
}

// ---- caches ----

/// Scales of a quantised cache, [kv heads, size] or one.
struct Scales {
  const float* data = nullptr;
  bool per_channel = false;
  [[nodiscard]] float of(std::int64_t channel) const { return data[per_channel ? channel : 0]; }
};

Result<Scales> read_scales(const KernelContext& context, std::size_t input, const Params& params,
                           const Sizes& sizes) {
  if (params.cache.bits == 0) return Scales{};
  const Tensor* scales = CTXGEN_TRY(required(context, input, DataType::kFloat));
  const std::int64_t expected = params.cache.per_channel ? params.kv_heads * sizes.head : 1;
  if (scales->element_count() != expected)
    return fail(ErrorCode::kInvalidGraph, "k_scale or v_scale is {}, expected {} elements",
                to_string(scales->dims()), expected);
  return Scales{data_of<float>(*scales), params.cache.per_channel};
}

/// The integer next to x / scale, the largest for NaN. A scale of 0 counts as 1, as in ONNX Runtime.
int quantised(float x, float scale, std::int64_t bits) {
  const float most = bits == 8 ? 127.0F : 7.0F;
  const float real = std::rint(x * (scale != 0 ? 1.0F / scale : 1.0F));
  return static_cast<int>(std::max(-most - 1, real < most ? real : most));
}

/// One head of a row, `channel` its first element among those that have scales of their own.
void write_row(const CacheForm& form, const Scales& scales, std::int64_t channel, std::int64_t head,
               const float* from, std::byte* to) {
  if (form.bits == 0) {
    std::copy_n(from, head, reinterpret_cast<float*>(to));
  } else if (form.bits == 8) {
    for (std::int64_t i = 0; i < head; ++i)
      to[i] = static_cast<std::byte>(quantised(from[i], scales.of(channel + i), 8));
  } else {
    for (std::int64_t i = 0; i < head; i += 2) {
      const int low = quantised(from[i], scales.of(channel + i), 4) + 8;
      const int high = i + 1 < head ? quantised(from[i + 1], scales.of(channel + i + 1), 4) + 8 : 8;
      to[i / 2] = static_cast<std::byte>(low | high << 4);
    }
  }
}

void read_row(const CacheForm& form, const Scales& scales, std::int64_t channel, std::int64_t head,
              const std::byte* from, float* to) {
  for (std::int64_t i = 0; i < head; ++i) {
    const auto byte = static_cast<int>(from[form.bits == 4 ? i / 2 : i]);
    const int integer =
        form.bits == 8 ? static_cast<std::int8_t>(byte) : (byte >> (i % 2 * 4) & 15) - 8;
    to[i] = static_cast<float>(integer) * scales.of(channel + i);
  }
}

/// [B, kv heads, present, width]: the past, then the new rows, then zeros.
void fill_cache(const Params& params, const Sizes& sizes, const Scales& scales, const Tensor* past,
                const ScratchVector<std::int64_t>& before, const ScratchVector<float>& rows,
                Tensor& cache) {
  const std::span<std::byte> all = cache.mutable_bytes();
  std::ranges::fill(all, std::byte{0});
  const std::int64_t heads = params.kv_heads;
  const std::int64_t row_bytes =
      params.cache.width(sizes.head) *
      static_cast<std::int64_t>(params.cache.bits == 0 ? sizeof(float) : 1);
  for (std::int64_t i = 0; i < sizes.batch * heads; ++i) {
    const std::int64_t b = i / heads, n = i % heads;
    std::byte* to = all.data() + i * sizes.present * row_bytes;
    const std::int64_t kept = before[static_cast<std::size_t>(b)];
    if (past != nullptr)
      std::copy_n(past->bytes().data() + i * sizes.past * row_bytes, kept * row_bytes, to);
    for (std::int64_t s = 0; s < sizes.sequence; ++s)
      write_row(params.cache, scales, n * sizes.head, sizes.head,
                rows.data() + ((b * sizes.sequence + s) * heads + n) * sizes.head,
                to + (kept + s) * row_bytes);
  }
}

/// The numbers of a cache: its own, or in `memory`.
const float* numbers_of(const Params& params, const Sizes& sizes, const Scales& scales,
                        const Tensor& cache, ScratchVector<float>& memory) {
  if (params.cache.bits == 0) return data_of<float>(cache);
  const std::int64_t rows = sizes.batch * params.kv_heads * sizes.present;
  const std::int64_t width = params.cache.width(sizes.head);
  memory.resize(static_cast<std::size_t>(rows * sizes.head));
  for (std::int64_t r = 0; r < rows; ++r)
    read_row(params.cache, scales, r / sizes.present % params.kv_heads * sizes.head, sizes.head,
             cache.bytes().data() + r * width, memory.data() + r * sizes.head);
  return memory.data();
}

// ---- the operator ----

struct Attended {
  const float *keys, *values;
  BiasReader bias;
  const Tensor* sinks;
};

void attend_heads(const Params& params, const Sizes& sizes, const Rows& rows,
                  const ScratchVector<std::int64_t>& before, const Attended& given, float* output) {
  const std::int64_t width = params.heads * sizes.head;
  for (std::int64_t i = 0; i < sizes.batch * params.heads; ++i) {
    const std::int64_t b = i / params.heads;
    const std::int64_t n = i % params.heads;
    const std::int64_t past = before[static_cast<std::size_t>(b)];
    const std::int64_t kv = b * params.kv_heads + n / (params.heads / params.kv_heads);
    const std::int64_t start = b * sizes.sequence * width + n * sizes.head;
    std::optional<double> extra;
    if (params.smooth) extra = 0;
    if (given.sinks != nullptr) extra = data_of<float>(*given.sinks)[n];
    const AttendParams attend_params{
        .queries = sizes.sequence,
        .keys = past + sizes.sequence,
        .size = sizes.head,
        .value_size = sizes.head,
        .scale = params.scale != 0 ? params.scale : 1 / std::sqrt(static_cast<double>(sizes.head)),
        .softcap = params.softcap,
        .extra = extra};
    const std::int64_t offset = kv * sizes.present * sizes.head;
    attend(
        attend_params, {rows.q.data() + start, width}, {given.keys + offset, sizes.head},
        {given.values + offset, sizes.head},
        [&](std::int64_t s, std::int64_t t) {
          const std::int64_t distance = past + s - t;
          // ONNX Runtime's window counts the positions before the query's own.
          const bool hidden =
              (params.causal && distance < 0) || (params.window > 0 && distance > params.window);
          return hidden ? kHidden : given.bias(b, n, s, t);
        },
        output + start, width);
  }
}

Status run(KernelContext& context, const Params& params) {
  auto [sizes, rows] = CTXGEN_TRY(read_rows(context, params));
  const auto before = CTXGEN_TRY(past_lengths(context, sizes, params));
  if ((optional_input(context, kQueryNorm) == nullptr) !=
      (optional_input(context, kKeyNorm) == nullptr))
    return fail(ErrorCode::kInvalidGraph, "q_norm_weight and k_norm_weight go together");
  if (optional_input(context, kQueryNorm) != nullptr) {
    CTXGEN_CHECK(norm_rows(context, sizes, params, kQueryNorm, rows.q));
    CTXGEN_CHECK(norm_rows(context, sizes, params, kKeyNorm, rows.k));
  }
  if (params.rotary) CTXGEN_CHECK(rotate_rows(context, sizes, params, before, rows));
  const auto bias = CTXGEN_TRY(bias_reader(optional_input(context, kBias), sizes.batch,
                                           params.heads, sizes.sequence, sizes.total));
  const Tensor* sinks = optional_input(context, kSinks);
  if (sinks != nullptr) {
    (void)CTXGEN_TRY(required(context, kSinks, DataType::kFloat));
    CTXGEN_CHECK(expect_dims(*sinks, "head_sink", {params.heads}));
  }
  const Scales k_scales = CTXGEN_TRY(read_scales(context, kKeyScale, params, sizes));
  const Scales v_scales = CTXGEN_TRY(read_scales(context, kValueScale, params, sizes));
  const Dims cache{sizes.batch, params.kv_heads, sizes.present, params.cache.width(sizes.head)};
  Tensor* output = CTXGEN_TRY(context.make_output(
      0, DataType::kFloat, {sizes.batch, sizes.sequence, params.heads * sizes.head}));
  Tensor* keys = CTXGEN_TRY(context.make_output(1, params.cache.type(), cache));
  Tensor* values = CTXGEN_TRY(context.make_output(2, params.cache.type(), cache));
  fill_cache(params, sizes, k_scales, optional_input(context, kPastKey), before, rows.k, *keys);
  fill_cache(params, sizes, v_scales, optional_input(context, kPastValue), before, rows.v, *values);
  ScratchVector<float> key_numbers, value_numbers;
  attend_heads(params, sizes, rows, before,
               {.keys = numbers_of(params, sizes, k_scales, *keys, key_numbers),
                .values = numbers_of(params, sizes, v_scales, *values, value_numbers),
                .bias = bias,
                .sinks = sinks},
               mutable_data_of<float>(*output));
  return {};
}

Result<CacheForm> cache_form_of(const Node& node) {
  const std::string_view type = node.string_or("k_quant_type", "NONE");
  const std::int64_t bits = node.int_or("kv_cache_bit_width", 0);
  if (node.string_or("v_quant_type", "NONE") != type)
    return fail(ErrorCode::kUnsupported, "{}: k_quant_type and v_quant_type differ",
                node.describe());
  if (type == "NONE") return CacheForm{};
  if (type != "PER_TENSOR" && type != "PER_CHANNEL")
    return fail(ErrorCode::kInvalidGraph, "{}: k_quant_type \"{}\"", node.describe(), type);
  if (bits != 4 && bits != 8)
    return fail(ErrorCode::kUnsupported, "{}: kv_cache_bit_width {}, expected 4 or 8",
                node.describe(), bits);
  return CacheForm{.bits = bits, .per_channel = type == "PER_CHANNEL"};
}

KernelResult make_group_query(const Node& node) {
  const Params params{.heads = node.int_or("num_heads", 0),
                      .kv_heads = node.int_or("kv_num_heads", 0),
                      .window = node.int_or("local_window_size", -1),
                      .scale = node.float_or("scale", 0.0f),
                      .softcap = node.float_or("softcap", 0.0f),
                      .norm_epsilon = node.float_or("qk_norm_epsilon", 1e-6f),
                      .rotary = node.int_or("do_rotary", 0) != 0,
                      .interleaved = node.int_or("rotary_interleaved", 0) != 0,
                      .smooth = node.int_or("smooth_softmax", 0) > 0,
                      .causal = node.int_or("causal", 1) != 0,
                      .cache = CTXGEN_TRY(cache_form_of(node))};
  constexpr std::int64_t kMostHeads = 1 << 20;
  if (params.heads < 1 || params.kv_heads < 1 || params.heads > kMostHeads ||
      params.heads % params.kv_heads != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} heads and {} key/value heads", node.describe(),
                params.heads, params.kv_heads);
  if (!params.causal && params.window > 0)
    return fail(ErrorCode::kInvalidGraph, "{}: a window that is not causal", node.describe());
  for (std::size_t i = kKeyNorm + 1; i < node.inputs.size(); ++i)
    if (node.inputs[i].valid())
      return fail(ErrorCode::kUnsupported, "{}: input {}", node.describe(), i);
  for (std::string_view name : {"qk_output", "sliding_window_cache"})
    if (node.int_or(name, 0) != 0)
      return fail(ErrorCode::kUnsupported, "{}: attribute {}", node.describe(), name);
  return widened_kernel([params](KernelContext& context) { return run(context, params); });
}

constexpr OpRow kContribGroupQueryRows[] = {
    {kMicrosoft, "GroupQueryAttention", 1, 1, make_group_query,
     "floats; caches of floats, or of integers of 8 or 4 bits; no qk_output, no sliding_window_cache"},
};

}  // namespace

constinit const std::span<const OpRow> kContribGroupQueryOps = kContribGroupQueryRows;

}  // namespace ctxgen::cpu
