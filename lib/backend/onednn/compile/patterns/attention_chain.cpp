#include "attention_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "ctxgen/onednn/op_kinds.h"

#include "../dim_list.h"
#include "causal_mask.h"
#include "chain_sizes.h"
#include "head_rows.h"
#include "made_bias.h"
#include "scattered_mask.h"

namespace ctxgen::onednn {

namespace {

constexpr std::size_t kRank = 4;
/// Of fewer keys than this, where their number is known, oneDNN's two products and a Softmax are as fast, and take them in
/// any layout; of more, logits that stay in the cache win. Measured: docs/onednn.md, "Attention".
constexpr std::int64_t kManyKeys = 192;
constexpr SizeSum kBatch{.batch = 1}, kPast{.past = 1}, kAdded{.added = 1}, kQueries{.queries = 1},
    kKeys{.past = 1, .added = 1};

/// Follows one chain. Every step gives an invalid id, or false, where the graph is another one.
class ChainWalk {
 public:
  /// `grows`: keys and values of a Concat are a past and what follows it; otherwise they are all there is.
  ChainWalk(const GraphView& view, bool grows, MakesMasks makes)
      : view_(view), graph_(view.graph()), sizes_(view), grows_(grows), makes_(makes) {}

  [[nodiscard]] std::optional<FoundAttention> find(NodeId softmax);

 private:
  /// Keys or values, and how many heads read each of their heads. Without a past nothing grows.
  struct Cache {
    ValueId past, added, present;
    std::int64_t heads = 0, size = 0;
    std::int64_t copies = 1;
  };

  [[nodiscard]] const Node& node(NodeId id) const { return graph_.node(id); }
  [[nodiscard]] const ValueType& type(ValueId id) const { return graph_.value(id).type; }
  [[nodiscard]] bool is_a(NodeId id, std::string_view op) const {
    return id.valid() && node(id).op_type == op && node(id).domain.empty();
  }
  [[nodiscard]] NodeId producer(ValueId value) const {
    return value.valid() ? graph_.value(value).producer : NodeId{};
  }
  [[nodiscard]] bool is_tensor(ValueId value, std::size_t rank) const {
    if (!value.valid() || view_.constant(value) != nullptr) return false;
    const ValueType& t = type(value);
    return t.is_tensor() && t.has_rank() && t.rank() == rank && is_real(t.element);
  }
  [[nodiscard]] std::int64_t fixed(ValueId value, std::size_t axis) const {
    const Dim& dim = (*type(value).shape)[axis];
    return dim.is_fixed() ? dim.value() : -1;
  }

  [[nodiscard]] std::optional<double> scalar(ValueId value) const {
    const Tensor* tensor = view_.constant(value);
    if (tensor == nullptr || tensor->element_count() != 1 || tensor->rank() > kRank ||
        !is_real(tensor->type()))
      return std::nullopt;
    return double{floats_of(*tensor)[0]};
  }

  /// The one node that reads more than the size of a value.
  [[nodiscard]] NodeId reader(ValueId value) const {
    NodeId found;
    for (const NodeId consumer : graph_.value(value).consumers) {
      if (is_a(consumer, "Shape")) continue;
      if (found.valid() || !node(consumer).captures.empty()) return {};
      found = consumer;
    }
    return found;
  }
  /// Nothing outside of the chain reads the value.
  bool enclose(ValueId value) {
    if (graph_.value(value).is_output || !reader(value).valid()) return false;
    chain_.inside.push_back(value);
    for (const NodeId consumer : graph_.value(value).consumers)
      if (is_a(consumer, "Shape") && view_.constant(node(consumer).output(0)) == nullptr)
        chain_.shapes.push_back(consumer);
    return true;
  }
  NodeId take(NodeId id) {
    nodes_.push_back(id);
    return id;
  }

