#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/base/spill_file.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/onednn/kind_params.h"

#include "provider_options.h"

namespace ctxgen::onednn {

/// What a dequantised constant was made of: values = (stored - zero) * scale, with one scale and
/// zero point, or one per slice of `axis`.
struct QuantizedWeight {
  Tensor stored;  // u8 or s8
  std::vector<float> scales;
  std::vector<std::int32_t> zeros;  // as many
  std::int64_t axis = 0;
};

/// A program being made: its weights are still plain ONNX tensors, kept next to it. Constants of
/// the model share their bytes with the mapped file until a fusion changes them.
struct Lowered {
  Program program;
  std::vector<Tensor> weights;                                   // of program.weights, by index
  std::unordered_map<std::uint32_t, QuantizedWeight> quantized;  // by index, where it was one
  bool integer_products = true;  // false: not every machine of the target has instructions for them
  DnnlOptions options = {};      // what the user wants, of all ops
  DnnlChoices choices = {};      // and of these
  bool narrow_kernels = true;    // false: the target has none that are fast
  /// Of f32 weights whose constant in the model is bf16 or f16, which they came from unchanged: that type.
  std::unordered_map<std::uint32_t, DataType> source_types;
  SpillFile* spill = nullptr;  // keeps the weights that are made (not owned)
};

/// What the user wants an op to be.
[[nodiscard]] const DnnlOptions& options_of(const Lowered& lowered, const ProgramOp& op);
/// Whether that is anything, of any op, that `has` finds in its options.
template <class Has>
[[nodiscard]] bool any_options(const Lowered& lowered, const Has& has) {
  return has(lowered.options) || std::ranges::any_of(lowered.choices, [&](const auto& choice) {
           return has(choice.second);
         });
}

/// Dims of an operand as far as they are known. Requires a value of known rank, or a weight.
[[nodiscard]] std::vector<ProgramDim> dims_of(const Program& program, Operand operand);
/// Dims of a NumPy broadcast of two shapes; unknown where they cannot be told.
[[nodiscard]] std::vector<ProgramDim> broadcast_dims(std::vector<ProgramDim> a,
                                                     std::vector<ProgramDim> b);
/// Whether two dims are the same in every run.
[[nodiscard]] bool surely_equal(const ProgramDim& a, const ProgramDim& b);
[[nodiscard]] bool surely_equal(const std::vector<ProgramDim>& a, const std::vector<ProgramDim>& b);

/// An eltwise step after an op.
[[nodiscard]] PostOp eltwise_step(std::string_view alg, float alpha = 0.0F, float beta = 0.0F);

/// The parameters of an op that lowering or fusion made.
template <class Params>
[[nodiscard]] Params params_of(const ProgramOp& op) {
  auto params = decode<Params>(op);
  CTXGEN_ASSERT(params.has_value());
  return *std::move(params);
}

/// One parameter; the default where it is absent.
[[nodiscard]] float float_param(const ProgramOp& op, std::string_view name, float otherwise = 0.0F);
[[nodiscard]] std::string_view text_param(const ProgramOp& op, std::string_view name);

}  // namespace ctxgen::onednn
