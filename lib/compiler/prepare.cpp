#include "prepare.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/file.h"
#include "ctxgen/base/log.h"
#include "ctxgen/cpu/fold.h"
#include "ctxgen/cpu/kernel.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/registry/providers.h"
#include "optimize_graph.h"
#include "names.h"

namespace ctxgen {
namespace {

/// What folding may allocate for one model: constants beyond this stay nodes.
constexpr std::uint64_t kMaxFoldedBytes = std::uint64_t{8} << 30;
/// Rounds of "fold, infer again". Each round needs a new constant, so real models end after two or
/// three; the limit is for hostile ones.
constexpr int kMaxFoldRounds = 8;

Result<Model> import_model(const ModelInput& input, const CompileOptions& options) {
  ReadModelOptions read;
  read.file_name = input.name;
  read.external_data_folder = options.external_data_folder;
  if (input.path.empty()) return read_model(input.bytes, read);
  return read_model_file(input.path, read);
}

/// --fix-dim: the symbol becomes a number in the model's own inputs.
Status fix_dims(Model& model, const CompileOptions& options) {
  for (const auto& [name, number] : options.fix_dims) {
    if (number < 0)
      return fail(ErrorCode::kInvalidArgument, "dimension \"{}\" cannot be {}", name, number);
    bool found = false;
    for (ValueId id : model.graph.inputs) {
      Value& value = model.graph.value(id);
      if (!value.type.shape) continue;
      for (Dim& dim : *value.type.shape) {
        if (!dim.is_symbol() || model.symbol_name(dim.symbol()) != name) continue;
        dim = Dim::fixed(number);
        value.type_changed = found = true;
      }
    }
    if (!found)
      return fail(ErrorCode::kInvalidArgument, "no graph input has a dimension \"{}\" to fix", name);
  }
  return {};
}

/// After --fix-dim every type that the file states may be out of date.
void mark_types_changed(Model& model) {
  for (std::uint32_t v = 0; v < model.graph.value_count(); ++v)
    model.graph.value(ValueId{v}).type_changed = true;
}

void freeze_initializers(Model& model) {
  for (std::uint32_t v = 0; v < model.graph.value_count(); ++v)
    model.graph.value(ValueId{v}).is_overridable = false;
}

std::size_t count_overridable(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.values(), [](const Value& v) { return v.is_overridable; }));
}

/// One EPContext node of the source: ours is refused, a foreign one brings its bin.
Status check_ep_context(PreparedModel& prepared, const Node& node,
                        const std::filesystem::path& folder, const ProviderList& providers) {
  const std::string_view source = node.string_or("source", "");
  if (providers.find_source(source) >= 0)
    return fail(ErrorCode::kInvalidGraph,
                "{} is an EPContext node of {}: the model is compiled already", node.describe(),
                source);
  prepared.warnings.push_back(
      std::format("{} is an EPContext node of \"{}\": passed through", node.describe(), source));
  const bool embedded = node.int_or("embed_mode", 1) == 1;
  const std::string file(node.string_or("ep_cache_context", ""));
  if (embedded || file.empty()) return {};
  auto bin = map_file_beneath(folder, file);
  if (!bin)
    return std::unexpected(with_context(
        bin.error(), std::format("{}: context binary \"{}\"", node.describe(), file)));
  prepared.foreign_bins.emplace_back(file, std::move(*bin));
  return {};
}

/// In the graph and in the bodies of its nodes.
Status check_ep_contexts(PreparedModel& prepared, const Graph& graph,
                         const std::filesystem::path& folder, const ProviderList& providers) {
  for (const Node& node : graph.nodes()) {
    if (node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain)
      CTXGEN_CHECK(check_ep_context(prepared, node, folder, providers));
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs)
        CTXGEN_CHECK(check_ep_contexts(prepared, *body, folder, providers));
  }
  return {};
}

/// Where binaries of foreign EPContext nodes lie: beside the model, wherever its external data is.
std::filesystem::path bin_folder(const ModelInput& input, const Model& model) {
  if (input.path.empty()) return model.folder;
  return input.path.has_parent_path() ? input.path.parent_path() : ".";
}

/// Shape inference and folding feed each other: a folded shape makes more shapes known.
Status infer_and_fold(PreparedModel& prepared, const CompileOptions& options,
                      const StageFunction& stage) {
  Model& model = prepared.model;
  CTXGEN_CHECK(stage(CompileStage::kInfer));
  CTXGEN_CHECK(infer_shapes(model));
  const auto stays_whole = [](const Graph&, const Node& node) {
    // Attention is worth more as its body, matrix products and a softmax for dnnl, than on its kernel;
    // a call of which nothing is compiled is written back as the call.
    if (node.op_type == "Attention" && node.domain.empty()) return false;
    return cpu::find_op(node.domain, node.op_type, node.opset) != nullptr;
  };
  (void)CTXGEN_TRY(expand_schema_functions(model, stays_whole));  // infers again what it expands
  CTXGEN_CHECK(stage(CompileStage::kFold));
  std::uint64_t used_bytes = 0;
  for (int round = 0; round < kMaxFoldRounds; ++round) {
    std::size_t folded =
        CTXGEN_TRY(cpu::fold_constants(model, kMaxFoldedBytes - used_bytes, &used_bytes));
    if (options.subgraphs)
      folded += CTXGEN_TRY(cpu::fold_bodies(model, kMaxFoldedBytes - used_bytes, &used_bytes));
    prepared.folded_nodes += folded;
    if (folded == 0) break;
    CTXGEN_CHECK(infer_shapes(model));
  }
  return {};
}

