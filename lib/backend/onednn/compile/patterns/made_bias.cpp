#include "made_bias.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "walk.h"

namespace ctxgen::onednn {

namespace {

/// Of larger distances T5's models know nothing: their last bucket begins at 128.
constexpr std::int64_t kMostDistances = 4096;

/// How T5 numbers distances: small ones are their own bucket, larger ones share one by their logarithm.
struct Buckets {
  std::int64_t exact = 0, after = 0, last = 0;
  float unit = 1, range = 1, width = 1;

  /// As the nodes compute it, in f32.
  [[nodiscard]] std::int64_t of(std::int64_t distance) const {
    if (distance < exact) return distance;
    const float steps = std::log(static_cast<float>(distance) / unit) / range * width;
    return std::min(static_cast<std::int64_t>(steps) + after, last);
  }
  [[nodiscard]] bool are_sound() const {
    constexpr std::int64_t kMost = 1 << 20;
    const auto is_size = [](float x) { return x > 1e-3F && x < 1e6F; };
    return exact > 0 && exact < kMost && after >= 0 && after < kMost && last >= 0 && last < kMost &&
           is_size(unit) && is_size(range) && is_size(width);
  }
};

class BiasWalk {
 public:
  BiasWalk(const GraphView& view, const ChainSizes& sizes, const BiasSizes& of)
      : view_(view), walk_(view), sizes_(sizes), of_(of) {}

  std::optional<MadeBias> find(ValueId bias);

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return walk_.node(id); }
  /// The first input of the node that gives `value`, which is taken; invalid if it is not an `op`.
  ValueId back(ValueId value, std::string_view op) {
    const NodeId id = walk_.producer(value, op);
    if (!id.valid()) return {};
    walk_.take(id);
    return node(id).input(0);
  }
  [[nodiscard]] std::optional<std::int64_t> whole(ValueId value) const {
    const Tensor* tensor = view_.constant(value);
    if (tensor == nullptr || tensor->element_count() != 1) return std::nullopt;
    const auto ints = ints_of(*tensor, "a number");
    return ints ? std::optional((*ints)[0]) : std::nullopt;
  }
  /// The other operand of a node with a constant as its second.
  template <class T>
  ValueId with_number(ValueId value, std::string_view op,
                      std::optional<T> (BiasWalk::*read)(ValueId) const, T& number) {
    const NodeId id = walk_.producer(value, op);
    const auto found = id.valid() ? (this->*read)(node(id).input(1)) : std::nullopt;
    if (!found) return {};
    number = *found;
    return back(value, op);
  }
  [[nodiscard]] std::optional<float> real(ValueId value) const { return walk_.scalar(value); }

  bool is_cast(ValueId value, DataType type) const {
    return value.valid() && walk_.graph().value(value).type.element == type;
  }
  std::optional<std::int64_t> filled_like(ValueId value, ValueId like);
  ValueId limited(ValueId value, std::int64_t& limit);
  bool is_axis(NodeId id, std::size_t input, std::int64_t axis) const;
  bool is_range(ValueId value, std::int64_t axis, const SizeSum& count);
  bool is_relative(ValueId value);
  bool read_buckets(ValueId bucket);
  bool read_positions(ValueId value);
  bool read_zeros(ValueId value);
  [[nodiscard]] bool encloses(ValueId result) const;
  bool fill_table();

