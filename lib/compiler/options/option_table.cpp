#include "ctxgen/compiler/option_table.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen {
namespace {

#define CTXGEN_FIELD(name) .field = #name, .slot = &CompileOptions::name

constexpr OptionRow kOptions[] = {
    {CTXGEN_FIELD(names)},
    {CTXGEN_FIELD(providers), .in_key = InKey::kByItsEffect, .flag = "--provider",
     .value = "A,B,...", .setter = "set_providers",
     .help = "providers by priority, separated by commas; cpu takes the rest (default: dnnl,cpu)"},
    {CTXGEN_FIELD(extra_providers), .in_key = InKey::kByItsEffect},
    {CTXGEN_FIELD(provider_options), .in_key = InKey::kByItsEffect, .flag = "--provider-option",
     .value = "NAME:KEY=VALUE", .setter = "add_provider_option",
     .help = "an option of one provider (ctxgen providers lists them); may be repeated"},
    // What follows from it follows from the model, too.
    {CTXGEN_FIELD(budget), .in_key = InKey::kYes, .flag = "--max-error", .value = "[NORM:]E",
     .help =
         "store weights of single operators in fewer bits as long as every output stays within E of "
         "float32 on --samples"},
    {CTXGEN_FIELD(precision), .in_key = InKey::kYes},
    {CTXGEN_FIELD(tuning), .in_key = InKey::kYes, .flag = "--tuning", .value = "FILE.json",
     .help =
         "store constants in the packings that this file names, where they were measured to be faster than "
         "ours (docs/tuning.md)"},
    {CTXGEN_FIELD(embed), .in_key = InKey::kOfForm, .flag = "--embed",
     .key = "ep.context_embed_mode", .setter = "set_embed",
     .help = "keep the context binary inside the model"},
    {CTXGEN_FIELD(node_prefix), .in_key = InKey::kYes, .flag = "--node-prefix", .value = "P",
     .key = "ep.context_node_name_prefix", .setter = "set_node_prefix",
     .help = "prefix for the names of EPContext nodes and partitions"},
    {CTXGEN_FIELD(profiles), .in_key = InKey::kYes, .flag = "--dim", .value = "NAME=N[,N...]",
     .setter = "add_profile",
     .help = "plan ahead for sizes of a symbolic dimension; may be repeated"},
    {CTXGEN_FIELD(fix_dims), .in_key = InKey::kYes, .flag = "--fix-dim", .value = "NAME=N",
     .setter = "add_fixed_dim",
     .help = "replace a symbolic dimension of the model by a number; may be repeated"},
    {CTXGEN_FIELD(input_names), .in_key = InKey::kYes, .flag = "--input-names", .value = "A,B,...",
     .setter = "add_input_name",
     .help = "compile the part of the model after these values, which become its inputs"},
    {CTXGEN_FIELD(output_names), .in_key = InKey::kYes, .flag = "--output-names",
     .value = "A,B,...", .setter = "add_output_name",
     .help = "compile the part of the model before these values, which become its outputs"},
    {CTXGEN_FIELD(freeze_initializers), .in_key = InKey::kYes, .flag = "--freeze-initializers",
     .setter = "set_freeze_initializers",
     .help = "treat initializers that are graph inputs as constants"},
    {CTXGEN_FIELD(graph_optimization), .in_key = InKey::kYes, .flag = "--graph-optimization",
     .value = "none|basic|extended|all", .setter = "set_graph_optimization",
     .help = "also simplify nodes outside partitions (default: none)"},
    {CTXGEN_FIELD(subgraphs), .in_key = InKey::kYes, .flag = "--subgraphs",
     .setter = "set_subgraphs",
     .help =
         "also compile in bodies of If, Loop and Scan; stock ONNX Runtime may not load the result"},
    // These decide whether there are outputs at all: what was made without them need not satisfy them.
    {CTXGEN_FIELD(strict), .in_key = InKey::kYes, .flag = "--strict",
     .key = "session.disable_cpu_ep_fallback", .setter = "set_strict",
     .help = "fail if anything falls back to cpu"},
    {CTXGEN_FIELD(require_compiled), .in_key = InKey::kYes, .flag = "--require-compiled",
     .setter = "set_flags", .help = "fail if nothing was compiled"},
    {CTXGEN_FIELD(require_runnable), .in_key = InKey::kYes, .flag = "--require-runnable",
     .setter = "set_require_runnable", .help = "fail on a node that cpu cannot run"},
    // Says whether there are outputs, too, but no kept ones are asked for (is_kept_whole()).
    {CTXGEN_FIELD(like), .flag = "--like", .value = "CONTEXT", .setter = "set_like",
     .help = "fail if the result would differ from this context model in more than weights"},
    // About what is there.
    {CTXGEN_FIELD(no_clobber), .flag = "--no-clobber", .setter = "set_flags",
     .help = "fail if an output exists"},
    {CTXGEN_FIELD(force), .flag = "--force", .setter = "set_force",
     .help = "replace the context binary even if other models next to it need it"},
    {CTXGEN_FIELD(keep_unchanged), .flag = "--keep-unchanged", .setter = "set_keep_unchanged",
     .help = "do not replace an output that already has the same bytes"},
    {CTXGEN_FIELD(dry_run), .flag = "--dry-run", .setter = "set_dry_run",
     .help = "do everything except write; show names and sizes of the outputs"},
    {CTXGEN_FIELD(make_folder)},
    {CTXGEN_FIELD(disable_model_compile), .in_key = InKey::kYes,
     .key = "session.disable_model_compile"},
    {CTXGEN_FIELD(fail_on_suboptimal), .in_key = InKey::kYes,
     .key = "session.fail_on_suboptimal_compiled_model"},
    // Only compared with the models.
    {CTXGEN_FIELD(share_ep_contexts), .key = "ep.share_ep_contexts"},
    {CTXGEN_FIELD(stop_share_ep_contexts), .key = "ep.stop_share_ep_contexts"},
    {CTXGEN_FIELD(context_file_path), .in_key = InKey::kByItsEffect, .key = "ep.context_file_path",
     .setter = "set_binary_information"},
    // What was read from the folder is in the key.
    {CTXGEN_FIELD(external_data_folder), .in_key = InKey::kByItsEffect,
     .flag = "--external-data-dir", .value = "DIR",
     .key = "session.model_external_initializers_file_folder_path",
     .setter = "set_external_data_folder",
     .help = "folder of the model's external data (default: the model's folder)"},
    {CTXGEN_FIELD(other_files)},
    {CTXGEN_FIELD(bin), .in_key = InKey::kByItsEffect, .flag = "--bin", .value = "FILE",
     .setter = "set_bin_path", .help = "the context binary (default: MODEL_dnnl.bin)"},
    // What was in that bin goes into no model, and nothing goes out of it.
    {CTXGEN_FIELD(append), .in_key = InKey::kByItsEffect, .flag = "--append", .value = "BIN",
     .setter = "set_append", .help = "add to this context binary, which other models keep using"},
    // A model's own key has whether there is such a file, and none of its name.
    {CTXGEN_FIELD(external_initializers), .in_key = InKey::kOfForm,
     .flag = "--external-initializers", .value = "NAME",
     .key = "ep.context_model_external_initializers_file_name",
     .setter = "set_external_initializers",
     .help = "put the initializers that stay into one file of this name next to the model"},
    {CTXGEN_FIELD(external_threshold), .in_key = InKey::kYes, .flag = "--external-threshold",
     .value = "BYTES", .setter = "set_external_initializers",
     .help = "keep smaller initializers in the model (default: 0)"},
    // What a function answers is not known: compile_key() refuses it, and no other request has this.
    {CTXGEN_FIELD(initializer_location), .in_key = InKey::kYes,
     .setter = "set_initializer_location_function"},
    {CTXGEN_FIELD(weightless), .in_key = InKey::kYes, .key = "ep.enable_weightless_mode"},
    {CTXGEN_FIELD(compress_level), .in_key = InKey::kYes, .flag = "--compress", .value = "[=LEVEL]",
     .setter = "set_compression",
     .help = "store weights compressed (1 to 19): a smaller file, not used in place"},
    {CTXGEN_FIELD(threads), .flag = "--threads", .value = "N", .setter = "set_threads",
     .help =
         "threads of the runs of --verify, and of the compile without -j (default: physical cores "
         "allowed here); never changes the output"},
    // In the fingerprints of the target, where a provider depends on them.
    {CTXGEN_FIELD(portable), .in_key = InKey::kByItsEffect, .flag = "--portable",
     .setter = "set_portable",
     .help = "programs for any x86-64 machine: weights are stored plain and packed at load"},
    {CTXGEN_FIELD(isas), .in_key = InKey::kByItsEffect, .flag = "--isa", .value = "NAME[,NAME...]",
     .setter = "set_isa",
     .help =
         "compile for this instruction set instead of this machine's (ctxgen providers names it); "
         "for several: a load picks the best"},
    {CTXGEN_FIELD(start_variant)},
    {CTXGEN_FIELD(jobs), .flag = "-j,--jobs", .value = "N", .setter = "set_jobs",
     .help = "threads to compile with (default: same as --threads); never changes the output"},
    // Where things are meanwhile.
    {CTXGEN_FIELD(weight_memory_bytes), .flag = "--weight-memory", .value = "BYTES",
     .setter = "set_weight_memory",
     .help =
         "keep packed weights in memory up to this total, the rest in an unnamed file next to the output (default: 64MiB)"},
    {CTXGEN_FIELD(cache_dir), .flag = "--cache-dir", .value = "DIR", .setter = "set_cache",
     .help =
         "cache programs and packed weights in this folder (default: CTXGEN_CACHE_DIR; \"\": no cache); never changes the output"},
    {CTXGEN_FIELD(cache_max_bytes), .flag = "--cache-size", .value = "BYTES", .setter = "set_cache",
     .help = "evict the least recently used cache entries above this size (default: 5GiB)"},
    {CTXGEN_FIELD(cache_url), .flag = "--cache-url", .value = "URL", .setter = "set_remote_cache",
     .help =
         "share results of whole compiles with other machines by this HTTP server, which is asked after --cache-dir (default: CTXGEN_CACHE_URL); never changes the output"},
    {CTXGEN_FIELD(cache_headers), .flag = "--cache-headers", .value = "FILE",
     .setter = "set_remote_cache", .help = "lines \"Name: value\" for each request to --cache-url"},
    {CTXGEN_FIELD(cache_timeout_seconds), .flag = "--cache-timeout", .value = "SECONDS",
     .setter = "set_remote_cache",
     .help =
         "wait for --cache-url so long at most, and while it moves 4 MiB per second (default: 10)"},
    {CTXGEN_FIELD(progress), .setter = "set_progress_function"},
    {CTXGEN_FIELD(cancelled), .setter = "set_cancel_function"},
};
#undef CTXGEN_FIELD

/// Binds every field. A new one does not compile until it is here, and then not until it has a row:
/// put it where the fields have it, because the key of a compile is hashed in this order.
consteval std::size_t field_count() {
  constexpr auto count = [](const CompileOptions& options) {
    const auto& [f01, f02, f03, f04, f05, f06, f07, f08, f09, f10, f11, f12, f13, f14, f15, f16,
                 f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32,
                 f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47, f48,
                 f49, f50, f51, f52] = options;
    return std::tie(f01, f02, f03, f04, f05, f06, f07, f08, f09, f10, f11, f12, f13, f14, f15, f16,
                    f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32,
                    f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47, f48,
                    f49, f50, f51, f52);
  };
  return std::tuple_size_v<decltype(count(std::declval<CompileOptions>()))>;
}
static_assert(std::size(kOptions) == field_count(), "every field of CompileOptions needs a row");

constexpr bool all_differ() {
  for (std::size_t i = 0; i < std::size(kOptions); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kOptions[i].slot == kOptions[j].slot) return false;
  return true;
}
static_assert(all_differ(), "a field has two rows");

}  // namespace

CompileOptions options_named(OptionNames names) {
  CompileOptions options;
  options.names = names;
  return options;
}

std::span<const OptionRow> option_rows() { return kOptions; }

const OptionRow& option_row(OptionSlot slot) {
  const auto at = std::ranges::find(kOptions, slot, &OptionRow::slot);
  CTXGEN_ASSERT(at != std::end(kOptions));
  return *at;
}

std::string option_name(const CompileOptions& options, OptionSlot slot) {
  const OptionRow& row = option_row(slot);
  if (options.names == OptionNames::kFlags && !row.flag.empty())
    return std::string(row.flag.substr(row.flag.find("--")));
  if (options.names == OptionNames::kSetters && !row.setter.empty())
    return "ctxgen_compile_options_" + std::string(row.setter);
  if (options.names != OptionNames::kFields && !row.key.empty()) return std::string(row.key);
  return "CompileOptions::" + std::string(row.field);
}

}  // namespace ctxgen
