#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/runtime/session.h"

#include "ctxgen_runtime.h"
#include "environment.h"

namespace ctxgen::capi {

/// An input or output as C sees it.
struct ValueFacts {
  explicit ValueFacts(const IoInfo& info);
  const IoInfo* info;
  std::vector<std::int64_t> dims;
  std::vector<const char*> dim_names;
};

/// A session with what its C handles and run contexts share; goes with the last of them.
struct LoadedModel {
  std::shared_ptr<const Environment> environment;  // may be null; outlives the session
  std::unique_ptr<const Session> session;
  std::vector<ValueFacts> inputs, outputs;
};

}  // namespace ctxgen::capi

struct ctxgen_session_options {
  ctxgen::SessionOptions options;
  std::vector<std::pair<std::string, ctxgen::Blob>> bins;
};

struct ctxgen_session {
  std::shared_ptr<const ctxgen::capi::LoadedModel> model;
};

struct ctxgen_state {
  std::shared_ptr<const ctxgen::capi::LoadedModel> model;  // outlives the state
  std::unique_ptr<ctxgen::ModelState> state;
};
