#include <algorithm>
#include <cstdint>
#include <utility>

#include "ctxgen/kernels/byte_depthwise.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "../node_view.h"
#include "../ops/quantized/byte_weights.h"
#include "../quantized_constant.h"
#include "fuse.h"
#include "quantized.h"

// Products of dequantised values by dequantised weights become integer products: oneDNN's where the target
// has VNNI, the library a fast kernel and that does not cost more to load than it gains; our own otherwise, and on all other
// targets, where oneDNN's sums would not be exact.
namespace ctxgen::onednn {

DataType type_of(const ProgramEditor& editor, Operand operand) {
  return operand.kind == Operand::Kind::kWeight ? editor.program().weights[operand.index].type
                                                : editor.program().values[operand.index].type;
}

DataType result_type(const ProgramEditor& editor, const ProgramOp& op) {
  return editor.program().values[op.outputs[0]].type;
}

namespace {

bool is_plain_point(const ProgramOp& op) { return op.kind == kind::kPoint && op.post_ops.empty(); }

}  // namespace

Steps steps_in(const ProgramOp& point) {
  const auto params = params_of<PointParams>(point);
  return {params.in_scale.value_or(1.0), params.in_zero.value_or(0)};
}

Steps steps_out(const ProgramOp& point) {
  const auto params = params_of<PointParams>(point);
  return {params.out_scale.value_or(1.0), params.out_zero.value_or(0)};
}

const ProgramOp* dequantize_of(const ProgramEditor& editor, Operand operand, bool sums) {
  const std::uint32_t index = editor.producer(operand);
  if (index == ProgramEditor::kNoOp || !is_plain_point(editor.op(index))) return nullptr;
  const ProgramOp& op = editor.op(index);
  const DataType from = type_of(editor, op.inputs[0]);
  const bool integer = is_byte(from) || (sums && from == DataType::kInt32);
  return integer && result_type(editor, op) == DataType::kFloat ? &op : nullptr;
}

bool is_quantize(const ProgramEditor& editor, const ProgramOp& op) {
  return is_plain_point(op) && type_of(editor, op.inputs[0]) == DataType::kFloat &&
         is_byte(result_type(editor, op));
}

namespace {

/// Weights and scales of an integer product.
struct IntegerWeights {
  Tensor values;              // symmetric s8
  std::vector<float> scales;  // of the product: source times weight
};

Result<std::optional<IntegerWeights>> integer_weights(const Lowered& lowered, const ProgramOp& op,
                                                      double source_scale) {
  if (op.inputs[1].kind != Operand::Kind::kWeight) return std::nullopt;
  const auto found = lowered.quantized.find(op.inputs[1].index);
  if (found == lowered.quantized.end()) return std::nullopt;
  const QuantizedWeight& weight = found->second;
  std::int64_t channels = 0;
  if (op.kind == kind::kMatmul) {
    const auto params = params_of<MatmulParams>(op);
    if (weight.stored.rank() != 2 || params.trans_a) return std::nullopt;
    channels = params.trans_b ? 0 : 1;
  }
  if (weight.scales.size() > 1 && weight.axis != channels) return std::nullopt;
  auto values = CTXGEN_TRY(symmetric_s8(weight));
  if (!values) return std::nullopt;
  IntegerWeights made{std::move(*values), weight.scales};
  for (float& scale : made.scales) scale = static_cast<float>(double{scale} * source_scale);
  return made;
}

/// What an integer product is made of.
struct IntegerFactors {
  Operand source;  // before it is made real
  Steps steps;     // of the source
  std::string name;
  IntegerWeights weights;
};

/// Nothing where a product has no integer form.
Result<std::optional<IntegerFactors>> integer_factors(const ProgramEditor& editor,
                                                      const Lowered& lowered, const ProgramOp& op) {
  const ProgramOp* source = dequantize_of(editor, op.inputs[0]);
  if (source == nullptr) return std::nullopt;
  const Steps steps = steps_in(*source);
  auto weights = CTXGEN_TRY(integer_weights(lowered, op, steps.scale));
  if (!weights) return std::nullopt;
  return IntegerFactors{source->inputs[0], steps, editor.program().weights[op.inputs[1].index].name,
                        *std::move(weights)};
}

Result<Operand> add_scales(ProgramEditor& editor, const IntegerFactors& factors) {
  const auto count = static_cast<std::int64_t>(factors.weights.scales.size());
  Tensor scales = CTXGEN_TRY(tensor_of(Dims{count}, factors.weights.scales));
  return editor.add_weight(factors.name + "/scales", std::move(scales));
}

/// The integer form of a product, with a float32 result; nothing where it has none.
Result<std::optional<ProgramOp>> integer_product(ProgramEditor& editor, const Lowered& lowered,
                                                 const ProgramOp& op) {
  const auto factors = CTXGEN_TRY(integer_factors(editor, lowered, op));
  if (!factors) return std::nullopt;
  ProgramOp made = op;
  made.kind = op.kind == kind::kConv ? kind::kQConv : kind::kQMatmul;
  made.inputs.resize(4);
  made.inputs[0] = factors->source;
  made.inputs[1] = CTXGEN_TRY(editor.add_weight(factors->name, factors->weights.values));
  made.inputs[3] = CTXGEN_TRY(add_scales(editor, *factors));
  encode(QuantisedParams{.in_zero = factors->steps.zero}, made);
  return made;
}

/// The weights of a product of our own.
struct OwnWeights {
  kernels::ByteMatrix matrix;
  Tensor packed;
  bool depthwise = false;
};

bool is_depthwise(const ProgramOp& op, const Dims& weights) {
  const std::int64_t group = params_of<ConvParams>(op).group;
  return group > 1 && group == weights[0] && weights[1] == 1;
}

/// Weights [C, 1, kernel] as [kernel, C], as they are.
Result<std::optional<OwnWeights>> depthwise_weights(const Tensor& stored) {
  OwnWeights made{.matrix = {.n = stored.dims()[0]}, .packed = {}, .depthwise = true};
  made.matrix.k = stored.element_count() / made.matrix.n;
  if (!kernels::is_valid(made.matrix) || made.matrix.k > kernels::kMostByteTaps)
    return std::nullopt;
  made.packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{stored.element_count()}));
  const Tensor rows = CTXGEN_TRY(window_rows(stored));
  std::ranges::copy(rows.bytes(), made.packed.mutable_bytes().begin());
  return made;
}

