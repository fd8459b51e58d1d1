#include "rules/spatial.h"

#include "layout/weight_layout.h"

namespace ctxgen::onednn {

using dnnl::memory;

Dims as_2d(const Dims& dims) {
  if (dims.size() != 3) return dims;
  return Dims{dims[0], dims[1], 1, dims[2]};
}

memory::desc channels_last_md(const Dims& dims, DataType type) {
  const Dims wide = as_2d(dims);
  return make_md(wide, strides_of(Layout::kChannelsLast, wide), type);
}

memory::dims wide_window(const std::vector<std::int64_t>& values, std::size_t rank,
                         std::int64_t fill, std::int64_t minus) {
  memory::dims out;
  if (rank == 3) out.push_back(fill);
  for (const std::int64_t value : values) out.push_back(value - minus);
  return out;
}

Dims weight_dims(const Dims& onnx, std::int64_t group) {
  const Dims wide = as_2d(onnx);
  if (group == 1) return wide;
  Dims grouped{group, wide[0] / group};
  for (std::size_t i = 1; i < wide.size(); ++i) grouped.push_back(wide[i]);
  return grouped;
}

std::optional<memory::desc> spatial_operand(const Slot& operand, const Dims& dst) {
  Dims dims(dst.size(), 1);
  const std::size_t skip = dst.size() - operand.dims.size();
  for (std::size_t i = 0; i < operand.dims.size(); ++i) dims[skip + i] = operand.dims[i];
  // An operand of a lower rank keeps its layout, not channels-last.
  const bool lies_so = operand.dims.size() == dst.size() || layouts_coincide(dst);
  if (dims == dst)
    return lies_so ? std::optional(channels_last_md(dst, operand.type)) : std::nullopt;
  if (dims[1] != volume(dims)) return std::nullopt;
  const Dims wide = as_2d(dims);
  return make_md(wide, plain_strides(wide), operand.type);
}

}  // namespace ctxgen::onednn
