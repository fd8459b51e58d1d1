#include "kinds/own/own_product.h"

#include <algorithm>
#include <utility>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/winograd.h"

#include "kernels/kernel_product.h"
#include "kinds/own/own_finish.h"
#include "layout/conv_packing.h"
#include "layout/product_packing.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;
using kernels::PanelType;

std::optional<PanelType> panel_type(memory::data_type type) {
  switch (type) {
    case memory::data_type::f32: return PanelType::kFloat;
    case memory::data_type::bf16: return PanelType::kBfloat16;
    case memory::data_type::f16: return PanelType::kFloat16;
    default: return std::nullopt;
  }
}

/// Whether kernels::multiply_winograd() takes less time than a product of all positions. Measured (docs/onednn.md, "Convolution"):
/// few tiles take less than the transforms of their weights.
bool prefers_winograd(const kernels::Windows& windows, std::int64_t groups, std::int64_t columns) {
  constexpr double kLeastTiles = 49;
  constexpr std::int64_t kLeastChannels = 32;
  if (groups != 1 || !kernels::has_winograd(windows) || simd_level() < SimdLevel::kAvx2)
    return false;
  const double tiles = static_cast<double>(windows.images) *
                       static_cast<double>((windows.result[0] + 1) / 2) *
                       static_cast<double>((windows.result[1] + 1) / 2);
  return tiles >= kLeastTiles && windows.channels >= kLeastChannels && columns >= kLeastChannels;
}

}  // namespace

std::optional<std::int64_t> panel_columns(const memory::desc& md) {
  const memory::data_type type = md.get_data_type();
  if (md.get_format_kind() != memory::format_kind::blocked || !panel_type(type))
    return std::nullopt;
  const memory::dims dims = md.get_dims();
  if (dims.size() == 2) return packed_columns(md);
  if (dims.size() != 4 && dims.size() != 5) return std::nullopt;
  for (const auto& [columns, one, grouped] : window_packings())
    if (md == memory::desc(dims, type, dims.size() == 4 ? one : grouped)) return columns;
  return std::nullopt;
}

bool takes_own_product(const NodeBuilder& builder) {
  if (builder.node().packed_weight == kNone) return false;
  if (simd_level() < SimdLevel::kAvx2 && !widens_weight(builder)) return false;
  return builder.input(0).type == DataType::kFloat && builder.output().type == DataType::kFloat &&
         panel_type(dnnl_type(builder.weight_type())).has_value();
}

bool widens_weight(const NodeBuilder& builder) {
  const DataType type = builder.weight_type();
  return builder.input(0).type == DataType::kFloat &&
         (type == DataType::kBfloat16 || type == DataType::kFloat16);
}

// Measured: docs/onednn.md, "Packed weights".
bool prefers_own_windows(const NodeBuilder& builder, const kernels::Windows& windows,
                         std::int64_t groups, std::int64_t columns) {
  constexpr std::int64_t kLongDepth = 1024;
  if (prefers_winograd(windows, groups, columns)) return true;
  if (!includes(usable_instruction_set(), InstructionSet::kAvx512Core))
    return windows.depth() >= kShortDepth;
  const bool one_line = windows.size[0] == 1 && windows.kernel[0] == 1 && windows.kernel[1] > 1;
  if (one_line && windows.depth() >= kLongDepth) return true;
  return prefers_own_pixels(builder, windows.rows(), windows.depth(), columns);
}

bool prefers_own_pixels(const NodeBuilder& builder, std::int64_t pixels, std::int64_t depth,
                        std::int64_t columns) {
  constexpr std::int64_t kMostPixels = 320, kMostBesideExponentials = 100, kLeast = 64;
  constexpr std::int64_t kMostWithAvx2 = 64;
  if (is_small_product(pixels, depth, columns)) return true;
  if (!kernels::reads_ahead()) return false;
  const bool wide = includes(usable_instruction_set(), InstructionSet::kAvx512Core);
  if (!wide && pixels > kMostWithAvx2) return false;
  const bool exponentials =
      std::ranges::any_of(builder.node().post_ops, [](const NodePostOp& stage) {
        return needs_exponential(stage.post->kind, stage.operand != kNone);
      });
  return pixels <= (exponentials ? kMostBesideExponentials : kMostPixels) && depth >= kLeast &&
         columns >= kLeast;
}

bool prefers_own_rows(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  constexpr std::int64_t kMostRows = 512, kLeastDepth = 256;
  if (rows <= kernels::most_stream_rows() || is_small_product(rows, depth, columns)) return true;
  return includes(usable_instruction_set(), InstructionSet::kAvx512Core) && rows <= kMostRows &&
         depth >= kLeastDepth;
}

bool is_small_product(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  constexpr double kSmall = 1 << 18;  // multiplications
  return static_cast<double>(rows) * static_cast<double>(depth) * static_cast<double>(columns) <=
         kSmall;
}

Status add_own_product(NodeBuilder& builder, const OwnProduct& product) {
  const memory::desc& wanted = product.weight.wanted;
  const std::int64_t block = panel_columns(wanted).value_or(0);
  const std::int64_t panels = product.groups * ((product.columns + block - 1) / block);
  const std::size_t element = memory::data_type_size(wanted.get_data_type());
  const auto elements = static_cast<std::int64_t>(wanted.get_size() / element);
  const std::int64_t pitch = product.groups * product.columns;
  OwnFinish finish(builder, product.column_axis, pitch);
  CTXGEN_CHECK(finish.take());
  ProductForm form;
  form.groups = product.groups;
  form.finish = finish.form();
  form.product.windows = product.windows;
  form.product.matrix = {nullptr, panel_type(wanted.get_data_type()).value_or(PanelType::kFloat),
                         product.columns, block, elements / panels};
  form.product.result_pitch = pitch;
  const double flops = 2.0 * static_cast<double>(volume(builder.output().dims)) *
                       static_cast<double>(product.windows.depth());
  const int threads = builder.context().threads;
  const auto scratch = prefers_winograd(product.windows, product.groups, product.columns) &&
                               form.product.matrix.type == PanelType::kFloat
                           ? winograd_scratch(form, threads)
                           : std::nullopt;
  if (scratch)
    return finish.add("loop:winograd", make_winograd_kernel(std::move(form), threads, *scratch),
                      product.weight, {.flops = flops, .scratch_bytes = *scratch});
  return finish.add("loop:product", make_product_kernel(std::move(form), threads), product.weight,
                    {.flops = flops});
}

}  // namespace ctxgen::onednn
