#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// "model_ctx.onnx" -> "model": the stem without a trailing "_ctx".
[[nodiscard]] std::string stem_without_ctx(std::string_view file_name);

/// The bin as the context model names it: a relative path inside `model_folder`.
/// Errors  INVALID_ARGUMENT if `bin` lies elsewhere.
[[nodiscard]] Result<std::string> bin_reference(const std::filesystem::path& model_folder,
                                                const std::filesystem::path& bin);

}  // namespace ctxgen
