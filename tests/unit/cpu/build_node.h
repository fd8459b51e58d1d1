#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/cpu/kernel.h"

namespace ctxgen::cpu {

/// A node without a graph: run_node looks at attributes and at which outputs exist only.
inline Node make_node(std::string op_type, std::int64_t opset, std::size_t outputs = 1,
                      std::string domain = "") {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.opset = opset;
  for (std::uint32_t i = 0; i < outputs; ++i) node.outputs.push_back(ValueId{i});
  return node;
}

inline void set_ints(Node& node, std::string name, std::vector<std::int64_t> values) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kInts;
  attribute.ints = std::move(values);
  node.attributes.push_back(std::move(attribute));
}
inline void set_int(Node& node, std::string name, std::int64_t value) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kInt;
  attribute.i = value;
  node.attributes.push_back(std::move(attribute));
}
inline void set_float(Node& node, std::string name, float value) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kFloat;
  attribute.f = value;
  node.attributes.push_back(std::move(attribute));
}
inline void set_floats(Node& node, std::string name, std::vector<float> values) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kFloats;
  attribute.floats = std::move(values);
  node.attributes.push_back(std::move(attribute));
}
inline void set_string(Node& node, std::string name, std::string value) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kString;
  attribute.s = std::move(value);
  node.attributes.push_back(std::move(attribute));
}
inline void set_strings(Node& node, std::string name, std::vector<std::string> values) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kStrings;
  attribute.strings = std::move(values);
  node.attributes.push_back(std::move(attribute));
}

template <class T>
Tensor tensor(const Dims& dims, std::vector<T> values) {
  Tensor result = Tensor::allocate(kDataTypeOf<T>, dims).value();
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(result.mutable_bytes().data()));
  return result;
}
inline Tensor floats(const Dims& dims, std::vector<float> values) {
  return tensor<float>(dims, std::move(values));
}
inline Tensor ints(const Dims& dims, std::vector<std::int64_t> values) {
  return tensor<std::int64_t>(dims, std::move(values));
}

/// Inputs by position; an undefined tensor stands for an absent one.
inline Result<std::vector<Tensor>> run(const Node& node, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(input.defined() ? &input : nullptr);
  return run_node(node, pointers);
}

template <class T>
std::vector<T> values(const Tensor& tensor) {
  const auto elements = tensor.elements<T>();
  return {elements.begin(), elements.end()};
}

}  // namespace ctxgen::cpu
