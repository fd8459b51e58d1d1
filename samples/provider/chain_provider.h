#pragma once

#include <ctxgen/partition/provider.h>

#include <memory>

namespace chain {

/// The compile side: claims Neg, Abs and Add with a constant, of float32 values of fixed shape.
[[nodiscard]] std::unique_ptr<ctxgen::Provider> make_provider();

}  // namespace chain