  static bool is_unknown_or(std::int64_t dim, std::int64_t expected) {
    return dim < 0 || dim == expected;
  }
  /// A Cast that changes nothing.
  [[nodiscard]] bool is_idle(NodeId id) const {
    return is_a(id, "Cast") && type(node(id).input(0)).element == type(node(id).output(0)).element;
  }
  /// The other operand of a Mul or Div by a constant; what it multiplies by.
  struct Scaled {
    ValueId value;
    double factor = 1;
  };
  [[nodiscard]] std::optional<Scaled> scaled(NodeId id) const {
    const bool divides = is_a(id, "Div");
    if (!divides && !is_a(id, "Mul")) return std::nullopt;
    if (const auto factor = scalar(node(id).input(1)); factor && *factor != 0)
      return Scaled{node(id).input(0), divides ? 1 / *factor : *factor};
    if (const auto factor = scalar(node(id).input(0)); factor && !divides)
      return Scaled{node(id).input(1), *factor};
    return std::nullopt;
  }
  /// Goes back over constant factors, as long as nothing but the chain reads them.
  ValueId unscale(ValueId value) {
    while (const auto step = scaled(producer(value))) {
      if (!enclose(value)) break;
      take(producer(value));
      chain_.params.scale *= step->factor;
      value = step->value;
    }
    return value;
  }
  /// Whether constant factors, a Where and Casts lead to a product of two values.
  [[nodiscard]] bool is_logits(ValueId value) const;

  NodeId follow_logits(ValueId value);
  std::optional<Cache> follow_cache(ValueId value);
  std::optional<Cache> follow_rows(ValueId rows);
  std::optional<Cache> follow_concat(ValueId present);
  std::optional<Cache> follow_turned(NodeId transpose);
  void take(const HeadRows& rows);
  bool read_rows();
  ValueId follow_weights(ValueId weights);
  ValueId skip_guard(ValueId weights);
  bool expect_copies(ValueId value);
  bool expect_causal();
  [[nodiscard]] bool reads_itself() const;
  [[nodiscard]] bool reads_first(ValueId value) const;
  [[nodiscard]] BiasSizes bias_sizes() const;
  bool read_bias();
  bool make_bias();
  void make_causal();
  void cut_bias();
  void read_visible();

