#include "ctxgen/compiler/regroup.h"

#include <algorithm>
#include <chrono>
#include <format>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/onnx_lite/content_hash.h"
#include "ctxgen/partition/provider.h"

#include "output/bin_users.h"
#include "output/file_uses.h"
#include "output/output_files.h"
#include "output/write_outputs.h"
#include "regroup/kept_model.h"
#include "regroup/merged_bin.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using How = FileUse::How;

/// What of it outputs are checked and written by.
CompileOptions compile_options(const RegroupOptions& options) {
  CompileOptions result = options_named(options.names);
  result.embed = options.embed;
  result.bin = options.bin;
  result.external_initializers = options.external_initializers;
  result.no_clobber = options.no_clobber;
  result.force = options.force;
  result.keep_unchanged = options.keep_unchanged;
  result.dry_run = options.dry_run;
  result.make_folder = options.make_folder;
  result.other_files = options.other_files;
  result.cancelled = options.cancelled;
  return result;
}

struct KeyPart {
  std::string_view name, meaning;
};
constexpr KeyPart kCommonParts[] = {
    {"options", "options"},
    {"target", "a target (providers, their options, instruction sets)"},
    {"versions", "versions (ctxgen, its format, onnx)"},
};

/// One run of regroup().
class Regrouping {
 public:
  Regrouping(const std::vector<fs::path>& inputs, const std::vector<fs::path>& outputs,
             ProviderList providers, CompileOptions options)
      : inputs_(inputs),
        outputs_(outputs),
        providers_(std::move(providers)),
        options_(std::move(options)),
        bins_(providers_.all().size()),
        contents_(providers_.all().size()) {}

  Result<RegroupReport> run() {
    CTXGEN_CHECK(check_arguments());
    CTXGEN_CHECK(read());
    CTXGEN_CHECK(check_alike());
    name_external_file();
    const std::vector<FileUse> uses = file_uses();
    CTXGEN_CHECK(check_uses(uses));
    OutputFolder folder;
    CTXGEN_CHECK(folder.prepare(outputs_.front().parent_path(), options_));
    const bool new_folder = options_.make_folder && options_.dry_run;
    if (!options_.keep_unchanged)
      CTXGEN_CHECK(
          check_all_writable(uses, new_folder ? outputs_.front().parent_path() : fs::path()));
    CTXGEN_CHECK(gather_programs());
    CTXGEN_CHECK(check_users());
    CTXGEN_CHECK(change_models());
    CTXGEN_CHECK(write());
    return std::move(report_);
  }

 private:
  [[nodiscard]] Status check_cancelled() const {
    if (options_.cancelled && options_.cancelled())
      return fail(ErrorCode::kCancelled, "interrupted");
    return {};
  }
  [[nodiscard]] std::string_view name(std::size_t p) const { return providers_.all()[p]->name(); }
  [[nodiscard]] fs::path bin_path(std::size_t p) const {
    return ctxgen::bin_path(outputs_, options_, name(p));
  }
  [[nodiscard]] fs::path external_path() const {
    return outputs_.front().parent_path() / options_.external_initializers;
  }

  Status check_arguments() const {
    if (inputs_.empty() || inputs_.size() != outputs_.size())
      return fail(ErrorCode::kInvalidArgument, "{} models and {} outputs", inputs_.size(),
                  outputs_.size());
    if (options_.embed && inputs_.size() > 1)
      return fail(ErrorCode::kInvalidArgument,
                  "{} models share a context binary, which cannot be inside one of them",
                  inputs_.size());
    if (options_.embed && !options_.bin.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "the context binary goes into the model, not to \"{}\"", options_.bin.string());
    for (const fs::path& output : outputs_) {
      if (output.filename().empty() || is_stream(output))
        return fail(ErrorCode::kInvalidArgument, "output \"{}\" is not the name of a file",
                    output.string());
      if (options_.no_clobber) CTXGEN_CHECK(refuse_existing(output, options_));
    }
    (void)CTXGEN_TRY(shared_bin_reference(outputs_, outputs_.front()));  // one folder
    return {};
  }

