#include "ctxgen/base/boundary.h"

namespace ctxgen {

std::unexpected<Error> exception_status(ErrorCode code, std::string_view doing,
                                        std::string_view what) noexcept {
  Error error{code, {}};
  try {
    error.message = std::format("{}: {}", doing, what);
  } catch (const std::exception&) {
    // There is no memory even for that; this text is short enough to need none.
    error.message = code == ErrorCode::kResourceLimit ? "out of memory" : "exception";
  }
  return std::unexpected(std::move(error));
}

}  // namespace ctxgen
