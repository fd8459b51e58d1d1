#pragma once

#include <onnxruntime_c_api.h>

namespace ctxgen::plugin {

/// Members that releases after 1.23 appended to OrtApi, with which the plugin is not built; null where the running
/// library lacks them.
struct NewerApi {
  /// Tells a scalar from a tensor of unknown rank (1.24).
  bool (*has_shape)(const OrtTensorTypeAndShapeInfo*) noexcept = nullptr;
  using Function = void (*)();
  /// Functions that are not members yet, by name; null: not known (1.28).
  Function (*experimental)(const char* name) noexcept = nullptr;
};

/// `minor_version`: of the running library, 1.<minor>.
[[nodiscard]] NewerApi find_newer_api(const OrtApi& api, int minor_version) noexcept;

}  // namespace ctxgen::plugin
