#include "regroup/like_context.h"

#include <algorithm>
#include <format>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/compiler/option_table.h"
#include "ctxgen/ctxfile/workspace.h"
#include "ctxgen/partition/provider.h"

namespace ctxgen {
namespace {

/// A program without what names it, and without the bytes of its weights.
Program form_of(Program program) {
  program.name.clear();
  program.variant_of.clear();
  program.certificate.reset();
  for (ProgramWeight& weight : program.weights)
    for (PackedWeight& packed : weight.packed) packed.blob = BlobIndex{0};
  return program;
}

/// What the first difference of two forms is in; empty: there is none.
std::string difference(const Program& found, const Program& expected) {
  if (found == expected) return {};
  if (found.inputs != expected.inputs || found.outputs != expected.outputs ||
      found.symbols != expected.symbols)
    return "its inputs or outputs";
  const std::size_t ops = std::min(found.ops.size(), expected.ops.size());
  for (std::size_t i = 0; i < ops; ++i)
    if (found.ops[i] != expected.ops[i])
      return std::format("op \"{}\" ({})", found.ops[i].name, found.ops[i].kind.view());
  const std::size_t weights = std::min(found.weights.size(), expected.weights.size());
  for (std::size_t i = 0; i < weights; ++i)
    if (found.weights[i] != expected.weights[i])
      return std::format("the type, size or layout of weight \"{}\"", found.weights[i].name);
  for (std::size_t i = 0; i < std::min(found.values.size(), expected.values.size()); ++i)
    if (found.values[i] != expected.values[i])
      return std::format("the type of value \"{}\"", found.values[i].name);
  if (found.plans != expected.plans) return "the plans for its sizes";
  return std::format("{} ops on {} weights, expected {} on {}", found.ops.size(),
                     found.weights.size(), expected.ops.size(), expected.weights.size());
}

using Programs = std::vector<const Program*>;

/// Those of a partition: that of its name, then one for each further instruction set.
Programs programs_of(const ContextContent& content, std::string_view name) {
  Programs programs;
  for (const Program& program : content.programs)
    if (program.name == name)
      programs.insert(programs.begin(), &program);
    else if (program.variant_of == name)
      programs.push_back(&program);
  return programs;
}

Programs programs_of(const KeptContext& context) {
  Programs programs{&context.reader->programs()[context.program]};
  for (const std::size_t variant : context.reader->variants(context.program))
    if (variant != context.program) programs.push_back(&context.reader->programs()[variant]);
  return programs;
}

std::string difference(const Programs& found, const Programs& expected) {
  if (found.size() != expected.size())
    return std::format("{} instruction sets, expected {}", found.size(), expected.size());
  for (const Program* one : found) {
    const auto same = std::ranges::find(expected, one->isa, &Program::isa);
    if (same == expected.end()) return std::format("instruction set \"{}\"", one->isa);
    if (std::string text = difference(form_of(*one), form_of(**same)); !text.empty()) return text;
  }
  return {};
}

std::vector<const Value*> interface_of(const Model& model) {
  std::vector<const Value*> values;
  for (const auto& ids : {model.graph.inputs, model.graph.outputs}) {
    for (const ValueId id : ids)
      if (const Value& value = model.graph.value(id); !value.initializer) values.push_back(&value);
    values.push_back(nullptr);  // ends the inputs
  }
  return values;
}

/// Whether no size says another thing. Inference finds sizes that the written model does not state.
bool is_same(const Value* found, const Value* expected) {
  if (found == nullptr || expected == nullptr) return found == expected;
  return found->name == expected->name && may_be_same(found->type, expected->type);
}

bool has_bodies(const Node& node) {
  return std::ranges::any_of(node.attributes,
                             [](const Attribute& attribute) { return !attribute.graphs.empty(); });
}

/// What a node that stays is: all of it, but for values of constants, and for bodies, whose programs are compared.
std::string text_of(const Model& model, const Node& node) {
  std::string text = std::format("{} {}", node.domain, node.op_type);
  if (node.op_type == "Constant" || has_bodies(node)) return text + " " + node.describe();
  const auto bytes = model.bytes(node.source);
  return text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// The first node that stays in one of the models only, or is another one; empty: there is none.
std::string difference_of_nodes(const Model& found, const GraphRewrite& found_rewrite,
                                const Model& expected, const GraphRewrite& expected_rewrite) {
  using Kind = NodeToWrite::Kind;
  const std::size_t a = found_rewrite.nodes.size(), b = expected_rewrite.nodes.size();
  for (std::size_t i = 0; i < std::min(a, b); ++i) {
    const NodeToWrite& one = found_rewrite.nodes[i];
    const NodeToWrite& other = expected_rewrite.nodes[i];
    // A call that was expanded and stays is read as a node of the written model.
    if (one.kind == Kind::kCall && other.kind == Kind::kNode) continue;
    if (one.kind == Kind::kEpContext && other.kind == Kind::kEpContext) continue;
    const Node* const node = one.kind == Kind::kNode ? &found.graph.node(one.node) : nullptr;
    if (node != nullptr && other.kind == Kind::kNode &&
        (one.rewired ||
         text_of(found, *node) == text_of(expected, expected.graph.node(other.node))))
      continue;
    return node != nullptr ? node->describe() : "which nodes are compiled";
  }
  return a == b ? std::string() : std::format("{} nodes, expected {}", a, b);
}

}  // namespace

Result<std::optional<LikeContext>> LikeContext::read(const CompileEnv& env) {
  if (env.options.like.empty()) return std::nullopt;
  LikeContext like;
  auto kept = read_kept_model(env.options.like, env.providers, *Workspace::join());
  if (!kept)
    return std::unexpected(
        with_context(std::move(kept).error(), option_name(env.options, &CompileOptions::like)));
  like.kept_ = *std::move(kept);
  return like;
}

Status LikeContext::check_request(const ModelSources& sources, const CompileEnv& env) const {
  for (const auto& [part, meaning] : {std::pair("options", "other options"),
                                      {"target", "another target"},
                                      {"versions", "other versions of ctxgen or onnx"}})
    if (const auto found = key_part(sources.keys.front().parts, part),
        expected = key_part(kept_.key_parts, part);
        found != expected)
      return fail(ErrorCode::kNotSatisfied, "{}: {} was compiled with {}: {}={}, here {}",
                  option_name(env.options, &CompileOptions::like), kept_.name, meaning, part,
                  expected.value_or("none"), found.value_or("none"));
  return {};
}

Status LikeContext::check_result(const PreparedModels& prepared, BuiltModels& built,
                                 const RewrittenModels& rewritten, const CompileEnv& env) const {
  const PreparedModel& model = prepared.models.front();
  const std::vector<BuiltPartition>& partitions = built.partitions.front();
  const auto differs = [&](std::string_view what) {
    return fail(ErrorCode::kNotSatisfied, "{}: {} differs from {} in more than weights: {}",
                option_name(env.options, &CompileOptions::like), model.name, kept_.name, what);
  };
  if (!std::ranges::equal(interface_of(model.model), interface_of(*kept_.model), is_same))
    return differs("names or types of inputs or outputs");
  if (partitions.size() != kept_.contexts.size())
    return differs(
        std::format("{} partitions, expected {}", partitions.size(), kept_.contexts.size()));
  if (const std::string text =
          difference_of_nodes(model.model, rewritten.rewrites.front(), *kept_.model, kept_.rewrite);
      !text.empty())
    return differs(text);
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    const KeptContext& context = kept_.contexts[i];
    if (partitions[i].provider != context.provider) return differs(context.where);
    const std::string text = difference(
        programs_of(*built.contents[context.provider], partitions[i].attributes.partition_name),
        programs_of(context));
    if (!text.empty()) return differs(std::format("{}: {}", context.where, text));
  }
  built.report.files_read.push_back(env.options.like);
  return {};
}

}  // namespace ctxgen
