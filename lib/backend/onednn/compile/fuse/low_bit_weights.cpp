#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
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

/// A matrix [k, n]: row-major, or with its axes swapped.
struct Matrix {
  Tensor tensor;  // aligned, which bytes of a model's file need not be
  const float* data;
  std::int64_t k, n;
  bool swapped;
};

/// A block of the matrix that shares a scale: of `count` columns at once, [count][rows], what is missing
/// filled with zeros. Neighbours of a row-major matrix come from one cache line.
void gather_blocks(const Matrix& from, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t count, std::vector<float>& to) {
  const std::int64_t there = std::min(rows, from.k - row);
  std::ranges::fill(to, 0.0F);
  if (from.swapped) {
    for (std::int64_t c = 0; c < count; ++c)
      std::copy_n(from.data + (column + c) * from.k + row, there, to.data() + c * rows);
    return;
  }
  for (std::int64_t r = 0; r < there; ++r) {
    const float* line = from.data + (row + r) * from.n + column;
    for (std::int64_t c = 0; c < count; ++c) to[static_cast<std::size_t>(c * rows + r)] = line[c];
  }
}

/// The integer nearest to x / scale, between -half and half - 1, ties to even.
float steps_of(float x, float scale, float half) {
  // Beyond 2^23 there are no fractions; adding that and subtracting it again rounds what is below.
  constexpr float kRounds = 12582912.0F;
  const float limited = std::min(std::max(x / scale, -half), half - 1);
  return limited + kRounds - kRounds;
}

/// The sum of squared differences, in several sums so that none waits for the one before. Compiled for the
/// lowest instruction set: fused products and sums would make files depend on the machine.
double squared_error(std::span<const float> block, float scale, float half) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  for (std::size_t i = 0; i + kSums <= block.size(); i += kSums)  // blocks are multiples of 16
    for (std::size_t j = 0; j < kSums; ++j) {
      const float x = block[i + j];
      const double apart = double{x} - double{steps_of(x, scale, half) * scale};
      sums[j] += apart * apart;
    }
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

/// Integers of `bits` bits around their middle, in steps of a scale, in place of real numbers.
class BlockQuantiser {
 public:
  explicit BlockQuantiser(const LowBitWeights& weights)
      : half_(static_cast<float>(std::int64_t{1} << (weights.bits - 1))), search_(weights.search) {}

  struct Scale {
    float step = 0;
    double error = 0;  // sum of squared differences
  };

  /// The scale of a block: the element farthest from 0 becomes the lowest integer, of which there is
  /// one more than on the other side (as in MatMulNBits of the usual tools); with search the one of
  /// least squared error among that and smaller ones.
  [[nodiscard]] Scale scale_of(std::span<const float> block) const {
    float farthest = 0;
    for (const float x : block)
      if (std::fabs(x) > std::fabs(farthest)) farthest = x;
    const float covering = farthest / -half_;
    if (!usable(covering)) return {0, squares_of(block)};
    Scale best{covering, error(block, covering)};
    constexpr int kSmaller = 15;
    for (int i = 1; search_ && i <= kSmaller; ++i) {
      const float step = covering * (1 - 0.025F * static_cast<float>(i));
      if (const double squares = error(block, step); squares < best.error) best = {step, squares};
    }
    return best;
  }

  /// The integer of x, 0 to 2^bits - 1; the middle stands for 0.
  [[nodiscard]] int integer_of(float x, float scale) const {
    return static_cast<int>((scale == 0 ? 0 : steps_of(x, scale, half_)) + half_);
  }

  [[nodiscard]] static double squares_of(std::span<const float> block) {
    double squares = 0;
    for (const float x : block) squares += double{x} * double{x};
    return squares;
  }

 private:
  /// What is so small that its quotients overflow counts as 0.
  static bool usable(float scale) { return std::isnormal(scale) && std::isfinite(1 / scale); }
  [[nodiscard]] double error(std::span<const float> block, float scale) const {
    return squared_error(block, scale, half_);
  }

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
  constexpr std::int64_t kColumns = 16;  // at once
  const BlockQuantiser quantiser(weights);
  Quantised result;
  const auto blocks = static_cast<std::size_t>(to.n * to.blocks());
  const std::int64_t block_bytes = to.block * to.bits / 8;
  result.values.resize(blocks * static_cast<std::size_t>(block_bytes));
  result.scales.resize(blocks);
  std::vector<float> gathered(static_cast<std::size_t>(kColumns * to.block));
  double squares = 0, differences = 0;
  const auto store = [&](std::span<const float> block, std::int64_t place) {
    const BlockQuantiser::Scale scale = quantiser.scale_of(block);
    result.scales[static_cast<std::size_t>(place)] = scale.step;
    squares += BlockQuantiser::squares_of(block);
    differences += scale.error;
    std::uint8_t* bytes = result.values.data() + place * block_bytes;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const int integer = quantiser.integer_of(block[i], scale.step);
      if (to.bits == 8)
        bytes[i] = static_cast<std::uint8_t>(integer);
      else
        bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | integer << (i % 2 * 4));
    }
  };
  for (std::int64_t column = 0; column < to.n; column += kColumns) {
    const std::int64_t count = std::min(kColumns, to.n - column);
    for (std::int64_t b = 0; b < to.blocks(); ++b) {
      gather_blocks(from, b * to.block, to.block, column, count, gathered);
      for (std::int64_t c = 0; c < count; ++c)
        store(std::span(gathered).subspan(static_cast<std::size_t>(c * to.block),
                                          static_cast<std::size_t>(to.block)),
              (column + c) * to.blocks() + b);
    }
  }
  result.error = squares > 0 ? std::sqrt(differences / squares) : 0;
  return result;
}

/// The matrix of a product that is worth it: constant, finite, and smaller afterwards.
Result<std::optional<Matrix>> matrix_of(const ProgramEditor& editor, const ProgramOp& op) {
  if (op.kind != kind::kMatmul || !op.post_ops.empty()) return std::nullopt;
  const auto params = params_of<MatmulParams>(op);
  const Tensor* tensor = editor.weight(op.inputs[1]);
  if (params.trans_a || tensor == nullptr || tensor->type() != DataType::kFloat ||
      tensor->rank() != 2 || op.inputs[0].kind != Operand::Kind::kValue)
    return std::nullopt;
  if (op.inputs.size() > 2 && op.inputs[2].kind == Operand::Kind::kValue) return std::nullopt;
  const Dims& dims = tensor->dims();
  const bool swapped = params.trans_b;
  Matrix matrix{CTXGEN_TRY(tensor->aligned()), nullptr, dims[swapped ? 1 : 0],
                dims[swapped ? 0 : 1], swapped};
  matrix.data = matrix.tensor.elements<float>().data();
  return matrix;
}

Status quantise_product(ProgramEditor& editor, std::uint32_t index, const LowBitWeights& weights) {
  const ProgramOp& product = editor.op(index);
  const auto from = CTXGEN_TRY(matrix_of(editor, product));
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
  if (!any_options(lowered, [](const DnnlOptions& o) { return o.low_bit_weights.has_value(); }))
    return {};
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i)
    if (const auto& weights = options_of(lowered, editor.op(i)).low_bit_weights)
      CTXGEN_CHECK(quantise_product(editor, i, *weights));
  return {};
}

}  // namespace ctxgen::onednn
