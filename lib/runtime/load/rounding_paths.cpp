#include "load/rounding_paths.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "ctxgen/ctxfile/op_rounding.h"
#include "ctxgen/onnx_lite/context_node.h"
#include "ctxgen/runtime/elements.h"

#include "load/context_set.h"

namespace ctxgen {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;  // counts stay below: nested loops multiply

/// Nothing: a constant.
using State = std::optional<Roundings>;

// Results are inputs moved, selected or compared: exact. Bodies are followed by themselves.
// clang-format off: a list of words reads as a paragraph
constexpr std::string_view kMoves[] = {
    "Abs", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
    "BitwiseXor", "Cast", "CastLike", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat",
    "ConcatFromSequence", "ConstantOfShape", "DepthToSpace", "Dropout", "Equal", "Expand",
    "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "GlobalMaxPool",
    "Greater", "GreaterOrEqual", "Hardmax", "Identity", "If", "IsInf", "IsNaN", "Less",
    "LessOrEqual", "Loop", "Max", "MaxPool", "MaxRoiPool", "MaxUnpool", "Min", "Neg",
    "NonMaxSuppression", "NonZero", "Not", "OneHot", "OptionalGetElement", "OptionalHasElement",
    "Or", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Round", "Scan",
    "Scatter", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceErase",
    "SequenceInsert", "SequenceLength", "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split",
    "SplitToSequence", "Squeeze", "StringConcat", "ThresholdedRelu", "Tile", "TopK", "Transpose",
    "Trilu", "Unique", "Unsqueeze", "Upsample", "Where", "Xor",
};
// clang-format on
static_assert(std::ranges::is_sorted(kMoves));

/// What quantisers make: integers, and floating-point numbers, of few bits.
bool is_quantised(DataType type) {
  return !ElementReader::is_floating(type) && bits_of(type) > 1 && bits_of(type) <= 16 &&
         type != DataType::kBool;
}

/// A step as a share of the range: between neighbours of integers, or of the largest short floats.
double share_of(DataType type) {
  if (type == DataType::kFloat8E5M2 || type == DataType::kFloat8E5M2FNUZ) return 0x1p-3;
  if (name_of(type).starts_with("float")) return 0x1p-4;
  return 1.0 / (std::exp2(static_cast<double>(bits_of(type))) - 1.0);
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  return a > 0 && b > kMost / a ? kMost : a * b;
}

void join(State& state, const State& other) {
  if (!other) return;
  if (state)
    state->join(*other);
  else
    state = other;
}

/// What an operator makes of what it reads; `type` of its result.
Roundings after(Roundings in, const OpRounding& op, DataType type) {
  Roundings out = in;
  out.operators = std::min(in.operators + op.roundings, kMost);
  if (op.roundings > 0 || op.step > 0) out.step = 0;
  if (op.roundings == 0 && op.step > 0) out.step = in.step * op.step;
  if (op.quantises) {
    out.quantisers = std::min(in.quantisers + 1, kMost);
    out.share = std::max(in.share, is_quantised(type) ? share_of(type) : share_of(DataType::kInt8));
    out.step = is_quantised(type) ? 1 : 0;
  }
  if (ElementReader::is_floating(type)) {
    Roundings made;
    made.coarsest = type;
    const double step = out.step;
    out.join(made);
    out.step = step;
  }
  return out;
}

/// A value's dims, unknown ones as kUnknownTerms; empty where the rank is not known.
std::vector<std::int64_t> dims_of(const Graph& graph, ValueId id) {
  std::vector<std::int64_t> dims;
  if (!id.valid()) return dims;
  const Value& value = graph.value(id);
  if (const Tensor* constant = value.constant()) {
    dims.assign(constant->dims().begin(), constant->dims().end());
  } else if (value.type.has_rank()) {
    for (const Dim& dim : *value.type.shape)
      dims.push_back(dim.is_fixed() ? dim.value() : kUnknownTerms);
  }
  for (std::int64_t& dim : dims) dim = std::min(dim, kMost);
  return dims;
}

std::int64_t dim_from_back(const Graph& graph, ValueId id, std::size_t back) {
  const auto dims = dims_of(graph, id);
  return back < dims.size() ? dims[dims.size() - 1 - back] : kUnknownTerms;
}

/// Of each element of a convolution's result: those of the weights of an output channel.
std::int64_t taps_of(const Graph& graph, ValueId weights) {
  const auto dims = dims_of(graph, weights);
  if (dims.size() < 3) return kUnknownTerms;
  std::int64_t taps = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) taps = times(taps, dims[i]);
  return taps;
}

