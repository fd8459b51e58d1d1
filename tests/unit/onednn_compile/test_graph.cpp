#include "test_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "ctxgen/base/half.h"
#include "ctxgen/cpu/kernel.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_table.h"
#include "ctxgen/onednn/provider.h"

namespace ctxgen::testing {

Attribute attr(std::string name, std::int64_t value) {
  Attribute a;
  a.name = std::move(name);
  a.kind = AttributeKind::kInt;
  a.i = value;
  return a;
}
Attribute attr(std::string name, int value) {
  return attr(std::move(name), static_cast<std::int64_t>(value));
}
Attribute attr(std::string name, float value) {
  Attribute a;
  a.name = std::move(name);
  a.kind = AttributeKind::kFloat;
  a.f = value;
  return a;
}
Attribute attr(std::string name, std::string value) {
  Attribute a;
  a.name = std::move(name);
  a.kind = AttributeKind::kString;
  a.s = std::move(value);
  return a;
}
Attribute attr(std::string name, std::vector<std::int64_t> values) {
  Attribute a;
  a.name = std::move(name);
  a.kind = AttributeKind::kInts;
  a.ints = std::move(values);
  return a;
}

ValueId TestGraph::set_value(const std::string& name, Tensor tensor) {
  const ValueId id = model.graph.find_or_add(name);
  ValueType& type = model.graph.value(id).type;
  type.kind = ValueType::Kind::kTensor;
  type.element = tensor.type();
  type.shape.emplace();
  for (const std::int64_t dim : tensor.dims()) type.shape->push_back(Dim::fixed(dim));
  values_.insert_or_assign(name, std::move(tensor));
  return id;
}

namespace {

Tensor random_tensor(const Dims& dims, float low, float high, std::mt19937& random) {
  Tensor tensor = *Tensor::allocate(DataType::kFloat, dims);
  // Not std::uniform_real_distribution: its numbers differ between libraries.
  for (float& f : tensor.mutable_elements<float>()) {
    f = low + (high - low) * static_cast<float>(random() >> 8) / 16777216.0F;
  }
  return tensor;
}

}  // namespace

std::string TestGraph::input(const std::string& name, const Dims& dims) {
  const ValueId id = set_value(name, random_tensor(dims, -1.0F, 1.0F, random_));
  model.graph.value(id).is_input = true;
  model.graph.inputs.push_back(id);
  return name;
}

std::string TestGraph::tensor_input(const std::string& name, Tensor tensor) {
  const ValueId id = set_value(name, std::move(tensor));
  model.graph.value(id).is_input = true;
  model.graph.inputs.push_back(id);
  return name;
}

std::string TestGraph::tensor_constant(Tensor tensor) {
  const std::string name = fresh("c");
  const ValueId id = set_value(name, std::move(tensor));
  model.graph.value(id).initializer = values_.at(name);
  return name;
}

Tensor TestGraph::random_of(DataType type, const Dims& dims) {
  Tensor tensor = *Tensor::allocate(type, dims);
  for (std::byte& byte : tensor.mutable_bytes()) byte = static_cast<std::byte>(random_() >> 7);
  if (type == DataType::kFloat16) {
    for (std::uint16_t& half : tensor.mutable_elements<std::uint16_t>())
      half = float_to_float16(static_cast<float>(random_() >> 8) / 8388608.0F - 1.0F);
  }
  return tensor;
}

std::string TestGraph::fold(const std::string& name) {
  model.graph.value(id(name)).folded = values_.at(name);
  return name;
}

std::string TestGraph::constant(const Dims& dims, float low, float high) {
  const std::string name = fresh("c");
  const ValueId id = set_value(name, random_tensor(dims, low, high, random_));
  model.graph.value(id).initializer = values_.at(name);
  return name;
}

std::string TestGraph::constant(const Dims& dims, const std::vector<float>& values) {
  const std::string name = fresh("c");
  Tensor tensor = *Tensor::allocate(DataType::kFloat, dims);
  std::ranges::copy(values, tensor.mutable_elements<float>().begin());
  const ValueId id = set_value(name, std::move(tensor));
  model.graph.value(id).initializer = values_.at(name);
  return name;
}

std::string TestGraph::ints(const std::vector<std::int64_t>& values) {
  return int_tensor(Dims{static_cast<std::int64_t>(values.size())}, values);
}

std::string TestGraph::int_tensor(const Dims& dims, const std::vector<std::int64_t>& values) {
  const std::string name = fresh("c");
  Tensor tensor = *Tensor::allocate(DataType::kInt64, dims);
  std::ranges::copy(values, tensor.mutable_elements<std::int64_t>().begin());
  const ValueId id = set_value(name, std::move(tensor));
  model.graph.value(id).initializer = values_.at(name);
  return name;
}

std::string TestGraph::add(const std::string& op, const std::vector<std::string>& inputs,
                           std::vector<Attribute> attributes, std::size_t outputs) {
  Node node;
  node.opset = opset_;
  return add_node(std::move(node), op, inputs, std::move(attributes), outputs);
}

std::string TestGraph::add_in(const std::string& domain, const std::string& op,
                              const std::vector<std::string>& inputs,
                              std::vector<Attribute> attributes, std::int64_t opset,
                              std::size_t outputs) {
  Node node;
  node.domain = domain;
  node.opset = opset;
  return add_node(std::move(node), op, inputs, std::move(attributes), outputs);
}

std::string TestGraph::add_node(Node node, const std::string& op,
                                const std::vector<std::string>& inputs,
                                std::vector<Attribute> attributes, std::size_t outputs) {
  node.op_type = op;
  node.name = fresh(op.c_str());
  node.attributes = std::move(attributes);
  std::vector<const Tensor*> tensors;
  for (const std::string& name : inputs) {
    node.inputs.push_back(name.empty() ? ValueId{} : model.graph.find_or_add(name));
    tensors.push_back(name.empty() ? nullptr : &values_.at(name));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) {
    names.push_back(node.name + "_" + std::to_string(i));
    node.outputs.push_back(model.graph.find_or_add(names.back()));
  }
  node.first_output_name = names[0];
  auto results = cpu::run_node(node, tensors);
  if (results) {
    for (std::size_t i = 0; i < outputs; ++i) set_value(names[i], (*results)[i]);
  } else {
    ADD_FAILURE() << op << " on cpu: " << results.error().message;
  }
  model.graph.add_node(std::move(node));
  return names[0];
}

std::string TestGraph::add_typed(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::string& like) {
  Node node;
  node.op_type = op;
  node.opset = opset_;
  node.name = fresh(op.c_str());
  for (const std::string& name : inputs) {
    node.inputs.push_back(name.empty() ? ValueId{} : model.graph.find_or_add(name));
  }
  const std::string name = node.name + "_0";
  const ValueId id = model.graph.find_or_add(name);
  node.outputs = {id};
  model.graph.value(id).type = model.graph.value(model.graph.find(like)).type;
  model.graph.add_node(std::move(node));
  return name;
}

void TestGraph::output(const std::string& name) {
  const ValueId id = model.graph.find(name);
  model.graph.value(id).is_output = true;
  model.graph.outputs.push_back(id);
}

void TestGraph::set_dims(const std::string& name, const std::vector<std::string>& symbols) {
  ValueType& type = model.graph.value(model.graph.find(name)).type;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i] == "?")
      (*type.shape)[i] = Dim{};
    else if (!symbols[i].empty())
      (*type.shape)[i] = Dim::symbol(model.symbol(symbols[i]));
  }
}

