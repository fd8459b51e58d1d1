#include "ctxgen/onnx_lite/content_state.h"

#include <cstdint>
#include <format>
#include <string_view>
#include <utility>

#include "ctxgen/onnx_lite/content_hash.h"
#include "ctxgen/weights/external_file.h"

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

}  // namespace ctxgen
