#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/onednn/kind_traits.h"

namespace ctxgen::onednn {

class NodeBuilder;
class Placement;

/// What a shape function sees: dims of the inputs (rank 0 and `present` false for absent ones).
struct ShapeInput {
  Dims dims;
  bool present = false;
};
using ShapeInputs = std::span<const ShapeInput>;
using ShapeOutputs = std::vector<Dims>;

/// Whether the element types of the op's inputs and outputs have kernels.
/// Errors  UNSUPPORTED naming the op, the type, and what is expected.
using TypeRule = Status(const Program&, const ProgramOp&);
/// Dims of the outputs of an op. Errors  INVALID_GRAPH, UNSUPPORTED, RESOURCE_LIMIT naming it.
using ShapeRule = Result<ShapeOutputs>(const ProgramOp&, ShapeInputs);
/// How many terms one element of the result sums up, one rounding each; kUnknownTerms if it depends
/// on what is not known. Any program is accepted, checked or not.
using TermsRule = std::int64_t(const Program&, const ProgramOp&);
/// Finds the op's inputs and makes its outputs in the layouts that its kernel wants; adds its node,
/// if it has one. Requires  what the shape rule accepted.
using PlaceRule = Status(Placement&, std::uint32_t op);
/// Descriptors, primitives and own loops of the op's node.
/// Errors  as build_node().
using BuildRule = Status(NodeBuilder&);

/// Dims that an op's kernel reads in each run, so that its plan holds for all of them.
struct LengthRule {
  struct Axis {
    std::size_t of;              // input, or output
    int axis;                    // counted from the back where it is negative
    bool may_be_inside = false;  // -1 of a value inside the program: then it is as planned
  };
  std::span<const Axis>
      inputs;             // number i of a run is that of entry i, 1 where there is no such dim
  std::string_view code;  // then what the code of this parameter gives, -1 where it has none
  std::span<const Axis> outputs;  // the dims of results that follow: RunLength::length
  /// Caches: the kernel takes entry i of `inputs` and entry i of `outputs` in the same memory.
  std::size_t caches = 0;
};
/// Numbers of an op: those above, and the rows that a cache in place has room for, 0 where it is none.
inline constexpr std::size_t kRunNumbers = 7;

inline constexpr std::uint16_t kKindsOf1_1 = 34;  // kinds that every reader of format 1.1 knows
inline constexpr std::size_t kManyInputs = 4096;

/// Everything that exec knows of an op kind (op_kinds.h says what it means). One file per family
/// holds its rules and, at its end, its rows; kind_table.cpp lists the rows.
struct KindRow {
  std::string_view name;     // in programs
  std::uint16_t number = 0;  // in headers of context binaries (docs/format.md); never used twice
  struct Inputs {
    std::size_t least, most;  // the first `least` must be there
  } inputs;
  KindTraits traits = {};
  TypeRule* types;
  ShapeRule* shape;
  TermsRule* terms = nullptr;  // null: 1; exact kinds have none
  /// Whether it rounds its source to integers of a few bits. Null: no.
  bool (*quantises)(const ProgramOp&) = nullptr;
  PlaceRule* place;
  BuildRule* build;  // null: the placement is all there is, views and copies
  const LengthRule* lengths = nullptr;
};

// All rows, in the order of their numbers. A new kind is one more name here.
#define CTXGEN_KIND_ROWS(row)                                                                      \
  row(kConvRow) row(kMatmulRow) row(kPoolRow) row(kGlobalPoolRow) row(kEltwiseRow) row(kBinaryRow) \
      row(kScaleShiftRow) row(kSoftmaxRow) row(kLayerNormRow) row(kLrnRow) row(kConcatRow)         \
          row(kTransposeRow) row(kReshapeRow) row(kFlattenRow) row(kSqueezeRow) row(kUnsqueezeRow) \
              row(kIdentityRow) row(kSliceRow) row(kSplitRow) row(kPointRow) row(kQConvRow)        \
                  row(kQMatmulRow) row(kDeconvRow) row(kPadRow) row(kGatherRow) row(kTileRow)      \
                      row(kExpandRow) row(kSelectRow) row(kResizeRow) row(kBlocksRow)              \
                          row(kReduceRow) row(kRmsNormRow) row(kGroupNormRow) row(kRnnRow)         \
                              row(kLookupRow) row(kLowBitMatmulRow) row(kComputedConvRow)          \
                                  row(kDefaultsRow) row(kByteMatmulRow) row(kDynamicQuantizeRow)   \
                                      row(kAttentionRow) row(kLowBitLookupRow) row(kByteConvRow)   \
                                          row(kLinearAttentionRow) row(kCausalConvRow)             \
                                              row(kLowBitConvRow) row(kByteLstmRow)
#define CTXGEN_DECLARE_ROW(name) extern const KindRow name;
CTXGEN_KIND_ROWS(CTXGEN_DECLARE_ROW)
#undef CTXGEN_DECLARE_ROW

/// In the order of their numbers.
[[nodiscard]] std::span<const KindRow* const> kind_rows();
/// Null: no such kind.
[[nodiscard]] const KindRow* find_kind(std::string_view name);

}  // namespace ctxgen::onednn
