#include "show/inspect_model.h"

#include <algorithm>
#include <format>

#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

std::string qualified(const Node& node) {
  return node.domain.empty() ? node.op_type.str()
                             : std::format("{}::{}", node.domain, node.op_type);
}

std::string text_of(const Node& node, std::string_view name) {
  return std::string(node.string_or(name, ""));
}

ModelFacts::Partition partition_of(const Node& node) {
  ModelFacts::Partition partition;
  partition.node = node.name.empty() ? node.first_output_name : node.name;
  EpContextAttributes& attributes = partition.attributes;
  attributes.main_context = node.int_or("main_context", attributes.main_context);
  attributes.embed_mode = node.int_or("embed_mode", attributes.embed_mode);
  attributes.max_size = node.int_or("max_size", attributes.max_size);
  attributes.ep_sdk_version = text_of(node, "ep_sdk_version");
  attributes.onnx_model_filename = text_of(node, "onnx_model_filename");
  attributes.hardware_architecture = text_of(node, "hardware_architecture");
  attributes.partition_name = text_of(node, "partition_name");
  attributes.source = text_of(node, "source");
  attributes.notes = text_of(node, "notes");
  if (attributes.embed_mode == 0)
    attributes.ep_cache_context = text_of(node, "ep_cache_context");
  else
    partition.payload_bytes = node.string_or("ep_cache_context", "").size();
  return partition;
}

void add_graph(ModelFacts& facts, const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    ++facts.nodes;
    ++facts.ops[qualified(node)];
    if (node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain)
      facts.partitions.push_back(partition_of(node));
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) {
        ++facts.subgraphs;
        add_graph(facts, *body);
      }
  }
  for (const Value& value : graph.values()) {
    if (!value.initializer || value.is_outer) continue;
    ++facts.initializers;
    facts.initializer_bytes += value.initializer->bytes().size();
  }
}

std::vector<std::pair<std::string, std::string>> types(const Model& model,
                                                       const std::vector<ValueId>& ids,
                                                       bool inputs) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const ValueId id : ids) {
    const Value& value = model.graph.value(id);
    if (inputs && value.initializer && !value.is_overridable) continue;
    result.emplace_back(value.name, to_string(value.type, model));
  }
  return result;
}

void add_external_files(ModelFacts& facts, const Model& model) {
  for (const auto& path : model.files_read) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    facts.external_files.emplace_back(path.filename().string(), error ? 0 : bytes);
  }
}

/// Operators, most frequent first.
std::vector<std::pair<std::string, std::uint64_t>> by_count(const ModelFacts& facts) {
  std::vector<std::pair<std::string, std::uint64_t>> ops(facts.ops.begin(), facts.ops.end());
  std::ranges::stable_sort(ops, std::ranges::greater{}, [](const auto& op) { return op.second; });
  return ops;
}

std::string partitions_text(const ModelFacts& facts) {
  TextTable table;
  table.row({"node", "partition", "source", "context", "architecture", "sdk"});
  for (const auto& [node, attributes, payload_bytes] : facts.partitions) {
    std::string context = attributes.main_context == 0 ? "-" : attributes.ep_cache_context;
    if (payload_bytes > 0) context = std::format("embedded, {}", size_text(payload_bytes));
    table.row({node, attributes.partition_name, attributes.source, context,
               attributes.hardware_architecture, attributes.ep_sdk_version});
  }
  return "partitions\n" + table.text("  ");
}

template <class Pairs>
void write_pairs(JsonWriter& json, const Pairs& pairs, std::string_view first,
                 std::string_view second) {
  json.begin_array();
  for (const auto& [a, b] : pairs)
    json.begin_object().field(first, a).field(second, b).end_object();
  json.end_array();
}

}  // namespace

ModelFacts model_facts(const Model& model) {
  ModelFacts facts;
  facts.name = model.file_name;
  facts.file_bytes = model.source.bytes.size();
  facts.ir_version = model.ir_version;
  facts.producer = model.producer_name;
  if (!model.producer_version.empty()) facts.producer += " " + model.producer_version;
  for (const OpsetImport& import : model.opset_imports)
    facts.opsets.emplace_back(import.domain.empty() ? "ai.onnx" : import.domain, import.version);
  facts.metadata = model.metadata;
  facts.inputs = types(model, model.graph.inputs, true);
  facts.outputs = types(model, model.graph.outputs, false);
  facts.functions = model.functions.size();
  add_graph(facts, model.graph);
  add_external_files(facts, model);
  return facts;
}

std::string model_text(const ModelFacts& facts) {
  std::string text =
      std::format("{}: {} model, {}\n", facts.name, facts.partitions.empty() ? "ONNX" : "context",
                  size_text(facts.file_bytes));
  text += std::format("IR version {}, producer {}\n", facts.ir_version,
                      facts.producer.empty() ? "unknown" : facts.producer);
  for (const auto& [domain, version] : facts.opsets)
    text += std::format("opset {} {}\n", domain, version);
  TextTable interface;
  for (const auto& [name, type] : facts.inputs) interface.row({"input", name, type});
  for (const auto& [name, type] : facts.outputs) interface.row({"output", name, type});
  text += interface.text();
  text +=
      std::format("{}, {}, {}, {}\n", count_text(facts.nodes, "node"),
                  count_text(facts.subgraphs, "subgraph"), count_text(facts.functions, "function"),
                  count_text(facts.initializers, "initializer") + " (" +
                      size_text(facts.initializer_bytes) + ")");
  TextTable ops({1});
  for (const auto& [op, count] : by_count(facts)) ops.row({op, std::to_string(count)});
  text += ops.text("  ");
  for (const auto& [name, bytes] : facts.external_files)
    text += std::format("external data {} ({})\n", name, size_text(bytes));
  for (const auto& [key, value] : facts.metadata)
    text += std::format("metadata {} = {}\n", key, value);
  if (!facts.partitions.empty()) text += partitions_text(facts);
  return text;
}

void write_model(JsonWriter& json, const ModelFacts& facts) {
  json.begin_object()
      .field("name", facts.name)
      .field("bytes", facts.file_bytes)
      .field("ir_version", facts.ir_version)
      .field("producer", facts.producer);
  write_pairs(json.key("opsets"), facts.opsets, "domain", "version");
  write_pairs(json.key("inputs"), facts.inputs, "name", "type");
  write_pairs(json.key("outputs"), facts.outputs, "name", "type");
  json.field("nodes", facts.nodes)
      .field("subgraphs", facts.subgraphs)
      .field("functions", facts.functions)
      .field("initializers", facts.initializers)
      .field("initializer_bytes", facts.initializer_bytes);
  write_pairs(json.key("ops"), by_count(facts), "op", "count");
  write_pairs(json.key("external_files"), facts.external_files, "name", "bytes");
  write_pairs(json.key("metadata"), facts.metadata, "key", "value");
  json.key("partitions").begin_array();
  for (const auto& [node, attributes, payload_bytes] : facts.partitions)
    json.begin_object()
        .field("node", node)
        .field("partition_name", attributes.partition_name)
        .field("source", attributes.source)
        .field("main_context", attributes.main_context)
        .field("embed_mode", attributes.embed_mode)
        .field("ep_cache_context", attributes.ep_cache_context)
        .field("payload_bytes", payload_bytes)
        .field("ep_sdk_version", attributes.ep_sdk_version)
        .field("hardware_architecture", attributes.hardware_architecture)
        .field("onnx_model_filename", attributes.onnx_model_filename)
        .field("notes", attributes.notes)
        .field("max_size", attributes.max_size)
        .end_object();
  json.end_array().end_object();
}

}  // namespace ctxgen::cli
