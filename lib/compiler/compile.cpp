#include "ctxgen/compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <format>
#include <set>
#include <thread>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/file.h"
#include "ctxgen/compiler/context_builder.h"
#include "ctxgen/partition/partitioner.h"
#include "ctxgen/partition/rewrite.h"
#include "external_initializers.h"
#include "names.h"
#include "output.h"
#include "prepare.h"
#include "report.h"

namespace ctxgen {
namespace {

/// One compile, from inputs to the bytes of every output. Stages in order: prepare (import, check,
/// infer, fold, partition), compile and store, rewrite; the callers write.
class Compilation {
 public:
  /// `bin_name(p)`: how context models name the bin of provider p.
  using BinName = std::function<Result<std::string>(std::string_view provider)>;

  Compilation(const CompileOptions& options, ProviderList providers)
      : options_(options), providers_(std::move(providers)),
        builder_(providers_.all(), options.threads) {}

  Status prepare(const std::vector<ModelInput>& inputs) {
    for (std::size_t m = 0; m < inputs.size(); ++m) {
      const double share = 1.0 / static_cast<double>(inputs.size());
      const auto stage = [&, m](CompileStage s) { return enter(s, static_cast<double>(m) * share); };
      models_.push_back(CTXGEN_TRY(prepare_model(inputs[m], options_, providers_, stage)));
    }
    return {};
  }

  Status compile() {
    for (PreparedModel& prepared : models_) {
      CTXGEN_CHECK(enter(CompileStage::kCompile, static_cast<double>(built_.size()) /
                                                     static_cast<double>(models_.size())));
      built_.push_back(CTXGEN_TRY(build(prepared)));
      report_.models.push_back(report_model(prepared, providers_, built_.back()));
      CTXGEN_CHECK(check_requirements(report_.models.back(), options_));
      if (built_.back().empty()) {
        if (options_.require_compiled)
          return fail(ErrorCode::kNotSatisfied, "{}: no node was compiled", prepared.name);
        report_.models.back().warnings.push_back(
            "nothing was compiled: the output is a plain model without a context binary");
      }
    }
    for (std::size_t p = 0; p < providers_.all().size(); ++p)
      contents_.push_back(CTXGEN_TRY(builder_.content(p)));
    report_.bytes_added = builder_.weight_bytes_added();
    for (const auto& content : contents_)
      if (content)
        for (const Blob& blob : content->blobs) report_.bytes_stored += blob.bytes.size();
    return {};
  }

  Status rewrite(const BinName& bin_name) {
    CTXGEN_CHECK(enter(CompileStage::kRewrite, 0));
    for (std::size_t m = 0; m < models_.size(); ++m) {
      rewrites_.push_back(CTXGEN_TRY(rewrite_model(m, bin_name)));
      CTXGEN_CHECK(move_initializers(models_[m].model, options_, rewrites_[m], external_));
    }
    name_external_file(options_, external_, rewrites_);
    for (std::size_t m = 0; m < models_.size(); ++m)
      report_.models[m].model_bytes = CTXGEN_TRY(model_size(models_[m].model, rewrites_[m]));
    return report_external();
  }

