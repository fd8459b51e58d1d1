#pragma once

#include <string>

namespace ctxgen::cli {

/// docs/operators.md: which operator runs in which provider, from the providers' tables.
[[nodiscard]] std::string operators_markdown();
[[nodiscard]] std::string operators_json();

}  // namespace ctxgen::cli
