#include "c_session.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "ctxgen/base/version.h"
#include "ctxgen/runtime/check.h"

#include "c_status.h"

using ctxgen::Blob;
using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::IoInfo;
using ctxgen::Result;
using ctxgen::Session;
using ctxgen::SessionOptions;
using ctxgen::Status;
using ctxgen::capi::EnvironmentScope;
using ctxgen::capi::guarded;
using ctxgen::capi::LoadedModel;
using ctxgen::capi::not_null;
using ctxgen::capi::ValueFacts;

namespace ctxgen::capi {

ValueFacts::ValueFacts(const IoInfo& io) : info(&io) {
  if (io.type.has_rank())
    for (const Dim& dim : *io.type.shape) dims.push_back(dim.is_fixed() ? dim.value() : -1);
  for (const std::string& name : io.dim_names) dim_names.push_back(name.c_str());
}

}  // namespace ctxgen::capi

namespace {

/// The options with the bins in memory, where there are any.
SessionOptions with_bins(const ctxgen_session_options* given) {
  if (given == nullptr) return {};
  SessionOptions options = given->options;
  if (given->bins.empty()) return options;
  options.bin_source = [bins = given->bins](std::string_view name) -> Result<Blob> {
    const auto found = std::ranges::find(bins, name, &std::pair<std::string, Blob>::first);
    if (found != bins.end()) return found->second;
    return fail(ErrorCode::kCorruptContext, "context binary \"{}\" is not among those in memory",
                name);
  };
  return options;
}

template <class Open>
ctxgen_status* create(ctxgen_environment* environment, const ctxgen_session_options* options,
                      ctxgen_session** session, Open&& open) noexcept {
  return guarded("making a session", [&]() -> Status {
    CTXGEN_CHECK(not_null(session, "session"));
    auto model = std::make_shared<LoadedModel>();
    if (environment != nullptr) model->environment = environment->environment;
    const EnvironmentScope scope(model->environment.get());
    model->session = CTXGEN_TRY(open(with_bins(options)));
    for (const IoInfo& info : model->session->inputs()) model->inputs.emplace_back(info);
    for (const IoInfo& info : model->session->outputs()) model->outputs.emplace_back(info);
    auto made = std::make_unique<ctxgen_session>();
    made->model = std::move(model);
    *session = made.release();
    return {};
  });
}

ctxgen_verdict verdict_of(const ctxgen::ContextCheck& check) {
  if (check.partitions == 0 && check.verdict == ctxgen::Compatibility::kOptimal)
    return CTXGEN_FIT_NOT_COMPILED;
  switch (check.verdict) {
    case ctxgen::Compatibility::kOptimal: return CTXGEN_FIT_OPTIMAL;
    case ctxgen::Compatibility::kPreferRecompilation: return CTXGEN_FIT_PREFER_RECOMPILATION;
    case ctxgen::Compatibility::kUnsupported: break;
  }
  return CTXGEN_FIT_UNSUPPORTED;
}

struct Answer {
  ctxgen_verdict* verdict;
  char* reason;
  size_t reason_size;
};

template <class Check>
ctxgen_status* judge(const ctxgen_session_options* options, const Answer& answer,
                     Check&& check) noexcept {
  return guarded("judging a model", [&]() -> Status {
    CTXGEN_CHECK(not_null(answer.verdict, "verdict"));
    const ctxgen::ContextCheck found = CTXGEN_TRY(check(with_bins(options)));
    *answer.verdict = verdict_of(found);
    if (answer.reason != nullptr && answer.reason_size > 0)
      answer.reason[found.reason.copy(answer.reason, answer.reason_size - 1)] = '\0';
    return {};
  });
}

ctxgen_value_kind kind_of(ctxgen::ValueType::Kind kind) {
  using Kind = ctxgen::ValueType::Kind;
  switch (kind) {
    case Kind::kTensor: return CTXGEN_KIND_TENSOR;
    case Kind::kSequence: return CTXGEN_KIND_SEQUENCE;
    case Kind::kMap: return CTXGEN_KIND_MAP;
    case Kind::kOptional: return CTXGEN_KIND_OPTIONAL;
    default: return CTXGEN_KIND_UNKNOWN;
  }
}

using Facts = std::vector<ValueFacts> LoadedModel::*;

ctxgen_status* describe(const ctxgen_session* session, Facts which, size_t index,
                        ctxgen_value_info* info) noexcept {
  return guarded("describing a model", [&]() -> Status {
    CTXGEN_CHECK(not_null(session, "session"));
    CTXGEN_CHECK(not_null(info, "info"));
    const std::vector<ValueFacts>& all = (*session->model).*which;
    if (info->struct_size < sizeof(ctxgen_value_info))
      return fail(ErrorCode::kInvalidArgument, "info: struct_size is {}, expected {}",
                  info->struct_size, sizeof(ctxgen_value_info));
    if (index >= all.size())
      return fail(ErrorCode::kInvalidArgument, "no value {}: there are {}", index, all.size());
    const ValueFacts& facts = all[index];
    info->name = facts.info->name.c_str();
    info->type_text = facts.info->type_text.c_str();
    info->kind = kind_of(facts.info->type.kind);
    info->element_type = static_cast<std::int32_t>(facts.info->type.element);
    info->has_rank = facts.info->type.has_rank() ? 1 : 0;
    info->rank = facts.dims.size();
    info->dims = facts.dims.data();
    info->dim_names = facts.dim_names.data();
    info->has_default = facts.info->has_default ? 1 : 0;
    return {};
  });
}

ctxgen_status* find(const ctxgen_session* session, Facts which, const char* name,
                    size_t* index) noexcept {
  return guarded("finding a value", [&]() -> Status {
    CTXGEN_CHECK(not_null(session, "session"));
    CTXGEN_CHECK(not_null(name, "name"));
    CTXGEN_CHECK(not_null(index, "index"));
    const std::vector<ValueFacts>& all = (*session->model).*which;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].info->name == name) {
        *index = i;
        return {};
      }
    return fail(ErrorCode::kInvalidArgument, "the model has no such value: \"{}\"", name);
  });
}

}  // namespace

