#pragma once

#include <cmath>

namespace ctxgen::cpu {

/// 1 / (1 + e^-x), the logistic function. NaN stays NaN.
[[nodiscard]] inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace ctxgen::cpu
