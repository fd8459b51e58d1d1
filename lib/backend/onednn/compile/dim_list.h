#pragma once

#include <vector>

#include "ctxgen/onednn/dim_code.h"

#include "node_view.h"
#include "program_builder.h"

namespace ctxgen::onednn {

/// Lists of integers that an op takes as inputs: made of sizes of tensors, numbers, and sums and
/// products of them, as exporters write them with Shape, Gather, Unsqueeze, Concat...
struct DimLists {
  struct List {
    std::vector<std::int64_t>
        code;               // dim_code.h; inputs: 0 is the op's data, `sized` from first_sized on
    std::size_t count = 0;  // of numbers in the list
  };
  std::vector<List> lists;     // in the order that was asked for
  std::vector<ValueId> sized;  // tensors of which sizes are read
};

/// Reads the int64 or int32 lists (rank 0 or 1) at some inputs of a node whose data is input 0.
/// A size that is also one of the data's (the same number or symbol) is read there. `first_sized`: where
/// the op has the inputs that add_sized() adds.
[[nodiscard]] Read<DimLists> read_dim_lists(const NodeView& n, std::span<const std::size_t> inputs,
                                            std::size_t first_sized = 1);

/// The inputs of a node that its row reads with read_dim_lists: lists that are not constant. Empty
/// for all others.
[[nodiscard]] std::vector<std::size_t> dim_list_inputs(const GraphView& view, const Node& node);

/// Puts a list as `name`_code in the place of the parameter `name`, which encode() has written;
/// after the last one add_sized() adds the inputs that they read.
void add_list(ProgramOp& op, std::string_view name, const DimLists::List& list);
void add_sized(ProgramOp& op, const DimLists& lists, ProgramBuilder& builder,
               std::vector<Operand>& inputs);

/// Whether the node computes sizes from sizes as read_dim_list understands it.
[[nodiscard]] bool is_dim_node(const Node& node);
/// The inputs of a dim node that are lists or numbers themselves; Shape has none.
[[nodiscard]] std::vector<ValueId> dim_inputs(const Node& node);

}  // namespace ctxgen::onednn
