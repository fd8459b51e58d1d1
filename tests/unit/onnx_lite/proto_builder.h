#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"

/// Writes ONNX messages field by field, for tests: independent of the code under test, and able to
/// write what no library would.
namespace ctxgen::test {

class Proto {
 public:
  Proto& varint(std::uint32_t number, std::int64_t value) {
    put(std::uint64_t{number} << 3);
    put(static_cast<std::uint64_t>(value));
    return *this;
  }
  Proto& text(std::uint32_t number, std::string_view text) {
    put(std::uint64_t{number} << 3 | 2);
    put(text.size());
    bytes_ += text;
    return *this;
  }
  Proto& message(std::uint32_t number, const Proto& inner) { return text(number, inner.bytes_); }
  Proto& real(std::uint32_t number, float value) {
    put(std::uint64_t{number} << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Proto& packed(std::uint32_t number, const std::vector<std::int64_t>& values) {
    Proto inner;
    for (const std::int64_t value : values) inner.put(static_cast<std::uint64_t>(value));
    return message(number, inner);
  }
  template <class T>  // raw_data, packed floats
  Proto& raw(std::uint32_t number, const std::vector<T>& values) {
    return text(number, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  Proto& append(const Proto& other) {
    bytes_ += other.bytes_;
    return *this;
  }
  [[nodiscard]] const std::string& str() const { return bytes_; }
  [[nodiscard]] Blob blob() const {
    std::vector<std::byte> copy(bytes_.size());
    if (!bytes_.empty()) std::memcpy(copy.data(), bytes_.data(), bytes_.size());
    return Blob::own(std::move(copy));
  }

 private:
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

using Names = std::initializer_list<std::string_view>;

inline Proto tensor(std::string_view name, int type, const std::vector<std::int64_t>& dims) {
  Proto out;
  for (const std::int64_t dim : dims) out.varint(1, dim);
  return out.varint(2, type).text(8, name);
}
inline Proto floats(std::string_view name, const std::vector<std::int64_t>& dims,
                    const std::vector<float>& values) {
  return tensor(name, 1, dims).raw(9, values);
}
inline Proto int64s(std::string_view name, const std::vector<std::int64_t>& dims,
                    const std::vector<std::int64_t>& values) {
  return tensor(name, 7, dims).raw(9, values);
}

/// A ValueInfoProto of a tensor; dims are numbers or symbols, "?" for unknown ones.
inline Proto value_info(std::string_view name, int type, Names dims) {
  Proto shape;
  for (const std::string_view dim : dims) {
    Proto encoded;
    if (dim.find_first_not_of("0123456789") == std::string_view::npos)
      encoded.varint(1, std::stoll(std::string(dim)));
    else if (dim != "?")
      encoded.text(2, dim);
    shape.message(1, encoded);
  }
  return Proto().text(1, name).message(
      2, Proto().message(1, Proto().varint(1, type).message(2, shape)));
}

inline Proto attr_int(std::string_view name, std::int64_t value) {
  return Proto().text(1, name).varint(3, value).varint(20, 2);
}
inline Proto attr_float(std::string_view name, float value) {
  return Proto().text(1, name).real(2, value).varint(20, 1);
}
inline Proto attr_ints(std::string_view name, const std::vector<std::int64_t>& values) {
  Proto out;
  out.text(1, name);
  for (const std::int64_t value : values) out.varint(8, value);
  return out.varint(20, 7);
}
inline Proto attr_tensor(std::string_view name, const Proto& value) {
  return Proto().text(1, name).message(5, value).varint(20, 4);
}
inline Proto attr_graph(std::string_view name, const Proto& value) {
  return Proto().text(1, name).message(6, value).varint(20, 5);
}
/// Inside of functions: takes the attribute `reference` of the call. `type` as AttributeType.
inline Proto attr_ref(std::string_view name, std::string_view reference, int type) {
  return Proto().text(1, name).text(21, reference).varint(20, type);
}

inline Proto node(std::string_view op, Names inputs, Names outputs,
                  std::initializer_list<Proto> attributes = {}, std::string_view domain = "",
                  std::string_view name = "") {
  Proto out;
  for (const std::string_view input : inputs) out.text(1, input);
  for (const std::string_view output : outputs) out.text(2, output);
  if (!name.empty()) out.text(3, name);
  out.text(4, op);
  for (const Proto& attribute : attributes) out.message(5, attribute);
  if (!domain.empty()) out.text(7, domain);
  return out;
}

struct GraphParts {
  std::vector<Proto> nodes, inputs, outputs, initializers, value_infos;
  Proto more;  // further fields
};
inline Proto graph(const GraphParts& parts, std::string_view name = "g") {
  Proto out;
  for (const Proto& each : parts.nodes) out.message(1, each);
  out.text(2, name);
  for (const Proto& each : parts.initializers) out.message(5, each);
  for (const Proto& each : parts.inputs) out.message(11, each);
  for (const Proto& each : parts.outputs) out.message(12, each);
  for (const Proto& each : parts.value_infos) out.message(13, each);
  return out.append(parts.more);
}

inline Proto opset(std::string_view domain, std::int64_t version) {
  return Proto().text(1, domain).varint(2, version);
}
/// A ModelProto of opset 18 unless `imports` says otherwise.
inline Proto model(const Proto& main_graph, std::vector<Proto> imports = {opset("", 18)},
                   std::int64_t ir_version = 9) {
  Proto out;
  out.varint(1, ir_version).text(2, "maker");
  for (const Proto& import : imports) out.message(8, import);
  return out.message(7, main_graph);
}

/// y = Relu(x), both float [n, 4].
inline GraphParts relu_graph() {
  return {.nodes = {node("Relu", {"x"}, {"y"}, {}, "", "relu")},
          .inputs = {value_info("x", 1, {"n", "4"})},
          .outputs = {value_info("y", 1, {"n", "4"})},
          .initializers = {},
          .value_infos = {},
          .more = {}};
}

inline Proto function(std::string_view name, Names inputs, Names outputs, Names attributes,
                      const std::vector<Proto>& nodes, std::int64_t version = 18,
                      const std::vector<Proto>& defaults = {}) {
  Proto out;
  out.text(1, name);
  for (const std::string_view input : inputs) out.text(4, input);
  for (const std::string_view output : outputs) out.text(5, output);
  for (const std::string_view attribute : attributes) out.text(6, attribute);
  for (const Proto& each : nodes) out.message(7, each);
  for (const Proto& each : defaults) out.message(11, each);
  return out.message(9, opset("", version)).message(9, opset("local", 1)).text(10, "local");
}

}  // namespace ctxgen::test
