#include "rules/shape_rules.h"

#include "plan/params.h"

namespace ctxgen::onednn {

ShapeOutputs one_shape(const Dims& dims) {
  ShapeOutputs outputs;
  outputs.push_back(dims);
  return outputs;
}

std::vector<ShapeInput> shape_inputs(const NodeBuilder& builder, std::size_t count) {
  std::vector<ShapeInput> in(count);
  for (std::size_t i = 0; i < count; ++i)
    if (builder.has_input(i)) in[i] = {builder.input(i).dims, true};
  return in;
}

Status require_spatial(const ProgramOp& op, const Dims& src) {
  if (src.size() < 3 || src.size() > 5)
    return fail(ErrorCode::kUnsupported, "{}: source {} has rank {}, expected 3 to 5", label(op),
                to_string(src), src.size());
  return {};
}

Result<ShapeOutputs> same_shape(const ProgramOp&, ShapeInputs in) { return one_shape(in[0].dims); }

/// Scales of a quantised product: one, or one per output channel.
Status check_scales(const ProgramOp& op, ShapeInputs in, std::int64_t channels) {
  if (in.size() < 4 || !in[3].present) return {};
  if (in[3].dims == Dims{1} || in[3].dims == Dims{channels}) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: scales {}, expected [1] or [{}]", label(op),
              to_string(in[3].dims), channels);
}

}  // namespace ctxgen::onednn
