#include "ctxgen/onnx_lite/context_node.h"

#include <string>
#include <string_view>

namespace ctxgen {
namespace {

Result<std::int64_t> flag_attribute(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr) return 1;  // the schema's default of both flags
  if (attribute->kind != AttributeKind::kInt || (attribute->i != 0 && attribute->i != 1))
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" is not 0 or 1", node.describe(),
                name);
  return attribute->i;
}

Status text_attribute(const Node& node, std::string_view name, std::string& text) {
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr) return {};
  if (attribute->kind != AttributeKind::kString)
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" is not a string", node.describe(),
                name);
  text = attribute->s;
  return {};
}

}  // namespace

bool is_ep_context(const Node& node) {
  return node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain;
}

Result<EpContextAttributes> read_ep_context(const Node& node) {
  EpContextAttributes result;
  result.main_context = CTXGEN_TRY(flag_attribute(node, "main_context"));
  result.embed_mode = CTXGEN_TRY(flag_attribute(node, "embed_mode"));
  if (result.embed_mode == 0)
    CTXGEN_CHECK(text_attribute(node, "ep_cache_context", result.ep_cache_context));
  CTXGEN_CHECK(text_attribute(node, "ep_sdk_version", result.ep_sdk_version));
  CTXGEN_CHECK(text_attribute(node, "onnx_model_filename", result.onnx_model_filename));
  CTXGEN_CHECK(text_attribute(node, "hardware_architecture", result.hardware_architecture));
  CTXGEN_CHECK(text_attribute(node, "partition_name", result.partition_name));
  CTXGEN_CHECK(text_attribute(node, "source", result.source));
  CTXGEN_CHECK(text_attribute(node, "notes", result.notes));
  result.max_size = node.int_or("max_size", 0);
  return result;
}

}  // namespace ctxgen
