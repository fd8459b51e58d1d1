#pragma once

#include <optional>

#include "editor.h"

namespace ctxgen::onednn {

/// How integers stand for real numbers: (q - zero) * scale.
struct Steps {
  double scale = 1.0;
  std::int64_t zero = 0;
  [[nodiscard]] bool operator==(const Steps&) const = default;
};

[[nodiscard]] DataType type_of(const ProgramEditor& editor, Operand operand);
[[nodiscard]] DataType result_type(const ProgramEditor& editor, const ProgramOp& op);
[[nodiscard]] Steps steps_in(const ProgramOp& point);
[[nodiscard]] Steps steps_out(const ProgramOp& op);

/// The op that only makes real numbers of u8 or s8 ones (s32 too if `sums`), if `operand` is its
/// result; else nullptr.
[[nodiscard]] const ProgramOp* dequantize_of(const ProgramEditor& editor, Operand operand,
                                             bool sums = false);
/// Whether the op only makes u8 or s8 numbers of float32 ones.
[[nodiscard]] bool is_quantize(const ProgramEditor& editor, const ProgramOp& op);

}  // namespace ctxgen::onednn