/// The terms of the sum that an element of the result is.
std::int64_t terms_of(const Graph& graph, const Node& node) {
  const std::string_view type = node.op_type;
  if (type.find("Conv") != std::string_view::npos)
    return taps_of(graph, node.input(type.starts_with("QLinear") ? 3 : 1));
  if (type == "QLinearMatMul") return dim_from_back(graph, node.input(3), 1);
  if (type.find("MatMul") != std::string_view::npos || type.find("Gemm") != std::string_view::npos)
    return dim_from_back(graph, node.input(1), node.int_or("transB", 0) != 0 ? 0 : 1);
  if (type == "LSTM" || type == "GRU" || type == "RNN")
    return times(dim_from_back(graph, node.input(0), 2),
                 dim_from_back(graph, node.input(1), 0) + dim_from_back(graph, node.input(2), 0));
  return type.find("Attention") != std::string_view::npos ? 4 * kUnknownTerms : 1;
}

double scale_of(const Graph& graph, ValueId id) {
  const Tensor* scales = id.valid() ? graph.value(id).constant() : nullptr;
  if (scales == nullptr || !ElementReader::has_numbers(scales->type())) return 0;
  const ElementReader reader(*scales);
  double largest = 0;
  for (std::int64_t i = 0; i < scales->element_count(); ++i)
    largest = std::max(largest, std::abs(reader.at(i)));
  return std::isfinite(largest) ? largest : 0;
}

/// A node that a CPU kernel runs.
OpRounding rounding_of(const Graph& graph, const Node& node) {
  const std::string_view type = node.op_type;
  if (type == "QuantizeLinear") return {.roundings = 0, .quantises = true};
  if (type == "DequantizeLinear") return {.roundings = 0, .step = scale_of(graph, node.input(1))};
  if (type.starts_with("QLinear") || type == "QGemm" || type.starts_with("Dynamic"))
    return {.roundings = terms_of(graph, node), .quantises = true};
  return {.roundings = std::ranges::binary_search(kMoves, type) ? 0 : terms_of(graph, node)};
}

/// The type of a node's result where the file does not declare it.
DataType result_type(const Graph& graph, const Node& node, std::span<const DataType> types) {
  if (node.op_type == "Cast") {
    const std::int64_t to = node.int_or("to", 0);
    return is_known_data_type(to) ? static_cast<DataType>(to) : DataType::kUndefined;
  }
  if (node.op_type == "QuantizeLinear")
    return node.input(2).valid() ? types[node.input(2).index] : DataType::kUint8;
  if (node.op_type == "DequantizeLinear" && node.input(1).valid())
    return types[node.input(1).index];
  if (node.op_type == "Shape" || node.op_type == "Size") return DataType::kInt64;
  for (const ValueId id : node.inputs)
    if (id.valid() && ElementReader::is_floating(types[id.index])) return types[id.index];
  const ValueId first = node.input(0);
  return first.valid() && first.index < graph.value_count() ? types[first.index]
                                                            : DataType::kUndefined;
}

/// The values of a program, from what its inputs are.
std::vector<State> follow_program(const Program& program, const ProgramLoader& loader,
                                  std::span<const State> inputs) {
  const auto* rounding = dynamic_cast<const KnowsRounding*>(&loader);
  std::vector<State> states(program.values.size());
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    states[program.inputs[i]] = inputs[i];
    if (!inputs[i]) continue;
    // What the source rounds after a float16 input stays f32 in the program.
    const double step = inputs[i]->step;
    Roundings made;
    if (const DataType type = program.values[program.inputs[i]].type;
        ElementReader::is_floating(type))
      made.coarsest = type;
    states[program.inputs[i]]->join(made);
    states[program.inputs[i]]->step = step;
  }
  for (const ProgramOp& op : program.ops) {
    State in;
    const auto read = [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::kValue) join(in, states[operand.index]);
    };
    for (const Operand& operand : op.inputs) read(operand);
    for (const PostOp& post : op.post_ops) read(post.operand);
    if (!in) continue;
    const OpRounding own = rounding ? rounding->rounding_of(program, op) : OpRounding{};
    for (const std::uint32_t value : op.outputs)
      states[value] = after(*in, own, program.values[value].type);
  }
  return states;
}

class Follower {
 public:
  explicit Follower(std::span<const PartitionProgram> partitions) {
    for (const PartitionProgram& one : partitions) programs_[{one.graph, one.node.index}] = &one;
  }

  struct Values {
    std::vector<State> states;  // by ValueId
    std::vector<DataType> types;
  };

  /// `given`: of inputs and of outer values, by their ids; the others start here.
  Values follow(const Graph& graph, Values values) {
    for (const Node& node : graph.nodes()) step(graph, node, values);
    return values;
  }

