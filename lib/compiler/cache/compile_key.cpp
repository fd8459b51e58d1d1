#include "cache/compile_key.h"

#include <format>
#include <map>
#include <utility>

#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/partition/provider.h"

namespace ctxgen {
namespace {

/// Raised when the same request comes to mean other bytes within one release: an output of before is
/// then never taken for current.
constexpr std::uint64_t kRevision = 3;

class KeyHasher {
 public:
  void add(std::string_view text) { hasher_.add(text); }
  void add(const char* text) { hasher_.add(std::string_view(text)); }
  void add(bool flag) { hasher_.add(std::uint64_t{flag ? 1U : 0U}); }
  void add(std::uint64_t number) { hasher_.add(number); }
  void add(std::int64_t number) { hasher_.add(static_cast<std::uint64_t>(number)); }
  void add_content(const Blob& blob) {
    const auto [at, added] =
        known_.try_emplace({blob.bytes.data(), blob.bytes.size()}, Hash128{});
    if (added) at->second = hash_bytes(blob.bytes);  // a file of several models is read once
    hasher_.add(std::uint64_t{blob.bytes.size()});
    hasher_.add(at->second.high);
    hasher_.add(at->second.low);
  }
  template <class List, class AddItem>
  void add_list(const List& list, AddItem add_item) {
    hasher_.add(std::uint64_t{list.size()});
    for (const auto& item : list) add_item(item);
  }
  [[nodiscard]] Hash128 finish() const { return hasher_.finish(); }

 private:
  Hasher hasher_;
  std::map<std::pair<const std::byte*, std::size_t>, Hash128> known_;
};

void add_versions(KeyHasher& key) {
  key.add("ctxgen compile key");
  key.add(kRevision);
  key.add(CTXGEN_VERSION_STRING);
  key.add(std::uint64_t{kFormatMajor});
  key.add(std::uint64_t{kFormatMinor});
  key.add(onnx_version());
}

void add_model(KeyHasher& key, const ImportedModel& imported) {
  key.add(imported.name);
  key.add_content(imported.model.source);
  // The model says where each stands; only the content is news.
  key.add_list(imported.external_files,
               [&](const FileRead& file) { key.add_content(file.bytes); });
  key.add_list(imported.foreign_bins, [&](const auto& bin) {
    key.add(bin.first);
    key.add_content(bin.second.bytes);
  });
}

/// The list of providers as it was understood: names in another spelling are the same request.
void add_providers(KeyHasher& key, const ProviderList& providers, const CompileTarget& target,
                   int threads) {
  std::size_t index = 0;
  key.add_list(providers.all(), [&](const Provider* provider) {
    key.add(provider->name());
    key.add(provider->source());
    const ProgramLoader* loader = provider->loader();
    key.add(loader == nullptr ? std::string()
                              : loader->fingerprint_of(target, threads).value_or(std::string()));
    key.add_list(providers.options(index++), [&](const auto& option) {
      key.add(option.first);
      key.add(option.second);
    });
  });
}

void add_profile(KeyHasher& key, const ShapeProfile& profile) {
  const auto& [symbols, inputs] = profile;
  key.add_list(symbols, [&](const auto& symbol) {
    key.add(symbol.first);
    key.add(symbol.second);
  });
  key.add_list(inputs, [&](const auto& input) {
    key.add(input.first);
    key.add_list(input.second, [&](std::int64_t dim) { key.add(dim); });
  });
}

/// Every field of CompileOptions, in its order. The binding takes them all, so a new field does not
/// compile until it is put here: into the key, or under those that change no byte, with the reason.
void add_options(KeyHasher& key, const CompileOptions& options) {
  const auto& [providers, extra_providers, provider_options, embed, node_prefix, profiles, fix_dims,
               freeze_initializers, graph_optimization, subgraphs, strict, require_compiled,
               require_runnable, no_clobber, force, keep_unchanged, dry_run, make_folder,
               disable_model_compile, fail_on_suboptimal,
               share_ep_contexts, stop_share_ep_contexts, context_file_path, external_data_folder,
               other_files, bin, append, weightless, external_initializers, external_threshold,
               initializer_location, compress_level, threads, portable, isas, start_variant, jobs,
               weight_memory_bytes, cache_dir, cache_max_bytes, progress, cancelled] = options;
  key.add(embed);
  key.add(node_prefix);
  key.add_list(profiles, [&](const ShapeProfile& profile) { add_profile(key, profile); });
  key.add_list(fix_dims, [&](const auto& dim) {
    key.add(dim.first);
    key.add(dim.second);
  });
  key.add(freeze_initializers);
  key.add(static_cast<std::uint64_t>(graph_optimization));
  key.add(subgraphs);
  // These decide whether there are outputs at all: what was made without them need not satisfy them.
  key.add(strict);
  key.add(require_compiled);
  key.add(require_runnable);
  key.add(disable_model_compile);
  key.add(fail_on_suboptimal);
  key.add(external_initializers);
  if (!external_initializers.empty())
    key.add(external_threshold.value_or(kDefaultExternalThreshold));

  // What a function answers is not known: compile_key() refuses it, and no other request has this.
  key.add(static_cast<bool>(initializer_location));
  key.add(static_cast<std::uint64_t>(weightless));  // its files are among the bin_references

  key.add(std::int64_t{compress_level});

  (void)portable, (void)isas, (void)start_variant;  // in the fingerprints
  (void)append;  // bin_references; what was in that bin goes into no model, and nothing goes out of it
  (void)providers, (void)extra_providers, (void)provider_options;  // add_providers
  (void)threads;               // in the fingerprints, where a provider depends on it
  // About what is there.
  (void)no_clobber, (void)force, (void)keep_unchanged, (void)dry_run, (void)make_folder;
  (void)external_data_folder;  // add_model has what was read from it
  (void)bin, (void)context_file_path;                      // bin_references
  (void)other_files;           // the caller's
  (void)share_ep_contexts, (void)stop_share_ep_contexts;   // only checked against the models
  (void)weight_memory_bytes, (void)cache_dir, (void)cache_max_bytes;  // where things lie meanwhile
  (void)jobs, (void)progress, (void)cancelled;
}

}  // namespace

KeyOfCompile key_of(std::span<const ImportedModel> models, const ProviderList& providers,
                    const CompileTarget& target, std::span<const std::string> bin_references,
                    const CompileOptions& options) {
  KeyHasher of_versions, of_models, of_target, of_options;
  add_versions(of_versions);
  of_models.add_list(models, [&](const ImportedModel& imported) { add_model(of_models, imported); });
  add_providers(of_target, providers, target, options.threads);
  of_options.add_list(bin_references, [&](const std::string& reference) { of_options.add(reference); });
  add_options(of_options, options);
  KeyOfCompile key;
  KeyHasher whole;
  for (const auto& [name, part] : {std::pair("models", of_models.finish()), {"options", of_options.finish()},
                                   {"target", of_target.finish()}, {"versions", of_versions.finish()}}) {
    whole.add(part.high);
    whole.add(part.low);
    key.parts += std::format("{}{}={}", key.parts.empty() ? "" : ";", name, part.hex().substr(0, 16));
  }
  key.hash = whole.finish();
  return key;
}

}  // namespace ctxgen
