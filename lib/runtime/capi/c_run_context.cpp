#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ctxgen/runtime/run_context.h"
#include "ctxgen/runtime/trace.h"

#include "c_session.h"
#include "c_status.h"
#include "value.h"

using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::Result;
using ctxgen::RuntimeValue;
using ctxgen::Status;
using ctxgen::capi::EnvironmentScope;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

struct ctxgen_run_context {
  std::shared_ptr<const ctxgen::capi::LoadedModel> model;  // outlives the context
  std::unique_ptr<ctxgen::RunContext> context;
  bool profiling = false;
  ctxgen::Trace trace;
};

namespace {

template <class Change>
ctxgen_status* change(ctxgen_run_context* object, Change&& act) noexcept {
  return guarded("preparing a run", [&]() -> Status {
    CTXGEN_CHECK(not_null(object, "context"));
    return act(*object->context);
  });
}

Result<const RuntimeValue*> output_of(const ctxgen_run_context* context, size_t index) {
  CTXGEN_CHECK(not_null(context, "context"));
  const auto outputs = context->context->outputs();
  if (index < outputs.size()) return &outputs[index];
  return fail(ErrorCode::kInvalidArgument, "no output {}: the last run gave {}", index,
              outputs.size());
}

}  // namespace

extern "C" {

ctxgen_status* ctxgen_run_context_create(const ctxgen_session* session,
                                         ctxgen_run_context** context) {
  return guarded("making a run context", [&]() -> Status {
    CTXGEN_CHECK(not_null(session, "session"));
    CTXGEN_CHECK(not_null(context, "context"));
    auto made = std::make_unique<ctxgen_run_context>();
    made->model = session->model;
    made->context = CTXGEN_TRY(session->model->session->make_context());
    *context = made.release();
    return {};
  });
}

void ctxgen_run_context_release(ctxgen_run_context* context) { delete context; }

ctxgen_status* ctxgen_run_context_set_input(ctxgen_run_context* context, size_t index,
                                            const ctxgen_tensor* tensor) {
  return change(context, [&](ctxgen::RunContext& c) -> Status {
    return c.set_input(index, CTXGEN_TRY(ctxgen::capi::borrow_tensor(tensor)));
  });
}

ctxgen_status* ctxgen_run_context_set_input_value(ctxgen_run_context* context, size_t index,
                                                  const ctxgen_value* value) {
  return change(context, [&](ctxgen::RunContext& c) {
    return c.set_input(index, value == nullptr ? RuntimeValue() : value->value);
  });
}

ctxgen_status* ctxgen_run_context_set_output(ctxgen_run_context* context, size_t index,
                                             void* memory, size_t size) {
  return change(context, [&](ctxgen::RunContext& c) -> Status {
    if (memory == nullptr && size > 0)
      return fail(ErrorCode::kInvalidArgument, "memory is NULL and has {} bytes", size);
    return c.set_output(index, std::span(static_cast<std::byte*>(memory), size));
  });
}

ctxgen_status* ctxgen_run_context_set_state(ctxgen_run_context* context, ctxgen_state* state) {
  return change(context, [&](ctxgen::RunContext& c) {
    return c.set_state(state == nullptr ? nullptr : state->state.get());
  });
}

ctxgen_status* ctxgen_run_context_run(ctxgen_run_context* context) {
  return guarded("running", [&]() -> Status {
    CTXGEN_CHECK(not_null(context, "context"));
    const EnvironmentScope scope(context->model->environment.get());
    if (!context->profiling) return context->context->run();
    std::vector<ctxgen::OpTiming> timings;
    const Status status = context->context->run(&timings);
    context->trace.add_run(1, timings);
    return status;
  });
}

ctxgen_status* ctxgen_run_context_output(const ctxgen_run_context* context, size_t index,
                                         ctxgen_tensor* tensor) {
  return guarded("reading an output", [&]() -> Status {
    const RuntimeValue* output = CTXGEN_TRY(output_of(context, index));
    if (!output->is_tensor())
      return fail(ErrorCode::kUnsupported,
                  "output {} is {}: ctxgen_run_context_create_output gives it", index,
                  describe(*output));
    return ctxgen::capi::describe_tensor(output->tensor(), tensor);
  });
}

ctxgen_status* ctxgen_run_context_create_output(const ctxgen_run_context* context, size_t index,
                                                ctxgen_value** value) {
  return guarded("reading an output", [&]() -> Status {
    CTXGEN_CHECK(not_null(value, "value"));
    const RuntimeValue* output = CTXGEN_TRY(output_of(context, index));
    *value = new ctxgen_value{*output};
    return {};
  });
}

ctxgen_status* ctxgen_run_context_set_profiling(ctxgen_run_context* context, int profiling) {
  return change(context, [&](ctxgen::RunContext&) -> Status {
    context->profiling = profiling != 0;
    return {};
  });
}

ctxgen_status* ctxgen_run_context_write_profile(ctxgen_run_context* context, const char* path) {
  return guarded("writing a profile", [&]() -> Status {
    CTXGEN_CHECK(not_null(context, "context"));
    CTXGEN_CHECK(not_null(path, "path"));
    if (context->trace.empty()) return fail(ErrorCode::kInvalidArgument, "no run was recorded");
    CTXGEN_CHECK(ctxgen::write_trace(context->trace, path));
    context->trace = {};
    return {};
  });
}

void ctxgen_run_context_stop(ctxgen_run_context* context) {
  if (context != nullptr) context->context->stop();
}

}  // extern "C"
