// The functions of ctxgen.node, which index.js makes a class of: open(path, threads, [key, value, ...]), describe(handle), run(handle, inputs),
// close(handle). A handle belongs to the thread of JavaScript that opened it; a worker of Node opens its own.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "js_values.h"

namespace ctxgen::node {
namespace {

constexpr napi_type_tag kHandleTag = {0x63747867656e0000ULL, 0x73657373696f6e00ULL};

using SessionHandle = std::unique_ptr<ctxgen_session, decltype(&ctxgen_session_release)>;
using ContextHandle = std::unique_ptr<ctxgen_run_context, decltype(&ctxgen_run_context_release)>;
using OptionsHandle =
    std::unique_ptr<ctxgen_session_options, decltype(&ctxgen_session_options_release)>;
using ValueHandle = std::unique_ptr<ctxgen_value, decltype(&ctxgen_value_release)>;

struct OpenSession {
  SessionHandle session{nullptr, ctxgen_session_release};
  ContextHandle context{nullptr, ctxgen_run_context_release};
  bool runs = false;  // a getter of an argument may call again
};

/// The arguments of a call; nullptr for those that are missing is JavaScript's undefined.
template <std::size_t kCount>
struct Arguments {
  Arguments(napi_env env, napi_callback_info info) {
    std::size_t count = kCount;
    ok = succeeded(env, napi_get_cb_info(env, info, &count, values, nullptr, nullptr));
  }
  napi_value values[kCount] = {};
  bool ok = false;
};

/// Nothing is thrown into Node.
template <napi_value (*kFunction)(napi_env, napi_callback_info)>
napi_value guarded(napi_env env, napi_callback_info info) noexcept {
  try {
    return kFunction(env, info);
  } catch (const std::bad_alloc&) {
    throw_error(env, "RESOURCE_LIMIT", "out of memory");
  } catch (const std::exception& error) {
    throw_error(env, "INTERNAL", error.what());
  } catch (...) {
    throw_error(env, "INTERNAL", "an exception without a text");
  }
  return nullptr;
}

void finalize(napi_env /*env*/, void* data, void* /*hint*/) {
  delete static_cast<OpenSession*>(data);
}

/// What open() made, still open.
OpenSession* session_of(napi_env env, napi_value handle) {
  bool ours = false;
  void* data = nullptr;
  if (napi_check_object_type_tag(env, handle, &kHandleTag, &ours) != napi_ok || !ours ||
      napi_unwrap(env, handle, &data) != napi_ok) {
    throw_error(env, "INVALID_ARGUMENT", "no handle of a session");
    return nullptr;
  }
  auto* opened = static_cast<OpenSession*>(data);
  if (opened->session && !opened->runs) return opened;
  throw_error(env, "INVALID_ARGUMENT",
              opened->runs ? "the session runs already" : "the session is closed");
  return nullptr;
}

OptionsHandle read_options(napi_env env, napi_value threads, napi_value config) {
  OptionsHandle none(nullptr, ctxgen_session_options_release);
  std::int32_t thread_count = 0;
  ctxgen_session_options* made = nullptr;
  if (!succeeded(env, napi_get_value_int32(env, threads, &thread_count)) ||
      !succeeded(env, ctxgen_session_options_create(&made)))
    return none;
  OptionsHandle options(made, ctxgen_session_options_release);
  if (!succeeded(env, ctxgen_session_options_set_threads(made, thread_count))) return none;
  const auto texts = read_texts(env, config);
  if (!texts) return none;
  for (std::size_t i = 0; i + 1 < texts->size(); i += 2)
    if (!succeeded(env, ctxgen_session_options_set_config(made, (*texts)[i].c_str(),
                                                          (*texts)[i + 1].c_str())))
      return none;
  return options;
}

/// A text with a zero byte in it would be cut there, and another file be opened.
std::optional<std::string> read_path(napi_env env, napi_value value) {
  auto path = read_text(env, value);
  if (!path || path->find('\0') == std::string::npos) return path;
  throw_error(env, "INVALID_ARGUMENT", "a path with a zero byte in it");
  return std::nullopt;
}

napi_value open(napi_env env, napi_callback_info info) {
  const Arguments<3> arguments(env, info);
  if (!arguments.ok) return nullptr;
  const auto path = read_path(env, arguments.values[0]);
  if (!path) return nullptr;
  const OptionsHandle options = read_options(env, arguments.values[1], arguments.values[2]);
  if (!options) return nullptr;
  auto opened = std::make_unique<OpenSession>();
  ctxgen_session* session = nullptr;
  if (!succeeded(env,
                 ctxgen_session_create_from_file(nullptr, path->c_str(), options.get(), &session)))
    return nullptr;
  opened->session.reset(session);
  ctxgen_run_context* context = nullptr;
  if (!succeeded(env, ctxgen_run_context_create(session, &context))) return nullptr;
  opened->context.reset(context);
  napi_value handle = nullptr;
  if (!succeeded(env, napi_create_object(env, &handle)) ||
      !succeeded(env, napi_wrap(env, handle, opened.get(), finalize, nullptr, nullptr)))
    return nullptr;
  (void)opened.release();  // the garbage collector has it
  if (!succeeded(env, napi_type_tag_object(env, handle, &kHandleTag))) return nullptr;
  return handle;
}

napi_value close(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  OpenSession* opened = arguments.ok ? session_of(env, arguments.values[0]) : nullptr;
  if (opened == nullptr) return nullptr;
  opened->context.reset();
  opened->session.reset();
  return nullptr;
}

bool set(napi_env env, napi_value object, const char* name, napi_value value) {
  return value != nullptr && succeeded(env, napi_set_named_property(env, object, name, value));
}

napi_value info_object(napi_env env, const ctxgen_value_info& info) {
  napi_value object = nullptr, dims = nullptr, has_default = nullptr;
  if (!succeeded(env, napi_create_object(env, &object)) ||
      !succeeded(env, napi_get_boolean(env, info.has_default != 0, &has_default)))
    return nullptr;
  if (info.has_rank != 0)
    dims = dims_of(env, info.dims, info.rank);
  else if (!succeeded(env, napi_get_null(env, &dims)))
    return nullptr;
  const bool done = set(env, object, "name", text_of(env, info.name, NAPI_AUTO_LENGTH)) &&
                    set(env, object, "typeText", text_of(env, info.type_text, NAPI_AUTO_LENGTH)) &&
                    set(env, object, "dims", dims) && set(env, object, "hasDefault", has_default);
  return done ? object : nullptr;
}

using InfoFunction = ctxgen_status* (*)(const ctxgen_session*, std::size_t, ctxgen_value_info*);

napi_value infos(napi_env env, const ctxgen_session* session, std::size_t count,
                 InfoFunction function) {
  napi_value array = nullptr;
  if (!succeeded(env, napi_create_array_with_length(env, count, &array))) return nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    ctxgen_value_info info{};
    info.struct_size = sizeof info;
    if (!succeeded(env, function(session, i, &info))) return nullptr;
    const napi_value object = info_object(env, info);
    if (object == nullptr || !succeeded(env, napi_set_element(env, array, i, object)))
      return nullptr;
  }
  return array;
}

/// [inputs, outputs].
napi_value describe(napi_env env, napi_callback_info info) {
  const Arguments<1> arguments(env, info);
  const OpenSession* opened = arguments.ok ? session_of(env, arguments.values[0]) : nullptr;
  if (opened == nullptr) return nullptr;
  const ctxgen_session* session = opened->session.get();
  const napi_value inputs =
      infos(env, session, ctxgen_session_input_count(session), ctxgen_session_input);
  if (inputs == nullptr) return nullptr;
  const napi_value outputs =
      infos(env, session, ctxgen_session_output_count(session), ctxgen_session_output);
  napi_value both = nullptr;
  if (outputs == nullptr || !succeeded(env, napi_create_array_with_length(env, 2, &both)) ||
      !succeeded(env, napi_set_element(env, both, 0, inputs)) ||
      !succeeded(env, napi_set_element(env, both, 1, outputs)))
    return nullptr;
  return both;
}

bool set_texts(napi_env env, ctxgen_run_context* context, std::size_t index,
               const JsTensor& tensor) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& text : tensor.texts) {
    texts.push_back(text.data());
    sizes.push_back(text.size());
  }
  ctxgen_value* made = nullptr;
  if (!succeeded(env, ctxgen_value_create_strings(tensor.dims.data(), tensor.dims.size(),
                                                  texts.data(), sizes.data(), texts.size(), &made)))
    return false;
  const ValueHandle value(made, ctxgen_value_release);
  return succeeded(env, ctxgen_run_context_set_input_value(context, index, made));
}

