#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// The values of one graph that the subgraphs of a node read, in order of first use.
struct Captures {
  std::vector<ValueId> ids;
  std::unordered_set<ValueId> seen;
  void add(ValueId id) {
    if (seen.insert(id).second) ids.push_back(id);
  }
};

/// A graph while it is read: shared by the scopes that add to it (the graph's own text, and the
/// bodies of functions that are called in it).
struct GraphBuild {
  Graph& graph;
  std::vector<bool> defined;          // by ValueId: has a source of its value by now
  Captures* captures = nullptr;       // of the node that is being read
  std::int32_t call = -1;             // the function call that is being expanded
  const GraphBuild* outer = nullptr;  // of the graph around it

  /// Whether a value here or in a graph around has that name.
  [[nodiscard]] bool is_taken(std::string_view name) const {
    for (const GraphBuild* at = this; at != nullptr; at = at->outer)
      if (at->graph.find(name).valid()) return true;
    return false;
  }
  [[nodiscard]] bool is_defined(ValueId id) const {
    return id.index < defined.size() && defined[id.index];
  }
  void define(ValueId id) {
    if (id.index >= defined.size()) defined.resize(id.index + 1);
    defined[id.index] = true;
  }
};

/// What the body of a function may refer to by name other than values.
struct FunctionFrame;

/// Where names of values are looked up and made: one graph's text, or one function body's.
///
/// In a function body that is expanded, and in the subgraphs inside it, names are made unique in
/// the graph that they go to and those around it, whose values they may capture under their names
/// (`renames`): `names` maps the text's names to values there.
class Scope {
 public:
  /// A graph of its own: the main graph, a function.
  Scope(GraphBuild& build, std::span<const OpsetImport> opsets) : build_(build), opsets_(opsets) {}
  /// A subgraph that sees the values of `parent`.
  Scope(GraphBuild& build, const Scope* parent)
      : build_(build),
        parent_(parent),
        opsets_(parent->opsets_),
        renames_(parent->renames_),
        prefix_(parent->prefix_),
        frame_(parent->frame_),
        depth_(parent->depth_ + 1) {}

  /// Makes this the scope of an expanded function body: closed, with new names.
  void become_function_body(std::string prefix, const FunctionFrame* frame, std::uint64_t depth) {
    renames_ = true;
    prefix_ = std::move(prefix);
    frame_ = frame;
    depth_ = depth;
  }

  /// Makes this a view of the parent's values in another graph: no name means what it means there.
  void become_view() { renames_ = true; }

  /// The text's name stands for this value (a parameter of a function; invalid: absent).
  void bind(std::string_view name, ValueId id) { names_.insert_or_assign(std::string(name), id); }
  [[nodiscard]] bool is_bound(std::string_view name) const { return names_.contains(name); }

  /// The value that the text calls `name`, made if it is new. It may not be defined yet.
  [[nodiscard]] ValueId declare(std::string_view name);
  /// The same for a place that gives the value its content.
  /// Errors  INVALID_GRAPH if it has one already (single assignment).
  [[nodiscard]] Result<ValueId> define(std::string_view name, std::string_view by);
  /// The defined value of that name here or in an enclosing graph; then a value that stands for it
  /// is made here, and the nodes in between capture it. An invalid id is an absent optional
  /// parameter; nothing: the name is not known (yet).
  [[nodiscard]] std::optional<ValueId> resolve(std::string_view name) const;

  [[nodiscard]] std::span<const OpsetImport> opsets() const { return opsets_; }
  /// The version imported for a domain; nothing if it is not imported.
  [[nodiscard]] std::optional<std::int64_t> opset(std::string_view domain) const;

  [[nodiscard]] GraphBuild& build() const { return build_; }
  [[nodiscard]] Graph& graph() const { return build_.graph; }
  [[nodiscard]] const Scope* parent() const { return parent_; }
  [[nodiscard]] bool renames() const { return renames_; }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] const FunctionFrame* frame() const { return frame_; }
  [[nodiscard]] std::uint64_t depth() const { return depth_; }

 private:
  [[nodiscard]] ValueId find(std::string_view name) const;
  [[nodiscard]] ValueId new_name(std::string_view name) const;

  GraphBuild& build_;
  const Scope* parent_ = nullptr;
  std::span<const OpsetImport> opsets_;
  bool renames_ = false;
  std::string prefix_;
  const FunctionFrame* frame_ = nullptr;
  std::uint64_t depth_ = 0;
  mutable std::unordered_map<std::string, ValueId, NameHash, std::equal_to<>> names_;
};

}  // namespace ctxgen
