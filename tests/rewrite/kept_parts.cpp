#include "kept_parts.h"

#include <algorithm>
#include <format>
#include <fstream>
#include <map>
#include <set>

#include <onnx/checker.h>
#include <onnx/defs/schema.h>

namespace ctxgen::test {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;

bool is_ours(const NodeProto& node) {
  if (node.op_type() != "EPContext" || node.domain() != "com.microsoft") return false;
  return std::ranges::any_of(node.attribute(), [](const onnx::AttributeProto& a) {
    return a.name() == "source" && a.s() == "CtxgenDnnlExecutionProvider";
  });
}

// ---- the source as a context model should hold it: no data outside of it ----------------------

void bring_inline(TensorProto& tensor, const std::filesystem::path& folder) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return;
  std::map<std::string, std::string> keys;
  for (const auto& entry : tensor.external_data()) keys[entry.key()] = entry.value();
  const auto number = [&](const char* key, std::uint64_t otherwise) {
    return keys.contains(key) ? std::stoull(keys[key]) : otherwise;
  };
  const auto path = folder / keys["location"];
  const std::uint64_t offset = number("offset", 0);
  std::string bytes(number("length", std::filesystem::file_size(path) - offset), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  tensor.clear_external_data();
  tensor.clear_data_location();
  tensor.set_raw_data(bytes);
}

void bring_inline(NodeProto& node, const std::filesystem::path& folder);

void bring_inline(GraphProto& graph, const std::filesystem::path& folder) {
  for (TensorProto& tensor : *graph.mutable_initializer()) bring_inline(tensor, folder);
  for (NodeProto& node : *graph.mutable_node()) bring_inline(node, folder);
}

void bring_inline(NodeProto& node, const std::filesystem::path& folder) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) bring_inline(*attribute.mutable_t(), folder);
    if (attribute.has_g()) bring_inline(*attribute.mutable_g(), folder);
    for (TensorProto& tensor : *attribute.mutable_tensors()) bring_inline(tensor, folder);
    for (GraphProto& graph : *attribute.mutable_graphs()) bring_inline(graph, folder);
  }
}

// ---- names --------------------------------------------------------------------------------------

void add_reads(const NodeProto& node, std::set<std::string>& reads);

/// What the nodes and outputs of a body take from outside of it.
std::set<std::string> captures(const GraphProto& body) {
  std::set<std::string> reads, own;
  for (const NodeProto& node : body.node()) {
    add_reads(node, reads);
    own.insert(node.output().begin(), node.output().end());
  }
  for (const auto& output : body.output()) reads.insert(output.name());
  for (const auto& input : body.input()) own.insert(input.name());
  for (const auto& tensor : body.initializer()) own.insert(tensor.name());
  for (const auto& tensor : body.sparse_initializer()) own.insert(tensor.values().name());
  std::erase_if(reads, [&](const std::string& name) { return own.contains(name); });
  return reads;
}

void add_reads(const NodeProto& node, std::set<std::string>& reads) {
  for (const std::string& name : node.input())
    if (!name.empty()) reads.insert(name);
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) reads.merge(captures(attribute.g()));
    for (const GraphProto& body : attribute.graphs()) reads.merge(captures(body));
  }
}

std::set<std::string> reads_of(const GraphProto& graph) {
  std::set<std::string> reads;
  for (const NodeProto& node : graph.node()) add_reads(node, reads);
  for (const auto& output : graph.output()) reads.insert(output.name());
  return reads;
}

template <class Messages>
std::multiset<std::string> texts(const Messages& messages) {
  std::multiset<std::string> all;
  for (const auto& message : messages) all.insert(message.SerializeAsString());
  return all;
}

class Judge {
 public:
  Judge(const ModelProto& source, const ModelProto& context, const std::filesystem::path& folder,
        const ModelReport& report)
      : source_(source),
        context_(context),
        before_(*source_.mutable_graph()),
        after_(context_.graph()),
        report_(report) {
    bring_inline(before_, folder);
    for (auto& function : *source_.mutable_functions())
      for (NodeProto& node : *function.mutable_node()) bring_inline(node, folder);
  }

  std::vector<std::string> run() {
    compare_headers();
    compare_functions();
    compare_nodes();
    compare_initializers();
    compare_interface();
    compare_value_infos();
    check_order();
    check_with_onnx();
    return std::move(lost_);
  }

 private:
  template <class... Args>
  void lost(std::format_string<Args...> format, Args&&... arguments) {
    lost_.push_back(std::format(format, std::forward<Args>(arguments)...));
  }