  Status read() {
    const std::shared_ptr<Workspace> workspace = Workspace::join();
    for (const fs::path& input : inputs_) {
      CTXGEN_CHECK(check_cancelled());
      models_.push_back(CTXGEN_TRY(read_kept_model(input, providers_, *workspace)));
    }
    return {};
  }

  /// What one compile has in common for all of its models.
  Status check_alike() const {
    const KeptModel& first = models_.front();
    for (const KeptModel& model : std::span(models_).subspan(1))
      for (const auto& [part, meaning] : kCommonParts) {
        const auto found = key_part(model.key_parts, part);
        const auto expected = key_part(first.key_parts, part);
        if (found == expected) continue;
        const bool versions = part != std::string_view("options");
        return fail(
            versions ? ErrorCode::kVersionMismatch : ErrorCode::kInvalidArgument,
            "{} was compiled with other {} than {}, so no compile has both: found {}={}, expected {}",
            model.name, meaning, first.name, part, found.value_or("none"),
            expected.value_or("none"));
      }
    return {};
  }

  void name_external_file() {
    for (const KeptModel& model : models_) {
      if (!options_.external_initializers.empty()) return;
      const std::string& entry = model.external_entry;
      options_.external_initializers = entry.substr(0, std::min(entry.rfind(':'), entry.size()));
    }
  }

  /// Everything that is read and written, once the models are known.
  std::vector<FileUse> file_uses() const {
    std::vector<FileUse> uses;
    const auto add = [&](How how, const fs::path& path, std::string role) {
      const auto same = [&](const FileUse& use) { return use.path == path && use.how == how; };
      if (how == How::kWritten || std::ranges::none_of(uses, same))
        uses.push_back({how, path, std::move(role)});
    };
    for (const fs::path& output : outputs_) add(How::kWritten, output, "the context model");
    for (std::size_t p = 0; p < bins_.size() && !options_.embed; ++p)
      if (uses_provider(p)) add(How::kWritten, bin_path(p), "the context binary");
    if (!options_.external_initializers.empty())
      add(How::kWritten, external_path(), "the file of external initializers");
    for (const auto& [path, file] : foreign_copies())
      add(How::kWritten, path, "the copy of a context binary of another provider");
    std::ranges::copy(options_.other_files, std::back_inserter(uses));
    for (const KeptModel& model : models_) {
      add(How::kRead, model.path, "the model");
      for (const fs::path& bin : model.bins) add(How::kRead, bin, "a context binary");
      for (const FileRead& file : model.external_files)
        add(How::kRead, file.path, "external initializers");
      for (const auto& [name, file] : model.foreign_bins)
        add(How::kRead, file.path, "a context binary of another provider");
    }
    return uses;
  }

  [[nodiscard]] bool uses_provider(std::size_t p) const {
    return std::ranges::any_of(models_, [p](const KeptModel& model) {
      return std::ranges::contains(model.contexts, p, &KeptContext::provider);
    });
  }

  /// Bins of other providers that are not in their place already, once each.
  [[nodiscard]] std::vector<std::pair<fs::path, const FileRead*>> foreign_copies() const {
    std::vector<std::pair<fs::path, const FileRead*>> copies;
    for (const KeptModel& model : models_)
      for (const auto& [name, file] : model.foreign_bins) {
        fs::path path = outputs_.front().parent_path() / name;
        const auto there = std::ranges::find(copies, path, &decltype(copies)::value_type::first);
        std::error_code ignored;
        if (there != copies.end() && fs::equivalent(there->second->path, file.path, ignored))
          continue;
        if (!fs::equivalent(path, file.path, ignored)) copies.emplace_back(std::move(path), &file);
      }
    return copies;
  }

