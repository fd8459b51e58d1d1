#include "scattered_mask.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "../dim_list.h"
#include "places.h"
#include "walk.h"

namespace ctxgen::onednn {

namespace {

constexpr std::size_t kMaskRank = 4;
constexpr SizeSum kOne{.number = 1};
using Shape = std::array<SizeSum, kMaskRank>;

/// Goes back from a mask. Every step gives an invalid id, or false, where the graph is another one.
class ScatterWalk {
 public:
  ScatterWalk(const GraphView& view, const ChainSizes& sizes, const BiasSizes& of)
      : view_(view), walk_(view), sizes_(sizes), of_(of) {}

  std::optional<CausalMask> find(ValueId mask);

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return walk_.node(id); }
  /// The node of that kind that gives the value, which is taken; invalid if it is of another kind.
  NodeId taken(ValueId value, std::string_view op) {
    const NodeId id = walk_.producer(value, op);
    if (id.valid()) walk_.take(id);
    return id;
  }
  [[nodiscard]] bool is_real(ValueId value) const {
    return value.valid() && walk_.graph().value(value).type.element == DataType::kFloat;
  }
  [[nodiscard]] bool is_of_rank(ValueId value, std::size_t rank) const {
    const ValueType& type = walk_.graph().value(value).type;
    return type.has_rank() && type.rank() == rank;
  }
  [[nodiscard]] bool has_numbers(NodeId id, std::size_t input,
                                 const std::vector<std::int64_t>& numbers) const;
  [[nodiscard]] bool has_list(NodeId id, std::size_t input,
                              const std::vector<SizeSum>& list) const {
    const auto found = sizes_.list(node(id), input);
    return found && *found == list;
  }
  /// The operand that is not the constant `number`; invalid where none is.
  [[nodiscard]] ValueId beside(NodeId id, float number) const;
  ValueId without_axes(ValueId value);

  bool read_padding(ValueId kept);
  bool puts_all(NodeId scatter);
  bool is_grid(ValueId grid, std::size_t axis);
  bool read_part(ValueId part, ValueId whole);
  bool read_whole(ValueId whole);
  bool is_triangle(ValueId full);
  bool is_later(ValueId later);
  bool close(ValueId mask);

