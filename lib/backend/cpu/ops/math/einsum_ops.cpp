#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "families.h"
#include "kernel/stop.h"
#include "kernel/widen.h"
#include "tensors/strided_copy.h"

namespace ctxgen::cpu {
namespace {

/// "ij,jk->ik". Axes of an ellipsis get labels of their own.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool explicit_output = false;
};

constexpr char kEllipsis = '.';

// One term: letters, and "..." as one character.
Result<std::string> read_term(std::string_view text) {
  std::string term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) {
      term += c;
    } else if (text.substr(i).starts_with("...") && !term.contains(kEllipsis)) {
      term += kEllipsis;
      i += 2;
    } else {
      return fail(ErrorCode::kInvalidGraph, "cannot read \"{}\" of an equation", text);
    }
  }
  return term;
}

Result<Equation> read_equation(const Node& node) {
  std::string text(node.string_or("equation", ""));
  std::erase(text, ' ');
  Equation equation;
  const auto arrow = text.find("->");
  equation.explicit_output = arrow != std::string::npos;
  if (equation.explicit_output)
    equation.output = CTXGEN_TRY(read_term(std::string_view(text).substr(arrow + 2)));
  std::string_view rest = std::string_view(text).substr(0, arrow);
  for (;;) {
    const auto comma = rest.find(',');
    equation.inputs.push_back(CTXGEN_TRY(read_term(rest.substr(0, comma))));
    if (comma == std::string_view::npos) return equation;
    rest.remove_prefix(comma + 1);
  }
}

// Labels are indices below 128 for letters; an ellipsis takes 128 and on, aligned at its end.
constexpr std::size_t kEllipsisLabels = 128;
constexpr std::size_t kLabels = kEllipsisLabels + kMaxRank;
using Labels = ScratchVector<std::size_t>;

Result<Labels> labels_of(const std::string& term, std::size_t rank) {
  Labels labels;
  const bool ellipsis = term.contains(kEllipsis);
  const std::size_t named = term.size() - (ellipsis ? 1 : 0);
  if (ellipsis ? rank < named : rank != named)
    return fail(ErrorCode::kInvalidGraph, "an input of rank {} for term \"{}\"", rank, term);
  for (char c : term) {
    if (c != kEllipsis) {
      labels.push_back(static_cast<std::size_t>(c));
      continue;
    }
    for (std::size_t i = rank - named; i > 0; --i) labels.push_back(kLabels - i);
  }
  return labels;
}

struct EinsumPlan {
  Labels output, summed;                                     // loop labels
  std::array<std::int64_t, kLabels> extent{};                // 0: not there
  ScratchVector<std::array<std::int64_t, kLabels>> strides;  // per input
};

Status add_input(EinsumPlan& plan, const Labels& labels, const Dims& dims) {
  auto& strides = plan.strides.emplace_back();
  const Dims input_strides = strides_of(dims);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::int64_t& extent = plan.extent[labels[i]];
    if (extent != 0 && extent != dims[i] && extent != 1 && dims[i] != 1)
      return fail(ErrorCode::kInvalidGraph, "an axis is {} in one place and {} in another", extent,
                  dims[i]);
    if (dims[i] == 0) return fail(ErrorCode::kUnsupported, "an empty axis in Einsum");
    extent = std::max(extent, dims[i]);
    // A label that is there twice walks the diagonal: strides add up.
    if (dims[i] != 1) strides[labels[i]] += input_strides[i];
  }
  return {};
}

// Without "->": the ellipsis, then labels that are there once, in alphabetical order.
Labels implicit_output(const std::vector<Labels>& inputs) {
  std::array<int, kLabels> seen{};
  for (const Labels& labels : inputs)
    for (std::size_t label : labels) ++seen[label];
  Labels output;
  for (std::size_t l = kEllipsisLabels; l < kLabels; ++l)
    if (seen[l] > 0) output.push_back(l);
  for (std::size_t l = 0; l < kEllipsisLabels; ++l)
    if (seen[l] == 1) output.push_back(l);
  return output;
}

