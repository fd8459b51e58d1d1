#include "compile/model_list.h"

#include <algorithm>
#include <charconv>
#include <format>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/shards.h"

#include "flags/arguments.h"
#include "flags/options_file.h"
#include "flags/usage.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxListBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxShards = 65536;

/// About all models of a list, or about files that one process writes for several; and what measures while others are compiled.
constexpr std::string_view kNotOfOneModel[] = {"--help",  "--json",     "--list", "--options",
                                               "--shard", "--shard-by", "--tune"};

bool is_one_of(const CLI::Option& option, std::span<const std::string_view> names) {
  return std::ranges::any_of(
      names, [&](std::string_view name) { return option.check_name(std::string(name)); });
}

class ListReader {
 public:
  ListReader(const CLI::App& verb, const std::string& file, const fs::path& folder)
      : verb_(verb), file_(file), folder_(folder) {}

  Result<std::vector<ListedModel>> read(std::string_view text) {
    const std::vector<Word> words = CTXGEN_TRY(split_words(text, file_));
    std::vector<ListedModel> models;
    for (std::size_t i = 0; i < words.size();) {
      std::size_t end = i + 1;
      while (end < words.size() && words[end].line == words[i].line) ++end;
      models.push_back(CTXGEN_TRY(line(std::span(words).subspan(i, end - i))));
      CTXGEN_CHECK(check_outputs(models.back()));
      i = end;
    }
    return models;
  }

 private:
  template <class... T>
  [[nodiscard]] std::unexpected<Error> wrong(std::size_t line, std::format_string<T...> text,
                                             T&&... arguments) const {
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", file_, line,
                std::format(text, std::forward<T>(arguments)...));
  }

  Result<ListedModel> line(std::span<const Word> words) const {
    ListedModel model;
    model.line = words.front().line;
    model.model = words.front().text;
    if (model.model.starts_with('-'))
      return wrong(model.line, "a line begins with a model, got \"{}\"", model.model);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i].text;
      const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
      const std::string name = word.substr(0, equals);
      const CLI::Option* option = name.starts_with('-') ? verb_.get_option_no_throw(name) : nullptr;
      if (option == nullptr)
        return wrong(model.line, "unknown option \"{}\" of {}{}", name, verb_.get_name(),
                     option_hint(verb_, name));
      if (is_one_of(*option, kNotOfOneModel))
        return wrong(model.line, "{} is not an option of one model", name);
      std::vector<std::string> of_option{word};
      if (equals == std::string::npos && option->get_items_expected_max() > 0) {
        if (i + 1 == words.size()) return wrong(model.line, "{} needs a value", name);
        of_option.push_back(words[++i].text);
      }
      if (option->check_name("--output")) {
        model.output = of_option.size() > 1 ? of_option.back() : word.substr(equals + 1);
        continue;
      }
      model.options.insert(option);
      std::ranges::move(of_option, std::back_inserter(model.words));
    }
    if (model.output.empty()) {
      const fs::path path = model.model;
      model.output = (folder_.empty() ? path.parent_path() : folder_) /
                     default_output_name(path.filename().string());
      // As a folder, which a dry run need not find.
      if (!folder_.empty()) model.output_argument = folder_ / "";
    }
    if (model.output_argument.empty()) model.output_argument = model.output.string();
    return model;
  }

  /// Two models that would replace each other's files.
  Status check_outputs(const ListedModel& model) {
    const fs::path output = fs::absolute(model.output).lexically_normal();
    for (const fs::path& file :
         {output, output.parent_path() / default_bin_name(output.filename().string(), "dnnl")}) {
      const auto [at, added] = outputs_.emplace(file, model.line);
      if (!added)
        return wrong(model.line, "\"{}\" would be written here and for line {}", file.string(),
                     at->second);
    }
    return {};
  }

  const CLI::App& verb_;
  const std::string& file_;
  const fs::path& folder_;
  std::map<fs::path, std::size_t> outputs_;  // line
};

