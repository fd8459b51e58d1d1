#include "kernels/part_finish.h"

#include <algorithm>

#include "kernels/point_rows.h"

namespace ctxgen::onednn {

namespace {

constexpr std::int64_t kChainElements = 2048;  // a chain works on what stays in the first cache

struct Run {
  std::int64_t column, count;
};

/// The chain over elements of a row; `out` is the row's first element.
void apply_run(const PartFinish& form, Run run, std::int64_t row, float* out,
               std::byte* const* operands) {
  float* x = out + run.column;
  for (const PartStage& stage : form.stages) {
    if (!takes_operand(stage.op)) {
      unary_row(stage.op, stage.alpha, stage.beta, run.count, x, x);
      continue;
    }
    const float* operand = reinterpret_cast<const float*>(*operands++) + row * stage.row_stride +
                           run.column * stage.column_stride;
    if (stage.column_stride == 1)
      binary_row(stage.op, run.count, x, operand, x);
    else
      binary_row_strided(stage.op, run.count, x, operand, stage.column_stride, x);
  }
}

}  // namespace

kernels::Finish finish_of(const PartFinish& form, std::byte* const* args, std::size_t& next) {
  kernels::Finish finish{.start_pitch = form.start_pitch, .low = form.low, .high = form.high};
  if (form.has_bias) finish.bias = reinterpret_cast<const float*>(args[next++]);
  if (form.has_start) finish.start = reinterpret_cast<const float*>(args[next++]);
  return finish;
}

bool goes_through_rows(const PartFinish& form, std::int64_t columns) {
  return form.pitch == columns && std::ranges::all_of(form.stages, [&](const PartStage& stage) {
           return !takes_operand(stage.op) || stage.row_stride == columns * stage.column_stride;
         });
}

void apply_stages(const PartFinish& form, const kernels::ProductPart& part, bool through_rows,
                  float* result, std::byte* const* operands) {
  if (through_rows) {
    const std::int64_t end = (part.row + part.rows) * form.pitch;
    for (std::int64_t at = part.row * form.pitch; at < end; at += kChainElements)
      apply_run(form, {at, std::min(kChainElements, end - at)}, 0, result, operands);
    return;
  }
  for (std::int64_t row = part.row; row < part.row + part.rows; ++row)
    apply_run(form, {part.column, part.columns}, row, result + row * form.pitch, operands);
}

}  // namespace ctxgen::onednn
