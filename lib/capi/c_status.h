#pragma once

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/status.h"

#include "ctxgen_status.h"

namespace ctxgen::capi {

/// NULL for success. Never fails: where there is no memory, a constant status says so.
[[nodiscard]] ctxgen_status* to_status(const Status& status) noexcept;

/// Calls `function`, which returns Status, at the edge to C.
template <class Function>
[[nodiscard]] ctxgen_status* guarded(std::string_view doing, Function&& function) noexcept {
  return to_status(at_boundary(doing, std::forward<Function>(function)));
}

/// Errors  INVALID_ARGUMENT naming `what` where the caller passes NULL.
[[nodiscard]] inline Status not_null(const void* pointer, std::string_view what) {
  if (pointer != nullptr) return {};
  return fail(ErrorCode::kInvalidArgument, "{} is NULL", what);
}

/// Every setter of an options object: `set` changes it and may refuse.
template <class Options, class Set>
[[nodiscard]] ctxgen_status* change_options(Options* options, Set&& set) noexcept {
  return guarded("setting an option", [&]() -> Status {
    CTXGEN_CHECK(not_null(options, "options"));
    return set(*options);
  });
}

}  // namespace ctxgen::capi
