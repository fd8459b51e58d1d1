#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ctxgen/base/simd.h"
#include "ctxgen/kernels/activate.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"
#include "kernels/point_rows.h"

namespace ctxgen::onednn {

namespace {

kernels::Activation activation_of(PointOp op) {
  using kernels::Activation;
  switch (op) {
    case PointOp::kExp: return Activation::kExp;
    case PointOp::kGeluErf: return Activation::kGeluErf;
    case PointOp::kGeluTanh: return Activation::kGeluTanh;
    case PointOp::kLog: return Activation::kLog;
    case PointOp::kSigmoid: return Activation::kLogistic;
    case PointOp::kSwish: return Activation::kSwish;
    case PointOp::kTanh: return Activation::kTanh;
    default: return Activation::kErf;
  }
}

}  // namespace

// One function per shape of loop; the switch on the operation is outside the loop, so that
// each case is a plain loop that the compiler vectorises.
#define CTXGEN_LOOP(expression)          \
  for (std::int64_t i = 0; i < n; ++i) { \
    const float x = in[i];               \
    out[i] = (expression);               \
  }                                      \
  break

constexpr auto unary_loop =
    simd_loop([] CTXGEN_SIMD_LOOP(PointOp op, float alpha, float beta, std::int64_t n,
                                  const float* in, float* out) {
      switch (op) {
        case PointOp::kRelu:
          if (alpha == 0.0F) {
            CTXGEN_LOOP(x < 0.0F ? 0.0F : x);
          }
          CTXGEN_LOOP(x < 0.0F ? alpha * x : x);
        case PointOp::kClip: CTXGEN_LOOP(x < alpha ? alpha : (x > beta ? beta : x));
        case PointOp::kLinear: CTXGEN_LOOP(alpha * x + beta);
        case PointOp::kAbs: CTXGEN_LOOP(std::fabs(x));
        case PointOp::kSquare: CTXGEN_LOOP(x * x);
        case PointOp::kSqrt: CTXGEN_LOOP(std::sqrt(x));
        case PointOp::kHardSwish: CTXGEN_LOOP(x * std::min(std::max(alpha * x + beta, 0.0F), 1.0F));
        case PointOp::kHardSigmoid: CTXGEN_LOOP(std::min(std::max(alpha * x + beta, 0.0F), 1.0F));
        case PointOp::kFloor: CTXGEN_LOOP(std::floor(x));
        case PointOp::kCeil: CTXGEN_LOOP(std::ceil(x));
        case PointOp::kSign: CTXGEN_LOOP(x > 0.0F ? 1.0F : (x < 0.0F ? -1.0F : x));
        case PointOp::kSoftsign: CTXGEN_LOOP(x / (1.0F + std::fabs(x)));
        case PointOp::kThreshold: CTXGEN_LOOP(x > alpha ? x : 0.0F);
        case PointOp::kSin: CTXGEN_LOOP(std::sin(x));
        case PointOp::kCos: CTXGEN_LOOP(std::cos(x));
        case PointOp::kPowerOf: CTXGEN_LOOP(std::pow(x, beta));
        default: break;
      }
    });
void unary_row(PointOp op, float alpha, float beta, std::int64_t n, const float* in, float* out) {
  if (needs_exponential(op)) return kernels::activate(activation_of(op), alpha, n, in, out);
  unary_loop(op, alpha, beta, n, in, out);
}
#undef CTXGEN_LOOP

namespace {

/// How far apart the rows of source, operand and result are.
struct Pitches {
  std::int64_t in = 0, operand = 0, out = 0;
};

}  // namespace

#define CTXGEN_LOOP(index, expression)                                                 \
  for (; rows > 0; --rows, in += pitch.in, operand += pitch.operand, out += pitch.out) \
    for (std::int64_t i = 0; i < n; ++i) {                                             \
      const float x = in[i];                                                           \
      const float y = operand[index];                                                  \
      out[i] = (expression);                                                           \
    }                                                                                  \
  break
#define CTXGEN_CASES(index)                                          \
  switch (op) {                                                      \
    case PointOp::kAdd: CTXGEN_LOOP(index, x + y);                   \
    case PointOp::kSub: CTXGEN_LOOP(index, x - y);                   \
    case PointOp::kMul: CTXGEN_LOOP(index, x * y);                   \
    case PointOp::kDiv: CTXGEN_LOOP(index, x / y);                   \
    case PointOp::kMax: CTXGEN_LOOP(index, x > y || x != x ? x : y); \
    case PointOp::kMin: CTXGEN_LOOP(index, x < y || x != x ? x : y); \
    case PointOp::kPRelu: CTXGEN_LOOP(index, x < 0.0F ? x * y : x);  \
    case PointOp::kPower: CTXGEN_LOOP(index, std::pow(x, y));        \
    default: break;                                                  \
  }

constexpr auto binary_rows = simd_loop(
    [] CTXGEN_SIMD_LOOP(PointOp op, std::int64_t rows, std::int64_t n, Pitches pitch,
                        const float* in, const float* operand, float* out) { CTXGEN_CASES(i) });
void binary_row(PointOp op, std::int64_t n, const float* in, const float* operand, float* out) {
  binary_rows(op, 1, n, Pitches{}, in, operand, out);
}
constexpr auto strided_binary_row =
    simd_loop([] CTXGEN_SIMD_LOOP(PointOp op, std::int64_t n, const float* in, const float* operand,
                                  std::int64_t stride, float* out) {
      std::int64_t rows = 1;
      constexpr Pitches pitch{};
      CTXGEN_CASES(i * stride)
    });
void binary_row_strided(PointOp op, std::int64_t n, const float* in, const float* operand,
                        std::int64_t stride, float* out) {
  strided_binary_row(op, n, in, operand, stride, out);
}
#undef CTXGEN_CASES
#undef CTXGEN_LOOP

namespace {

constexpr auto scale_shift_rows =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t rows, std::int64_t n, Pitches pitch, const float* in,
                                  const float* scale, const float* shift, float low, float* out) {
      for (; rows > 0; --rows, in += pitch.in, out += pitch.out)
        for (std::int64_t i = 0; i < n; ++i) {
          const float x = in[i] * scale[i] + shift[i];
          out[i] = x < low ? low : x;
        }
    });

