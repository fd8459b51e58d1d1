#include "byte_weights.h"

#include <algorithm>
#include <utility>

#include "ctxgen/onednn/op_kinds.h"

#include "../conv_params.h"

namespace ctxgen::onednn {

namespace {

/// Zero points of weights of `stored`'s type, one or one of each of the matrix's columns.
Refusal read_byte_zeros(const NodeView& n, std::size_t zeros, const Tensor& stored,
                        ByteWeights& read) {
  if (n.has_input(zeros)) {
    const Tensor* zero = n.constant(zeros);
    if (zero == nullptr) return "zero point of the weights is not constant";
    if (zero->type() != stored.type()) return "zero point of other type than the weights";
    const std::int64_t count = zero->element_count();
    if (zero->rank() > 1 || (count != 1 && count != read.matrix.n))
      return std::format("zero point of dims {}", to_string(zero->dims()));
    read.source.zeros = bytes_in(*zero);
    read.source.zero_per_column = count > 1;
  }
  read.matrix.zeros = kernels::needs_zeros(read.source, read.matrix.n);
  if (has_few_columns(read.matrix, stored.bytes().size()))
    return std::format("{} columns are too few", read.matrix.n);
  return std::nullopt;
}

/// Packs a matrix and adds the op, whose parameters are set.
Status add_packed(const ByteWeights& weights, std::string_view name, const ByteOperands& operands,
                  ProgramOp op, std::uint32_t result, ProgramBuilder& builder) {
  Tensor packed = CTXGEN_TRY(packed_byte_matrix(weights));
  SmallList<Operand> inputs{operands.a, builder.stored_weight(name, std::move(packed))};
  std::size_t wanted = 2;
  const Operand more[] = {operands.zero, operands.scale, operands.scales, operands.bias};
  for (std::size_t i = 0; i < std::size(more); ++i)
    if (more[i].kind != Operand::Kind::kNone) wanted = i + 3;
  for (std::size_t i = 2; i < wanted; ++i) inputs.push_back(more[i - 2]);
  builder.add(std::move(op), std::move(inputs), result);
  return {};
}

}  // namespace

const std::uint8_t* bytes_in(const Tensor& tensor) {
  return reinterpret_cast<const std::uint8_t*>(tensor.bytes().data());
}

bool has_few_columns(const kernels::ByteMatrix& matrix, std::uint64_t stored_bytes) {
  constexpr std::uint64_t kSmall = 1U << 20U;
  return kernels::packed_bytes(matrix) > 4 * stored_bytes + kSmall;
}

Result<Tensor> packed_byte_matrix(const ByteWeights& weights) {
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(weights.matrix));
  Tensor packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{bytes}));
  kernels::pack(weights.matrix, weights.source, packed.mutable_bytes().data());
  return packed;
}

ByteMatmulParams matrix_params(const kernels::ByteMatrix& matrix) {
  ByteMatmulParams params{.k = matrix.k, .n = matrix.n, .zeros = matrix.zeros};
  if (matrix.limits) params.limits = 1;
  return params;
}

Result<Tensor> window_rows(const Tensor& weights) {
  const std::int64_t results = weights.dims()[0], channels = weights.dims()[1];
  const std::int64_t positions = weights.element_count() / results / channels;
  Tensor rows = CTXGEN_TRY(Tensor::allocate(weights.type(), Dims{positions * channels, results}));
  const std::uint8_t* from = bytes_in(weights);
  auto* to = reinterpret_cast<std::uint8_t*>(rows.mutable_bytes().data());
  for (std::int64_t m = 0; m < results; ++m)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < positions; ++p) to[(p * channels + c) * results + m] = *from++;
  return rows;
}

Result<Tensor> byte_rows(const Tensor& columns) {
  const std::int64_t n = columns.dims()[0], k = columns.dims()[1];
  Tensor rows = CTXGEN_TRY(Tensor::allocate(columns.type(), Dims{k, n}));
  const std::uint8_t* from = bytes_in(columns);
  auto* to = reinterpret_cast<std::uint8_t*>(rows.mutable_bytes().data());
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < k; ++i) to[i * n + j] = *from++;
  return rows;
}

Read<ByteWeights> read_byte_weights(const NodeView& n, std::size_t values, std::size_t zeros,
                                    Stored order) {
  const Tensor* stored = n.has_input(values) ? n.constant(values) : nullptr;
  if (stored == nullptr) return refuse("weights are not constant");
  if (!is_byte(stored->type())) return refuse("weights of type {}", name_of(stored->type()));
  if (stored->rank() != 2) return refuse("weights of rank {}, expected 2", stored->rank());
  ByteWeights read;
  read.matrix = {.k = stored->dims()[0], .n = stored->dims()[1], .limits = true};
  if (order == Stored::kColumns) std::swap(read.matrix.k, read.matrix.n);
  if (!kernels::is_valid(read.matrix)) return refuse("weights {}", to_string(stored->dims()));
  read.source = {.is_signed = stored->type() == DataType::kInt8,
                 .values = order == Stored::kRows ? bytes_in(*stored) : nullptr};
  CTXGEN_REFUSE(read_byte_zeros(n, zeros, *stored, read));
  return read;
}

