#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen {

/// Names of all providers built in, in default order: "dnnl", "cpu".
[[nodiscard]] std::vector<std::string> provider_names();

/// A provider by short name ("dnnl") or EP name ("CtxgenDnnlExecutionProvider", any case).
/// Errors  INVALID_ARGUMENT naming what there is.
[[nodiscard]] Result<std::unique_ptr<Provider>> make_provider(std::string_view name);

/// What instructions that the target lacks cost partitions of the provider of that short name, in size or speed, with
/// figures: one line each, for the summary of a compile. Empty: nothing worth a line.
[[nodiscard]] std::vector<std::string> target_costs(std::string_view name, const GraphView& view,
                                                    std::span<const Partition> partitions);

}  // namespace ctxgen
