#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "ctxgen/base/blob.h"

namespace ctxgen {

/// The bytes of a model written in ONNX's text form. Throws on a syntax error.
inline Blob parse_model(const std::string& text) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  const std::string bytes = model.SerializeAsString();
  std::vector<std::byte> copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return Blob::own(std::move(copy));
}

}  // namespace ctxgen
