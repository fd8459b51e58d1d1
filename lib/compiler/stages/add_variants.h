#pragma once

#include <span>
#include <string_view>
#include <unordered_map>

#include "stages/build_models.h"

namespace ctxgen {

/// Programs by name; the first one of each.
[[nodiscard]] std::unordered_map<std::string_view, const Program*> programs_by_name(
    std::span<const Program> programs);

/// Has the other processes compile the same partitions and takes what they made; ends them.
[[nodiscard]] Status add_variants(BuiltModels& built, PreparedModels& prepared,
                                  const CompileEnv& env);

}  // namespace ctxgen
