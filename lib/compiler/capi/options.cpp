#include "options.h"

#include <memory>
#include <string>
#include <utility>

#include "ctxgen/weights/codec.h"

#include "c_status.h"

using ctxgen::CompileOptions;
using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::Status;
using ctxgen::capi::change_options;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

namespace {

/// A text that must be there.
template <class Slot>
ctxgen_status* set_text(ctxgen_compile_options* object, const char* text, std::string_view what,
                        Slot CompileOptions::* slot) noexcept {
  return change_options(object, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(text, what));
    o.options.*slot = text;
    return {};
  });
}

/// A path: an empty one would be taken for one that was not given.
template <class Slot>
ctxgen_status* set_path(ctxgen_compile_options* object, const char* path, std::string_view what,
                        Slot CompileOptions::* slot) noexcept {
  return change_options(object, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(path, what));
    if (*path == '\0')
      return fail(ErrorCode::kInvalidArgument, "{}: expected a path, got an empty one", what);
    o.options.*slot = path;
    return {};
  });
}

ctxgen_status* set_switch(ctxgen_compile_options* object, int on,
                          bool CompileOptions::* slot) noexcept {
  return change_options(object, [&](ctxgen_compile_options& o) -> Status {
    o.options.*slot = on != 0;
    return {};
  });
}

constexpr int kMostThreads = 4096;  // as the command line

ctxgen_status* set_count(ctxgen_compile_options* object, int count, std::string_view what,
                         int CompileOptions::* slot, int most = kMostThreads) noexcept {
  return change_options(object, [&](ctxgen_compile_options& o) -> Status {
    if (count < 0 || count > most)
      return fail(ErrorCode::kInvalidArgument, "{}: {} is not in 0..{}", what, count, most);
    o.options.*slot = count;
    return {};
  });
}

ctxgen::Result<ctxgen::GraphOptimization> level_of(int level) {
  using ctxgen::GraphOptimization;
  switch (level) {
    case CTXGEN_OPTIMIZE_NONE: return GraphOptimization::kNone;
    case CTXGEN_OPTIMIZE_BASIC: return GraphOptimization::kBasic;
    case CTXGEN_OPTIMIZE_EXTENDED: return GraphOptimization::kExtended;
    case CTXGEN_OPTIMIZE_ALL: return GraphOptimization::kAll;
    default:
      return fail(ErrorCode::kInvalidArgument,
                  "graph optimization level {}: expected 0 (none), 1 (basic), 2 (extended) or 99 "
                  "(all)",
                  level);
  }
}

}  // namespace

extern "C" {

ctxgen_status* ctxgen_compile_options_create(ctxgen_compile_options** options) {
  return guarded("making options", [&]() -> Status {
    CTXGEN_CHECK(not_null(options, "options"));
    *options = std::make_unique<ctxgen_compile_options>().release();
    return {};
  });
}

void ctxgen_compile_options_release(ctxgen_compile_options* options) { delete options; }

ctxgen_status* ctxgen_compile_options_set_config(ctxgen_compile_options* options, const char* key,
                                                 const char* value) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(key, "key"));
    CTXGEN_CHECK(not_null(value, "value"));
    std::vector<ctxgen::ConfigEntry> entries = o.config;
    entries.push_back({key, value});
    // Keys among themselves now, keys and setters when a compiler takes them.
    CompileOptions alone = ctxgen::options_named(ctxgen::OptionNames::kSetters);
    CTXGEN_CHECK(ctxgen::apply_config(alone, entries));
    o.config = std::move(entries);
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_providers(ctxgen_compile_options* options,
                                                    const char* const* names, size_t count) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    if (count > 0) CTXGEN_CHECK(not_null(names, "names"));
    std::vector<std::string> list;
    for (std::size_t i = 0; i < count; ++i) {
      CTXGEN_CHECK(not_null(names[i], "a provider's name"));
      list.emplace_back(names[i]);
    }
    o.options.providers = std::move(list);
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_add_provider_option(ctxgen_compile_options* options,
                                                          const char* provider, const char* key,
                                                          const char* value) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(provider, "provider"));
    CTXGEN_CHECK(not_null(key, "key"));
    CTXGEN_CHECK(not_null(value, "value"));
    o.options.provider_options.push_back({provider, {key, value}});
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_embed(ctxgen_compile_options* options, int embed) {
  return set_switch(options, embed, &CompileOptions::embed);
}

