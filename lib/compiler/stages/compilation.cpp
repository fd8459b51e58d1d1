#include "stages/compilation.h"

#include <algorithm>
#include <format>
#include <iterator>
#include <set>
#include <thread>
#include <unordered_map>

#include "ctxgen/base/checked.h"
#include "ctxgen/onnx_lite/content_hash.h"
#include "ctxgen/partition/partitioner.h"
#include "ctxgen/partition/rewrite.h"
#include "cache/compile_key.h"
#include "output/appended_bin.h"
#include "output/external_initializers.h"
#include "output/initializer_locations.h"
#include "output/write_outputs.h"
#include "stages/report_model.h"
#include "stages/variant_exchange.h"

namespace ctxgen {
namespace {

/// Programs by name; the first one of each.
std::unordered_map<std::string_view, const Program*> by_name(std::span<const Program> programs) {
  std::unordered_map<std::string_view, const Program*> names;
  for (const Program& program : programs) names.try_emplace(program.name, &program);
  return names;
}

}  // namespace

Compilation::Compilation(const CompileOptions& options, ProviderList providers,
                         CompileTarget target, BinName bin_name,
                         const std::filesystem::path& beside, CacheFolder* cache)
    : options_(options),
      spill_(beside.empty() ? nullptr
                            : std::make_unique<SpillFile>(beside, options.weight_memory_bytes)),
      providers_(std::move(providers)),
      target_(std::move(target)),
      bin_name_(std::move(bin_name)),
      builder_(providers_.all(), options.threads, target_, spill_.get(), cache) {}

Status Compilation::import(const std::vector<ModelInput>& inputs) {
  for (const Provider* provider : providers_.all())
    bin_references_.push_back(provider->compiles() && !options_.embed
                                  ? CTXGEN_TRY(bin_name_(provider->name()))
                                  : std::string());
  for (const ModelInput& input : inputs) {
    CTXGEN_CHECK(enter(CompileStage::kImport, static_cast<double>(imported_.size()) /
                                                  static_cast<double>(inputs.size())));
    imported_.push_back(CTXGEN_TRY(import_model(input, options_, providers_, spill_.get())));
    external_data_.push_back(input.external_data);
    const std::size_t m = imported_.size() - 1;
    const std::filesystem::path folder = outputs_.empty() ? "" : outputs_[m].parent_path();
    CTXGEN_CHECK(sources_.add(imported_.back().model, input, options_.weightless,
                              outputs_.empty() ? nullptr : &folder));
  }
  CTXGEN_CHECK(check_external_data_folder(imported_, options_));
  std::vector<std::string> references = bin_references_;
  std::ranges::move(sources_.files(), std::back_inserter(references));
  KeyOfCompile key = key_of(imported_, providers_, target_, references, options_);
  report_.key = key.hash;
  report_.key_parts = std::move(key.parts);
  report_.files_read = files_read(imported_);
  return {};
}

std::vector<Blob> Compilation::input_bytes() const {
  std::vector<Blob> all;
  for (const ImportedModel& imported : imported_) {
    all.push_back(imported.model.source);
    for (const FileRead& file : imported.external_files) all.push_back(file.bytes);
    for (const auto& [name, bin] : imported.foreign_bins) all.push_back(bin.bytes);
  }
  return all;
}

Status Compilation::append_to(const ContextReader& bin) {
  const int p = providers_.find_source(bin.info().source);
  const ProgramLoader* loader =
      p < 0 ? nullptr : providers_.all()[static_cast<std::size_t>(p)]->loader();
  if (loader == nullptr)
    return fail(ErrorCode::kVersionMismatch,
                "cannot append: the context binary was written by \"{}\", which is not an enabled compiling "
                "provider", bin.info().source);
  CTXGEN_CHECK(
      check_same_target(bin, CTXGEN_TRY(loader->fingerprint_of(target_, options_.threads)), options_));
  return builder_.adopt(static_cast<std::size_t>(p), bin);
}

Status Compilation::prepare() {
  CTXGEN_CHECK(start_variants());
  const double share = 1.0 / static_cast<double>(imported_.size());
  for (ImportedModel& imported : std::exchange(imported_, {})) {
    const double before = static_cast<double>(models_.size()) * share;
    const auto stage = [&](CompileStage s) { return enter(s, before); };
    models_.push_back(
        CTXGEN_TRY(prepare_model(std::move(imported), options_, providers_, target_, stage,
                                 spill_.get())));
  }
  if (options_.weightless != WeightlessMode::kNone)
    builder_.set_references(
        [this](auto bytes, Hash128 hash) { return sources_.reference(bytes, hash); });
  return {};
}

Status Compilation::compile() {
  for (PreparedModel& prepared : models_) {
    if (options_.disable_model_compile) CTXGEN_CHECK(check_nothing_to_compile(prepared));
    CTXGEN_CHECK(enter(CompileStage::kCompile, static_cast<double>(built_.size()) /
                                                   static_cast<double>(models_.size())));
    built_.push_back(CTXGEN_TRY(build(prepared)));
  }
  CTXGEN_CHECK(builder_.share_layouts(built_));
  CTXGEN_CHECK(report_models());
  CTXGEN_CHECK(add_variants());
  for (std::size_t p = 0; p < providers_.all().size(); ++p)
    contents_.push_back(CTXGEN_TRY(builder_.content(p)));
  if (options_.fail_on_suboptimal) CTXGEN_CHECK(check_optimal());
  report_weightless();
  if (options_.compress_level > 0) {
    const auto all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    for (auto& content : contents_)
      if (content)
        CTXGEN_CHECK(compress_blobs(*content, options_.compress_level,
                                    options_.jobs > 0 ? options_.jobs : all));
  }
  report_.bytes_added = builder_.weight_bytes_added();
  report_.counts = builder_.counts();
  report_sharing();
  for (const auto& content : contents_)
    if (content)
      for (const Blob& blob : content->blobs) report_.bytes_stored += blob.bytes.size();
  return {};
}

/// All at once, before any work: each may refuse its instruction set.
Status Compilation::start_variants() {
  if (target_.isas.size() <= 1) return {};
  if (!options_.start_variant)
    return fail(ErrorCode::kInvalidArgument,
                "several instruction sets need a process each: CompileOptions::start_variant is not "
                "set");
  for (const std::string& isa : std::span(target_.isas).subspan(1))
    variants_.push_back(CTXGEN_TRY(options_.start_variant(isa)));
  return {};
}

Status Compilation::add_variants() {
  if (variants_.empty()) return {};
  const std::vector<std::byte> request = encode_request(models_);
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    CTXGEN_CHECK(enter(CompileStage::kCompile, 1));
    const std::string& isa = target_.isas[v + 1];
    auto response = variants_[v]->compile(request);
    variants_[v].reset();  // and with it the other process and its memory
    if (!response) return std::unexpected(with_context(std::move(response).error(), isa));
    const VariantAnswer answer = CTXGEN_TRY(decode_answer(std::move(*response), models_.size()));
    const auto programs = by_name(answer.reader.programs());
    for (std::size_t m = 0; m < built_.size(); ++m) {
      for (BuiltPartition& built : built_[m]) {
        const auto graph = static_cast<std::size_t>(built.body + 1);
        const auto found = programs.find(answer_name({m, graph, built.provider, built.partition}));
        // Where it has none, that instruction set runs the program of the smallest.
        if (found != programs.end())
          CTXGEN_CHECK(builder_.add_variant(built, isa, *found->second, answer.reader));
      }
      if (const std::uint64_t left = answer.left_out[m]; left > 0)
        report_.models[m].warnings.push_back(std::format(
            "{} node{} compile{} only for {}: excluded, because {} cannot run {}",
            left, left == 1 ? "" : "s", left == 1 ? "s" : "", isa, target_.isas.front(),
            left == 1 ? "it" : "them"));
    }
  }
  return {};
}

