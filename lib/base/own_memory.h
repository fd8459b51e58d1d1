#pragma once

#include <cstdlib>

namespace ctxgen {

/// The deleter of memory that Tensor::allocate() made: tells it from a map or a vector.
struct FreeOwnMemory {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace ctxgen