  const GraphView& view_;
  const Graph& graph_;
  ChainSizes sizes_;
  bool grows_;
  MakesMasks makes_;
  SizeSum keys_ = kKeys;  // how many there are
  std::vector<NodeId> nodes_;
  std::vector<ValueId> places_;     // what the nodes of a causal mask read
  ValueId condition_;               // of the Where over logits
  std::optional<HeadRows> turned_;  // keys that are turned from rows in one step
  AttentionChain chain_;
};

bool ChainWalk::is_logits(ValueId value) const {
  for (int steps = 0; steps < 8; ++steps) {
    const NodeId id = producer(value);
    if (is_a(id, "MatMul"))
      return is_tensor(node(id).input(0), kRank) && is_tensor(node(id).input(1), kRank);
    if (const auto step = id.valid() ? scaled(id) : std::nullopt)
      value = step->value;
    else if (is_a(id, "Where"))
      value = node(id).input(1);
    else if (is_idle(id))
      value = node(id).input(0);
    else
      return false;
  }
  return false;
}

/// From what Softmax reads back to the product of queries and keys.
NodeId ChainWalk::follow_logits(ValueId value) {
  bool is_scaled = false;
  for (int steps = 0; steps < 8; ++steps) {
    const NodeId id = producer(value);
    if (!id.valid() || !enclose(value)) return {};
    if (is_a(id, "MatMul")) return take(id);
    const Node& n = node(id);
    if (is_idle(id)) {
      value = n.input(0);
    } else if (const auto step = scaled(id)) {
      is_scaled = true;
      chain_.params.scale *= step->factor;
      value = step->value;
    } else if (is_a(id, "Add") && !chain_.bias.valid() && !condition_.valid() && !is_scaled) {
      const bool first = is_logits(n.input(0));
      if (first == is_logits(n.input(1))) return {};
      value = n.input(first ? 0 : 1);
      chain_.bias = n.input(first ? 1 : 0);
    } else if (is_a(id, "Where") && !condition_.valid() && !is_scaled) {
      constexpr double kHidden = -1e30;  // no logit of a model is near
      const auto low = scalar(n.input(2));
      if (!low || *low > kHidden) return {};
      chain_.params.finite_causal = std::isfinite(*low);
      condition_ = n.input(0);
      value = n.input(1);
    } else {
      return {};
    }
    take(id);
  }
  return {};
}

/// From what a product reads back to a Concat of past and new rows, or to rows that are all there is.
std::optional<ChainWalk::Cache> ChainWalk::follow_cache(ValueId value) {
  if (!is_a(producer(value), "Reshape")) return follow_rows(value);
  const NodeId reshape = producer(value);
  const ValueId wide = node(reshape).input(0);
  const NodeId expand = producer(wide);
  if (!is_a(expand, "Expand") || !is_tensor(wide, kRank + 1) || !is_tensor(value, kRank))
    return std::nullopt;
  const ValueId lifted = node(expand).input(0);
  const NodeId unsqueeze = producer(lifted);
  if (!is_a(unsqueeze, "Unsqueeze") || !is_tensor(lifted, kRank + 1)) return std::nullopt;
  for (const ValueId inner : {value, wide, lifted})
    if (!enclose(inner)) return std::nullopt;
  for (const NodeId id : {unsqueeze, expand, reshape}) take(id);
  const auto axes = NodeView(view_, node(unsqueeze)).has_input(1)
                        ? constant_ints(NodeView(view_, node(unsqueeze)), 1, "axes")
                        : Read<std::vector<std::int64_t>>(std::unexpected(std::string()));
  if (!axes || axes->size() != 1 || (*axes)[0] != 2) return std::nullopt;
  auto cache = follow_rows(node(unsqueeze).input(0));
  if (!cache) return std::nullopt;
  const std::int64_t heads = fixed(value, 1);
  if (heads < 1 || heads % cache->heads != 0) return std::nullopt;
  cache->copies = heads / cache->heads;
  return cache;
}

/// Rows without a past, as encoders and cross-attention have them: of any number, or of many.
std::optional<ChainWalk::Cache> ChainWalk::follow_rows(ValueId rows) {
  if (grows_)
    if (auto cache = follow_concat(rows)) return cache;
  if (!is_tensor(rows, kRank)) return std::nullopt;
  if (fixed(rows, 2) >= 0 && fixed(rows, 2) < kManyKeys) return std::nullopt;
  Cache cache;
  cache.added = rows;
  cache.heads = fixed(rows, 1);
  cache.size = fixed(rows, 3);
  if (cache.heads < 1 || cache.size < 1) return std::nullopt;
  return cache;
}

/// What the Transpose before the first product makes of keys: their heads, or many rows at once.
std::optional<ChainWalk::Cache> ChainWalk::follow_turned(NodeId transpose) {
  const ValueId keys = node(transpose).input(0);
  const auto perm = node(transpose).ints("perm");
  if (perm && std::ranges::equal(*perm, std::array<std::int64_t, 4>{0, 1, 3, 2}))
    return follow_cache(keys);
  if (grows_ || !perm || !std::ranges::equal(*perm, std::array<std::int64_t, 4>{0, 2, 3, 1}))
    return std::nullopt;
  turned_ = split_rows(view_, keys);
  if (!turned_ || fixed(keys, 1) < kManyKeys) return std::nullopt;
  Cache cache;
  cache.added = turned_->flat;
  cache.heads = fixed(keys, 2);
  cache.size = fixed(keys, 3);
  return cache;
}

void ChainWalk::take(const HeadRows& rows) {
  for (const NodeId id : {rows.reshape, rows.transpose})
    if (id.valid()) take(id);
  chain_.inside.push_back(rows.split);
  chain_.readers.push_back(rows.reshape);
}

/// Many keys: the op reads queries, keys and values as projections leave them, and gives such rows, where all four are so.
/// False: it cannot read the keys otherwise.
bool ChainWalk::read_rows() {
  if (chain_.has_past() || (!turned_ && fixed(chain_.key, 2) < kManyKeys)) return true;
  const auto q = split_into_heads(view_, chain_.q);
  const auto key = turned_ ? turned_ : split_into_heads(view_, chain_.key);
  const auto value = split_into_heads(view_, chain_.value);
  const auto result = merge_heads(view_, chain_.result);
  if (!q || !key || !value || !result) return !turned_;
  for (const auto& [heads, rows] : {std::pair(&chain_.q, &*q), std::pair(&chain_.key, &*key),
                                    std::pair(&chain_.value, &*value)}) {
    if (rows->transpose.valid()) chain_.inside.push_back(*heads);
    take(*rows);
    *heads = rows->flat;
  }
  chain_.inside.push_back(chain_.result);
  take(*result);
  chain_.result = result->flat;
  return true;
}

std::optional<ChainWalk::Cache> ChainWalk::follow_concat(ValueId present) {
  const NodeId id = producer(present);
  if (!is_a(id, "Concat") || node(id).inputs.size() != 2 || !is_tensor(present, kRank) ||
      !reader(present).valid())
    return std::nullopt;
  const std::int64_t axis = node(id).int_or("axis", 0);
  if (axis != 2 && axis != -2) return std::nullopt;
  Cache cache{.past = node(id).input(0), .added = node(id).input(1), .present = present};
  for (const ValueId part : {cache.past, cache.added})
    if (!is_tensor(part, kRank) || fixed(part, 2) == 0) return std::nullopt;
  // The parts are alike but for their rows, so one of them says what shape inference has not found in another.
  for (const auto& [at, dim] : {std::pair(1, &cache.heads), std::pair(3, &cache.size)})
    for (const ValueId part : {cache.past, cache.added, present}) {
      const std::int64_t own = fixed(part, static_cast<std::size_t>(at));
      if (own >= 0 && *dim > 0 && own != *dim) return std::nullopt;
      if (own >= 0) *dim = own;
    }
  if (cache.heads < 1 || cache.size < 1) return std::nullopt;
  take(id);
  return cache;
}

/// Whether the Expand and the Reshape of a cache do no more than to repeat its heads.
bool ChainWalk::expect_copies(ValueId value) {
  const Node& reshape = node(producer(value));
  const Node& expand = node(producer(reshape.input(0)));
  const ValueId lifted = expand.input(0);
  const std::int64_t own = fixed(lifted, 1), size = fixed(lifted, 4), heads = fixed(value, 1);
  const auto is = [](const SizeSum& sum, std::int64_t number) {
    return sum == SizeSum{.number = number};
  };
  const auto is_dim = [&](const SizeSum& sum, const SizeSum& expected, std::size_t axis) {
    return sum == expected || (fixed(value, axis) >= 0 && is(sum, fixed(value, axis)));
  };
  const auto wide = sizes_.list(expand, 1);
  if (!wide || wide->size() != kRank + 1) return false;
  const auto& w = *wide;
  if ((!is_dim(w[0], kBatch, 0) && !is(w[0], 1)) || (!is(w[1], own) && !is(w[1], 1)) ||
      !is(w[2], heads / own) || (!is_dim(w[3], keys_, 2) && !is(w[3], 1)) ||
      (!is(w[4], size) && !is(w[4], 1)))
    return false;
  const auto flat = sizes_.list(reshape, 1);
  if (!flat || flat->size() != kRank) return false;
  const auto& f = *flat;
  return (is_dim(f[0], kBatch, 0) || is(f[0], 0)) && is(f[1], heads) &&
         (is_dim(f[2], keys_, 2) || is(f[2], -1)) && is(f[3], size);
}

/// Whether the condition of the Where is [tokens, keys] of a lower triangle, whose last row is the last
/// key's.
bool ChainWalk::expect_causal() {
  std::optional<std::vector<SizeSum>> from[2], to[2];  // of rows and columns
  ValueId value = condition_;
  while (is_a(producer(value), "Slice")) {
    const NodeId id = producer(value);
    const NodeView n(view_, node(id));
    if (!enclose(value) || !type(value).has_rank() || node(id).opset < 10) return false;
    const auto rank = static_cast<std::int64_t>(type(value).rank());
    const auto axes = constant_ints(n, 3, "axes");
    if (!axes || axes->size() != 1) return false;
    if (n.has_input(4)) {
      const auto steps = constant_ints(n, 4, "steps");
      if (!steps || *steps != std::vector<std::int64_t>{1}) return false;
    }
    const std::int64_t back = (*axes)[0] < 0 ? -(*axes)[0] : rank - (*axes)[0];
    if (back < 1 || back > 2 || from[2 - back]) return false;
    from[2 - back] = sizes_.list(node(id), 1);
    to[2 - back] = sizes_.list(node(id), 2);
    take(id);
    chain_.readers.push_back(id);
    value = node(id).input(0);
  }
  using Sums = std::vector<SizeSum>;
  const auto same = [](const std::optional<Sums>& list, const SizeSum& sum) {
    return list && *list == Sums{sum};
  };
  const SizeSum past = chain_.has_past() ? kPast : SizeSum{};
  const bool alike = same(from[0], past) && sizes_.size(chain_.q, 2) == kAdded;
  const bool ends = same(from[0], keys_.plus(kQueries, -1));
  if ((!alike && !ends) || !same(to[0], keys_) || !same(from[1], {}) || !same(to[1], keys_))
    return false;
  const Tensor* triangle = view_.constant(value);
  if (triangle == nullptr || triangle->rank() < 2 || triangle->type() != DataType::kBool)
    return false;
  const std::int64_t n = triangle->dims().back();
  if (triangle->dims()[triangle->rank() - 2] != n || triangle->element_count() != n * n)
    return false;
  const std::span<const std::byte> bytes = triangle->bytes();
  for (std::int64_t row = 0; row < n; ++row) {
    const auto line = bytes.subspan(static_cast<std::size_t>(row * n), static_cast<std::size_t>(n));
    const auto middle = static_cast<std::size_t>(row) + 1;
    if (std::ranges::contains(line.first(middle), std::byte{0}) ||
        !std::ranges::all_of(line.subspan(middle), [](std::byte b) { return b == std::byte{0}; }))
      return false;
  }
  chain_.params.causal = true;
  if (!chain_.has_past() && !alike) chain_.params.bottom_right = 1;
  return true;
}

/// Whether the chain reads a value before all others: what makes it is of the chain.
bool ChainWalk::reads_first(ValueId value) const {
  const auto& readers = graph_.value(value).consumers;
  return !readers.empty() && std::ranges::contains(nodes_, std::ranges::min(readers));
}

/// What the biases of all layers are compared with.
BiasSizes ChainWalk::bias_sizes() const {
  return {.heads = chain_.params.heads,
          .batch = kBatch,
          .queries = sizes_.size(chain_.q, 2).value_or(kQueries),
          .past = chain_.has_past() ? kPast : SizeSum{},
          .keys = keys_};
}

/// A bias that the ops of all layers make themselves. Whether the nodes of its mask are of another chain.
bool ChainWalk::make_bias() {
  auto made = find_made_bias(view_, chain_.bias, sizes_, bias_sizes());
  if (!made || !type(made->mask).has_rank() || type(made->mask).rank() > kRank) return false;
  const bool first = reads_first(chain_.bias);
  chain_.made.push_back(chain_.bias);
  chain_.bias = made->mask;
  chain_.by_distance = std::move(made->by_distance);
  chain_.distances = made->count;
  if (!first) return true;
  for (const NodeId id : made->nodes) take(id);
  chain_.takers = std::move(made->takers);
  return false;
}

/// A mask of all layers that is causal becomes a flag, and a mask of keys if it hides more.
void ChainWalk::make_causal() {
  if (!chain_.has_past() || condition_.valid()) return;
  AttentionParams& params = chain_.params;
  BiasSizes sizes = bias_sizes();
  const auto find = params.long_bias && is_a(producer(chain_.bias), "ScatterND")
                        ? find_scattered_mask
                        : find_causal_mask;
  auto found = find(view_, chain_.bias, sizes_, sizes);
  if (!found && sizes.queries == kQueries) {  // as many as are added, which each plan checks
    sizes.queries = kAdded;
    found = find(view_, chain_.bias, sizes_, sizes);
    params.same_rows = found ? std::optional<std::int64_t>(1) : std::nullopt;
  }
  if (!found) return;
  if (reads_first(chain_.bias)) {
    for (const NodeId id : found->nodes) {
      take(id);
      std::ranges::copy(node(id).inputs, std::back_inserter(places_));
    }
    std::ranges::copy(found->takers, std::back_inserter(chain_.takers));
  }
  chain_.made.push_back(chain_.bias);
  chain_.bias = found->visible;
  params.causal = true;
  params.long_bias = params.long_bias && find == find_scattered_mask;
  if (!found->hidden || !chain_.bias.valid()) return;
  params.mask_value = *found->hidden;
  params.finite_causal = true;
}

/// False: the op takes no such bias.
bool ChainWalk::read_bias() {
  if (!type(chain_.bias).is_tensor() || !type(chain_.bias).has_rank() ||
      type(chain_.bias).rank() < 1 || type(chain_.bias).rank() > kRank)
    return false;
  const bool borrows = makes_ != MakesMasks::kNone && make_bias();
  const std::size_t taken = nodes_.size(), inside = chain_.inside.size(),
                    listed = chain_.readers.size();
  cut_bias();
  read_visible();
  if (borrows) {
    nodes_.resize(taken);
    chain_.inside.resize(inside);
    chain_.readers.resize(listed);
  }
  if (makes_ == MakesMasks::kAll) make_causal();
  return true;
}

/// A mask that is cut to the number of keys is read as it is: the op reads no more than that.
void ChainWalk::cut_bias() {
  const NodeId id = producer(chain_.bias);
  if (!is_a(id, "Slice") || node(id).opset < 10 || graph_.value(chain_.bias).is_output ||
      graph_.value(chain_.bias).consumers.size() != 1)
    return;
  const NodeView n(view_, node(id));
  const auto axes = constant_ints(n, 3, "axes"), starts = constant_ints(n, 1, "starts");
  if (!axes || axes->size() != 1 || !starts || *starts != std::vector<std::int64_t>{0}) return;
  if (n.has_input(4)) {
    const auto steps = constant_ints(n, 4, "steps");
    if (!steps || *steps != std::vector<std::int64_t>{1}) return;
  }
  const ValueId whole = node(id).input(0);
  if (!is_tensor(whole, kRank) || ((*axes)[0] != 3 && (*axes)[0] != -1)) return;
  const auto ends = sizes_.list(node(id), 2);
  const std::int64_t keys = chain_.has_past() ? fixed(chain_.present_key, 2) : -1;
  if (!ends || ends->size() != 1 ||
      ((*ends)[0] != keys_ && (keys < 0 || (*ends)[0] != SizeSum{.number = keys})))
    return;
  chain_.inside.push_back(chain_.bias);
  take(id);
  chain_.readers.push_back(id);
  chain_.bias = whole;
  chain_.params.long_bias = true;
}

/// Whether what the chain reads is made of what one of its nodes gives: a bias of positions of the number of all
/// keys, say, which is that of a present (T5). Nodes are in topological order, so those before the first one
/// of the chain read nothing of it.
bool ChainWalk::reads_itself() const {
  constexpr std::size_t kMostNodes = 4096;  // in between; of more than that it is not known
  const std::set<NodeId> chain(nodes_.begin(), nodes_.end());
  std::set<NodeId> seen;
  std::vector<NodeId> open;
  for (const ValueId id :
       {chain_.q, chain_.key, chain_.value, chain_.past_key, chain_.past_value, chain_.bias})
    if (id.valid()) open.push_back(producer(id));
  for (const ValueId id : places_)
    if (const NodeId from = producer(id); from.valid() && !chain.contains(from))
      open.push_back(from);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!id.valid() || id < *chain.begin() || !seen.insert(id).second) continue;
    if (chain.contains(id) || seen.size() > kMostNodes) return true;
    for (const SmallList<ValueId>* read : {&node(id).inputs, &node(id).captures})
      for (const ValueId input : *read)
        if (input.valid() && view_.constant(input) == nullptr) open.push_back(producer(input));
  }
  return false;
}

