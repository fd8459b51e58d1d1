#pragma once

#include "ort_edge.h"

namespace ctxgen::plugin {

/// Tells ONNX Runtime what the plugin is and makes one execution provider per session.
class Factory final : public OrtEpFactory {
 public:
  explicit Factory(OrtApis ort);

 private:
  [[nodiscard]] Status find_devices(std::span<const OrtHardwareDevice* const> devices,
                                    std::span<OrtEpDevice*> ep_devices, std::size_t& count);
  OrtApis ort_;
};

}  // namespace ctxgen::plugin