  const GraphView& view_;
  PatternWalk walk_;
  const ChainSizes& sizes_;
  const BiasSizes& of_;
  Buckets buckets_;
  std::vector<float> table_;  // [buckets, heads]
  MadeBias made_;
};

/// The number that ConstantOfShape fills the shape of `like` with.
std::optional<std::int64_t> BiasWalk::filled_like(ValueId value, ValueId like) {
  const NodeId id = walk_.producer(value, "ConstantOfShape");
  if (!id.valid() || back(node(id).input(0), "Shape") != like) return std::nullopt;
  const Attribute* filling = node(id).attribute("value");
  if (filling == nullptr || filling->tensors.size() != 1) return std::nullopt;
  const auto numbers = ints_of(filling->tensors[0], "a filling");
  if (!numbers || numbers->size() != 1) return std::nullopt;
  walk_.take(id);
  return (*numbers)[0];
}

/// The first operand of a Min, whose second is `limit` everywhere.
ValueId BiasWalk::limited(ValueId value, std::int64_t& limit) {
  const NodeId id = walk_.producer(value, "Min");
  if (!id.valid() || node(id).inputs.size() != 2) return {};
  const ValueId first = node(id).input(0);
  const auto number = view_.constant(node(id).input(1)) != nullptr
                          ? whole(node(id).input(1))
                          : filled_like(node(id).input(1), first);
  if (!number) return {};
  limit = *number;
  walk_.take(id);
  return first;
}

bool BiasWalk::is_axis(NodeId id, std::size_t input, std::int64_t axis) const {
  const auto axes = constant_ints(NodeView(view_, node(id)), input, "axes");
  return axes && axes->size() == 1 && (*axes)[0] == axis;
}

/// 0, 1, 2... up to `count`, with one more axis.
bool BiasWalk::is_range(ValueId value, std::int64_t axis, const SizeSum& count) {
  const NodeId lifted = walk_.producer(value, "Unsqueeze");
  if (!lifted.valid() || !node(lifted).input(1).valid() || !is_axis(lifted, 1, axis)) return false;
  const NodeId range = walk_.producer(node(lifted).input(0), "Range");
  if (!range.valid() || whole(node(range).input(0)) != 0 || whole(node(range).input(2)) != 1)
    return false;
  const auto limit = sizes_.list(node(range), 1);
  if (!limit || *limit != std::vector{count}) return false;
  for (const NodeId id : {lifted, range}) walk_.take(id);
  made_.takers.push_back(range);
  return true;
}

/// [queries, keys]: the place of each key less that of each query.
bool BiasWalk::is_relative(ValueId value) {
  const NodeId difference = walk_.producer(value, "Sub");
  if (!difference.valid()) return false;
  const NodeId placed = walk_.producer(node(difference).input(1), "Add");
  if (!placed.valid() || !is_range(node(difference).input(0), 0, of_.keys) ||
      !is_range(node(placed).input(0), 1, of_.queries))
    return false;
  const auto past = sizes_.list(node(placed), 1);
  if (!past || *past != std::vector{of_.past}) return false;
  for (const NodeId id : {difference, placed}) walk_.take(id);
  made_.takers.push_back(placed);
  return true;
}

/// Where(distance < exact, distance, min(after + log(distance / unit) / range * width, last)).
bool BiasWalk::read_buckets(ValueId bucket) {
  const NodeId choice = walk_.producer(bucket, "Where");
  if (!choice.valid()) return false;
  walk_.take(choice);
  const ValueId distance = node(choice).input(1);
  if (with_number(node(choice).input(0), "Less", &BiasWalk::whole, buckets_.exact) != distance)
    return false;
  ValueId value = limited(node(choice).input(2), buckets_.last);
  value = with_number(value, "Add", &BiasWalk::whole, buckets_.after);
  if (!is_cast(value, DataType::kInt64)) return false;
  value = back(value, "Cast");
  value = with_number(value, "Mul", &BiasWalk::real, buckets_.width);
  value = with_number(value, "Div", &BiasWalk::real, buckets_.range);
  value = with_number(back(value, "Log"), "Div", &BiasWalk::real, buckets_.unit);
  if (!is_cast(value, DataType::kFloat) || back(value, "Cast") != distance) return false;
  std::int64_t most = 1;
  const ValueId relative = limited(back(distance, "Neg"), most);
  return most == 0 && is_relative(relative) && buckets_.are_sound();
}

/// [1, heads, queries, keys] of a table's rows, one for each bucket.
bool BiasWalk::read_positions(ValueId value) {
  const NodeId lifted = walk_.producer(value, "Unsqueeze");
  if (!lifted.valid() || !node(lifted).input(1).valid() || !is_axis(lifted, 1, 0)) return false;
  const NodeId turned = walk_.producer(node(lifted).input(0), "Transpose");
  if (!turned.valid()) return false;
  const auto perm = node(turned).ints("perm");
  if (!perm || !std::ranges::equal(*perm, std::array<std::int64_t, 3>{2, 0, 1})) return false;
  const NodeId lookup = walk_.producer(node(turned).input(0), "Gather");
  if (!lookup.valid() || node(lookup).int_or("axis", 0) != 0) return false;
  const Tensor* table = view_.constant(node(lookup).input(0));
  if (table == nullptr || table->type() != DataType::kFloat || table->rank() != 2 ||
      table->dims()[1] != of_.heads || !read_buckets(node(lookup).input(1)))
    return false;
  for (const NodeId id : {lifted, turned, lookup}) walk_.take(id);
  table_ = floats_of(*table);
  return fill_table();
}

/// What each distance adds, up to that from which on all are in the last bucket.
bool BiasWalk::fill_table() {
  std::int64_t count = buckets_.exact;
  while (count < kMostDistances && buckets_.of(count) < buckets_.last) ++count;
  if (count == kMostDistances) return false;
  made_.count = ++count;
  const auto rows = std::ssize(table_) / of_.heads;
  for (std::int64_t head = 0; head < of_.heads; ++head)
    for (std::int64_t distance = 0; distance < count; ++distance) {
      const std::int64_t bucket = buckets_.of(distance);
      if (bucket < 0 || bucket >= rows) return false;
      const float addend = table_[static_cast<std::size_t>(bucket * of_.heads + head)];
      if (!std::isfinite(addend)) return false;
      made_.by_distance.push_back(addend);
    }
  return true;
}

/// Zeros of no more than the logits' dims.
bool BiasWalk::read_zeros(ValueId value) {
  const NodeId id = walk_.producer(value, "ConstantOfShape");
  if (!id.valid()) return false;
  const Attribute* filling = node(id).attribute("value");
  if (filling != nullptr) {
    if (filling->tensors.size() != 1 || filling->tensors[0].element_count() != 1 ||
        filling->tensors[0].type() != DataType::kFloat || floats_of(filling->tensors[0])[0] != 0)
      return false;
  }
  const auto shape = sizes_.known(node(id), 0);
  if (!shape || shape->size() != 4) return false;
  const SizeSum one{.number = 1}, heads{.number = of_.heads};
  const std::array<SizeSum, 4> full{of_.batch, heads, of_.queries, of_.keys};
  for (std::size_t i = 0; i < full.size(); ++i) {
    const auto& dim = (*shape)[i];
    // Several heads have no other number next to them that could be added at all.
    if (i == 1 && !dim && of_.heads > 1) continue;
    if (!dim || (*dim != full[i] && *dim != one)) return false;
  }
  walk_.take(id);
  made_.takers.push_back(id);
  return true;
}

/// Whether nothing but the nodes themselves reads what they give, but for the result.
bool BiasWalk::encloses(ValueId result) const {
  const std::vector<NodeId> nodes = walk_.nodes();
  return std::ranges::all_of(nodes, [&](NodeId id) {
    return std::ranges::all_of(node(id).outputs, [&](ValueId output) {
      if (!output.valid() || output == result) return true;
      const Value& value = walk_.graph().value(output);
      return !value.is_output && std::ranges::all_of(value.consumers, [&](NodeId reader) {
        return std::ranges::binary_search(nodes, reader);
      });
    });
  });
}

std::optional<MadeBias> BiasWalk::find(ValueId bias) {
  const NodeId sum = walk_.producer(bias, "Add");
  if (!sum.valid() || walk_.graph().value(bias).is_output) return std::nullopt;
  for (const std::size_t made : {0, 1}) {
    BiasWalk walk(view_, sizes_, of_);
    const ValueId value = node(sum).input(made);
    if (!walk.read_zeros(value) && !walk.read_positions(value)) continue;
    walk.walk_.take(sum);
    if (!walk.encloses(bias)) continue;
    walk.made_.mask = node(sum).input(1 - made);
    walk.made_.nodes = walk.walk_.nodes();
    return std::move(walk.made_);
  }
  return std::nullopt;
}

}  // namespace

std::optional<MadeBias> find_made_bias(const GraphView& view, ValueId bias, const ChainSizes& sizes,
                                       const BiasSizes& of) {
  return BiasWalk(view, sizes, of).find(bias);
}

}  // namespace ctxgen::onednn