  void compare_headers() {
    const auto bare = [](ModelProto model) {
      model.clear_graph();
      model.clear_functions();
      model.clear_opset_import();
      model.clear_metadata_props();
      return model.SerializeAsString();
    };
    if (bare(source_) != bare(context_)) lost("a field of the model differs");
    const auto bare_graph = [](GraphProto graph) {
      graph.clear_node();
      graph.clear_initializer();
      graph.clear_sparse_initializer();
      graph.clear_input();
      graph.clear_value_info();
      return graph.SerializeAsString();
    };
    if (bare_graph(before_) != bare_graph(after_)) lost("a field of the graph differs");
    compare_opsets();
    for (const auto& entry : source_.metadata_props())
      if (!texts(context_.metadata_props()).contains(entry.SerializeAsString()))
        lost("metadata \"{}\" is gone", entry.key());
    for (const auto& entry : context_.metadata_props())
      if (!texts(source_.metadata_props()).contains(entry.SerializeAsString()) &&
          !entry.key().starts_with("ep_compatibility_info.") &&
          !entry.key().starts_with("ctxgen.compile_key") && entry.key() != "ctxgen.content_hash")
        lost("metadata \"{}\" is new", entry.key());
  }

  void compare_opsets() {
    const auto before = texts(source_.opset_import());
    for (const std::string& text : before)
      if (!texts(context_.opset_import()).contains(text)) lost("an opset import is gone");
    for (const auto& import : context_.opset_import())
      if (!before.contains(import.SerializeAsString()) && !expanded() &&
          !(import.domain() == "com.microsoft" && import.version() == 1 && compiled()))
        lost("opset import {} {} is new", import.domain(), import.version());
  }

  void compare_functions() {
    const auto before = texts(source_.functions());
    std::set<std::string> kept;
    for (const auto& function : context_.functions()) {
      kept.insert(function.domain() + "/" + function.name());
      if (!before.contains(function.SerializeAsString()))
        lost("function {} differs", function.name());
    }
    for (const auto& function : source_.functions()) {
      const bool called =
          calls(after_, function) ||
          std::ranges::any_of(context_.functions(), [&](const auto& caller) {
            return std::ranges::any_of(caller.node(), [&](const NodeProto& node) {
              return node.op_type() == function.name() && node.domain() == function.domain();
            });
          });
      if (called && !kept.contains(function.domain() + "/" + function.name()))
        lost("function {} is gone", function.name());
    }
  }

  static bool calls(const GraphProto& graph, const onnx::FunctionProto& function) {
    return std::ranges::any_of(graph.node(), [&](const NodeProto& node) {
      if (node.op_type() == function.name() && node.domain() == function.domain()) return true;
      return std::ranges::any_of(node.attribute(), [&](const onnx::AttributeProto& attribute) {
        return attribute.has_g() && calls(attribute.g(), function);
      });
    });
  }

  [[nodiscard]] bool compiled() const { return std::ranges::any_of(after_.node(), is_ours); }

