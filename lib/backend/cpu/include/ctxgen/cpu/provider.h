#pragma once

#include <memory>

#include "ctxgen/partition/provider.h"

namespace ctxgen::cpu {

/// The provider "cpu": takes every node that has a kernel, compiles nothing; what it takes stays in
/// the model and is run by the executor.
[[nodiscard]] std::unique_ptr<Provider> make_provider();

}  // namespace ctxgen::cpu
