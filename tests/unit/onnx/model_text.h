#pragma once

#include <span>
#include <stdexcept>
#include <string>

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "ctxgen/onnx_lite/read_model.h"

namespace ctxgen::test {

/// A model from ONNX's text form, read. Throws if either does not work.
inline Model model_of(const std::string& text) {
  onnx::ModelProto proto;
  const auto parsed = onnx::OnnxParser::Parse(proto, text.c_str());
  if (!parsed.IsOK()) throw std::runtime_error(parsed.ErrorMessage());
  const std::string serialised = proto.SerializeAsString();
  const auto bytes = std::as_bytes(std::span(serialised));
  auto model = read_model(Blob::own({bytes.begin(), bytes.end()}), {});
  if (!model) throw std::runtime_error(model.error().message);
  return *std::move(model);
}

/// The text of a graph, of opset 18 with com.microsoft.
inline Model graph_of(const std::string& text, int opset = 18) {
  return model_of("<ir_version: 9, opset_import: [\"\" : " + std::to_string(opset) +
                  ", \"com.microsoft\" : 1]>\n" + text);
}

inline std::string type_of(const Model& model, const Graph& graph, std::string_view name) {
  const ValueId id = graph.find(name);
  return id.valid() ? to_string(graph.value(id).type, model) : "no such value";
}
inline std::string type_of(const Model& model, std::string_view name) {
  return type_of(model, model.graph, name);
}

}  // namespace ctxgen::test
