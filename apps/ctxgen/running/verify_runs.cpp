#include "running/verify_runs.h"

#include <algorithm>
#include <format>
#include <functional>
#include <iterator>
#include <numeric>
#include <ranges>

#include "flags/value_checks.h"
#include "running/random_inputs.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

std::string profile_text(const ShapeProfile& profile) {
  std::string text;
  for (const auto& [name, size] : profile.symbols) text += std::format(", {}={}", name, size);
  for (const auto& [name, dims] : profile.inputs)
    text += std::format(", {} {}", name, to_string(dims));
  return text;
}

const ValueComparison* first_mismatch(std::span<const ValueComparison> values) {
  const auto found = std::ranges::find_if(
      values, [](const ValueComparison& value) { return !value.comparison.match; });
  return found == values.end() ? nullptr : &*found;
}

std::vector<ValueComparison> worst_of(std::span<const VerificationRun> runs,
                                      std::vector<ValueComparison> OutputVerification::* values) {
  std::vector<ValueComparison> worst;
  for (const VerificationRun& run : runs)
    for (const ValueComparison& value : run.result.*values) merge_comparison(worst, value);
  return worst;
}

std::size_t mismatches(std::span<const ValueComparison> values) {
  return static_cast<std::size_t>(std::ranges::count_if(
      values, [](const ValueComparison& value) { return !value.comparison.match; }));
}

/// The first one beyond its tolerance, and those that use most of theirs, in their order.
std::vector<ValueComparison> farthest(const std::vector<ValueComparison>& values) {
  constexpr std::size_t kShown = 10;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto first =
      std::ranges::find_if(order, [&](std::size_t i) { return !values[i].comparison.match; });
  if (first != order.end()) std::rotate(order.begin(), first, first + 1);
  const auto rest = order.begin() + (first != order.end() ? 1 : 0);
  std::ranges::stable_sort(rest, order.end(), std::greater<>(),
                           [&](std::size_t i) { return values[i].comparison.used; });
  order.resize(std::min(order.size(), kShown));
  std::ranges::sort(order);
  std::vector<ValueComparison> shown;
  for (const std::size_t i : order) shown.push_back(values[i]);
  return shown;
}

void add_rows(TextTable& table, std::string_view what, const std::vector<ValueComparison>& values) {
  for (const ValueComparison& value : values) {
    const Comparison& comparison = value.comparison;
    const std::string& where = value.node.empty() ? value.partition : value.node;
    table.row({std::string(what), where.empty() ? value.value : where + " " + value.value,
               comparison.match ? "match" : "MISMATCH",
               std::format("max abs {:.3g}", comparison.max_abs),
               std::format("max rel {:.3g}", comparison.max_rel),
               std::format("max ulp {:.3g}", comparison.max_ulp),
               std::format("cosine {:.9f}", comparison.cosine), tolerance_text(comparison),
               comparison.text});
  }
}

}  // namespace

void add_tolerance_flags(CLI::App& verb, ToleranceOverrides& overrides) {
  verb.add_option(
          "--rtol", overrides.rtol,
          "tolerance, relative to the element or to the tensor's root mean square if that is larger (default: by the precision inside the model, docs/numerics.md)")
      ->type_name("NUMBER")
      ->transform(tolerance());
  verb.add_option("--atol", overrides.atol, "absolute tolerance (default: likewise)")
      ->type_name("NUMBER")
      ->transform(tolerance());
}

void write_comparison(JsonWriter& json, const ValueComparison& value) {
  const Comparison& comparison = value.comparison;
  json.begin_object();
  if (!value.partition.empty()) json.field("partition", value.partition);
  if (!value.node.empty()) json.field("node", value.node);
  json.field("name", value.value)
      .field("match", comparison.match)
      .field("max_abs", comparison.max_abs)
      .field("max_rel", comparison.max_rel)
      .field("max_ulp", comparison.max_ulp)
      .field("cosine", comparison.cosine)
      .field("mismatches", comparison.mismatches)
      .field("not_finite", comparison.not_finite);
  write_tolerance(json, comparison);
  json.field("text", comparison.text).end_object();
}