/// Where(IsNaN(weights), 0, weights): a query that sees no key is zeros, as it is for the op. Its result, or `weights`.
ValueId ChainWalk::skip_guard(ValueId weights) {
  const std::vector<NodeId> readers(graph_.value(weights).consumers.begin(),
                                    graph_.value(weights).consumers.end());
  if (readers.size() != 2 || graph_.value(weights).is_output) return weights;
  const bool first = is_a(readers[0], "IsNaN");
  const NodeId test = readers[first ? 0 : 1], where = readers[first ? 1 : 0];
  if (!is_a(test, "IsNaN") || !is_a(where, "Where")) return weights;
  const ValueId is_nan = node(test).output(0);
  if (node(where).input(0) != is_nan || node(where).input(2) != weights ||
      scalar(node(where).input(1)) != 0.0 || graph_.value(is_nan).is_output ||
      graph_.value(is_nan).consumers.size() != 1)
    return weights;
  chain_.inside.push_back(weights);
  chain_.inside.push_back(is_nan);
  take(test);
  return node(take(where)).output(0);
}

/// From the result of Softmax to what is multiplied by values.
ValueId ChainWalk::follow_weights(ValueId weights) {
  weights = skip_guard(weights);
  if (!enclose(weights)) return {};
  while (is_idle(reader(weights))) {
    weights = node(take(reader(weights))).output(0);
    if (!enclose(weights)) return {};
  }
  return weights;
}

