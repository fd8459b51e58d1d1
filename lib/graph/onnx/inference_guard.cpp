#include "inference_guard.h"

#include <algorithm>
#include <string_view>

#include "contrib_schemas.h"

namespace ctxgen {
namespace {

using Condition = bool (*)(const Node&);

const onnx::OpSchema* schema_of(const Node& node, std::int64_t opset) {
  return inference_schema(node.op_type.str(), static_cast<int>(opset), node.domain.str());
}

// It divides by the number of heads of keys.
bool has_heads(const Node& node) {
  return node.int_or("kv_num_heads", 1) > 0 && node.int_or("q_num_heads", 1) > 0;
}

// It gives as many parts as num_outputs says to the node's outputs.
bool has_its_outputs(const Node& node) {
  const auto count = static_cast<std::int64_t>(node.outputs.size());
  return node.int_or("num_outputs", count) == count;
}

// Its square, in 64 bits, must not be 0.
bool has_small_blocks(const Node& node) {
  const std::int64_t size = node.int_or("blocksize", 1);
  return size >= 1 && size <= 1 << 20;
}

bool has_batch_dims(const Node& node) {
  const std::int64_t count = node.int_or("batch_dims", 0);
  return count >= 0 && count <= 1 << 20;
}

// It reads two of them.
bool has_pooled_shape(const Node& node) {
  const Attribute* shape = node.attribute("pooled_shape");
  return shape != nullptr && shape->ints.size() >= 2;
}

// It counts to num_scan_inputs, whatever the node's inputs are, and gives states the first outputs.
bool has_its_scan_inputs(const Node& node) {
  const std::int64_t count = node.int_or("num_scan_inputs", 0);
  const auto inputs = static_cast<std::int64_t>(node.inputs.size());
  return count > 0 && count <= inputs &&
         inputs - count <= static_cast<std::int64_t>(node.outputs.size());
}

// It gives each value that it carries an output.
bool has_carried_outputs(const Node& node) { return node.inputs.size() <= node.outputs.size() + 2; }

// Divides by strides, and multiplies the others without looking.
bool has_sane_windows(const Node& node) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto sane = [&node](std::string_view name, std::int64_t least) {
    const Attribute* attribute = node.attribute(name);
    return attribute == nullptr || std::ranges::all_of(attribute->ints, [least](std::int64_t each) {
             return each >= least && each <= kMost;
           });
  };
  return sane("strides", 1) && sane("dilations", 1) && sane("kernel_shape", 1) &&
         sane("pads", -kMost) && sane("output_padding", 0) && sane("output_shape", 0);
}

// They are cut to 32 bits, or there are as many dims as axes.
bool has_sane_axes(const Node& node) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  constexpr std::size_t kMostAxes = 64;
  const Attribute *axis = node.attribute("axis"), *axes = node.attribute("axes");
  return (axis == nullptr || (axis->i >= -kMost && axis->i <= kMost)) &&
         (axes == nullptr || axes->ints.size() <= kMostAxes);
}

struct Row {
  std::string_view domain, op_type;
  Condition condition;
};
constexpr Row kRows[] = {
    {"", "Attention", has_heads},         {"", "DepthToSpace", has_small_blocks},
    {"", "GatherND", has_batch_dims},     {"", "Loop", has_carried_outputs},
    {"", "MaxRoiPool", has_pooled_shape}, {"", "Scan", has_its_scan_inputs},
    {"", "Split", has_its_outputs},
};

}  // namespace

bool means_model_version(const Model& model, const Node& node) {
  const auto imported = model.opset(node.domain);
  if (!imported || *imported == node.opset) return true;
  return schema_of(node, *imported) == schema_of(node, node.opset);
}

bool may_infer(const Model& model, const Node& node) {
  if (!means_model_version(model, node) || schema_of(node, node.opset) == nullptr) return false;
  if (!has_sane_windows(node) || !has_sane_axes(node)) return false;
  // Outside of functions there is no attribute that one could refer to: then it has no value.
  if (std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.ref_name.empty(); }))
    return false;
  return std::ranges::all_of(kRows, [&](const Row& row) {
    return row.op_type != node.op_type || row.domain != node.domain || row.condition(node);
  });
}

}  // namespace ctxgen