void write_overrides(JsonWriter& json, const ToleranceOverrides& tolerance) {
  json.key("rtol");
  tolerance.rtol ? json.value(*tolerance.rtol) : json.null();
  json.key("atol");
  tolerance.atol ? json.value(*tolerance.atol) : json.null();
}

void write_tolerance(JsonWriter& json, const Comparison& comparison) {
  json.field("row", comparison.row)
      .field("rtol", comparison.tolerance.rtol)
      .field("atol", comparison.tolerance.atol)
      .field("of_range", comparison.tolerance.of_range)
      .field("used", comparison.used);
}

std::string tolerance_text(const Comparison& comparison) {
  const Tolerance& tolerance = comparison.tolerance;
  if (comparison.row.empty()) return "";  // types or shapes differ
  std::string text = std::format("{} row: rtol {:.3g}, atol {:.3g}", comparison.row, tolerance.rtol,
                                 tolerance.atol);
  if (tolerance.of_range > 0) text += std::format(", {:.2g} of the range", tolerance.of_range);
  return text + std::format(", {:.2g} % used", 100 * comparison.used);
}

void write_comparisons(JsonWriter& json, std::span<const ValueComparison> values) {
  json.begin_array();
  for (const ValueComparison& value : values) write_comparison(json, value);
  json.end_array();
}

Result<std::vector<VerificationInputs>> random_verification_inputs(
    std::span<const IoInfo> infos, std::span<const NamedValue> given,
    std::span<const ShapeProfile> profiles, std::uint64_t seed, std::uint64_t count) {
  std::vector<std::string> names;
  for (const NamedValue& value : given) names.push_back(value.name);
  const std::vector<ShapeProfile> none(1);
  if (profiles.empty()) profiles = none;
  std::vector<VerificationInputs> all;
  for (const ShapeProfile& profile : profiles)
    for (std::uint64_t i = 0; i < count; ++i) {
      VerificationInputs inputs;
      inputs.name = std::format("seed {}{}", seed + i, profile_text(profile));
      inputs.values.assign(given.begin(), given.end());
      for (NamedTensor& random : CTXGEN_TRY(random_inputs(infos, names, profile, seed + i)))
        inputs.values.push_back({std::move(random.name), std::move(random.tensor)});
      inputs.sizes = input_sizes(infos, inputs.values, names, profile);
      all.push_back(std::move(inputs));
    }
  return all;
}

Result<std::vector<VerificationRun>> verify_runs(const Session& context, const Session& reference,
                                                 std::span<const VerificationInputs> inputs,
                                                 const NumericPaths& paths,
                                                 const ToleranceOverrides& tolerance) {
  std::vector<VerificationRun> runs;
  for (const VerificationInputs& one : inputs) {
    auto result = verify_outputs(context, reference, one.values, paths, tolerance);
    if (!result) return std::unexpected(with_assumed_sizes(std::move(result).error(), one.sizes));
    runs.push_back({one.name, std::move(*result)});
  }
  return runs;
}

std::optional<Divergence> first_divergence(std::span<const VerificationRun> runs) {
  for (const VerificationRun& run : runs) {
    if (const auto* value = first_mismatch(run.result.partitions))
      return Divergence{run.inputs, *value};
    if (const auto* value = first_mismatch(run.result.outputs))
      return Divergence{run.inputs, *value};
  }
  return {};
}

std::string divergence_text(const Divergence& divergence) {
  const ValueComparison& value = divergence.value;
  const std::string where = value.partition.empty()
                                ? std::string("every partition matches, but the model's output")
                                : std::format("partition \"{}\": output", value.partition);
  return std::format(
      "{} \"{}\" differs from the source ({}): {}; max abs {:.3g}, max rel {:.3g}, "
      "max ulp {:.3g}, cosine {:.9f}; {}",
      where, value.value, divergence.inputs, value.comparison.text, value.comparison.max_abs,
      value.comparison.max_rel, value.comparison.max_ulp, value.comparison.cosine,
      tolerance_text(value.comparison));
}

