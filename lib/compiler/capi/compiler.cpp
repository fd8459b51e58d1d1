#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/log.h"
#include "ctxgen/base/version.h"
#include "ctxgen/compiler/compile_models.h"

#include "c_status.h"
#include "options.h"

using ctxgen::Blob;
using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::Status;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

struct ctxgen_compiler {
  ctxgen::CompileOptions options = ctxgen::options_named(ctxgen::OptionNames::kSetters);
  std::vector<ctxgen::ModelInput> inputs;
  std::vector<ctxgen::ModelOutput> outputs;
  std::vector<bool> has_output;
  bool ran = false;
  ctxgen::CompiledModels result;  // once it ran well
};

namespace {

template <class Change>
ctxgen_status* change(ctxgen_compiler* object, Change&& act) noexcept {
  return guarded("compiling", [&]() -> Status {
    CTXGEN_CHECK(not_null(object, "compiler"));
    if (object->ran) return fail(ErrorCode::kInvalidArgument, "the compiler ran already");
    return act(*object);
  });
}

/// Changes what belongs to the model added last.
template <class Change>
ctxgen_status* change_last(ctxgen_compiler* object, Change&& act) noexcept {
  return change(object, [&](ctxgen_compiler& c) -> Status {
    if (c.inputs.empty()) return fail(ErrorCode::kInvalidArgument, "no model was added yet");
    return act(c);
  });
}

/// The caller keeps the bytes alive.
Blob borrow(const void* data, size_t size) {
  return {nullptr, std::span(static_cast<const std::byte*>(data), size)};
}

Status add(ctxgen_compiler& compiler, ctxgen::ModelInput input) {
  compiler.inputs.push_back(std::move(input));
  compiler.outputs.emplace_back();
  compiler.has_output.push_back(false);
  return {};
}

Status set_output(ctxgen_compiler& compiler, ctxgen::ModelOutput output) {
  compiler.outputs.back() = std::move(output);
  compiler.has_output.back() = true;
  return {};
}

/// As ONNX Runtime: a model from memory has no place to be next to.
Status choose_outputs(ctxgen_compiler& compiler) {
  for (std::size_t m = 0; m < compiler.inputs.size(); ++m) {
    if (compiler.has_output[m]) continue;
    const ctxgen::ModelInput& input = compiler.inputs[m];
    if (!compiler.options.context_file_path.empty())
      compiler.outputs[m].path = compiler.options.context_file_path;
    else if (input.path.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "model \"{}\" is from memory: its output must be set", input.name);
    else
      compiler.outputs[m].path = input.path.parent_path() / ctxgen::default_output_name(input.name);
  }
  return {};
}

const ctxgen::ModelReport* report_of(const ctxgen_compiler* compiler, size_t index) {
  if (compiler == nullptr || index >= compiler->result.report.models.size()) return nullptr;
  return &compiler->result.report.models[index];
}

Status hand_out(const Blob& blob, const void** data, size_t* size) {
  *data = blob.bytes.data();
  *size = blob.bytes.size();
  return {};
}

}  // namespace

