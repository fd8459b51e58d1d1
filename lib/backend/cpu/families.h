#pragma once

#include <span>

#include "ctxgen/cpu/kernel.h"

// One table per file of ops/. A new family is one line here and one in kernel_table.cpp.

namespace ctxgen::cpu {

extern const std::span<const OpRow> kActivationOps;
extern const std::span<const OpRow> kAttentionOps;
extern const std::span<const OpRow> kCastOps;
extern const std::span<const OpRow> kCol2ImOps;
extern const std::span<const OpRow> kContribAttentionOps;
extern const std::span<const OpRow> kContribOps;
extern const std::span<const OpRow> kContribQuantizeOps;
extern const std::span<const OpRow> kControlFlowOps;
extern const std::span<const OpRow> kConvOps;
extern const std::span<const OpRow> kConvTransposeOps;
extern const std::span<const OpRow> kDataMovementOps;
extern const std::span<const OpRow> kDeformConvOps;
extern const std::span<const OpRow> kDropoutOps;
extern const std::span<const OpRow> kDynamicLstmOps;
extern const std::span<const OpRow> kEinsumOps;
extern const std::span<const OpRow> kElementwiseBinaryOps;
extern const std::span<const OpRow> kElementwiseUnaryOps;
extern const std::span<const OpRow> kExperimentalOps;
extern const std::span<const OpRow> kGatherOps;
extern const std::span<const OpRow> kGeneratorOps;
extern const std::span<const OpRow> kLinearAlgebraOps;
extern const std::span<const OpRow> kLogicOps;
extern const std::span<const OpRow> kLossOps;
extern const std::span<const OpRow> kMatmulOps;
extern const std::span<const OpRow> kMeanVarianceOps;
extern const std::span<const OpRow> kMlFeatureOps;
extern const std::span<const OpRow> kMlLinearOps;
extern const std::span<const OpRow> kMlOps;
extern const std::span<const OpRow> kMlLabelOps;
extern const std::span<const OpRow> kMlMapOps;
extern const std::span<const OpRow> kNormalizationOps;
extern const std::span<const OpRow> kOptionalOps;
extern const std::span<const OpRow> kPadOps;
extern const std::span<const OpRow> kPoolOps;
extern const std::span<const OpRow> kQuantizeOps;
extern const std::span<const OpRow> kQuantizedMathOps;
extern const std::span<const OpRow> kRandomOps;
extern const std::span<const OpRow> kReduceOps;
extern const std::span<const OpRow> kResizeOps;
extern const std::span<const OpRow> kRnnOps;
extern const std::span<const OpRow> kRoiOps;
extern const std::span<const OpRow> kSamplingOps;
extern const std::span<const OpRow> kScanOps;
extern const std::span<const OpRow> kScatterOps;
extern const std::span<const OpRow> kSearchOps;
extern const std::span<const OpRow> kSequenceOps;
extern const std::span<const OpRow> kShapeOps;
extern const std::span<const OpRow> kSignalOps;
extern const std::span<const OpRow> kSoftmaxOps;
extern const std::span<const OpRow> kStringOps;
extern const std::span<const OpRow> kTextFeatureOps;
extern const std::span<const OpRow> kTrainingOps;
extern const std::span<const OpRow> kUniqueOps;

}  // namespace ctxgen::cpu
