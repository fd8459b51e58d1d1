#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "../node_view.h"

namespace ctxgen::onednn {

/// A size as a sum of those that an attention with a past is made of. `masked`: keys of a mask, which may go on after those
/// that there are.
struct SizeSum {
  std::int64_t batch = 0, past = 0, added = 0, queries = 0, masked = 0, number = 0;
  [[nodiscard]] bool operator==(const SizeSum&) const = default;
  [[nodiscard]] SizeSum plus(const SizeSum& other, std::int64_t factor = 1) const {
    return {batch + factor * other.batch,   past + factor * other.past,
            added + factor * other.added,   queries + factor * other.queries,
            masked + factor * other.masked, number + factor * other.number};
  }
};

/// What lists of sizes come to, where tensors are known to have some of them.
class ChainSizes {
 public:
  explicit ChainSizes(const GraphView& view) : view_(&view) {}

  /// Dim `axis` of the tensor, and every dim of the same symbol, is `sum`.
  void set(ValueId tensor, std::size_t axis, SizeSum sum);
  /// A dim that set() told of, or that is a number.
  [[nodiscard]] std::optional<SizeSum> size(ValueId tensor, std::size_t axis) const;
  /// The list at input `input` of a node: constant, or made of sizes. Nothing where it is anything else.
  [[nodiscard]] std::optional<std::vector<SizeSum>> list(const Node& node, std::size_t input) const;
  /// The same, where some of its numbers may be anything else.
  [[nodiscard]] std::optional<std::vector<std::optional<SizeSum>>> known(const Node& node,
                                                                         std::size_t input) const;

 private:
  const GraphView* view_;
  std::map<std::pair<std::uint32_t, std::size_t>, SizeSum> sums_;  // by value and axis
  std::map<std::uint32_t, SizeSum> symbols_;
};

}  // namespace ctxgen::onednn
