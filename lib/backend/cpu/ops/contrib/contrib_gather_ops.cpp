#include <algorithm>

#include "contrib_families.h"
#include "kernel/attributes.h"
#include "kernel/widen.h"
#include "tensors/indices.h"

// com.microsoft: rows of tables that are quantised in blocks.

namespace ctxgen::cpu {
namespace {

struct GatherBlocks {
  std::int64_t gather_axis = 0, quantize_axis = 1, block = 0, bits = 0;
};

/// Element i of numbers of `bits` bits without gaps, low bits first.
std::int32_t element_at(const std::uint8_t* bytes, std::int64_t i, std::int64_t bits,
                        bool is_signed) {
  const std::int64_t per_byte = 8 / bits;
  const std::int32_t q = (bytes[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
  return is_signed && q >= 1 << (bits - 1) ? q - (1 << bits) : q;
}

/// The table as its elements, with the axes that are gathered and scaled along.
struct BlockTable {
  const Tensor* data = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* zeros = nullptr;
  Dims dims = {};        // in elements
  AxisSplit along = {};  // the axis that is scaled in blocks
  std::int64_t blocks = 0, block = 0, bits = 0;
  bool is_signed = false, bytes = false;

  [[nodiscard]] float at(std::int64_t element) const {
    const std::int64_t k = element / along.inner % along.extent;
    const std::int64_t outer = element / along.inner / along.extent;
    const std::int64_t place = (outer * blocks + k / block) * along.inner + element % along.inner;
    const std::int32_t q = element_at(bytes_of(*data), element, bits, is_signed);
    return static_cast<float>(q - zero(place)) * data_of<float>(*scales)[place];
  }

 private:
  static const std::uint8_t* bytes_of(const Tensor& tensor) {
    return reinterpret_cast<const std::uint8_t*>(tensor.bytes().data());
  }
  /// Rows of zero points in bytes are filled up to whole ones.
  [[nodiscard]] std::int32_t zero(std::int64_t place) const {
    if (zeros == nullptr) return bytes ? 1 << (bits - 1) : 0;
    if (!bytes) return element_at(bytes_of(*zeros), place, bits, is_signed);
    const std::int64_t row = (blocks * bits + 7) / 8;
    return element_at(bytes_of(*zeros) + place / blocks * row, place % blocks, bits, false);
  }
};

Result<BlockTable> read_table(const KernelContext& context, const GatherBlocks& p) {
  BlockTable table{.block = p.block, .bits = p.bits};
  table.data = CTXGEN_TRY(required(context, 0));
  table.scales = CTXGEN_TRY(required(context, 2, DataType::kFloat));
  table.zeros = optional_input(context, 3);
  const DataType type = table.data->type();
  table.bytes = type == DataType::kUint8;
  table.is_signed = type == DataType::kInt4;
  if (!table.bytes && type != DataType::kUint4 && type != DataType::kInt4)
    return fail(ErrorCode::kUnsupported, "data is {}", name_of(type));
  if (!table.bytes && p.bits != 4)
    return fail(ErrorCode::kInvalidGraph, "{} bits of {}", p.bits, name_of(type));
  CTXGEN_CHECK(expect_rank(*table.data, "data", 1));
  const std::size_t rank = table.data->rank();
  const std::size_t axis = CTXGEN_TRY(normalize_axis(p.quantize_axis, rank));
  const std::size_t gathered = CTXGEN_TRY(normalize_axis(p.gather_axis, rank));
  if (table.bytes && (gathered != 0 || axis + 1 != rank || rank == 1))
    return fail(ErrorCode::kInvalidGraph, "uint8 data with gather_axis {}, quantize_axis {}",
                p.gather_axis, p.quantize_axis);
  table.dims = table.data->dims();
  if (table.bytes) table.dims[rank - 1] *= 8 / p.bits;
  table.blocks = (table.dims[axis] + p.block - 1) / p.block;
  Dims scales = table.dims;
  scales[axis] = table.blocks;
  CTXGEN_CHECK(expect_dims(*table.scales, "scales", scales));
  if (table.zeros != nullptr) {
    if (table.bytes) scales[axis] = (table.blocks * p.bits + 7) / 8;
    if (table.zeros->type() != type)
      return fail(ErrorCode::kInvalidGraph, "zero_points is {}", name_of(table.zeros->type()));
    CTXGEN_CHECK(expect_dims(*table.zeros, "zero_points", scales));
  }
  table.along = split_at(table.dims, axis);
  return table;
}

Status gather_blocks(KernelContext& context, const GatherBlocks& p) {
  const BlockTable table = CTXGEN_TRY(read_table(context, p));
  const Tensor* index_tensor = CTXGEN_TRY(required(context, 1));
  const std::size_t axis = CTXGEN_TRY(normalize_axis(p.gather_axis, table.dims.size()));
  const auto indices = CTXGEN_TRY(checked_indices(*index_tensor, table.dims[axis]));
  if (table.dims.size() - 1 + index_tensor->rank() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "the output's rank is above {}", kMaxRank);
  Dims dims(table.dims.span().first(axis));
  for (const std::int64_t dim : index_tensor->dims()) dims.push_back(dim);
  for (const std::int64_t dim : table.dims.span().subspan(axis + 1)) dims.push_back(dim);
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, dims));
  const AxisSplit split = split_at(table.dims, axis);
  float* to = mutable_data_of<float>(*output);
  for (std::int64_t outer = 0; outer < split.outer; ++outer)
    for (const std::int64_t index : indices)
      for (std::int64_t i = 0; i < split.inner; ++i)
        *to++ = table.at((outer * split.extent + index) * split.inner + i);
  return {};
}

KernelResult make_gather_blocks(const Node& node) {
  const GatherBlocks p{.gather_axis = node.int_or("gather_axis", 0),
                       .quantize_axis = node.int_or("quantize_axis", 1),
                       .block = node.int_or("block_size", 128),
                       .bits = node.int_or("bits", 4)};
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  if (p.block < 16 || p.block > kMost || (p.block & (p.block - 1)) != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: blocks of {}", node.describe(), p.block);
  if (p.bits != 2 && p.bits != 4 && p.bits != 8)
    return fail(ErrorCode::kUnsupported, "{}: {} bits", node.describe(), p.bits);
  return widened_kernel([p](KernelContext& context) { return gather_blocks(context, p); }, 2);
}

constexpr OpRow kContribGatherRows[] = {
    {kMicrosoft, "GatherBlockQuantized", 1, 1, make_gather_blocks,
     "uint4, int4, or 2, 4 or 8 bits in uint8; float, float16, bfloat16"},
};

}  // namespace

constinit const std::span<const OpRow> kContribGatherOps = kContribGatherRows;

}  // namespace ctxgen::cpu
