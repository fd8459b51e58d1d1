#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ctxgen {

/// What a file is that is not an ONNX model, from its first bytes, and what to do with it: "this is a context
/// binary, not a model; ..."; "" if the bytes say nothing.
[[nodiscard]] std::string file_kind(std::span<const std::byte> bytes);

}  // namespace ctxgen