  Status check_uses(const std::vector<FileUse>& uses) const {
    CTXGEN_CHECK(check_file_uses(uses));
    const fs::path folder = outputs_.front().parent_path();
    for (const FileUse& use : uses) {
      const bool is_model = std::ranges::contains(outputs_, use.path);
      const bool is_others = std::ranges::contains(options_.other_files, use.path, &FileUse::path);
      if (use.how != How::kWritten || is_model || is_others) continue;
      CTXGEN_CHECK(check_found_from(folder, use));
      if (options_.no_clobber) CTXGEN_CHECK(refuse_existing(use.path, options_));
    }
    return {};
  }

  /// The programs of all models in order, then those for each further instruction set: as a compile has them.
  Status gather_programs() {
    for (const KeptModel& model : models_)
      for (const KeptContext& context : model.contexts) {
        CTXGEN_CHECK(check_cancelled());
        CTXGEN_CHECK(bins_[context.provider].add(context.reader, context.program, model.name));
      }
    for (std::size_t p = 0; p < bins_.size(); ++p) {
      const std::vector<std::string> isas = bins_[p].isas();
      for (std::size_t v = 1; v < isas.size(); ++v) CTXGEN_CHECK(gather_variants(p, isas[v]));
      if (bins_[p].empty()) continue;
      report_.programs_shared += bins_[p].programs_shared();
      report_.bytes_added += bins_[p].bytes_added();
      report_.bytes_stored += bins_[p].bytes_stored();
      contents_[p] = bins_[p].finish(*providers_.all()[p]->loader());
      report_.programs += contents_[p]->programs.size();
    }
    return {};
  }

  Status gather_variants(std::size_t p, std::string_view isa) {
    for (const KeptModel& model : models_)
      for (const KeptContext& context : model.contexts) {
        if (context.provider != p) continue;
        for (const std::size_t variant : context.reader->variants(context.program))
          if (variant != context.program && context.reader->programs()[variant].isa == isa)
            CTXGEN_CHECK(bins_[p].add(context.reader, variant, model.name));
      }
    return {};
  }

  Status check_users() const {
    return check_bin_users(find_bin_users(providers_, outputs_, outputs_, options_), contents_,
                           options_);
  }

  /// EPContext nodes and metadata say where everything is now.
  Status change_models() {
    for (std::size_t p = 0; p < contents_.size(); ++p) {
      references_.emplace_back();
      if (!contents_[p]) continue;
      if (options_.embed)
        payload_of_.emplace(p, CTXGEN_TRY(embedded(*contents_[p])));
      else
        references_[p] = CTXGEN_TRY(shared_bin_reference(outputs_, bin_path(p)));
    }
    for (KeptModel& model : models_) {
      CTXGEN_CHECK(place_contexts(model));
      CTXGEN_CHECK(keep_initializers(model, options_.external_initializers, external_));
    }
    for (KeptModel& model : models_) {
      if (!model.rewrite.external.empty())
        model.rewrite.metadata.emplace_back(
            std::string(kExternalFileKey),
            std::format("{}:{}", options_.external_initializers, external_.hash().hex()));
      const Hash128 hash = CTXGEN_TRY(content_hash(*model.model, model.rewrite));
      model.rewrite.metadata.emplace_back(std::string(kContentHashKey), hash.hex());
    }
    return {};
  }

  static Result<Blob> embedded(const ContextContent& content) {
    const std::uint64_t size = CTXGEN_TRY(context_size(content));
    CTXGEN_CHECK(check_model_size(size, size));
    return write_to_memory([&](const ByteSink& sink) { return write_context(content, sink); },
                           size);
  }

  Status place_contexts(KeptModel& model) const {
    for (KeptContext& context : model.contexts) {
      EpContextAttributes& attributes = context.node->attributes;
      const bool primary = attributes.main_context == 1;
      attributes.embed_mode = options_.embed ? 1 : 0;
      attributes.ep_cache_context = primary ? references_[context.provider] : std::string();
      context.node->payload = primary && options_.embed ? payload_of_.at(context.provider) : Blob();
    }
    if (!options_.embed) return {};
    for (const KeptContext& context : model.contexts)
      if (in_body(model, context))
        return fail(
            ErrorCode::kInvalidArgument,
            "{}: {} is in the body of a node: a context binary cannot be inside such a model",
            model.name, context.where);
    return {};
  }

