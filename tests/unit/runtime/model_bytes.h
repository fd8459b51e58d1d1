#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/data_type.h"

namespace ctxgen::test {

/// Writes protobuf's wire format: just enough to say what the tests need, without onnx.
class Proto {
 public:
  Proto& number(unsigned field, std::uint64_t value) {
    varint(field << 3U);
    varint(value);
    return *this;
  }
  Proto& text(unsigned field, std::string_view value) {
    varint(field << 3U | 2U);
    varint(value.size());
    out_ += value;
    return *this;
  }
  Proto& message(unsigned field, const Proto& value) { return text(field, value.out_); }
  [[nodiscard]] const std::string& bytes() const { return out_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7U) out_ += static_cast<char>(value | 128U);
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

using DimText = std::variant<int, const char*>;                // a number or a dim_param
using AttributeValue = std::variant<int, std::string, Proto>;  // INT, STRING, GRAPH

/// A small ONNX model, built up call by call.
class ModelBytes {
 public:
  explicit ModelBytes(int ir_version = 8) : ir_version_(ir_version) {}

  static Proto value_info(std::string_view name, DataType type, const std::vector<DimText>& dims) {
    Proto shape;
    for (const DimText& dim : dims) {
      Proto one;
      if (const int* number = std::get_if<int>(&dim))
        one.number(1, static_cast<std::uint64_t>(*number));
      else
        one.text(2, std::get<const char*>(dim));
      shape.message(1, one);
    }
    Proto tensor;
    tensor.number(1, static_cast<std::uint64_t>(type)).message(2, shape);
    return Proto().text(1, name).message(2, Proto().message(1, tensor));
  }
  ModelBytes& input(std::string_view name, const std::vector<DimText>& dims,
                    DataType type = DataType::kFloat) {
    graph_.message(11, value_info(name, type, dims));
    return *this;
  }
  ModelBytes& output(std::string_view name, const std::vector<DimText>& dims,
                     DataType type = DataType::kFloat) {
    graph_.message(12, value_info(name, type, dims));
    return *this;
  }
  ModelBytes& info(std::string_view name, const std::vector<DimText>& dims,
                   DataType type = DataType::kFloat) {
    graph_.message(13, value_info(name, type, dims));
    return *this;
  }
  static Proto tensor(std::string_view name, const std::vector<float>& values) {
    Proto proto;
    proto.number(1, values.size()).number(2, 1).text(8, name);
    return proto.text(9, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  }
  ModelBytes& initializer(std::string_view name, const std::vector<float>& values) {
    graph_.message(5, tensor(name, values));
    return *this;
  }
  static Proto node(std::string_view name, std::string_view op,
                    const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                    const std::vector<std::pair<std::string, AttributeValue>>& attributes = {},
                    std::string_view domain = "") {
    Proto proto;
    for (const std::string& one : inputs) proto.text(1, one);
    for (const std::string& one : outputs) proto.text(2, one);
    proto.text(3, name).text(4, op);
    for (const auto& [key, value] : attributes) {
      Proto attribute;
      attribute.text(1, key);
      if (const int* number = std::get_if<int>(&value))
        attribute.number(3, static_cast<std::uint64_t>(*number)).number(20, 2);
      else if (const auto* string = std::get_if<std::string>(&value))
        attribute.text(4, *string).number(20, 3);
      else
        attribute.message(6, std::get<Proto>(value)).number(20, 5);
      proto.message(5, attribute);
    }
    if (!domain.empty()) proto.text(7, domain);
    return proto;
  }
  ModelBytes& add(const Proto& node_proto) {
    graph_.message(1, node_proto);
    return *this;
  }
  ModelBytes& metadata(std::string_view key, std::string_view value) {
    tail_.message(14, Proto().text(1, key).text(2, value));
    return *this;
  }
  [[nodiscard]] std::string text() const {
    Proto model;
    model.number(1, static_cast<std::uint64_t>(ir_version_));
    Proto graph = graph_;
    graph.text(2, "g");
    model.message(7, graph);
    model.message(8, Proto().text(1, "").number(2, 17));
    model.message(8, Proto().text(1, "com.microsoft").number(2, 1));
    model.message(8, Proto().text(1, "test.unknown").number(2, 1));
    return model.bytes() + tail_.bytes();
  }
  [[nodiscard]] Blob blob() const {
    const std::string bytes = text();
    const auto span = as_bytes(bytes);
    return Blob::own({span.begin(), span.end()});
  }

 private:
  int ir_version_;
  Proto graph_;
  Proto tail_;
};

}  // namespace ctxgen::test