extern "C" {

const char* ctxgen_compiler_version(void) { return CTXGEN_VERSION_STRING; }

ctxgen_status* ctxgen_set_log_function(ctxgen_log_function function, void* user, int least) {
  return guarded("setting the log function", [&]() -> Status {
    if (least < CTXGEN_LOG_TRACE || least > CTXGEN_LOG_ERROR)
      return fail(ErrorCode::kInvalidArgument, "log level {} is not known", least);
    if (function == nullptr) {
      ctxgen::set_log_function({}, ctxgen::LogLevel::kOff);
      return {};
    }
    ctxgen::set_log_function(
        [function, user](ctxgen::LogLevel at, std::string_view message) {
          function(user, static_cast<ctxgen_log_level>(at), std::string(message).c_str());
        },
        static_cast<ctxgen::LogLevel>(least));
    return {};
  });
}

ctxgen_status* ctxgen_compiler_create(const ctxgen_compile_options* options,
                                      ctxgen_compiler** compiler) {
  return guarded("making a compiler", [&]() -> Status {
    CTXGEN_CHECK(not_null(options, "options"));
    CTXGEN_CHECK(not_null(compiler, "compiler"));
    auto made = std::make_unique<ctxgen_compiler>();
    made->options = options->options;
    CTXGEN_CHECK(ctxgen::apply_config(made->options, options->config));
    *compiler = made.release();
    return {};
  });
}

void ctxgen_compiler_release(ctxgen_compiler* compiler) { delete compiler; }

ctxgen_status* ctxgen_compiler_add_model_file(ctxgen_compiler* compiler, const char* path) {
  return change(compiler, [&](ctxgen_compiler& c) -> Status {
    CTXGEN_CHECK(not_null(path, "path"));
    ctxgen::ModelInput input;
    input.path = path;
    input.name = input.path.filename().string();
    if (input.name.empty())
      return fail(ErrorCode::kInvalidArgument, "model \"{}\" has no file name", path);
    return add(c, std::move(input));
  });
}

ctxgen_status* ctxgen_compiler_add_model_memory(ctxgen_compiler* compiler, const char* name,
                                                const void* data, size_t size) {
  return change(compiler, [&](ctxgen_compiler& c) -> Status {
    CTXGEN_CHECK(not_null(name, "name"));
    CTXGEN_CHECK(not_null(data, "data"));
    if (*name == '\0' || std::string_view(name).contains('/'))
      return fail(ErrorCode::kInvalidArgument, "model name \"{}\": expected a bare name", name);
    if (size == 0) return fail(ErrorCode::kInvalidArgument, "model \"{}\" has no bytes", name);
    ctxgen::ModelInput input;
    input.bytes = borrow(data, size);
    input.name = name;
    return add(c, std::move(input));
  });
}

ctxgen_status* ctxgen_compiler_add_external_data(ctxgen_compiler* compiler, const char* location,
                                                 const void* data, size_t size) {
  return change_last(compiler, [&](ctxgen_compiler& c) -> Status {
    CTXGEN_CHECK(not_null(location, "location"));
    if (size > 0) CTXGEN_CHECK(not_null(data, "data"));
    for (const auto& [known, bytes] : c.inputs.back().external_data)
      if (known == location)
        return fail(ErrorCode::kInvalidArgument, "external data \"{}\" is given twice", location);
    c.inputs.back().external_data.emplace_back(location, borrow(data, size));
    return {};
  });
}

ctxgen_status* ctxgen_compiler_set_output_file(ctxgen_compiler* compiler, const char* path) {
  return change_last(compiler, [&](ctxgen_compiler& c) -> Status {
    CTXGEN_CHECK(not_null(path, "path"));
    if (*path == '\0') return fail(ErrorCode::kInvalidArgument, "an output without a name");
    return set_output(c, {.path = path, .write = {}});
  });
}

ctxgen_status* ctxgen_compiler_set_output_memory(ctxgen_compiler* compiler) {
  return change_last(compiler, [&](ctxgen_compiler& c) { return set_output(c, {}); });
}

ctxgen_status* ctxgen_compiler_set_output_function(ctxgen_compiler* compiler,
                                                   ctxgen_write_function function, void* user) {
  return change_last(compiler, [&](ctxgen_compiler& c) -> Status {
    if (function == nullptr) return fail(ErrorCode::kInvalidArgument, "function is NULL");
    ctxgen::ModelOutput output;
    output.write = [function, user](std::span<const std::byte> bytes) -> Status {
      if (function(user, bytes.data(), bytes.size()) == 0) return {};
      return fail(ErrorCode::kCancelled, "the write function ended the compile");
    };
    return set_output(c, std::move(output));
  });
}

ctxgen_status* ctxgen_compiler_run(ctxgen_compiler* compiler) {
  return change(compiler, [&](ctxgen_compiler& c) -> Status {
    if (c.inputs.empty()) return fail(ErrorCode::kInvalidArgument, "no model was added");
    CTXGEN_CHECK(ctxgen::check_options(c.options, c.inputs.size()));
    CTXGEN_CHECK(choose_outputs(c));
    c.ran = true;
    c.result = CTXGEN_TRY(ctxgen::compile_models(c.inputs, c.outputs, c.options));
    return {};
  });
}

size_t ctxgen_compiler_model_count(const ctxgen_compiler* compiler) {
  return compiler == nullptr ? 0 : compiler->result.models.size();
}

ctxgen_status* ctxgen_compiler_model(const ctxgen_compiler* compiler, size_t index,
                                     const void** data, size_t* size) {
  return guarded("taking a model", [&]() -> Status {
    CTXGEN_CHECK(not_null(data, "data"));
    CTXGEN_CHECK(not_null(size, "size"));
    if (index >= ctxgen_compiler_model_count(compiler))
      return fail(ErrorCode::kInvalidArgument, "no compiled model {}", index);
    const Blob& model = compiler->result.models[index];
    if (model.bytes.empty())
      return fail(ErrorCode::kInvalidArgument, "model {} did not go to memory", index);
    return hand_out(model, data, size);
  });
}

size_t ctxgen_compiler_bin_count(const ctxgen_compiler* compiler) {
  return compiler == nullptr ? 0 : compiler->result.bins.size();
}

ctxgen_status* ctxgen_compiler_bin(const ctxgen_compiler* compiler, size_t index, const char** name,
                                   const void** data, size_t* size) {
  return guarded("taking a context binary", [&]() -> Status {
    CTXGEN_CHECK(not_null(name, "name"));
    CTXGEN_CHECK(not_null(data, "data"));
    CTXGEN_CHECK(not_null(size, "size"));
    if (index >= ctxgen_compiler_bin_count(compiler))
      return fail(ErrorCode::kInvalidArgument, "no context binary {} in memory", index);
    const auto& [file, bytes] = compiler->result.bins[index];
    *name = file.c_str();
    return hand_out(bytes, data, size);
  });
}

ctxgen_status* ctxgen_compiler_report(const ctxgen_compiler* compiler, size_t index,
                                      ctxgen_model_report* report) {
  return guarded("taking a report", [&]() -> Status {
    CTXGEN_CHECK(not_null(report, "report"));
    if (report->struct_size < sizeof(ctxgen_model_report))
      return fail(ErrorCode::kInvalidArgument, "report: struct_size is {}, expected {}",
                  report->struct_size, sizeof(ctxgen_model_report));
    const ctxgen::ModelReport* found = report_of(compiler, index);
    if (found == nullptr) return fail(ErrorCode::kInvalidArgument, "no report of model {}", index);
    report->input = found->input_name.c_str();
    report->output = found->output_name.c_str();
    report->nodes = found->nodes;
    report->compiled_nodes = found->compiled_nodes;
    report->folded_nodes = found->folded_nodes;
    report->partitions = found->partitions.size();
    report->model_bytes = found->model_bytes;
    report->warnings = found->warnings.size();
    return {};
  });
}

const char* ctxgen_compiler_warning(const ctxgen_compiler* compiler, size_t model, size_t index) {
  const ctxgen::ModelReport* found = report_of(compiler, model);
  return found == nullptr || index >= found->warnings.size() ? nullptr
                                                             : found->warnings[index].c_str();
}

}  // extern "C"
