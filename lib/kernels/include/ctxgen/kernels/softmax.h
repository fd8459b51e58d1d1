#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// out[i] = exp(in[i] - max(in)) / sum over j of exp(in[j] - max(in)) for a row of n >= 0 elements;
/// `out` may be `in`, no other overlap. At most 4 + max(in) - in[i] ulp from the result in double
/// precision for n <= 4096. A row with NaN or +inf is NaN, -inf among finite elements gives 0, a row of -inf NaN.
///
/// Threads  any; the calling one does all the work.
void softmax_row(std::int64_t n, const float* in, float* out);

}  // namespace ctxgen::kernels
