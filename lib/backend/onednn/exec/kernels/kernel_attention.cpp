#include <algorithm>
#include <optional>

#include "ctxgen/base/checked.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_attention.h"

// Attention with its cache: what is appended, and where queries are among the keys, depends on values of
// the run.
namespace ctxgen::onednn {

namespace {

using kernels::Attention;
using kernels::AttentionSizes;

constexpr std::uint64_t kAlignment = 64;

/// Parts of the scratch, in bytes from its start.
struct Places {
  std::uint64_t images = 0, queries = 0, attend = 0, end = 0;
};

std::optional<Places> places_of(const AttentionWork& work, std::int64_t keys) {
  AttentionSizes s = work.attend.sizes;
  s.keys = keys;
  const auto bytes = [](std::initializer_list<std::int64_t> counts) {
    std::optional<std::uint64_t> product = sizeof(float);
    for (const std::int64_t n : counts)
      if (product) product = checked_mul(*product, static_cast<std::uint64_t>(n));
    if (product && *product > INT64_MAX) product.reset();
    return product;
  };
  const auto numbers = bytes({s.images, 4});  // two of 8 bytes each
  const auto queries =
      work.has_rotary ? bytes({s.images, s.heads, s.queries, s.size}) : std::uint64_t{0};
  const auto own = kernels::attention_scratch_bytes(s);
  if (!numbers || !queries || !own) return std::nullopt;
  Places places;
  places.queries = align_up(*numbers, kAlignment);
  places.attend = places.queries + align_up(*queries, kAlignment);
  places.end = places.attend + *own;  // each is below 2^63 / 2 at most by kMaxTensorBytes
  return places;
}

/// What the arguments of a run are.
struct Arguments {
  const float *q = nullptr, *k = nullptr, *v = nullptr, *past_key = nullptr, *past_value = nullptr;
  const std::byte *lengths = nullptr, *bias = nullptr;
  const float *cos = nullptr, *sin = nullptr;
  float *out = nullptr, *present_key = nullptr, *present_value = nullptr;
  const std::int64_t* numbers = nullptr;
  std::byte* scratch = nullptr;
};

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(AttentionWork work) : work_(std::move(work)) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const Arguments a = arguments_of(args);
    const AttentionSpan span = CTXGEN_TRY(
        work_.span_of(a.numbers == nullptr ? work_.planned : AttentionNumbers::of(a.numbers)));
    const Places places = places_of(work_, span.keys).value_or(Places{});
    auto* position = reinterpret_cast<std::int64_t*>(a.scratch);
    auto* lengths = position + sizes().images;
    CTXGEN_CHECK(read_lengths(a, span, position, lengths));
    auto* turned = reinterpret_cast<float*>(a.scratch + places.queries);
    if (work_.has_present) append(a, span, position, turned, workers);
    Attention attend = work_.attend;
    attend.sizes.keys = span.keys;
    attend.bias = span.bias;
    if (!work_.sinks.empty()) attend.sinks = work_.sinks.data();
    attend.q = a.q;
    attend.k = a.k;
    attend.v = a.v;
    if (work_.has_rotary) {
      attend.q = turned;
      attend.q_strides = rows_of(sizes().heads, sizes().queries, sizes().size);
    }
    if (work_.has_present) {
      attend.k = a.present_key;
      attend.v = a.present_value;
      attend.k_strides = rows_of(sizes().kv_heads, span.rows, sizes().size);
      attend.v_strides = rows_of(sizes().kv_heads, span.rows, sizes().value_size);
    }
    attend.out = a.out;
    attend.position = position;
    attend.lengths = lengths;
    if (work_.bias_is_bool)
      attend.bias.visible = reinterpret_cast<const std::uint8_t*>(a.bias);
    else
      attend.bias.addends = reinterpret_cast<const float*>(a.bias);
    attend.scratch = a.scratch + places.attend;
    kernels::attend(attend, workers);
    if (work_.has_bias && !work_.bias_is_bool && attend.window == 0 && attend.softcap == 0 &&
        !attend.extra_zero && attend.sinks == nullptr && work_.lengths != AttentionLengths::kCount)
      attend_hidden_rows(attend, work_.finite_causal);
    return {};
  }

  Result<RunLength> measure(std::span<const std::int64_t> numbers) const override {
    const AttentionSpan span = CTXGEN_TRY(work_.span_of(AttentionNumbers::of(numbers.data())));
    return RunLength{span.keys, CTXGEN_TRY(work_.scratch_bytes(span.keys))};
  }

