#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "layout/layout_pass.h"

namespace ctxgen::onednn {

/// A concatenation whose result is a prefix of a later one lives in that one's buffer.
struct ConcatPlace {
  std::uint32_t host = kNone;  // op index of the last concat of the chain, kNone: none
  SlotId slot = kNone;         // of a host: the whole
  std::int64_t filled_to = 0;  // of a host: how far along the axis it is written already
};

/// The working state of choose_layouts, and what the placement rules of kinds do with it.
class Placement {
 public:
  /// Whether a reader can walk a slot whose rows are not contiguous.
  enum class Density : std::uint8_t { kDense, kStrided };

  Placement(const Program& program, std::span<const Dims> value_dims, const LayoutOptions& options);
  /// Calls the placement rule of every op in order; once.
  [[nodiscard]] Result<NodeGraph> run();

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const LayoutOptions& options() const { return options_; }
  [[nodiscard]] NodeGraph& graph() { return graph_; }
  [[nodiscard]] const Slot& slot(SlotId id) const { return graph_.slots[id]; }
  [[nodiscard]] const Dims& dims(std::uint32_t value) const { return dims_[value]; }
  [[nodiscard]] const Dims& dims_of(const Operand& operand) const;
  [[nodiscard]] DataType type_of(const Operand& operand) const;

  // Operands.
  /// The layout that was written first; plain for weights.
  [[nodiscard]] Layout primary_of(const Operand& operand) const;
  /// The operand in this layout, converted if it is nowhere so. A dense copy serves later readers.
  [[nodiscard]] SlotId need(const Operand& operand, Layout layout, Density density,
                            std::uint32_t op);
  [[nodiscard]] SlotId weight_slot(std::uint32_t weight);
  [[nodiscard]] SlotId convert(SlotId from, Layout layout, std::uint32_t op);
  /// Whether the value is dense in any layout.
  [[nodiscard]] bool has_dense(std::uint32_t value) const;
  [[nodiscard]] bool is_dense(SlotId slot, Layout layout) const;
  /// Whether `op` may overwrite the operand: it dies there, fills its buffer alone, and no other
  /// operand of the op sees these bytes.
  [[nodiscard]] bool may_overwrite(const Operand& operand, SlotId slot, std::uint32_t op) const;
  /// Whether every reader of the value reads strides as they are (traits: strided_operands).
  [[nodiscard]] bool read_by_products_only(std::uint32_t value) const {
    return products_only_[value];
  }
  /// Whether every reader of the value moves elements and reads any strides as they are (traits:
  /// reads_views): then it need not be dense.
  [[nodiscard]] bool read_by_moves_only(std::uint32_t value) const { return moves_only_[value]; }
  [[nodiscard]] bool is_output(std::uint32_t value) const {
    return std::ranges::contains(program_.outputs, value);
  }
  [[nodiscard]] ConcatPlace& concat_place(std::uint32_t op) { return concats_[op]; }

  // Results.
  [[nodiscard]] SlotId new_slot(const Dims& dims, Layout layout, DataType type);
  [[nodiscard]] SlotId add_slot(Slot slot);
  void set_value(std::uint32_t value, Layout layout, SlotId slot);
  /// `value` is elements of `source` that `view` describes: left where they are if they are dense, or
  /// if its readers only move them on; else copied, in the layout that comes nearest.
  void set_view(std::uint32_t value, Slot view, const Operand& source, std::uint32_t op);
  /// `value` is `source`, in every layout that it has.
  void share_value(std::uint32_t value, std::uint32_t source) { values_[value] = values_[source]; }
  [[nodiscard]] SlotId output_slot(std::uint32_t op, Layout layout, SlotId reuse);

  // Nodes.
  Node& add_node(std::uint32_t op);
  /// A node whose inputs are placed already: its post-ops' operands, then its result in `layout`,
  /// new or written over `reuse`.
  Node& add_placed(std::uint32_t op, Layout layout, std::vector<SlotId> inputs,
                   SlotId reuse = kNone);
  /// The same; a post-op that adds a value which dies here runs as a sum over its memory.
  Node& add_product(std::uint32_t op, Layout layout, std::vector<SlotId> inputs);
  void place_post_operands(Node& node, std::uint32_t op, Layout layout);

 private:
  struct ValueSlots {
    std::array<SlotId, kLayouts> slot{kNone, kNone};
    Layout primary = Layout::kPlain;  // the one that was written first
  };

  /// A node whose inputs and operands are placed, and its result.
  Node& finish_node(std::uint32_t op, Layout layout, std::vector<SlotId> inputs,
                    std::vector<NodePostOp> post_ops, SlotId reuse);
  void find_last_uses();
  void find_concat_chains();
  void find_product_operands();
  void find_moved_values();
  void make_interface_buffers();
  [[nodiscard]] Status place_outputs();
  [[nodiscard]] std::uint32_t root_of(std::uint32_t value) const;
  /// Whether the slot is all that its buffer holds.
  [[nodiscard]] bool fills_buffer(const Slot& slot) const;
  [[nodiscard]] std::uint32_t in_place_sum(std::uint32_t op, Layout layout);

  const Program& program_;
  std::span<const Dims> dims_;
  LayoutOptions options_;
  NodeGraph graph_;
  std::vector<ValueSlots> values_;
  std::vector<std::uint32_t> root_;      // per value: the value whose bytes it may be a view of
  std::vector<std::uint32_t> last_use_;  // per root: last op that reads it; kNone - 1 for outputs
  std::vector<bool> products_only_;      // per value: read by matmuls and by nothing else
  std::vector<bool> moves_only_;         // per value: read by moves and by nothing else
  std::vector<SlotId> weight_slots_;
  std::vector<ConcatPlace> concats_;  // per op
};

}  // namespace ctxgen::onednn