Partition TestGraph::whole() const {
  Partition partition;
  for (std::uint32_t i = 0; i < model.graph.node_count(); ++i) {
    const ValueId result = model.graph.node(NodeId{i}).output(0);
    if (model.graph.value(result).constant() == nullptr) partition.nodes.push_back(NodeId{i});
  }
  partition.inputs = model.graph.inputs;
  partition.outputs = model.graph.outputs;
  return partition;
}

namespace {

class Collector : public OutputAllocator {
 public:
  explicit Collector(std::size_t count) : tensors(count) {}
  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    tensors[output] = CTXGEN_TRY(Tensor::allocate(type, dims));
    return tensors[output].mutable_bytes().data();
  }
  std::vector<Tensor> tensors;
};

/// The program with indices into a blob table that has every blob of the store, in its order.
Program renumbered(Program program) {
  for (ProgramWeight& weight : program.weights)
    for (PackedWeight& packed : weight.packed)
      packed.blob = BlobIndex{packed.blob.store_id().value};
  return program;
}

}  // namespace

Result<std::vector<Tensor>> run_program(std::span<const Tensor> inputs, const Program& program,
                                        const WeightStore& store) {
  const auto blobs = [&](BlobIndex index) -> Result<Blob> {
    return store.blob(StoreId{index.value});
  };
  const auto executable = CTXGEN_TRY(onednn::loader().load(
      std::make_shared<const Program>(renumbered(program)), blobs, {.threads = 1}, nullptr));
  const auto state = CTXGEN_TRY(executable->make_state());
  std::vector<TensorView> views;
  for (const Tensor& tensor : inputs) views.push_back(tensor.view());
  Collector collector(program.outputs.size());
  CTXGEN_CHECK(executable->run(*state, views, collector));
  return std::move(collector.tensors);
}

