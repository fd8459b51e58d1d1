#include <format>
#include <memory>
#include <string>

#include "ctxgen/base/json.h"
#include "ctxgen/cache/cache_folder.h"

#include "cli.h"
#include "flags/value_checks.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen cache stats --cache-dir ~/.cache/ctxgen/compile\n"
    "  CTXGEN_CACHE_DIR=cache ctxgen cache trim --cache-size 1GiB\n"
    "  ctxgen cache clear --cache-dir cache --json\n";

enum class Task { kStats, kClear, kTrim };

struct Flags {
  std::string folder;
  std::uint64_t max_bytes = CacheFolder::kDefaultMaxBytes;
  bool json = false;
  Verbosity verbosity;
};

std::string entries_text(std::uint64_t count) {
  return count == 1 ? "1 entry" : std::format("{} entries", count);
}

void write_usage(JsonWriter& json, const CacheFolder::Usage& usage) {
  json.begin_object().field("entries", usage.entries).field("bytes", usage.bytes).end_object();
}

std::string json_text(const CacheFolder& cache, const CacheFolder::Usage& removed) {
  const CacheFolder::Contents contents = cache.contents();
  JsonWriter json;
  json.begin_object().field("path", cache.path().string());
  json.field("entries", contents.all().entries).field("bytes", contents.all().bytes);
  json.key("kinds").begin_object();
  for (std::size_t k = 0; k < kCacheKinds; ++k)
    write_usage(json.key(name_of(static_cast<CacheKind>(k))), contents.kinds[k]);
  json.end_object();
  write_usage(json.key("removed"), removed);
  json.end_object();
  return json.finish();
}

std::string text_of(const CacheFolder& cache) {
  const CacheFolder::Contents contents = cache.contents();
  const std::string text =
      std::format("{}: {}, {}\n", cache.path().string(), entries_text(contents.all().entries),
                  size_text(contents.all().bytes));
  TextTable table({1, 2});
  for (std::size_t k = 0; k < kCacheKinds; ++k)
    table.row({std::string(name_of(static_cast<CacheKind>(k))),
               std::to_string(contents.kinds[k].entries), size_text(contents.kinds[k].bytes)});
  return text + table.text("  ");
}

Result<int> run(Task task, const Flags& flags) {
  apply(flags.verbosity);
  const std::filesystem::path folder =
      flags.folder.empty() ? cache_folder_from_environment() : std::filesystem::path(flags.folder);
  if (folder.empty())
    return fail(ErrorCode::kInvalidArgument,
                "no cache folder is given: use --cache-dir or set CTXGEN_CACHE_DIR");
  const auto cache = CTXGEN_TRY(CacheFolder::open(folder, flags.max_bytes));
  CacheFolder::Usage removed;
  if (task == Task::kClear) removed = CTXGEN_TRY(cache->trim(0));
  if (task == Task::kTrim) removed = CTXGEN_TRY(cache->trim(flags.max_bytes));
  if (flags.json) {
    CTXGEN_CHECK(print(json_text(*cache, removed)));
    return 0;
  }
  if (flags.verbosity.quiet && task != Task::kStats) return 0;
  if (task != Task::kStats)
    CTXGEN_CHECK(print(
        std::format("removed {}, {}\n", entries_text(removed.entries), size_text(removed.bytes))));
  CTXGEN_CHECK(print(text_of(*cache)));
  return 0;
}

}  // namespace

void add_cache(Cli& cli) {
  CLI::App& verb = *cli.app.add_subcommand("cache", "inspect or shrink the compile cache");
  verb.require_subcommand(1);
  verb.footer(kExamples);
  const auto add = [&](Task task, const char* name, const char* about) {
    const auto flags = std::make_shared<Flags>();
    CLI::App& one = *verb.add_subcommand(name, about);
    one.add_option("--cache-dir", flags->folder, "the folder (default: CTXGEN_CACHE_DIR)")
        ->type_name("DIR");
    if (task == Task::kTrim)
      one.add_option(
             "--cache-size", flags->max_bytes,
             "remove the least recently used entries until this size is left (default: 5GiB)")
          ->type_name("BYTES")
          ->transform(byte_count());
    one.add_flag("--json", flags->json, "print JSON");
    add_verbosity(one, flags->verbosity);
    one.footer(kExamples);
    one.callback([&cli, task, flags] { cli.action = [task, flags] { return run(task, *flags); }; });
  };
  add(Task::kStats, "stats", "show the number and size of the entries of each kind");
  add(Task::kClear, "clear", "remove every entry");
  add(Task::kTrim, "trim", "remove the least recently used entries");
}

}  // namespace ctxgen::cli
