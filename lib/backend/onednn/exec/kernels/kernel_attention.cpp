#include <algorithm>
#include <optional>
#include <span>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/normalize.h"

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
  std::uint64_t images = 0, queries = 0, mask = 0, attend = 0, end = 0;
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
      work.prepares() ? bytes({s.images, s.heads, s.queries, s.size}) : std::uint64_t{0};
  const auto mask =
      work.mask_value ? bytes({s.images, std::max<std::int64_t>(s.keys, 1)}) : std::uint64_t{0};
  const auto own = kernels::attention_scratch_bytes(s);
  if (!numbers || !queries || !mask || !own) return std::nullopt;
  Places places;
  places.queries = align_up(*numbers, kAlignment);
  places.mask = places.queries + align_up(*queries, kAlignment);
  const auto attend = checked_add(places.mask, align_up(*mask, kAlignment));
  const auto end = attend ? checked_add(*attend, *own) : std::nullopt;
  if (!end) return std::nullopt;
  places.attend = *attend;
  places.end = *end;
  return places;
}

/// What the arguments of a run are.
struct Arguments {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const std::byte *past_key = nullptr, *past_value = nullptr;
  const std::byte *lengths = nullptr, *bias = nullptr;
  const float *cos = nullptr, *sin = nullptr, *distances = nullptr;
  float* out = nullptr;
  std::byte *present_key = nullptr, *present_value = nullptr;
  float* logits = nullptr;
  const std::int64_t* numbers = nullptr;
  std::byte* scratch = nullptr;
};

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(AttentionWork work) : work_(std::move(work)) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const Arguments a = arguments_of(args);
    const AttentionNumbers numbers =
        a.numbers == nullptr ? work_.planned : AttentionNumbers::of(a.numbers);
    const AttentionSpan span = CTXGEN_TRY(work_.span_of(numbers));
    const Places places = places_of(work_, span.keys).value_or(Places{});
    auto* position = reinterpret_cast<std::int64_t*>(a.scratch);
    auto* lengths = position + sizes().images;
    CTXGEN_CHECK(read_lengths(a, span, position, lengths));
    auto* turned = reinterpret_cast<float*>(a.scratch + places.queries);
    Attention attend = work_.attend;
    attend.sizes.keys = span.keys;
    attend.bias = span.bias;
    if (!work_.sinks.empty()) attend.sinks = work_.sinks.data();
    attend.q = a.q;
    attend.k = a.k;
    attend.v = a.v;
    if (work_.prepares()) {
      attend.q = turned;
      attend.q_strides = rows_of(sizes().heads, sizes().queries, sizes().size);
    }
    attend.k_strides = with_rows(work_.attend.k_strides, work_.k_heads_first, span.added);
    attend.v_strides = with_rows(work_.attend.v_strides, work_.v_heads_first, span.added);
    if (work_.has_present) read_presents(a, span, attend);
    attend.distances.addends = a.distances;
    attend.out = a.out;
    attend.logits.out = a.logits;
    attend.position = position;
    attend.lengths = lengths;
    if (work_.mask_value)
      attend.bias.addends = added_mask(a.bias, numbers.bias_keys, span.keys,
                                       reinterpret_cast<float*>(a.scratch + places.mask));
    else if (work_.bias_type == DataType::kBool)
      attend.bias.visible = reinterpret_cast<const std::uint8_t*>(a.bias);
    else
      attend.bias.addends = reinterpret_cast<const float*>(a.bias);
    attend.scratch = a.scratch + places.attend;
    if (work_.has_present)
      append_and_attend(a, span, position, turned, attend, workers);
    else
      kernels::attend(attend, workers);
    if (attend.bias.addends != nullptr && attend.window == 0 && attend.softcap == 0 &&
        !attend.sizes.whole && !attend.extra_zero && attend.sinks == nullptr &&
        work_.lengths != AttentionLengths::kCount)
      attend_hidden_rows(attend, work_.finite_causal, work_.mask_value);
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

  /// Strides of k or v of so many rows.
  [[nodiscard]] kernels::HeadStrides with_rows(const kernels::HeadStrides& strides,
                                               bool heads_first, std::int64_t rows) const {
    if (heads_first) return rows_of(sizes().kv_heads, rows, strides.row);
    return {.image = rows * strides.row, .head = strides.head, .row = strides.row};
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
    if (work_.attend.distances.count > 0) next(a.distances);
    next(a.out);
    if (work_.has_present) {
      next(a.present_key);
      next(a.present_value);
    }
    if (work_.has_logits) next(a.logits);
    next(a.numbers);
    next(a.scratch);
    return a;
  }

  /// Where the first query of each image is, and how many keys it has. Nothing is written before all hold.
  Status read_lengths(const Arguments& a, const AttentionSpan& span, std::int64_t* position,
                      std::int64_t* lengths) const {
    const std::int64_t keys = span.keys;
    for (std::int64_t b = 0; b < sizes().images; ++b) {
      position[b] = work_.bottom_right ? span.keys - sizes().queries : span.past;
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

  /// What a mask of ones and zeros adds to logits, of no more keys than there are.
  const float* added_mask(const std::byte* mask, std::int64_t masked, std::int64_t keys,
                          float* to) const {
    const std::int64_t count = std::min(masked, keys);
    const auto add = [&](const auto* rows, const auto& is_seen) {
      for (std::int64_t b = 0; b < work_.bias_dims[0]; ++b)
        for (std::int64_t k = 0; k < count; ++k)
          to[b * count + k] = is_seen(rows[b * masked + k]) ? 0.0F : *work_.mask_value;
    };
    if (work_.bias_type == DataType::kInt32)
      add(reinterpret_cast<const std::int32_t*>(mask), [](std::int32_t one) { return one > 0; });
    else if (work_.bias_type == DataType::kBool)
      add(reinterpret_cast<const std::uint8_t*>(mask), [](std::uint8_t one) { return one != 0; });
    else
      add(reinterpret_cast<const float*>(mask), [](float one) { return one != 0; });
    return to;
  }

  /// One head of one row, normed by `factors`, if there are any, and turned by its position where there are
  /// rotary caches.
  void take_head(const Arguments& a, std::span<const float> factors, std::int64_t position,
                 const float* from, float* to) const {
    if (!factors.empty()) {
      kernels::rms_norm({.rows = 1,
                         .width = sizes().size,
                         .epsilon = work_.norm_epsilon,
                         .in = from,
                         .scale = factors.data(),
                         .out = to});
      from = to;
    }
    if (!work_.has_rotary) {
      if (from != to) std::copy_n(from, sizes().size, to);
      return;
    }
    kernels::rotate_head(sizes().size, work_.half, work_.pairs, a.cos + position * work_.half,
                         a.sin + position * work_.half, from, to);
  }

  /// Attends to presents.
  void read_presents(const Arguments& a, const AttentionSpan& span, Attention& attend) const {
    const std::int64_t heads = sizes().kv_heads;
    if (!sizes().quantised) {
      attend.k = reinterpret_cast<const float*>(a.present_key);
      attend.v = reinterpret_cast<const float*>(a.present_value);
      attend.k_strides = rows_of(heads, span.rows, sizes().size);
      attend.v_strides = rows_of(heads, span.rows, sizes().value_size);
      return;
    }
    attend.integer_k = {a.present_key, work_.k_scales.data(), work_.cache};
    attend.integer_v = {a.present_value, work_.v_scales.data(), work_.cache};
    attend.k_strides = rows_of(heads, span.rows, work_.cache.row_bytes(sizes().size));
    attend.v_strides = rows_of(heads, span.rows, work_.cache.row_bytes(sizes().value_size));
  }

  /// A cache: its past, and the present that becomes it, with rows of `size` numbers.
  struct Cache {
    const std::byte* past;
    std::byte* present;
    std::int64_t size;
    std::span<const float> scales;
  };

  [[nodiscard]] std::int64_t row_bytes(const Cache& cache) const {
    return sizes().quantised ? work_.cache.row_bytes(cache.size)
                             : cache.size * static_cast<std::int64_t>(sizeof(float));
  }

  /// Of head `head` of all images, rows [first, end): keeps those below `position`, leaves room for new ones, and fills the rest
  /// with zeros, unless the cache is appended to where it is, as long as it was.
  void keep_rows(const Cache& cache, const AttentionSpan& span, std::int64_t head,
                 std::int64_t position, std::int64_t first, std::int64_t end) const {
    const std::int64_t row = row_bytes(cache);
    std::byte* present = cache.present + head * span.rows * row;
    const std::int64_t kept = std::min(end, position) - first;
    if (cache.past != cache.present && cache.past != nullptr && kept > 0)
      std::copy_n(cache.past + (head * span.past_rows + first) * row, kept * row,
                  present + first * row);
    const bool in_place = cache.past == cache.present && span.past == span.keys;
    const std::int64_t empty = std::max(position + span.added, first);
    if (!in_place && empty < end)
      std::fill_n(present + empty * row, (end - empty) * row, std::byte{0});
  }

  /// A new row of a cache from a head's numbers. `head`: of an image.
  void put_row(const Cache& cache, std::int64_t head, const float* from, std::byte* to) const {
    if (!sizes().quantised) {
      std::copy_n(from, cache.size, reinterpret_cast<float*>(to));
      return;
    }
    kernels::quantise_row(work_.cache,
                          cache.scales.data() + (work_.cache.per_element ? head * cache.size : 0),
                          cache.size, from, to);
  }

  /// Keys and values [first, end) of one kv head of one image: past, new, zeros.
  void append_rows(const Arguments& a, const AttentionSpan& span, std::int64_t image,
                   std::int64_t head, std::int64_t position, std::int64_t first,
                   std::int64_t end) const {
    const AttentionSizes& s = sizes();
    const std::int64_t i = image * s.kv_heads + head;
    const auto k = with_rows(work_.attend.k_strides, work_.k_heads_first, span.added);
    const auto v = with_rows(work_.attend.v_strides, work_.v_heads_first, span.added);
    const Cache keys{a.past_key, a.present_key, s.size, work_.k_scales};
    const Cache values{a.past_value, a.present_value, s.value_size, work_.v_scales};
    keep_rows(keys, span, i, position, first, end);
    keep_rows(values, span, i, position, first, end);
    float turned[kMostQuantisedSize];
    const std::int64_t last = std::min(end, position + span.added);
    for (std::int64_t at = std::max(first, position); at < last; ++at) {
      const std::int64_t r = at - position, row = i * span.rows + at;
      std::byte* key = keys.present + row * row_bytes(keys);
      const float* from = a.k + image * k.image + head * k.head + r * k.row;
      if (s.quantised) {
        take_head(a, work_.k_norm, at, from, turned);
        put_row(keys, head, turned, key);
      } else {
        take_head(a, work_.k_norm, at, from, reinterpret_cast<float*>(key));
      }
      put_row(values, head, a.v + image * v.image + head * v.head + r * v.row,
              values.present + row * row_bytes(values));
    }
  }

  /// The queries of a kv head of an image.
  void turn_queries(const Arguments& a, std::int64_t image, std::int64_t kv_head,
                    std::int64_t position, float* turned) const {
    const AttentionSizes& s = sizes();
    const kernels::HeadStrides& q = work_.attend.q_strides;
    const std::int64_t group = s.heads / s.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (std::int64_t r = 0; r < s.queries; ++r)
        take_head(a, work_.q_norm, position + r, a.q + image * q.image + head * q.head + r * q.row,
                  turned + ((image * s.heads + head) * s.queries + r) * s.size);
  }

  /// Numbers that become presents.
  [[nodiscard]] std::int64_t moved_numbers(const Arguments& a, const AttentionSpan& span) const {
    const AttentionSizes& s = sizes();
    const std::int64_t rows = a.past_key == a.present_key ? span.added : span.keys;
    return work_of(s.images * s.kv_heads * rows, s.size + s.value_size);
  }

  /// Attends to presents that are made before, or by those who read them.
  void append_and_attend(const Arguments& a, const AttentionSpan& span,
                         const std::int64_t* position, float* turned, Attention attend,
                         Workers& workers) const {
    const AttentionSizes& s = sizes();
    const std::int64_t moved = moved_numbers(a, span), heads = s.images * s.kv_heads;
    const auto append = [&](std::int64_t image, std::int64_t head, std::int64_t first,
                            std::int64_t end) {
      append_rows(a, span, image, head, position[image], first, end);
    };
    const auto turn = [&](std::int64_t i) {
      if (work_.prepares())
        turn_queries(a, i / s.kv_heads, i % s.kv_heads, position[i / s.kv_heads], turned);
    };
    if (kernels::attends_by_chunks(attend.sizes)) {
      for (std::int64_t i = 0; i < heads; ++i) turn(i);
      const kernels::AttentionSource source{append, moved};
      attend.source = &source;
      return kernels::attend(attend, workers);
    }
    parallel_for(workers, heads, moved / 4, [&](std::int64_t i) {
      append(i / s.kv_heads, i % s.kv_heads, 0, span.keys);
      turn(i);
    });
    kernels::attend(attend, workers);
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
  span.added = numbers.added < 0 ? added : numbers.added;
  if (span.added != (numbers.added_values < 0 ? added : numbers.added_values) ||
      ((last || same_rows) && span.added != s.queries))
    return fail(ErrorCode::kInvalidGraph, "{}: {} new keys, {} new values, {} queries", name,
                span.added, numbers.added_values, s.queries);
  // Sums of dims of tensors, which a total is not: it may be anything.
  span.keys = last ? std::max(span.past, numbers.total) : span.past + span.added;
  if (span.keys > static_cast<std::int64_t>(kMaxTensorBytes))
    return fail(ErrorCode::kResourceLimit, "{}: {} keys", name, span.keys);
  if ((last && numbers.total < s.queries) || (numbers.capacity > 0 && numbers.capacity < span.keys))
    return fail(ErrorCode::kInvalidGraph, "{}: {} keys with {} past, {} new and room for {}", name,
                last ? numbers.total : span.keys, span.past, span.added, numbers.capacity);
  if (bottom_right && span.keys < s.queries)
    return fail(ErrorCode::kInvalidGraph, "{}: {} keys for {} queries", name, span.keys, s.queries);
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
  // The chain that makes a longer mask of such a one hides no key after its query.
  const bool repeats = bias_keys == 1 && !(mask_value && long_bias);
  if (!repeats && bias_keys != keys && !pads && !goes_on)
    return fail(ErrorCode::kInvalidGraph, "{}: a bias for {} keys of {}", name, bias_keys, keys);
  kernels::AttentionBias bias;
  if (bias_keys != 1) bias.key = 1;
  if (pads) bias.keys = bias_keys;
  std::int64_t stride = mask_value ? std::min(bias_keys, keys) : bias_keys;
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