constexpr auto load_row = simd_loop(
    [] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in, std::int64_t stride, float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = in[i * stride];
    });

}  // namespace

std::vector<PointAxis> collapse_points(const Dims& dims, const std::vector<const Dims*>& strides) {
  std::vector<PointAxis> axes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    PointAxis axis{dims[i], {}};
    for (const Dims* list : strides) axis.strides.push_back((*list)[i]);
    axes.push_back(std::move(axis));
  }
  std::stable_sort(axes.begin(), axes.end(), [](const PointAxis& a, const PointAxis& b) {
    return a.strides[0] > b.strides[0];
  });
  std::vector<PointAxis> merged;
  for (PointAxis& axis : axes) {
    bool joins = !merged.empty();
    for (std::size_t s = 0; joins && s < strides.size(); ++s)
      joins = merged.back().strides[s] == axis.strides[s] * axis.size;
    if (joins) axis.size *= merged.back().size;
    if (joins)
      merged.back() = std::move(axis);
    else
      merged.push_back(std::move(axis));
  }
  if (merged.empty()) merged.push_back({1, std::vector<std::int64_t>(strides.size(), 1)});
  return merged;
}

PointWalk::PointWalk(std::vector<PointAxis> axes, std::int64_t chunk)
    : axes_(std::move(axes)), chunk_(chunk) {
  inner_ = std::move(axes_.back());
  axes_.pop_back();
  for (const PointAxis& axis : axes_) outer_ *= axis.size;
  chunks_ = std::max<std::int64_t>(1, (inner_.size + chunk - 1) / chunk);
}

