#include "js_values.h"

#include <array>
#include <cstring>
#include <memory>

namespace ctxgen::node {
namespace {

constexpr std::int32_t kString = 8;  // TensorProto.DataType

// By ctxgen_code, as the command line prints them.
constexpr std::array kCodes = {"OK",
                               "INVALID_ARGUMENT",
                               "IO_ERROR",
                               "INVALID_GRAPH",
                               "INVALID_GRAPH",
                               "INVALID_GRAPH",
                               "NOT_IMPLEMENTED",
                               "RESOURCE_LIMIT",
                               "NOT_SATISFIED",
                               "BACKEND_ERROR",
                               "INTERNAL",
                               "CANCELLED"};

using ValueHandle = std::unique_ptr<ctxgen_value, decltype(&ctxgen_value_release)>;

/// Values that are made in a loop do not pile up until the call returns.
class HandleScope {
 public:
  explicit HandleScope(napi_env env) : env_(env) {
    if (napi_open_handle_scope(env, &scope_) != napi_ok) scope_ = nullptr;
  }
  ~HandleScope() {
    if (scope_ != nullptr) napi_close_handle_scope(env_, scope_);
  }
  HandleScope(const HandleScope&) = delete;
  HandleScope& operator=(const HandleScope&) = delete;

 private:
  napi_env env_;
  napi_handle_scope scope_ = nullptr;
};

std::optional<std::uint32_t> length_of(napi_env env, napi_value array) {
  bool is_array = false;
  std::uint32_t count = 0;
  if (!succeeded(env, napi_is_array(env, array, &is_array))) return std::nullopt;
  if (!is_array) {
    throw_error(env, "INVALID_ARGUMENT", "expected an array");
    return std::nullopt;
  }
  if (!succeeded(env, napi_get_array_length(env, array, &count))) return std::nullopt;
  return count;
}

/// Node-API would round fractions and cut large numbers without a word.
std::optional<std::int64_t> read_integer(napi_env env, napi_value value) {
  constexpr double kMost = 9007199254740991;  // Number.MAX_SAFE_INTEGER
  double number = 0;
  if (!succeeded(env, napi_get_value_double(env, value, &number))) return std::nullopt;
  if (!(number >= -kMost && number <= kMost) ||
      static_cast<double>(static_cast<std::int64_t>(number)) != number) {
    throw_error(env, "INVALID_ARGUMENT", "expected an integer, got " + std::to_string(number));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

std::optional<std::vector<std::int64_t>> read_dims(napi_env env, napi_value array) {
  const auto count = length_of(env, array);
  if (!count) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const HandleScope scope(env);
    napi_value item = nullptr;
    if (!succeeded(env, napi_get_element(env, array, i, &item))) return std::nullopt;
    const auto dim = read_integer(env, item);
    if (!dim) return std::nullopt;
    dims.push_back(*dim);
  }
  return dims;
}

std::size_t element_bytes(napi_typedarray_type type) {
  switch (type) {
    case napi_int16_array:
    case napi_uint16_array: return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array: return 4;
    case napi_float64_array:
    case napi_bigint64_array:
    case napi_biguint64_array: return 8;
    default: return 1;
  }
}

bool read_bytes(napi_env env, napi_value value, JsTensor& tensor) {
  bool is_typed = false;
  if (!succeeded(env, napi_is_typedarray(env, value, &is_typed))) return false;
  if (!is_typed) {
    throw_error(env, "INVALID_ARGUMENT", "expected a typed array");
    return false;
  }
  napi_typedarray_type type = napi_int8_array;
  std::size_t count = 0;
  void* data = nullptr;
  if (!succeeded(env, napi_get_typedarray_info(env, value, &type, &count, &data, nullptr, nullptr)))
    return false;
  tensor.data = data;
  tensor.size_bytes = count * element_bytes(type);
  return true;
}

napi_value bytes_of(napi_env env, const ctxgen_tensor& tensor) {
  void* memory = nullptr;
  napi_value buffer = nullptr;
  if (!succeeded(env, napi_create_arraybuffer(env, tensor.size, &memory, &buffer))) return nullptr;
  if (tensor.size > 0) std::memcpy(memory, tensor.data, tensor.size);
  return buffer;
}

napi_value texts_of(napi_env env, const ctxgen_run_context* context, std::size_t index,
                    const ctxgen_tensor& tensor) {
  ctxgen_value* made = nullptr;
  if (!succeeded(env, ctxgen_run_context_create_output(context, index, &made))) return nullptr;
  const ValueHandle value(made, ctxgen_value_release);
  std::uint32_t count = 1;  // a tensor of strings in memory has far fewer
  for (std::size_t i = 0; i < tensor.rank; ++i) count *= static_cast<std::uint32_t>(tensor.dims[i]);
  napi_value array = nullptr;
  if (!succeeded(env, napi_create_array_with_length(env, count, &array))) return nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    const HandleScope scope(env);
    const char* text = nullptr;
    std::size_t size = 0;
    if (!succeeded(env, ctxgen_value_string(value.get(), i, &text, &size))) return nullptr;
    const napi_value item = text_of(env, text, size);
    if (item == nullptr || !succeeded(env, napi_set_element(env, array, i, item))) return nullptr;
  }
  return array;
}

}  // namespace

void throw_error(napi_env env, const char* code, const std::string& message) {
  bool pending = false;
  if (napi_is_exception_pending(env, &pending) == napi_ok && pending) return;
  napi_throw_error(env, code, message.c_str());
}

bool succeeded(napi_env env, napi_status status) {
  if (status == napi_ok) return true;
  const napi_extended_error_info* info = nullptr;
  const bool known = napi_get_last_error_info(env, &info) == napi_ok && info != nullptr &&
                     info->error_message != nullptr;
  throw_error(env, "INVALID_ARGUMENT", known ? info->error_message : "a call of Node-API failed");
  return false;
}

bool succeeded(napi_env env, ctxgen_status* status) {
  if (status == nullptr) return true;
  const auto code = static_cast<std::size_t>(ctxgen_status_code(status));
  throw_error(env, code < kCodes.size() ? kCodes[code] : "INTERNAL", ctxgen_status_message(status));
  ctxgen_status_release(status);
  return false;
}

std::optional<std::string> read_text(napi_env env, napi_value value) {
  std::size_t size = 0;
  if (!succeeded(env, napi_get_value_string_utf8(env, value, nullptr, 0, &size)))
    return std::nullopt;
  std::string text(size + 1, '\0');  // Node-API writes a zero byte after it
  if (!succeeded(env, napi_get_value_string_utf8(env, value, text.data(), text.size(), &size)))
    return std::nullopt;
  text.resize(size);
  return text;
}

std::optional<std::vector<std::string>> read_texts(napi_env env, napi_value array) {
  const auto count = length_of(env, array);
  if (!count) return std::nullopt;
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const HandleScope scope(env);
    napi_value item = nullptr;
    if (!succeeded(env, napi_get_element(env, array, i, &item))) return std::nullopt;
    auto text = read_text(env, item);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
  }
  return texts;
}

