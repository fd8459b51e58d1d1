#pragma once

#include <cstddef>
#include <cstdint>

#include <onnxruntime_c_api.h>

namespace ctxgen::plugin {

/// Members that releases after 1.23 appended to OrtApi, with which the plugin is not built; null where the running
/// library lacks them.
struct NewerApi {
  /// Tells a scalar from a tensor of unknown rank (1.24).
  bool (*has_shape)(const OrtTensorTypeAndShapeInfo*) noexcept = nullptr;
  /// Type and dims of a tensor, which are the value's own: nothing is allocated, as GetTensorTypeAndShape does (1.24).
  OrtStatus* (*type_and_dims)(const OrtValue* value, ONNXTensorElementDataType* type,
                              const std::int64_t** dims, std::size_t* rank) noexcept = nullptr;
  using Function = void (*)();
  /// Functions that are not members yet, by name; null: not known (1.28).
  Function (*experimental)(const char* name) noexcept = nullptr;
};

/// `minor_version`: of the running library, 1.<minor>.
[[nodiscard]] NewerApi find_newer_api(const OrtApi& api, int minor_version) noexcept;

}  // namespace ctxgen::plugin
