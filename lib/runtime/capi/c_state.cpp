#include <cstddef>
#include <memory>
#include <utility>

#include "ctxgen/runtime/model_state.h"

#include "c_session.h"
#include "c_status.h"
#include "value.h"

using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::Status;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

namespace {

template <class Change>
ctxgen_status* change_state(ctxgen_state* object, Change&& act) noexcept {
  return guarded("changing a state", [&]() -> Status {
    CTXGEN_CHECK(not_null(object, "state"));
    return act(*object->state);
  });
}

}  // namespace

extern "C" {

size_t ctxgen_session_state_count(const ctxgen_session* session) {
  return session == nullptr ? 0 : session->model->session->state_pairs().size();
}

ctxgen_status* ctxgen_session_state(const ctxgen_session* session, size_t index,
                                    ctxgen_state_info* info) {
  return guarded("describing a state", [&]() -> Status {
    CTXGEN_CHECK(not_null(session, "session"));
    CTXGEN_CHECK(not_null(info, "info"));
    const auto pairs = session->model->session->state_pairs();
    if (info->struct_size < sizeof(ctxgen_state_info))
      return fail(ErrorCode::kInvalidArgument, "info: struct_size is {}, expected {}",
                  info->struct_size, sizeof(ctxgen_state_info));
    if (index >= pairs.size())
      return fail(ErrorCode::kInvalidArgument, "no state {}: there are {}", index, pairs.size());
    const ctxgen::StatePair& pair = pairs[index];
    info->input = pair.input.c_str();
    info->output = pair.output.c_str();
    info->grows = pair.grows ? 1 : 0;
    info->in_place = pair.in_place ? 1 : 0;
    return {};
  });
}

ctxgen_status* ctxgen_state_create(const ctxgen_session* session, ctxgen_state** state) {
  return guarded("making a state", [&]() -> Status {
    CTXGEN_CHECK(not_null(session, "session"));
    CTXGEN_CHECK(not_null(state, "state"));
    auto made = std::make_unique<ctxgen_state>();
    made->model = session->model;
    made->state = CTXGEN_TRY(session->model->session->make_state());
    *state = made.release();
    return {};
  });
}

void ctxgen_state_release(ctxgen_state* state) { delete state; }

int64_t ctxgen_state_length(const ctxgen_state* state) {
  return state == nullptr ? 0 : state->state->length();
}

uint64_t ctxgen_state_bytes(const ctxgen_state* state) {
  return state == nullptr ? 0 : state->state->size_bytes();
}

ctxgen_status* ctxgen_state_reserve(ctxgen_state* state, int64_t length) {
  return change_state(state, [&](ctxgen::ModelState& s) { return s.reserve(length); });
}

ctxgen_status* ctxgen_state_reset(ctxgen_state* state) {
  return change_state(state, [](ctxgen::ModelState& s) { return s.reset(); });
}

ctxgen_status* ctxgen_state_rewind(ctxgen_state* state, int64_t length) {
  return change_state(state, [&](ctxgen::ModelState& s) { return s.rewind(length); });
}

ctxgen_status* ctxgen_state_fork(ctxgen_state* state, ctxgen_state** copy) {
  return change_state(state, [&](ctxgen::ModelState& s) -> Status {
    CTXGEN_CHECK(not_null(copy, "copy"));
    auto made = std::make_unique<ctxgen_state>();
    made->model = state->model;
    made->state = CTXGEN_TRY(s.fork());
    *copy = made.release();
    return {};
  });
}

ctxgen_status* ctxgen_state_create_value(ctxgen_state* state, size_t index, ctxgen_value** value) {
  return change_state(state, [&](ctxgen::ModelState& s) -> Status {
    CTXGEN_CHECK(not_null(value, "value"));
    auto made = std::make_unique<ctxgen_value>(CTXGEN_TRY(s.read(index)));
    *value = made.release();
    return {};
  });
}

}  // extern "C"
