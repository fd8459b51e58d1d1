#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/data_type.h"
#include "ctxgen/base/instruction_set.h"

namespace ctxgen::onednn {

/// Of a product's operands.
struct ProductTypes {
  DataType weight = DataType::kFloat;
  DataType source = DataType::kFloat;
};

/// How the constant matrix [k, n] of a product is stored: a function of these arguments alone, not of
/// rows, threads or caches, so that one file serves all machines of an instruction set. Weights are f32,
/// bf16 or f16 under an f32 source, bf16 or f16 under one of that type, or s8 under a u8 source
/// without zero point; nothing where no packing serves every number of rows, and oneDNN is to choose.
[[nodiscard]] std::optional<dnnl::memory::format_tag> product_packing(std::int64_t k,
                                                                      std::int64_t n,
                                                                      const ProductTypes& types,
                                                                      InstructionSet usable);

/// The packings that oneDNN's product kernels take for every number of rows, f32's first: a file may
/// hold any of them.
[[nodiscard]] std::span<const dnnl::memory::format_tag> product_packings();
/// Of these, in blocks of 16, 32, 48 and 64 columns, those of panels, which f32 has and own kernels widen narrow types
/// from, and those of pairs of narrow rows.
[[nodiscard]] std::span<const dnnl::memory::format_tag> panel_packings();
[[nodiscard]] std::span<const dnnl::memory::format_tag> pair_packings();

/// Rows come in blocks of 16, columns in those of the packing: small matrices would grow.
[[nodiscard]] constexpr bool is_worth_packing(std::int64_t k, std::int64_t n) {
  return k >= 16 && n >= 8;
}

[[nodiscard]] bool is_product_packing(const dnnl::memory::desc& md);

/// Columns of a panel, where `md` is a matrix in one of product_packings() but those of pairs and bytes.
[[nodiscard]] std::optional<std::int64_t> packed_columns(const dnnl::memory::desc& md);

}  // namespace ctxgen::onednn
