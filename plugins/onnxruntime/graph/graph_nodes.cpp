#include "graph/graph_nodes.h"

#include <format>

#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/registry/loaders.h"

namespace ctxgen::plugin {
namespace {

/// nullptr where the node has no such attribute, whichever way ONNX Runtime says that.
const OrtOpAttr* find_attribute(const OrtApis& ort, const OrtNode& node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  OrtStatus* status = ort.api->Node_GetAttributeByName(&node, name, &attribute);
  if (status == nullptr) return attribute;
  ort.api->ReleaseStatus(status);
  return nullptr;
}

Status check_kind(const OrtApis& ort, const OrtOpAttr& attribute, const char* name,
                  OrtOpAttrType expected) {
  OrtOpAttrType kind = ORT_OP_ATTR_UNDEFINED;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->OpAttr_GetType(&attribute, &kind)));
  if (kind == expected) return {};
  return fail(ErrorCode::kInvalidGraph, "attribute \"{}\" must be {}", name,
              expected == ORT_OP_ATTR_INT ? "integer" : "string");
}

Status read_text(const OrtApis& ort, const OrtNode& node, const char* name, std::string& text) {
  const OrtOpAttr* attribute = find_attribute(ort, node, name);
  if (attribute == nullptr) return {};
  CTXGEN_CHECK(check_kind(ort, *attribute, name, ORT_OP_ATTR_STRING));
  std::size_t size = 0;  // the first call fails on purpose, and gives the size
  if (OrtStatus* status = ort.api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &size))
    ort.api->ReleaseStatus(status);
  text.resize(size);
  if (size == 0) return {};
  return from_ort(*ort.api,
                  ort.api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), size, &size));
}

Status read_flag(const OrtApis& ort, const OrtNode& node, const char* name, std::int64_t& flag) {
  const OrtOpAttr* attribute = find_attribute(ort, node, name);
  if (attribute == nullptr) return {};  // the schema's default is there already
  CTXGEN_CHECK(check_kind(ort, *attribute, name, ORT_OP_ATTR_INT));
  std::size_t size = 0;
  CTXGEN_CHECK(from_ort(
      *ort.api, ort.api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &flag, sizeof flag, &size)));
  if (flag == 0 || flag == 1) return {};
  return fail(ErrorCode::kInvalidGraph, "attribute \"{}\" is {}, expected 0 or 1", name, flag);
}

std::string describe(const OrtApis& ort, const OrtNode& node) {
  const char* name = "";
  if (OrtStatus* status = ort.api->Node_GetName(&node, &name)) ort.api->ReleaseStatus(status);
  return std::format("node \"{}\" (EPContext)", name);
}

Status read_attributes(const OrtApis& ort, const OrtNode& node, EpContextAttributes& attributes) {
  CTXGEN_CHECK(read_flag(ort, node, "main_context", attributes.main_context));
  CTXGEN_CHECK(read_flag(ort, node, "embed_mode", attributes.embed_mode));
  CTXGEN_CHECK(read_text(ort, node, "ep_cache_context", attributes.ep_cache_context));
  CTXGEN_CHECK(read_text(ort, node, "partition_name", attributes.partition_name));
  CTXGEN_CHECK(read_text(ort, node, "source", attributes.source));
  CTXGEN_CHECK(read_text(ort, node, "onnx_model_filename", attributes.onnx_model_filename));
  return read_text(ort, node, "notes", attributes.notes);
}

}  // namespace

Result<std::vector<std::string>> names_of(const OrtApis& ort,
                                          const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> names;
  for (const OrtValueInfo* value : values) {
    const char* name = "";
    if (value != nullptr) CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetValueInfoName(value, &name)));
    names.emplace_back(name);
  }
  return names;
}

Result<std::vector<const OrtNode*>> nodes_of(const OrtApis& ort, const OrtGraph& graph) {
  std::size_t count = 0;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Graph_GetNumNodes(&graph, &count)));
  std::vector<const OrtNode*> nodes(count);
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Graph_GetNodes(&graph, nodes.data(), count)));
  return nodes;
}

bool is_ours(const OrtApis& ort, std::string_view name, const OrtNode& node) {
  const char* type = "";
  const char* domain = "";
  const Status known = [&]() -> Status {
    CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetOperatorType(&node, &type)));
    return from_ort(*ort.api, ort.api->Node_GetDomain(&node, &domain));
  }();
  if (!known || std::string_view(type) != kEpContextOpType ||
      std::string_view(domain) != kMicrosoftDomain)
    return false;
  std::string source;
  return read_text(ort, node, "source", source).has_value() && source == name;
}

Result<ContextNode> read_context_node(const OrtApis& ort, const OrtNode& node) {
  ContextNode result;
  result.where = describe(ort, node);
  if (auto status = read_attributes(ort, node, result.attributes); !status)
    return std::unexpected(with_context(std::move(status).error(), result.where));
  result.loader = find_loader(default_loaders(), result.attributes.source);
  if (result.attributes.embed_mode == 1) {
    if (result.attributes.main_context == 1 && result.attributes.ep_cache_context.empty())
      return fail(ErrorCode::kCorruptContext,
                  "{}: embed_mode is 1, but ep_cache_context holds no payload", result.where);
    const auto bytes = as_bytes(result.attributes.ep_cache_context);
    result.payload = Blob::own({bytes.begin(), bytes.end()});
    result.attributes.ep_cache_context.clear();
  }
  return result;
}

Result<std::vector<std::string>> input_names(const OrtApis& ort, const OrtNode& node) {
  std::size_t count = 0;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetNumInputs(&node, &count)));
  std::vector<const OrtValueInfo*> values(count);
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetInputs(&node, values.data(), count)));
  return names_of(ort, values);
}

Result<std::vector<std::string>> output_names(const OrtApis& ort, const OrtNode& node) {
  std::size_t count = 0;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetNumOutputs(&node, &count)));
  std::vector<const OrtValueInfo*> values(count);
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetOutputs(&node, values.data(), count)));
  return names_of(ort, values);
}

Result<std::filesystem::path> model_path(const OrtApis& ort, const OrtGraph& graph) {
  const ORTCHAR_T* path = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Graph_GetModelPath(&graph, &path)));
  return std::filesystem::path(path == nullptr ? "" : path);
}

}  // namespace ctxgen::plugin
