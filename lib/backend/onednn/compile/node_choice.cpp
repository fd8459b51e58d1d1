#include "node_choice.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "dim_list.h"
#include "op_row.h"

namespace ctxgen::onednn {

namespace {

bool is_sized(const Graph& graph, NodeId id) {
  return std::ranges::any_of(graph.value(graph.node(id).output(0)).consumers,
                             [&](NodeId reader) { return graph.node(reader).op_type == "Shape"; });
}

}  // namespace

NodeChoice::NodeChoice(const GraphView& view, const NodeScope& scope, std::vector<bool> free,
                       Check check)
    : view_(view),
      scope_(scope),
      free_(std::move(free)),
      patterns_(find_patterns(view, scope, free_, MakesMasks::kAll)),
      early_(scope.size(), false) {
  // Without one of them, sizes that another one reads may be read by more nodes.
  MakesMasks makes = MakesMasks::kAll;
  for (;;) {
    choose(check);
    if (find_early()) continue;
    if (!std::ranges::all_of(patterns_,
                             [&](const PatternMatch& match) { return all_make(match); })) {
      makes = fewer_masks(makes);
      patterns_ = find_patterns(view, scope, free_, makes);
      continue;
    }
    if (std::erase_if(patterns_, [&](const PatternMatch& match) { return !holds(match); }) == 0)
      return;
  }
}

void NodeChoice::choose(Check check) {
  alone_ = free_;
  in_pattern_.assign(scope_.size(), false);
  refusals_.assign(scope_.size(), std::nullopt);
  readers_.clear();
  std::vector<std::vector<NodeId>> together;
  std::vector<NodeId> takers;
  for (const PatternMatch& match : patterns_) {
    for (const NodeId id : match.nodes) {
      alone_[scope_.place(id)] = false;
      in_pattern_[scope_.place(id)] = true;
    }
    if (!match.attention) continue;
    std::ranges::copy(match.attention->takers, std::back_inserter(takers));
    if (match.attention->readers.empty() && match.attention->takers.empty()) continue;
    together.push_back(match.nodes);
    std::ranges::copy(match.attention->readers, std::back_inserter(readers_));
  }
  refuse_masks();
  for (std::size_t i = 0; i < scope_.size(); ++i)
    if (early_[i] && alone_[i])
      refusals_[i] = is_sized(view_.graph(), scope_.at(i))
                         ? "its size is needed before the partition"
                         : "nodes outside need it before the partition";
  taken_ = in_pattern_;
  for (std::size_t i = 0; i < scope_.size(); ++i) {
    if (!alone_[i] || refusals_[i]) continue;
    const Node& node = view_.graph().node(scope_.at(i));
    refusals_[i] = check(NodeView(view_, node));
    if (refusals_[i]) continue;
    taken_[i] = true;
    if (reads_dims(view_, node)) readers_.push_back(scope_.at(i));
  }
  std::ranges::sort(readers_);
  std::ranges::sort(takers);
  chains_.emplace(view_, scope_, alone_,
                  SizeReaders{.readers = readers_,
                              .takers = std::move(takers),
                              .together = std::move(together),
                              .joined = makers()},
                  taken_);
  for (const NodeId reader : readers_)
    if (const std::size_t at = scope_.place(reader); alone_[at])
      refusals_[at] = chains_->refusal(reader);
}

/// A mask of an attention with a past grows in each run. Where nothing else reads what it is made of, that
/// stays outside: there a length makes no other plan necessary.
void NodeChoice::refuse_masks() {
  std::vector<ValueId> masks;
  for (const PatternMatch& match : patterns_)
    if (match.attention && match.attention->has_past() && match.attention->bias.valid())
      masks.push_back(match.attention->bias);
  std::vector<bool> of_mask(scope_.size(), false);
  const auto only_masks_read = [&](ValueId id) {
    const Value& value = view_.graph().value(id);
    return !value.is_output && std::ranges::all_of(value.consumers, [&](NodeId consumer) {
      const std::size_t at = scope_.place(consumer);
      if (at == scope_.size()) return false;
      return of_mask[at] || (in_pattern_[at] && std::ranges::contains(masks, id));
    });
  };
  for (std::size_t i = scope_.size(); i-- > 0;) {
    if (!alone_[i]) continue;
    const Node& node = view_.graph().node(scope_.at(i));
    if (node.outputs.empty() || view_.constant(node.output(0)) != nullptr) continue;
    bool reaches = false;  // what nothing reads makes no mask
    for (const ValueId output : node.outputs)
      reaches = reaches || (output.valid() && !view_.graph().value(output).consumers.empty());
    of_mask[i] = reaches && std::ranges::all_of(node.outputs, [&](ValueId output) {
                   return !output.valid() || only_masks_read(output);
                 });
    const ValueType& type = view_.graph().value(node.output(0)).type;
    if (of_mask[i] && !(type.is_tensor() && type.fixed_dims()))
      refusals_[i] = "it makes a mask, which grows in each run";
  }
}

/// Whether a way over nodes that stay outside leads from the node to taken ones.
bool NodeChoice::reaches_taken(NodeId from) const {
  const Graph& graph = view_.graph();
  std::vector<bool> seen(scope_.size(), false);
  std::vector<NodeId> open{from};
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const ValueId output : graph.node(id).outputs)
      if (output.valid())
        for (const NodeId consumer : graph.value(output).consumers) {
          const std::size_t at = scope_.place(consumer);
          if (at == scope_.size() || seen[at] || chains_->vanishes(consumer)) continue;
          if (taken_[at]) return true;
          seen[at] = true;
          open.push_back(consumer);
        }
  }
  return false;
}

