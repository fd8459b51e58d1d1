#include "running/special_values.h"

#include <algorithm>
#include <cstring>
#include <format>
#include <limits>
#include <utility>

#include "ctxgen/base/half.h"

#include "term/console.h"

namespace ctxgen::cli {
namespace {

constexpr std::string_view kWords[] = {"nan", "infinity"};  // of --special-values

bool set_element(Tensor& tensor, std::int64_t index, double value) {
  const auto put = [&]<class T>(T element) {
    std::memcpy(tensor.mutable_bytes().data() + static_cast<std::size_t>(index) * sizeof(T),
                &element, sizeof(T));
    return true;
  };
  const auto single = static_cast<float>(value);
  switch (tensor.type()) {
    case DataType::kFloat: return put(single);
    case DataType::kDouble: return put(value);
    case DataType::kFloat16: return put(float_to_float16(single));
    case DataType::kBfloat16: return put(float_to_bfloat16(single));
    default: return false;
  }
}

/// Whether the tensor has a place for it.
bool set_special(Tensor& tensor, std::string_view word, std::uint64_t place) {
  const std::int64_t count = tensor.element_count();
  if (count == 0) return false;
  const auto at = static_cast<std::int64_t>(place % static_cast<std::uint64_t>(count));
  if (word == "nan") return set_element(tensor, at, std::numeric_limits<double>::quiet_NaN());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!set_element(tensor, (at + count / 2) % count, -kInfinity)) return false;
  return set_element(tensor, at, kInfinity);
}

/// Nothing where no input takes such a value.
Result<std::optional<std::vector<NamedValue>>> special_inputs(std::span<const NamedValue> base,
                                                              std::string_view word,
                                                              std::uint64_t seed) {
  std::vector<NamedValue> inputs(base.begin(), base.end());
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].value.is_tensor() || inputs[i].value.tensor().is_string()) continue;
    const Tensor& from = inputs[i].value.tensor();
    Tensor copy = CTXGEN_TRY(Tensor::allocate(from.type(), from.dims()));
    std::ranges::copy(from.bytes(), copy.mutable_bytes().begin());
    // Fibonacci hashing: places that are spread over the tensors, the same everywhere.
    if (!set_special(copy, word, (seed + i + 1) * 0x9e3779b97f4a7c15U >> 16U)) continue;
    inputs[i].value = std::move(copy);
    any = true;
  }
  if (!any) return std::nullopt;
  return inputs;
}

std::vector<const ValueComparison*> differences_of(const OutputVerification& result) {
  std::vector<const ValueComparison*> found;
  const auto add = [&](const std::vector<ValueComparison>& values) {
    for (const ValueComparison& value : values)
      if (!value.comparison.match) found.push_back(&value);
  };
  add(result.partitions);
  if (found.empty()) add(result.outputs);  // of a model without partitions that differ: its own
  return found;
}

}  // namespace

Result<std::vector<SpecialRun>> verify_special_values(const Session& context,
                                                      const Session& reference,
                                                      const VerificationInputs& base,
                                                      std::span<const std::string> words,
                                                      std::uint64_t seed, const NumericPaths& paths,
                                                      const ToleranceOverrides& tolerance) {
  std::vector<SpecialRun> runs;
  for (const std::string_view word : kWords) {
    if (!std::ranges::contains(words, word)) continue;
    const auto inputs = CTXGEN_TRY(special_inputs(base.values, word, seed));
    if (!inputs) break;
    SpecialRun run{std::format("{}, {}", base.name, word), {}, {}};
    auto result = verify_outputs(context, reference, *inputs, paths, tolerance);
    if (result)
      run.result = std::move(*result);
    else if (result.error().code == ErrorCode::kCancelled)
      return std::unexpected(std::move(result).error());
    else
      run.error = result.error().message;
    runs.push_back(std::move(run));
  }
  return runs;
}

std::optional<Divergence> finite_divergence(std::span<const SpecialRun> runs) {
  for (const SpecialRun& run : runs)
    if (const ValueComparison* value = run.result.finite_difference())
      return Divergence{run.inputs, *value};
  return {};
}

void write_special_runs(JsonWriter& json, std::span<const SpecialRun> runs) {
  json.key("special_values").begin_array();
  for (const SpecialRun& run : runs) {
    json.begin_object().field("inputs", run.inputs).key("error");
    run.error.empty() ? json.null() : json.value(run.error);
    const auto differences = differences_of(run.result);
    json.field("match", run.error.empty() && differences.empty()).key("differences").begin_array();
    for (const ValueComparison* value : differences) write_comparison(json, *value);
    json.end_array();
    write_comparisons(json.key("outputs"), run.result.outputs);
    write_comparisons(json.key("partitions"), run.result.partitions);
    json.end_object();
  }
  json.end_array();
}

std::string special_runs_text(std::span<const SpecialRun> runs) {
  std::string text;
  for (const SpecialRun& run : runs) {
    if (!run.error.empty()) {
      text += std::format("{}: not compared: {}\n", run.inputs, run.error);
      continue;
    }
    const auto differences = differences_of(run.result);
    text += differences.empty()
                ? std::format("{}: handled as in the source\n", run.inputs)
                : std::format("{}: {} handled differently from the source (docs/numerics.md)\n",
                              run.inputs, count_text(differences.size(), "value"));
    for (const ValueComparison* value : differences)
      text += std::format("  {}{}: {} of its differences are NaN or infinity on one side; {}\n",
                          value->partition.empty() ? "" : value->partition + " ", value->value,
                          value->comparison.not_finite == value->comparison.mismatches
                              ? "all"
                              : std::to_string(value->comparison.not_finite),
                          value->comparison.text);
  }
  return text;
}

}  // namespace ctxgen::cli
