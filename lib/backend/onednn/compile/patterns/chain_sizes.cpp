#include "chain_sizes.h"

#include <array>

#include "ctxgen/onednn/dim_code.h"

#include "../dim_list.h"

namespace ctxgen::onednn {

namespace {

constexpr std::int64_t kMostFactor = std::int64_t{1} << 31U;

SizeSum number_of(std::int64_t number) { return {.number = number}; }

bool is_small(const SizeSum& sum) {
  for (const std::int64_t n : {sum.batch, sum.past, sum.added, sum.queries, sum.masked, sum.number})
    if (n < -kMostFactor || n > kMostFactor) return false;
  return true;
}

/// The two uppermost become one. Nothing where the result is not a sum.
std::optional<SizeSum> combined(DimWord word, const SizeSum& a, const SizeSum& b) {
  if (!is_small(a) || !is_small(b)) return std::nullopt;
  switch (word) {
    case DimWord::kAdd: return a.plus(b);
    case DimWord::kSub: return a.plus(b, -1);
    case DimWord::kMul:
      if (a == number_of(a.number)) return SizeSum{}.plus(b, a.number);
      if (b == number_of(b.number)) return SizeSum{}.plus(a, b.number);
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

void ChainSizes::set(ValueId tensor, std::size_t axis, SizeSum sum) {
  sums_.emplace(std::pair(tensor.index, axis), sum);
  const ValueType& type = view_->graph().value(tensor).type;
  if (type.has_rank() && axis < type.rank() && (*type.shape)[axis].is_symbol())
    symbols_.emplace((*type.shape)[axis].symbol().index, sum);
}

std::optional<SizeSum> ChainSizes::size(ValueId tensor, std::size_t axis) const {
  const ValueType& type = view_->graph().value(tensor).type;
  if (type.has_rank() && axis < type.rank()) {
    const Dim& dim = (*type.shape)[axis];
    if (dim.is_fixed()) return number_of(dim.value());
    if (dim.is_symbol())
      if (const auto at = symbols_.find(dim.symbol().index); at != symbols_.end())
        return at->second;
  }
  const auto at = sums_.find({tensor.index, axis});
  if (at == sums_.end()) return std::nullopt;
  return at->second;
}

std::optional<std::vector<SizeSum>> ChainSizes::list(const Node& node, std::size_t input) const {
  const auto numbers = known(node, input);
  if (!numbers) return std::nullopt;
  std::vector<SizeSum> sums;
  for (const std::optional<SizeSum>& number : *numbers) {
    if (!number) return std::nullopt;
    sums.push_back(*number);
  }
  return sums;
}

std::optional<std::vector<std::optional<SizeSum>>> ChainSizes::known(const Node& node,
                                                                     std::size_t input) const {
  const auto read = read_dim_lists(NodeView(*view_, node), std::array{input});
  if (!read) return std::nullopt;
  std::vector<std::optional<SizeSum>> stack;
  const std::vector<std::int64_t>& code = read->lists[0].code;
  for (std::size_t i = 0; i + 2 < code.size(); i += 3) {
    const auto word = static_cast<DimWord>(code[i]);
    if (word == DimWord::kNumber) {
      stack.emplace_back(number_of(code[i + 1]));
    } else if (word == DimWord::kDim) {
      const auto operand = static_cast<std::size_t>(code[i + 1]);
      stack.push_back(size(operand == 0 ? node.input(0) : read->sized[operand - 1],
                           static_cast<std::size_t>(code[i + 2])));
    } else {
      if (stack.size() < 2) return std::nullopt;
      const std::optional<SizeSum> a = stack[stack.size() - 2], b = stack.back();
      stack.pop_back();
      stack.back() = a && b ? combined(word, *a, *b) : std::nullopt;
    }
  }
  return stack;
}

}  // namespace ctxgen::onednn
