#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// "model_ctx.onnx" -> "model": the stem without a trailing "_ctx".
[[nodiscard]] std::string stem_without_ctx(std::string_view file_name);

/// Whether a provider's name (any case) or EP name is that of cpu.
[[nodiscard]] bool is_cpu_provider(std::string_view name);
[[nodiscard]] bool same_name(std::string_view a, std::string_view b);

/// The bin as the context model names it: a relative path inside `model_folder`.
/// Errors  INVALID_ARGUMENT if `bin` is elsewhere.
[[nodiscard]] Result<std::string> bin_reference(const std::filesystem::path& model_folder,
                                                const std::filesystem::path& bin);

}  // namespace ctxgen
