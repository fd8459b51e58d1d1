#include "layout/product_packing.h"

#include <array>

namespace ctxgen::onednn {

using Tag = dnnl::memory::format_tag;

std::optional<Tag> product_packing(std::int64_t k, std::int64_t n, DataType type,
                                   InstructionSet usable) {
  // Rows come in blocks of 16, columns in those of the tag: small matrices would grow.
  if (k < 16 || n < 64) return std::nullopt;
  if (type == DataType::kInt8) return Tag::BA16a64b4a;  // without VNNI there are no such products
  if (type != DataType::kFloat) return std::nullopt;
  // Measured by bench/layouts/product_layouts.cpp; docs/onednn.md, "Packed weights".
  return includes(usable, InstructionSet::kAvx512Core) ? Tag::BA16a64b : Tag::BA16a32b;
}

std::span<const Tag> product_packings() {
  static constexpr std::array kPackings{Tag::BA16a16b, Tag::BA16a32b, Tag::BA16a48b, Tag::BA16a64b,
                                        Tag::BA16a64b4a};
  return kPackings;
}

}  // namespace ctxgen::onednn