ctxgen_status* ctxgen_compile_options_set_node_prefix(ctxgen_compile_options* options,
                                                      const char* prefix) {
  return set_text(options, prefix, "prefix", &CompileOptions::node_prefix);
}

ctxgen_status* ctxgen_compile_options_set_bin_path(ctxgen_compile_options* options,
                                                   const char* path) {
  return set_path(options, path, "path", &CompileOptions::bin);
}

ctxgen_status* ctxgen_compile_options_set_binary_information(ctxgen_compile_options* options,
                                                             const char* folder,
                                                             const char* model_name) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(folder, "folder"));
    CTXGEN_CHECK(not_null(model_name, "model_name"));
    const std::string name(model_name);
    if (*folder == '\0' || name.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "folder \"{}\" and model name \"{}\": neither may be "
                  "empty",
                  folder, name);
    if (name.contains('/') || name == "." || name == "..")
      return fail(ErrorCode::kInvalidArgument, "model name \"{}\": expected a bare name", name);
    o.options.context_file_path = std::filesystem::path(folder) / (name + "_ctx.onnx");
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_external_initializers(ctxgen_compile_options* options,
                                                                const char* name,
                                                                uint64_t threshold) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(name, "name"));
    if (*name == '\0')
      return fail(ErrorCode::kInvalidArgument, "external initializers: empty name");
    o.options.external_initializers = name;
    o.options.external_threshold = threshold;
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_initializer_location_function(
    ctxgen_compile_options* options, ctxgen_location_function function, void* user) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    o.options.initializer_location = nullptr;
    if (function == nullptr) return {};
    o.options.initializer_location =
        [function,
         user](const ctxgen::InitializerInfo& info) -> ctxgen::Result<ctxgen::InitializerLocation> {
      const std::string model(info.model), name(info.name);
      const std::string external = info.external ? info.external->file : "";
      const ctxgen_initializer one{.struct_size = sizeof(ctxgen_initializer),
                                   .model = model.c_str(),
                                   .name = name.c_str(),
                                   .type = static_cast<std::int32_t>(info.type),
                                   .dims = info.dims.data(),
                                   .rank = info.dims.size(),
                                   .data = info.bytes.data(),
                                   .size = info.bytes.size(),
                                   .external_file = info.external ? external.c_str() : nullptr,
                                   .external_offset = info.external ? info.external->offset : 0};
      const char* file = nullptr;
      std::uint64_t offset = 0;
      using Kind = ctxgen::InitializerLocation::Kind;
      switch (function(user, &one, &file, &offset)) {
        case CTXGEN_LOCATION_INLINE: return ctxgen::InitializerLocation{};
        case CTXGEN_LOCATION_KEEP: return ctxgen::InitializerLocation{Kind::kKeep, {}};
        case CTXGEN_LOCATION_PLACE:
          CTXGEN_CHECK(not_null(file, "the location's file"));
          return ctxgen::InitializerLocation{Kind::kPlace, {file, offset}};
        case CTXGEN_LOCATION_FAIL:
          return fail(ErrorCode::kCancelled, "the location function failed for \"{}\"", name);
        default:
          return fail(ErrorCode::kInvalidArgument,
                      "the location function gave something unknown for \"{}\"", name);
      }
    };
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_external_data_folder(ctxgen_compile_options* options,
                                                               const char* folder) {
  return set_path(options, folder, "folder", &CompileOptions::external_data_folder);
}