/// Nothing where our kernels have no such product: of other than one or two spatial dims, in groups of several
/// channels, of matrices of more than two dims.
Result<std::optional<OwnWeights>> own_weights(const ProgramOp& op, const Tensor& stored) {
  const bool conv = op.kind == kind::kConv;
  const Dims& dims = stored.dims();
  if (stored.element_count() == 0) return std::nullopt;
  if (conv ? dims.size() < 3 || dims.size() > 4 : dims.size() != 2) return std::nullopt;
  if (conv && is_depthwise(op, dims)) return depthwise_weights(stored);
  if (conv && params_of<ConvParams>(op).group != 1) return std::nullopt;
  const bool columns_first = conv || params_of<MatmulParams>(op).trans_b;
  OwnWeights made{.matrix = {.limits = true}, .packed = {}};
  made.matrix.n = dims[columns_first ? 0 : 1];
  made.matrix.k = stored.element_count() / made.matrix.n;
  if (!kernels::is_valid(made.matrix) || has_few_columns(made.matrix, stored.bytes().size()))
    return std::nullopt;
  const Tensor rows = conv            ? CTXGEN_TRY(window_rows(stored))
                      : columns_first ? CTXGEN_TRY(byte_rows(stored))
                                      : stored;
  made.packed =
      CTXGEN_TRY(packed_byte_matrix({made.matrix, {.is_signed = true, .values = bytes_in(rows)}}));
  return made;
}

/// A constant bias of one number per column, or none.
bool takes_bias(const ProgramEditor& editor, const ProgramOp& op, std::int64_t columns) {
  if (op.inputs.size() < 3 || op.inputs[2].kind == Operand::Kind::kNone) return true;
  const Tensor* bias = editor.weight(op.inputs[2]);
  return bias != nullptr && bias->type() == DataType::kFloat && bias->element_count() == columns;
}

void encode_own(const ProgramOp& op, const OwnWeights& own, const Dims& stored, ProgramOp& made) {
  const ByteMatmulParams product = matrix_params(own.matrix);
  made.params.clear();
  made.kind = op.kind == kind::kConv ? kind::kByteConv : kind::kByteMatmul;
  if (op.kind != kind::kConv) return encode(product, made);
  const auto kernel = stored.span().subspan(2);
  ByteConvParams conv{.matrix = product,
                      .kernel = IntList(kernel.begin(), kernel.end()),
                      .window = params_of<ConvParams>(op).window};
  if (own.depthwise) conv.group = own.matrix.n;
  encode(conv, made);
}

