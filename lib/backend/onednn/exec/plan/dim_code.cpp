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

class Machine {
 public:
  explicit Machine(std::span<const Dims> inputs) : inputs_(inputs) {}

  /// Whether the instruction could run.
  bool step(std::int64_t word, std::int64_t a, std::int64_t b) {
    if (word == static_cast<std::int64_t>(DimWord::kNumber)) return push(a);
    if (word == static_cast<std::int64_t>(DimWord::kDim)) {
      if (a < 0 || b < 0 || static_cast<std::size_t>(a) >= inputs_.size()) return false;
      const Dims& dims = inputs_[static_cast<std::size_t>(a)];
      return static_cast<std::size_t>(b) < dims.size() && push(dims[static_cast<std::size_t>(b)]);
    }
    if (word < 0 || stack_.size() < 2) return false;
    const std::int64_t right = stack_.back();
    stack_.pop_back();
    const auto result = calculate(static_cast<DimWord>(word), stack_.back(), right);
    if (result) stack_.back() = *result;
    return result.has_value();
  }
  std::vector<std::int64_t> take() { return std::move(stack_); }

 private:
  bool push(std::int64_t number) {
    if (stack_.size() >= kMaxStack) return false;
    stack_.push_back(number);
    return true;
  }
  std::span<const Dims> inputs_;
  std::vector<std::int64_t> stack_;
};

}  // namespace

Result<std::vector<std::int64_t>> run_dim_code(std::span<const std::int64_t> code,
                                               std::span<const Dims> input_dims,
                                               std::string_view what) {
  Machine machine(input_dims);
  for (std::size_t i = 0; i < code.size(); i += 3)
    if (code.size() - i < 3 || !machine.step(code[i], code[i + 1], code[i + 2]))
      return fail(ErrorCode::kInvalidGraph, "{}: dim code cannot be run at instruction {} of {}",
                  what, i / 3, code.size() / 3);
  return machine.take();
}

}  // namespace ctxgen::onednn
