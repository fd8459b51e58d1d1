#pragma once

// Values of JavaScript from and for the runtime's C API. A function that gives nothing (or false) has thrown in JavaScript: its caller returns.

#define NAPI_VERSION 8
#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen_runtime.h"

namespace ctxgen::node {

/// Throws an Error whose `code` is `code`.
void throw_error(napi_env env, const char* code, const std::string& message);
[[nodiscard]] bool succeeded(napi_env env, napi_status status);
/// Releases the status.
[[nodiscard]] bool succeeded(napi_env env, ctxgen_status* status);

[[nodiscard]] std::optional<std::string> read_text(napi_env env, napi_value value);
[[nodiscard]] std::optional<std::vector<std::string>> read_texts(napi_env env, napi_value array);
[[nodiscard]] napi_value text_of(napi_env env, const char* text, std::size_t size);

/// [type, dims, data] of index.js.
///
/// Lifetime  `data` is that of the typed array: during the call from JavaScript only.
struct JsTensor {
  std::int32_t type = 0;
  std::vector<std::int64_t> dims;
  const void* data = nullptr;
  std::size_t size_bytes = 0;
  std::vector<std::string> texts;  // of type string, in place of data
};
[[nodiscard]] std::optional<JsTensor> read_tensor(napi_env env, napi_value value);

/// The same for output `index` of the last run; data is an ArrayBuffer of its own, or an array of texts.
[[nodiscard]] napi_value tensor_of(napi_env env, const ctxgen_run_context* context,
                                   std::size_t index);
[[nodiscard]] napi_value dims_of(napi_env env, const std::int64_t* dims, std::size_t rank);

}  // namespace ctxgen::node