void write_runs(JsonWriter& json, std::span<const VerificationRun> runs,
                const std::optional<Divergence>& divergence, const ToleranceOverrides& tolerance) {
  json.field("match", !divergence.has_value());
  write_overrides(json, tolerance);
  json.key("runs").begin_array();
  for (const VerificationRun& run : runs) {
    json.begin_object().field("inputs", run.inputs);
    write_comparisons(json.key("outputs"), run.result.outputs);
    write_comparisons(json.key("partitions"), run.result.partitions);
    write_comparisons(json.key("nodes"), run.result.nodes);
    json.list("without_reference", run.result.without_reference).end_object();
  }
  json.end_array().key("first_divergence");
  if (divergence)
    write_comparison(json, divergence->value);
  else
    json.null();
}

std::string runs_text(std::span<const VerificationRun> runs, bool verbose,
                      std::string_view indent) {
  const auto outputs = worst_of(runs, &OutputVerification::outputs);
  const auto partitions = worst_of(runs, &OutputVerification::partitions);
  TextTable table;
  add_rows(table, "output", outputs);
  std::vector<ValueComparison> shown;
  std::ranges::copy_if(partitions, std::back_inserter(shown), [&](const ValueComparison& value) {
    return verbose || !value.comparison.match;
  });
  add_rows(table, "partition", shown);
  const auto nodes = worst_of(runs, &OutputVerification::nodes);
  add_rows(table, "node", verbose ? nodes : farthest(nodes));
  std::string text = table.text(indent);
  const auto matching = partitions.size() - mismatches(partitions);
  text += std::format("{}{} compared; {} of {} match{}\n", indent, count_text(runs.size(), "run"),
                      matching, count_text(partitions.size(), "partition output"),
                      partitions.size() == 1 ? "es" : "");
  if (!nodes.empty())
    text += std::format("{}{} of nodes inside of partitions compared; {} beyond the tolerance{}\n",
                        indent, count_text(nodes.size(), "value"), mismatches(nodes),
                        verbose ? "" : " (the first one and the farthest are shown, -v shows all)");
  for (const VerificationRun& run : runs.first(std::min<std::size_t>(runs.size(), 1)))
    for (const std::string& name : run.result.without_reference)
      text += std::format(
          "{}\"{}\" comes from inside an operator of the source: nothing to compare "
          "it with\n",
          indent, name);
  return text;
}

Result<std::unique_ptr<Session>> open_source(const ModelInput& source,
                                             const SessionOptions& options) {
  return source.path.empty() ? Session::open_memory(source.bytes, options)
                             : Session::open(source.path, options);
}

Result<std::unique_ptr<Session>> open_reference(const Session& context, const ModelInput& source,
                                                const SessionOptions& options) {
  auto whole = CTXGEN_TRY(open_source(source, options));
  auto part = part_compiled(context, *whole);
  if (!part) return whole;
  part->external_data_folder = options.external_data_folder;
  const auto cut = part_of_model(source, *part);
  if (!cut) return whole;  // another model: comparing says what differs
  return Session::open_memory(*cut, options);
}

std::optional<CompileOptions> part_compiled(const Session& context, const Session& whole) {
  CompileOptions part;
  const auto name = [](const IoInfo& info) { return std::string(info.name); };
  const bool other_inputs = std::ranges::any_of(context.inputs(), [&](const IoInfo& input) {
    return !std::ranges::contains(whole.inputs(), input.name, &IoInfo::name);
  });
  if (!other_inputs && std::ranges::equal(context.outputs(), whole.outputs(), {}, name, name))
    return std::nullopt;
  if (other_inputs)
    std::ranges::transform(context.inputs(), std::back_inserter(part.input_names), name);
  std::ranges::transform(context.outputs(), std::back_inserter(part.output_names), name);
  return part;
}

Result<std::vector<VerificationRun>> verify_against(const std::filesystem::path& context,
                                                    const ModelInput& source,
                                                    const CompileOptions& options) {
  SessionOptions session;
  session.threads = options.threads;
  const auto compiled = CTXGEN_TRY(Session::open(context, session));
  session.external_data_folder = options.external_data_folder;
  const auto reference = CTXGEN_TRY(open_reference(*compiled, source, session));
  const auto inputs =
      CTXGEN_TRY(random_verification_inputs(compiled->inputs(), {}, options.profiles, 0, 1));
  return verify_runs(*compiled, *reference, inputs,
                     CTXGEN_TRY(common_paths(*compiled, *reference)));
}

}  // namespace ctxgen::cli