  Status enter(CompileStage stage, double fraction) const {
    if (options_.cancelled && options_.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    if (options_.progress) options_.progress(stage, fraction);
    return {};
  }

  [[nodiscard]] const std::vector<PreparedModel>& models() const { return models_; }
  [[nodiscard]] const ModelRewrite& rewrite_of(std::size_t m) const { return rewrites_[m]; }
  /// Empty where no initializer was moved.
  [[nodiscard]] const ExternalFileBuilder& external() const { return external_; }
  [[nodiscard]] const ProviderList& providers() const { return providers_; }
  [[nodiscard]] CompileReport& report() { return report_; }
  /// By provider; nothing where no program was made, or where it is embedded in the models.
  [[nodiscard]] const std::vector<std::optional<ContextContent>>& contents() const {
    return contents_;
  }

 private:
  /// Programs of all partitions. What a provider claimed and then cannot compile goes to the next
  /// one: the nodes are left out and the graph is partitioned again.
  Result<std::vector<BuiltPartition>> build(PreparedModel& prepared) {
    const auto options = provider_options(prepared);
    std::vector<Exclusion> exclusions;
    while (true) {
      auto built = builder_.add_model(prepared.model, prepared.model.graph, prepared.assignment,
                                      options, options_.node_prefix);
      if (built) return built;
      const GraphView view(prepared.model, prepared.model.graph);
      const std::size_t before = exclusions.size();
      for (std::size_t p = 0; p < providers_.all().size(); ++p)
        for (Rejection& rejection : providers_.all()[p]->refused_after_all(
                 view, prepared.assignment.partitions[p], options[p]))
          exclusions.push_back({p, std::move(rejection)});
      if (exclusions.size() == before) return built;
      prepared.assignment = CTXGEN_TRY(partition_graph(prepared.model, prepared.model.graph,
                                                       providers_.all(), exclusions));
    }
  }

  std::vector<ProviderCompileOptions> provider_options(const PreparedModel& prepared) const {
    std::vector<ProviderCompileOptions> all;
    for (std::size_t p = 0; p < providers_.all().size(); ++p) {
      ProviderCompileOptions one;
      one.profiles = options_.profiles;
      one.threads = options_.threads;
      one.jobs = options_.jobs;
      one.profile_dims = [&prepared](std::size_t profile, ValueId value) -> std::optional<Dims> {
        return prepared.profile_dims[profile][value.index];
      };
      const auto given = providers_.options(p);
      one.provider_options.assign(given.begin(), given.end());
      all.push_back(std::move(one));
    }
    return all;
  }

  Result<ModelRewrite> rewrite_model(std::size_t m, const BinName& bin_name) {
    PreparedModel& prepared = models_[m];
    std::vector<CompiledNode> nodes;
    std::set<std::size_t> with_primary;
    std::vector<std::pair<std::string, std::string>> metadata;
    for (const BuiltPartition& built : built_[m]) {
      const std::size_t p = built.provider;
      CompiledNode node;
      node.partition = &prepared.assignment.partitions[p][built.partition];
      node.attributes = built.attributes;
      node.attributes.onnx_model_filename = prepared.name;
      node.attributes.embed_mode = options_.embed ? 1 : 0;
      node.attributes.main_context = with_primary.insert(p).second ? 1 : 0;
      if (node.attributes.main_context == 1) {
        metadata.emplace_back(kCompatibilityKeyPrefix + std::string(providers_.all()[p]->source()),
                              contents_[p]->fingerprint);
        if (options_.embed)
          node.payload = CTXGEN_TRY(write_to_memory(
              [&](const ByteSink& sink) { return write_context(*contents_[p], sink); }));
        else
          node.attributes.ep_cache_context = CTXGEN_TRY(bin_name(providers_.all()[p]->name()));
      }
      nodes.push_back(std::move(node));
    }
    return plan_rewrite(prepared.model, prepared.assignment, nodes, metadata,
                        options_.freeze_initializers);
  }

  Status report_external() {
    if (external_.empty()) return {};
    CompileReport::ExternalFile& file = report_.external.emplace();
    file.name = options_.external_initializers;
    file.bytes = external_.size();
    for (const ModelRewrite& rewrite : rewrites_) file.tensors += rewrite.external.size();
    return {};
  }

  const CompileOptions& options_;
  ProviderList providers_;
  ContextBuilder builder_;
  std::vector<PreparedModel> models_;
  std::vector<std::vector<BuiltPartition>> built_;
  std::vector<std::optional<ContextContent>> contents_;
  std::vector<ModelRewrite> rewrites_;
  ExternalFileBuilder external_;
  CompileReport report_;
};

Status add_bin_report(CompileReport& report, std::string name, const ContextContent& content) {
  CompileReport::Bin bin;
  bin.name = std::move(name);
  bin.bytes = CTXGEN_TRY(context_size(content));
  bin.blobs = content.blobs.size();
  for (const Blob& blob : content.blobs) bin.weight_bytes += blob.bytes.size();
  report.bins.push_back(std::move(bin));
  return {};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Contradictions that need no look at a model.
Status check_file_options(const std::vector<ModelInput>& inputs,
                          const std::vector<std::filesystem::path>& outputs,
                          const CompileOptions& options) {
  if (inputs.empty() || inputs.size() != outputs.size())
    return fail(ErrorCode::kInvalidArgument, "{} models and {} outputs", inputs.size(),
                outputs.size());
  if (options.embed && inputs.size() > 1)
    return fail(ErrorCode::kInvalidArgument, "a batch of models cannot be embedded: they share a bin");
  if (options.embed && !options.bin.empty())
    return fail(ErrorCode::kInvalidArgument, "an embedded context has no context binary to name");
  CTXGEN_CHECK(check_external_options(options));
  std::set<std::filesystem::path> seen;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto normal = std::filesystem::absolute(outputs[i]).lexically_normal();
    if (outputs[i].filename().empty())
      return fail(ErrorCode::kInvalidArgument, "output \"{}\" has no file name", outputs[i].string());
    if (!seen.insert(normal).second)
      return fail(ErrorCode::kInvalidArgument, "two models would be written to \"{}\"",
                  outputs[i].string());
    std::error_code ignored;
    for (const ModelInput& input : inputs)
      if (!input.path.empty() && std::filesystem::equivalent(input.path, outputs[i], ignored))
        return fail(ErrorCode::kInvalidArgument, "output \"{}\" is an input", outputs[i].string());
  }
  return {};
}

std::filesystem::path bin_path(const std::vector<std::filesystem::path>& outputs,
                               const CompileOptions& options, std::string_view provider) {
  if (!options.bin.empty()) return options.bin;
  return outputs.front().parent_path() /
         default_bin_name(outputs.front().filename().string(), provider);
}

Status refuse_existing(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    return fail(ErrorCode::kInvalidArgument, "\"{}\" exists already, and --no-clobber is given",
                path.string());
  return {};
}

/// Models in other folders would not find the file, and it must not be another output.
Status check_external_path(const std::filesystem::path& path, const std::vector<OutputFile>& files,
                           const std::vector<std::filesystem::path>& outputs,
                           const std::vector<ModelInput>& inputs) {
  std::error_code ignored;
  for (const ModelInput& input : inputs)
    if (!input.path.empty() && std::filesystem::equivalent(input.path, path, ignored))
      return fail(ErrorCode::kInvalidArgument, "external initializers \"{}\": that is an input",
                  path.string());
  for (const auto& output : outputs)
    if (output.parent_path() != path.parent_path())
      return fail(ErrorCode::kInvalidArgument,
                  "models that share external initializers must be written to one folder: \"{}\" "
                  "and \"{}\"", path.parent_path().string(), output.parent_path().string());
  if (std::ranges::find(outputs, path) != outputs.end() ||
      std::ranges::find(files, path, &OutputFile::path) != files.end())
    return fail(ErrorCode::kInvalidArgument,
                "external initializers \"{}\": another output has that name", path.string());
  return {};
}

/// The files of a finished compilation, bins first.
Result<std::vector<OutputFile>> plan_files(Compilation& work,
                                           const std::vector<ModelInput>& inputs,
                                           const std::vector<std::filesystem::path>& outputs,
                                           const CompileOptions& options) {
  std::vector<OutputFile> files;
  for (std::size_t p = 0; p < work.contents().size(); ++p) {
    const auto& content = work.contents()[p];
    if (!content || options.embed) continue;
    const auto path = bin_path(outputs, options, work.providers().all()[p]->name());
    if (std::ranges::find(files, path, &OutputFile::path) != files.end())
      return fail(ErrorCode::kInvalidArgument, "two providers would write the bin \"{}\"",
                  path.string());
    CTXGEN_CHECK(add_bin_report(work.report(), path.filename().string(), *content));
    files.push_back({path, [&content](const ByteSink& sink) { return write_context(*content, sink); }});
  }
  if (!work.external().empty()) {
    const auto path = outputs.front().parent_path() / options.external_initializers;
    CTXGEN_CHECK(check_external_path(path, files, outputs, inputs));
    files.push_back({path, [&work](const ByteSink& sink) { return work.external().write(sink); }});
  }
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    for (const auto& [name, bin] : work.models()[m].foreign_bins)
      files.push_back({outputs[m].parent_path() / name,
                       [&bin](const ByteSink& sink) { return sink(bin.bytes); }});
  }
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    work.report().models[m].output_name = outputs[m].filename().string();
    files.push_back({outputs[m], [&work, m](const ByteSink& sink) {
                       return write_model(work.models()[m].model, work.rewrite_of(m), sink);
                     }});
  }
  return files;
}

}  // namespace

