#include "low_bit_matrix.h"

#include <algorithm>
#include <array>
#include <format>
#include <optional>
#include <vector>

namespace ctxgen::onednn {

namespace {

/// Element i as the unsigned integer that packed matrices hold: signed ones with 2^(bits - 1) added.
struct Unsigned {
  explicit Unsigned(const Tensor& tensor)
      : bytes(reinterpret_cast<const std::uint8_t*>(tensor.bytes().data())),
        bits(low_bits_of(tensor.type())) {
    const bool is_signed = tensor.type() == DataType::kInt2 || tensor.type() == DataType::kInt4 ||
                           tensor.type() == DataType::kInt8;
    flip = is_signed ? 1U << (bits - 1) : 0U;
  }
  [[nodiscard]] std::uint32_t at(std::int64_t i) const {
    const std::int64_t bit = i * bits;
    return ((std::uint32_t{bytes[bit / 8]} >> (bit % 8)) & ((1U << bits) - 1)) ^ flip;
  }
  const std::uint8_t* bytes;
  std::int64_t bits;
  std::uint32_t flip;
};

/// The blocks that kernels know, the one of the smallest packed form: a scale serves one or more.
Read<kernels::LowBitMatrix> in_blocks(kernels::LowBitMatrix matrix, std::int64_t scale_rows) {
  constexpr std::array<std::int64_t, 5> kBlocks{256, 128, 64, 32, 16};
  std::optional<kernels::LowBitMatrix> best;
  for (const std::int64_t block : kBlocks) {
    if (scale_rows != 0 && scale_rows < matrix.k && scale_rows % block != 0) continue;
    matrix.block = block;
    if (!best || kernels::packed_bytes(matrix) < kernels::packed_bytes(*best)) best = matrix;
  }
  if (!best) return refuse("scales in blocks of {}", scale_rows);
  return *best;
}

/// Reads which scale belongs to which element.
Refusal read_scales(const NodeView& n, std::int64_t block_size, StoredLowBits& stored) {
  const Dims &dims = stored.values.dims(), &scales = stored.scales.dims();
  const std::int64_t axis = n.node().int_or("axis", 1);
  if (axis < -2 || axis > 1) return std::format("axis is {}", axis);
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + 2 : axis);
  const std::size_t column_axis = stored.swapped ? 0 : 1;
  if (block_size != 0) {
    if (block_size < 1 || at == column_axis || dims[at] < 1) return "scales in blocks of columns";
    Dims expected = dims;
    expected[at] = (dims[at] - 1) / block_size + 1;
    if (scales != expected)
      return std::format("scales {}, expected {}", to_string(scales), to_string(expected));
    stored.per_column = true;
    stored.scale_rows = block_size;
    return std::nullopt;
  }
  if (stored.scales.element_count() == 1 && scales.size() <= 1) return std::nullopt;
  if (scales != Dims{dims[at]}) return std::format("scales {}", to_string(scales));
  if (at != column_axis) return "scales per row of the matrix";
  stored.per_column = true;
  return std::nullopt;
}

/// In blocks of the packed matrix: [n][blocks].
template <class Visit>
void for_scales(const StoredLowBits& stored, const Visit& visit) {
  const kernels::LowBitMatrix& m = stored.matrix;
  const std::int64_t parts = stored.scale_rows == 0 ? 1 : (m.k - 1) / stored.scale_rows + 1;
  for (std::int64_t column = 0; column < m.n; ++column)
    for (std::int64_t block = 0; block < m.blocks(); ++block) {
      const std::int64_t part = stored.scale_rows == 0 ? 0 : block * m.block / stored.scale_rows;
      const std::int64_t from = !stored.per_column ? 0
                                : stored.swapped   ? column * parts + part
                                                   : part * m.n + column;
      visit(column, block, from);
    }
}

/// [n][blocks][block * bits / 8], as ONNX Runtime's MatMulNBits has them. Columns of a row-major matrix are
/// written a few at a time, so that what is written stays in a cache.
std::vector<std::uint8_t> column_bytes(const StoredLowBits& stored) {
  const kernels::LowBitMatrix& m = stored.matrix;
  const std::int64_t bytes = m.blocks() * m.block * m.bits / 8;
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(m.n * bytes));
  const Unsigned from(stored.values);
  const auto put = [&](std::int64_t column, std::int64_t k, std::uint32_t value) {
    const std::int64_t bit = k * m.bits;
    auto& byte = columns[static_cast<std::size_t>(column * bytes + bit / 8)];
    byte = static_cast<std::uint8_t>(byte | value << (bit % 8));
  };
  if (stored.swapped) {
    for (std::int64_t column = 0; column < m.n; ++column)
      for (std::int64_t k = 0; k < m.k; ++k) put(column, k, from.at(column * m.k + k));
    return columns;
  }
  constexpr std::int64_t kAtOnce = 64;
  for (std::int64_t first = 0; first < m.n; first += kAtOnce)
    for (std::int64_t k = 0; k < m.k; ++k)
      for (std::int64_t column = first; column < std::min(first + kAtOnce, m.n); ++column)
        put(column, k, from.at(k * m.n + column));
  return columns;
}

/// Whether all zero points are the middle.
bool all_middle(const StoredLowBits& stored) {
  const std::uint32_t middle = 1U << (stored.matrix.bits - 1);
  if (!stored.zeros.defined()) return stored.middle || Unsigned(stored.values).flip == middle;
  const Unsigned zeros(stored.zeros);
  for (std::int64_t i = 0; i < stored.zeros.element_count(); ++i)
    if (zeros.at(i) != middle) return false;
  return true;
}

