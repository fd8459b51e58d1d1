#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen {

/// Names of all providers built in, in default order: "dnnl", "cpu".
[[nodiscard]] std::vector<std::string> provider_names();

/// Of those, the ones that write programs: what a compile uses that names none.
[[nodiscard]] std::vector<std::string> default_providers();

/// A provider by short name ("dnnl") or EP name ("CtxgenDnnlExecutionProvider", any case).
/// Errors  INVALID_ARGUMENT naming what there is.
[[nodiscard]] Result<std::unique_ptr<Provider>> make_provider(std::string_view name);

}  // namespace ctxgen
