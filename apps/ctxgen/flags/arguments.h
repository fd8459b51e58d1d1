#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "ctxgen/partition/provider.h"

namespace ctxgen::cli {

/// Pieces of option values. All errors are INVALID_ARGUMENT and name `option`.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] Result<std::int64_t> parse_count(std::string_view text, std::string_view option);
/// "NAME=VALUE", at the last "=" (names of values may hold one, sizes and shapes may not).
[[nodiscard]] Result<std::pair<std::string, std::string>> parse_pair(std::string_view text,
                                                                     std::string_view option);
/// "1x3x224x224"; "scalar" for rank 0.
[[nodiscard]] Result<Dims> parse_dims(std::string_view text, std::string_view option);

/// The product of everything that --dim (NAME=8,16) and --shape (NAME=1x3,2x3) list.
[[nodiscard]] Result<std::vector<ShapeProfile>> parse_profiles(
    const std::vector<std::string>& dims, const std::vector<std::string>& shapes);

}  // namespace ctxgen::cli