/// [n][(blocks * bits + 7) / 8].
std::vector<std::uint8_t> zero_bytes(const StoredLowBits& stored) {
  const kernels::LowBitMatrix& m = stored.matrix;
  const std::int64_t row = (m.blocks() * m.bits + 7) / 8;
  std::vector<std::uint8_t> zeros(static_cast<std::size_t>(m.n * row));
  for_scales(stored, [&](std::int64_t column, std::int64_t block, std::int64_t from) {
    const std::uint32_t zero =
        stored.zeros.defined() ? Unsigned(stored.zeros).at(from) : Unsigned(stored.values).flip;
    auto& byte = zeros[static_cast<std::size_t>(column * row + block * m.bits / 8)];
    byte = static_cast<std::uint8_t>(byte | zero << (block * m.bits % 8));
  });
  return zeros;
}

}  // namespace

std::int64_t low_bits_of(DataType type) {
  switch (type) {
    case DataType::kUint2:
    case DataType::kInt2: return 2;
    case DataType::kUint4:
    case DataType::kInt4: return 4;
    case DataType::kUint8:
    case DataType::kInt8: return 8;
    default: return 0;
  }
}

Refusal require_columns(const kernels::LowBitMatrix& matrix, std::uint64_t bytes) {
  constexpr std::uint64_t kSmall = 1U << 20U;
  if (kernels::packed_bytes(matrix) <= 4 * bytes + kSmall) return std::nullopt;
  return std::format("{} columns are too few", matrix.n);
}

std::string_view zeros_word(kernels::ZeroPoints zeros) {
  switch (zeros) {
    case kernels::ZeroPoints::kMiddle: return "middle";
    case kernels::ZeroPoints::kInteger: return "integer";
    case kernels::ZeroPoints::kFloat: break;
  }
  return "float";
}

Refusal choose_blocks(StoredLowBits& stored) {
  const DataType type = stored.values.type(), scale = stored.scales.type();
  stored.matrix.bits = low_bits_of(type);
  stored.matrix.block = 16;
  if (stored.matrix.bits == 0) return std::format("values of type {}", name_of(type));
  if (scale != DataType::kFloat && scale != DataType::kFloat16)
    return std::format("scales of type {}", name_of(scale));
  if (!kernels::is_valid(stored.matrix))
    return std::format("a matrix of {} x {}", stored.matrix.k, stored.matrix.n);
  stored.matrix.zeros =
      all_middle(stored) ? kernels::ZeroPoints::kMiddle : kernels::ZeroPoints::kInteger;
  const auto best = in_blocks(stored.matrix, stored.scale_rows);
  if (!best) return best.error();
  stored.matrix = *best;
  return require_columns(stored.matrix, stored.values.bytes().size());
}

Read<StoredLowBits> read_stored(const NodeView& n) {
  for (const Attribute& attribute : n.node().attributes)
    if (attribute.name != "axis" && attribute.name != "block_size" &&
        attribute.name != "output_dtype")
      return refuse("attribute \"{}\" is not known", attribute.name);
  const Tensor* values = n.constant(0);
  const Tensor* scales = n.has_input(1) ? n.constant(1) : nullptr;
  const Tensor* zeros = n.has_input(2) ? n.constant(2) : nullptr;
  if (values == nullptr || scales == nullptr || (n.has_input(2) && zeros == nullptr))
    return refuse("an input is not constant");
  StoredLowBits stored{.values = *values, .scales = *scales};
  if (zeros != nullptr) {
    const bool as_scales = zeros->element_count() == scales->element_count() &&
                           (zeros->element_count() == 1 || zeros->dims() == scales->dims());
    if (zeros->type() != values->type() || !as_scales)
      return refuse("zero points that are not as the scales");
    stored.zeros = *zeros;
  }
  const DataType result = n.output_value(0).type.element;
  if (result != DataType::kFloat && result != DataType::kFloat16)
    return refuse("result of type {}", name_of(result));
  return stored;
}

Read<StoredLowBits> read_low_bits(const NodeView& n, bool swapped) {
  StoredLowBits stored = CTXGEN_TRY(read_stored(n));
  const Dims& dims = stored.values.dims();
  if (dims.size() != 2) return refuse("rank {}, expected 2", dims.size());
  stored.swapped = swapped;
  stored.matrix.k = dims[swapped ? 1 : 0];
  stored.matrix.n = dims[swapped ? 0 : 1];
  CTXGEN_REFUSE(read_scales(n, n.node().int_or("block_size", 0), stored));
  CTXGEN_REFUSE(choose_blocks(stored));
  return stored;
}

Result<Tensor> packed_low_bits(const StoredLowBits& stored) {
  const kernels::LowBitMatrix& m = stored.matrix;
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(m));
  Tensor packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{bytes}));
  const std::vector<float> given = floats_of(stored.scales);
  std::vector<float> scales(static_cast<std::size_t>(m.n * m.blocks()));
  for_scales(stored, [&](std::int64_t column, std::int64_t block, std::int64_t from) {
    scales[static_cast<std::size_t>(column * m.blocks() + block)] =
        given[static_cast<std::size_t>(from)];
  });
  const std::vector<std::uint8_t> values = column_bytes(stored);
  std::vector<std::uint8_t> zeros;
  if (m.zeros == kernels::ZeroPoints::kInteger) zeros = zero_bytes(stored);
  kernels::pack(m, {.values = values.data(), .scales = scales.data(), .zeros = zeros.data()},
                packed.mutable_bytes().data());
  return packed;
}

}  // namespace ctxgen::onednn
