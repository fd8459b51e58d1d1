#pragma once

#include <cmath>

namespace ctxgen::onednn {

// Where constants of two steps become one: two steps may give a number where one constant is too
// large or too small for f32.

/// Whether f32 holds a product of constants. True for 0: some factor is.
[[nodiscard]] inline bool f32_holds_factor(double exact) {
  return exact == 0.0 || std::isnormal(static_cast<float>(exact));
}

/// Whether f32 holds what is added: next to what it is added to, too small does not matter.
[[nodiscard]] inline bool f32_holds_addend(double exact) {
  return std::isfinite(static_cast<float>(exact));
}

}  // namespace ctxgen::onednn
