#include "low_bit_windows.h"

#include <algorithm>

#include "../conv_params.h"

namespace ctxgen::onednn {

namespace {

/// Reads which scale belongs to which weight: one to all, one to a result, or one to `block_size` channels
/// of a result and a position.
Refusal read_scales(const NodeView& n, LowBitWindows& read) {
  StoredLowBits& stored = read.stored;
  const Dims &dims = stored.values.dims(), &scales = stored.scales.dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t block_size = n.node().int_or("block_size", 0);
  std::int64_t axis = n.node().int_or("axis", 1);
  if (axis < -rank || axis >= rank) return std::format("axis is {}", axis);
  if (axis < 0) axis += rank;
  if (block_size == 0) {
    if (stored.scales.element_count() == 1 && scales.size() <= 1) return std::nullopt;
    if (axis != 0 || scales != Dims{dims[0]}) return std::format("scales {}", to_string(scales));
    stored.per_column = true;
    return std::nullopt;
  }
  if (block_size < 1 || axis != 1) return "scales in blocks of other dims than channels";
  Dims expected = dims;
  expected[1] = (dims[1] - 1) / block_size + 1;
  if (scales != expected)
    return std::format("scales {}, expected {}", to_string(scales), to_string(expected));
  stored.per_column = true;
  stored.scale_rows = std::min(block_size, dims[1]);
  if (read.positions > 1 && dims[1] % stored.scale_rows != 0)
    return std::format("blocks of {} in {} channels", block_size, dims[1]);
  return std::nullopt;
}

/// Elements [rows, columns, positions] as [rows, positions, columns], whatever their bits are.
Result<Tensor> positions_first(const Tensor& tensor, std::int64_t columns, std::int64_t positions) {
  const std::int64_t bits = low_bits_of(tensor.type());
  Tensor turned = CTXGEN_TRY(Tensor::allocate(tensor.type(), tensor.dims()));
  const auto* from = reinterpret_cast<const std::uint8_t*>(tensor.bytes().data());
  auto* to = reinterpret_cast<std::uint8_t*>(turned.mutable_bytes().data());
  std::fill_n(to, turned.mutable_bytes().size(), std::uint8_t{0});
  const std::uint32_t mask = (1U << bits) - 1;
  std::int64_t bit = 0;
  for (std::int64_t row = 0; row < tensor.element_count() / columns / positions; ++row)
    for (std::int64_t p = 0; p < positions; ++p)
      for (std::int64_t c = 0; c < columns; ++c, bit += bits) {
        const std::int64_t at = ((row * columns + c) * positions + p) * bits;
        const std::uint32_t value = (std::uint32_t{from[at / 8]} >> (at % 8)) & mask;
        to[bit / 8] = static_cast<std::uint8_t>(to[bit / 8] | value << (bit % 8));
      }
  return turned;
}

/// The same for scales, which are stored as what they are.
Result<Tensor> scales_first(const Tensor& scales, std::int64_t columns, std::int64_t positions) {
  const std::vector<float> from = floats_of(scales);
  std::vector<float> to;
  to.reserve(from.size());
  const auto rows = static_cast<std::int64_t>(from.size()) / columns / positions;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t p = 0; p < positions; ++p)
      for (std::int64_t c = 0; c < columns; ++c)
        to.push_back(from[static_cast<std::size_t>((row * columns + c) * positions + p)]);
  return tensor_of(scales.dims(), to);
}

/// Whether the packed form is worth it: a convolution of few weights is faster with those in float32.
bool is_worth_it(const LowBitWindows& windows) {
  constexpr std::int64_t kLeastResults = 16, kLeastWeights = 4096;
  return windows.stored.matrix.n >= kLeastResults &&
         windows.stored.values.element_count() >= kLeastWeights;
}

}  // namespace

Read<LowBitWindows> read_low_bit_windows(const NodeView& dequantize, const NodeView& conv) {
  LowBitWindows read{.stored = CTXGEN_TRY(read_stored(dequantize))};
  StoredLowBits& stored = read.stored;
  const Dims& dims = stored.values.dims();
  if (dims.size() != 3 && dims.size() != 4) return refuse("rank {}, expected 3 or 4", dims.size());
  if (stored.values.element_count() == 0) return refuse("weights {}", to_string(dims));
  CTXGEN_REFUSE(require_f32(conv, {0}));
  const ConvParams params = CTXGEN_TRY(read_conv_params(conv, dims));
  if (params.group != 1) return refuse("{} groups, expected 1", params.group);
  stored.swapped = true;
  stored.matrix.n = dims[0];
  stored.matrix.k = stored.values.element_count() / dims[0];
  read.channels = dims[1];
  read.positions = stored.matrix.k / dims[1];
  read.kernel = list_of(dims.span().subspan(2));
  read.window = params.window;
  if (!is_worth_it(read)) return refuse("weights {} are few", to_string(dims));
  CTXGEN_REFUSE(read_scales(dequantize, read));
  CTXGEN_REFUSE(choose_blocks(stored));
  return read;
}

Result<StoredLowBits> in_window_order(const LowBitWindows& windows) {
  StoredLowBits stored = windows.stored;
  if (windows.positions == 1) return stored;
  stored.values = CTXGEN_TRY(positions_first(stored.values, windows.channels, windows.positions));
  if (stored.scale_rows == 0) return stored;
  const std::int64_t parts = windows.channels / stored.scale_rows;
  stored.scales = CTXGEN_TRY(scales_first(stored.scales, parts, windows.positions));
  if (stored.zeros.defined())
    stored.zeros = CTXGEN_TRY(positions_first(stored.zeros, parts, windows.positions));
  return stored;
}

}  // namespace ctxgen::onednn