/// The zero point of a product's source; an absent one says 0.
Result<Operand> add_zero(ProgramEditor& editor, const IntegerFactors& factors) {
  if (factors.steps.zero == 0) return Operand{};
  Tensor zero = CTXGEN_TRY(Tensor::allocate(type_of(editor, factors.source), Dims{1}));
  zero.mutable_bytes()[0] = static_cast<std::byte>(factors.steps.zero);
  return editor.add_weight(factors.name + "/zero", std::move(zero));
}

/// The same by a kernel of our own.
Result<std::optional<ProgramOp>> own_product(ProgramEditor& editor, const Lowered& lowered,
                                             const ProgramOp& op) {
  const auto factors = CTXGEN_TRY(integer_factors(editor, lowered, op));
  if (!factors) return std::nullopt;
  auto own = CTXGEN_TRY(own_weights(op, factors->weights.values));
  if (!own || !takes_bias(editor, op, own->matrix.n)) return std::nullopt;
  const Operand bias = op.inputs.size() > 2 ? op.inputs[2] : Operand{};
  ProgramOp made = op;
  encode_own(op, *own, factors->weights.values.dims(), made);
  const Operand zero = CTXGEN_TRY(add_zero(editor, *factors));
  const Operand weights = CTXGEN_TRY(editor.add_weight(factors->name, std::move(own->packed)));
  const Operand scales = CTXGEN_TRY(add_scales(editor, *factors));
  made.inputs = {factors->source, weights, zero, {}, scales, bias};
  return made;
}

/// A sum of integers whose only reader makes it real: the product gives real numbers itself.
Status join_sum(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp point = editor.op(index);
  const ProgramOp* made = dequantize_of(editor, Operand::value(point.outputs[0]), true);
  const std::uint32_t before = editor.sole_producer(point.inputs[0]);
  if (made == nullptr || before == ProgramEditor::kNoOp) return {};
  ProgramOp product = editor.op(before);
  const bool sums = traits_of(product).quantised;
  if (!sums || result_type(editor, product) != DataType::kInt32) return {};
  const auto scale = static_cast<float>(steps_in(point).scale);
  product.inputs.resize(4);
  Tensor factor = CTXGEN_TRY(tensor_of(Dims{1}, std::vector{scale}));
  product.inputs[3] = CTXGEN_TRY(editor.add_weight(point.name + "/scale", std::move(factor)));
  product.outputs = point.outputs;
  editor.erase(before);
  editor.replace(index, std::move(product));
  return {};
}

/// The same after a product of our own, which holds numbers within bounds on the way, and does nothing else.
void store_own_bytes(ProgramEditor& editor, std::uint32_t before, std::uint32_t index) {
  const ProgramOp& point = editor.op(index);
  ProgramOp product = editor.op(before);
  if (!std::ranges::all_of(product.post_ops, only_bounds) ||
      result_type(editor, product) != DataType::kFloat)
    return;
  const Steps steps = steps_out(point);
  auto params = params_of<ByteMatmulParams>(product);
  params.out_scale = steps.scale;
  params.out_zero = steps.zero;
  encode(params, product);
  product.name = point.name;
  product.outputs = point.outputs;
  editor.erase(before);
  editor.replace(index, std::move(product));
}

/// A conversion after an integer product becomes the way in which that stores its result.
void absorb_quantize(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp point = editor.op(index);
  const std::uint32_t before = editor.sole_producer(point.inputs[0]);
  if (before == ProgramEditor::kNoOp) return;
  ProgramOp product = editor.op(before);
  if (traits_of(product).own_bytes) return store_own_bytes(editor, before, index);
  if (!traits_of(product).quantised) return;
  const Steps steps = steps_out(point);
  auto params = params_of<QuantisedParams>(product);
  params.out_scale = steps.scale;
  params.out_zero = steps.zero;
  encode(params, product);
  product.name = point.name;
  product.outputs = point.outputs;
  if (!runs_fast(editor.program(), product)) return;
  editor.erase(before);
  editor.replace(index, std::move(product));
}

}  // namespace

