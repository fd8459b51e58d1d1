#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/op_kinds.h"

#include "../node_view.h"
#include "editor.h"
#include "fuse.h"

// Constant f32 matrices of products become integers of a few bits, where the user asked for it
// (dnnl:weights).
namespace ctxgen::onednn {

namespace {

/// A matrix [k, n] by its elements: row-major, or with its axes swapped.
struct Matrix {
  const float* data;
  std::int64_t k, n;
  bool swapped;
  [[nodiscard]] float at(std::int64_t row, std::int64_t column) const {
    return data[swapped ? column * k + row : row * n + column];
  }
};

/// Integers of `bits` bits around their middle, in steps of a scale, in place of real numbers.
class BlockQuantiser {
 public:
  explicit BlockQuantiser(const LowBitWeights& weights)
      : half_(static_cast<float>(std::int64_t{1} << (weights.bits - 1))), search_(weights.search) {}

  /// The scale of a block: the element farthest from 0 becomes the lowest integer, of which there is
  /// one more than on the other side (as in MatMulNBits of the usual tools); with search the one of
  /// least squared error among that and smaller ones.
  [[nodiscard]] float scale_of(std::span<const float> block) const {
    float farthest = 0;
    for (const float x : block)
      if (std::fabs(x) > std::fabs(farthest)) farthest = x;
    const float covering = farthest / -half_;
    if (!search_ || !usable(covering)) return usable(covering) ? covering : 0;
    constexpr int kSmaller = 15;
    float best = covering;
    double least = error(block, covering);
    for (int i = 1; i <= kSmaller; ++i) {
      const float scale = covering * (1 - 0.025F * static_cast<float>(i));
      if (const double squares = error(block, scale); squares < least) {
        least = squares;
        best = scale;
      }
    }
    return best;
  }

  /// The integer of x, 0 to 2^bits - 1; the middle stands for 0.
  [[nodiscard]] int integer_of(float x, float scale) const {
    if (scale == 0) return static_cast<int>(half_);
    return static_cast<int>(std::clamp(std::nearbyint(x / scale), -half_, half_ - 1) + half_);
  }
  [[nodiscard]] float value_of(int integer, float scale) const {
    return (static_cast<float>(integer) - half_) * scale;
  }

  /// The sum of squared differences.
  [[nodiscard]] double error(std::span<const float> block, float scale) const {
    double squares = 0;
    for (const float x : block) {
      const double apart = double{x} - double{value_of(integer_of(x, scale), scale)};
      squares += apart * apart;
    }
    return squares;
  }

 private:
  /// What is so small that its quotients overflow counts as 0.
  static bool usable(float scale) { return std::isnormal(scale) && std::isfinite(1 / scale); }

  float half_;
  bool search_;
};

struct Quantised {
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
  double error = 0;  // root of the sum of squared differences over that of squares
};

Quantised quantise(const Matrix& from, const LowBitWeights& weights,
                   const kernels::LowBitMatrix& to) {
  const BlockQuantiser quantiser(weights);
  Quantised result;
  const auto blocks = static_cast<std::size_t>(to.n * to.blocks());
  result.values.resize(blocks * static_cast<std::size_t>(to.block * to.bits / 8));
  result.scales.resize(blocks);
  std::vector<float> block(static_cast<std::size_t>(to.block));
  double squares = 0, differences = 0;
  for (std::int64_t column = 0; column < to.n; ++column)
    for (std::int64_t b = 0; b < to.blocks(); ++b) {
      const std::int64_t first = b * to.block;
      for (std::int64_t i = 0; i < to.block; ++i)
        block[static_cast<std::size_t>(i)] = first + i < to.k ? from.at(first + i, column) : 0;
      const auto place = static_cast<std::size_t>(column * to.blocks() + b);
      const float scale = result.scales[place] = quantiser.scale_of(block);
      for (const float x : block) squares += double{x} * double{x};
      differences += quantiser.error(block, scale);
      std::uint8_t* bytes =
          result.values.data() + place * static_cast<std::size_t>(to.block * to.bits / 8);
      for (std::size_t i = 0; i < block.size(); ++i) {
        const int integer = quantiser.integer_of(block[i], scale);
        if (to.bits == 8)
          bytes[i] = static_cast<std::uint8_t>(integer);
        else
          bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | integer << (i % 2 * 4));
      }
    }
  result.error = squares > 0 ? std::sqrt(differences / squares) : 0;
  return result;
}

/// The matrix of a product that is worth it: constant, finite, and smaller afterwards.
std::optional<Matrix> matrix_of(const ProgramEditor& editor, const ProgramOp& op) {
  if (op.kind != kind::kMatmul || !op.post_ops.empty()) return std::nullopt;
  const auto params = params_of<MatmulParams>(op);
  const Tensor* tensor = editor.weight(op.inputs[1]);
  if (params.trans_a || tensor == nullptr || tensor->type() != DataType::kFloat ||
      tensor->rank() != 2 || op.inputs[0].kind != Operand::Kind::kValue)
    return std::nullopt;
  if (op.inputs.size() > 2 && op.inputs[2].kind == Operand::Kind::kValue) return std::nullopt;
  const Dims& dims = tensor->dims();
  const bool swapped = params.trans_b;
  const auto* data = reinterpret_cast<const float*>(tensor->bytes().data());
  return Matrix{data, dims[swapped ? 1 : 0], dims[swapped ? 0 : 1], swapped};
}

Status quantise_product(ProgramEditor& editor, std::uint32_t index, const LowBitWeights& weights) {
  const ProgramOp& product = editor.op(index);
  const auto from = matrix_of(editor, product);
  if (!from) return {};
  const kernels::LowBitMatrix to{
      .k = from->k, .n = from->n, .bits = weights.bits, .block = weights.block};
  const std::span<const float> all(from->data, static_cast<std::size_t>(from->k * from->n));
  if (!kernels::is_valid(to) || kernels::packed_bytes(to) >= all.size_bytes() ||
      !std::ranges::all_of(all, [](float x) { return std::isfinite(x); }))
    return {};
  const Quantised made = quantise(*from, weights, to);
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(to));
  Tensor packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{bytes}));
  kernels::pack(to, {.values = made.values.data(), .scales = made.scales.data()},
                packed.mutable_bytes().data());
  ProgramOp op = product;
  op.kind = kind::kLowBitMatmul;
  op.params.clear();
  encode(
      LowBitMatmulParams{
          .k = to.k, .n = to.n, .bits = to.bits, .block = to.block, .weight_error = made.error},
      op);
  const std::string name = editor.program().weights[product.inputs[1].index].name;
  op.inputs[1] = CTXGEN_TRY(editor.add_weight(name, std::move(packed)));
  editor.replace(index, std::move(op));
  return {};
}

}  // namespace

Status quantise_weights(Lowered& lowered) {
  if (!lowered.low_bit_weights) return {};
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i)
    CTXGEN_CHECK(quantise_product(editor, i, *lowered.low_bit_weights));
  return {};
}

}  // namespace ctxgen::onednn
