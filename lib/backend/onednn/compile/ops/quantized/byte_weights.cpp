#include "byte_weights.h"

#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

namespace ctxgen::onednn {

namespace {

const std::uint8_t* bytes_in(const Tensor& tensor) {
  return reinterpret_cast<const std::uint8_t*>(tensor.bytes().data());
}

bool holds_bytes(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

}  // namespace

Read<ByteWeights> read_byte_weights(const NodeView& n, std::size_t values, std::size_t zeros) {
  const Tensor* stored = n.has_input(values) ? n.constant(values) : nullptr;
  if (stored == nullptr) return refuse("weights are not constant");
  if (!holds_bytes(stored->type())) return refuse("weights of type {}", name_of(stored->type()));
  if (stored->rank() != 2) return refuse("weights of rank {}, expected 2", stored->rank());
  ByteWeights read;
  read.matrix = {.k = stored->dims()[0], .n = stored->dims()[1]};
  if (!kernels::is_valid(read.matrix)) return refuse("weights {}", to_string(stored->dims()));
  read.source = {.is_signed = stored->type() == DataType::kInt8, .values = bytes_in(*stored)};
  if (n.has_input(zeros)) {
    const Tensor* zero = n.constant(zeros);
    if (zero == nullptr) return refuse("zero point of the weights is not constant");
    if (zero->type() != stored->type()) return refuse("zero point of other type than the weights");
    const std::int64_t count = zero->element_count();
    if (zero->rank() > 1 || (count != 1 && count != read.matrix.n))
      return refuse("zero point of dims {}", to_string(zero->dims()));
    read.source.zeros = bytes_in(*zero);
    read.source.zero_per_column = count > 1;
  }
  read.matrix.zeros = kernels::needs_zeros(read.source, read.matrix.n);
  // A tile is filled up to 32 columns. What the file has is what memory may be taken for.
  constexpr std::uint64_t kSmall = 1U << 20U;
  if (kernels::packed_bytes(read.matrix) > 4 * stored->bytes().size() + kSmall)
    return refuse("{} columns are too few", read.matrix.n);
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
  const kernels::ByteMatrix& m = weights.matrix;
  encode(ByteMatmulParams{.k = m.k, .n = m.n, .zeros = m.zeros}, op);
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(m));
  Tensor packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{bytes}));
  kernels::pack(m, weights.source, packed.mutable_bytes().data());
  SmallList<Operand> inputs{operands.a,
                            builder.stored_weight(n.input_value(values).name, std::move(packed))};
  std::size_t wanted = 2;
  const Operand more[] = {operands.zero, operands.scale, operands.scales, operands.bias};
  for (std::size_t i = 0; i < std::size(more); ++i)
    if (more[i].kind != Operand::Kind::kNone) wanted = i + 3;
  for (std::size_t i = 2; i < wanted; ++i) inputs.push_back(more[i - 2]);
  builder.add(std::move(op), std::move(inputs), result);
  return {};
}

}  // namespace ctxgen::onednn
