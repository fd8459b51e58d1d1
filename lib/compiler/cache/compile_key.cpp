#include "cache/compile_key.h"

#include <algorithm>
#include <format>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ctxgen/base/version.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/partition/provider.h"

namespace ctxgen {
namespace {

/// Raised when the same request comes to mean other bytes within one release: an output of before is
/// then never taken for current.
constexpr std::uint64_t kRevision = 5;

class KeyHasher {
 public:
  explicit KeyHasher(Sha256* strong) : strong_(strong) {}
  void add(std::string_view text) {
    hasher_.add(text);
    if (strong_ != nullptr) strong_->add(text);
  }
  void add(const char* text) { add(std::string_view(text)); }
  void add(bool flag) { add(std::uint64_t{flag ? 1U : 0U}); }
  void add(std::uint64_t number) {
    hasher_.add(number);
    if (strong_ != nullptr) strong_->add(number);
  }
  void add(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  void add_content(const Blob& blob, FileHashes& files) {
    const Hash128 hash = files.of(blob);
    add(std::uint64_t{blob.bytes.size()});
    hasher_.add(hash.high);
    hasher_.add(hash.low);
    if (strong_ != nullptr) strong_->add(std::span<const std::byte>(files.strong_of(blob).bytes));
  }
  template <class List, class AddItem>
  void add_list(const List& list, AddItem add_item) {
    add(std::uint64_t{list.size()});
    for (const auto& item : list) add_item(item);
  }
  [[nodiscard]] Hash128 finish() const { return hasher_.finish(); }

 private:
  Hasher hasher_;
  Sha256* strong_;
};

void add_versions(KeyHasher& key) {
  key.add("ctxgen compile key");
  key.add(kRevision);
  key.add(CTXGEN_VERSION_STRING);
  key.add(std::uint64_t{kFormatMajor});
  key.add(std::uint64_t{kFormatMinor});
  key.add(onnx_version());
}

void add_model(KeyHasher& key, const ImportedModel& imported, FileHashes& files) {
  key.add(imported.name);
  key.add_content(imported.model.source, files);
  // The model says where each stands; only the content is news.
  key.add_list(imported.external_files,
               [&](const FileRead& file) { key.add_content(file.bytes, files); });
  key.add_list(imported.foreign_bins, [&](const auto& bin) {
    key.add(bin.first);
    key.add_content(bin.second.bytes, files);
  });
}

/// The list of providers as it was understood: names in another spelling are the same request.
void add_providers(KeyHasher& key, const ProviderList& providers, const CompileTarget& target) {
  std::size_t index = 0;
  key.add_list(providers.all(), [&](const Provider* provider) {
    key.add(provider->name());
    key.add(provider->source());
    const ProgramLoader* loader = provider->loader();
    key.add(loader == nullptr ? std::string()
                              : loader->fingerprint_of(target).value_or(std::string()));
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

void add_value(KeyHasher& key, bool value) { key.add(value); }
void add_value(KeyHasher& key, int value) { key.add(std::int64_t{value}); }
void add_value(KeyHasher& key, const std::string& value) { key.add(value); }
void add_value(KeyHasher& key, const std::optional<std::uint64_t>& threshold) {
  key.add(threshold.value_or(kDefaultExternalThreshold));
}
void add_value(KeyHasher& key, const std::vector<ShapeProfile>& profiles) {
  key.add_list(profiles, [&](const ShapeProfile& profile) { add_profile(key, profile); });
}
void add_value(KeyHasher& key, const std::vector<std::pair<std::string, std::int64_t>>& dims) {
  key.add_list(dims, [&](const auto& dim) {
    key.add(dim.first);
    key.add(dim.second);
  });
}
void add_value(KeyHasher& key, const std::vector<std::string>& names) {
  key.add_list(names, [&](const std::string& name) { key.add(name); });
}
void add_value(KeyHasher& key, const PrecisionBudget& budget) { key.add(budget.request); }
void add_value(KeyHasher& key, const PrecisionChoice& precision) {
  key.add_list(precision.table, [&](const OpChoice& choice) {
    key.add(choice.op);
    key.add(choice.choice);
  });
}
void add_value(KeyHasher& key, const TuningTable& tuning) {
  key.add_list(effect_of(tuning), [&](const std::string& line) { key.add(line); });
}
template <class T>
  requires std::is_enum_v<T>
void add_value(KeyHasher& key, T value) {
  key.add(static_cast<std::uint64_t>(value));
}
template <class Signature>
void add_value(KeyHasher& key, const std::function<Signature>& function) {
  key.add(static_cast<bool>(function));
}

/// What the table of options has as that part of the key.
void add_options(KeyHasher& key, const CompileOptions& options, InKey part) {
  const OptionSlot threshold = &CompileOptions::external_threshold;
  for (const OptionRow& row : option_rows()) {
    if (row.in_key != part) continue;
    if (row.slot == threshold && options.external_initializers.empty()) continue;
    std::visit(
        [&]([[maybe_unused]] auto slot) {
          if constexpr (requires { add_value(key, options.*slot); })
            add_value(key, options.*slot);
          else
            CTXGEN_ASSERT(false);  // the key has no form for this type
        },
        row.slot);
  }
}

}  // namespace

Hash128 FileHashes::of(const Blob& file) {
  const auto [at, added] = known_.try_emplace({file.bytes.data(), file.bytes.size()}, Hash128{});
  if (added) at->second = hash_bytes(file.bytes);
  return at->second;
}

Sha256Digest FileHashes::strong_of(const Blob& file) {
  const auto [at, added] =
      strong_known_.try_emplace({file.bytes.data(), file.bytes.size()}, Sha256Digest{});
  if (added) at->second = sha256_of(file.bytes);
  return at->second;
}

ModelKey key_of(const ImportedModel& model, const ProviderList& providers,
                const CompileTarget& target, std::span<const std::string> source_files,
                const CompileOptions& options, FileHashes& files) {
  Sha256* const strong = files.strong();
  KeyHasher of_versions(strong), of_model(strong), of_target(strong), of_options(strong);
  add_versions(of_versions);
  add_model(of_model, model, files);
  add_providers(of_target, providers, target);
  of_options.add_list(source_files, [&](const std::string& file) { of_options.add(file); });
  of_options.add(!options.external_initializers.empty());
  add_options(of_options, options, InKey::kYes);
  ModelKey key;
  Hasher whole;
  for (const auto& [name, part] : {std::pair("model", of_model.finish()),
                                   {"options", of_options.finish()},
                                   {"target", of_target.finish()},
                                   {"versions", of_versions.finish()}}) {
    whole.add(part.high);
    whole.add(part.low);
    key.parts +=
        std::format("{}{}={}", key.parts.empty() ? "" : ";", name, part.hex().substr(0, 16));
  }
  key.hash = whole.finish();
  return key;
}

std::optional<std::string_view> key_part(std::string_view parts, std::string_view name) {
  while (!parts.empty()) {
    const std::string_view part = parts.substr(0, parts.find(';'));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('='))
      return part.substr(name.size() + 1);
    parts.remove_prefix(std::min(part.size() + 1, parts.size()));
  }
  return std::nullopt;
}

Hash128 key_of_group(std::span<const ModelKey> models, std::span<const std::string> bin_references,
                     const CompileOptions& options, FileHashes& files) {
  KeyHasher whole(files.strong());
  whole.add_list(models, [&](const ModelKey& model) {
    whole.add(model.hash.high);
    whole.add(model.hash.low);
  });
  whole.add_list(bin_references, [&](const std::string& reference) { whole.add(reference); });
  add_options(whole, options, InKey::kOfForm);
  return whole.finish();
}

}  // namespace ctxgen
