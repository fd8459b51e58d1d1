#include <wctype.h>

#include <algorithm>
#include <clocale>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "kernel/string_memory.h"
#include "regex/regex_match.h"
#include "regex/utf8.h"
#include "tensors/broadcast.h"

// Operators on strings. Their outputs may be longer than their inputs, so the sum is known and
// checked before it is made.

namespace ctxgen::cpu {
namespace {

Status check_memory(const KernelContext& context, std::uint64_t bytes) {
  const auto memory = context.memory();
  return memory ? memory->check(bytes) : Status();
}

// ---- StringConcat ----

KernelResult make_string_concat(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0, DataType::kString));
    const Tensor* b = CTXGEN_TRY(required(context, 1, DataType::kString));
    const BroadcastPlan plan = CTXGEN_TRY(plan_broadcast({&a->dims(), &b->dims()}));
    const std::string* x = a->strings().data();
    const std::string* y = b->strings().data();
    const auto for_each = [&](auto&& f) {
      for_each_row(plan, [&](const auto& offset, std::int64_t to) {
        for (std::int64_t i = 0; i < plan.row_length(); ++i)
          f(x[offset[0] + i * plan.row_stride(0)], y[offset[1] + i * plan.row_stride(1)], to + i);
      });
    };
    std::uint64_t bytes = 0;
    for_each([&bytes](const std::string& left, const std::string& right, std::int64_t) {
      bytes += left.size() + right.size();
    });
    CTXGEN_CHECK(check_memory(context, bytes));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kString, plan.dims));
    std::string* out = output->mutable_strings().data();
    for_each([out](const std::string& left, const std::string& right, std::int64_t to) {
      out[to].reserve(left.size() + right.size());
      out[to].append(left).append(right);
    });
    return {};
  });
}

// ---- StringSplit ----

using Views = ScratchVector<std::string_view>;

// As Python's str.split(): runs of white space separate, none at either end.
Views split_at_spaces(std::string_view text, std::size_t most) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  Views parts;
  while (true) {
    const std::size_t start = text.find_first_not_of(kSpaces);
    if (start == std::string_view::npos) return parts;
    text.remove_prefix(start);
    if (parts.size() == most) {
      parts.push_back(text.substr(0, text.find_last_not_of(kSpaces) + 1));
      return parts;
    }
    const std::size_t end = std::min(text.find_first_of(kSpaces), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Views split_at(std::string_view text, std::string_view delimiter, std::size_t most) {
  Views parts;
  if (text.empty()) return parts;
  while (parts.size() < most) {
    const std::size_t at = text.find(delimiter);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + delimiter.size());
  }
  parts.push_back(text);
  return parts;
}

Status run_split(KernelContext& context, const std::string& delimiter, std::size_t most) {
  const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kString));
  if (input->rank() == kMaxRank)
    return fail(ErrorCode::kUnsupported, "rank {} has no room for the parts", kMaxRank);
  ScratchVector<Views> parts;
  std::size_t longest = 0;
  std::uint64_t text_bytes = 0;  // of the parts: no longer than what they are parts of
  for (const std::string& text : input->strings()) {
    text_bytes += text.size();
    parts.push_back(delimiter.empty() ? split_at_spaces(text, most)
                                      : split_at(text, delimiter, most));
    longest = std::max(longest, parts.back().size());
  }
  Dims dims = input->dims();
  dims.push_back(static_cast<std::int64_t>(longest));
  const auto count = checked_element_count(dims);
  if (!count || *count > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{} parts are too many", to_string(dims));
  CTXGEN_CHECK(check_memory(context, *count * sizeof(std::string) + text_bytes));
  auto texts = std::vector<std::string>(*count);
  for (std::size_t i = 0; i < parts.size(); ++i)
    std::ranges::copy(parts[i], texts.begin() + static_cast<std::ptrdiff_t>(i * longest));
  context.set_output(0, Tensor::of_strings(dims, std::move(texts)));
  Tensor* lengths = CTXGEN_TRY(context.make_output(1, DataType::kInt64, input->dims()));
  std::ranges::transform(parts, lengths->mutable_elements<std::int64_t>().begin(),
                         [](const Views& one) { return static_cast<std::int64_t>(one.size()); });
  return {};
}

KernelResult make_string_split(const Node& node) {
  const std::int64_t most = node.int_or("maxsplit", -1);
  return kernel([delimiter = std::string(node.string_or("delimiter", "")),
                 limit = most < 0 ? SIZE_MAX : static_cast<std::size_t>(most)](
                    KernelContext& context) { return run_split(context, delimiter, limit); });
}

