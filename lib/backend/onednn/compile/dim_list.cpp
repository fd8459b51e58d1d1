#include "dim_list.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ctxgen::onednn {

namespace {

// Longer lists and deeper sums are not shapes.
constexpr std::size_t kMaxNumbers = 32;
constexpr std::size_t kMaxInstructions = 64;
// A node that is read along several ways is read again each time.
constexpr std::size_t kMaxVisits = 1024;
constexpr int kMaxDepth = 64;

/// The instructions of one number.
using Number = std::vector<DimInstruction>;
using Numbers = std::vector<Number>;

Number number(std::int64_t value) {
  return {{static_cast<std::int64_t>(DimWord::kNumber), value, 0}};
}

constexpr std::array<std::string_view, 15> kDimOps{
    "Add", "Cast",    "Concat", "ConstantOfShape", "Div",     "Equal", "Gather", "Identity",
    "Mul", "Reshape", "Shape",  "Slice",           "Squeeze", "Sub",   "Where"};

bool is_integer(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32; }

class Reader {
 public:
  Reader(const GraphView& view, ValueId data, std::size_t first_sized)
      : view_(view), data_(data), first_sized_(static_cast<std::int64_t>(first_sized)) {}

  Read<Numbers> read(const NodeView& reader, std::size_t input, int depth) {
    if (!reader.has_input(input) || depth > kMaxDepth || ++visits_ > kMaxVisits)
      return refuse("shape input cannot be followed");
    if (const Tensor* constant = reader.constant(input)) {
      if (static_cast<std::size_t>(constant->element_count()) > kMaxNumbers)
        return refuse("shape input has {} numbers", constant->element_count());
      Numbers all;
      for (const std::int64_t value : CTXGEN_TRY(constant_ints(reader, input, "shape input")))
        all.push_back(number(value));
      return all;
    }
    const Value& value = reader.input_value(input);
    if (!value.producer.valid() || !is_integer(value.type.element))
      return refuse("shape input is not constant");
    // Numbers in rows and columns would come in another order.
    if (!value.type.has_rank() || value.type.rank() > 1)
      return refuse("shape input holds a tensor that is not a list");
    const Node& node = view_.graph().node(value.producer);
    if (!is_dim_node(node)) return refuse("shape input is computed by {}", node.op_type);
    return read_node(NodeView(view_, node), depth + 1);
  }
  std::vector<ValueId> take_sized() { return std::move(sized_); }

 private:
  Read<Numbers> read_node(const NodeView& n, int depth) {
    const std::string_view op = n.node().op_type;
    if (op == "Shape") return read_sizes(n);
    if (op == "Concat") return read_concat(n, depth);
    if (op == "ConstantOfShape") return read_filled(n, depth);
    if (op == "Where") return read_where(n, depth);
    Numbers numbers = CTXGEN_TRY(read(n, 0, depth));
    if (op == "Gather") return gather(n, numbers);
    if (op == "Slice") return slice(n, numbers);
    if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div")
      return calculate(op, numbers, CTXGEN_TRY(read(n, 1, depth)));
    return numbers;  // Cast, Identity, Reshape, Squeeze, Unsqueeze: the same numbers
  }

  Read<Numbers> read_sizes(const NodeView& n) {
    if (!n.has_input(0)) return refuse("the size of an absent input is needed");
    const ValueType& type = n.input_value(0).type;
    if (!type.is_tensor() || !type.has_rank())
      return refuse("a size of a value of unknown rank is needed");
    const auto rank = static_cast<std::int64_t>(type.rank());
    const auto place = [rank](std::int64_t axis) {
      return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
    };
    const std::int64_t start = place(n.node().int_or("start", 0));
    const std::int64_t end = place(n.node().int_or("end", rank));
    Numbers numbers;
    for (std::int64_t axis = start; axis < end; ++axis)
      numbers.push_back(CTXGEN_TRY(size(n.input(0), axis)));
    return numbers;
  }

  Read<Number> size(ValueId tensor, std::int64_t axis) {
    const Dim& dim = (*view_.graph().value(tensor).type.shape)[static_cast<std::size_t>(axis)];
    if (dim.is_fixed()) return number(dim.value());
    const ValueType& data = view_.graph().value(data_).type;
    if (dim.is_symbol() && data.has_rank())
      for (std::size_t i = 0; i < data.rank(); ++i)
        if ((*data.shape)[i] == dim) return dim_of(0, static_cast<std::int64_t>(i));
    if (tensor == data_) return dim_of(0, axis);
    // Programs take no other types, even where nothing but the dims is read.
    const Value& value = view_.graph().value(tensor);
    if (value.type.element != DataType::kFloat && !is_integer(value.type.element) &&
        value.type.element != DataType::kBool)
      return refuse("shape input holds a size of \"{}\", which is {}", value.name,
                    name_of(value.type.element));
    auto at = std::ranges::find(sized_, tensor);
    if (at == sized_.end()) at = sized_.insert(at, tensor);
    return dim_of(at - sized_.begin() + first_sized_, axis);
  }
  static Number dim_of(std::int64_t input, std::int64_t axis) {
    return {{static_cast<std::int64_t>(DimWord::kDim), input, axis}};
  }