napi_value text_of(napi_env env, const char* text, std::size_t size) {
  napi_value value = nullptr;
  return succeeded(env, napi_create_string_utf8(env, text, size, &value)) ? value : nullptr;
}

std::optional<JsTensor> read_tensor(napi_env env, napi_value value) {
  JsTensor tensor;
  napi_value type = nullptr, dims = nullptr, data = nullptr;
  if (!length_of(env, value) || !succeeded(env, napi_get_element(env, value, 0, &type)) ||
      !succeeded(env, napi_get_element(env, value, 1, &dims)) ||
      !succeeded(env, napi_get_element(env, value, 2, &data)) ||
      !succeeded(env, napi_get_value_int32(env, type, &tensor.type)))
    return std::nullopt;
  auto sizes = read_dims(env, dims);
  if (!sizes) return std::nullopt;
  tensor.dims = *std::move(sizes);
  if (tensor.type != kString)
    return read_bytes(env, data, tensor) ? std::optional(std::move(tensor)) : std::nullopt;
  auto texts = read_texts(env, data);
  if (!texts) return std::nullopt;
  tensor.texts = *std::move(texts);
  return tensor;
}

napi_value dims_of(napi_env env, const std::int64_t* dims, std::size_t rank) {
  napi_value array = nullptr;
  if (!succeeded(env, napi_create_array_with_length(env, rank, &array))) return nullptr;
  for (std::uint32_t i = 0; i < rank; ++i) {
    napi_value dim = nullptr;
    if (!succeeded(env, napi_create_int64(env, dims[i], &dim)) ||
        !succeeded(env, napi_set_element(env, array, i, dim)))
      return nullptr;
  }
  return array;
}

napi_value tensor_of(napi_env env, const ctxgen_run_context* context, std::size_t index) {
  ctxgen_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  if (!succeeded(env, ctxgen_run_context_output(context, index, &tensor))) return nullptr;
  napi_value result = nullptr, type = nullptr;
  if (!succeeded(env, napi_create_array_with_length(env, 3, &result)) ||
      !succeeded(env, napi_create_int32(env, tensor.type, &type)))
    return nullptr;
  const napi_value dims = dims_of(env, tensor.dims, tensor.rank);
  if (dims == nullptr) return nullptr;
  const napi_value data =
      tensor.type == kString ? texts_of(env, context, index, tensor) : bytes_of(env, tensor);
  if (data == nullptr || !succeeded(env, napi_set_element(env, result, 0, type)) ||
      !succeeded(env, napi_set_element(env, result, 1, dims)) ||
      !succeeded(env, napi_set_element(env, result, 2, data)))
    return nullptr;
  return result;
}

}  // namespace ctxgen::node