Result<EinsumPlan> plan_einsum(const KernelContext& context, const Equation& equation) {
  EinsumPlan plan;
  std::vector<Labels> inputs;
  if (context.input_count() != equation.inputs.size())
    return fail(ErrorCode::kInvalidGraph, "{} inputs for {} terms", context.input_count(),
                equation.inputs.size());
  std::size_t ellipsis_rank = 0;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const Tensor* tensor = CTXGEN_TRY(required(context, i));
    inputs.push_back(CTXGEN_TRY(labels_of(equation.inputs[i], tensor->rank())));
    CTXGEN_CHECK(add_input(plan, inputs.back(), tensor->dims()));
    if (equation.inputs[i].contains(kEllipsis))
      ellipsis_rank = std::max(ellipsis_rank, tensor->rank() + 1 - equation.inputs[i].size());
  }
  if (equation.explicit_output)
    plan.output =
        CTXGEN_TRY(labels_of(equation.output, equation.output.contains(kEllipsis)
                                                  ? equation.output.size() - 1 + ellipsis_rank
                                                  : equation.output.size()));
  else
    plan.output = implicit_output(inputs);
  for (std::size_t label : plan.output)
    if (plan.extent[label] == 0 || std::ranges::count(plan.output, label) != 1)
      return fail(ErrorCode::kInvalidGraph, "the output names an axis that no input has, or twice");
  for (std::size_t l = 0; l < kLabels; ++l)
    if (plan.extent[l] != 0 && std::ranges::find(plan.output, l) == plan.output.end())
      plan.summed.push_back(l);
  if (plan.output.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "the output's rank is above {}", kMaxRank);
  return plan;
}

// Walks all positions of `labels`; offsets of the inputs follow. False: f said so, or the run stops.
template <class F>
bool walk(const EinsumPlan& plan, const Labels& labels, ScratchVector<std::int64_t>& offsets, F f) {
  ScratchVector<std::int64_t> position(labels.size(), 0);
  for (;;) {
    if (!f()) return false;
    std::size_t i = labels.size();
    for (; i > 0; --i) {
      const std::size_t label = labels[i - 1];
      for (std::size_t k = 0; k < offsets.size(); ++k) offsets[k] += plan.strides[k][label];
      if (++position[i - 1] < plan.extent[label]) break;
      for (std::size_t k = 0; k < offsets.size(); ++k)
        offsets[k] -= plan.strides[k][label] * plan.extent[label];
      position[i - 1] = 0;
    }
    if (i == 0) return true;
    if (i < labels.size() && run_stopped()) return false;
  }
}

template <class T>
void einsum(const KernelContext& context, const EinsumPlan& plan, Tensor& output) {
  // Integers wrap.
  using A = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  ScratchVector<const T*> data;
  for (std::size_t i = 0; i < plan.strides.size(); ++i)
    data.push_back(data_of<T>(*context.input(i)));
  ScratchVector<std::int64_t> offsets(data.size(), 0);
  T* to = mutable_data_of<T>(output);
  static_cast<void>(walk(plan, plan.output, offsets, [&] {
    A sum = 0;
    const bool whole = walk(plan, plan.summed, offsets, [&] {
      A product = 1;
      for (std::size_t k = 0; k < data.size(); ++k) product *= static_cast<A>(data[k][offsets[k]]);
      sum += product;
      return true;
    });
    *to++ = static_cast<T>(sum);
    return whole;
  }));
}

KernelResult make_einsum(const Node& node) {
  const Equation equation = CTXGEN_TRY(read_equation(node));
  return widened_kernel([equation](KernelContext& context) -> Status {
    const auto plan = CTXGEN_TRY(plan_einsum(context, equation));
    const Tensor* first = CTXGEN_TRY(required(context, 0));
    for (std::size_t i = 1; i < context.input_count(); ++i)
      CTXGEN_CHECK(same_type(*first, *context.input(i)));
    Dims dims;
    for (std::size_t label : plan.output) dims.push_back(plan.extent[label]);
    Tensor* output = CTXGEN_TRY(context.make_output(0, first->type(), dims));
    return dispatch(Types<float, double, std::int32_t, std::int64_t>{}, first->type(),
                    [&]<class T>() -> Status {
                      einsum<T>(context, plan, *output);
                      return {};
                    });
  });
}

constexpr OpRow kEinsumRows[] = {
    {kOnnx, "Einsum", 12, 12, make_einsum, "floats, int32, int64; no empty axes"},
};

}  // namespace

constinit const std::span<const OpRow> kEinsumOps = kEinsumRows;

}  // namespace ctxgen::cpu