  Read<Numbers> read_concat(const NodeView& n, int depth) {
    Numbers all;
    for (std::size_t i = 0; i < n.input_count(); ++i) {
      const Numbers part = CTXGEN_TRY(read(n, i, depth));
      all.insert(all.end(), part.begin(), part.end());
      if (all.size() > kMaxNumbers)
        return refuse("shape input has more than {} numbers", kMaxNumbers);
    }
    return all;
  }

  Read<Numbers> read_filled(const NodeView& n, int depth) {
    const Numbers shape = CTXGEN_TRY(read(n, 0, depth));
    const auto count = shape.size() == 1 ? constant_of(shape[0]) : std::nullopt;
    const Attribute* value = n.node().attribute("value");
    if (!count || *count < 0 || std::cmp_greater(*count, kMaxNumbers) || value == nullptr ||
        value->tensors.size() != 1)
      return refuse("shape input is computed by ConstantOfShape");
    const auto filling = CTXGEN_TRY(ints_of(value->tensors[0], "a filling"));
    if (filling.size() != 1) return refuse("shape input is filled with {} numbers", filling.size());
    return Numbers(static_cast<std::size_t>(*count), number(filling[0]));
  }

  /// Where(Equal(a, b), c, d), if all numbers of a and b are known to be equal or not: exporters replace
  /// -1 in shapes so, and no size is negative.
  Read<Numbers> read_where(const NodeView& n, int depth) {
    const ValueId condition = n.input(0);
    const NodeId producer = condition.valid() ? view_.graph().value(condition).producer : NodeId{};
    if (!producer.valid() || view_.graph().node(producer).op_type != "Equal" ||
        !view_.graph().node(producer).domain.empty() || !is_list(condition))
      return refuse("shape input is computed by Where");
    const NodeView equal(view_, view_.graph().node(producer));
    const Numbers a = CTXGEN_TRY(read(equal, 0, depth + 1)),
                  b = CTXGEN_TRY(read(equal, 1, depth + 1));
    const Numbers yes = CTXGEN_TRY(read(n, 1, depth)), no = CTXGEN_TRY(read(n, 2, depth));
    const std::size_t count = std::max({a.size(), b.size(), yes.size(), no.size()});
    for (const Numbers* list : {&a, &b, &yes, &no})
      if (list->size() != 1 && list->size() != count)
        return refuse("shape input is chosen from {} and {} numbers", list->size(), count);
    const auto at = [](const Numbers& list, std::size_t i) -> const Number& {
      return list[list.size() == 1 ? 0 : i];
    };
    Numbers chosen;
    for (std::size_t i = 0; i < count; ++i) {
      const auto same = equal_numbers(at(a, i), at(b, i));
      if (!same) return refuse("shape input depends on how large sizes are");
      chosen.push_back(*same ? at(yes, i) : at(no, i));
    }
    return chosen;
  }

  /// Whether the value is a tensor of rank 0 or 1.
  [[nodiscard]] bool is_list(ValueId id) const {
    const ValueType& type = view_.graph().value(id).type;
    return type.has_rank() && type.rank() <= 1;
  }

  static std::optional<std::int64_t> constant_of(const Number& code) {
    if (code.size() != 1 || code[0][0] != static_cast<std::int64_t>(DimWord::kNumber))
      return std::nullopt;
    return code[0][1];
  }

  /// Nothing where it depends on the run.
  static std::optional<bool> equal_numbers(const Number& a, const Number& b) {
    const auto x = constant_of(a), y = constant_of(b);
    if (x && y) return *x == *y;
    const auto is_size = [](const Number& code) {  // a size, or a sum or product of sizes
      return std::ranges::all_of(code, [](const DimInstruction& instruction) {
        const auto word = static_cast<DimWord>(instruction[0]);
        return word == DimWord::kDim || word == DimWord::kAdd || word == DimWord::kMul ||
               (word == DimWord::kNumber && instruction[1] >= 0);
      });
    };
    if ((x && *x < 0 && is_size(b)) || (y && *y < 0 && is_size(a))) return false;
    return std::nullopt;
  }

  static Read<Numbers> gather(const NodeView& n, const Numbers& from) {
    const auto indices = CTXGEN_TRY(constant_ints(n, 1, "an index into sizes"));
    if (indices.size() > kMaxNumbers)
      return refuse("shape input gathers {} numbers", indices.size());
    Numbers picked;
    for (std::int64_t index : indices) {
      if (index < 0) index += static_cast<std::int64_t>(from.size());
      if (index < 0 || static_cast<std::size_t>(index) >= from.size())
        return refuse("shape input gathers number {} of {}", index, from.size());
      picked.push_back(from[static_cast<std::size_t>(index)]);
    }
    return picked;
  }

