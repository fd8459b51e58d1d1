#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <format>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen::onednn {

/// Why a node is not taken, or nothing if it is.
using Refusal = std::optional<std::string>;

/// What was read from a node, or the reason why the node is refused.
template <class T>
using Read = std::expected<T, std::string>;

template <class... Args>
[[nodiscard]] std::unexpected<std::string> refuse(std::format_string<Args...> format,
                                                  Args&&... args) {
  return std::unexpected(std::format(format, std::forward<Args>(args)...));
}

template <class T>
[[nodiscard]] Refusal refusal_of(const Read<T>& read) {
  if (read) return std::nullopt;
  return read.error();
}

/// What CTXGEN_REFUSE returns: a refusal for functions that give a Refusal and those that give a Read.
struct Refused {
  std::string reason;
  operator Refusal() && { return std::move(reason); }
  template <class T>
  operator Read<T>() && {
    return std::unexpected(std::move(reason));
  }
};

// Returns from the calling function with the refusal that `expr` gives, if it gives one.
#define CTXGEN_REFUSE(expr)                                   \
  do {                                                        \
    if (::ctxgen::onednn::Refusal refusal_ = (expr))          \
      return ::ctxgen::onednn::Refused{*std::move(refusal_)}; \
  } while (false)

/// One node with the graph around it: what check and lower functions read.
///
/// Lifetime  borrows view and node.
class NodeView {
 public:
  NodeView(const GraphView& view, const Node& node) : view_(&view), node_(&node) {}

  [[nodiscard]] const GraphView& view() const { return *view_; }
  [[nodiscard]] const Node& node() const { return *node_; }
  [[nodiscard]] std::size_t input_count() const { return node_->inputs.size(); }
  [[nodiscard]] std::size_t output_count() const { return node_->outputs.size(); }
  [[nodiscard]] bool has_input(std::size_t i) const { return node_->input(i).valid(); }
  [[nodiscard]] ValueId input(std::size_t i) const { return node_->input(i); }
  [[nodiscard]] ValueId output(std::size_t i) const { return node_->output(i); }
  [[nodiscard]] const Tensor* constant(std::size_t i) const { return view_->constant(input(i)); }
  [[nodiscard]] const Value& input_value(std::size_t i) const {
    return view_->graph().value(input(i));
  }
  [[nodiscard]] const Value& output_value(std::size_t i) const {
    return view_->graph().value(output(i));
  }
  /// Dims of an input: of the constant, or of the type. Requires a known rank (require_f32).
  [[nodiscard]] std::vector<Dim> input_dims(std::size_t i) const;
  [[nodiscard]] std::vector<Dim> output_dims(std::size_t i) const;
  [[nodiscard]] std::size_t rank(std::size_t i) const { return input_dims(i).size(); }
  /// Whether a node reads the output, or it leaves the graph.
  [[nodiscard]] bool output_wanted(std::size_t i) const;

 private:
  const GraphView* view_;
  const Node* node_;
};

/// Whether the listed inputs are present float32 tensors of known rank, the non-constant ones of
/// rank 1 or more and not empty, and whether the first output is such a tensor too. A float16 or
/// bfloat16 tensor counts as float32: it is computed as one.
[[nodiscard]] Refusal require_f32(const NodeView& n, std::initializer_list<std::size_t> inputs);
[[nodiscard]] Refusal require_f32(const NodeView& n, std::span<const std::size_t> inputs);
/// The same for all inputs of a variadic operator.
[[nodiscard]] Refusal require_all_f32(const NodeView& n);
/// The same for operators that only move data, which take 8-bit integers and bool too, of one type.
[[nodiscard]] Refusal require_movable(const NodeView& n, std::size_t inputs = 1);
/// Whether input `i` is a bool tensor of known rank, constant or of rank 1 or more and not empty.
[[nodiscard]] Refusal require_condition(const NodeView& n, std::size_t i);
/// Whether input `i` is a tensor of known rank, not constant, with one of `types`.
[[nodiscard]] Refusal require_value(const NodeView& n, std::size_t i,
                                    std::initializer_list<DataType> types);

/// Whether no output but the first is wanted.
[[nodiscard]] Refusal require_one_output(const NodeView& n);

/// A float32, float16 or bfloat16 constant input; `what` names it in the reason ("weights are not constant").
[[nodiscard]] Read<const Tensor*> constant_f32(const NodeView& n, std::size_t i,
                                               std::string_view what);
/// Dims of an input that may be computed: those of the constant, or of the type where all of them are
/// known. Errors as of constant_f32, and of a type that is not such a tensor.
[[nodiscard]] Read<Dims> known_dims_f32(const NodeView& n, std::size_t i, std::string_view what);
/// The one element of a float32 constant input.
[[nodiscard]] Read<float> constant_scalar(const NodeView& n, std::size_t i, std::string_view what);
/// A constant int32 or int64 input of rank 0 or 1.
[[nodiscard]] Read<std::vector<std::int64_t>> constant_ints(const NodeView& n, std::size_t i,
                                                            std::string_view what);
/// The elements of an int32 or int64 tensor of any rank.
[[nodiscard]] Read<std::vector<std::int64_t>> ints_of(const Tensor& tensor, std::string_view what);
/// Whether input `i` has, in every run, the dims of input 0 from `axis` on.
[[nodiscard]] Refusal require_same_tail(const NodeView& n, std::size_t i, std::string_view what,
                                        std::size_t axis);
/// An axis attribute brought into [0, rank), or [0, rank] if `end` is allowed.
[[nodiscard]] Read<std::int64_t> axis_of(std::int64_t axis, std::size_t rank, bool end = false);

/// float16 and bfloat16: types that values cross the boundary in and weights are stored in; programs compute
/// with float32 in their place.
[[nodiscard]] constexpr bool is_half(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16;
}
/// What is computed in float32.
[[nodiscard]] constexpr bool is_real(DataType type) {
  return type == DataType::kFloat || is_half(type);
}

/// Elements of a float32, float16 or bfloat16 tensor, read at any alignment.
[[nodiscard]] std::vector<float> floats_of(const Tensor& tensor);
/// A float32 tensor made of `values`.
[[nodiscard]] Result<Tensor> tensor_of(const Dims& dims, std::span<const float> values);

/// The most elements that a value is spread to: a file may declare any size without holding it.
inline constexpr std::int64_t kMostSpread = std::int64_t{1} << 24;

/// Dims as a list of numbers for parameters.
[[nodiscard]] std::vector<std::int64_t> list_of(std::span<const std::int64_t> values);

}  // namespace ctxgen::onednn
