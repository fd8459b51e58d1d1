#include "run/state_pairs.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ctxgen {
namespace {

struct Words {
  std::string_view input, output;
};

/// Names of caches: the first of these that is in an input's name is replaced.
constexpr Words kPasts[] = {
    {"past_key_values", "present_key_values"}, {"past_key_values", "present"}, {"past", "present"}};
/// Beginnings and ends of names, where they are about a state.
constexpr Words kPrefixes[] = {{"in_", "out_"},   {"input_", "output_"}, {"prev_", "next_"},
                               {"prev_", "new_"}, {"", "new_"},          {"", "next_"}};
constexpr Words kSuffixes[] = {{"_in", "_out"}, {"_input", "_output"}, {"", "_out"},
                               {"", "_output"}, {"", "_next"},         {"", "n"},
                               {"", "N"}};
constexpr std::string_view kStates[] = {"state", "cache", "hidden", "memory"};

std::string joined(std::string_view a, std::string_view b, std::string_view c = {}) {
  std::string text(a);
  text += b;
  text += c;
  return text;
}

bool is_about_state(std::string_view name) {
  return name == "h" || name == "c" || name == "h0" || name == "c0" ||
         std::ranges::any_of(kStates, [&](std::string_view word) { return name.contains(word); });
}

/// Names that an output which continues `input` usually has, the likeliest first.
std::vector<std::string> usual_names(std::string_view input) {
  std::vector<std::string> names;
  for (const Words& words : kPasts)
    if (const auto at = input.find(words.input); at != std::string_view::npos)
      names.push_back(
          joined(input.substr(0, at), words.output, input.substr(at + words.input.size())));
  if (!is_about_state(input)) return names;
  for (const Words& words : kPrefixes)
    if (input.starts_with(words.input))
      names.push_back(joined(words.output, input.substr(words.input.size())));
  for (const Words& words : kSuffixes)
    if (input.ends_with(words.input))
      names.push_back(joined(input.substr(0, input.size() - words.input.size()), words.output));
  return names;
}

/// The one dim that may differ, if there is one: symbolic in the input, and another one in the output.
std::optional<std::size_t> growing_axis(const ValueType& input, const ValueType& output) {
  std::optional<std::size_t> found;
  if (!input.has_rank() || !output.has_rank() || input.rank() != output.rank()) return found;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    const Dim &from = (*input.shape)[i], &to = (*output.shape)[i];
    const bool differs = !from.is_fixed() && !to.is_fixed() && (from != to || from.is_unknown());
    if (!differs) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

/// Whether an output of this type can be an input of that one.
bool fit(const ValueType& input, const ValueType& output) {
  if (!input.is_tensor() || !output.is_tensor() || input.element != output.element ||
      input.element == DataType::kString || bits_of(input.element) < 8 || !input.has_rank())
    return false;
  if (!output.has_rank()) return true;
  if (input.rank() != output.rank()) return false;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    const Dim &from = (*input.shape)[i], &to = (*output.shape)[i];
    if (from.is_fixed() && to.is_fixed() && from.value() != to.value()) return false;
  }
  return true;
}

std::optional<std::size_t> index_of(std::span<const IoInfo> infos, std::string_view name) {
  const auto found = std::ranges::find(infos, name, &IoInfo::name);
  if (found == infos.end()) return std::nullopt;
  return static_cast<std::size_t>(found - infos.begin());
}

class Pairer {
 public:
  Pairer(std::span<const IoInfo> inputs, std::span<const IoInfo> outputs)
      : inputs_(inputs), outputs_(outputs) {}

  Status add_named(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos)
      return fail(ErrorCode::kInvalidArgument, "state \"{}\": expected past=present or auto", text);
    const std::string_view from = text.substr(0, equals), to = text.substr(equals + 1);
    const auto input = index_of(inputs_, from);
    const auto output = index_of(outputs_, to);
    if (!input || !output)
      return fail(ErrorCode::kInvalidArgument, "state \"{}\": the model has no {} \"{}\"", text,
                  input ? "output" : "input", input ? to : from);
    if (is_taken(*input, *output))
      return fail(ErrorCode::kInvalidArgument, "state \"{}\": part of another pair as well", text);
    if (!fit(inputs_[*input].type, outputs_[*output].type))
      return fail(ErrorCode::kInvalidArgument, "state \"{}\": {} does not continue {}", text,
                  outputs_[*output].type_text, inputs_[*input].type_text);
    add(*input, *output);
    return {};
  }

  Status add_usual() {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      for (const std::string& name : usual_names(inputs_[i].name)) {
        const auto output = index_of(outputs_, name);
        if (!output || is_taken(i, *output) || !fit(inputs_[i].type, outputs_[*output].type))
          continue;
        add(i, *output);
        break;
      }
    if (!pairs_.empty()) return {};
    return fail(ErrorCode::kInvalidArgument,
                "state \"auto\": no output has the usual name of one that continues an input");
  }

  std::vector<StatePair> take() { return std::move(pairs_); }

 private:
  [[nodiscard]] bool is_taken(std::size_t input, std::size_t output) const {
    return std::ranges::any_of(pairs_, [&](const StatePair& pair) {
      return pair.input_index == input || pair.output_index == output;
    });
  }
  void add(std::size_t input, std::size_t output) {
    pairs_.push_back({.input = inputs_[input].name,
                      .output = outputs_[output].name,
                      .input_index = input,
                      .output_index = output});
  }

  std::span<const IoInfo> inputs_, outputs_;
  std::vector<StatePair> pairs_;
};

}  // namespace

Result<std::vector<StatePair>> find_state_pairs(std::span<const std::string> wanted,
                                                std::span<const IoInfo> inputs,
                                                std::span<const IoInfo> outputs) {
  Pairer pairer(inputs, outputs);
  for (const std::string& text : wanted)
    if (text != "auto") CTXGEN_CHECK(pairer.add_named(text));
  if (std::ranges::contains(wanted, "auto")) CTXGEN_CHECK(pairer.add_usual());
  return pairer.take();
}

std::vector<KeptPair> place_pairs(std::span<const StatePair> pairs, std::span<const IoInfo> inputs,
                                  std::span<const IoInfo> outputs, const GraphExecutor& executor,
                                  const Graph& graph) {
  std::vector<KeptPair> placed;
  for (const StatePair& pair : pairs) {
    KeptPair kept{.names = pair,
                  .output_id = graph.outputs[pair.output_index],
                  .type = inputs[pair.input_index].type,
                  .axis = {},
                  .cache = {}};
    kept.cache = executor.find_cache(graph.find(pair.input), kept.output_id);
    placed.push_back(std::move(kept));
  }
  const auto is_complete = [&](const PlacedCache& cache) {
    const auto joins = [&](const KeptPair& other) {
      return other.cache && other.cache->step == cache.step && other.cache->op == cache.op;
    };
    return static_cast<std::size_t>(std::ranges::count_if(placed, joins)) == cache.of_op;
  };
  std::vector<bool> complete;
  for (const KeptPair& kept : placed) complete.push_back(kept.cache && is_complete(*kept.cache));
  for (std::size_t i = 0; i < placed.size(); ++i) {
    KeptPair& kept = placed[i];
    if (!complete[i]) kept.cache.reset();
    kept.axis = kept.cache ? kept.cache->axis
                           : growing_axis(kept.type, outputs[kept.names.output_index].type);
    kept.names.grows = kept.axis.has_value();
    kept.names.in_place = kept.cache.has_value();
  }
  return placed;
}

}  // namespace ctxgen
