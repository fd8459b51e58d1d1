#include "load/content_check.h"

#include <algorithm>

#include "ctxgen/base/log.h"
#include "ctxgen/onnx_lite/context_node.h"

#include "load/context_set.h"

namespace ctxgen {
namespace {

/// Embedded context binaries: their reader verifies them.
std::uint64_t embedded_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const Node& node : graph.nodes())
    if (is_ep_context(node)) bytes += node.string_or("ep_cache_context", "").size();
  return bytes;
}

}  // namespace

Status check_content_at_load(const Model& model, std::span<const FileRead> files,
                             VerifyBlobs when) {
  std::uint64_t bytes =
      model.source.bytes.size() -
      std::min<std::uint64_t>(embedded_bytes(model.graph), model.source.bytes.size());
  for (const FileRead& file : files) bytes += file.bytes.bytes.size();
  if (!verifies(when, bytes)) return {};
  const ContentCheck check = CTXGEN_TRY(check_content(model, files));
  const std::string name = model.file_name.empty() ? "the model" : model.file_name;
  if (check.state == ContentState::kDamaged)
    return fail(ErrorCode::kCorruptContext, "{}: {}", name, check.detail);
  if (check.state == ContentState::kChanged) log(LogLevel::kWarning, "{}: {}", name, check.detail);
  return {};
}

}  // namespace ctxgen