extern "C" {

const char* ctxgen_runtime_version(void) { return CTXGEN_VERSION_STRING; }

ctxgen_status* ctxgen_session_create_from_file(ctxgen_environment* environment, const char* path,
                                               const ctxgen_session_options* options,
                                               ctxgen_session** session) {
  return create(environment, options, session,
                [&](const SessionOptions& o) -> Result<std::unique_ptr<Session>> {
                  CTXGEN_CHECK(not_null(path, "path"));
                  return Session::open(path, o);
                });
}

ctxgen_status* ctxgen_session_create_from_memory(ctxgen_environment* environment, const void* data,
                                                 size_t size, const ctxgen_session_options* options,
                                                 ctxgen_session** session) {
  return create(environment, options, session,
                [&](const SessionOptions& o) -> Result<std::unique_ptr<Session>> {
                  CTXGEN_CHECK(not_null(data, "data"));
                  const std::span bytes(static_cast<const std::byte*>(data), size);
                  return Session::open_memory(Blob{nullptr, bytes}, o);
                });
}

ctxgen_status* ctxgen_compatibility(const char* path, const ctxgen_session_options* options,
                                    ctxgen_verdict* verdict, char* reason, size_t reason_size) {
  return judge(options, {verdict, reason, reason_size},
               [&](const SessionOptions& o) -> Result<ctxgen::ContextCheck> {
                 CTXGEN_CHECK(not_null(path, "path"));
                 return ctxgen::judge_context(path, o);
               });
}

ctxgen_status* ctxgen_compatibility_memory(const void* data, size_t size,
                                           const ctxgen_session_options* options,
                                           ctxgen_verdict* verdict, char* reason,
                                           size_t reason_size) {
  return judge(options, {verdict, reason, reason_size},
               [&](const SessionOptions& o) -> Result<ctxgen::ContextCheck> {
                 CTXGEN_CHECK(not_null(data, "data"));
                 const std::span bytes(static_cast<const std::byte*>(data), size);
                 return ctxgen::judge_context_memory(Blob{nullptr, bytes}, o);
               });
}

void ctxgen_session_release(ctxgen_session* session) { delete session; }

size_t ctxgen_session_input_count(const ctxgen_session* session) {
  return session == nullptr ? 0 : session->model->inputs.size();
}

size_t ctxgen_session_output_count(const ctxgen_session* session) {
  return session == nullptr ? 0 : session->model->outputs.size();
}

ctxgen_status* ctxgen_session_input(const ctxgen_session* session, size_t index,
                                    ctxgen_value_info* info) {
  return describe(session, &LoadedModel::inputs, index, info);
}

ctxgen_status* ctxgen_session_output(const ctxgen_session* session, size_t index,
                                     ctxgen_value_info* info) {
  return describe(session, &LoadedModel::outputs, index, info);
}

ctxgen_status* ctxgen_session_input_index(const ctxgen_session* session, const char* name,
                                          size_t* index) {
  return find(session, &LoadedModel::inputs, name, index);
}

ctxgen_status* ctxgen_session_output_index(const ctxgen_session* session, const char* name,
                                           size_t* index) {
  return find(session, &LoadedModel::outputs, name, index);
}

}  // extern "C"
