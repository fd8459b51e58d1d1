#pragma once

#include "ctxgen/base/status.h"

#include "../lowered.h"

namespace ctxgen::onednn {

/// Rewrites a lowered program into an equivalent one with fewer ops. A value that is an output of
/// the program, or that more than the fused op reads, is never changed or dropped.
///
/// Determinism  depends on the program only.
/// Errors       RESOURCE_LIMIT (memory for changed weights).
[[nodiscard]] Status fuse(Lowered& lowered);

// The passes of fuse(), in its order; each leaves a valid program.

/// Dims that follow from others; equal expressions get equal symbols.
void derive_dims(Lowered& lowered);
/// Identity ops (also Dropout at inference).
void drop_identities(Lowered& lowered);
/// Scalar constants: binary ops become eltwise linear and clip; chains of linear become one.
void simplify_scalars(Lowered& lowered);
/// An instance normalisation between reshapes that put channels into groups: a group normalisation.
/// Errors  RESOURCE_LIMIT, IO_ERROR of the spill file.
[[nodiscard]] Status join_grouped_norms(Lowered& lowered);
/// Per-channel factors and addends go into weights and bias of the conv, matmul or group normalisation
/// before them.
[[nodiscard]] Status fold_affine(Lowered& lowered);
/// hardsigmoid, hardswish, swish and mish from their parts.
void match_activations(Lowered& lowered);
/// Where options ask for it: constant matrices of products become integers.
/// Errors  RESOURCE_LIMIT, IO_ERROR of the spill file.
[[nodiscard]] Status quantise_weights(Lowered& lowered);
/// Where options ask for it: products and convolutions multiply bf16 or f16.
/// Errors  RESOURCE_LIMIT, IO_ERROR of the spill file.
[[nodiscard]] Status narrow_arithmetic(Lowered& lowered);
/// Where options ask for it, or Lowered::source_types says that a model has them so: constant
/// operands of products, convolutions and lookups become bf16 or f16. Those that the type does not hold stay.
/// Errors  RESOURCE_LIMIT, IO_ERROR of the spill file.
[[nodiscard]] Status narrow_weights(Lowered& lowered);
/// Eltwise and binary ops become post-ops of what they follow.
void fuse_post_ops(Lowered& lowered);
/// Sums of integers that are made real at once: the product gives real numbers.
[[nodiscard]] Status join_integer_sums(Lowered& lowered);
/// Products of dequantised values and weights become integer products.
[[nodiscard]] Status make_integer_products(Lowered& lowered);
/// Quantisation goes before ops that move data or take maxima.
void move_quantize_up(Lowered& lowered);
/// Quantisation after an integer product becomes part of it.
void store_products_as_bytes(Lowered& lowered);
/// Conversions and the element-wise ops between them become one op.
void join_points(Lowered& lowered);
/// Drops ops that are not needed, and unused values, weights and symbols; renumbers.
void compact(Lowered& lowered);

}  // namespace ctxgen::onednn