void Compilation::report_sharing() {
  for (std::size_t p = 0; p < contents_.size(); ++p) {
    if (!contents_[p]) continue;
    const auto programs = by_name(contents_[p]->programs);
    std::vector<ProgramUser> users;
    for (std::size_t m = 0; m < models_.size(); ++m)
      for (const BuiltPartition& built : built_[m]) {
        if (built.provider != p) continue;
        const std::string& name = built.attributes.partition_name;
        if (const auto program = programs.find(name); program != programs.end())
          users.push_back({std::format("{}: {}", models_[m].name, name), program->second});
      }
    std::vector<std::uint64_t> bytes;
    for (const Blob& blob : contents_[p]->blobs) bytes.push_back(blob.bytes.size());
    std::ranges::move(find_shared_blobs(users, bytes), std::back_inserter(report_.sharing));
    std::ranges::move(builder_.split_weights(p), std::back_inserter(report_.split));
  }
}

Status Compilation::report_models() {
  for (std::size_t m = 0; m < models_.size(); ++m) {
    report_.models.push_back(report_model(models_[m], providers_, target_, built_[m]));
    report_.models.back().unplanned = unplanned_text(models_[m], options_, built_[m]);
    CTXGEN_CHECK(check_requirements(models_[m], options_));
    if (!built_[m].empty()) continue;
    if (options_.require_compiled)
      return fail(ErrorCode::kNotSatisfied, "{}: no node was compiled", models_[m].name);
    report_.models.back().warnings.push_back(
        "nothing was compiled: the output is a plain model without a context binary");
  }
  return {};
}