  const GraphView& view_;
  PatternWalk walk_;
  ChainSizes sizes_;
  const BiasSizes& of_;
  SizeSum masked_;  // keys of the mask
  CausalMask found_;
};

bool ScatterWalk::has_numbers(NodeId id, std::size_t input,
                              const std::vector<std::int64_t>& numbers) const {
  const NodeView n(view_, node(id));
  if (!n.has_input(input)) return false;
  const auto given = constant_ints(n, input, "numbers");
  return given && *given == numbers;
}

ValueId ScatterWalk::beside(NodeId id, float number) const {
  for (const std::size_t constant : {1, 0})
    if (const auto found = walk_.scalar(node(id).input(constant)); found && *found == number)
      return node(id).input(1 - constant);
  return {};
}

/// The rows and columns of [1, 1, rows, columns].
ValueId ScatterWalk::without_axes(ValueId value) {
  const NodeId outer = taken(value, "Unsqueeze");
  if (!outer.valid()) return {};
  value = node(outer).input(0);
  if (has_numbers(outer, 1, {0, 1})) return is_of_rank(value, 2) ? value : ValueId{};
  if (!is_of_rank(value, 3) || (!has_numbers(outer, 1, {0}) && !has_numbers(outer, 1, {1})))
    return {};
  const NodeId inner = taken(value, "Unsqueeze");
  if (!inner.valid() || !has_numbers(inner, 1, {0})) return {};
  return node(inner).input(0);
}

/// The padding is [batch, 1, 1, keys of the mask]: these keys are what the rest is compared with.
bool ScatterWalk::read_padding(ValueId kept) {
  if (!kept.valid() || view_.constant(kept) != nullptr || !is_real(kept)) return false;
  const ValueType& type = walk_.graph().value(kept).type;
  if (!type.has_rank() || type.rank() != kMaskRank) return false;
  for (const std::size_t axis : {1, 2})
    if (!(*type.shape)[axis].is_fixed() || (*type.shape)[axis].value() != 1) return false;
  found_.visible = kept;
  masked_ = sizes_.size(kept, 3).value_or(SizeSum{.masked = 1});
  sizes_.set(kept, 3, masked_);
  return true;
}

/// Whether `full` is added where a key comes after its query, and zeros elsewhere.
bool ScatterWalk::is_triangle(ValueId full) {
  const NodeId product = taken(full, "Mul");
  if (!product.valid()) return false;
  for (const std::size_t at : {0, 1}) {
    ValueId filled = node(product).input(at);
    const NodeId upper = walk_.producer(filled, "Trilu");
    if (upper.valid()) {  // of rows that begin with the past, so it hides nothing of theirs
      if (node(upper).int_or("upper", 1) != 1 || !has_numbers(upper, 1, {1})) continue;
      filled = node(upper).input(0);
    }
    const NodeId expand = walk_.producer(filled, "Expand");
    const auto hidden = expand.valid() ? walk_.scalar(node(expand).input(0)) : std::nullopt;
    if (!hidden || *hidden != found_.hidden || !has_list(expand, 1, {of_.queries, masked_}))
      continue;
    for (const NodeId id : {upper, expand})
      if (id.valid()) walk_.take(id);
    return is_later(node(product).input(1 - at));
  }
  return false;
}

/// 1 where the place of a key, in a column, is after that of its query, in a row.
bool ScatterWalk::is_later(ValueId later) {
  const NodeId cast = taken(later, "Cast");
  if (!cast.valid() || !is_real(later)) return false;
  const ValueId compared = node(cast).input(0);
  const NodeId greater = walk_.producer(compared, "Greater"),
               less = walk_.producer(compared, "Less");
  const NodeId id = greater.valid() ? greater : less;
  if (!id.valid()) return false;
  walk_.take(id);
  const ValueId keys = node(id).input(greater.valid() ? 0 : 1);
  const NodeId column = taken(node(id).input(greater.valid() ? 1 : 0), "Reshape");
  if (!column.valid() || !has_numbers(column, 1, {-1, 1})) return false;
  const Places places(view_, sizes_);
  return places.counts(keys, {}, masked_) && places.are_queries(node(column).input(0), of_);
}

/// The mask before padding: [batch, 1, queries, keys of the mask].
bool ScatterWalk::read_whole(ValueId whole) {
  const NodeId expand = taken(whole, "Expand");
  if (!expand.valid()) return false;
  const auto shape = sizes_.list(node(expand), 1);
  if (!shape || shape->size() != kMaskRank || (*shape)[0] != of_.batch || (*shape)[1] != kOne ||
      ((*shape)[2] != of_.queries && (*shape)[2] != kOne) ||
      ((*shape)[3] != masked_ && (*shape)[3] != kOne))
    return false;
  return is_triangle(without_axes(node(expand).input(0)));
}

/// Whether `part` is all of `whole`: cut after as many keys as the mask has.
bool ScatterWalk::read_part(ValueId part, ValueId whole) {
  if (part == whole) return true;
  const NodeId slice = taken(part, "Slice");
  return slice.valid() && node(slice).opset >= 10 && node(slice).input(0) == whole &&
         has_numbers(slice, 1, {0}) && has_list(slice, 2, {masked_}) &&
         has_numbers(slice, 3, {3}) &&
         (!node(slice).input(4).valid() || has_numbers(slice, 4, {1}));
}

/// Indices of one axis, in the form of the mask, with one more axis.
bool ScatterWalk::is_grid(ValueId grid, std::size_t axis) {
  const Shape full{of_.batch, kOne, of_.queries, masked_};
  const NodeId lifted = taken(grid, "Unsqueeze");
  if (!lifted.valid() ||
      (!has_numbers(lifted, 1, {-1}) && !has_numbers(lifted, 1, {std::int64_t{kMaskRank}})))
    return false;
  const NodeId expand = taken(node(lifted).input(0), "Expand");
  if (!expand.valid() || !has_list(expand, 1, std::vector(full.begin(), full.end()))) return false;
  const NodeId turned = taken(node(expand).input(0), "Reshape");
  std::vector<std::int64_t> along(kMaskRank, 1);
  along[axis] = -1;
  if (!turned.valid() || !has_numbers(turned, 1, along)) return false;
  const ValueId places = node(turned).input(0);
  return Places(view_, sizes_).counts(places, {}, full[axis]) && taken(places, "Range").valid();
}

/// Whether a ScatterND puts every element where it was.
bool ScatterWalk::puts_all(NodeId scatter) {
  const Attribute* reduction = node(scatter).attribute("reduction");
  const NodeId indices = taken(node(scatter).input(1), "Concat");
  if (reduction != nullptr || !indices.valid() || node(indices).inputs.size() != kMaskRank ||
      (node(indices).int_or("axis", 0) != -1 &&
       node(indices).int_or("axis", 0) != std::int64_t{kMaskRank}))
    return false;
  for (std::size_t axis = 0; axis < kMaskRank; ++axis)
    if (!is_grid(node(indices).input(axis), axis)) return false;
  return true;
}

/// Takes what reads sizes of inner values, such as how long `part` is. False: something else does.
bool ScatterWalk::close(ValueId mask) {
  std::set<NodeId> nodes;
  const std::vector<NodeId> own = walk_.nodes();
  std::vector<NodeId> open = own;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!nodes.insert(id).second) continue;
    for (const ValueId output : node(id).outputs) {
      if (!output.valid() || output == mask) continue;
      const Value& value = walk_.graph().value(output);
      if (value.is_output) return false;
      for (const NodeId reader : value.consumers) {
        if (nodes.contains(reader)) continue;
        if (!is_dim_node(node(reader)) && !std::ranges::binary_search(own, reader)) return false;
        open.push_back(reader);
      }
    }
  }
  found_.nodes.assign(nodes.begin(), nodes.end());
  for (const NodeId id : found_.nodes)
    if (!dim_list_inputs(view_, node(id)).empty()) found_.takers.push_back(id);
  return true;
}