/// Whether the node only moves what is there before the partition, and a node outside makes of it, or of its size, what
/// taken nodes need.
bool NodeChoice::comes_early(std::size_t place) const {
  const Graph& graph = view_.graph();
  const Node& node = graph.node(scope_.at(place));
  const OpRow* row = find_row(node);
  const auto is_given = [&](ValueId id) {
    if (!id.valid() || view_.constant(id) != nullptr || !graph.value(id).producer.valid())
      return true;
    const std::size_t producer = scope_.place(graph.value(id).producer);
    return producer < scope_.size() && !taken_[producer] &&
           (!chains_->vanishes(graph.value(id).producer) ||
            !chains_->follows(graph.value(id).producer));
  };
  if (row == nullptr || !row->glue || !std::ranges::all_of(node.inputs, is_given)) return false;
  return std::ranges::any_of(graph.value(node.output(0)).consumers, [&](NodeId consumer) {
    const std::size_t at = scope_.place(consumer);
    return at < scope_.size() && !taken_[at] && !chains_->vanishes(consumer) &&
           view_.constant(graph.node(consumer).output(0)) == nullptr && reaches_taken(consumer);
  });
}

/// Moves of inputs (a lookup of tokens) of which others (positions, a mask) are made that taken nodes need: they
/// would be a partition of their own, for nothing. Whether there are more of them than before.
bool NodeChoice::find_early() {
  const bool has_attention = std::ranges::any_of(
      patterns_, [](const PatternMatch& match) { return match.attention != nullptr; });
  bool found = false;
  for (std::size_t i = 0; has_attention && i < scope_.size(); ++i)
    if (alone_[i] && taken_[i] && comes_early(i)) early_[i] = found = true;
  return found;
}

/// By bias or mask that they make themselves: the nodes of all ops that do.
std::vector<std::vector<NodeId>> NodeChoice::makers() const {
  std::map<ValueId, std::vector<NodeId>> found;
  for (const PatternMatch& match : patterns_) {
    if (!match.attention) continue;
    for (const ValueId made : match.attention->made)
      std::ranges::copy(match.nodes, std::back_inserter(found[made]));
  }
  std::vector<std::vector<NodeId>> all;
  for (auto& [made, nodes] : found) all.push_back(std::move(nodes));
  return all;
}

/// Whether all that read what an op makes itself make it, too, and the nodes of that are theirs, with none of others on a
/// way between them.
bool NodeChoice::all_make(const PatternMatch& match) const {
  if (!match.attention) return true;
  const std::uint32_t level = chains_->level(match.nodes.back());
  const auto is_makers = [&](ValueId made, NodeId id) {
    return std::ranges::any_of(patterns_, [&](const PatternMatch& other) {
      return other.attention && std::ranges::contains(other.attention->made, made) &&
             std::ranges::binary_search(other.nodes, id);
    });
  };
  const auto is_shared = [&](ValueId made) {
    const Value& value = view_.graph().value(made);
    return is_makers(made, value.producer) &&
           std::ranges::all_of(value.consumers, [&](NodeId reader) {
             return is_makers(made, reader) && chains_->level(reader) == level;
           });
  };
  return std::ranges::all_of(match.attention->takers,
                             [&](NodeId taker) { return !chains_->refusal(taker); }) &&
         std::ranges::all_of(match.attention->made, is_shared);
}

/// Whether the sizes that an attention reads are those of the partition, and no other node needs what it
/// does not compute.
bool NodeChoice::holds(const PatternMatch& match) const {
  if (!match.attention) return true;
  const AttentionChain& chain = *match.attention;
  for (const NodeId reader : chain.readers)
    if (chains_->refusal(reader)) return false;
  for (const NodeId shape : chain.shapes)
    if (!chains_->vanishes(shape)) return false;
  for (const NodeId reader : readers_) {
    if (std::ranges::binary_search(match.nodes, reader) || chains_->refusal(reader)) continue;
    const NodeView n(view_, view_.graph().node(reader));
    const auto lists = read_dim_lists(n, dim_list_inputs(view_, n.node()));
    if (!lists) continue;
    for (const ValueId sized : lists->sized) {
      const bool early =
          std::ranges::contains(std::array{chain.present_key, chain.present_value}, sized) &&
          reader < match.nodes.back() && !in_pattern(reader);
      if (early || (std::ranges::contains(chain.inside, sized) && !in_pattern(reader)))
        return false;
    }
  }
  return true;
}

}  // namespace ctxgen::onednn
