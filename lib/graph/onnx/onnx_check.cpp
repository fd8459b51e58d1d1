#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <onnx/checker.h>
#include <onnx/common/version.h>

#include "ctxgen/base/log.h"
#include "ctxgen/onnx/infer.h"

#include "guard.h"
#include "skeleton.h"

namespace ctxgen {
namespace {

// What the checker refuses although runtimes run it: operators that a runtime has in a domain of
// ONNX's (LayerNormalization before opset 17), and names of the text that are used again inside of
// subgraphs.
constexpr std::string_view kChecker = "onnx checker";
constexpr std::array<std::string_view, 4> kHarmless{
    "No Op registered for ", "No opset import for domain ", "Field 'shape' of ",
    "Op registered for "};  // but deprecated

// By how the text begins: it also contains names of the model.
bool is_harmless(std::string_view message) {
  message.remove_prefix(std::min(kChecker.size() + 2, message.size()));
  return std::ranges::any_of(kHarmless,
                             [&](std::string_view begin) { return message.starts_with(begin); });
}

// The checker's texts have several lines, the first of which says what is wrong.
std::string first_line(std::string message) {
  if (const auto end = message.find('\n'); end != std::string::npos) message.resize(end);
  return message;
}

/// Whether `check` has nothing to say; false: something harmless, and it may have missed the rest.
template <class Check>
Result<bool> passes(const Check& check) {
  Status status = guarded(kChecker, [&check]() -> Status {
    check();
    return {};
  });
  if (status) return true;
  Error error = std::move(status).error();
  error.message = first_line(std::move(error.message));
  if (error.code != ErrorCode::kInvalidGraph) return std::unexpected(std::move(error));
  if (!is_harmless(error.message)) return std::unexpected(std::move(error));
  log(LogLevel::kDebug, "{}", error.message);
  return false;
}

// Each node for itself, so that what is excused in one says nothing about others. Names and order
// were checked when the model was read. Empties the graph: the node around is checked without it.
Status check_nodes(onnx::GraphProto& graph, const onnx::checker::CheckerContext& context) {
  const onnx::checker::LexicalScopeContext no_names;
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) CTXGEN_CHECK(check_nodes(*attribute.mutable_g(), context));
      for (onnx::GraphProto& body : *attribute.mutable_graphs())
        CTXGEN_CHECK(check_nodes(body, context));
    }
    (void)CTXGEN_TRY(passes([&] { onnx::checker::check_node(node, context, no_names); }));
  }
  graph.Clear();
  graph.set_name("checked");
  return {};
}

}  // namespace

namespace {

Status check_part(const Model& model, const GraphPart& part) {
  Skeleton skeleton;
  const bool passed = CTXGEN_TRY(passes([&] {
    build_skeleton(model, part, SkeletonUse::kCheck, skeleton);
    onnx::checker::check_model(skeleton.model());
  }));
  if (passed) return {};
  onnx::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(skeleton.model().ir_version()));
  std::unordered_map<std::string, int> opsets;
  for (const auto& import : skeleton.model().opset_import())
    opsets.emplace(import.domain(), static_cast<int>(import.version()));
  context.set_opset_imports(std::move(opsets));
  return check_nodes(skeleton.graph(), context);
}

}  // namespace

Status check_with_onnx(const Model& model, std::size_t nodes_at_once) {
  for (const GraphPart& part : parts_of(model.graph, nodes_at_once))
    CTXGEN_CHECK(check_part(model, part));
  return {};
}

std::string onnx_version() { return onnx::LAST_RELEASE_VERSION; }

}  // namespace ctxgen
