#include "ctxgen/kernels/quantised_rows.h"

#include <algorithm>
#include <cmath>

// A row is quantised once, when it is appended to a cache; reading rows is what takes time (quantised_rows-inl.h).
namespace ctxgen::kernels {

void quantise_row(const QuantisedForm& form, const float* scales, std::int64_t size,
                  const float* from, std::byte* to) {
  const float most = form.bits == 4 ? 7.0F : 127.0F;
  const auto integer = [&](std::int64_t i) {
    const float scale = scales[form.per_element ? i : 0];
    const float real = std::rint(from[i] * (scale != 0 ? 1.0F / scale : 1.0F));
    return static_cast<int>(std::max(-most - 1, real < most ? real : most));
  };
  if (form.bits != 4) {
    for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<std::byte>(integer(i));
    return;
  }
  for (std::int64_t i = 0; i < size; i += 2) {
    const int high = i + 1 < size ? integer(i + 1) + 8 : 8;
    to[i / 2] = static_cast<std::byte>((integer(i) + 8) | high << 4);
  }
}

}  // namespace ctxgen::kernels