Result<std::vector<Tensor>> run_program(const TestGraph& graph, const Program& program,
                                        const WeightStore& store) {
  std::vector<Tensor> inputs;
  for (const std::uint32_t input : program.inputs) {
    inputs.push_back(graph.value(program.values[input].name));
  }
  return run_program(inputs, program, store);
}

double number_at(const Tensor& tensor, std::size_t i) {
  switch (tensor.type()) {
    case DataType::kBool: return static_cast<double>(tensor.bytes()[i] != std::byte{0});
    case DataType::kUint8: return tensor.elements<std::uint8_t>()[i];
    case DataType::kInt8: return tensor.elements<std::int8_t>()[i];
    case DataType::kInt32: return tensor.elements<std::int32_t>()[i];
    case DataType::kFloat16: return float16_to_float(tensor.elements<std::uint16_t>()[i]);
    default: return tensor.elements<float>()[i];
  }
}

double difference(const Tensor& actual, const Tensor& expected) {
  if (actual.dims() != expected.dims() || actual.type() != expected.type()) return 1e30;
  double worst = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.element_count()); ++i) {
    const double a = number_at(actual, i), e = number_at(expected, i);
    if (std::isnan(a) || std::isnan(e)) return 1e30;
    worst = std::max(worst, std::abs(a - e) / std::max(1.0, std::abs(e)));
  }
  return worst;
}

namespace {

std::set<std::pair<std::string, std::int64_t>> rows_seen;

void note_rows(const TestGraph& graph) {
  for (const Node& node : graph.model.graph.nodes()) {
    std::int64_t since = 0;
    for (const onednn::OpInfo& row : onednn::op_infos()) {
      const bool fits = row.domain == node.domain && row.op_type == node.op_type;
      if (fits && row.since_min <= node.opset) since = row.since_min;
    }
    if (since != 0) rows_seen.emplace(node.op_type, since);
  }
}

}  // namespace

const std::set<std::pair<std::string, std::int64_t>>& compared_rows() { return rows_seen; }

std::vector<Tensor> compiled_results(const TestGraph& graph, Program* made) {
  note_rows(graph);
  const auto provider = onednn::make_provider();
  const GraphView view = graph.view();
  const auto capabilities = provider->capabilities(view);
  EXPECT_TRUE(capabilities.has_value()) << capabilities.error().message;
  for (const Rejection& rejection : capabilities->rejections) {
    const ValueId result = graph.model.graph.node(rejection.node).output(0);
    if (graph.model.graph.value(result).constant() != nullptr) continue;
    ADD_FAILURE() << graph.model.graph.node(rejection.node).describe()
                  << " is refused: " << rejection.reason;
  }
  WeightStore store;
  const Partition partition = graph.whole();
  auto compiled = provider->compile(view, std::span(&partition, 1), {}, store);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  if (!compiled) return {};
  Program& program = (*compiled)[0].program;
  program.name = "test";  // the compiler's part
  const auto valid = validate(renumbered(program), store.size());
  EXPECT_TRUE(valid.has_value()) << valid.error().message;
  auto results = run_program(graph, program, store);
  EXPECT_TRUE(results.has_value()) << results.error().message;
  if (made != nullptr) *made = program;
  return results ? std::move(*results) : std::vector<Tensor>{};
}

void expect_same(const TestGraph& graph, double tolerance) {
  const std::vector<Tensor> results = compiled_results(graph);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& name = graph.model.graph.value(graph.model.graph.outputs[i]).name;
    EXPECT_LE(difference(results[i], graph.value(name)), tolerance)
        << name << " " << to_string(results[i].dims()) << ", expected "
        << to_string(graph.value(name).dims());
  }
}

std::vector<std::string> summary(const Program& program) {
  std::vector<std::string> lines;
  for (const ProgramOp& op : program.ops) {
    std::string line = op.kind.str();
    for (const ProgramParam& param : op.params) {
      if (param.name == "alg") line += std::string(":") + std::get<ShortText>(param.value);
    }
    if ((op.kind == "conv" || op.kind == "matmul") && op.inputs.size() == 3) line += "(bias)";
    for (const PostOp& post : op.post_ops) {
      line += " +" + post.kind;
      if (post.operand.kind == Operand::Kind::kWeight) line += "(weight)";
      if (post.operand.kind == Operand::Kind::kValue) line += "(value)";
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ctxgen::testing
