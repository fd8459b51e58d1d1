#include "head_rows.h"

#include <algorithm>
#include <array>

namespace ctxgen::onednn {

namespace {

NodeId made_by(const GraphView& view, ValueId value, std::string_view op) {
  const NodeId id = value.valid() ? view.graph().value(value).producer : NodeId{};
  if (!id.valid()) return {};
  const Node& node = view.graph().node(id);
  return node.op_type == op && node.domain.empty() ? id : NodeId{};
}

/// The one node that reads the value, which does not leave the graph.
NodeId only_reader(const GraphView& view, ValueId value) {
  const Value& v = view.graph().value(value);
  if (v.is_output || v.consumers.size() != 1) return {};
  const NodeId id = v.consumers[0];
  return view.graph().node(id).captures.empty() ? id : NodeId{};
}

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
  const NodeId reshape = made_by(view, split, "Reshape");
  if (!reshape.valid() || !only_reader(view, split).valid()) return std::nullopt;
  const ValueId flat = view.graph().node(reshape).input(0);
  if (view.constant(flat) != nullptr || !are_same_rows(view, flat, split)) return std::nullopt;
  return HeadRows{flat, split, reshape, {}};
}

std::optional<HeadRows> split_into_heads(const GraphView& view, ValueId heads) {
  const NodeId transpose = made_by(view, heads, "Transpose");
  if (!transpose.valid() || !only_reader(view, heads).valid()) return std::nullopt;
  const Node& node = view.graph().node(transpose);
  if (!swaps_rows_and_heads(node)) return std::nullopt;
  auto rows = split_rows(view, node.input(0));
  if (rows) rows->transpose = transpose;
  return rows;
}

std::optional<HeadRows> merge_heads(const GraphView& view, ValueId heads) {
  const Graph& graph = view.graph();
  const NodeId transpose = only_reader(view, heads);
  if (!transpose.valid()) return std::nullopt;
  const Node& turn = graph.node(transpose);
  if (turn.op_type != "Transpose" || !turn.domain.empty() || !swaps_rows_and_heads(turn))
    return std::nullopt;
  const ValueId split = turn.output(0);
  const NodeId reshape = only_reader(view, split);
  if (!reshape.valid()) return std::nullopt;
  const Node& join = graph.node(reshape);
  if (join.op_type != "Reshape" || !join.domain.empty() || join.input(0) != split ||
      !are_same_rows(view, join.output(0), split))
    return std::nullopt;
  return HeadRows{join.output(0), split, reshape, transpose};
}

}  // namespace ctxgen::onednn
