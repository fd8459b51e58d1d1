#include "places.h"

#include "walk.h"

namespace ctxgen::onednn {

bool Places::counts(ValueId value, const SizeSum& first, const SizeSum& count) const {
  const PatternWalk walk(*view_);
  const NodeId range = walk.producer(value, "Range");
  if (!range.valid()) return false;
  const SizeSum one{.number = 1};
  const Node& node = walk.node(range);
  const auto from = sizes_->list(node, 0), to = sizes_->list(node, 1), step = sizes_->list(node, 2);
  return from && to && step && *from == std::vector{first} && *step == std::vector{one} &&
         *to == std::vector{first.plus(count)};
}

bool Places::are_queries(ValueId value, const BiasSizes& of) const {
  if (counts(value, of.past, of.queries)) return true;
  const PatternWalk walk(*view_);
  const NodeId sum = walk.producer(value, "Add");
  if (!sum.valid()) return false;
  const Node& node = walk.node(sum);
  for (const std::size_t range : {0, 1}) {
    const auto past = sizes_->list(node, 1 - range);
    if (past && *past == std::vector{of.past} && counts(node.input(range), {}, of.queries))
      return true;
  }
  return false;
}

}  // namespace ctxgen::onednn
