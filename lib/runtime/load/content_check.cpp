#include "load/content_check.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/log.h"
#include "ctxgen/onnx_lite/content_hash.h"
#include "ctxgen/weights/external_file.h"

#include "load/context_set.h"

namespace ctxgen {
namespace {

Result<Hash128> hash_of(const Model& model, std::span<const FileRead> files) {
  ExternalDataResolver resolver({});
  for (const FileRead& file : files) resolver.add_buffer(file.location, file.bytes);
  return content_hash(model.source.bytes,
                      [&resolver](const ExternalDataRef& ref, std::uint64_t size,
                                  std::string_view tensor) -> Result<std::span<const std::byte>> {
                        return CTXGEN_TRY(resolver.resolve(ref, size, tensor)).bytes;
                      });
}

/// Why the file of external initializers is damaged; nothing if it is not, or not known to be.
std::string external_damage(const Model& model) {
  for (const auto& [key, value] : model.metadata)
    if (key == kExternalFileKey)
      if (const auto verified = verify_external_file(model.folder, value); !verified)
        return verified.error().message;
  return "";
}

/// Embedded context binaries: their reader verifies them.
std::uint64_t embedded_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const Node& node : graph.nodes())
    if (is_ep_context(node)) bytes += node.string_or("ep_cache_context", "").size();
  return bytes;
}

}  // namespace

Result<ContentCheck> check_content(const Model& model, std::span<const FileRead> files) {
  const auto recorded = CTXGEN_TRY(recorded_content(model.source.bytes));
  if (!recorded)
    return ContentCheck{ContentState::kNotCovered,
                        std::format("no \"{}\": what stays in the model is not covered by a hash",
                                    kContentHashKey)};
  const std::string found = CTXGEN_TRY(hash_of(model, files)).hex();
  if (found == recorded->hash) return ContentCheck{ContentState::kIntact, "content " + found};
  if (std::string damage = external_damage(model); !damage.empty())
    return ContentCheck{ContentState::kDamaged, std::move(damage)};
  if (recorded->as_written)
    return ContentCheck{
        ContentState::kDamaged,
        std::format("what stays in the model (nodes, initializers, interface, external "
                    "data) is damaged: it has hash {}, expected {}",
                    found, recorded->hash)};
  return ContentCheck{
      ContentState::kChanged,
      std::format(
          "changed since it was compiled: a tool saved it with different content (nodes, initializers, interface or external data), hash {}, compiled with {}",
          found, recorded->hash)};
}

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
