#pragma once

#include <memory>

#include "ctxgen/partition/provider.h"

namespace ctxgen::onednn {

/// The provider "dnnl": claims what oneDNN runs fast on this machine.
[[nodiscard]] std::unique_ptr<Provider> make_provider();

}  // namespace ctxgen::onednn
