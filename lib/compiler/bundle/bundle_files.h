#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "ctxgen/base/atomic_folder.h"
#include "ctxgen/base/blob.h"

namespace ctxgen {

/// Hands `bytes` to `sink` in pieces, so that an interrupt ends a long copy.
/// Errors  CANCELLED, those of `sink`.
[[nodiscard]] Status copy_bytes(const Blob& bytes, const std::function<bool()>& cancelled,
                                const AtomicFolder::Sink& sink);

[[nodiscard]] Status write_text(AtomicFolder& folder, const std::filesystem::path& relative,
                                std::string_view text);

}  // namespace ctxgen
