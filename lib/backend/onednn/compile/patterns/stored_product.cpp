#include <algorithm>
#include <array>
#include <vector>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops/quantized/low_bit_matrix.h"
#include "patterns.h"
#include "walk.h"

// A MatMul or Gemm with what a DequantizeLinear makes of a constant matrix of integers of a few bits, and
// the bias after it: weights that stay as small as the model has them. The DequantizeLinear is not folded
// (DnnlProvider::keeps_unfolded), or there would be a copy in float32 first.
namespace ctxgen::onednn {

namespace {

struct LowBitProduct {
  NodeId product;
  StoredLowBits stored;
};

/// Whether a Transpose swaps the axes of a matrix.
bool swaps_axes(const Node& node) {
  const auto perm = node.ints("perm");
  if (!perm) return true;  // the default; the matrix has rank 2
  return perm->size() == 2 && (*perm)[0] == 1 && (*perm)[1] == 0;
}

/// Whether `value` is made of bytes: products of such belong to integer kernels, where a machine has them.
bool comes_from_bytes(const GraphView& view, ValueId value) {
  constexpr std::array<std::string_view, 7> kMoves{"Reshape", "Transpose", "Squeeze", "Unsqueeze",
                                                   "Flatten", "Identity",  "Slice"};
  for (int step = 0; step < 16 && value.valid(); ++step) {
    const NodeId producer = view.graph().value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = view.graph().node(producer);
    if (node.op_type == "DequantizeLinear") return true;
    if (std::ranges::find(kMoves, std::string_view(node.op_type)) == kMoves.end()) return false;
    value = node.input(0);
  }
  return false;
}

bool is_bytes(const Tensor& tensor) {
  return tensor.type() == DataType::kUint8 || tensor.type() == DataType::kInt8;
}

/// A Gemm that is its product plus a bias.
bool is_plain_gemm(const Node& gemm) {
  return gemm.int_or("transA", 0) == 0 && gemm.float_or("alpha", 1.0F) == 1.0F;
}

/// The bias that C of a Gemm is: one number, or a row of `columns`.
bool is_row(const Tensor& c, std::int64_t columns) {
  if (!is_real(c.type())) return false;
  if (c.rank() > 2) return false;
  return c.element_count() == 1 || (c.element_count() == columns && c.dims().back() == columns);
}

/// The product that alone reads what `dequantize` makes; collects the nodes on the way.
std::optional<LowBitProduct> find_product(PatternWalk& walk, const GraphView& view,
                                          NodeId dequantize) {
  const Node& source = walk.node(dequantize);
  if (!source.domain.empty() && source.domain != "com.microsoft") return std::nullopt;
  ValueId matrix = source.output(0);
  if (source.outputs.size() != 1 || view.constant(matrix) != nullptr) return std::nullopt;
  walk.take(dequantize);
  bool swapped = false;
  NodeId reader = walk.only_consumer(matrix, "");
  while (reader.valid() && walk.node(reader).op_type == "Transpose") {
    if (!swaps_axes(walk.node(reader))) return std::nullopt;
    swapped = !swapped;
    walk.take(reader);
    matrix = walk.node(reader).output(0);
    reader = walk.only_consumer(matrix, "");
  }
  if (!reader.valid()) return std::nullopt;
  const Node& product = walk.node(reader);
  const bool gemm = product.op_type == "Gemm";
  if ((!gemm && product.op_type != "MatMul") || (gemm && !is_plain_gemm(product)))
    return std::nullopt;
  const ValueId a = product.input(0);
  if (product.input(1) != matrix || a == matrix || product.input(2) == matrix || !a.valid() ||
      view.constant(a) != nullptr)
    return std::nullopt;
  if (gemm && product.int_or("transB", 0) != 0) swapped = !swapped;
  auto stored = read_low_bits(NodeView(view, source), swapped);
  if (!stored || (is_bytes(stored->values) && comes_from_bytes(view, a))) return std::nullopt;
  if (product.input(2).valid()) {
    const Tensor* c = view.constant(product.input(2));
    if (!gemm || c == nullptr || !is_row(*c, stored->matrix.n)) return std::nullopt;
  }
  walk.take(reader);
  return LowBitProduct{reader, *std::move(stored)};
}

/// The constant row that an Add after the product adds.
ValueId added_row(const PatternWalk& walk, const GraphView& view, NodeId add, ValueId product,
                  std::int64_t columns) {
  const ValueId row = walk.other(add, product);
  const Tensor* constant = row.valid() ? view.constant(row) : nullptr;
  const bool fits = constant != nullptr && constant->rank() == 1 &&
                    constant->element_count() == columns && is_row(*constant, columns);
  return fits ? row : ValueId{};
}

/// C of a Gemm times beta, as a bias [columns].
Result<Tensor> bias_of(const Tensor& c, float beta, std::int64_t columns) {
  std::vector<float> values = floats_of(c);
  if (values.size() == 1) values.assign(static_cast<std::size_t>(columns), values[0]);
  for (float& value : values) value *= beta;
  return tensor_of(Dims{columns}, values);
}

}  // namespace

bool keeps_low_bits(const GraphView& view, NodeId dequantize) {
  PatternWalk walk(view);
  return find_product(walk, view, dequantize).has_value();
}

std::optional<PatternMatch> match_low_bit_product(const GraphView& view, NodeId dequantize) {
  PatternWalk walk(view);
  const auto found = find_product(walk, view, dequantize);
  if (!found) return std::nullopt;
  const Node& product = walk.node(found->product);
  PatternMatch match;
  match.src = product.input(0);
  match.result = product.output(0);
  if (!walk.is_data(match.src) || !walk.is_data(match.result)) return std::nullopt;
  const Dim rows = view.graph().value(match.src).type.shape->back();
  if (rows.is_fixed() && rows.value() != found->stored.matrix.k) return std::nullopt;
  if (product.op_type == "Gemm") {
    match.shift = product.input(2);
  } else if (const NodeId add = walk.only_consumer(match.result, "Add"); add.valid()) {
    match.shift = added_row(walk, view, add, match.result, found->stored.matrix.n);
    if (match.shift.valid()) {
      walk.take(add);
      match.result = walk.node(add).output(0);
    }
  }
  match.nodes = walk.nodes();
  match.kind = kind::kLowBitMatmul;
  match.anchor = dequantize;
  return match;
}

Status lower_low_bit_product(const GraphView& view, const PatternMatch& match, ProgramOp op,
                             ProgramBuilder& builder) {
  PatternWalk walk(view);
  const auto found = find_product(walk, view, match.anchor);
  if (!found)
    return fail(ErrorCode::kInternal, "{}: no product", walk.node(match.anchor).describe());
  const kernels::LowBitMatrix& m = found->stored.matrix;
  encode(LowBitMatmulParams{.k = m.k,
                            .n = m.n,
                            .bits = m.bits,
                            .block = m.block,
                            .zeros = std::string(zeros_word(m.zeros))},
         op);
  const NodeView source(view, walk.node(match.anchor));
  const Operand matrix =
      builder.weight(source.input_value(0).name, CTXGEN_TRY(packed_low_bits(found->stored)));
  Operand bias;
  const Node& product = walk.node(found->product);
  if (match.shift.valid() && product.op_type == "Gemm")
    bias = builder.weight(
        view.graph().value(match.shift).name,
        CTXGEN_TRY(bias_of(*view.constant(match.shift), product.float_or("beta", 1.0F), m.n)));
  else if (match.shift.valid())
    bias = builder.operand(match.shift);
  builder.add(std::move(op), {builder.operand(match.src), matrix, bias},
              builder.value(match.result));
  return {};
}

}  // namespace ctxgen::onednn
