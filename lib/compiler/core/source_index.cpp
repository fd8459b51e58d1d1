#include "ctxgen/compiler/source_index.h"

#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/file.h"
#include "ctxgen/onnx_lite/external_place.h"

namespace ctxgen {
namespace {

constexpr std::string_view kKey = "ep.enable_weightless_mode";

std::uintptr_t address(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data());
}

}  // namespace

Result<std::string> file_reference(const std::filesystem::path& model_folder,
                                   const std::filesystem::path& file) {
  const auto absolute = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path.empty() ? "." : path).lexically_normal();
  };
  const std::string relative = absolute(file)
                                   .lexically_relative(absolute(model_folder / "x").parent_path())
                                   .generic_string();
  if (relative.empty() || relative == "." || relative == ".." || relative.starts_with("../"))
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\" must be in or below the folder of the context model (\"{}\")",
                file.string(), model_folder.string());
  return relative;
}

Result<const std::string*> SourceIndex::add_file(const std::filesystem::path& path,
                                                 const std::filesystem::path* output_folder) {
  if (output_folder == nullptr)
    return fail(
        ErrorCode::kInvalidArgument,
        "{}: weights are found from the context model's folder, which is not known: write it "
        "to a file or give ep.context_file_path",
        kKey);
  auto reference = CTXGEN_TRY_AT(file_reference(*output_folder, path), "{}", kKey);
  // As a load will look for it: a link that leaves the folder shows now.
  const Blob bytes =
      CTXGEN_TRY(map_file_beneath(output_folder->empty() ? "." : *output_folder, reference));
  return &files_.emplace(std::move(reference), bytes.bytes.size()).first->first;
}

Status SourceIndex::add(const Model& model, const Source& source, WeightlessMode mode,
                        const std::filesystem::path* output_folder) {
  if (mode == WeightlessMode::kNone) return {};
  if (source.external_data_in_memory)
    return fail(ErrorCode::kInvalidArgument,
                "{}: external data of \"{}\" is in memory, no file holds it", kKey, source.name);
  if (mode == WeightlessMode::kAll) {
    if (source.path.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "{}=2: \"{}\" is from memory, no file holds its weights", kKey, source.name);
    const std::string* file = CTXGEN_TRY(add_file(source.path, output_folder));
    parts_[address(model.source.bytes)] = {model.source.bytes.size(), 0, file};
  }
  for (const Value& value : model.graph.values()) {
    const auto place = CTXGEN_TRY(external_place(model, value));
    if (!place) continue;
    const std::string* file = CTXGEN_TRY(add_file(model.folder / place->location, output_folder));
    const auto bytes = value.initializer->bytes();
    if (!bytes.empty()) parts_[address(bytes)] = {bytes.size(), place->offset, file};
  }
  return {};
}

const std::pair<const std::uintptr_t, SourceIndex::Part>* SourceIndex::find(
    std::span<const std::byte> bytes) const {
  if (bytes.empty()) return nullptr;
  auto part = parts_.upper_bound(address(bytes));
  if (part == parts_.begin()) return nullptr;
  --part;
  const std::uint64_t inside = address(bytes) - part->first;
  return range_fits(inside, bytes.size(), part->second.size) ? &*part : nullptr;
}

std::vector<std::string> SourceIndex::files() const {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_) names.push_back(name);
  return names;
}

std::optional<WeightReference> SourceIndex::reference(std::span<const std::byte> bytes,
                                                      Hash128 hash) const {
  const auto* part = find(bytes);
  if (part == nullptr) return std::nullopt;
  const auto& [begin, place] = *part;
  return WeightReference{.file = *place.file,
                         .file_size = files_.at(*place.file),
                         .offset = place.offset + (address(bytes) - begin),
                         .size = bytes.size(),
                         .hash = hash};
}

}  // namespace ctxgen