  /// A node that stands for others: a call of a function of the model or of ONNX itself.
  [[nodiscard]] bool is_call(const NodeProto& node) const {
    for (const auto& function : source_.functions())
      if (function.name() == node.op_type() && function.domain() == node.domain()) return true;
    for (const auto& import : source_.opset_import()) {
      if (import.domain() != node.domain()) continue;
      const auto* schema = onnx::OpSchemaRegistry::Schema(
          node.op_type(), static_cast<int>(import.version()), node.domain());
      return schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction());
    }
    return false;
  }

  /// Whether some call of the source is not in the result: nodes of its body may be.
  [[nodiscard]] bool expanded() const {
    const auto after = texts(after_.node());
    return std::ranges::any_of(before_.node(), [&](const NodeProto& node) {
      return is_call(node) && !after.contains(node.SerializeAsString());
    });
  }

  void compare_nodes() {
    const auto before = texts(before_.node());
    const auto after = texts(after_.node());
    for (const NodeProto& node : after_.node()) {
      if (is_ours(node)) {
        if (node.input().empty() || node.output().empty()) lost("a partition without edges");
        if (node.attribute_size() != 10)
          lost("a partition with {} attributes", node.attribute_size());
      } else if (!before.contains(node.SerializeAsString()) && !expanded()) {
        lost("node \"{}\" ({}) is not the source's", node.name(), node.op_type());
      }
    }
    std::size_t gone = 0;
    for (const NodeProto& node : before_.node())
      if (!after.contains(node.SerializeAsString()) && !is_call(node)) ++gone;
    if (gone > report_.compiled_nodes + report_.folded_nodes)
      lost("{} nodes are gone, {} were compiled and {} folded", gone, report_.compiled_nodes,
           report_.folded_nodes);
  }

  void compare_initializers() {
    const auto reads = reads_of(after_), read_before = reads_of(before_);
    compare_tensors(before_.initializer(), after_.initializer(), reads, read_before,
                    [](const TensorProto& t) { return t.name(); });
    compare_tensors(before_.sparse_initializer(), after_.sparse_initializer(), reads, read_before,
                    [](const onnx::SparseTensorProto& t) { return t.values().name(); });
  }

  template <class Tensors, class Name>
  void compare_tensors(const Tensors& before, const Tensors& after,
                       const std::set<std::string>& reads, const std::set<std::string>& read_before,
                       Name name) {
    auto next = before.begin();  // the kept ones stand in the order of the source
    for (const auto& tensor : after) {
      const std::string text = tensor.SerializeAsString();
      next = std::find_if(next, before.end(),
                          [&](const auto& t) { return t.SerializeAsString() == text; });
      if (next == before.end()) {
        if (!expanded()) lost("initializer \"{}\" is not the source's", name(tensor));
        next = before.begin();
        continue;
      }
      ++next;
    }
    const auto kept = texts(after);
    for (const auto& tensor : before)
      if (!kept.contains(tensor.SerializeAsString()) &&
          (reads.contains(name(tensor)) || !read_before.contains(name(tensor))))
        lost("initializer \"{}\" is gone", name(tensor));
  }

  void compare_interface() {
    std::vector<std::string> expected, found;
    std::set<std::string> initializers, kept;
    for (const auto& tensor : before_.initializer()) initializers.insert(tensor.name());
    for (const auto& tensor : after_.initializer()) kept.insert(tensor.name());
    for (const auto& input : before_.input()) {
      const bool constant = source_.ir_version() < 4 && initializers.contains(input.name());
      if (!constant || kept.contains(input.name())) expected.push_back(input.SerializeAsString());
    }
    for (const auto& input : after_.input()) found.push_back(input.SerializeAsString());
    if (expected != found)
      lost("the inputs differ: {} instead of {}", found.size(), expected.size());
  }

  void compare_value_infos() {
    std::set<std::string> edges, exist, told;
    for (const NodeProto& node : after_.node()) {
      exist.insert(node.output().begin(), node.output().end());
      if (!is_ours(node)) continue;
      edges.insert(node.input().begin(), node.input().end());
      edges.insert(node.output().begin(), node.output().end());
    }
    for (const auto& tensor : after_.initializer())
      told.insert(tensor.name()), exist.insert(tensor.name());
    for (const auto& tensor : after_.sparse_initializer()) told.insert(tensor.values().name());
    for (const auto& value : after_.input()) told.insert(value.name());
    for (const auto& value : after_.output()) told.insert(value.name());
    const auto before = texts(before_.value_info()), after = texts(after_.value_info());
    for (const auto& value : after_.value_info()) {
      told.insert(value.name());
      if (!before.contains(value.SerializeAsString()) && !edges.contains(value.name()))
        lost("value_info \"{}\" is new", value.name());
    }
    for (const auto& value : before_.value_info())
      if (exist.contains(value.name()) && !after.contains(value.SerializeAsString()))
        lost("value_info \"{}\" is gone", value.name());
    for (const std::string& name : edges)
      if (!told.contains(name)) lost("nothing tells the type of edge \"{}\"", name);
  }

  /// Every name that is read stands before: nothing that the rest needs is gone.
  void check_order() {
    std::set<std::string> known;
    for (const auto& input : after_.input()) known.insert(input.name());
    for (const auto& tensor : after_.initializer()) known.insert(tensor.name());
    for (const auto& tensor : after_.sparse_initializer()) known.insert(tensor.values().name());
    for (const NodeProto& node : after_.node()) {
      std::set<std::string> reads;
      add_reads(node, reads);
      for (const std::string& name : reads)
        if (!known.contains(name))
          lost("\"{}\" is read by {} before it exists", name, node.op_type());
      for (const std::string& name : node.output())
        if (!name.empty() && !known.insert(name).second) lost("\"{}\" is made twice", name);
    }
    for (const auto& output : after_.output())
      if (!known.contains(output.name())) lost("output \"{}\" is made by nobody", output.name());
  }

  void check_with_onnx() {
    const auto refusal = [](const ModelProto& model) -> std::string {
      try {
        onnx::checker::check_model(model);
        return {};
      } catch (const std::exception& e) {
        return e.what();
      }
    };
    if (!refusal(source_).empty()) return;
    const std::string said = refusal(context_);
    if (!said.empty()) lost("the onnx checker refuses the result: {}", said);
  }

  ModelProto source_, context_;
  GraphProto& before_;
  const GraphProto& after_;
  const ModelReport& report_;
  std::vector<std::string> lost_;
};

}  // namespace

std::vector<std::string> lost_parts(const ModelProto& source, const ModelProto& context,
                                    const std::filesystem::path& folder,
                                    const ModelReport& report) {
  return Judge(source, context, folder, report).run();
}

}  // namespace ctxgen::test
