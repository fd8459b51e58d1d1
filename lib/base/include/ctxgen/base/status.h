#pragma once

#include <expected>
#include <format>
#include <string>
#include <string_view>
#include <utility>

namespace ctxgen {

/// Everything that can go wrong, one enumerator per kind of cause. The table in status.cpp gives
/// each its printed name and the exit status of the command line.
enum class ErrorCode {
  kInvalidArgument,  // a flag, option or API argument is wrong
  kIoError,          // a file could not be opened, read, mapped, written or renamed
  kInvalidGraph,     // the model breaks ONNX rules
  kCorruptContext,   // the context binary is missing, unreadable or fails verification
  kVersionMismatch,  // well formed, but another format major, oneDNN version or instruction set
  kUnsupported,      // valid, but not supported
  kResourceLimit,    // a declared size passes a limit, checked before allocating
  kNotSatisfied,     // not what was asked: strict, require-compiled, verify, check, test data
  kBackendError,     // oneDNN failed on an accepted configuration
  kInternal,         // a bug in ctxgen
  kCancelled,        // interrupted by the user or the caller
};

struct Error {
  ErrorCode code;
  std::string message;  // lower case, no final stop, names the culprit, gives expected and actual
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

struct ErrorInfo {
  ErrorCode code;
  std::string_view printed;  // "INVALID_GRAPH"
  int exit_status;           // of the command line
  std::string_view when;     // one line for --help and docs/cli.md
};

/// The one table of error codes, in enumerator order.
[[nodiscard]] const ErrorInfo& error_info(ErrorCode code);

/// Builds the unexpected value that a failing function returns.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail(ErrorCode code, std::format_string<Args...> format,
                                          Args&&... args) {
  return std::unexpected(Error{code, std::format(format, std::forward<Args>(args)...)});
}

/// The same error with `context` and ": " before its message: for callers that know the culprit.
[[nodiscard]] inline Error with_context(Error error, std::string_view context) {
  error.message = std::format("{}: {}", context, error.message);
  return error;
}

/// Ends the process with a message. For our own mistakes only; no input may reach one.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace ctxgen

// The value of a Result, or a return of its error from the calling function.
#define CTXGEN_TRY(expr)                                                      \
  __extension__({                                                             \
    auto try_result_ = (expr);                                                \
    if (!try_result_) return std::unexpected(std::move(try_result_).error()); \
    std::move(*try_result_);                                                  \
  })

// The statement form for Status.
#define CTXGEN_CHECK(expr)                                                        \
  do {                                                                            \
    auto check_status_ = (expr);                                                  \
    if (!check_status_) return std::unexpected(std::move(check_status_).error()); \
  } while (false)

// The same with a place before the message: CTXGEN_TRY_AT(map_file(path), "tensor \"{}\"", name).
#define CTXGEN_TRY_AT(expr, ...)                                                             \
  __extension__({                                                                            \
    auto try_result_ = (expr);                                                               \
    if (!try_result_)                                                                        \
      return std::unexpected(                                                                \
          ::ctxgen::with_context(std::move(try_result_).error(), std::format(__VA_ARGS__))); \
    std::move(*try_result_);                                                                 \
  })
#define CTXGEN_CHECK_AT(expr, ...)                                                             \
  do {                                                                                         \
    auto check_status_ = (expr);                                                               \
    if (!check_status_)                                                                        \
      return std::unexpected(                                                                  \
          ::ctxgen::with_context(std::move(check_status_).error(), std::format(__VA_ARGS__))); \
  } while (false)

#define CTXGEN_ASSERT(expr) \
  ((expr) ? static_cast<void>(0) : ::ctxgen::assertion_failed(#expr, __FILE__, __LINE__))
