#include "graph/external_files.h"

#include <memory>

#include "ctxgen/base/checked.h"

namespace ctxgen::plugin {
namespace {

/// Each is open while the model is read; further ones ONNX Runtime maps.
constexpr std::size_t kMaxFiles = 64;

}  // namespace

ExternalFiles::ExternalFiles(const std::filesystem::path& model) {
  if (!model.empty()) folder_ = model.has_parent_path() ? model.parent_path() : ".";
}

const OpenedFile* ExternalFiles::open(const std::string& name) {
  const auto [place, is_new] = places_.try_emplace(name);
  if (is_new && files_.size() < kMaxFiles) {
    if (auto file = OpenedFile::open_beneath(folder_, name)) {
      place->second = files_.size();
      files_.push_back(*std::move(file));
    }
  }
  return place->second ? &files_[*place->second] : nullptr;
}

Result<std::optional<Blob>> ExternalFiles::find(const OrtApis& ort, const OrtValueInfo& info) {
  if (folder_.empty()) return std::nullopt;
  OrtExternalInitializerInfo* external = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->ValueInfo_GetExternalInitializerInfo(&info, &external)));
  if (external == nullptr) return std::nullopt;
  const std::unique_ptr<OrtExternalInitializerInfo,
                        decltype(ort.api->ReleaseExternalInitializerInfo)>
      owner(external, ort.api->ReleaseExternalInitializerInfo);
  const char* name = ort.api->ExternalInitializerInfo_GetFilePath(external);
  const std::int64_t offset = ort.api->ExternalInitializerInfo_GetFileOffset(external);
  const std::size_t size = ort.api->ExternalInitializerInfo_GetByteSize(external);
  const OpenedFile* file = name != nullptr ? open(name) : nullptr;
  if (file == nullptr || offset < 0) return std::nullopt;
  const auto begin = static_cast<std::uint64_t>(offset);
  if (!range_fits(begin, size, file->content().bytes.size())) return std::nullopt;
  return file->content().slice(begin, size);
}

}  // namespace ctxgen::plugin
