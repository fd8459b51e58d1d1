#include "ctxgen/kernels/attention.h"

#include <atomic>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/lane_share.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "attention/attention_few-inl.h"
#include "attention/attention_tile-inl.h"
#include "attention/attention_whole-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

HWY_NOINLINE void run_task(const Attention& a, const AttentionLayout& layout, std::int64_t task,
                           float* partials, float* scratch) {
  const std::int64_t part = task % layout.parts, head = task / layout.parts;
  const std::int64_t image = head / a.sizes.kv_heads, kv_head = head % a.sizes.kv_heads;
  if (a.sizes.whole) return whole_block(a, layout, image, kv_head, part, scratch);
  if (!layout.few) return tile_block(a, layout, image, kv_head, part, scratch);
  if (a.source != nullptr)
    a.source->make(image, kv_head, part * kKeysOfChunk,
                   std::min((part + 1) * kKeysOfChunk, a.sizes.keys));
  few_chunk(a, layout, image, kv_head, part, scratch,
            partials + task * layout.rows * AttentionLayout::partial_floats(a.sizes));
}

/// The rows of a kv head of an image from the results of its chunks.
HWY_NOINLINE void run_merge(const Attention& a, const AttentionLayout& layout, std::int64_t head,
                            const float* partials) {
  const std::int64_t image = head / a.sizes.kv_heads, kv_head = head % a.sizes.kv_heads;
  const std::int64_t floats = AttentionLayout::partial_floats(a.sizes);
  for (std::int64_t r = 0; r < layout.rows; ++r) {
    const std::int64_t own = kv_head * layout.group + r % layout.group;
    merge_parts(a, own, partials + (head * layout.parts * layout.rows + r) * floats, layout.parts,
                layout.rows * floats,
                a.out + image * a.out_strides.image + own * a.out_strides.head +
                    r / layout.group * a.out_strides.row);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

namespace {

void run_task(const Attention& a, const AttentionLayout& layout, std::int64_t task, float* partials,
              float* scratch) {
  CTXGEN_DISPATCH(run_task(a, layout, task, partials, scratch));
}

void run_merge(const Attention& a, const AttentionLayout& layout, std::int64_t head,
               const float* partials) {
  CTXGEN_DISPATCH(run_merge(a, layout, head, partials));
}

/// Floats of all partial results, of copies of keys and values, then of each task that runs at once.
struct Parts {
  std::uint64_t partials = 0, copies = 0, task = 0, team = 0;
};

/// Floats of all keys and values.
std::optional<std::uint64_t> copied_floats(const AttentionSizes& s) {
  const auto rows = checked_mul(static_cast<std::uint64_t>(s.images * s.kv_heads),
                                static_cast<std::uint64_t>(s.keys));
  const auto floats =
      rows ? checked_mul(*rows, static_cast<std::uint64_t>(s.size + s.value_size)) : std::nullopt;
  if (!floats || *floats > INT64_MAX) return std::nullopt;
  return align_up(*floats, kMostLanes);
}

std::optional<Parts> parts_of(const AttentionSizes& s) {
  constexpr std::int64_t kMost = std::int64_t{1}
                                 << 40U;  // no product of three is beyond 2^63 below
  for (const std::int64_t n : {s.images, s.heads, s.queries, s.keys, s.size, s.value_size})
    if (n > kMost) return std::nullopt;
  const auto rows = checked_mul(static_cast<std::uint64_t>(s.heads / s.kv_heads),
                                static_cast<std::uint64_t>(s.queries));
  const auto heads =
      checked_mul(static_cast<std::uint64_t>(s.images), static_cast<std::uint64_t>(s.kv_heads));
  if (!rows || !heads || *rows > kMost || *heads > kMost) return std::nullopt;
  const AttentionLayout layout(s);
  const auto tasks = checked_mul(*heads, static_cast<std::uint64_t>(layout.parts));
  if (!tasks || *tasks > INT64_MAX) return std::nullopt;
  Parts parts{.partials = 0,
              .copies = 0,
              .task = static_cast<std::uint64_t>(rounded_up(layout.task_floats(s), kMostLanes)),
              .team = std::min<std::uint64_t>(*tasks, kMostTeam)};
  if (layout.few) {
    const auto floats = static_cast<std::uint64_t>(
        rounded_up(layout.rows * AttentionLayout::partial_floats(s), kMostLanes));
    const auto all = checked_mul(floats, *tasks);
    if (!all) return std::nullopt;
    parts.partials = *all;
  }
  if (layout.copies) {
    const auto copies = copied_floats(s);
    if (!copies) return std::nullopt;
    parts.copies = *copies;
  }
  return parts;
}

/// Whether the work is worth the start of a team: products of a query with a key and its value, and what is copied before.
bool worth_threads(const Attention& a) {
  constexpr double kWorthThreads = 256 * 1024, kCopy = 3;  // products that take as long
  const AttentionSizes& s = a.sizes;
  const double copied = a.source == nullptr ? 0 : static_cast<double>(a.source->floats);
  return static_cast<double>(s.images * s.heads) * static_cast<double>(s.queries) *
                 static_cast<double>(s.keys) * static_cast<double>(s.size + s.value_size) +
             kCopy * copied >=
         kWorthThreads;
}

/// Copies keys and values whose heads are side by side in rows, so that those of a head follow each other: each block
/// of rows reads them again, and so far apart they share few places of the caches. Those that no query sees are left
/// out.
void copy_heads(Attention& a, bool threads, float* to, Workers& workers) {
  const AttentionSizes& s = a.sizes;
  const auto copy = [&](const float*& rows, HeadStrides& strides, std::int64_t size) {
    if (strides.row == size) return;
    const std::int64_t chunks = (s.keys + kKeysOfCopy - 1) / kKeysOfCopy;
    const auto copy_chunk = [&](std::int64_t task) {
      const std::int64_t head = task / chunks, image = head / s.kv_heads;
      const std::int64_t first = task % chunks * kKeysOfCopy;
      const std::int64_t end =
          std::min(first + kKeysOfCopy, seen_keys(a, image, s.queries - 1).end);
      const float* from = rows + image * strides.image + head % s.kv_heads * strides.head;
      for (std::int64_t key = first; key < end; ++key)
        std::copy_n(from + key * strides.row, size, to + (head * s.keys + key) * size);
    };
    const std::int64_t tasks = s.images * s.kv_heads * chunks;
    if (threads)
      workers.parallel_for(tasks, copy_chunk);
    else
      for (std::int64_t task = 0; task < tasks; ++task) copy_chunk(task);
    rows = to;
    strides = {.image = s.kv_heads * s.keys * size, .head = s.keys * size, .row = size};
    to += s.images * s.kv_heads * s.keys * size;
  };
  copy(a.k, a.k_strides, s.size);
  copy(a.v, a.v_strides, s.value_size);
}

}  // namespace

std::optional<std::uint64_t> attention_scratch_bytes(const AttentionSizes& sizes) {
  const auto parts = parts_of(sizes);
  if (!parts) return std::nullopt;
  const auto tasks = checked_mul(parts->task, parts->team);
  if (!tasks) return std::nullopt;
  const auto rest = checked_add(parts->partials, parts->copies);
  const auto floats = rest ? checked_add(*tasks, *rest) : std::nullopt;
  if (!floats) return std::nullopt;
  const auto bytes = checked_mul(*floats, std::uint64_t{sizeof(float)});
  return bytes && *bytes <= INT64_MAX ? bytes : std::nullopt;
}

bool attends_by_chunks(const AttentionSizes& sizes) {
  const AttentionLayout layout(sizes);
  return layout.few && layout.rows > 0;
}

void attend(const Attention& attention, Workers& workers) {
  Attention a = attention;
  const AttentionSizes& s = a.sizes;
  const AttentionLayout layout(s);
  if (s.images <= 0 || s.heads <= 0 || layout.rows <= 0) return;
  const Parts parts = parts_of(s).value_or(Parts{});
  auto* partials = reinterpret_cast<float*>(a.scratch);
  float* copies = partials + parts.partials;
  float* scratch = copies + parts.copies;
  const std::int64_t heads = s.images * s.kv_heads;
  const bool threads = worth_threads(a) && parts.team > 1;
  if (layout.copies) copy_heads(a, threads, copies, workers);
  const auto take = [&](std::int64_t task, std::int64_t place) {
    run_task(a, layout, task, partials, scratch + static_cast<std::uint64_t>(place) * parts.task);
  };
  const auto team = static_cast<std::int64_t>(parts.team);
  if (!threads) {
    for (std::int64_t task = 0; task < layout.tasks; ++task) take(task, 0);
  } else if (layout.few) {
    // The same thread reads what it made, in this run or in the one before.
    workers.parallel_for(team, [&](std::int64_t place) {
      const auto [first, end] = lane_share(layout.tasks, team, place);
      for (std::int64_t task = first; task < end; ++task) take(task, place);
    });
  } else {
    // Each place takes the next task: those of causal rows differ.
    std::atomic<std::int64_t> next{0};
    workers.parallel_for(team, [&](std::int64_t place) {
      for (std::int64_t task = next++; task < layout.tasks; task = next++) take(task, place);
    });
  }
  if (layout.few)
    for (std::int64_t head = 0; head < heads; ++head) run_merge(a, layout, head, partials);
}

}  // namespace ctxgen::kernels
#endif
