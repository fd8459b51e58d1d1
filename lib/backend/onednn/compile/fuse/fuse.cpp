#include "fuse.h"

namespace ctxgen::onednn {

namespace {

/// The dims of inputs and outputs are the model's: what the passes learn about outputs is undone.
class InterfaceDims {
 public:
  explicit InterfaceDims(const Program& program) {
    for (const std::uint32_t output : program.outputs) dims_.push_back(program.values[output].dims);
  }
  void restore(Program& program) const {
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      program.values[program.outputs[i]].dims = dims_[i];
    }
  }

 private:
  std::vector<std::vector<ProgramDim>> dims_;
};

}  // namespace

Status fuse(Lowered& lowered) {
  const InterfaceDims interface(lowered.program);
  derive_dims(lowered);
  drop_identities(lowered);
  CTXGEN_CHECK(join_integer_sums(lowered));
  simplify_scalars(lowered);
  // Patterns first: a factor folded into weights would hide the pattern that it belongs to.
  match_activations(lowered);
  CTXGEN_CHECK(join_grouped_norms(lowered));
  CTXGEN_CHECK(fold_affine(lowered));
  CTXGEN_CHECK(quantise_weights(lowered));
  fuse_post_ops(lowered);
  CTXGEN_CHECK(make_integer_products(lowered));
  move_quantize_up(lowered);
  store_products_as_bytes(lowered);
  CTXGEN_CHECK(narrow_arithmetic(lowered));
  CTXGEN_CHECK(narrow_weights(lowered));
  join_points(lowered);
  drop_identities(lowered);
  interface.restore(lowered.program);
  compact(lowered);
  return {};
}

}  // namespace ctxgen::onednn
