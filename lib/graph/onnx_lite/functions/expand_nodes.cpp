#include "ctxgen/onnx_lite/expand.h"

#include "read/import_context.h"
#include "write/encode.h"

namespace ctxgen {
namespace {

std::vector<std::byte> joined(const Pieces& pieces) {
  std::vector<std::byte> bytes;
  bytes.reserve(pieces.size());
  static_cast<void>(pieces.write([&bytes](std::span<const std::byte> part) -> Status {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};  // appending never fails
  }));
  return bytes;
}

class NodeExpander {
 public:
  NodeExpander(Model& model, Graph& graph)
      : model_(model),
        graph_(graph),
        build_{.graph = graph, .defined = {}},
        scope_(build_, model.opset_imports),
        calls_(graph.calls().size()) {}

  Result<std::size_t> run(const FunctionBody& body_of);

 private:
  void define_sources();
  void keep(Node node);
  Status expand(const Node& node, std::vector<std::byte> body);

  Model& model_;
  Graph& graph_;
  GraphBuild build_;
  Scope scope_;
  std::uint64_t calls_;  // numbers the expansions: nodes of one call share its number
};

// What has a value before the first node runs.
void NodeExpander::define_sources() {
  for (std::uint32_t i = 0; i < graph_.value_count(); ++i) {
    const Value& value = graph_.value(ValueId{i});
    if (value.is_input || value.is_outer || value.initializer) build_.define(ValueId{i});
  }
}

void NodeExpander::keep(Node node) {
  for (const ValueId output : node.outputs)
    if (output.valid()) build_.define(output);
  graph_.add_node(std::move(node));
}

// The node goes through its text, so that the readers of function calls serve here too.
Status NodeExpander::expand(const Node& node, std::vector<std::byte> body) {
  Encoder encoder(model_, /*for_file=*/false);
  auto encoded = encoder.node(graph_, node);
  if (!encoded) return std::unexpected(std::move(encoded).error());
  const Blob call_text = Blob::own(joined(*encoded));
  const Blob body_text = Blob::own(std::move(body));
  // Tensors of the call may be in the model or in the encoded text, those of the body in its own:
  // decoded tensors share one owner of all three.
  struct Owners {
    std::shared_ptr<const void> model, call, body;
  };
  const Blob source{
      std::make_shared<const Owners>(Owners{model_.source.owner, call_text.owner, body_text.owner}),
      body_text.bytes};
  ImportContext context{.model = model_,
                        .tensors = TensorReader(source, nullptr),
                        .expand_functions = false,
                        .functions = {},
                        .function_by_key = {}};
  context.calls = calls_++;
  const NodeText call = CTXGEN_TRY(read_node_text(call_text.bytes));
  FunctionText function = CTXGEN_TRY(read_function_text(body_text.bytes));
  build_.call = node.call >= 0
                    ? node.call
                    : graph_.add_call(
                          {.source = node.source, .inputs = node.inputs, .outputs = node.outputs});
  CTXGEN_CHECK(expand_call(context, scope_, call, function));
  build_.call = -1;
  return {};
}

Result<std::size_t> NodeExpander::run(const FunctionBody& body_of) {
  std::vector<std::optional<std::vector<std::byte>>> bodies;
  std::size_t count = 0;
  for (const Node& node : graph_.nodes()) {
    bodies.push_back(CTXGEN_TRY(body_of(graph_, node)));
    if (bodies.back()) ++count;
  }
  if (count == 0) return count;
  std::vector<Node> nodes(graph_.nodes().begin(), graph_.nodes().end());
  graph_.set_nodes({});
  define_sources();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (bodies[i])
      CTXGEN_CHECK(expand(nodes[i], *std::move(bodies[i])));
    else
      keep(std::move(nodes[i]));
  }
  return count;
}

}  // namespace

Result<std::size_t> expand_nodes(Model& model, Graph& graph, const FunctionBody& body_of) {
  return NodeExpander(model, graph).run(body_of);
}

}  // namespace ctxgen
