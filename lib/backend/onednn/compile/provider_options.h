#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/base/data_type.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/certificate.h"

namespace ctxgen::onednn {

/// Constant f32 matrices of products become integers of `bits` bits that share a scale in blocks of
/// `block` elements of a column.
struct LowBitWeights {
  std::int64_t bits = 4;    // 4 or 8
  std::int64_t block = 32;  // 16, 32, 64, 128 or 256
  bool search = false;  // the scale of least squared error instead of the one that covers the block
};

/// Products and convolutions multiply numbers of a narrow type, and sum up in f32.
struct NarrowArithmetic {
  DataType type = DataType::kBfloat16;  // or f16
  bool values = false;                  // values between them are stored so, too
};

/// The options of the provider dnnl (docs/options.md).
struct DnnlOptions {
  std::optional<LowBitWeights> low_bit_weights;
  std::optional<DataType> narrow_weights;      // bf16 or f16, where low_bit_weights is not there
  std::optional<NarrowArithmetic> arithmetic;  // of precision or fpmath
};

/// Ops that have options of their own, by the name of their constant.
using DnnlChoices = std::unordered_map<std::string, DnnlOptions>;

[[nodiscard]] std::vector<std::string> dnnl_option_names();

/// Each choice is "f32", or an option as "weights=bf16".
/// Errors  INVALID_ARGUMENT naming op and choice.
[[nodiscard]] Result<DnnlChoices> read_dnnl_choices(const ChoiceTable& table);

/// Errors  INVALID_ARGUMENT naming option, value and what is expected.
[[nodiscard]] Result<DnnlOptions> read_dnnl_options(
    std::span<const std::pair<std::string, std::string>> options);

/// Whether programs with such arithmetic run on every machine that a compile is for.
/// Errors  INVALID_ARGUMENT naming the option and the instruction set.
[[nodiscard]] Status check_arithmetic(const DnnlOptions& options, bool portable);

}  // namespace ctxgen::onednn
