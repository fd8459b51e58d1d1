#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen::cli {

/// What `inspect` tells of an ONNX model.
struct ModelFacts {
  std::string name;
  std::uint64_t file_bytes = 0;
  std::int64_t ir_version = 0;
  std::string producer;
  std::vector<std::pair<std::string, std::int64_t>> opsets;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  // name, type
  std::map<std::string, std::uint64_t> ops;  // "domain::Op" -> count, subgraphs too
  std::uint64_t nodes = 0, subgraphs = 0, functions = 0;
  std::uint64_t initializers = 0, initializer_bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> external_files;  // name, bytes
  struct Partition {
    std::string node;
    EpContextAttributes attributes;  // an embedded payload is left out
    std::uint64_t payload_bytes = 0;
  };
  std::vector<Partition> partitions;
};

[[nodiscard]] ModelFacts model_facts(const Model& model);
[[nodiscard]] std::string model_text(const ModelFacts& facts);
void write_model(JsonWriter& json, const ModelFacts& facts);

}  // namespace ctxgen::cli
