#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen::testing {

[[nodiscard]] Attribute attr(std::string name, std::int64_t value);
[[nodiscard]] Attribute attr(std::string name, int value);
[[nodiscard]] Attribute attr(std::string name, float value);
[[nodiscard]] Attribute attr(std::string name, std::string value);
[[nodiscard]] Attribute attr(std::string name, std::vector<std::int64_t> values);

/// A model built node by node, each of which is run by the CPU kernel as it is added: types come
/// from there, and so do the values that compiled programs are compared with.
class TestGraph {
 public:
  explicit TestGraph(std::int64_t opset, std::uint32_t seed = 1) : opset_(opset), random_(seed) {}

  /// A graph input with random values in [-1, 1].
  std::string input(const std::string& name, const Dims& dims);
  std::string tensor_input(const std::string& name, Tensor tensor);
  std::string tensor_constant(Tensor tensor);
  /// A tensor of random bytes, or (float16) of random numbers in [-1, 1].
  [[nodiscard]] Tensor random_of(DataType type, const Dims& dims);
  /// A float constant with random values in [low, high].
  std::string constant(const Dims& dims, float low = -1.0F, float high = 1.0F);
  std::string constant(const Dims& dims, const std::vector<float>& values);
  std::string ints(const std::vector<std::int64_t>& values);
  /// The same with other dims.
  std::string int_tensor(const Dims& dims, const std::vector<std::int64_t>& values);
  /// Adds a node and gives the name of its first output ("" inputs are absent).
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  std::vector<Attribute> attributes = {}, std::size_t outputs = 1);
  /// The same without a CPU kernel: the output gets the type of input `like`.
  std::string add_typed(const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& like);
  /// The same in another domain.
  std::string add_in(const std::string& domain, const std::string& op,
                     const std::vector<std::string>& inputs, std::vector<Attribute> attributes = {},
                     std::int64_t opset = 1, std::size_t outputs = 1);
  /// Makes the value a constant, as folding does with results of constants.
  std::string fold(const std::string& name);
  void output(const std::string& name);
  /// Makes dims of a value symbolic: "" keeps the number.
  void set_dims(const std::string& name, const std::vector<std::string>& symbols);

  [[nodiscard]] GraphView view() const { return GraphView(model, model.graph); }
  [[nodiscard]] const Tensor& value(const std::string& name) const { return values_.at(name); }
  [[nodiscard]] ValueId id(const std::string& name) const { return model.graph.find(name); }
  [[nodiscard]] NodeId last_node() const {
    return NodeId{static_cast<std::uint32_t>(model.graph.node_count() - 1)};
  }
  /// All nodes whose results are not constant as one partition.
  [[nodiscard]] Partition whole() const;

  Model model;

 private:
  ValueId set_value(const std::string& name, Tensor tensor);
  std::string add_node(Node node, const std::string& op, const std::vector<std::string>& inputs,
                       std::vector<Attribute> attributes, std::size_t outputs);
  std::string fresh(const char* prefix) { return prefix + std::to_string(next_++); }

  std::int64_t opset_;
  std::mt19937 random_;
  int next_ = 0;
  std::unordered_map<std::string, Tensor> values_;
};

/// Runs a compiled partition on the graph's input values.
[[nodiscard]] Result<std::vector<Tensor>> run_program(const TestGraph& graph,
                                                      const Program& program,
                                                      const WeightStore& store);

/// The same on given inputs, in the order of Program::inputs.
[[nodiscard]] Result<std::vector<Tensor>> run_program(std::span<const Tensor> inputs,
                                                      const Program& program,
                                                      const WeightStore& store);

/// Compiles the whole graph with the dnnl provider, runs it, and expects the CPU kernels' values
/// within `tolerance` (absolute for values below 1, relative above: f32 sums in another order).
void expect_same(const TestGraph& graph, double tolerance = 1e-5);

/// What the compiled whole graph gives, in order of its outputs; fails the test where a node is
/// refused. `program`, where given, receives what was compiled.
[[nodiscard]] std::vector<Tensor> compiled_results(const TestGraph& graph,
                                                   Program* program = nullptr);

/// Rows of the operator table (op type, first opset) whose nodes expect_same() has compared.
[[nodiscard]] const std::set<std::pair<std::string, std::int64_t>>& compared_rows();

/// An element of a tensor of any type that programs hold.
[[nodiscard]] double number_at(const Tensor& tensor, std::size_t i);

/// The largest difference of two tensors: of floats absolute below 1 and relative above.
[[nodiscard]] double difference(const Tensor& actual, const Tensor& expected);

/// "conv +relu +add(value)": kind (with alg) and post-ops of each op.
[[nodiscard]] std::vector<std::string> summary(const Program& program);

}  // namespace ctxgen::testing