Read<ByteWeights> read_byte_matmul(const NodeView& n) {
  ByteWeights weights = CTXGEN_TRY(read_byte_weights(n, 1, 3));
  CTXGEN_REFUSE(require_byte_rows(n, 0, weights.matrix.k));
  CTXGEN_REFUSE(require_one(n, 2, n.input_value(0).type.element, "zero point of the source"));
  if (!n.output_value(0).type.has_rank()) return refuse("rank of the result is unknown");
  return weights;
}

Refusal require_byte_rows(const NodeView& n, std::size_t i, std::int64_t k) {
  CTXGEN_REFUSE(require_value(n, i, {DataType::kUint8, DataType::kInt8}));
  const Dim last = n.input_dims(i).back();
  if (last.is_fixed() && last.value() != k)
    return std::format("rows of {} elements by {} x ...", last.value(), k);
  return std::nullopt;
}

Refusal require_one(const NodeView& n, std::size_t i, DataType type, std::string_view what) {
  if (!n.has_input(i)) return std::nullopt;
  const Tensor* constant = n.constant(i);
  const ValueType& declared = n.input_value(i).type;
  const bool typed = constant != nullptr
                         ? constant->type() == type
                         : declared.is_tensor() && declared.has_rank() && declared.element == type;
  if (!typed) return std::format("{} is not of type {}", what, name_of(type));
  if (constant != nullptr)
    return constant->element_count() == 1
               ? std::nullopt
               : Refusal(std::format("{} has {} elements", what, constant->element_count()));
  const bool one = declared.rank() <= 1 && std::ranges::all_of(*declared.shape, [](const Dim& dim) {
                     return dim.is_fixed() && dim.value() == 1;
                   });
  return one ? std::nullopt : Refusal(std::format("{} may have several elements", what));
}

Refusal require_vector(const NodeView& n, std::size_t i, std::int64_t count,
                       std::string_view what) {
  if (!n.has_input(i)) return std::nullopt;
  const Tensor* constant = n.constant(i);
  if (constant == nullptr) return std::format("{} is not constant", what);
  const std::int64_t found = constant->element_count();
  if (constant->type() == DataType::kFloat && constant->rank() <= 1 &&
      (found == 1 || found == count))
    return std::nullopt;
  return std::format("{} is {} {}", what, name_of(constant->type()), to_string(constant->dims()));
}

Operand byte_operand(const GraphView& view, ValueId id, ProgramBuilder& builder) {
  if (!id.valid()) return {};
  if (const Tensor* constant = view.constant(id))
    return builder.stored_weight(view.graph().value(id).name, *constant);
  return builder.operand(id);
}

Status add_byte_matmul(const NodeView& n, std::size_t values, const ByteWeights& weights,
                       const ByteOperands& operands, ProgramOp op, std::uint32_t result,
                       ProgramBuilder& builder) {
  encode(matrix_params(weights.matrix), op);
  return add_packed(weights, n.input_value(values).name, operands, std::move(op), result, builder);
}

Read<ByteConvWeights> read_byte_conv(const NodeView& n) {
  CTXGEN_REFUSE(require_value(n, 0, {DataType::kUint8, DataType::kInt8}));
  const Tensor* stored = n.has_input(1) ? n.constant(1) : nullptr;
  if (stored == nullptr) return refuse("weights are not constant");
  if (!is_byte(stored->type())) return refuse("weights of type {}", name_of(stored->type()));
  if (stored->rank() != 3 && stored->rank() != 4)
    return refuse("weights of rank {}, expected 3 or 4", stored->rank());
  if (stored->element_count() == 0) return refuse("weights {}", to_string(stored->dims()));
  ByteConvWeights read;
  read.conv = CTXGEN_TRY(read_conv_params(n, stored->dims()));
  if (read.conv.group != 1) return refuse("{} groups, expected 1", read.conv.group);
  const std::int64_t results = stored->dims()[0];
  read.matrix.matrix = {.k = stored->element_count() / results, .n = results, .limits = true};
  if (!kernels::is_valid(read.matrix.matrix))
    return refuse("weights {}", to_string(stored->dims()));
  read.matrix.source.is_signed = stored->type() == DataType::kInt8;
  CTXGEN_REFUSE(read_byte_zeros(n, 3, *stored, read.matrix));
  CTXGEN_REFUSE(require_one(n, 2, n.input_value(0).type.element, "zero point of the source"));
  if (!n.output_value(0).type.has_rank()) return refuse("rank of the result is unknown");
  return read;
}

Status add_byte_conv(const NodeView& n, const ByteConvWeights& weights,
                     const ByteOperands& operands, ProgramOp op, std::uint32_t result,
                     ProgramBuilder& builder) {
  const Tensor& stored = *n.constant(1);
  encode(ByteConvParams{.matrix = matrix_params(weights.matrix.matrix),
                        .kernel = list_of(stored.dims().span().subspan(2)),
                        .window = weights.conv.window},
         op);
  const Tensor rows = CTXGEN_TRY(window_rows(stored));
  ByteWeights matrix = weights.matrix;
  matrix.source.values = bytes_in(rows);
  return add_packed(matrix, n.input_value(1).name, operands, std::move(op), result, builder);
}

}  // namespace ctxgen::onednn
