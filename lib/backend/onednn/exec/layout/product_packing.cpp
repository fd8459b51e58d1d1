#include "layout/product_packing.h"

#include <algorithm>
#include <array>

namespace ctxgen::onednn {

using Tag = dnnl::memory::format_tag;

namespace {

struct Block {
  std::int64_t columns;
  Tag tag;
};

/// The first of the blocks that pad n columns least.
Tag least_padding(std::int64_t n, std::span<const Block> blocks) {
  const auto padded = [&](const Block& block) {
    return (n + block.columns - 1) / block.columns * block.columns;
  };
  return std::ranges::min_element(blocks, {}, padded)->tag;
}

}  // namespace

std::optional<Tag> product_packing(std::int64_t k, std::int64_t n, const ProductTypes& types,
                                   InstructionSet usable) {
  const DataType type = types.weight;
  if (!is_worth_packing(k, n)) return std::nullopt;
  if (type == DataType::kInt8)  // without VNNI there are no such products
    return n < 64 ? std::nullopt : std::optional(Tag::BA16a64b4a);
  if (types.source != DataType::kFloat) {  // pairs of rows, as instructions multiply them
    if (n <= 16) return Tag::BA16a16b2a;
    static constexpr std::array kPairs{Block{64, Tag::BA16a64b2a}, Block{48, Tag::BA16a48b2a},
                                       Block{32, Tag::BA16a32b2a}};
    return least_padding(n, kPairs);
  }
  // Narrow types in f32's packings, from which own kernels widen them.
  if (type != DataType::kFloat && type != DataType::kBfloat16 && type != DataType::kFloat16)
    return std::nullopt;
  // Measured by bench/layouts/product_layouts.cpp; docs/onednn.md, "Packed weights".
  if (n <= 16) return Tag::BA16a16b;
  if (!includes(usable, InstructionSet::kAvx512Core)) return Tag::BA16a32b;
  static constexpr std::array kBlocks{Block{64, Tag::BA16a64b}, Block{48, Tag::BA16a48b},
                                      Block{32, Tag::BA16a32b}};
  return least_padding(n, kBlocks);
}

std::span<const Tag> product_packings() {
  static constexpr std::array kPackings{Tag::BA16a16b,   Tag::BA16a32b,   Tag::BA16a48b,
                                        Tag::BA16a64b,   Tag::BA16a64b4a, Tag::BA16a16b2a,
                                        Tag::BA16a32b2a, Tag::BA16a48b2a, Tag::BA16a64b2a};
  return kPackings;
}

std::span<const Tag> panel_packings() { return product_packings().first(4); }
std::span<const Tag> pair_packings() { return product_packings().last(4); }

bool is_product_packing(const dnnl::memory::desc& md) {
  const dnnl::memory::dims dims = md.get_dims();
  return dims.size() == 2 && std::ranges::any_of(product_packings(), [&](Tag tag) {
           return md == dnnl::memory::desc(dims, md.get_data_type(), tag);
         });
}

std::optional<std::int64_t> packed_columns(const dnnl::memory::desc& md) {
  using dnnl::memory;
  static constexpr std::array kBlocks{Block{16, Tag::BA16a16b}, Block{32, Tag::BA16a32b},
                                      Block{48, Tag::BA16a48b}, Block{64, Tag::BA16a64b}};
  const memory::dims dims = md.get_dims();
  if (dims.size() != 2) return std::nullopt;
  for (const Block& block : kBlocks)
    if (md == memory::desc(dims, md.get_data_type(), block.tag)) return block.columns;
  return std::nullopt;
}

}  // namespace ctxgen::onednn