 private:
  [[nodiscard]] const AttentionSizes& sizes() const { return work_.attend.sizes; }

  static kernels::HeadStrides rows_of(std::int64_t heads, std::int64_t rows, std::int64_t size) {
    return {.image = heads * rows * size, .head = rows * size, .row = size};
  }

  [[nodiscard]] Arguments arguments_of(std::byte* const* args) const {
    Arguments a;
    const auto next = [&]<class T>(T*& to) { to = reinterpret_cast<T*>(*args++); };
    next(a.q);
    if (work_.packed) {
      a.k = a.q + sizes().heads * sizes().size;
      a.v = a.k + sizes().kv_heads * sizes().size;
    } else {
      next(a.k);
      next(a.v);
    }
    if (work_.has_past) {
      next(a.past_key);
      next(a.past_value);
    }
    if (work_.lengths != AttentionLengths::kAll) next(a.lengths);
    if (work_.has_bias) next(a.bias);
    if (work_.has_rotary) {
      next(a.cos);
      next(a.sin);
    }
    next(a.out);
    if (work_.has_present) {
      next(a.present_key);
      next(a.present_value);
    }
    next(a.numbers);
    next(a.scratch);
    return a;
  }

  /// Where the first query of each image is, and how many keys it has. Nothing is written before all hold.
  Status read_lengths(const Arguments& a, const AttentionSpan& span, std::int64_t* position,
                      std::int64_t* lengths) const {
    const std::int64_t keys = span.keys;
    for (std::int64_t b = 0; b < sizes().images; ++b) {
      position[b] = span.past;
      lengths[b] = keys;
      if (work_.lengths == AttentionLengths::kCount)
        lengths[b] =
            std::clamp<std::int64_t>(reinterpret_cast<const std::int64_t*>(a.lengths)[b], 0, keys);
      if (work_.lengths == AttentionLengths::kLast) {
        const std::int64_t last = reinterpret_cast<const std::int32_t*>(a.lengths)[b];
        position[b] = span.first_prompt ? 0 : last + 1 - sizes().queries;
        if (position[b] < 0 || position[b] > span.past || position[b] + sizes().queries > keys)
          return fail(ErrorCode::kInvalidArgument,
                      "{}: the last key of sequence {} is {}, with {} past and {} new keys of {}",
                      work_.name, b, last, span.past, sizes().queries, keys);
        lengths[b] = position[b] + sizes().queries;
      }
      if (work_.has_rotary && position[b] + sizes().queries > work_.positions)
        return fail(ErrorCode::kInvalidArgument,
                    "{}: position {} of sequence {} is outside of the {} of the rotary caches",
                    work_.name, position[b] + sizes().queries - 1, b, work_.positions);
    }
    return {};
  }

  /// One head of one row, turned by its position where there are rotary caches.
  void take_head(const Arguments& a, std::int64_t position, const float* from, float* to) const {
    if (!work_.has_rotary) {
      std::copy_n(from, sizes().size, to);
      return;
    }
    kernels::rotate_head(sizes().size, work_.half, work_.pairs, a.cos + position * work_.half,
                         a.sin + position * work_.half, from, to);
  }

  /// One head of a past, and of the present that it becomes the first rows of.
  struct HeadRows {
    const float* past;
    float* present;
    std::int64_t size;
    bool in_place;  // and as long: what is after the new rows stays
  };

  /// Keeps `position` rows, leaves room for those that are new, and fills the rest of `keys` with zeros.
  /// Out  where the new rows go.
  [[nodiscard]] float* keep_rows(const HeadRows& head, std::int64_t position,
                                 std::int64_t keys) const {
    float* added = head.present + position * head.size;
    if (head.past != head.present && position > 0)
      std::copy_n(head.past, position * head.size, head.present);
    if (!head.in_place)
      std::fill_n(added + work_.added * head.size, (keys - position - work_.added) * head.size,
                  0.0F);
    return added;
  }

  /// Keys and values of one kv head of one image: past, new, zeros.
  void append_head(const Arguments& a, const AttentionSpan& span, std::int64_t image,
                   std::int64_t head, std::int64_t position) const {
    const AttentionSizes& s = sizes();
    const std::int64_t i = image * s.kv_heads + head;
    const kernels::HeadStrides &k = work_.attend.k_strides, &v = work_.attend.v_strides;
    const auto rows = [&](const float* past, float* present, std::int64_t size) {
      return HeadRows{past == nullptr ? nullptr : past + i * span.past_rows * size,
                      present + i * span.rows * size, size,
                      past == present && span.past == span.keys};
    };
    float* key = keep_rows(rows(a.past_key, a.present_key, s.size), position, span.keys);
    float* value =
        keep_rows(rows(a.past_value, a.present_value, s.value_size), position, span.keys);
    for (std::int64_t r = 0; r < work_.added; ++r, key += s.size) {
      take_head(a, position + r, a.k + image * k.image + head * k.head + r * k.row, key);
      value = std::copy_n(a.v + image * v.image + head * v.head + r * v.row, s.value_size, value);
    }
  }

