#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// `code` with "doing: what", or as much of it as there is memory for.
[[nodiscard]] std::unexpected<Error> exception_status(ErrorCode code, std::string_view doing,
                                                      std::string_view what) noexcept;

/// Calls `function` where the library meets its caller: what the standard library throws becomes an
/// error, so that nothing is thrown across. `doing` ("compiling") is for the message.
/// Errors  those of `function`; RESOURCE_LIMIT where memory ran out; INTERNAL for all else.
template <class Function>
auto at_boundary(std::string_view doing, Function&& function) noexcept -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return exception_status(ErrorCode::kResourceLimit, doing, "out of memory");
  } catch (const std::length_error&) {  // a container that is asked for more than there can be
    return exception_status(ErrorCode::kResourceLimit, doing, "out of memory");
  } catch (const std::exception& error) {
    return exception_status(ErrorCode::kInternal, doing, error.what());
  }
}

}  // namespace ctxgen
