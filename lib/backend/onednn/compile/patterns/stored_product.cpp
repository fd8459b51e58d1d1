#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops/quantized/low_bit_matrix.h"
#include "../ops/quantized/low_bit_windows.h"
#include "../quantized_constant.h"
#include "patterns.h"
#include "walk.h"

// A MatMul, Gemm or Conv with what a DequantizeLinear makes of constant integers of a few bits, and the bias
// after it: weights that stay as small as the model has them. A DequantizeLinear that such a product alone
// reads is not folded (DnnlProvider::keeps_unfolded), or there would be a copy in float32 first. One that
// several nodes read is folded, for those that want it so; products read what it was made of.
namespace ctxgen::onednn {

namespace {

struct LowBitProduct {
  NodeId dequantize;
  StoredLowBits stored;
  std::optional<LowBitWindows> windows;  // of a Conv
};

/// Whether a Transpose swaps the axes of a matrix.
bool swaps_axes(const Node& node) {
  const auto perm = node.ints("perm");
  if (!perm) return true;  // the default; the matrix has rank 2
  return perm->size() == 2 && (*perm)[0] == 1 && (*perm)[1] == 0;
}

/// Whether `value` is made of bytes: products of such belong to integer kernels, where a machine has them.
bool comes_from_bytes(const GraphView& view, ValueId value) {
  constexpr std::array<std::string_view, 9> kMoves{"Reshape",   "Transpose", "Squeeze",
                                                   "Unsqueeze", "Flatten",   "Identity",
                                                   "Slice",     "MaxPool",   "Relu"};
  for (int step = 0; step < 16 && value.valid(); ++step) {
    const NodeId producer = view.graph().value(value).producer;
    if (!producer.valid()) return false;
    const Node& node = view.graph().node(producer);
    if (node.op_type == "DequantizeLinear")
      return node.input(0).valid() && is_byte(view.graph().value(node.input(0)).type.element);
    if (std::ranges::find(kMoves, std::string_view(node.op_type)) == kMoves.end()) return false;
    value = node.input(0);
  }
  return false;
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

bool is_known_conv(const Node& conv) {
  constexpr std::array<std::string_view, 6> kKnown{"auto_pad",     "dilations", "group",
                                                   "kernel_shape", "pads",      "strides"};
  return conv.domain.empty() && std::ranges::all_of(conv.attributes, [&](const Attribute& given) {
           return std::ranges::contains(kKnown, std::string_view(given.name));
         });
}

/// The DequantizeLinear that makes the second input of `reader`, and how its result is turned on the way.
struct Source {
  NodeId dequantize;
  bool swapped = false;
};

/// Collects the nodes on the way that are not folded: none of them may be read by others.
std::optional<Source> find_source(PatternWalk& walk, const GraphView& view, NodeId reader) {
  Source source;
  ValueId value = walk.node(reader).input(1);
  for (;;) {
    if (!value.valid()) return std::nullopt;
    const bool folded = view.constant(value) != nullptr;
    const NodeId producer = view.graph().value(value).producer;
    if (!producer.valid() || (!folded && walk.only_consumer(value, "") != reader))
      return std::nullopt;
    if (!folded) walk.take(producer);
    const Node& node = walk.node(producer);
    if (is_onnx_or_microsoft(node) && node.op_type == "DequantizeLinear" &&
        node.outputs.size() == 1) {
      source.dequantize = producer;
      return source;
    }
    if (!node.domain.empty() || node.op_type != "Transpose" || !swaps_axes(node))
      return std::nullopt;
    source.swapped = !source.swapped;
    value = node.input(0);
    reader = producer;
  }
}

/// Whether the third input of a Gemm or Conv is there and no bias.
bool has_other_bias(const GraphView& view, const Node& product, std::int64_t columns) {
  if (!product.input(2).valid()) return false;
  const Tensor* c = view.constant(product.input(2));
  if (c == nullptr || product.op_type == "MatMul" || !is_row(*c, columns)) return true;
  return product.op_type == "Conv" && c->dims() != Dims{columns};
}

/// What `reader` multiplies by, where that is a stored matrix; collects the nodes.
std::optional<LowBitProduct> find_product(PatternWalk& walk, const GraphView& view, NodeId reader) {
  const Node& product = walk.node(reader);
  const bool gemm = product.op_type == "Gemm", conv = product.op_type == "Conv";
  if (conv ? !is_known_conv(product)
           : !product.domain.empty() ||
                 (gemm ? !is_plain_gemm(product) : product.op_type != "MatMul"))
    return std::nullopt;
  const ValueId a = product.input(0), matrix = product.input(1);
  if (!a.valid() || a == matrix || product.input(2) == matrix || view.constant(a) != nullptr)
    return std::nullopt;
  const auto source = find_source(walk, view, reader);
  if (!source || (conv && source->swapped)) return std::nullopt;
  const NodeView dequantize(view, walk.node(source->dequantize));
  const bool swapped = source->swapped != (gemm && product.int_or("transB", 0) != 0);
  LowBitProduct found{source->dequantize, {}, {}};
  if (conv) {
    auto windows = read_low_bit_windows(dequantize, NodeView(view, product));
    if (!windows) return std::nullopt;
    found.stored = windows->stored;
    found.windows = *std::move(windows);
  } else {
    auto stored = read_low_bits(dequantize, swapped);
    if (!stored) return std::nullopt;
    found.stored = *std::move(stored);
  }
  if (is_byte(found.stored.values.type()) && comes_from_bytes(view, a)) return std::nullopt;
  if (has_other_bias(view, product, found.stored.matrix.n)) return std::nullopt;
  walk.take(reader);
  return found;
}

/// Whether `src` may be what the product takes.
bool takes(const GraphView& view, const LowBitProduct& found, ValueId src) {
  const std::vector<Dim>& dims = *view.graph().value(src).type.shape;
  if (found.windows) return true;  // read_low_bit_windows() has seen it
  return !dims.back().is_fixed() || dims.back().value() == found.stored.matrix.k;
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
  NodeId reader = dequantize;
  do {
    const ValueId result = walk.node(reader).output(0);
    if (view.constant(result) != nullptr) return false;
    reader = walk.only_consumer(result, "");
  } while (reader.valid() && walk.node(reader).op_type == "Transpose");
  if (!reader.valid()) return false;
  const auto found = find_product(walk, view, reader);
  return found && found->dequantize == dequantize;
}

std::optional<PatternMatch> match_low_bit_product(const GraphView& view, NodeId node) {
  PatternWalk walk(view);
  const auto found = find_product(walk, view, node);
  if (!found) return std::nullopt;
  const Node& product = walk.node(node);
  PatternMatch match;
  match.src = product.input(0);
  match.result = product.output(0);
  if (!walk.is_data(match.src) || !walk.is_data(match.result) || !takes(view, *found, match.src))
    return std::nullopt;
  if (product.op_type != "MatMul") {
    match.shift = product.input(2);
  } else if (const NodeId add = walk.only_consumer(match.result, "Add"); add.valid()) {
    match.shift = added_row(walk, view, add, match.result, found->stored.matrix.n);
    if (match.shift.valid()) {
      walk.take(add);
      match.result = walk.node(add).output(0);
    }
  }
  match.nodes = walk.nodes();
  match.kind = found->windows ? kind::kLowBitConv : kind::kLowBitMatmul;
  match.anchor = node;
  return match;
}

Status lower_low_bit_product(const GraphView& view, const PatternMatch& match, ProgramOp op,
                             ProgramBuilder& builder) {
  PatternWalk walk(view);
  const Node& product = walk.node(match.anchor);
  const auto found = find_product(walk, view, match.anchor);
  if (!found) return fail(ErrorCode::kInternal, "{}: no product", product.describe());
  const kernels::LowBitMatrix& m = found->stored.matrix;
  LowBitMatmulParams params{.k = m.k,
                            .n = m.n,
                            .bits = m.bits,
                            .block = m.block,
                            .zeros = std::string(zeros_word(m.zeros))};
  Tensor packed;
  if (found->windows) {
    encode(LowBitConvParams{.matrix = std::move(params),
                            .kernel = found->windows->kernel,
                            .window = found->windows->window},
           op);
    const StoredLowBits ordered = CTXGEN_TRY(in_window_order(*found->windows));
    packed = CTXGEN_TRY(packed_low_bits(ordered));
  } else {
    encode(params, op);
    packed = CTXGEN_TRY(packed_low_bits(found->stored));
  }
  const NodeView source(view, walk.node(found->dequantize));
  const Operand matrix = builder.weight(source.input_value(0).name, packed);
  Operand bias;
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