/// A bias that is Where(visible, 0, -infinity) is read as its condition, one for all layers.
void ChainWalk::read_visible() {
  const NodeId id = producer(chain_.bias);
  const Value& bias = graph_.value(chain_.bias);
  if (!is_a(id, "Where") || bias.is_output || bias.consumers.size() != 1 ||
      scalar(node(id).input(1)) != 0.0)
    return;
  const auto hidden = scalar(node(id).input(2));
  const ValueId visible = node(id).input(0);
  if (!hidden || !std::isinf(*hidden) || *hidden > 0 || view_.constant(visible) != nullptr ||
      !type(visible).has_rank() || type(visible).rank() < 1 || type(visible).rank() > kRank)
    return;
  chain_.inside.push_back(chain_.bias);
  take(id);
  chain_.bias = visible;
}

std::optional<FoundAttention> ChainWalk::find(NodeId softmax) {
  const Node& norm = node(softmax);
  if (!is_tensor(norm.input(0), kRank)) return std::nullopt;
  const std::int64_t axis = norm.int_or("axis", norm.opset >= 13 ? -1 : 1);
  if (axis != -1 && axis != 3) return std::nullopt;
  chain_.params.scale = 1;
  take(softmax);
  const NodeId product = follow_logits(norm.input(0));
  if (!product.valid()) return std::nullopt;

  const ValueId weights = follow_weights(norm.output(0));
  if (!weights.valid()) return std::nullopt;
  const NodeId sum = reader(weights);
  if (!is_a(sum, "MatMul") || node(sum).input(0) != weights) return std::nullopt;
  take(sum);
  chain_.result = node(sum).output(0);

  const ValueId q = unscale(node(product).input(0));
  const ValueId turned = unscale(node(product).input(1));
  if (!is_tensor(q, kRank) || !is_a(producer(turned), "Transpose") || !enclose(turned))
    return std::nullopt;
  const NodeId transpose = take(producer(turned));
  const ValueId keys = node(transpose).input(0), values = node(sum).input(1);
  const auto key = follow_turned(transpose), value = follow_cache(values);
  const auto grow_alike = [](const Cache& a, const Cache& b) {
    return a.past.valid() == b.past.valid() && (!a.past.valid() || a.present != b.present);
  };
  if (!key || !value || !grow_alike(*key, *value)) return std::nullopt;
  chain_.q = q;
  chain_.key = key->added;
  chain_.value = value->added;
  chain_.past_key = key->past;
  chain_.past_value = value->past;
  chain_.present_key = key->present;
  chain_.present_value = value->present;
  AttentionParams& params = chain_.params;
  params.kv_heads = key->heads;
  params.heads = key->heads * key->copies;
  // What is not known of q has to be what it is multiplied by, which each plan checks.
  if (!is_unknown_or(fixed(q, 1), params.heads) || !is_unknown_or(fixed(q, 3), key->size) ||
      value->heads != key->heads || key->copies != value->copies || params.scale == 0)
    return std::nullopt;

  if (!chain_.has_past()) keys_ = kAdded;
  // Of keys that are turned from rows nothing reads a size: those of values stand for both.
  for (const Cache* cache : {turned_ ? &*value : &*key, &*value}) {
    sizes_.set(cache->added, 0, kBatch);
    sizes_.set(cache->added, 2, kAdded);
    if (!chain_.has_past()) continue;
    sizes_.set(cache->past, 0, kBatch);
    sizes_.set(cache->past, 2, kPast);
    sizes_.set(cache->present, 0, kBatch);
    sizes_.set(cache->present, 2, kKeys);
  }
  sizes_.set(q, 0, kBatch);
  sizes_.set(q, 2, kQueries);  // or as many as are added, where that is known
  for (const ValueId repeated : {turned_ ? values : keys, values}) {
    sizes_.set(repeated, 0, kBatch);
    sizes_.set(repeated, 2, keys_);
    if (!is_a(producer(repeated), "Reshape")) continue;
    const NodeId reshape = producer(repeated), expand = producer(node(reshape).input(0));
    for (const ValueId lifted : {node(expand).input(0), node(reshape).input(0)}) {
      sizes_.set(lifted, 0, kBatch);
      sizes_.set(lifted, 3, keys_);
    }
    if (!expect_copies(repeated)) return std::nullopt;
    for (const NodeId id : {expand, reshape}) chain_.readers.push_back(id);
  }
  sizes_.set(turned, 3, keys_);
  sizes_.set(node(product).output(0), 3, keys_);
  if (condition_.valid() && !expect_causal()) return std::nullopt;
  if (chain_.bias.valid() && !read_bias()) return std::nullopt;
  if (!read_rows() || reads_itself()) return std::nullopt;
  params.finite_causal = params.finite_causal && params.causal && chain_.bias.valid();
  std::erase_if(chain_.readers,
                [&](NodeId id) { return dim_list_inputs(view_, node(id)).empty(); });
  std::ranges::sort(nodes_);
  nodes_.erase(std::ranges::unique(nodes_).begin(), nodes_.end());
  return FoundAttention{std::move(nodes_), std::move(chain_)};
}

}  // namespace

