#include "causal_mask.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "places.h"
#include "walk.h"

namespace ctxgen::onednn {

namespace {

constexpr std::size_t kMaskRank = 4, kHeads = 1, kRows = 2, kColumns = 3;

class CausalWalk {
 public:
  CausalWalk(const GraphView& view, const ChainSizes& sizes, const BiasSizes& of)
      : view_(view), walk_(view), sizes_(sizes), places_(view, sizes), of_(of) {}

  std::optional<CausalMask> find(ValueId mask);

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return walk_.node(id); }
  [[nodiscard]] bool is_varying(ValueId value, std::size_t axis) const;
  [[nodiscard]] ValueId lowered(ValueId value) const;
  [[nodiscard]] bool is_causal(ValueId value) const;
  [[nodiscard]] bool is_alike(ValueId mask, bool in_heads) const;
  [[nodiscard]] bool widens_nothing(NodeId expand) const;
  ValueId take_only(ValueId value, NodeId id);
  ValueId without_idle(ValueId value);

  const GraphView& view_;
  PatternWalk walk_;
  const ChainSizes& sizes_;
  Places places_;
  const BiasSizes& of_;
};

/// Whether all dims of [1, 1, rows, columns] but one are 1.
bool CausalWalk::is_varying(ValueId value, std::size_t axis) const {
  const ValueType& type = walk_.graph().value(value).type;
  if (!type.has_rank() || type.rank() != kMaskRank) return false;
  for (std::size_t i = 0; i < kMaskRank; ++i)
    if (i != axis && !((*type.shape)[i].is_fixed() && (*type.shape)[i].value() == 1)) return false;
  return true;
}

/// Goes back over added axes, to a list.
ValueId CausalWalk::lowered(ValueId value) const {
  while (walk_.producer(value, "Unsqueeze").valid())
    value = node(walk_.producer(value, "Unsqueeze")).input(0);
  const ValueType& type = walk_.graph().value(value).type;
  return type.has_rank() && type.rank() == 1 ? value : ValueId{};
}

/// Whether a mask hides the same keys from all queries, and from all heads.
bool CausalWalk::is_alike(ValueId mask, bool in_heads) const {
  const ValueType& type = walk_.graph().value(mask).type;
  if (view_.constant(mask) != nullptr || !type.is_tensor() || type.element != DataType::kBool ||
      !type.has_rank() || type.rank() != kMaskRank)
    return false;
  const auto is_one = [&](std::size_t axis) {
    return (*type.shape)[axis].is_fixed() && (*type.shape)[axis].value() == 1;
  };
  return is_one(kRows) && (!in_heads || is_one(kHeads));
}

/// Goes back over Casts that change nothing and And with true.
ValueId CausalWalk::without_idle(ValueId value) {
  for (;;) {
    const NodeId cast = walk_.producer(value, "Cast"), both = walk_.producer(value, "And");
    const auto is_bool = [&](ValueId id) {
      return id.valid() && walk_.graph().value(id).type.element == DataType::kBool;
    };
    if (cast.valid() && is_bool(node(cast).input(0))) {
      value = take_only(node(cast).input(0), cast);
      continue;
    }
    const auto is_true = [&](ValueId id) {
      const Tensor* tensor = view_.constant(id);
      return tensor != nullptr && tensor->rank() <= kMaskRank && tensor->element_count() == 1 &&
             tensor->bytes()[0] != std::byte{0};
    };
    if (!both.valid()) return value;
    if (is_true(node(both).input(0)))
      value = take_only(node(both).input(1), both);
    else if (is_true(node(both).input(1)))
      value = take_only(node(both).input(0), both);
    else
      return value;
  }
}

/// Whether a key's place is compared with its query's.
bool CausalWalk::is_causal(ValueId value) const {
  const NodeId less = walk_.producer(value, "LessOrEqual");
  const NodeId compared = less.valid() ? less : walk_.producer(value, "GreaterOrEqual");
  if (!compared.valid()) return false;
  const ValueId keys = node(compared).input(less.valid() ? 0 : 1);
  const ValueId queries = node(compared).input(less.valid() ? 1 : 0);
  return is_varying(keys, kColumns) && is_varying(queries, kRows) &&
         places_.counts(lowered(keys), {}, of_.keys) && places_.are_queries(lowered(queries), of_);
}

/// Whether an Expand gives no larger dims than logits have.
bool CausalWalk::widens_nothing(NodeId expand) const {
  const auto shape = sizes_.list(node(expand), 1);
  if (!shape || shape->size() != kMaskRank) return false;
  const SizeSum one{.number = 1}, same{.number = -1};
  const std::array<SizeSum, kMaskRank> full{of_.batch, SizeSum{.number = of_.heads}, of_.queries,
                                            of_.keys};
  for (std::size_t i = 0; i < kMaskRank; ++i)
    if ((*shape)[i] != full[i] && (*shape)[i] != one && (*shape)[i] != same) return false;
  return true;
}

/// Takes the node that gives `value`; an input of it that nothing else reads is next.
ValueId CausalWalk::take_only(ValueId value, NodeId id) {
  walk_.take(id);
  const Value& next = walk_.graph().value(value);
  return !next.is_output && next.consumers.size() == 1 ? value : ValueId{};
}

std::optional<CausalMask> CausalWalk::find(ValueId mask) {
  CausalMask found;
  ValueId value = mask;
  if (walk_.graph().value(value).is_output) return std::nullopt;
  if (const NodeId where = walk_.producer(value, "Where"); where.valid()) {
    constexpr float kHidden = -1e30F;  // no logit of a model is near
    const auto hidden = walk_.scalar(node(where).input(2));
    if (walk_.scalar(node(where).input(1)) != 0.0F || !hidden || !(*hidden <= kHidden))
      return std::nullopt;
    if (std::isfinite(*hidden)) found.hidden = hidden;
    value = take_only(node(where).input(0), where);
  } else if (walk_.graph().value(value).type.element != DataType::kBool) {
    return std::nullopt;
  }
  if (const NodeId expand = walk_.producer(value, "Expand"); expand.valid()) {
    if (!widens_nothing(expand)) return std::nullopt;
    value = take_only(node(expand).input(0), expand);
  }
  value = without_idle(value);
  if (const NodeId both = walk_.producer(value, "And"); both.valid()) {
    CausalWalk first(view_, sizes_, of_);
    const std::size_t causal = first.is_causal(first.without_idle(node(both).input(0))) ? 0 : 1;
    found.visible = node(both).input(1 - causal);
    if (!is_alike(found.visible, found.hidden.has_value())) return std::nullopt;
    value = without_idle(take_only(node(both).input(causal), both));
  }
  if (!value.valid() || !is_causal(value)) return std::nullopt;
  walk_.take(walk_.graph().value(value).producer);
  found.nodes = walk_.nodes();
  return found;
}

}  // namespace

std::optional<CausalMask> find_causal_mask(const GraphView& view, ValueId mask,
                                           const ChainSizes& sizes, const BiasSizes& of) {
  return CausalWalk(view, sizes, of).find(mask);
}

}  // namespace ctxgen::onednn
