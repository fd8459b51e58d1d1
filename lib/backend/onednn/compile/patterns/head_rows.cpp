#include "head_rows.h"

#include <algorithm>
#include <array>

#include "walk.h"

namespace ctxgen::onednn {

namespace {

bool swaps_rows_and_heads(const Node& transpose) {
  const auto perm = transpose.ints("perm");
  return perm && std::ranges::equal(*perm, std::array<std::int64_t, 4>{0, 2, 1, 3});
}

/// Whether the two hold the same rows, the second one by heads.
bool are_same_rows(const GraphView& view, ValueId flat, ValueId split) {
  const ValueType &a = view.graph().value(flat).type, &b = view.graph().value(split).type;
  if (!a.is_tensor() || !b.is_tensor() || !a.has_rank() || !b.has_rank() || a.rank() != 3 ||
      b.rank() != 4)
    return false;
  const auto &from = *a.shape, &to = *b.shape;
  if (!from[2].is_fixed() || !to[2].is_fixed() || !to[3].is_fixed()) return false;
  // Heads of a known number and size divide a row; all other dims but one are the same, so that one is, too.
  const bool divides = to[2].value() > 0 && to[3].value() > 0 &&
                       from[2].value() % to[2].value() == 0 &&
                       from[2].value() / to[2].value() == to[3].value();
  const auto known = [&](std::size_t i) { return from[i].is_fixed() && to[i].is_fixed(); };
  const auto same = [&](std::size_t i) { return known(i) && from[i].value() == to[i].value(); };
  return divides && (same(0) || same(1)) && (same(0) || !known(0)) && (same(1) || !known(1));
}

}  // namespace

std::optional<HeadRows> split_rows(const GraphView& view, ValueId split) {
  const PatternWalk walk(view);
  const NodeId reshape = walk.producer(split, "Reshape");
  if (!reshape.valid() || !walk.only_consumer(split, "").valid()) return std::nullopt;
  const ValueId flat = walk.node(reshape).input(0);
  if (view.constant(flat) != nullptr || !are_same_rows(view, flat, split)) return std::nullopt;
  return HeadRows{flat, split, reshape, {}};
}

std::optional<HeadRows> split_into_heads(const GraphView& view, ValueId heads) {
  const PatternWalk walk(view);
  const NodeId transpose = walk.producer(heads, "Transpose");
  if (!transpose.valid() || !walk.only_consumer(heads, "").valid() ||
      !swaps_rows_and_heads(walk.node(transpose)))
    return std::nullopt;
  auto rows = split_rows(view, walk.node(transpose).input(0));
  if (rows) rows->transpose = transpose;
  return rows;
}

std::optional<HeadRows> merge_heads(const GraphView& view, ValueId heads) {
  const PatternWalk walk(view);
  const NodeId transpose = walk.only_consumer(heads, "Transpose");
  if (!transpose.valid() || !swaps_rows_and_heads(walk.node(transpose))) return std::nullopt;
  const ValueId split = walk.node(transpose).output(0);
  const NodeId reshape = walk.only_consumer(split, "Reshape");
  if (!reshape.valid() || walk.node(reshape).input(0) != split ||
      !are_same_rows(view, walk.node(reshape).output(0), split))
    return std::nullopt;
  return HeadRows{walk.node(reshape).output(0), split, reshape, transpose};
}

}  // namespace ctxgen::onednn