std::int64_t PointWalk::place(std::int64_t job, std::span<std::int64_t> at) const {
  const std::int64_t first = job % chunks_ * chunk_;
  for (std::size_t t = 0; t < tensors(); ++t) at[t] = first * inner_.strides[t];
  std::int64_t row = job / chunks_;
  for (std::size_t a = axes_.size(); a-- > 0;) {
    const std::int64_t index = row % axes_[a].size;
    row /= axes_[a].size;
    for (std::size_t t = 0; t < tensors(); ++t) at[t] += index * axes_[a].strides[t];
  }
  return std::min(chunk_, inner_.size - first);
}

namespace {

class PointKernel final : public Kernel {
 public:
  PointKernel(std::vector<PointAxis> axes, std::vector<PointStage> stages)
      : row_(short_row(axes)),
        walk_(std::move(axes), row_ ? std::max<std::int64_t>(1, kChunk / row_->size) : kChunk),
        stages_(std::move(stages)),
        scale_shift_(is_scale_shift()),
        one_operand_(is_one_operand()) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const std::int64_t elements = work_of(walk_.elements(), row_ ? row_->size : 1);
    parallel_for(workers, walk_.jobs(), elements, [&](std::int64_t job) { run_job(job, args); });
    return {};
  }

 private:
  static constexpr std::int64_t kChunk = 2048;  // a chain works on what stays in the first cache
  static constexpr std::size_t kMaxPointers = 34;

  /// Takes the innermost axis off where it is so short that a job takes several of its rows.
  static std::optional<PointAxis> short_row(std::vector<PointAxis>& axes) {
    if (axes.size() < 2 || axes.back().size > kChunk / 2) return std::nullopt;
    PointAxis row = std::move(axes.back());
    axes.pop_back();
    return row;
  }

  /// How far apart the elements of a row of a tensor are: dst, src, operands.
  [[nodiscard]] std::int64_t step(std::size_t t) const {
    return row_ ? row_->strides[t] : walk_.step(t);
  }
  /// How far apart the rows of a job are.
  [[nodiscard]] std::int64_t pitch(std::size_t t) const { return row_ ? walk_.step(t) : 0; }

  [[nodiscard]] bool is_scale_shift() const {
    const bool chain = stages_.size() >= 2 && stages_[0].op == PointOp::kMul &&
                       stages_[1].op == PointOp::kAdd && step(2) == 1 && step(3) == 1 &&
                       step(1) == 1 && pitch(2) == 0 && pitch(3) == 0;
    if (!chain || stages_.size() > 3) return false;
    return stages_.size() == 2 || (stages_[2].op == PointOp::kRelu && stages_[2].alpha == 0.0F);
  }

  [[nodiscard]] bool is_one_operand() const {
    return stages_.size() == 1 && takes_operand(stages_[0].op) && step(1) == 1 && step(2) == 1;
  }

  void run_job(std::int64_t job, std::byte* const* args) const {
    std::int64_t at[kMaxPointers];
    const float* in[kMaxPointers];  // src, then operands: the order of args but for dst
    const std::int64_t count = walk_.place(job, at);
    in[0] = reinterpret_cast<const float*>(args[0]) + at[1];
    for (std::size_t i = 2; i < walk_.tensors(); ++i)
      in[i - 1] = reinterpret_cast<const float*>(args[i]) + at[i];
    apply_rows(row_ ? count : 1, row_ ? row_->size : count, in,
               reinterpret_cast<float*>(args[1]) + at[0]);
  }