ctxgen_status* ctxgen_compile_options_add_profile(ctxgen_compile_options* options,
                                                  const ctxgen_dim* dims, size_t dim_count,
                                                  const ctxgen_shape* shapes, size_t shape_count) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    ctxgen::ShapeProfile profile;
    if (dim_count > 0) CTXGEN_CHECK(not_null(dims, "dims"));
    if (shape_count > 0) CTXGEN_CHECK(not_null(shapes, "shapes"));
    const auto check_size = [](std::int64_t size, const char* name) -> Status {
      if (size >= 0) return {};
      return fail(ErrorCode::kInvalidArgument, "\"{}\": size {} is negative", name, size);
    };
    for (std::size_t i = 0; i < dim_count; ++i) {
      CTXGEN_CHECK(not_null(dims[i].name, "a dimension's name"));
      CTXGEN_CHECK(check_size(dims[i].size, dims[i].name));
      profile.symbols.emplace_back(dims[i].name, dims[i].size);
    }
    for (std::size_t i = 0; i < shape_count; ++i) {
      const ctxgen_shape& shape = shapes[i];
      CTXGEN_CHECK(not_null(shape.input, "an input's name"));
      if (shape.rank > 0) CTXGEN_CHECK(not_null(shape.dims, "a shape's dims"));
      if (shape.rank > ctxgen::kMaxRank)
        return fail(ErrorCode::kInvalidArgument, "input \"{}\": rank {} is above {}", shape.input,
                    shape.rank, ctxgen::kMaxRank);
      ctxgen::Dims sizes;
      for (std::size_t d = 0; d < shape.rank; ++d) {
        CTXGEN_CHECK(check_size(shape.dims[d], shape.input));
        sizes.push_back(shape.dims[d]);
      }
      profile.inputs.emplace_back(shape.input, sizes);
    }
    o.options.profiles.push_back(std::move(profile));
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_add_fixed_dim(ctxgen_compile_options* options,
                                                    const char* name, int64_t size) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(name, "name"));
    o.options.fix_dims.emplace_back(name, size);
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_add_input_name(ctxgen_compile_options* options,
                                                     const char* name) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(name, "name"));
    o.options.input_names.emplace_back(name);
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_add_output_name(ctxgen_compile_options* options,
                                                      const char* name) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(name, "name"));
    o.options.output_names.emplace_back(name);
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_freeze_initializers(ctxgen_compile_options* options,
                                                              int freeze) {
  return set_switch(options, freeze, &CompileOptions::freeze_initializers);
}

ctxgen_status* ctxgen_compile_options_set_subgraphs(ctxgen_compile_options* options,
                                                    int subgraphs) {
  return set_switch(options, subgraphs, &CompileOptions::subgraphs);
}

ctxgen_status* ctxgen_compile_options_set_graph_optimization(ctxgen_compile_options* options,
                                                             int level) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    o.options.graph_optimization = CTXGEN_TRY(level_of(level));
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_flags(ctxgen_compile_options* options, uint32_t flags) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    constexpr std::uint32_t kKnown =
        CTXGEN_ERROR_IF_NO_NODES_COMPILED | CTXGEN_ERROR_IF_OUTPUT_EXISTS;
    if ((flags & ~kKnown) != 0)
      return fail(ErrorCode::kInvalidArgument, "flags {:#x}: {:#x} is not known", flags,
                  flags & ~kKnown);
    o.options.require_compiled = (flags & CTXGEN_ERROR_IF_NO_NODES_COMPILED) != 0;
    o.options.no_clobber = (flags & CTXGEN_ERROR_IF_OUTPUT_EXISTS) != 0;
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_strict(ctxgen_compile_options* options, int strict) {
  return set_switch(options, strict, &CompileOptions::strict);
}

ctxgen_status* ctxgen_compile_options_set_require_runnable(ctxgen_compile_options* options,
                                                           int require) {
  return set_switch(options, require, &CompileOptions::require_runnable);
}

