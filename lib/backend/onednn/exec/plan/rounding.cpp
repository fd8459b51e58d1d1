#include "plan/rounding.h"

#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"
#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

constexpr std::string_view kMoves[] = {
    kind::kConcat,    kind::kTranspose, kind::kReshape, kind::kFlatten, kind::kSqueeze,
    kind::kUnsqueeze, kind::kIdentity,  kind::kSlice,   kind::kSplit,   kind::kPad,
    kind::kGather,    kind::kTile,      kind::kExpand,  kind::kSelect,  kind::kBlocks,
};
constexpr std::int64_t kMostTerms = kMaxParam;

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

/// A dim of an operand, counted from the back; unknown ones count as kUnknownTerms.
std::int64_t dim_from_back(const Program& program, const ProgramOp& op, std::size_t input,
                           std::size_t back) {
  if (input >= op.inputs.size()) return kUnknownTerms;
  const Operand& operand = op.inputs[input];
  std::int64_t dim = -1;
  if (operand.kind == Operand::Kind::kWeight) {
    const Dims& dims = program.weights[operand.index].dims;
    if (back < dims.size()) dim = dims[dims.size() - 1 - back];
  } else if (operand.kind == Operand::Kind::kValue) {
    const auto& dims = program.values[operand.index].dims;
    if (back < dims.size()) dim = dims[dims.size() - 1 - back].value;
  }
  return dim < 0 ? kUnknownTerms : std::min(dim, kMostTerms);
}

/// Of a convolution, for each of whose outputs a slice of the weights is summed up.
std::int64_t taps_of(const Program& program, const ProgramOp& op) {
  if (op.inputs.size() < 2 || op.inputs[1].kind != Operand::Kind::kWeight) return kUnknownTerms;
  const Dims& dims = program.weights[op.inputs[1].index].dims;
  std::int64_t taps = 1;
  for (std::size_t i = 1; i < dims.size(); ++i)
    if (__builtin_mul_overflow(taps, dims[i], &taps)) return kMostTerms;
  return std::min(taps, kMostTerms);
}

std::int64_t terms_of(const Program& program, const ProgramOp& op) {
  const std::string_view word = op.kind;
  if (word == kind::kConv || word == kind::kQConv || word == kind::kDeconv) return taps_of(program, op);
  if (word == kind::kMatmul || word == kind::kQMatmul) {
    const bool transposed = Params(op).integer("trans_b", 0).value_or(0) != 0;
    return dim_from_back(program, op, 1, transposed ? 0 : 1);
  }
  if (word == kind::kRnn)  // at each step a sum over the input and the state: [T, N, I], [D, O, G, O]
    return std::min(dim_from_back(program, op, 0, 2) *
                        std::min(dim_from_back(program, op, 0, 0) + dim_from_back(program, op, 2, 0),
                                 kMostTerms),
                    kMostTerms);
  return 1;
}

}  // namespace

OpRounding rounding_of(const Program& program, const ProgramOp& op) {
  const Params params(op);
  const bool is_point = op.kind == kind::kPoint;
  const bool moves = is_point || std::ranges::find(kMoves, op.kind) != std::end(kMoves);
  OpRounding rounding;
  rounding.roundings = static_cast<std::int64_t>(op.post_ops.size()) + (moves ? 0 : terms_of(program, op));
  if (op.outputs.empty()) return rounding;
  const DataType result = program.values[op.outputs[0]].type;
  rounding.quantises = is_byte(result) && params.has("out_scale");
  if (is_point && !is_byte(result) && params.has("in_scale"))
    rounding.step = params.real("in_scale", 0).value_or(0);
  return rounding;
}

}  // namespace ctxgen::onednn
