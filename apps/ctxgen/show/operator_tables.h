#pragma once

#include <string>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// docs/operators.md: which operator runs in which provider, from the providers' tables.
[[nodiscard]] Result<std::string> operators_markdown();
[[nodiscard]] Result<std::string> operators_json();

}  // namespace ctxgen::cli
