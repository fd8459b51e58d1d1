#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// Concrete shapes to plan ahead: dims of graph inputs by value name, or of symbols.
struct ShapeProfile {
  std::vector<std::pair<std::string, std::int64_t>> symbols;  // --dim batch=8
  std::vector<std::pair<std::string, Dims>> inputs;           // --shape x=1x3x224x224
};

}  // namespace ctxgen
