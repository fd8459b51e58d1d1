#pragma once

#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// What passes over a program ask of an op kind, in place of its name. The rows of the kinds
/// (exec/kinds) hold them.
struct KindTraits {
  bool post_ops = true;     // takes post_ops
  bool product = false;     // multiplies by its second input, which it packs where that is a weight
  bool matrix = false;      // a product over the last two dims; the other products are convolutions
  bool quantised = false;   // a product of 8-bit integers: zero points, scales, VNNI
  bool own_bytes = false;   // such a product by a kernel of our own, on every instruction set
  bool pools = false;       // takes the maximum or average of windows, by `mode`
  bool view = false;        // its result may be its source's bytes, seen otherwise
  bool rearranges = false;  // every element of the source once in the result, none changed
  bool concatenates = false;
  bool keeps_dims = false;   // the result has the dims of the first input
  bool takes_empty = false;  // may read an empty tensor where its result is not empty
  bool exact = false;        // elements are moved or selected, none is rounded; post_ops may round
  bool typed_operands = false;   // operands of post_ops may be of any stored type, not f32 alone
  bool absorbs_eltwise = false;  // an element-wise step after it costs less as its post-op
  bool absorbs_binary = false;   // so does a binary one
  bool reads_growing_concat = false;  // walks rows that are inside a longer concatenation's
  bool reads_views = false;  // moves elements, so that it reads a source of any strides in place
  std::uint8_t strided_operands = 0;  // so many first inputs are read in place, transposed too
  std::uint8_t map_entries_per_dim =
      0;  // index maps that a plan holds, per element of a result's dim
};

/// The traits of an op's kind; those of no kind for one that is unknown.
[[nodiscard]] const KindTraits& traits_of(const ProgramOp& op);

/// Whether a post-op holds numbers between two bounds, and does nothing else.
[[nodiscard]] inline bool only_bounds(const PostOp& post) {
  if (post.operand.kind != Operand::Kind::kNone) return false;
  return (post.kind == "relu" && post.alpha == 0) ||
         (post.kind == "clip" && post.alpha <= post.beta);
}

}  // namespace ctxgen::onednn
