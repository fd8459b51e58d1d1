#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "ctxgen/runtime/session.h"

#include "code_of.h"

// Sessions over models in ONNX's text form, and tensors for them.

namespace ctxgen::test {

inline Blob model_bytes(const std::string& graph, int opset = 18) {
  const std::string text =
      "<ir_version: 9, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + graph;
  onnx::ModelProto model;
  const auto parsed = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(parsed.IsOK()) << parsed.ErrorMessage();
  const std::string bytes = model.SerializeAsString();
  const auto span = std::as_bytes(std::span(bytes));
  return Blob::own({span.begin(), span.end()});
}

inline std::unique_ptr<Session> open(const std::string& graph, const SessionOptions& options = {},
                                     int opset = 18) {
  auto session = Session::open_memory(model_bytes(graph, opset), options);
  EXPECT_EQ(code_of(session), kOk);
  return session ? std::move(*session) : nullptr;
}

inline SessionOptions limited_to(std::uint64_t bytes) {
  SessionOptions options;
  options.max_run_bytes = bytes;
  return options;
}

template <class T>
Tensor tensor(const Dims& dims, const std::vector<T>& values) {
  Tensor result = *Tensor::allocate(kDataTypeOf<T>, dims);
  if (!values.empty())
    std::memcpy(result.mutable_bytes().data(), values.data(), values.size() * sizeof(T));
  return result;
}
inline Tensor floats(const Dims& dims, const std::vector<float>& values) {
  return tensor(dims, values);
}
inline Tensor number(std::int64_t value) { return tensor<std::int64_t>({}, {value}); }
inline Tensor truth(bool value) {
  Tensor result = *Tensor::allocate(DataType::kBool, {});
  result.mutable_bytes()[0] = std::byte{static_cast<unsigned char>(value)};
  return result;
}

template <class T = float>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.element_count()));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes().size());
  return values;
}

using Inputs = std::vector<NamedTensor>;
using Floats = std::vector<float>;

}  // namespace ctxgen::test
