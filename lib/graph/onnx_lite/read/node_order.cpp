#include "read/node_order.h"

#include <algorithm>
#include <format>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "read/import_context.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {
namespace {

using Names = std::unordered_set<std::string_view>;

/// What the nodes of one list wait for, as indices into the list.
struct Dependencies {
  std::vector<std::uint32_t> producers;  // of all nodes, one after the other
  std::vector<std::size_t> begin;        // by node, and the end of the last one
};

/// Finds the names that nodes read and make.
class NameReader {
 public:
  explicit NameReader(std::uint64_t most_names) : left_(most_names) {}

  /// `reads`: its inputs, and what its bodies read from outside.
  Status read_node(Message node, std::uint64_t depth, Names& reads, Names& makes) {
    MessageReader reader(node, "node");
    while (const wire::Field* f = reader.next()) {
      if (f->tag == wire::bytes(field::node::kInput)) CTXGEN_CHECK(add(f->text(), reads));
      if (f->tag == wire::bytes(field::node::kOutput)) CTXGEN_CHECK(add(f->text(), makes));
      if (f->tag == wire::bytes(field::node::kAttribute))
        CTXGEN_CHECK(read_attribute(f->body, depth, reads));
    }
    return reader.status();
  }

 private:
  Status add(std::string_view name, Names& names) {
    if (name.empty()) return {};
    if (left_ == 0)
      return fail(ErrorCode::kResourceLimit, "too many names in nodes that are not sorted");
    --left_;
    names.insert(name);
    return {};
  }

  Status read_attribute(Message attribute, std::uint64_t depth, Names& reads) {
    MessageReader reader(attribute, "attribute");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(field::attribute::kGraph) ||
          f->tag == wire::bytes(field::attribute::kGraphs))
        CTXGEN_CHECK(read_body(f->body, depth + 1, reads));
    return reader.status();
  }

  // What it does not define itself.
  Status read_body(Message graph, std::uint64_t depth, Names& outside) {
    namespace fg = field::graph;
    if (depth > kMaxSubgraphDepth)
      return fail(ErrorCode::kResourceLimit, "subgraphs nested more than {} deep",
                  kMaxSubgraphDepth);
    Names defined, reads;
    MessageReader reader(graph, "graph");
    while (const wire::Field* f = reader.next()) {
      switch (f->tag) {
        case wire::bytes(fg::kInput):
          CTXGEN_CHECK(add(CTXGEN_TRY(text_of(f->body, field::value_info::kName)), defined));
          break;
        case wire::bytes(fg::kInitializer):
          CTXGEN_CHECK(add(CTXGEN_TRY(text_of(f->body, field::tensor::kName)), defined));
          break;
        case wire::bytes(fg::kSparseInitializer):
          CTXGEN_CHECK(read_sparse(f->body, defined));
          break;
        case wire::bytes(fg::kOutput):
          CTXGEN_CHECK(add(CTXGEN_TRY(text_of(f->body, field::value_info::kName)), reads));
          break;
        case wire::bytes(fg::kNode): CTXGEN_CHECK(read_node(f->body, depth, reads, defined)); break;
        default: break;
      }
    }
    CTXGEN_CHECK(reader.status());
    for (const std::string_view name : reads)
      if (!defined.contains(name)) outside.insert(name);
    return {};
  }

  Status read_sparse(Message sparse, Names& defined) {
    MessageReader reader(sparse, "sparse tensor");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(field::sparse::kValues))
        CTXGEN_CHECK(add(CTXGEN_TRY(text_of(f->body, field::tensor::kName)), defined));
    return reader.status();
  }

  static Result<std::string_view> text_of(Message message, std::uint32_t number) {
    std::string_view text;
    MessageReader reader(message, "message");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(number)) text = f->text();
    CTXGEN_CHECK(reader.status());
    return text;
  }

  std::uint64_t left_;
};

Result<Dependencies> dependencies_of(std::span<const Message> nodes, std::uint64_t most_names) {
  NameReader names(most_names);
  std::vector<Names> reads(nodes.size());
  std::unordered_map<std::string_view, std::uint32_t> producer_of;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    Names makes;
    CTXGEN_CHECK(names.read_node(nodes[n], 0, reads[n], makes));
    for (const std::string_view name : makes) producer_of.try_emplace(name, n);
  }
  Dependencies found;
  found.begin.reserve(nodes.size() + 1);
  for (const Names& each : reads) {
    found.begin.push_back(found.producers.size());
    for (const std::string_view name : each)
      if (const auto at = producer_of.find(name); at != producer_of.end())
        found.producers.push_back(at->second);
    // The order of a hash table is not to decide anything.
    std::ranges::sort(std::span(found.producers).subspan(found.begin.back()));
  }
  found.begin.push_back(found.producers.size());
  return found;
}

/// Walks the nodes in their order, what each waits for before it.
class Sorter {
 public:
  Sorter(std::span<const Message> nodes, const Dependencies& dependencies)
      : nodes_(nodes), dependencies_(dependencies), states_(nodes.size(), State::kNew) {}

  Result<std::vector<std::uint32_t>> run() {
    order_.reserve(nodes_.size());
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) CTXGEN_CHECK(visit(n));
    return std::move(order_);
  }

 private:
  enum class State : std::uint8_t { kNew, kWaiting, kPlaced };
  struct Frame {
    std::uint32_t node;
    std::size_t next;  // index into Dependencies::producers
  };

  void enter(std::uint32_t n) {
    states_[n] = State::kWaiting;
    path_.push_back({n, dependencies_.begin[n]});
  }

  Status visit(std::uint32_t first) {
    if (states_[first] != State::kNew) return {};
    enter(first);
    while (!path_.empty()) {
      Frame& top = path_.back();
      if (top.next == dependencies_.begin[top.node + 1]) {
        states_[top.node] = State::kPlaced;
        order_.push_back(top.node);
        path_.pop_back();
        continue;
      }
      const std::uint32_t producer = dependencies_.producers[top.next++];
      if (states_[producer] == State::kWaiting) return cycle(producer);
      if (states_[producer] == State::kNew) enter(producer);
    }
    return {};
  }

  // From the node that was met again to the end of the path.
  [[nodiscard]] Status cycle(std::uint32_t again) const {
    constexpr std::size_t kShown = 8;
    const auto begin = std::ranges::find(path_, again, &Frame::node);
    const auto count = static_cast<std::size_t>(path_.end() - begin);
    std::string text;
    for (std::size_t i = 0; i < std::min(count, kShown); ++i) {
      const auto node = read_node_text(nodes_[(begin + static_cast<std::ptrdiff_t>(i))->node]);
      text += std::format("{}{}", i == 0 ? "" : ", ", node ? node->describe() : "a node");
    }
    if (count > kShown) text += std::format(" and {} more", count - kShown);
    return fail(ErrorCode::kInvalidGraph,
                "the graph has a cycle, each of these waits for the next: {}", text);
  }

  std::span<const Message> nodes_;
  const Dependencies& dependencies_;
  std::vector<State> states_;
  std::vector<Frame> path_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

Result<bool> sort_nodes(std::vector<Message>& nodes, std::uint64_t most_names) {
  const Dependencies dependencies = CTXGEN_TRY(dependencies_of(nodes, most_names));
  const auto order = CTXGEN_TRY(Sorter(nodes, dependencies).run());
  if (std::ranges::is_sorted(order)) return false;
  std::vector<Message> sorted;
  sorted.reserve(nodes.size());
  for (const std::uint32_t n : order) sorted.push_back(nodes[n]);
  nodes = std::move(sorted);
  return true;
}

}  // namespace ctxgen