Status join_integer_sums(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i)
    if (editor.op(i).kind == kind::kPoint) CTXGEN_CHECK(join_sum(editor, i));
  return {};
}

namespace {

/// How many numbers a convolution or a matrix multiplies, for one image where these are not counted; INT64_MAX where it is not known.
std::int64_t products_of(const ProgramEditor& editor, const ProgramOp& op) {
  const ProgramValue& result = editor.program().values[op.outputs[0]];
  const Dims& weights = editor.program().weights[op.inputs[1].index].dims;
  if (!result.has_rank || weights.size() < 2) return INT64_MAX;
  const bool columns_last = op.kind == kind::kMatmul && !params_of<MatmulParams>(op).trans_b;
  const std::int64_t columns = weights[columns_last ? weights.size() - 1 : 0];
  std::int64_t products = element_count(weights) / std::max<std::int64_t>(columns, 1);
  for (std::size_t i = 0; i < result.dims.size(); ++i) {
    const std::int64_t size = result.dims[i].value;
    if (size < 0 && i == 0) continue;
    if (size < 0 || __builtin_mul_overflow(products, size, &products)) return INT64_MAX;
  }
  return products;
}

/// Whether our own kernel is the faster one where there is VNNI and no AMX: for images of few pixels, measured, and for windows of 160
/// columns, of 192 up to more pixels. Of these, oneDNN's kernels want other blocks than are stored (conv_packing.h), by the number of
/// pixels, and compute without VNNI in ours, at half the speed. Measured with oneDNN 3.12.1 at 49 to 12,544 pixels of results.
bool own_is_faster(const ProgramEditor& editor, const ProgramOp& op) {
  constexpr std::int64_t kFewPixels = 256;
  const InstructionSet usable = usable_instruction_set();
  const Dims& weights = editor.program().weights[op.inputs[1].index].dims;
  const ProgramValue& result = editor.program().values[op.outputs[0]];
  if (!includes(usable, InstructionSet::kAvx512CoreVnni) ||
      includes(usable, InstructionSet::kAvx512CoreAmx) || op.kind != kind::kConv ||
      weights.size() != 4 || !result.has_rank)
    return false;
  const bool windows = weights[2] * weights[3] > 1;
  if (windows && weights[0] == 160) return true;
  const std::int64_t height = result.dims[2].value, width = result.dims[3].value;
  const std::int64_t most = windows && weights[0] == 192 ? 1600 : kFewPixels;
  return height > 0 && width > 0 && height <= most / width;
}

/// Whether our own kernel comes before oneDNN's fast one. That wants sums of the weights behind them where the source has a zero
/// point or a sign, which no packing describes: these are packed at each load. And creating it takes as long as a small product
/// runs a hundred times.
bool own_comes_first(const ProgramEditor& editor, const ProgramOp& op) {
  constexpr std::int64_t kFewProducts = 1 << 24;
  const ProgramOp* source = dequantize_of(editor, op.inputs[0]);
  if (source == nullptr) return false;
  return type_of(editor, source->inputs[0]) == DataType::kInt8 || steps_in(*source).zero != 0 ||
         products_of(editor, op) <= kFewProducts || own_is_faster(editor, op);
}

/// The integer form of a product, nothing where there is none.
Result<std::optional<ProgramOp>> made_product(ProgramEditor& editor, const Lowered& lowered,
                                              const ProgramOp& op, bool library) {
  if (!library || own_comes_first(editor, op)) {
    auto own = CTXGEN_TRY(own_product(editor, lowered, op));
    if (own || !library) return own;
  }
  auto made = CTXGEN_TRY(integer_product(editor, lowered, op));
  if (made && !runs_fast(editor.program(), *made)) made.reset();
  return made;
}

}  // namespace

Status make_integer_products(Lowered& lowered) {
  const bool library = lowered.integer_products && has_fast_int8();
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    const ProgramOp& op = editor.op(i);
    if (op.kind != kind::kConv && op.kind != kind::kMatmul) continue;
    if (op.inputs[1].kind != Operand::Kind::kWeight) continue;
    auto made = CTXGEN_TRY(made_product(editor, lowered, op, library));
    if (made) editor.replace(i, std::move(*made));
  }
  return {};
}

void store_products_as_bytes(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i)
    if (!editor.erased(i) && is_quantize(editor, editor.op(i))) absorb_quantize(editor, i);
}

}  // namespace ctxgen::onednn