bool set_input(napi_env env, ctxgen_run_context* context, std::size_t index, napi_value value) {
  napi_valuetype type = napi_undefined;
  if (!succeeded(env, napi_typeof(env, value, &type))) return false;
  if (type == napi_undefined) return true;
  const auto given = read_tensor(env, value);
  if (!given) return false;
  constexpr std::int32_t kString = 8;
  if (given->type == kString) return set_texts(env, context, index, *given);
  const ctxgen_tensor tensor{.struct_size = sizeof tensor,
                             .type = given->type,
                             .rank = given->dims.size(),
                             .dims = given->dims.data(),
                             .data = given->data,
                             .size = given->size_bytes};
  return succeeded(env, ctxgen_run_context_set_input(context, index, &tensor));
}

/// One call of run(). At its end all inputs are taken back: their memory is JavaScript's again.
class RunningCall {
 public:
  RunningCall(OpenSession& opened, std::size_t inputs) : opened_(opened), inputs_(inputs) {
    opened_.runs = true;
  }
  ~RunningCall() {
    for (std::size_t i = 0; i < inputs_; ++i)
      ctxgen_status_release(ctxgen_run_context_set_input_value(opened_.context.get(), i, nullptr));
    opened_.runs = false;
  }
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  OpenSession& opened_;
  std::size_t inputs_;
};

