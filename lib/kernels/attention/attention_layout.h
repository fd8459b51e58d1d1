#pragma once

#include <algorithm>
#include <cstdint>

#include "ctxgen/kernels/attention.h"

// What the versions of attend() for all instruction sets have in common: how the work is cut.
namespace ctxgen::kernels {

/// Rows: queries of all heads that read the same keys, query by query. Few are multiplied one by one, so
/// that keys and values are read once; more by blocks of rows.
inline constexpr std::int64_t kFewRows = 8;
inline constexpr std::int64_t kRowsOfTask = 64;
inline constexpr std::int64_t kKeysOfBlock = 128;  // at most
inline constexpr std::int64_t kKeysOfChunk =
    64;  // what a task for few rows reads, from the first cache
inline constexpr std::int64_t kKeysOfCopy = 256;  // what a task copies, for many rows
inline constexpr std::int64_t kWholeRows = 4;     // of which all logits are kept at once
inline constexpr std::int64_t kMostLogits =
    4096;  // of a tile and a block: they stay in the first cache
inline constexpr std::int64_t kMostLanes = 16;
inline constexpr std::int64_t kMostTeam = 64;  // tasks that run at once
inline constexpr float kLog2e = 1.44269504F;

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// Blocks of rows from which on copies of keys and values pay: fewer where keys are whole pages apart, so share places
/// of the first cache.
constexpr std::int64_t parts_of_copy(const AttentionSizes& s) {
  constexpr std::int64_t kFloatsOfPage = 1024;
  return s.spread % kFloatsOfPage == 0 ? 4 : 8;
}

struct AttentionLayout {
  explicit AttentionLayout(const AttentionSizes& s)
      : group(s.heads / s.kv_heads),
        rows(group * s.queries),
        few(rows <= kFewRows && !s.whole),
        parts(s.whole ? (rows + kWholeRows - 1) / kWholeRows
              : few   ? (s.keys + kKeysOfChunk - 1) / kKeysOfChunk
                      : (rows + kRowsOfTask - 1) / kRowsOfTask),
        tasks(s.images * s.kv_heads * parts),
        copies(s.spread != 0 && !s.whole && !few && !s.quantised && parts >= parts_of_copy(s)) {}

  /// Floats of a row's partial result: the sum, the largest logit, the sum of weights.
  static std::int64_t partial_floats(const AttentionSizes& s) { return s.value_size + 2; }
  /// Floats of a row of which all logits are kept; few_logits() writes up to three more.
  static std::int64_t whole_row_floats(const AttentionSizes& s) {
    return rounded_up(s.keys, kMostLanes) + kMostLanes;
  }
  /// Floats of a task.
  [[nodiscard]] std::int64_t task_floats(const AttentionSizes& s) const {
    const std::int64_t wide =
        s.quantised ? (few ? kKeysOfChunk : kKeysOfBlock) * (s.size + s.value_size) : 0;
    if (s.whole)
      return kWholeRows * (rounded_up(s.size, kMostLanes) + whole_row_floats(s) + s.value_size);
    if (few) return rows * (rounded_up(s.size, kMostLanes) + kKeysOfChunk + kMostLanes) + wide;
    return kRowsOfTask * (s.size + rounded_up(s.value_size, kMostLanes) + 4 * kMostLanes) +
           2 * kMostLogits + wide;
  }

  std::int64_t group, rows;
  bool few;
  std::int64_t parts, tasks;  // parts: of an image's kv head, chunks of keys or blocks of rows
  bool copies;                // of keys and values, a head after the other
};

/// The keys [first, end) that a query sees, without what the bias hides.
struct KeyRange {
  std::int64_t first = 0, end = 0;
};

/// Where the first query of an image is among the keys.
inline std::int64_t first_position(const Attention& a, std::int64_t image) {
  return a.position == nullptr ? 0 : a.position[image];
}

inline KeyRange seen_keys(const Attention& a, std::int64_t image, std::int64_t query) {
  const std::int64_t position = first_position(a, image) + query;
  KeyRange range{0, a.lengths == nullptr ? a.sizes.keys : a.lengths[image]};
  range.end = std::min(range.end, a.bias.keys);
  if (a.causal) range.end = std::min(range.end, position + 1);
  if (a.window > 0) range.first = std::max<std::int64_t>(0, position - a.window);
  return range;
}

/// Calls add(i, addend) for keys `first` + i, i in [0, count), of a query of `head` at `position`.
template <class Add>
void for_each_distance(const AttentionDistances& distances, std::int64_t head,
                       std::int64_t position, std::int64_t first, std::int64_t count,
                       const Add& add) {
  const float* own = distances.addends + head * distances.count;
  const auto place = [&](std::int64_t key) {
    return std::clamp<std::int64_t>(key - first, 0, count);
  };
  const std::int64_t near = place(position - distances.count + 2), after = place(position + 1);
  std::int64_t i = 0;
  for (; i < near; ++i) add(i, own[distances.count - 1]);
  for (; i < after; ++i) add(i, own[position - first - i]);
  for (; i < count; ++i) add(i, own[0]);
}

}  // namespace ctxgen::kernels
