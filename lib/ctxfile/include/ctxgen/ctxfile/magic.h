#pragma once

#include <string_view>

namespace ctxgen {

/// The first bytes of every context binary. The first byte is not text and the last one a line feed,
/// so that a transfer that mangles either shows.
inline constexpr std::string_view kContextMagic(
    "\x89"
    "CTXGEN\n",
    8);

}  // namespace ctxgen
