#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "ops/math/sigmoid.h"
#include "ops/ml/ml_scores.h"

// ai.onnx.ml: tree ensembles.

namespace ctxgen::cpu {
namespace {

enum class Branch {
  kLessEqual,
  kLess,
  kGreaterEqual,
  kGreater,
  kEqual,
  kNotEqual,
  kMember,
  kLeaf,
};
enum class Aggregate { kSum, kAverage, kMin, kMax };

struct TreeNode {
  Branch branch = Branch::kLeaf;
  bool missing_is_true = false;
  std::int64_t feature = 0;
  double value = 0;
  std::size_t if_true = 0, if_false = 0;
  std::size_t first_vote = 0, vote_count = 0;
  std::size_t members = 0;  // kMember: index into Ensemble::members
};
struct Vote {
  std::size_t target = 0;
  double weight = 0;
};

struct Ensemble {
  std::vector<TreeNode> nodes;
  std::vector<Vote> votes;
  std::vector<std::size_t> roots;
  std::size_t targets = 0;
  std::vector<double> base;
  Aggregate aggregate = Aggregate::kSum;
  Transform transform = Transform::kNone;
  std::int64_t features = 0;                 // one more than the largest feature
  std::vector<std::vector<double>> members;  // sorted
};

using NodeKey = std::pair<std::int64_t, std::int64_t>;  // tree, node
using NodeIndex = std::map<NodeKey, std::size_t>;

Result<Branch> branch_of(const std::string& mode) {
  constexpr std::pair<std::string_view, Branch> kModes[] = {
      {"LEAF", Branch::kLeaf},          {"BRANCH_LEQ", Branch::kLessEqual},
      {"BRANCH_LT", Branch::kLess},     {"BRANCH_GTE", Branch::kGreaterEqual},
      {"BRANCH_GT", Branch::kGreater},  {"BRANCH_EQ", Branch::kEqual},
      {"BRANCH_NEQ", Branch::kNotEqual}};
  for (const auto& [name, branch] : kModes)
    if (mode == name) return branch;
  return fail(ErrorCode::kUnsupported, "tree node mode \"{}\"", mode);
}

struct NodeLists {
  std::vector<std::int64_t> trees, ids, features, if_true, if_false, missing;
  std::vector<std::string> modes;
  std::vector<double> values;
};

Result<NodeLists> node_lists(const Node& node) {
  NodeLists lists{.trees = ints_or(node, "nodes_treeids", {}),
                  .ids = ints_or(node, "nodes_nodeids", {}),
                  .features = ints_or(node, "nodes_featureids", {}),
                  .if_true = ints_or(node, "nodes_truenodeids", {}),
                  .if_false = ints_or(node, "nodes_falsenodeids", {}),
                  .missing = ints_or(node, "nodes_missing_value_tracks_true", {}),
                  .modes = strings_or_empty(node, "nodes_modes"),
                  .values = CTXGEN_TRY(numbers(node, "nodes_values"))};
  const std::size_t count = lists.trees.size();
  if (lists.missing.empty()) lists.missing.assign(count, 0);
  for (std::size_t size :
       {lists.ids.size(), lists.features.size(), lists.if_true.size(), lists.if_false.size(),
        lists.missing.size(), lists.modes.size(), lists.values.size()})
    if (size != count)
      return fail(ErrorCode::kInvalidGraph, "{}: lists of {} and {} tree nodes", node.describe(),
                  count, size);
  return lists;
}

Status add_nodes(const NodeLists& lists, Ensemble& ensemble, NodeIndex& index) {
  for (std::size_t i = 0; i < lists.ids.size(); ++i)
    if (!index.emplace(NodeKey(lists.trees[i], lists.ids[i]), i).second)
      return fail(ErrorCode::kInvalidGraph, "tree {} has node {} twice", lists.trees[i],
                  lists.ids[i]);
  std::vector<bool> is_child(lists.ids.size());
  for (std::size_t i = 0; i < lists.ids.size(); ++i) {
    TreeNode tree_node{.branch = CTXGEN_TRY(branch_of(lists.modes[i])),
                       .missing_is_true = lists.missing[i] != 0,
                       .feature = lists.features[i],
                       .value = lists.values[i]};
    if (tree_node.branch != Branch::kLeaf) {
      const auto yes = index.find({lists.trees[i], lists.if_true[i]});
      const auto no = index.find({lists.trees[i], lists.if_false[i]});
      if (yes == index.end() || no == index.end() || tree_node.feature < 0 ||
          tree_node.feature == INT64_MAX)
        return fail(ErrorCode::kInvalidGraph, "node {} of tree {} has no such child or feature",
                    lists.ids[i], lists.trees[i]);
      tree_node.if_true = yes->second;
      tree_node.if_false = no->second;
      is_child[tree_node.if_true] = is_child[tree_node.if_false] = true;
      ensemble.features = std::max(ensemble.features, tree_node.feature + 1);
    }
    ensemble.nodes.push_back(tree_node);
  }
  for (std::size_t i = 0; i < is_child.size(); ++i)
    if (!is_child[i]) ensemble.roots.push_back(i);
  return {};
}

// Votes of leaves, in the order of the attribute, brought together per leaf.
Status add_votes(const Node& node, const std::string& prefix, const NodeIndex& index,
                 Ensemble& ensemble) {
  const auto trees = ints_or(node, prefix + "_treeids", {});
  const auto ids = ints_or(node, prefix + "_nodeids", {});
  const auto targets = ints_or(node, prefix + "_ids", {});
  const auto weights = CTXGEN_TRY(numbers(node, prefix + "_weights"));
  if (trees.size() != ids.size() || ids.size() != targets.size() || ids.size() != weights.size())
    return fail(ErrorCode::kInvalidGraph, "{}: lists of leaf weights differ in size",
                node.describe());
  std::vector<std::vector<Vote>> by_node(ensemble.nodes.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto leaf = index.find({trees[i], ids[i]});
    if (leaf == index.end() || targets[i] < 0 ||
        static_cast<std::uint64_t>(targets[i]) >= ensemble.targets)
      return fail(ErrorCode::kInvalidGraph, "{}: a weight of node {} and target {}",
                  node.describe(), ids[i], targets[i]);
    by_node[leaf->second].push_back({static_cast<std::size_t>(targets[i]), weights[i]});
  }
  for (std::size_t i = 0; i < by_node.size(); ++i) {
    ensemble.nodes[i].first_vote = ensemble.votes.size();
    ensemble.nodes[i].vote_count = by_node[i].size();
    ensemble.votes.insert(ensemble.votes.end(), by_node[i].begin(), by_node[i].end());
  }
  return {};
}

Result<Ensemble> read_ensemble(const Node& node, const std::string& prefix, std::size_t targets) {
  Ensemble ensemble;
  ensemble.targets = targets;
  ensemble.transform = CTXGEN_TRY(transform_of(node));
  ensemble.base = CTXGEN_TRY(numbers(node, "base_values"));
  if (!ensemble.base.empty() && ensemble.base.size() != 1 && ensemble.base.size() != targets)
    return fail(ErrorCode::kInvalidGraph, "{}: {} base values", node.describe(),
                ensemble.base.size());
  const NodeLists lists = CTXGEN_TRY(node_lists(node));
  NodeIndex index;
  CTXGEN_CHECK(add_nodes(lists, ensemble, index));
  CTXGEN_CHECK(add_votes(node, prefix, index, ensemble));
  return ensemble;
}

bool goes_true(const Ensemble& ensemble, const TreeNode& node, double x) {
  if (std::isnan(x)) return node.missing_is_true;
  switch (node.branch) {
    case Branch::kLessEqual: return x <= node.value;
    case Branch::kLess: return x < node.value;
    case Branch::kGreaterEqual: return x >= node.value;
    case Branch::kGreater: return x > node.value;
    case Branch::kEqual: return x == node.value;
    case Branch::kNotEqual: return x != node.value;
    case Branch::kMember: return std::ranges::binary_search(ensemble.members[node.members], x);
    case Branch::kLeaf: break;
  }
  return false;
}

// Nodes may form a cycle in a damaged model: a walk cannot be longer than there are nodes.
Result<const TreeNode*> leaf_of(const Ensemble& ensemble, std::size_t root,
                                std::span<const double> row) {
  const TreeNode* node = &ensemble.nodes[root];
  for (std::size_t steps = 0; node->branch != Branch::kLeaf; ++steps) {
    if (steps > ensemble.nodes.size())
      return fail(ErrorCode::kInvalidGraph, "the nodes of a tree form a cycle");
    const double x = row[static_cast<std::size_t>(node->feature)];
    node = &ensemble.nodes[goes_true(ensemble, *node, x) ? node->if_true : node->if_false];
  }
  return node;
}

Result<ScratchVector<double>> scores_of(const Ensemble& ensemble, std::span<const double> row) {
  ScratchVector<double> scores(ensemble.targets, 0.0);
  ScratchVector<bool> seen(ensemble.targets);
  for (std::size_t root : ensemble.roots) {
    const TreeNode* leaf = CTXGEN_TRY(leaf_of(ensemble, root, row));
    for (std::size_t i = 0; i < leaf->vote_count; ++i) {
      const Vote& vote = ensemble.votes[leaf->first_vote + i];
      double& score = scores[vote.target];
      if (ensemble.aggregate == Aggregate::kMin && seen[vote.target])
        score = std::min(score, vote.weight);
      else if (ensemble.aggregate == Aggregate::kMax && seen[vote.target])
        score = std::max(score, vote.weight);
      else
        score += vote.weight;
      seen[vote.target] = true;
    }
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (ensemble.aggregate == Aggregate::kAverage)
      scores[i] /= static_cast<double>(ensemble.roots.size());
    if (!ensemble.base.empty()) scores[i] += ensemble.base[ensemble.base.size() == 1 ? 0 : i];
  }
  return scores;
}

Status run_regression(KernelContext& context, const Ensemble& ensemble, DataType type) {
  const SampleDims dims = CTXGEN_TRY(sample_dims(context));
  const auto width = static_cast<std::int64_t>(ensemble.targets);
  Tensor* output = CTXGEN_TRY(context.make_output(0, type, {dims.rows, width}));
  return dispatch(RealTypes{}, type, [&]<class T>() {
    return for_each_sample(context, ensemble.features,
                           [&](std::int64_t r, std::span<const double> row) -> Status {
                             auto scores = CTXGEN_TRY(scores_of(ensemble, row));
                             apply_transform(ensemble.transform, scores);
                             std::ranges::transform(scores, mutable_data_of<T>(*output) + r * width,
                                                    [](double x) { return store<T>(x); });
                             return {};
                           });
  });
}

Status check_targets(const Node& node, std::int64_t targets) {
  if (targets >= 1 && targets <= (1 << 24)) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: n_targets is {}", node.describe(), targets);
}

KernelResult make_regressor(const Node& node) {
  const std::int64_t targets = node.int_or("n_targets", 1);
  CTXGEN_CHECK(check_targets(node, targets));
  Ensemble ensemble = CTXGEN_TRY(read_ensemble(node, "target", static_cast<std::size_t>(targets)));
  const std::string aggregate =
      CTXGEN_TRY(one_of(node, "aggregate_function", "SUM", {"SUM", "AVERAGE", "MIN", "MAX"}));
  ensemble.aggregate = aggregate == "SUM"       ? Aggregate::kSum
                       : aggregate == "AVERAGE" ? Aggregate::kAverage
                       : aggregate == "MIN"     ? Aggregate::kMin
                                                : Aggregate::kMax;
  return kernel([ensemble = std::move(ensemble)](KernelContext& context) {
    return run_regression(context, ensemble, DataType::kFloat);
  });
}

// ---- classifier ----

/// Two labels, but weights for one class only: its score decides between both.
struct BinaryRule {
  bool applies = false;
  bool all_positive = true;
  std::size_t target = 0;
};

BinaryRule binary_rule(const Ensemble& ensemble) {
  BinaryRule rule;
  for (const Vote& vote : ensemble.votes) {
    rule.all_positive = rule.all_positive && vote.weight >= 0;
    rule.target = ensemble.votes[0].target;
    if (vote.target != rule.target) return rule;
  }
  rule.applies = ensemble.targets == 2 && !ensemble.votes.empty();
  return rule;
}

// The class that wins; `scores` become the two classes' outputs.
std::size_t decide_binary(const BinaryRule& rule, Transform transform,
                          ScratchVector<double>& scores) {
  const double score = scores[rule.target];
  const bool second = score > (rule.all_positive ? 0.5 : 0.0);
  if (rule.all_positive)
    scores = {1 - score, score};
  else if (transform == Transform::kLogistic)
    scores = {sigmoid(-score), sigmoid(score)};
  else
    scores = {-score, score};
  return second ? 1 : 0;
}

KernelResult make_classifier(const Node& node) {
  const Labels labels = CTXGEN_TRY(labels_of(node, "classlabels_int64s"));
  Ensemble ensemble = CTXGEN_TRY(read_ensemble(node, "class", labels.count()));
  const BinaryRule rule = binary_rule(ensemble);
  return kernel([ensemble = std::move(ensemble), labels, rule](KernelContext& context) -> Status {
    const std::int64_t rows = CTXGEN_TRY(sample_dims(context)).rows;
    const auto width = static_cast<std::int64_t>(ensemble.targets);
    Tensor* label = CTXGEN_TRY(labels.make_output(context, rows));
    Tensor* output = nullptr;
    if (context.output_wanted(1))
      output = CTXGEN_TRY(context.make_output(1, DataType::kFloat, {rows, width}));
    return for_each_sample(
        context, ensemble.features, [&](std::int64_t r, std::span<const double> row) -> Status {
          auto scores = CTXGEN_TRY(scores_of(ensemble, row));
          std::size_t best = 0;
          if (rule.applies) {
            best = decide_binary(rule, ensemble.transform, scores);
          } else {
            best = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
            apply_transform(ensemble.transform, scores);
          }
          labels.put(best, *label, r);
          if (output != nullptr)
            std::ranges::transform(scores, mutable_data_of<float>(*output) + r * width,
                                   [](double x) { return static_cast<float>(x); });
          return {};
        });
  });
}

// ---- TreeEnsemble: inner nodes and leaves in lists of their own ----

struct NewLists {
  std::vector<std::int64_t> features, if_true, if_false, true_leaf, false_leaf, missing;
  std::vector<double> modes, splits, leaf_weights;
  std::vector<std::int64_t> leaf_targets;
};

Result<NewLists> new_lists(const Node& node) {
  NewLists lists{.features = ints_or(node, "nodes_featureids", {}),
                 .if_true = ints_or(node, "nodes_truenodeids", {}),
                 .if_false = ints_or(node, "nodes_falsenodeids", {}),
                 .true_leaf = ints_or(node, "nodes_trueleafs", {}),
                 .false_leaf = ints_or(node, "nodes_falseleafs", {}),
                 .missing = ints_or(node, "nodes_missing_value_tracks_true", {}),
                 .modes = CTXGEN_TRY(tensor_numbers(node, "nodes_modes")),
                 .splits = CTXGEN_TRY(tensor_numbers(node, "nodes_splits")),
                 .leaf_weights = CTXGEN_TRY(tensor_numbers(node, "leaf_weights")),
                 .leaf_targets = ints_or(node, "leaf_targetids", {})};
  const std::size_t count = lists.features.size();
  if (lists.missing.empty()) lists.missing.assign(count, 0);
  for (std::size_t size :
       {lists.if_true.size(), lists.if_false.size(), lists.true_leaf.size(),
        lists.false_leaf.size(), lists.missing.size(), lists.modes.size(), lists.splits.size()})
    if (size != count)
      return fail(ErrorCode::kInvalidGraph, "{}: lists of {} and {} tree nodes", node.describe(),
                  count, size);
  if (lists.leaf_weights.size() != lists.leaf_targets.size())
    return fail(ErrorCode::kInvalidGraph, "{}: lists of {} and {} leaves", node.describe(),
                lists.leaf_weights.size(), lists.leaf_targets.size());
  return lists;
}

// Sets of members, one per kMember node in order, each ended by NaN.
Result<std::vector<std::vector<double>>> member_sets(const Node& node) {
  std::vector<std::vector<double>> sets;
  bool open = false;
  for (double value : CTXGEN_TRY(tensor_numbers(node, "membership_values"))) {
    if (!open) sets.emplace_back();
    open = !std::isnan(value);
    if (open) sets.back().push_back(value);
  }
  for (auto& set : sets) std::ranges::sort(set);
  return sets;
}

// The place of a child among inner nodes (first) and leaves (after them).
Result<std::size_t> child_of(const NewLists& lists, std::int64_t id, std::int64_t is_leaf) {
  const std::size_t inner = lists.features.size();
  const std::size_t count = is_leaf != 0 ? lists.leaf_weights.size() : inner;
  if (id < 0 || static_cast<std::uint64_t>(id) >= count)
    return fail(ErrorCode::kInvalidGraph, "a tree node has child {} of {}", id, count);
  return static_cast<std::size_t>(id) + (is_leaf != 0 ? inner : 0);
}

Status add_inner_nodes(const NewLists& lists, Ensemble& ensemble) {
  std::size_t next_members = 0;
  for (std::size_t i = 0; i < lists.features.size(); ++i) {
    const double mode = lists.modes[i];
    const std::int64_t feature = lists.features[i];
    if (!(mode >= 0 && mode < 7) || feature < 0 || feature == INT64_MAX)
      return fail(ErrorCode::kInvalidGraph, "tree node {} has mode {} and feature {}", i, mode,
                  feature);
    TreeNode tree_node{.branch = static_cast<Branch>(static_cast<int>(mode)),
                       .missing_is_true = lists.missing[i] != 0,
                       .feature = feature,
                       .value = lists.splits[i]};
    if (tree_node.branch == Branch::kMember) {
      if (next_members == ensemble.members.size())
        return fail(ErrorCode::kInvalidGraph, "tree node {} has no members", i);
      tree_node.members = next_members++;
    }
    tree_node.if_true = CTXGEN_TRY(child_of(lists, lists.if_true[i], lists.true_leaf[i]));
    tree_node.if_false = CTXGEN_TRY(child_of(lists, lists.if_false[i], lists.false_leaf[i]));
    ensemble.features = std::max(ensemble.features, feature + 1);
    ensemble.nodes.push_back(tree_node);
  }
  return {};
}

Result<Ensemble> read_new_ensemble(const Node& node) {
  Ensemble ensemble;
  const std::int64_t targets = node.int_or("n_targets", 1);
  CTXGEN_CHECK(check_targets(node, targets));
  ensemble.targets = static_cast<std::size_t>(targets);
  constexpr Aggregate kAggregates[] = {Aggregate::kAverage, Aggregate::kSum, Aggregate::kMin,
                                       Aggregate::kMax};
  constexpr Transform kTransforms[] = {Transform::kNone, Transform::kSoftmax, Transform::kLogistic,
                                       Transform::kSoftmaxZero, Transform::kProbit};
  const std::int64_t aggregate = node.int_or("aggregate_function", 1);
  const std::int64_t transform = node.int_or("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4)
    return fail(ErrorCode::kUnsupported, "{}: aggregate_function {}, post_transform {}",
                node.describe(), aggregate, transform);
  ensemble.aggregate = kAggregates[aggregate];
  ensemble.transform = kTransforms[transform];
  ensemble.members = CTXGEN_TRY(member_sets(node));
  const NewLists lists = CTXGEN_TRY(new_lists(node));
  CTXGEN_CHECK(add_inner_nodes(lists, ensemble));
  for (std::size_t i = 0; i < lists.leaf_weights.size(); ++i) {
    if (lists.leaf_targets[i] < 0 || lists.leaf_targets[i] >= targets)
      return fail(ErrorCode::kInvalidGraph, "leaf {} has target {}", i, lists.leaf_targets[i]);
    ensemble.nodes.push_back({.first_vote = i, .vote_count = 1});
    ensemble.votes.push_back(
        {static_cast<std::size_t>(lists.leaf_targets[i]), lists.leaf_weights[i]});
  }
  for (std::int64_t root : ints_or(node, "tree_roots", {}))
    ensemble.roots.push_back(CTXGEN_TRY(child_of(lists, root, 0)));
  return ensemble;
}

KernelResult make_ensemble(const Node& node) {
  Ensemble ensemble = CTXGEN_TRY(read_new_ensemble(node));
  return kernel([ensemble = std::move(ensemble)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    return run_regression(context, ensemble, input->type());
  });
}

constexpr std::string_view kLimits = "float, double, int32, int64";

constexpr OpRow kMlRows[] = {
    {kOnnxMl, "TreeEnsemble", 5, 5, make_ensemble, "float, double, float16"},
    {kOnnxMl, "TreeEnsembleClassifier", 1, 5, make_classifier, kLimits},
    {kOnnxMl, "TreeEnsembleRegressor", 1, 5, make_regressor, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kMlOps = kMlRows;

}  // namespace ctxgen::cpu
