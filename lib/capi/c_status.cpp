#include "c_status.h"

#include <new>
#include <string>

struct ctxgen_status {
  ctxgen_code code;
  std::string message;
  bool is_constant = false;  // said here, so that any library may release it
};

namespace ctxgen::capi {
namespace {

ctxgen_code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return CTXGEN_INVALID_ARGUMENT;
    case ErrorCode::kIoError: return CTXGEN_IO_ERROR;
    case ErrorCode::kInvalidGraph: return CTXGEN_INVALID_GRAPH;
    case ErrorCode::kCorruptContext: return CTXGEN_CORRUPT_CONTEXT;
    case ErrorCode::kVersionMismatch: return CTXGEN_VERSION_MISMATCH;
    case ErrorCode::kUnsupported: return CTXGEN_NOT_IMPLEMENTED;
    case ErrorCode::kResourceLimit: return CTXGEN_RESOURCE_LIMIT;
    case ErrorCode::kNotSatisfied: return CTXGEN_NOT_SATISFIED;
    case ErrorCode::kBackendError: return CTXGEN_BACKEND_ERROR;
    case ErrorCode::kInternal: return CTXGEN_INTERNAL;
    case ErrorCode::kCancelled: return CTXGEN_CANCELLED;
  }
  return CTXGEN_INTERNAL;
}

/// Short enough for the string's own room, so that making it allocates nothing.
ctxgen_status& no_memory() {
  static ctxgen_status status{CTXGEN_RESOURCE_LIMIT, "out of memory", true};
  return status;
}

}  // namespace

ctxgen_status* to_status(const Status& status) noexcept {
  if (status) return nullptr;
  try {
    return new ctxgen_status{code_of(status.error().code), status.error().message};
  } catch (const std::bad_alloc&) {
    return &no_memory();
  }
}

}  // namespace ctxgen::capi

extern "C" {

ctxgen_code ctxgen_status_code(const ctxgen_status* status) {
  return status == nullptr ? CTXGEN_OK : status->code;
}

const char* ctxgen_status_message(const ctxgen_status* status) {
  return status == nullptr ? "" : status->message.c_str();
}

void ctxgen_status_release(ctxgen_status* status) {
  if (status != nullptr && !status->is_constant) delete status;
}

}  // extern "C"
