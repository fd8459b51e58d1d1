#include "ctxgen/onednn/dim_code.h"

#include <limits>

namespace ctxgen::onednn {
namespace {

constexpr std::size_t kMaxStack = 64;

/// Nothing where the result is not an int64.
std::optional<std::int64_t> calculate(DimWord word, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (word) {
    case DimWord::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
      return result;
    case DimWord::kSub:
      if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
      return result;
    case DimWord::kMul:
      if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
      return result;
    case DimWord::kDiv:
      if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
      return a / b;
    default: return std::nullopt;
  }
}

using DimsOf = FunctionRef<const Dims*(std::int64_t)>;

class Machine {
 public:
  explicit Machine(DimsOf dims_of) : dims_of_(dims_of) {}

  /// Whether the instruction could run.
  bool step(std::int64_t word, std::int64_t a, std::int64_t b) {
    if (word == static_cast<std::int64_t>(DimWord::kNumber)) return push(a);
    if (word == static_cast<std::int64_t>(DimWord::kDim)) {
      const Dims* dims = a < 0 || b < 0 ? nullptr : dims_of_(a);
      return dims != nullptr && static_cast<std::size_t>(b) < dims->size() &&
             push((*dims)[static_cast<std::size_t>(b)]);
    }
    if (word < 0 || size_ < 2) return false;
    const std::int64_t right = stack_[--size_];
    std::int64_t& left = stack_[size_ - 1];
    const auto result = calculate(static_cast<DimWord>(word), left, right);
    if (result) left = *result;
    return result.has_value();
  }
  [[nodiscard]] std::span<const std::int64_t> stack() const { return {stack_.data(), size_}; }

 private:
  bool push(std::int64_t number) {
    if (size_ >= kMaxStack) return false;
    stack_[size_++] = number;
    return true;
  }
  DimsOf dims_of_;
  std::array<std::int64_t, kMaxStack> stack_{};
  std::size_t size_ = 0;
};

Status run_all(Machine& machine, std::span<const std::int64_t> code, std::string_view what) {
  for (std::size_t i = 0; i < code.size(); i += 3)
    if (code.size() - i < 3 || !machine.step(code[i], code[i + 1], code[i + 2]))
      return fail(ErrorCode::kInvalidGraph, "{}: dim code cannot be run at instruction {} of {}",
                  what, i / 3, code.size() / 3);
  return {};
}

}  // namespace

Result<std::vector<std::int64_t>> run_dim_code(std::span<const std::int64_t> code,
                                               std::span<const Dims> input_dims,
                                               std::string_view what) {
  const auto dims_of = [&](std::int64_t input) {
    const auto at = static_cast<std::size_t>(input);
    return at < input_dims.size() ? &input_dims[at] : nullptr;
  };
  Machine machine(dims_of);
  CTXGEN_CHECK(run_all(machine, code, what));
  return std::vector<std::int64_t>(machine.stack().begin(), machine.stack().end());
}

Result<std::int64_t> run_dim_code_for_one(std::span<const std::int64_t> code, DimsOf dims_of,
                                          std::string_view what) {
  Machine machine(dims_of);
  CTXGEN_CHECK(run_all(machine, code, what));
  if (machine.stack().size() != 1)
    return fail(ErrorCode::kInvalidGraph, "{}: dim code leaves {} numbers, expected 1", what,
                machine.stack().size());
  return machine.stack().front();
}

}  // namespace ctxgen::onednn