  static Read<Numbers> slice(const NodeView& n, const Numbers& from) {
    const auto bound = [&](std::size_t input, std::string_view attribute,
                           std::int64_t otherwise) -> Read<std::int64_t> {
      if (const auto given = n.node().ints(attribute); given && given->size() == 1)
        return (*given)[0];
      if (!n.has_input(input)) return otherwise;
      const auto values = CTXGEN_TRY(constant_ints(n, input, "a cut of sizes"));
      if (values.size() != 1) return refuse("sizes are cut at {} places", values.size());
      return values[0];
    };
    const auto count = static_cast<std::int64_t>(from.size());
    const auto place = [count](std::int64_t at) {
      return static_cast<std::size_t>(std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count));
    };
    const std::size_t start = place(CTXGEN_TRY(bound(1, "starts", 0)));
    const std::size_t end = place(CTXGEN_TRY(bound(2, "ends", count)));
    if (CTXGEN_TRY(bound(4, "steps", 1)) != 1) return refuse("shape input is cut in steps");
    Numbers cut;
    for (std::size_t i = start; i < end; ++i) cut.push_back(from[i]);
    return cut;
  }

  static Read<Numbers> calculate(std::string_view op, const Numbers& a, const Numbers& b) {
    const DimWord word = op == "Add"   ? DimWord::kAdd
                         : op == "Sub" ? DimWord::kSub
                         : op == "Mul" ? DimWord::kMul
                                       : DimWord::kDiv;
    if (a.size() != b.size() && a.size() != 1 && b.size() != 1)
      return refuse("shape input is computed from {} and {} numbers", a.size(), b.size());
    Numbers results;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      Number code = a[a.size() == 1 ? 0 : i];
      const Number& right = b[b.size() == 1 ? 0 : i];
      code.insert(code.end(), right.begin(), right.end());
      code.push_back({static_cast<std::int64_t>(word), 0, 0});
      if (code.size() > kMaxInstructions)
        return refuse("shape input is computed in too many steps");
      results.push_back(std::move(code));
    }
    return results;
  }

  const GraphView& view_;
  ValueId data_;
  std::int64_t first_sized_;
  std::vector<ValueId> sized_;
  std::size_t visits_ = 0;
};

}  // namespace

bool is_dim_node(const Node& node) {
  if (!node.domain.empty()) return false;
  return node.op_type == "Unsqueeze" ||
         std::ranges::find(kDimOps, node.op_type.view()) != kDimOps.end();
}

std::vector<ValueId> dim_inputs(const Node& node) {
  if (node.op_type == "Shape") return {};
  if (node.op_type == "Concat") return node.inputs;
  if (node.op_type == "Where") return {node.input(0), node.input(1), node.input(2)};
  if (node.op_type == "Add" || node.op_type == "Sub" || node.op_type == "Mul" ||
      node.op_type == "Div" || node.op_type == "Equal")
    return {node.input(0), node.input(1)};
  return {node.input(0)};
}

std::vector<std::size_t> dim_list_inputs(const GraphView& view, const Node& node) {
  std::vector<std::size_t> inputs;
  const auto add = [&](std::size_t input) {
    if (node.input(input).valid() && view.constant(node.input(input)) == nullptr)
      inputs.push_back(input);
  };
  if (node.domain == "com.microsoft" && node.op_type == "GroupQueryAttention") add(6);
  if (!node.domain.empty()) return inputs;
  if (node.op_type == "Reshape" && node.opset >= 5) add(1);
  if (node.op_type == "Expand") add(1);
  if (node.op_type == "Slice" && node.opset >= 10) {
    add(1);
    add(2);
  }
  return inputs;
}

Read<DimLists> read_dim_lists(const NodeView& n, std::span<const std::size_t> inputs,
                              std::size_t first_sized) {
  Reader reader(n.view(), n.input(0), first_sized);
  DimLists result;
  for (const std::size_t input : inputs) {
    const Numbers numbers = CTXGEN_TRY(reader.read(n, input, 0));
    DimLists::List list;
    list.count = numbers.size();
    for (const Number& each : numbers)
      for (const DimInstruction& instruction : each)
        list.code.insert(list.code.end(), instruction.begin(), instruction.end());
    result.lists.push_back(std::move(list));
  }
  result.sized = reader.take_sized();
  return result;
}

void add_list(ProgramOp& op, std::string_view name, const DimLists::List& list) {
  const auto plain = std::ranges::find(op.params, name, &ProgramParam::name);
  CTXGEN_ASSERT(plain != op.params.end());
  *plain = {std::string(name) + "_code", list.code};
}

void add_sized(ProgramOp& op, const DimLists& lists, ProgramBuilder& builder,
               std::vector<Operand>& inputs) {
  set_param(op, "sized", static_cast<std::int64_t>(lists.sized.size()));
  for (const ValueId tensor : lists.sized) inputs.push_back(builder.operand(tensor));
}

}  // namespace ctxgen::onednn