std::optional<CausalMask> ScatterWalk::find(ValueId mask) {
  constexpr float kHidden = -1e30F;  // no logit of a model is near
  const NodeId scatter = taken(mask, "ScatterND");
  if (!scatter.valid() || !is_real(mask) || walk_.graph().value(mask).is_output)
    return std::nullopt;
  const ValueId whole = node(scatter).input(0);
  const NodeId where = taken(node(scatter).input(2), "Where");
  if (!where.valid()) return std::nullopt;
  const ValueId part = node(where).input(2);
  const auto hidden = walk_.scalar(node(where).input(1));
  if (!hidden || !std::isfinite(*hidden) || *hidden > kHidden) return std::nullopt;
  found_.hidden = hidden;
  const NodeId equal = taken(node(where).input(0), "Equal");
  if (!equal.valid()) return std::nullopt;
  const NodeId sum = taken(beside(equal, 0), "Add");
  if (!sum.valid()) return std::nullopt;
  const ValueId kept = walk_.other(sum, part);
  if (!read_padding(kept) || !read_whole(whole) || !read_part(part, whole)) return std::nullopt;
  const Shape dims{of_.batch, kOne, of_.queries, masked_};
  for (std::size_t axis = 0; axis < kMaskRank; ++axis)
    for (const ValueId value : {part, whole, node(scatter).input(2)})
      sizes_.set(value, axis, dims[axis]);
  if (!puts_all(scatter) || !close(mask)) return std::nullopt;
  return std::move(found_);
}

}  // namespace

std::optional<CausalMask> find_scattered_mask(const GraphView& view, ValueId mask,
                                              const ChainSizes& sizes, const BiasSizes& of) {
  return ScatterWalk(view, sizes, of).find(mask);
}

}  // namespace ctxgen::onednn
