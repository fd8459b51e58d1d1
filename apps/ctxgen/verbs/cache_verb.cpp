#include <format>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/config_keys.h"

#include "cli.h"
#include "compile/compile_outputs.h"
#include "flags/config_arguments.h"
#include "flags/model_flags.h"
#include "flags/option_flags.h"
#include "flags/value_checks.h"
#include "show/remote_lines.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen cache stats --cache-dir ~/.cache/ctxgen/compile\n"
    "  CTXGEN_CACHE_DIR=cache ctxgen cache trim --cache-size 1GiB\n"
    "  ctxgen cache clear --cache-dir cache --json\n"
    "  ctxgen cache lookup model.onnx --cache-dir cache --cache-url http://cache.local:8080\n";

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

struct LookupFlags {
  std::vector<std::string> models;
  std::string output;
  std::vector<std::string> config;
  ModelFlags model;
  bool json = false;
  Verbosity verbosity;
};

std::string_view name_of(CacheLookup::Place place) {
  switch (place) {
    case CacheLookup::Place::kFolder: return "folder";
    case CacheLookup::Place::kRemote: return "remote";
    case CacheLookup::Place::kNowhere: break;
  }
  return "nowhere";
}

Status show(const CacheLookup& lookup, const LookupFlags& flags) {
  if (flags.json) {
    JsonWriter json;
    json.begin_object().field("place", name_of(lookup.place)).field("key", lookup.key.hex());
    if (lookup.remote) write_remote(json.key("remote_cache"), *lookup.remote);
    json.end_object();
    return print(json.finish());
  }
  if (flags.verbosity.quiet) return {};
  const std::string text = lookup.place == CacheLookup::Place::kFolder   ? "in the folder\n"
                           : lookup.place == CacheLookup::Place::kRemote ? "in the remote cache\n"
                                                                         : "in no cache\n";
  return print(lookup.remote ? text + remote_text(*lookup.remote) : text);
}

Result<int> look_up(const LookupFlags& flags) {
  apply(flags.verbosity);
  CompileOptions options = CTXGEN_TRY(compile_options(flags.model));
  CTXGEN_CHECK(apply_config(options, CTXGEN_TRY(parse_config(flags.config))));
  if (!options.external_initializers.empty() && !options.external_threshold)
    options.external_threshold = 0;  // as compile has it
  const OutputPlan plan = CTXGEN_TRY(plan_outputs(
      flags.models, flags.output.empty() ? options.context_file_path.string() : flags.output));
  if (plan.to_stdout)
    return fail(ErrorCode::kInvalidArgument, "-o -: no cache keeps a compile to stdout");
  std::vector<ModelInput> inputs;
  for (const std::string& model : plan.inputs) inputs.push_back(CTXGEN_TRY(model_input(model)));
  const CacheLookup lookup = CTXGEN_TRY(look_up_compile(inputs, plan.outputs, options));
  CTXGEN_CHECK(show(lookup, flags));
  return lookup.place == CacheLookup::Place::kNowhere
             ? error_info(ErrorCode::kNotSatisfied).exit_status
             : 0;
}

void add_lookup(Cli& cli, CLI::App& verb) {
  const auto flags = std::make_shared<LookupFlags>();
  CLI::App& one = *verb.add_subcommand(
      "lookup", "say whether a compile of these models with these options would be served");
  one.add_option("model", flags->models, "ONNX models, as compile takes them")
      ->type_name("MODEL[,MODEL...]")
      ->required();
  one.add_option("-o,--output", flags->output,
                 "where compile would write, which is part of what is looked for")
      ->type_name("OUT");
  CompileOptions& options = flags->model.options;
  for (const OptionSlot slot :
       {OptionSlot(&CompileOptions::embed), OptionSlot(&CompileOptions::bin),
        OptionSlot(&CompileOptions::node_prefix),
        OptionSlot(&CompileOptions::external_initializers),
        OptionSlot(&CompileOptions::external_threshold), OptionSlot(&CompileOptions::strict),
        OptionSlot(&CompileOptions::require_compiled),
        OptionSlot(&CompileOptions::require_runnable), OptionSlot(&CompileOptions::cache_dir),
        OptionSlot(&CompileOptions::cache_url), OptionSlot(&CompileOptions::cache_headers),
        OptionSlot(&CompileOptions::cache_timeout_seconds)})
    add_option_flag(one, options, slot);
  one.add_option("--config", flags->config,
                 "one of ONNX Runtime's session keys (docs/options.md); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_model_flags(one, flags->model);
  add_target_flags(one, flags->model);
  one.add_flag("--json", flags->json, "print JSON");
  add_verbosity(one, flags->verbosity);
  one.footer(kExamples);
  one.callback([&cli, flags] { cli.action = [flags] { return look_up(*flags); }; });
}

}  // namespace

void add_cache(Cli& cli) {
  CLI::App& verb = *cli.app.add_subcommand("cache", "inspect, search or shrink the compile cache");
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
  add_lookup(cli, verb);
}

}  // namespace ctxgen::cli
