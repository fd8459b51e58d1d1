#include "context_data.h"

#include <filesystem>
#include <memory>
#include <utility>

struct OrtEpContextConfig;

namespace ctxgen::plugin {
namespace {

template <class Function>
Function find(const OrtApis& ort, const char* name) {
  if (ort.newer.experimental == nullptr) return nullptr;
  return reinterpret_cast<Function>(ort.newer.experimental(name));
}

/// Names come from models: what an application makes paths of must not lead it elsewhere.
Status check_name(const std::string& name) {
  const std::filesystem::path path(name);
  bool leaves = name.empty() || path.has_root_path() || name.contains('\0');
  for (const auto& part : path) leaves = leaves || part == "..";
  if (!leaves) return {};
  return fail(ErrorCode::kInvalidGraph, "\"{}\" is not the name of a file in the model's folder",
              name);
}

Status from_application(const OrtApis& ort, OrtStatus* status) {
  if (status == nullptr) return {};
  const std::string message = ort.api->GetErrorMessage(status);
  ort.api->ReleaseStatus(status);
  return fail(ErrorCode::kIoError, "the application's function for context data: {}", message);
}

}  // namespace

Result<ContextData> ContextData::of(const OrtApis& ort, const OrtSessionOptions& session) {
  using Get = OrtStatus* (*)(const OrtSessionOptions*, OrtEpContextConfig**);
  using Release = void (*)(OrtEpContextConfig*);
  using GetRead = OrtStatus* (*)(const OrtEpContextConfig*, Read*, void**);
  using GetWrite = OrtStatus* (*)(const OrtEpContextConfig*, Write*, void**);
  const auto get = find<Get>(ort, "OrtEpApi_SessionOptions_GetEpContextConfig_SinceV28");
  const auto release = find<Release>(ort, "OrtEpApi_ReleaseEpContextConfig_SinceV28");
  const auto get_read =
      find<GetRead>(ort, "OrtEpApi_EpContextConfig_GetEpContextDataReadFunc_SinceV28");
  const auto get_write =
      find<GetWrite>(ort, "OrtEpApi_EpContextConfig_GetEpContextDataWriteFunc_SinceV28");
  ContextData data;
  if (get == nullptr || release == nullptr || get_read == nullptr || get_write == nullptr)
    return data;
  OrtEpContextConfig* config = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, get(&session, &config)));
  const std::unique_ptr<OrtEpContextConfig, Release> owner(config, release);
  CTXGEN_CHECK(from_ort(*ort.api, get_read(config, &data.read_, &data.read_state_)));
  CTXGEN_CHECK(from_ort(*ort.api, get_write(config, &data.write_, &data.write_state_)));
  return data;
}

Result<Blob> ContextData::read(const OrtApis& ort, const std::string& name) const {
  CTXGEN_CHECK(check_name(name));
  OrtAllocator* allocator = nullptr;  // ONNX Runtime's, for the process
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetAllocatorWithDefaultOptions(&allocator)));
  void* buffer = nullptr;
  std::size_t size = 0;
  OrtStatus* status = read_(read_state_, name.c_str(), allocator, &buffer, &size);
  const std::shared_ptr<const void> owner(buffer, [allocator](const void* memory) {
    if (memory != nullptr) allocator->Free(allocator, const_cast<void*>(memory));
  });
  CTXGEN_CHECK(from_application(ort, status));
  if (buffer == nullptr && size != 0)
    return fail(ErrorCode::kIoError, "the application gives {} bytes for \"{}\" without memory",
                size, name);
  return Blob{owner, {static_cast<const std::byte*>(buffer), size}};
}

Status ContextData::write(const OrtApis& ort, const std::string& name,
                          std::span<const std::byte> bytes) const {
  return from_application(ort, write_(write_state_, name.c_str(), bytes.data(), bytes.size()));
}

}  // namespace ctxgen::plugin