  /// The main graph's inputs, or a body's before it is told what they are.
  static Values start(const Graph& graph, bool variable) {
    Values values{std::vector<State>(graph.value_count()),
                  std::vector<DataType>(graph.value_count(), DataType::kUndefined)};
    for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.values()[i];
      if (value.type.is_tensor()) values.types[i] = value.type.element;
      if (value.initializer) values.types[i] = value.initializer->type();
      if (value.is_input && value.constant() == nullptr && variable) {
        Roundings made;
        if (ElementReader::is_floating(values.types[i])) made.coarsest = values.types[i];
        values.states[i] = made;
      }
    }
    return values;
  }

  std::map<std::pair<std::string, std::string>, Roundings> take_partitions() {
    return std::move(partitions_);
  }

 private:
  void step(const Graph& graph, const Node& node, Values& values) {
    if (is_ep_context(node)) return step_partition(graph, node, values);
    State in;
    for (const ValueId id : node.inputs)
      if (id.valid()) join(in, values.states[id.index]);
    for (const ValueId id : node.captures) join(in, values.states[id.index]);
    State inside = follow_bodies(graph, node, values, in);
    const DataType type = result_type(graph, node, values.types);
    const OpRounding rounding = rounding_of(graph, node);
    for (const ValueId id : node.outputs) {
      if (!id.valid()) continue;
      if (values.types[id.index] == DataType::kUndefined) values.types[id.index] = type;
      if (inside || in)
        values.states[id.index] = after(inside ? *inside : *in, rounding, values.types[id.index]);
    }
  }

  /// The worst output of a node's bodies, each of whose inputs is the worst of the node's.
  State follow_bodies(const Graph& graph, const Node& node, const Values& outer, const State& in) {
    State worst;
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) {
        Values values = start(*body, false);
        for (std::uint32_t i = 0; i < body->value_count(); ++i) {
          const Value& value = body->values()[i];
          if (value.is_outer) {
            const ValueId id = graph.find(value.name);
            if (!id.valid()) continue;
            values.states[i] = outer.states[id.index];
            values.types[i] = outer.types[id.index];
          } else if (value.is_input) {
            values.states[i] = in ? in : Roundings{};
          }
        }
        values = follow(*body, std::move(values));
        for (const ValueId id : body->outputs) join(worst, values.states[id.index]);
      }
    if (!worst || !in || node.op_type == "If") return worst;
    const auto repeated = [&](std::int64_t before, std::int64_t behind) {
      return std::min(before + times(std::max<std::int64_t>(behind - before, 0), kUnknownTerms),
                      kMost);
    };
    worst->operators = repeated(in->operators, worst->operators);
    worst->quantisers = repeated(in->quantisers, worst->quantisers);
    return worst;
  }

  void step_partition(const Graph& graph, const Node& node, Values& values) {
    const auto index = static_cast<std::uint32_t>(&node - graph.nodes().data());
    const auto found = programs_.find({&graph, index});
    if (found == programs_.end()) return;
    const PartitionProgram& one = *found->second;
    const std::vector<State> fresh(one.inputs.size(), Roundings{});
    std::vector<State> given;
    for (const ValueId id : one.inputs) given.push_back(values.states[id.index]);
    const auto alone = follow_program(*one.program, *one.loader, fresh);
    const auto states = follow_program(*one.program, *one.loader, given);
    const std::string name(node.string_or("partition_name", node.name));
    for (std::size_t i = 0; i < one.outputs.size(); ++i) {
      const std::uint32_t value = one.program->outputs[i];
      if (!one.outputs[i].valid()) continue;  // the node leaves it out
      values.states[one.outputs[i].index] = states[value];
      values.types[one.outputs[i].index] = one.program->values[value].type;
      partitions_[{name, graph.value(one.outputs[i]).name}] = alone[value].value_or(Roundings{});
    }
    for (std::size_t i = one.outputs.size(); i < one.program->outputs.size(); ++i) {
      const std::uint32_t value = one.program->outputs[i];
      partitions_[{name, one.program->values[value].name}] = alone[value].value_or(Roundings{});
    }
  }

  std::map<std::pair<const Graph*, std::uint32_t>, const PartitionProgram*> programs_;
  std::map<std::pair<std::string, std::string>, Roundings> partitions_;
};

}  // namespace

NumericPaths follow_roundings(const Model& model, std::span<const PartitionProgram> partitions) {
  Follower follower(partitions);
  const auto values = follower.follow(model.graph, Follower::start(model.graph, true));
  NumericPaths paths;
  for (const ValueId id : model.graph.outputs)
    paths.outputs.push_back(values.states[id.index].value_or(Roundings{}));
  paths.partitions = follower.take_partitions();
  return paths;
}

}  // namespace ctxgen