void Compilation::report_nodes() {
  for (std::size_t m = 0; m < models_.size(); ++m)
    report_assignment(report_.models[m], models_[m], providers_, built_[m]);
}

Status Compilation::rewrite() {
  CTXGEN_CHECK(enter(CompileStage::kRewrite, 0));
  for (std::size_t m = 0; m < models_.size(); ++m) {
    rewrites_.push_back(CTXGEN_TRY(rewrite_model(m)));
    rewrites_[m].external_buffers = external_data_[m];
    CTXGEN_CHECK(move_initializers(models_[m].model, options_, rewrites_[m], external_));
    const std::filesystem::path folder = outputs_.empty() ? "" : outputs_[m].parent_path();
    CTXGEN_CHECK(locate_initializers(models_[m].model, options_,
                                     outputs_.empty() ? nullptr : &folder, rewrites_[m]));
  }
  name_external_file(options_, external_, rewrites_);
  for (std::size_t m = 0; m < models_.size(); ++m)
    rewrites_[m].metadata.emplace_back(
        std::string(kContentHashKey),
        CTXGEN_TRY(content_hash(models_[m].model, rewrites_[m])).hex());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    report_.models[m].model_bytes = CTXGEN_TRY(model_size(models_[m].model, rewrites_[m]));
    std::uint64_t embedded = 0;
    for (const EpContextNode& node : rewrites_[m].ep_contexts) embedded += node.payload.bytes.size();
    CTXGEN_CHECK(check_model_size(report_.models[m].model_bytes, embedded));
  }
  return report_external();
}

