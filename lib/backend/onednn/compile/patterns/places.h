#pragma once

#include "../node_view.h"
#include "made_bias.h"

namespace ctxgen::onednn {

/// Lists of places of keys and queries, which Ranges count.
class Places {
 public:
  Places(const GraphView& view, const ChainSizes& sizes) : view_(&view), sizes_(&sizes) {}

  /// `first`, `first` + 1...: `count` of them, made by a Range.
  [[nodiscard]] bool counts(ValueId value, const SizeSum& first, const SizeSum& count) const;
  /// The places of queries, the first of which follows the past.
  [[nodiscard]] bool are_queries(ValueId value, const BiasSizes& of) const;

 private:
  const GraphView* view_;
  const ChainSizes* sizes_;
};

}  // namespace ctxgen::onednn