/// About the list, or said for each model by the command itself.
constexpr std::string_view kOfTheList[] = {"--list",      "--shard", "--shard-by",
                                           "--json",      "--jobs",  "--output",
                                           "--if-needed", "--quiet", "--verbose"};

/// The option that is typed at words[at], with its value; moves past it. Nothing for a model, and for short options, none of
/// which is about models alone.
GivenOption take_option(const CLI::App& verb, std::span<const std::string> words, std::size_t& at) {
  const std::string& word = words[at++];
  if (!word.starts_with('-') || word.size() < 2) return {};
  if (!word.starts_with("--")) {
    const CLI::Option* last = verb.get_option_no_throw(word.substr(0, 2));
    if (last != nullptr && last->get_items_expected_max() > 0 && word.size() == 2) ++at;
    return {};
  }
  const std::size_t equals = word.find('=');
  GivenOption given{verb.get_option_no_throw(word.substr(0, equals)), {word}};
  if (given.option == nullptr) return {};
  const bool takes_next = equals == std::string::npos &&
                          given.option->get_items_expected_min() > 0 &&
                          given.option->get_items_expected_max() > 0;
  if (takes_next && at < words.size()) given.words.push_back(words[at++]);
  return given;
}

}  // namespace

Result<std::vector<GivenOption>> options_of_models(const CLI::App& verb,
                                                   std::span<const std::string> words) {
  std::vector<GivenOption> common;
  std::set<const CLI::Option*> seen;
  for (std::size_t at = 0; at < words.size() && words[at] != "--";) {
    GivenOption given = take_option(verb, words, at);
    if (given.option == nullptr) continue;
    seen.insert(given.option);
    if (!is_one_of(*given.option, kOfTheList)) common.push_back(std::move(given));
  }
  for (const std::string name : {"--list", "--shard", "--shard-by"})
    if (const CLI::Option* option = verb.get_option(name);
        option->count() > 0 && !seen.contains(option))
      return fail(ErrorCode::kInvalidArgument, "{} is not allowed in an options file", name);
  return common;
}

Result<std::vector<ListedModel>> read_model_list(const CLI::App& verb, const std::string& file,
                                                 const fs::path& folder) {
  const Blob bytes = CTXGEN_TRY(map_file(file));
  if (bytes.bytes.size() > kMaxListBytes)
    return fail(ErrorCode::kResourceLimit, "\"{}\": the list has {} bytes, limit {}", file,
                bytes.bytes.size(), kMaxListBytes);
  const std::string text(as_text(bytes.bytes));  // the file may change while it is mapped
  auto models = CTXGEN_TRY(ListReader(verb, file, folder).read(text));
  if (models.empty()) return fail(ErrorCode::kInvalidArgument, "\"{}\" lists no model", file);
  return models;
}

Result<Shard> parse_shard(const std::string& text, bool by_weights) {
  Shard shard;
  shard.by_weights = by_weights;
  if (text.empty()) return shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ec == std::errc() && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    if (count.ec == std::errc() && count.ptr == end && shard.count <= kMaxShards &&
        shard.index >= 1 && shard.index <= shard.count)
      return shard;
  }
  return fail(ErrorCode::kInvalidArgument,
              "--shard: expected I/N with I from 1 to N and N up to {}, got \"{}\"", kMaxShards,
              text);
}

std::vector<ListedModel> take_shard(std::vector<ListedModel> models, const Shard& shard) {
  if (shard.count == 1) return models;
  std::vector<std::size_t> shards;
  if (shard.by_weights) {
    std::vector<fs::path> paths;
    for (const ListedModel& model : models) paths.emplace_back(model.model);
    shards = shards_by_weights(paths, shard.count);
  } else {
    std::vector<std::string> names;
    for (const ListedModel& model : models) names.push_back(model.model);
    shards = shards_by_name(names, shard.count);
  }
  std::vector<ListedModel> taken;
  for (std::size_t m = 0; m < models.size(); ++m)
    if (shards[m] + 1 == shard.index) taken.push_back(std::move(models[m]));
  return taken;
}

}  // namespace ctxgen::cli
