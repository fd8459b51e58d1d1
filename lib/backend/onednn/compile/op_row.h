#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "node_view.h"
#include "program_builder.h"

namespace ctxgen::onednn {

/// One row of the operator table. A row serves the opsets from since_min up to the next row of the
/// same operator; since_max is the last version of the operator that it was written for.
struct OpRow {
  std::string_view domain;
  std::string_view op_type;
  std::int64_t since_min;
  std::int64_t since_max;
  Refusal (*check)(const NodeView& n);
  Status (*lower)(const NodeView& n, ProgramBuilder& builder);
  bool glue;                    // moves data only
  std::string_view attributes;  // every attribute that check reads or that has no effect here
  std::string_view limits;      // for docs/operators.md
};

/// All rows, sorted by (domain, op_type, since_min).
[[nodiscard]] std::span<const OpRow> op_rows();
/// The row with the largest since_min at or below the node's opset, or nullptr.
[[nodiscard]] const OpRow* find_row(const Node& node);
/// find_row, the names of the attributes, and the row's own check.
[[nodiscard]] Refusal check_node(const NodeView& n);
/// Requires  check_node(n) took the node.
[[nodiscard]] Status lower_node(const NodeView& n, ProgramBuilder& builder);

/// What was read from a node that its check accepted.
template <class T>
[[nodiscard]] Result<T> accepted(Read<T> read, const NodeView& n) {
  if (read) return std::move(*read);
  return fail(ErrorCode::kInternal, "{} is lowered though it was refused: {}", n.node().describe(),
              read.error());
}

}  // namespace ctxgen::onednn
