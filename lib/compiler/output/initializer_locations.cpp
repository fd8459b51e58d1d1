#include "output/initializer_locations.h"

#include <algorithm>
#include <vector>

#include "ctxgen/base/checked.h"
#include "ctxgen/compiler/source_index.h"
#include "ctxgen/onnx_lite/external_place.h"

namespace ctxgen {
namespace {

std::unexpected<Error> refused(const Value& value, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "initializer \"{}\": {}", value.name, why);
}

/// ONNX's rule for locations, which every reader checks: relative, and never upwards.
Status check_file(const Value& value, const std::string& file) {
  const std::filesystem::path path(file);
  if (file.empty() || file.contains('\0') || path.is_absolute() || !path.has_filename() ||
      std::ranges::contains(path, std::filesystem::path("..")))
    return refused(
        value,
        std::format(
            "location \"{}\" must be a relative path of a file below the context model's folder",
            file));
  return {};
}

/// The source's own place, as the context model names it.
Result<ExternalPlace> keep(const Model& model, const Value& value,
                           const std::optional<ExternalDataRef>& given,
                           const std::filesystem::path* output_folder) {
  if (!given) return refused(value, "its bytes are inline, so it has no location to keep");
  ExternalPlace place{given->offset, value.initializer->bytes().size(), given->location};
  if (output_folder == nullptr) return place;
  auto reference = file_reference(*output_folder, model.folder / given->location);
  if (!reference)
    return refused(value, std::format("location \"{}\" cannot be kept: {}", given->location,
                                      reference.error().message));
  place.location = std::move(*reference);
  return place;
}

Status locate(const Model& model, const Value& value, const CompileOptions& options,
              const std::filesystem::path* output_folder, std::optional<ExternalPlace>& result) {
  const auto given = CTXGEN_TRY(external_place(model, value));
  InitializerInfo info{.model = model.file_name,
                       .name = value.name,
                       .type = value.initializer->type(),
                       .dims = value.initializer->dims(),
                       .bytes = value.initializer->bytes(),
                       .external = {}};
  if (given) info.external = InitializerPlace{given->location, given->offset};
  const InitializerLocation answer = CTXGEN_TRY(options.initializer_location(info));
  switch (answer.kind) {
    case InitializerLocation::Kind::kInline: return {};
    case InitializerLocation::Kind::kKeep:
      result = CTXGEN_TRY(keep(model, value, given, output_folder));
      return {};
    case InitializerLocation::Kind::kPlace: break;
  }
  CTXGEN_CHECK(check_file(value, answer.place.file));
  if (!checked_add(answer.place.offset, std::uint64_t{info.bytes.size()}))
    return refused(value, std::format("offset {} passes 64 bits", answer.place.offset));
  result = ExternalPlace{answer.place.offset, info.bytes.size(), answer.place.file};
  return {};
}

}  // namespace

Status locate_initializers(const Model& model, const CompileOptions& options,
                           const std::filesystem::path* output_folder, ModelRewrite& rewrite) {
  if (!options.initializer_location) return {};
  std::vector<ValueId> ids = rewrite.initializers;
  std::ranges::sort(ids, {},
                    [&](ValueId id) -> const std::string& { return model.graph.value(id).name; });
  for (const ValueId id : ids) {
    const Value& value = model.graph.value(id);
    // ONNX has no external form of strings and of sparse tensors.
    if (!value.initializer || value.is_sparse || value.initializer->is_string()) continue;
    std::optional<ExternalPlace> place;
    CTXGEN_CHECK(locate(model, value, options, output_folder, place));
    if (place) rewrite.external.emplace(id, std::move(*place));
  }
  return {};
}

}  // namespace ctxgen
