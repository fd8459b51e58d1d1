#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// A weight of a weightless compile: its plain bytes stay in a file of the source. A blob with this
/// content and PackedWeight::layout kReferenceLayout stands for it (docs/format.md).
struct WeightReference {
  std::string file;             // relative to the context model's folder
  std::uint64_t file_size = 0;  // bytes of the whole file
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // bytes of the weight
  Hash128 hash;            // of the weight
  [[nodiscard]] bool operator==(const WeightReference&) const = default;
};

/// What PackedWeight::layout holds for a reference; no provider's layout begins with a zero byte.
[[nodiscard]] std::vector<std::byte> reference_layout();
[[nodiscard]] bool is_reference_layout(std::span<const std::byte> layout);

[[nodiscard]] std::vector<std::byte> encode_reference(const WeightReference& reference);
/// Errors  kCorruptContext.
[[nodiscard]] Result<WeightReference> decode_reference(std::span<const std::byte> bytes);

}  // namespace ctxgen
