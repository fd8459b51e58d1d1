#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "layout/layout_pass.h"

namespace ctxgen::onednn {

/// The working state of choose_layouts, shared by the placement rules of the op families.
class LayoutPass {
 public:
  LayoutPass(const Program& program, std::span<const Dims> value_dims,
             const LayoutOptions& options);
  [[nodiscard]] Result<NodeGraph> run();

 private:
  /// Whether a reader can walk a slot whose rows are not contiguous.
  enum class Density : std::uint8_t { kDense, kStrided };
  struct ValueSlots {
    std::array<SlotId, kLayouts> slot{kNone, kNone};
    Layout primary = Layout::kPlain;  // the one that was written first
  };
  /// A concatenation whose result is a prefix of a later one lives in that one's buffer.
  struct ConcatPlace {
    std::uint32_t host = kNone;  // op index of the last concat of the chain, kNone: none
    SlotId slot = kNone;         // of a host: the whole
    std::int64_t filled_to = 0;  // of a host: how far along the axis it is written already
  };
  using Rule = Status (LayoutPass::*)(std::uint32_t);
  struct RuleRow {
    std::string_view kind;
    Rule rule;
  };
  static const RuleRow kRules[];

  void find_last_uses();
  void find_concat_chains();
  void find_product_operands();
  [[nodiscard]] SlotId product_operand(const Operand& operand, bool strided, std::uint32_t op);
  void make_interface_buffers();
  [[nodiscard]] Status place_outputs();

  // Placement rules, one per family.
  [[nodiscard]] Status place_spatial(std::uint32_t op);
  [[nodiscard]] Status place_conv(std::uint32_t op);
  [[nodiscard]] Status place_matmul(std::uint32_t op);
  [[nodiscard]] Status place_plain(std::uint32_t op);
  [[nodiscard]] Status place_softmax(std::uint32_t op);
  [[nodiscard]] Status place_eltwise(std::uint32_t op);
  [[nodiscard]] Status place_binary(std::uint32_t op);
  [[nodiscard]] Status place_select(std::uint32_t op);
  [[nodiscard]] Status place_concat(std::uint32_t op);
  [[nodiscard]] Status place_transpose(std::uint32_t op);
  [[nodiscard]] Status place_reshape(std::uint32_t op);
  [[nodiscard]] Status place_identity(std::uint32_t op);
  [[nodiscard]] Status place_same_layout(std::uint32_t op);
  // layout_rules_move.cpp
  [[nodiscard]] Status place_index(std::uint32_t op);
  [[nodiscard]] Status place_resize(std::uint32_t op);
  [[nodiscard]] Status place_expand(std::uint32_t op);
  [[nodiscard]] Status place_blocks(std::uint32_t op);
  [[nodiscard]] Status place_group_norm(std::uint32_t op);
  [[nodiscard]] Status place_rnn(std::uint32_t op);

  [[nodiscard]] const Dims& dims_of(const Operand& operand) const;
  [[nodiscard]] DataType type_of(const Operand& operand) const;
  /// Whether the slot is all that its buffer holds.
  [[nodiscard]] bool fills_buffer(const Slot& slot) const;
  [[nodiscard]] SlotId place_vector(std::uint32_t op, std::size_t input);
  [[nodiscard]] Layout primary_of(const Operand& operand) const;
  [[nodiscard]] Layout joint_layout(std::uint32_t op) const;
  [[nodiscard]] SlotId need(const Operand& operand, Layout layout, Density density,
                            std::uint32_t op);
  [[nodiscard]] SlotId weight_slot(std::uint32_t weight);
  [[nodiscard]] SlotId convert(SlotId from, Layout layout, std::uint32_t op);
  [[nodiscard]] SlotId new_slot(const Dims& dims, Layout layout, DataType type);
  [[nodiscard]] SlotId add_slot(Slot slot);
  void set_value(std::uint32_t value, Layout layout, SlotId slot);
  [[nodiscard]] bool is_dense(SlotId slot, Layout layout) const;
  /// Whether `op` may overwrite the operand: it dies there, fills its buffer alone, and no other
  /// operand of the op sees these bytes.
  [[nodiscard]] bool may_overwrite(const Operand& operand, SlotId slot, std::uint32_t op) const;
  [[nodiscard]] SlotId output_slot(std::uint32_t op, Layout layout, SlotId reuse);
  Node& add_node(std::uint32_t op);
  /// A node whose inputs are placed already: its post-ops' operands, then its result in `layout`,
  /// new or written over `reuse`.
  void add_placed(std::uint32_t op, Layout layout, std::vector<SlotId> inputs,
                  SlotId reuse = kNone);
  void place_post_operands(Node& node, std::uint32_t op, Layout layout);
  [[nodiscard]] std::uint32_t in_place_sum(std::uint32_t op, Layout layout);

  const Program& program_;
  std::span<const Dims> dims_;
  LayoutOptions options_;
  NodeGraph graph_;
  std::vector<ValueSlots> values_;
  std::vector<std::uint32_t> root_;      // per value: the value whose bytes it may be a view of
  std::vector<std::uint32_t> last_use_;  // per root: last op that reads it; kNone - 1 for outputs
  std::vector<bool> products_only_;      // per value: read by matmuls and by nothing else
  std::vector<SlotId> weight_slots_;
  std::vector<ConcatPlace> concats_;     // per op
};

}  // namespace ctxgen::onednn