  void append(const Arguments& a, const AttentionSpan& span, const std::int64_t* position,
              float* turned, Workers& workers) const {
    const AttentionSizes& s = sizes();
    const kernels::HeadStrides& q = work_.attend.q_strides;
    const std::int64_t group = s.heads / s.kv_heads, heads = s.images * s.kv_heads;
    const bool in_place = a.past_key == a.present_key;
    const std::int64_t moved =
        work_of(heads * (in_place ? work_.added : span.keys), s.size + s.value_size);
    parallel_for(workers, heads, moved / 4, [&](std::int64_t i) {
      const std::int64_t image = i / s.kv_heads, kv_head = i % s.kv_heads;
      append_head(a, span, image, kv_head, position[image]);
      if (!work_.has_rotary) return;
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (std::int64_t r = 0; r < s.queries; ++r)
          take_head(a, position[image] + r, a.q + image * q.image + head * q.head + r * q.row,
                    turned + ((image * s.heads + head) * s.queries + r) * s.size);
    });
  }

  AttentionWork work_;
};

}  // namespace

Result<AttentionSpan> AttentionWork::span_of(const AttentionNumbers& numbers) const {
  const AttentionSizes& s = attend.sizes;
  const bool last = lengths == AttentionLengths::kLast;
  AttentionSpan span;
  span.past = has_past ? numbers.past : 0;
  if (has_past && numbers.past_value != numbers.past)
    return fail(ErrorCode::kInvalidGraph, "{}: {} past keys and {} past values", name, numbers.past,
                numbers.past_value);
  // Sums of dims of tensors, which a total is not: it may be anything.
  span.keys = last ? std::max(span.past, numbers.total) : span.past + added;
  if (span.keys > static_cast<std::int64_t>(kMaxTensorBytes))
    return fail(ErrorCode::kResourceLimit, "{}: {} keys", name, span.keys);
  if ((last && numbers.total < s.queries) || (numbers.capacity > 0 && numbers.capacity < span.keys))
    return fail(ErrorCode::kInvalidGraph, "{}: {} keys with {} past, {} new and room for {}", name,
                last ? numbers.total : span.keys, span.past, added, numbers.capacity);
  span.past_rows = numbers.capacity > 0 ? numbers.capacity : span.past;
  span.rows = numbers.capacity > 0 ? numbers.capacity : span.keys;
  span.first_prompt = last && numbers.total == s.queries;
  if (has_bias) span.bias = CTXGEN_TRY(bias_of(numbers.bias_keys, span.keys));
  return span;
}

Result<kernels::AttentionBias> AttentionWork::bias_of(std::int64_t bias_keys,
                                                      std::int64_t keys) const {
  const bool pads = short_bias && bias_keys <= keys;
  const bool goes_on = long_bias && bias_keys > keys;
  if (bias_keys != 1 && bias_keys != keys && !pads && !goes_on)
    return fail(ErrorCode::kInvalidGraph, "{}: a bias for {} keys of {}", name, bias_keys, keys);
  kernels::AttentionBias bias;
  if (bias_keys != 1) bias.key = 1;
  if (pads) bias.keys = bias_keys;
  std::int64_t stride = bias_keys;
  const auto stride_over = [&](std::int64_t dim) {
    const std::int64_t own = dim == 1 ? 0 : stride;
    stride *= dim;
    return own;
  };
  bias.query = stride_over(bias_dims[2]);
  bias.head = stride_over(bias_dims[1]);
  bias.image = stride_over(bias_dims[0]);
  return bias;
}

Result<std::uint64_t> AttentionWork::scratch_bytes(std::int64_t keys) const {
  const auto places = places_of(*this, keys);
  if (!places || places->end > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} queries and {} keys of {}", name,
                attend.sizes.queries, keys, attend.sizes.size);
  return places->end;
}

std::shared_ptr<const Kernel> make_attention_kernel(AttentionWork work) {
  return std::make_shared<const AttentionKernel>(std::move(work));
}

}  // namespace ctxgen::onednn
