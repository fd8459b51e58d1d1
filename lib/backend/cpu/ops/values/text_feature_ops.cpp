#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

// TfIdfVectorizer: counts the n-grams of a pool in a text of tokens.

namespace ctxgen::cpu {
namespace {

enum class Mode { kTf, kIdf, kTfIdf };

constexpr std::int64_t kUnknownToken = -1;

struct Vectorizer {
  std::int64_t least = 1, most = 1, skips = 0;
  Mode mode = Mode::kTf;
  bool of_strings = false;
  std::unordered_map<std::string, std::int64_t> string_tokens{};
  std::unordered_map<std::int64_t, std::int64_t> int_tokens{};
  std::map<std::vector<std::int64_t>, std::size_t> grams{};  // tokens -> position in the pool
  std::vector<std::int64_t> outputs{};                       // position in the pool -> column
  std::vector<float> weights{};                              // likewise; may be empty
  std::int64_t width = 0;

  [[nodiscard]] std::vector<std::int64_t> tokens_of(const Tensor& input) const;
  void count_row(std::span<const std::int64_t> tokens, float* row) const;
  [[nodiscard]] Status run(KernelContext& context) const;
};

template <class Map, class Key>
std::int64_t token_in(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? kUnknownToken : found->second;
}

std::vector<std::int64_t> Vectorizer::tokens_of(const Tensor& input) const {
  std::vector<std::int64_t> tokens;
  if (of_strings)
    for (const std::string& text : input.strings()) tokens.push_back(token_in(string_tokens, text));
  else if (input.type() == DataType::kInt32)
    for (const std::int32_t value : input.elements<std::int32_t>())
      tokens.push_back(token_in(int_tokens, std::int64_t{value}));
  else
    for (const std::int64_t value : input.elements<std::int64_t>())
      tokens.push_back(token_in(int_tokens, value));
  return tokens;
}

// Tokens of an n-gram are `skip` + 1 apart; a single token is counted once, not once per skip.
void Vectorizer::count_row(std::span<const std::int64_t> tokens, float* row) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::vector<std::int64_t> gram;
  for (std::int64_t skip = 0; skip <= skips && skip < count; ++skip) {
    for (std::int64_t start = 0; start < count; ++start) {
      gram.clear();
      for (std::int64_t n = 1; n <= most; ++n) {
        const std::int64_t at = start + (n - 1) * (skip + 1);
        if (at >= count || tokens[static_cast<std::size_t>(at)] == kUnknownToken) break;
        gram.push_back(tokens[static_cast<std::size_t>(at)]);
        if (n < least || (n == 1 && skip > 0)) continue;
        const auto found = grams.find(gram);
        if (found != grams.end()) row[outputs[found->second]] += 1;
      }
    }
  }
}

Status Vectorizer::run(KernelContext& context) const {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*input, "input", 1, 2));
  const bool fits = of_strings
                        ? input->is_string()
                        : input->type() == DataType::kInt32 || input->type() == DataType::kInt64;
  if (!fits)
    return fail(ErrorCode::kInvalidGraph, "input is {}, the pool is of {}", name_of(input->type()),
                of_strings ? "strings" : "integers");
  const std::int64_t rows = input->rank() == 2 ? input->dims()[0] : 1;
  const std::int64_t length = input->dims().back();
  Tensor* output = CTXGEN_TRY(context.make_output(
      0, DataType::kFloat, input->rank() == 2 ? Dims{rows, width} : Dims{width}));
  float* out = output->mutable_elements<float>().data();
  std::fill_n(out, output->element_count(), 0.0F);
  const auto tokens = tokens_of(*input);
  for (std::int64_t r = 0; r < rows; ++r)
    count_row(std::span(tokens).subspan(static_cast<std::size_t>(r * length),
                                        static_cast<std::size_t>(length)),
              out + r * width);
  if (mode == Mode::kTf) return {};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      float& value = out[r * width + outputs[i]];
      const float weight = weights.empty() ? 1.0F : weights[i];
      value = mode == Mode::kIdf ? (value > 0 ? weight : 0.0F) : value * weight;
    }
  return {};
}

