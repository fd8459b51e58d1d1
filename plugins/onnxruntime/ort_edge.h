#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <onnxruntime_c_api.h>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/status.h"

#include "ort_newer.h"

namespace ctxgen::plugin {

/// The lowest ONNX Runtime API that the plugin needs: the one that it asks for, whatever headers it
/// was built with.
inline constexpr std::uint32_t kOldestOrtApiVersion = 23;

/// ONNX Runtime as the process has it. Copied freely; the tables live as long as the process.
struct OrtApis {
  const OrtApi* api = nullptr;
  const OrtEpApi* ep = nullptr;
  int minor_version = 0;  // of the running library: 1.<minor>
  /// What every table that we hand out says that it supports: the lower one of the library's
  /// version and ours.
  std::uint32_t tables_version = kOldestOrtApiVersion;
  std::optional<std::size_t> terminate_flag;  // see running/run_watch.h
  NewerApi newer;
};

/// Takes the status over.
[[nodiscard]] Status from_ort(const OrtApi& api, OrtStatus* status);

/// What ONNX Runtime's user gets: the code for the error (docs/onnxruntime.md, "Errors") and our
/// text.
[[nodiscard]] OrtStatus* to_ort(const OrtApi& api, const Error& error) noexcept;

/// Where there is no logger, or it fails, nothing is said.
void log_message(const OrtApis& ort, const OrtLogger* logger, OrtLoggingLevel level,
                 const std::string& message) noexcept;

/// Runs a callback of ONNX Runtime: nothing is thrown across.
template <class Body>
OrtStatus* guarded(const OrtApi& api, const char* doing, Body&& body) noexcept {
  const Status status = at_boundary(doing, std::forward<Body>(body));
  return status ? nullptr : to_ort(api, status.error());
}

}  // namespace ctxgen::plugin