  void apply_rows(std::int64_t rows, std::int64_t n, const float** in, float* dst) const {
    if (scale_shift_) {
      const float low = stages_.size() == 3 ? 0.0F : -std::numeric_limits<float>::infinity();
      const Pitches pitches{pitch(1), 0, pitch(0)};
      return scale_shift_rows(rows, n, pitches, in[0], in[1], in[2], low, dst);
    }
    if (one_operand_) {
      const Pitches pitches{pitch(1), pitch(2), pitch(0)};
      return binary_rows(stages_[0].op, rows, n, pitches, in[0], in[1], dst);
    }
    for (; rows > 0; --rows, dst += pitch(0)) {
      apply(n, in, dst);
      for (std::size_t i = 1; i < walk_.tensors(); ++i) in[i - 1] += pitch(i);
    }
  }

  void apply(std::int64_t n, const float* const* in, float* dst) const {
    const float* x = in[0];
    if (stages_.empty() || step(1) != 1) {
      load_row(n, x, step(1), dst);
      x = dst;
    }
    std::size_t operand = 1;
    for (const PointStage& stage : stages_) {
      if (!takes_operand(stage.op)) {
        unary_row(stage.op, stage.alpha, stage.beta, n, x, dst);
      } else {
        const std::int64_t stride = step(operand + 1);
        if (stride == 1)
          binary_row(stage.op, n, x, in[operand], dst);
        else
          binary_row_strided(stage.op, n, x, in[operand], stride, dst);
        ++operand;
      }
      x = dst;
    }
  }

  std::optional<PointAxis> row_;  // none: a job is a part of one row
  PointWalk walk_;                // over rows, or over the elements of all
  std::vector<PointStage> stages_;
  bool scale_shift_, one_operand_;
};

}  // namespace

std::optional<PointOp> point_op(std::string_view word, bool with_operand) {
  // The exponent is an operand or a number.
  if (word == "power") return with_operand ? PointOp::kPower : PointOp::kPowerOf;
  static constexpr std::pair<std::string_view, PointOp> kWords[] = {
      {"add", PointOp::kAdd},
      {"sub", PointOp::kSub},
      {"mul", PointOp::kMul},
      {"div", PointOp::kDiv},
      {"max", PointOp::kMax},
      {"min", PointOp::kMin},
      {"relu", PointOp::kRelu},
      {"clip", PointOp::kClip},
      {"linear", PointOp::kLinear},
      {"abs", PointOp::kAbs},
      {"square", PointOp::kSquare},
      {"sqrt", PointOp::kSqrt},
      {"hardswish", PointOp::kHardSwish},
      {"hardsigmoid", PointOp::kHardSigmoid},
      {"floor", PointOp::kFloor},
      {"ceil", PointOp::kCeil},
      {"sign", PointOp::kSign},
      {"erf", PointOp::kErf},
      {"exp", PointOp::kExp},
      {"gelu_erf", PointOp::kGeluErf},
      {"gelu_tanh", PointOp::kGeluTanh},
      {"log", PointOp::kLog},
      {"sigmoid", PointOp::kSigmoid},
      {"swish", PointOp::kSwish},
      {"tanh", PointOp::kTanh},
      {"sin", PointOp::kSin},
      {"cos", PointOp::kCos},
      {"softsign", PointOp::kSoftsign},
      {"threshold", PointOp::kThreshold},
      {"prelu", PointOp::kPRelu},
  };
  for (const auto& [name, op] : kWords)
    if (name == word) return op;
  return std::nullopt;
}

bool needs_exponential(std::string_view word, bool with_operand) {
  const auto op = point_op(word, with_operand);
  return op && needs_exponential(*op);
}

std::shared_ptr<const Kernel> make_point_kernel(const Dims& dims, const Dims& src_strides,
                                                const Dims& dst_strides,
                                                std::vector<PointStage> stages) {
  std::vector<const Dims*> strides{&dst_strides, &src_strides};
  for (const PointStage& stage : stages)
    if (takes_operand(stage.op)) strides.push_back(&stage.strides);
  return std::make_shared<PointKernel>(collapse_points(dims, strides), std::move(stages));
}

}  // namespace ctxgen::onednn