// The pool's tokens by number.
std::vector<std::int64_t> pool_tokens(const Node& node, Vectorizer& out) {
  std::vector<std::int64_t> pool;
  const auto strings = strings_or_empty(node, "pool_strings");
  out.of_strings = !strings.empty();
  const auto number = [](auto& map, const auto& key) {
    return map.emplace(key, static_cast<std::int64_t>(map.size())).first->second;
  };
  for (const std::string& text : strings) pool.push_back(number(out.string_tokens, text));
  if (!out.of_strings)
    for (const std::int64_t value : ints_or(node, "pool_int64s", {}))
      pool.push_back(number(out.int_tokens, value));
  return pool;
}

// `counts[n - 1]` is where the n-grams start in the pool.
Status read_grams(const Node& node, std::span<const std::int64_t> pool, Vectorizer& out) {
  const auto counts = ints_or(node, "ngram_counts", {});
  const auto size = static_cast<std::int64_t>(pool.size());
  if (counts.empty())
    return fail(ErrorCode::kInvalidGraph, "{}: ngram_counts is empty", node.describe());
  std::size_t number = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i) + 1;
    const std::int64_t first = counts[i];
    const std::int64_t last = i + 1 < counts.size() ? counts[i + 1] : size;
    if (first < 0 || first > last || last > size || (last - first) % n != 0)
      return fail(ErrorCode::kInvalidGraph, "{}: ngram_counts does not fit a pool of {}",
                  node.describe(), size);
    for (std::int64_t at = first; at < last; at += n, ++number)
      if (n >= out.least && n <= out.most)
        out.grams.emplace(std::vector(pool.begin() + at, pool.begin() + at + n), number);
  }
  if (number != out.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} n-grams in the pool, ngram_indexes has {}",
                node.describe(), number, out.outputs.size());
  return {};
}

KernelResult make_vectorizer(const Node& node) {
  const std::string mode = CTXGEN_TRY(one_of(node, "mode", "", {"TF", "IDF", "TFIDF"}));
  Vectorizer made{.least = node.int_or("min_gram_length", 1),
                  .most = node.int_or("max_gram_length", 1),
                  .skips = node.int_or("max_skip_count", 0),
                  .mode = mode == "TF"    ? Mode::kTf
                          : mode == "IDF" ? Mode::kIdf
                                          : Mode::kTfIdf};
  if (made.least < 1 || made.most < made.least || made.skips < 0)
    return fail(ErrorCode::kInvalidGraph, "{}: n-grams of {} to {} tokens, {} skips",
                node.describe(), made.least, made.most, made.skips);
  made.outputs = ints_or(node, "ngram_indexes", {});
  made.weights = floats_or_empty(node, "weights");
  if (!made.weights.empty() && made.weights.size() != made.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} weights for {} n-grams", node.describe(),
                made.weights.size(), made.outputs.size());
  for (const std::int64_t column : made.outputs) {
    if (column < 0 || column >= INT64_MAX / 8)
      return fail(ErrorCode::kInvalidGraph, "{}: ngram_indexes has {}", node.describe(), column);
    made.width = std::max(made.width, column + 1);
  }
  const auto pool = pool_tokens(node, made);
  CTXGEN_CHECK(read_grams(node, pool, made));
  return kernel([made](KernelContext& context) { return made.run(context); });
}

constexpr OpRow kTextFeatureRows[] = {
    {kOnnx, "TfIdfVectorizer", 9, 9, make_vectorizer, "int32, int64, strings"},
};

}  // namespace

constinit const std::span<const OpRow> kTextFeatureOps = kTextFeatureRows;

}  // namespace ctxgen::cpu
