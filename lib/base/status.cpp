#include "ctxgen/base/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace ctxgen {
namespace {

constexpr std::array<ErrorInfo, 11> kErrors{{
    {ErrorCode::kInvalidArgument, "INVALID_ARGUMENT", 1, "a flag, option or argument is wrong"},
    {ErrorCode::kIoError, "IO_ERROR", 3, "a file could not be opened, read, written or renamed"},
    {ErrorCode::kInvalidGraph, "INVALID_GRAPH", 2, "the model breaks the rules of ONNX"},
    {ErrorCode::kCorruptContext, "INVALID_GRAPH", 2, "the context binary is missing or damaged"},
    {ErrorCode::kVersionMismatch, "INVALID_GRAPH", 2,
     "the context was made for another format, major version of oneDNN or instruction set"},
    {ErrorCode::kUnsupported, "NOT_IMPLEMENTED", 2, "a valid model uses something not supported"},
    {ErrorCode::kResourceLimit, "RESOURCE_LIMIT", 2,
     "a declared size exceeds a limit, or memory ran out"},
    {ErrorCode::kNotSatisfied, "NOT_SATISFIED", 4,
     "the result is not what was asked (strict, verify, check, test data)"},
    {ErrorCode::kBackendError, "BACKEND_ERROR", 5, "oneDNN failed on an accepted configuration"},
    {ErrorCode::kInternal, "INTERNAL", 5, "a bug in ctxgen"},
    {ErrorCode::kCancelled, "CANCELLED", 130, "interrupted"},
}};

}  // namespace

const ErrorInfo& error_info(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  CTXGEN_ASSERT(index < kErrors.size() && kErrors[index].code == code);
  return kErrors[index];
}

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace ctxgen