ctxgen_status* ctxgen_compile_options_set_threads(ctxgen_compile_options* options, int threads) {
  return set_count(options, threads, "threads", &CompileOptions::threads);
}

ctxgen_status* ctxgen_compile_options_set_jobs(ctxgen_compile_options* options, int jobs) {
  return set_count(options, jobs, "jobs", &CompileOptions::jobs);
}

ctxgen_status* ctxgen_compile_options_set_force(ctxgen_compile_options* options, int force) {
  return set_switch(options, force, &CompileOptions::force);
}

ctxgen_status* ctxgen_compile_options_set_keep_unchanged(ctxgen_compile_options* options,
                                                         int keep) {
  return set_switch(options, keep, &CompileOptions::keep_unchanged);
}

ctxgen_status* ctxgen_compile_options_set_dry_run(ctxgen_compile_options* options, int dry_run) {
  return set_switch(options, dry_run, &CompileOptions::dry_run);
}

ctxgen_status* ctxgen_compile_options_set_compression(ctxgen_compile_options* options, int level) {
  return set_count(options, level, "compression level", &CompileOptions::compress_level,
                   ctxgen::kMaxCompressLevel);
}

ctxgen_status* ctxgen_compile_options_set_portable(ctxgen_compile_options* options, int portable) {
  return set_switch(options, portable, &CompileOptions::portable);
}

ctxgen_status* ctxgen_compile_options_set_isa(ctxgen_compile_options* options, const char* isa) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(isa, "isa"));
    if (*isa == '\0') return fail(ErrorCode::kInvalidArgument, "instruction set: empty name");
    o.options.isas = {isa};
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_like(ctxgen_compile_options* options, const char* path) {
  return set_path(options, path, "path", &CompileOptions::like);
}

ctxgen_status* ctxgen_compile_options_set_append(ctxgen_compile_options* options,
                                                 const char* path) {
  return set_path(options, path, "path", &CompileOptions::append);
}

ctxgen_status* ctxgen_compile_options_set_cache(ctxgen_compile_options* options, const char* folder,
                                                uint64_t max_bytes) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(folder, "folder"));
    o.options.cache_dir = folder;
    o.options.cache_max_bytes = max_bytes > 0 ? max_bytes : ctxgen::kDefaultCacheBytes;
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_remote_cache(ctxgen_compile_options* options,
                                                       const char* url, const char* headers_file,
                                                       int timeout_seconds) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    CTXGEN_CHECK(not_null(url, "url"));
    if (timeout_seconds < 0)
      return fail(ErrorCode::kInvalidArgument, "timeout: {} seconds", timeout_seconds);
    o.options.cache_url = url;
    o.options.cache_headers = headers_file == nullptr ? "" : headers_file;
    o.options.cache_timeout_seconds =
        timeout_seconds > 0 ? timeout_seconds : ctxgen::kDefaultCacheSeconds;
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_weight_memory(ctxgen_compile_options* options,
                                                        uint64_t bytes) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    o.options.weight_memory_bytes = bytes;
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_progress_function(ctxgen_compile_options* options,
                                                            ctxgen_progress_function function,
                                                            void* user) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    o.options.progress = nullptr;
    if (function == nullptr) return {};
    o.options.progress = [function, user](ctxgen::CompileStage stage, double fraction) {
      static constexpr const char* kNames[] = {"import",    "check",   "infer",   "fold",
                                               "partition", "compile", "rewrite", "write"};
      function(user, kNames[static_cast<std::size_t>(stage)], fraction);
    };
    return {};
  });
}

ctxgen_status* ctxgen_compile_options_set_cancel_function(ctxgen_compile_options* options,
                                                          ctxgen_cancel_function function,
                                                          void* user) {
  return change_options(options, [&](ctxgen_compile_options& o) -> Status {
    o.options.cancelled = nullptr;
    if (function != nullptr) o.options.cancelled = [function, user] { return function(user) != 0; };
    return {};
  });
}

}  // extern "C"