// ---- StringNormalizer ----

enum class Case { kNone, kLower, kUpper };

// The rules of a locale, or those of Unicode without one where the system lacks it.
class LocaleLetters {
 public:
  explicit LocaleLetters(const std::string& name) {
    locale_t locale = newlocale(LC_CTYPE_MASK, (name + ".UTF-8").c_str(), nullptr);
    if (locale == nullptr) locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (locale != nullptr)
      locale_ =
          std::shared_ptr<void>(locale, [](void* l) { freelocale(static_cast<locale_t>(l)); });
  }
  [[nodiscard]] bool valid() const { return locale_ != nullptr; }
  [[nodiscard]] std::string changed(std::string_view text, Case to) const {
    if (to == Case::kNone) return std::string(text);
    std::string out;
    const auto locale = static_cast<locale_t>(locale_.get());
    for (const char32_t letter : decode_utf8(text)) {
      const auto wide = static_cast<wint_t>(letter);
      append_utf8(static_cast<char32_t>(to == Case::kLower ? towlower_l(wide, locale)
                                                           : towupper_l(wide, locale)),
                  out);
    }
    return out;
  }

 private:
  std::shared_ptr<void> locale_;
};

struct Normalizer {
  LocaleLetters letters;
  Case action = Case::kNone;
  bool sensitive = false;
  std::set<std::string, std::less<>> stopwords;

  [[nodiscard]] bool keeps(const std::string& text) const {
    return !stopwords.contains(sensitive ? text : letters.changed(text, Case::kLower));
  }
  [[nodiscard]] Status run(KernelContext& context) const {
    const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kString));
    const Dims& dims = input->dims();
    if (dims.size() != 1 && !(dims.size() == 2 && dims[0] == 1))
      return fail(ErrorCode::kInvalidGraph, "input has shape {}, expected [C] or [1, C]",
                  to_string(dims));
    CTXGEN_CHECK(check_memory(context, bytes_of_copies(input->strings())));
    std::vector<std::string> kept;
    for (const std::string& text : input->strings())
      if (keeps(text)) kept.push_back(letters.changed(text, action));
    if (kept.empty()) kept.emplace_back();  // the rule: one empty string
    Dims out = dims;
    out[dims.size() - 1] = static_cast<std::int64_t>(kept.size());
    context.set_output(0, Tensor::of_strings(out, std::move(kept)));
    return {};
  }
};

KernelResult make_normalizer(const Node& node) {
  const std::string action =
      CTXGEN_TRY(one_of(node, "case_change_action", "NONE", {"NONE", "LOWER", "UPPER"}));
  Normalizer normalizer{.letters = LocaleLetters(std::string(node.string_or("locale", "en_US"))),
                        .action = action == "LOWER"   ? Case::kLower
                                  : action == "UPPER" ? Case::kUpper
                                                      : Case::kNone,
                        .sensitive = node.int_or("is_case_sensitive", 0) != 0,
                        .stopwords = {}};
  if (!normalizer.letters.valid())
    return fail(ErrorCode::kUnsupported, "{}: the system has no locale C.UTF-8", node.describe());
  for (const std::string& word : strings_or_empty(node, "stopwords"))
    normalizer.stopwords.insert(
        normalizer.sensitive ? word : normalizer.letters.changed(word, Case::kLower));
  return kernel([normalizer](KernelContext& context) { return normalizer.run(context); });
}

// ---- RegexFullMatch ----

KernelResult make_regex(const Node& node) {
  if (node.attribute("pattern") == nullptr)
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"pattern\" is missing", node.describe());
  auto compiled =
      CTXGEN_TRY_AT(Regex::compile(node.string_or("pattern", "")), "{}", node.describe());
  return kernel([regex = std::move(compiled)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kString));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kBool, input->dims()));
    Bit* out = mutable_data_of<Bit>(*output);
    for (const std::string& text : input->strings()) *out++ = Bit(regex.full_match(text));
    return {};
  });
}

constexpr OpRow kStringRows[] = {
    {kOnnx, "RegexFullMatch", 20, 20, make_regex, "RE2's syntax without Unicode classes"},
    {kOnnx, "StringConcat", 20, 20, make_string_concat, "strings"},
    {kOnnx, "StringNormalizer", 10, 10, make_normalizer,
     "strings; a locale that the system lacks counts as C.UTF-8"},
    {kOnnx, "StringSplit", 20, 20, make_string_split, "strings"},
};

}  // namespace

constinit const std::span<const OpRow> kStringOps = kStringRows;

}  // namespace ctxgen::cpu