napi_value run(napi_env env, napi_callback_info info) {
  const Arguments<2> arguments(env, info);
  OpenSession* opened = arguments.ok ? session_of(env, arguments.values[0]) : nullptr;
  if (opened == nullptr) return nullptr;
  ctxgen_run_context* context = opened->context.get();
  const std::size_t inputs = ctxgen_session_input_count(opened->session.get());
  const std::size_t outputs = ctxgen_session_output_count(opened->session.get());
  const RunningCall call(*opened, inputs);
  for (std::uint32_t i = 0; i < inputs; ++i) {
    napi_value value = nullptr;
    if (!succeeded(env, napi_get_element(env, arguments.values[1], i, &value)) ||
        !set_input(env, context, i, value))
      return nullptr;
  }
  if (!succeeded(env, ctxgen_run_context_run(context))) return nullptr;
  napi_value results = nullptr;
  if (!succeeded(env, napi_create_array_with_length(env, outputs, &results))) return nullptr;
  for (std::uint32_t i = 0; i < outputs; ++i) {
    const napi_value tensor = tensor_of(env, context, i);
    if (tensor == nullptr || !succeeded(env, napi_set_element(env, results, i, tensor)))
      return nullptr;
  }
  return results;
}

napi_value add_functions(napi_env env, napi_value exports) {
  const std::pair<const char*, napi_callback> functions[] = {
      {"open", guarded<open>},
      {"describe", guarded<describe>},
      {"run", guarded<run>},
      {"close", guarded<close>},
  };
  for (const auto& [name, function] : functions) {
    napi_value value = nullptr;
    if (!succeeded(env,
                   napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value)) ||
        !succeeded(env, napi_set_named_property(env, exports, name, value)))
      return nullptr;
  }
  return exports;
}

}  // namespace
}  // namespace ctxgen::node

NAPI_MODULE_INIT() { return ctxgen::node::add_functions(env, exports); }