Status find_profile_dims(PreparedModel& prepared, const CompileOptions& options) {
  const Model& model = prepared.model;
  for (const ShapeProfile& profile : options.profiles) {
    for (const auto& [name, number] : profile.symbols) {
      bool known = false;
      for (std::uint32_t s = 0; s < model.symbol_count(); ++s)
        known = known || model.symbol_name(SymbolId{s}) == name;
      if (!known) return fail(ErrorCode::kInvalidArgument, "the model has no dimension \"{}\"", name);
    }
    for (const auto& [name, dims] : profile.inputs) {
      const ValueId id = model.graph.find(name);
      if (!id.valid() || !model.graph.value(id).is_input)
        return fail(ErrorCode::kInvalidArgument, "the model has no input \"{}\"", name);
    }
    prepared.profile_dims.push_back(
        CTXGEN_TRY(infer_dims_with(model, profile.symbols, profile.inputs)));
  }
  return {};
}

/// Bodies of nodes that are written from the source; those inside of expanded functions are not.
std::vector<std::size_t> collect_bodies(Graph& graph, std::vector<PreparedBody>& bodies) {
  std::vector<std::size_t> found;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId{n});
    if (node.source.empty() || node.call >= 0) continue;
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) {
        if (attribute.source.empty()) continue;
        PreparedBody prepared{.graph = body.get(), .name = {}, .bodies = {}, .assignment = {}};
        prepared.name = std::format("{}/{}", node.name.empty() ? node.first_output_name : node.name,
                                    attribute.name);
        prepared.bodies = collect_bodies(*body, bodies);
        found.push_back(bodies.size());
        bodies.push_back(std::move(prepared));
      }
  }
  return found;
}

}  // namespace

Result<ProviderList> ProviderList::make(const CompileOptions& options) {
  ProviderList list;
  std::vector<std::string> names = options.providers;
  if (names.empty()) names.emplace_back("dnnl");
  if (std::ranges::none_of(names, is_cpu_provider)) names.emplace_back("cpu");
  for (const std::string& name : names) {
    const Provider* provider = nullptr;
    for (const Provider* extra : options.extra_providers)
      if (same_name(extra->name(), name) || same_name(extra->source(), name)) provider = extra;
    if (provider == nullptr) {
      list.owned_.push_back(CTXGEN_TRY(make_provider(name)));
      provider = list.owned_.back().get();
    }
    for (const Provider* other : list.all_)
      if (other->name() == provider->name())
        return fail(ErrorCode::kInvalidArgument, "provider \"{}\" is given twice", provider->name());
    list.all_.push_back(provider);
    list.options_.emplace_back();
  }
  for (const auto& [name, option] : options.provider_options) {
    const auto it = std::ranges::find_if(list.all_, [&](const Provider* p) {
      return same_name(p->name(), name) || same_name(p->source(), name);
    });
    if (it == list.all_.end())
      return fail(ErrorCode::kInvalidArgument, "option \"{}\" is for provider \"{}\", which is not used",
                  option.first, name);
    const auto known = (*it)->option_names();
    if (std::ranges::find(known, option.first) == known.end())
      return fail(ErrorCode::kInvalidArgument, "provider \"{}\" has no option \"{}\"", name,
                  option.first);
    list.options_[static_cast<std::size_t>(it - list.all_.begin())].push_back(option);
  }
  return list;
}

int ProviderList::find_source(std::string_view source) const {
  for (std::size_t p = 0; p < all_.size(); ++p)
    if (all_[p]->source() == source) return static_cast<int>(p);
  return -1;
}

Result<PreparedModel> prepare_model(const ModelInput& input, const CompileOptions& options,
                                    const ProviderList& providers, const StageFunction& stage) {
  CTXGEN_CHECK(stage(CompileStage::kImport));
  PreparedModel prepared;
  prepared.name = input.name;
  prepared.model = CTXGEN_TRY(import_model(input, options));
  Model& model = prepared.model;

  CTXGEN_CHECK(stage(CompileStage::kCheck));
  CTXGEN_CHECK(check_with_onnx(model));
  CTXGEN_CHECK(
      check_ep_contexts(prepared, model.graph, bin_folder(input, model), providers));
  CTXGEN_CHECK(fix_dims(model, options));
  if (options.freeze_initializers) freeze_initializers(model);
  if (const std::size_t count = count_overridable(model.graph); count > 0)
    prepared.warnings.push_back(std::format(
        "{} initializer{} also graph input{} and may change at run time, so nothing is compiled "
        "from {}; --freeze-initializers bakes the values in",
        count, count == 1 ? " is" : "s are", count == 1 ? "" : "s", count == 1 ? "it" : "them"));

  CTXGEN_CHECK(infer_and_fold(prepared, options, stage));
  OptimizedGraph optimized = optimize_graph(model, options.graph_optimization);
  prepared.removed_nodes = optimized.removed_nodes;
  prepared.rewired = std::move(optimized.rewired);
  if (!options.fix_dims.empty()) mark_types_changed(model);
  CTXGEN_CHECK(find_profile_dims(prepared, options));
  CTXGEN_CHECK(stage(CompileStage::kPartition));
  prepared.assignment = CTXGEN_TRY(partition_graph(model, model.graph, providers.all()));
  std::ranges::copy(prepared.assignment.warnings, std::back_inserter(prepared.warnings));
  if (options.subgraphs) prepared.main_bodies = collect_bodies(model.graph, prepared.bodies);
  for (PreparedBody& body : prepared.bodies) {
    body.assignment = CTXGEN_TRY(partition_graph(model, *body.graph, providers.all()));
    for (const std::string& warning : body.assignment.warnings)
      prepared.warnings.push_back(std::format("{}: {}", body.name, warning));
  }
  return prepared;
}

}  // namespace ctxgen