Result<CompiledModel> compile_in_memory(const ModelInput& input, const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<CompiledModel> {
    const auto start = std::chrono::steady_clock::now();
    CTXGEN_CHECK(check_external_options(options));
    Compilation work(options, CTXGEN_TRY(ProviderList::make(options)));
    CTXGEN_CHECK(work.prepare({input}));
    CTXGEN_CHECK(work.compile());
    const std::string output = default_output_name(input.name);
    CTXGEN_CHECK(work.rewrite([&](std::string_view provider) -> Result<std::string> {
      return default_bin_name(output, provider);
    }));
    CTXGEN_CHECK(work.enter(CompileStage::kWrite, 0));
    CompiledModel result;
    for (std::size_t p = 0; p < work.contents().size(); ++p) {
      const auto& content = work.contents()[p];
      if (!content || options.embed) continue;
      const std::string name = default_bin_name(output, work.providers().all()[p]->name());
      CTXGEN_CHECK(add_bin_report(work.report(), name, *content));
      result.bins.emplace_back(name, CTXGEN_TRY(write_to_memory([&](const ByteSink& sink) {
                                 return write_context(*content, sink);
                               })));
    }
    if (!work.external().empty())
      result.bins.emplace_back(options.external_initializers,
                               CTXGEN_TRY(write_to_memory([&](const ByteSink& sink) {
                                 return work.external().write(sink);
                               })));
    for (const auto& bin : work.models().front().foreign_bins) result.bins.push_back(bin);
    work.report().models.front().output_name = output;
    result.model = CTXGEN_TRY(write_to_memory([&](const ByteSink& sink) {
      return write_model(work.models().front().model, work.rewrite_of(0), sink);
    }));
    result.report = std::move(work.report());
    result.report.seconds = seconds_since(start);
    return result;
  });
}