  static bool in_body(const KeptModel& model, const KeptContext& context) {
    const std::vector<EpContextNode>& main = model.rewrite.ep_contexts;
    return std::ranges::none_of(main,
                                [&](const EpContextNode& node) { return &node == context.node; });
  }

  /// Bins first, models last, as a compile does.
  Result<std::vector<OutputFile>> plan() {
    std::vector<OutputFile> files;
    const auto add = [&](fs::path path, FileReport::Kind kind, std::uint64_t bytes, auto write) {
      files.push_back({std::move(path), kind, bytes, [this, write](const ByteSink& sink) {
                         return write([&](std::span<const std::byte> part) -> Status {
                           CTXGEN_CHECK(check_cancelled());
                           return sink(part);
                         });
                       }});
    };
    for (std::size_t p = 0; p < contents_.size(); ++p) {
      if (!contents_[p] || options_.embed) continue;
      const ContextContent& content = *contents_[p];
      CompileReport::Bin& bin = report_.bins.emplace_back();
      bin.name = bin_path(p).filename().string();
      bin.bytes = CTXGEN_TRY(context_size(content));
      bin.blobs = content.blobs.size();
      bin.weight_bytes = bins_[p].bytes_stored();
      add(bin_path(p), FileReport::Kind::kBin, bin.bytes,
          [&content](const ByteSink& sink) { return write_context(content, sink); });
    }
    if (!options_.external_initializers.empty())
      add(external_path(), FileReport::Kind::kExternalInitializers, external_.size(),
          [this](const ByteSink& sink) { return external_.write(sink); });
    for (const auto& [path, file] : foreign_copies())
      add(path, FileReport::Kind::kForeignBin, file->bytes.bytes.size(),
          [file](const ByteSink& sink) { return sink(file->bytes.bytes); });
    for (std::size_t m = 0; m < models_.size(); ++m) {
      const KeptModel& model = models_[m];
      RegroupReport::Model& report = report_.models.emplace_back();
      report.input_name = model.path.filename().string();
      report.output_name = outputs_[m].filename().string();
      report.partitions = model.contexts.size();
      report.model_bytes = CTXGEN_TRY(model_size(*model.model, model.rewrite));
      add(outputs_[m], FileReport::Kind::kModel, report.model_bytes,
          [&model](const ByteSink& sink) {
            return write_model(*model.model, model.rewrite, sink);
          });
    }
    return files;
  }

  Status write() {
    const std::vector<OutputFile> files = CTXGEN_TRY(plan());
    report_.files = CTXGEN_TRY(write_files(files, options_));
    report_.dry_run = options_.dry_run;
    for (const FileUse& use : file_uses())
      if (use.how == How::kRead) report_.files_read.push_back(use.path);
    return {};
  }

  const std::vector<fs::path>& inputs_;
  const std::vector<fs::path>& outputs_;
  ProviderList providers_;
  CompileOptions options_;
  std::vector<KeptModel> models_;
  std::vector<MergedBin> bins_;                          // by provider
  std::vector<std::optional<ContextContent>> contents_;  // by provider
  std::vector<std::string> references_;                  // by provider
  std::map<std::size_t, Blob> payload_of_;               // by provider
  ExternalFileBuilder external_;
  RegroupReport report_;
};

}  // namespace

Result<RegroupReport> regroup(const std::vector<fs::path>& models,
                              const std::vector<fs::path>& outputs, const RegroupOptions& options) {
  return at_boundary("regrouping", [&]() -> Result<RegroupReport> {
    const auto start = std::chrono::steady_clock::now();
    CompileOptions compile = compile_options(options);
    ProviderList providers = CTXGEN_TRY(ProviderList::make(compile));
    RegroupReport report =
        CTXGEN_TRY(Regrouping(models, outputs, std::move(providers), std::move(compile)).run());
    report.seconds = seconds_since(start);
    return report;
  });
}

}  // namespace ctxgen
