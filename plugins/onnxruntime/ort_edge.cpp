#include "ort_edge.h"

namespace ctxgen::plugin {
namespace {

OrtErrorCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return ORT_INVALID_ARGUMENT;
    case ErrorCode::kIoError: return ORT_NO_SUCHFILE;
    case ErrorCode::kInvalidGraph:
    case ErrorCode::kCorruptContext:
    case ErrorCode::kVersionMismatch: return ORT_INVALID_GRAPH;
    case ErrorCode::kUnsupported: return ORT_NOT_IMPLEMENTED;
    case ErrorCode::kBackendError: return ORT_EP_FAIL;
    case ErrorCode::kResourceLimit:
    case ErrorCode::kNotSatisfied:
    case ErrorCode::kInternal:
    case ErrorCode::kCancelled: break;
  }
  return ORT_FAIL;
}

}  // namespace

Status from_ort(const OrtApi& api, OrtStatus* status) {
  if (status == nullptr) return {};
  std::string message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  return fail(ErrorCode::kInternal, "onnxruntime: {}", message);
}

OrtStatus* to_ort(const OrtApi& api, const Error& error) noexcept {
  return api.CreateStatus(code_of(error.code), error.message.c_str());
}

void log_message(const OrtApis& ort, const OrtLogger* logger, OrtLoggingLevel level,
                 const std::string& message) noexcept {
  if (logger == nullptr) return;
  if (OrtStatus* status =
          ort.api->Logger_LogMessage(logger, level, message.c_str(), ORT_FILE, __LINE__, __func__))
    ort.api->ReleaseStatus(status);
}

}  // namespace ctxgen::plugin