Result<CompileReport> compile_to_files(const std::vector<ModelInput>& inputs,
                                       const std::vector<std::filesystem::path>& outputs,
                                       const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<CompileReport> {
    const auto start = std::chrono::steady_clock::now();
    CTXGEN_CHECK(check_file_options(inputs, outputs, options));
    if (options.no_clobber)
      for (const auto& output : outputs) CTXGEN_CHECK(refuse_existing(output));
    Compilation work(options, CTXGEN_TRY(ProviderList::make(options)));
    CTXGEN_CHECK(work.prepare(inputs));
    CTXGEN_CHECK(work.compile());
    CTXGEN_CHECK(work.rewrite([&](std::string_view provider) -> Result<std::string> {
      const auto bin = bin_path(outputs, options, provider);
      std::string reference;
      for (const auto& output : outputs) {
        reference = CTXGEN_TRY(bin_reference(output.parent_path(), bin));
        if (output.parent_path() != outputs.front().parent_path())
          return fail(ErrorCode::kInvalidArgument,
                      "models that share a bin must be written to one folder: \"{}\" and \"{}\"",
                      outputs.front().parent_path().string(), output.parent_path().string());
      }
      return reference;
    }));
    CTXGEN_CHECK(work.enter(CompileStage::kWrite, 0));
    const std::vector<OutputFile> files = CTXGEN_TRY(plan_files(work, inputs, outputs, options));
    if (options.no_clobber)
      for (const OutputFile& file : files) CTXGEN_CHECK(refuse_existing(file.path));
    CTXGEN_CHECK(write_files(files));
    CTXGEN_CHECK(work.enter(CompileStage::kWrite, 1));
    CompileReport report = std::move(work.report());
    report.seconds = seconds_since(start);
    return report;
  });
}

Result<ModelReport> explain(const ModelInput& input, const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<ModelReport> {
    const ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    const StageFunction stage = [&](CompileStage s) -> Status {
      if (options.cancelled && options.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
      if (options.progress) options.progress(s, 0);
      return {};
    };
    const PreparedModel prepared = CTXGEN_TRY(prepare_model(input, options, providers, stage));
    std::vector<BuiltPartition> partitions;
    for (std::size_t p = 0; p < providers.all().size(); ++p)
      for (std::size_t i = 0; i < prepared.assignment.partitions[p].size(); ++i) {
        BuiltPartition one;
        one.provider = p;
        one.partition = i;
        partitions.push_back(std::move(one));
      }
    return report_model(prepared, providers, partitions);
  });
}

}  // namespace ctxgen