std::optional<FoundAttention> find_attention_chain(const GraphView& view, NodeId softmax,
                                                   MakesMasks makes) {
  auto found = ChainWalk(view, true, makes).find(softmax);
  return found ? std::move(found) : ChainWalk(view, false, makes).find(softmax);
}

Status lower_attention_chain(const AttentionChain& chain, ProgramOp op, ProgramBuilder& builder) {
  encode(chain.params, op);
  std::vector<Operand> inputs;
  for (const ValueId id : {chain.q, chain.key, chain.value, chain.past_key, chain.past_value})
    inputs.push_back(builder.operand(id));
  if (chain.bias.valid()) {
    inputs.emplace_back();  // lengths
    inputs.push_back(builder.operand(chain.bias));
  }
  if (!chain.by_distance.empty()) {
    constexpr std::size_t kPlaceOfDistances = 9;
    inputs.resize(kPlaceOfDistances);
    Tensor distances =
        CTXGEN_TRY(tensor_of({chain.params.heads, chain.distances}, std::span(chain.by_distance)));
    inputs.push_back(builder.stored_weight(op.name + "/distances", std::move(distances)));
  }
  while (inputs.back().kind == Operand::Kind::kNone) inputs.pop_back();
  std::vector<std::uint32_t> outputs{builder.value(chain.result)};
  if (chain.has_past())
    for (const ValueId id : {chain.present_key, chain.present_value})
      outputs.push_back(builder.value(id));
  builder.add(std::move(op), SmallList<Operand>(inputs.begin(), inputs.end()),
              SmallList<std::uint32_t>(outputs.begin(), outputs.end()));
  return {};
}

}  // namespace ctxgen::onednn
