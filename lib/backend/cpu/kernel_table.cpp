#include <algorithm>
#include <tuple>
#include <vector>

#include "contrib_families.h"
#include "families.h"

namespace ctxgen::cpu {
namespace {

auto key_of(const OpRow& row) { return std::tuple(row.domain, row.op_type, row.since_min); }

std::vector<const OpRow*> sorted_rows() {
  std::vector<const OpRow*> rows;
  for (const auto family : {
           kActivationOps,
           kAttentionOps,
           kCastOps,
           kCol2ImOps,
           kContribAttentionOps,
           kContribGatherOps,
           kContribGroupQueryOps,
           kContribMatmulOps,
           kContribMoeOps,
           kContribMultiHeadOps,
           kContribOps,
           kContribQuantizeOps,
           kControlFlowOps,
           kConvOps,
           kConvTransposeOps,
           kDataMovementOps,
           kDeformConvOps,
           kDropoutOps,
           kDynamicLstmOps,
           kEinsumOps,
           kElementwiseBinaryOps,
           kElementwiseUnaryOps,
           kExperimentalOps,
           kGatherOps,
           kGeneratorOps,
           kLinearAlgebraOps,
           kLogicOps,
           kLossOps,
           kMatmulOps,
           kMeanVarianceOps,
           kMlFeatureOps,
           kMlLinearOps,
           kMlOps,
           kMlLabelOps,
           kMlMapOps,
           kNormalizationOps,
           kOptionalOps,
           kPadOps,
           kPoolOps,
           kQuantizeOps,
           kQuantizedMathOps,
           kRandomOps,
           kRecurrenceOps,
           kReduceOps,
           kResizeOps,
           kRnnOps,
           kRoiOps,
           kSamplingOps,
           kScanOps,
           kScatterOps,
           kSearchOps,
           kSequenceOps,
           kShapeOps,
           kSignalOps,
           kSoftmaxOps,
           kStringOps,
           kTextFeatureOps,
           kTrainingOps,
           kUniqueOps,
       })
    for (const OpRow& row : family) rows.push_back(&row);
  std::ranges::sort(rows, {}, [](const OpRow* row) { return key_of(*row); });
  return rows;
}

}  // namespace

std::span<const OpRow* const> all_ops() {
  static const std::vector<const OpRow*> rows = sorted_rows();
  return rows;
}

const OpRow* find_op(std::string_view domain, std::string_view op_type, std::int64_t opset) {
  const auto rows = all_ops();
  const auto next = std::ranges::upper_bound(rows, std::tuple(domain, op_type, opset), {},
                                             [](const OpRow* row) { return key_of(*row); });
  if (next == rows.begin()) return nullptr;
  const OpRow* row = *std::prev(next);
  return row->domain == domain && row->op_type == op_type ? row : nullptr;
}

}  // namespace ctxgen::cpu