Status Compilation::enter(CompileStage stage, double fraction) const {
  if (options_.cancelled && options_.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
  if (options_.progress) options_.progress(stage, fraction);
  return {};
}

/// session.disable_model_compile. A model of which nothing would be compiled passes: it runs on cpu,
/// or holds nodes that another provider compiled.
Status Compilation::check_nothing_to_compile(const PreparedModel& prepared) const {
  const auto check = [&](const Graph& graph, const Assignment& assignment) -> Status {
    for (std::size_t p = 0; p < providers_.all().size(); ++p)
      for (const Partition& partition : assignment.partitions[p])
        return fail(ErrorCode::kNotSatisfied,
                    "{}: the model requires compilation: provider \"{}\" would compile {} and {} "
                    "more (session.disable_model_compile)", prepared.name,
                    providers_.all()[p]->name(), graph.node(partition.nodes.front()).describe(),
                    partition.nodes.size() - 1);
    return {};
  };
  for (const PreparedBody& body : prepared.bodies) CTXGEN_CHECK(check(*body.graph, body.assignment));
  return check(prepared.model.graph, prepared.assignment);
}

/// Programs of all partitions, of the main graph first.
Result<std::vector<BuiltPartition>> Compilation::build(PreparedModel& prepared) {
  const Model& model = prepared.model;
  const auto options_of = [&](bool main) {
    auto options = provider_options(prepared, main, options_, providers_);
    for (ProviderCompileOptions& one : options) {
      one.spill = spill_.get();
      if (options_.weightless != WeightlessMode::kNone)
        one.stays_plain = [this](auto bytes) { return sources_.holds(bytes); };
    }
    return options;
  };
  std::vector<BuiltPartition> all =
      CTXGEN_TRY(build_graph(model, model.graph, prepared.assignment, options_of(true), 0));
  for (std::size_t b = 0; b < prepared.bodies.size(); ++b) {
    PreparedBody& body = prepared.bodies[b];
    auto built =
        build_graph(model, *body.graph, body.assignment, options_of(false), all.size());
    if (!built) return std::unexpected(with_context(std::move(built).error(), body.name));
    for (BuiltPartition& one : *built) {
      one.body = static_cast<int>(b);
      all.push_back(std::move(one));
    }
  }
  return all;
}

/// What a provider claimed and then cannot compile goes to the next one: the nodes are left out and
/// the graph is partitioned again.
Result<std::vector<BuiltPartition>> Compilation::build_graph(
    const Model& model, const Graph& graph, Assignment& assignment,
    std::span<const ProviderCompileOptions> options, std::size_t first_ordinal) {
  std::vector<Exclusion> exclusions;
  while (true) {
    auto built = builder_.add_model(model, graph, assignment, options, options_.node_prefix,
                                    first_ordinal);
    if (built) return built;
    const GraphView view(model, graph, target_);
    const std::size_t before = exclusions.size();
    for (std::size_t p = 0; p < providers_.all().size(); ++p)
      for (Rejection& rejection :
           providers_.all()[p]->refused_after_all(view, assignment.partitions[p], options[p]))
        exclusions.push_back({p, std::move(rejection)});
    if (exclusions.size() == before) return built;
    assignment = CTXGEN_TRY(
        partition_graph(model, graph, providers_.all(), exclusions, target_));
  }
}

namespace {

/// A context binary as it goes into its model.
/// Errors  RESOURCE_LIMIT before it takes memory, if it is too large for any model.
Result<Blob> embedded_context(const ContextContent& content) {
  const std::uint64_t size = CTXGEN_TRY(context_size(content));
  CTXGEN_CHECK(check_model_size(size, size));
  return write_to_memory([&](const ByteSink& sink) { return write_context(content, sink); }, size);
}

}  // namespace

/// The EPContext nodes of one graph: the first of each provider in it is primary.
Result<std::vector<CompiledNode>> Compilation::compiled_nodes(std::size_t m, int body) {
  PreparedModel& prepared = models_[m];
  const Assignment& assignment =
      body < 0 ? prepared.assignment : prepared.bodies[static_cast<std::size_t>(body)].assignment;
  std::vector<CompiledNode> nodes;
  std::set<std::size_t> with_primary;
  // Those of the main graph stand first (-1), then body by body.
  for (const BuiltPartition& built :
       std::ranges::equal_range(built_[m], body, {}, &BuiltPartition::body)) {
    const std::size_t p = built.provider;
    CompiledNode node;
    node.partition = &assignment.partitions[p][built.partition];
    node.attributes = built.attributes;
    node.attributes.onnx_model_filename = prepared.name;
    node.attributes.embed_mode = options_.embed ? 1 : 0;
    node.attributes.main_context = with_primary.insert(p).second ? 1 : 0;
    if (node.attributes.main_context == 1 && options_.embed)
      node.payload = CTXGEN_TRY(embedded_context(*contents_[p]));
    else if (node.attributes.main_context == 1)
      node.attributes.ep_cache_context = bin_references_[p];
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<std::vector<BodyRewrite>> Compilation::rewrite_bodies(std::size_t m,
                                                             std::span<const std::size_t> bodies) {
  std::vector<BodyRewrite> rewrites;
  for (const std::size_t b : bodies) {
    const PreparedBody& body = models_[m].bodies[b];
    const auto nodes = CTXGEN_TRY(compiled_nodes(m, static_cast<int>(b)));
    auto inner = CTXGEN_TRY(rewrite_bodies(m, body.bodies));
    if (nodes.empty() && inner.empty()) continue;  // stays as it stands
    rewrites.push_back({body.graph, plan_graph_rewrite(*body.graph, body.assignment, nodes,
                                                       std::move(inner),
                                                       options_.freeze_initializers)});
  }
  return rewrites;
}

Result<ModelRewrite> Compilation::rewrite_model(std::size_t m) {
  PreparedModel& prepared = models_[m];
  std::vector<std::pair<std::string, std::string>> metadata{
      {std::string(kCompileKeyMetadata), report_.key.hex()},
      {std::string(kCompileKeyPartsMetadata), report_.key_parts}};
  std::set<std::size_t> named;
  for (const BuiltPartition& built : built_[m])
    if (named.insert(built.provider).second)
      metadata.emplace_back(
          kCompatibilityKeyPrefix + std::string(providers_.all()[built.provider]->source()),
          contents_[built.provider]->fingerprint);
  if (options_.weightless != WeightlessMode::kNone && !built_[m].empty())
    metadata.emplace_back("weightless_mode", std::to_string(static_cast<int>(options_.weightless)));
  const auto nodes = CTXGEN_TRY(compiled_nodes(m, -1));
  ModelRewrite rewrite = plan_rewrite(prepared.model, prepared.assignment, nodes, metadata,
                                      options_.freeze_initializers,
                                      CTXGEN_TRY(rewrite_bodies(m, prepared.main_bodies)));
  for (NodeToWrite& node : rewrite.nodes)
    node.rewired = node.kind == NodeToWrite::Kind::kNode &&
                   std::ranges::binary_search(prepared.rewired, node.node);
  return rewrite;
}

/// What a load on this machine would say about the bins.
Status Compilation::check_optimal() const {
  for (std::size_t p = 0; p < contents_.size(); ++p) {
    if (!contents_[p]) continue;
    const Provider& provider = *providers_.all()[p];
    const auto [verdict, reason] = provider.loader()->compatibility(contents_[p]->fingerprint, 0);
    if (verdict != Compatibility::kOptimal)
      return fail(ErrorCode::kNotSatisfied,
                  "provider \"{}\": the compiled model is not optimal for this machine: {} "
                  "(session.fail_on_suboptimal_compiled_model)", provider.name(), reason);
  }
  return {};
}

/// What weightless mode could not leave in the sources is said, not passed over.
void Compilation::report_weightless() {
  if (options_.weightless == WeightlessMode::kNone) return;
  std::size_t left = 0, stored = 0;
  std::uint64_t stored_bytes = 0;
  for (const auto& content : contents_) {
    if (!content) continue;
    for (const Program& program : content->programs)
      for (const ProgramWeight& weight : program.weights) {
        const std::uint64_t bytes = checked_size_bytes(weight.type, weight.dims).value_or(0);
        const bool is_left = std::ranges::any_of(weight.packed, [](const PackedWeight& packed) {
          return is_reference_layout(packed.layout);
        });
        (is_left ? left : stored) += 1;
        (is_left ? report_.bytes_left_in_sources : stored_bytes) += bytes;
      }
  }
  report_.models.front().warnings.push_back(std::format(
      "weightless: {} weights ({} bytes) stay in the source's files, which every load needs; {} ({} "
      "bytes) are inline under mode 1 or computed by the compiler, and lie in the context binary",
      left, report_.bytes_left_in_sources, stored, stored_bytes));
}

Status Compilation::report_external() {
  if (options_.external_initializers.empty()) return {};
  ExternalInitializersReport& file = report_.external.emplace();
  file.name = options_.external_initializers;
  file.bytes = external_.size();
  for (const ModelRewrite& rewrite : rewrites_) file.tensors += rewrite.external.size();
  return {};
}

Status add_bin_report(CompileReport& report, std::string name, const ContextContent& content) {
  CompileReport::Bin bin;
  bin.name = std::move(name);
  bin.bytes = CTXGEN_TRY(context_size(content));
  bin.blobs = content.blobs.size();
  for (const Blob& blob : content.blobs) bin.weight_bytes += blob.bytes.size();
  report.bins.push_back(std::move(bin));
  return {};
}

}  // namespace ctxgen
