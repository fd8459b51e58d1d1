#pragma once

#include <atomic>
#include <string>

#include "ctxgen/ctxfile/executable.h"

#include "ort_edge.h"
#include "ort_tables.h"

namespace ctxgen::plugin {

/// Tells ONNX Runtime what the plugin is for the programs of one provider, and makes one execution
/// provider per session.
///
/// Lifetime  until it was released and its last execution provider, too: a session that outlives its
///           environment, or the registration of the library, gives its execution provider back
///           through the factory.
class Factory final : public EpFactoryTable {
 public:
  /// `logger`: ONNX Runtime's own, which lives as long as the registration.
  [[nodiscard]] static OrtEpFactory* make(OrtApis ort, const ProgramLoader& loader,
                                          const OrtLogger* logger);
  static void release(OrtEpFactory* factory) noexcept;

 private:
  Factory(OrtApis ort, const ProgramLoader& loader, const OrtLogger* logger);
  ~Factory() = default;
  void fill_execution_providers() noexcept;
  void fill_devices() noexcept;
  void drop() noexcept;
  [[nodiscard]] Status find_devices(std::span<const OrtHardwareDevice* const> devices,
                                    std::span<OrtEpDevice*> ep_devices, std::size_t& count);
  [[nodiscard]] Status explain(const OrtHardwareDevice& device,
                               OrtDeviceEpIncompatibilityDetails& details) const;
  [[nodiscard]] OrtCompiledModelCompatibility judge(const char* info) const;

  OrtApis ort_;
  const ProgramLoader& loader_;
  std::string name_;  // the EP's: the loader's source
  const OrtLogger* logger_;
  std::atomic<int> owners_ = 1;  // ONNX Runtime's registration and the execution providers
};

}  // namespace ctxgen::plugin
