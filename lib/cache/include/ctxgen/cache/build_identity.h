#pragma once

#include <string_view>

namespace ctxgen {

/// What tells this build of ctxgen from others: the linker's build id of the file that holds this
/// code (the program, the plugin), else the version. What one build made is not taken for what
/// another would make.
[[nodiscard]] std::string_view build_identity();

}  // namespace ctxgen
