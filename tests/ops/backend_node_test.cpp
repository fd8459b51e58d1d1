// ONNX's own backend test data (package libonnx-testdata): every single-node model whose operator has
// a kernel is run and compared with the stored outputs.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "ctxgen/cpu/kernel.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/runtime/session.h"

#include "tensor_difference.h"

namespace ctxgen::cpu {
namespace {

namespace fs = std::filesystem;

// Cases that cannot pass: those whose stored outputs are wrong (conformance/known.txt), and values
// that a single node's kernel does not see. A case that starts to pass must leave the list.
std::set<std::string> excluded() {
  std::set<std::string> cases{
#include "backend_node_excluded.inc"
  };
  std::ifstream known(CTXGEN_KNOWN_CASES);
  for (std::string line; std::getline(known, line);)
    if (line.starts_with("test_")) cases.insert(line.substr(0, line.find(':')));
  return cases;
}

fs::path data_folder() {
  const char* given = std::getenv("CTXGEN_ONNX_TESTDATA");
  return given != nullptr ? fs::path(given) : fs::path("/usr/share/libonnx-testdata/data/node");
}

Result<Blob> read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return fail(ErrorCode::kIoError, "cannot open {}", path.string());
  std::vector<std::byte> bytes(static_cast<std::size_t>(stream.tellg()));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return Blob::own(std::move(bytes));
}

Result<std::vector<Tensor>> read_tensors(const fs::path& folder, const std::string& prefix,
                                         std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    Blob blob = CTXGEN_TRY(read_file(folder / (prefix + std::to_string(i) + ".pb")));
    Tensor tensor = CTXGEN_TRY(read_tensor(std::move(blob)));
    tensors.push_back(CTXGEN_TRY(tensor.aligned()));
  }
  return tensors;
}

// Rows that some case ran through.
std::set<const OpRow*>& run_rows() {
  static std::set<const OpRow*> rows;
  return rows;
}

struct Outcome {
  enum class Kind { kPassed, kFailed, kSkipped } kind = Kind::kSkipped;
  std::string text;
};

Outcome failed(std::string text) { return {Outcome::Kind::kFailed, std::move(text)}; }

// Tensors of the node's inputs: graph inputs by order, initializers by value.
std::vector<const Tensor*> inputs_of(const Graph& graph, const Node& node,
                                     const std::vector<Tensor>& given) {
  std::vector<const Tensor*> inputs;
  for (ValueId id : node.inputs) {
    const Tensor* tensor = nullptr;
    if (id.valid()) {
      const auto at = std::ranges::find(graph.inputs, id) - graph.inputs.begin();
      tensor = at < std::ssize(given) ? &given[static_cast<std::size_t>(at)]
                                      : graph.value(id).constant();
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

std::string run_data_set(const Graph& graph, const fs::path& folder) {
  const Node& node = graph.nodes()[0];
  const auto given = read_tensors(folder, "input_", graph.inputs.size());
  const auto expected = read_tensors(folder, "output_", graph.outputs.size());
  if (!given || !expected) return (given ? expected : given).error().message;
  const auto outputs = run_node(node, inputs_of(graph, node, *given));
  if (!outputs) return outputs.error().message;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto at = std::ranges::find(node.outputs, graph.outputs[i]) - node.outputs.begin();
    if (at == std::ssize(*outputs)) return "an output of the graph is not the node's";
    const Tensor& actual = (*outputs)[static_cast<std::size_t>(at)];
    const std::string text = is_random_operator(node.op_type)
                                 ? difference_of_form(actual, (*expected)[i])
                                 : difference(actual, (*expected)[i]);
    if (!text.empty()) return std::format("output {} {}", i, text);
  }
  return {};
}

// Nodes that run_node has no way to run: bodies need an executor, and it knows tensors only.
bool needs_session(const Graph& graph, const Node& node) {
  const auto is_other = [&](ValueId id) { return !graph.value(id).type.is_tensor(); };
  return std::ranges::any_of(graph.inputs, is_other) ||
         std::ranges::any_of(graph.outputs, is_other) ||
         std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.graphs.empty(); });
}

Result<std::vector<RuntimeValue>> read_values(const fs::path& folder, const std::string& prefix,
                                              const Graph& graph, std::span<const ValueId> ids) {
  std::vector<RuntimeValue> values;
  for (const ValueId id : ids) {
    Blob blob = CTXGEN_TRY(read_file(folder / std::format("{}{}.pb", prefix, values.size())));
    values.push_back(CTXGEN_TRY(read_value(std::move(blob), graph.value(id).type)));
  }
  return values;
}

std::string run_in_session(const fs::path& model, const Graph& graph, const fs::path& folder) {
  const auto session = Session::open(model);
  const auto given = read_values(folder, "input_", graph, graph.inputs);
  const auto expected = read_values(folder, "output_", graph, graph.outputs);
  if (!session) return session.error().message;
  if (!given || !expected) return (given ? expected : given).error().message;
  std::vector<NamedValue> inputs;
  for (std::size_t i = 0; i < given->size(); ++i)
    inputs.push_back({graph.value(graph.inputs[i]).name, (*given)[i]});
  const auto outputs = (*session)->run_values(inputs);
  if (!outputs) return outputs.error().message;
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const std::string text = difference((*outputs)[i], (*expected)[i]);
    if (!text.empty()) return std::format("output {} {}", i, text);
  }
  return {};
}

Outcome run_case(const fs::path& folder, std::set<const OpRow*>& covered) {
  auto blob = read_file(folder / "model.onnx");
  if (!blob) return failed(blob.error().message);
  const auto model = read_model(std::move(*blob), {});
  if (!model) return {Outcome::Kind::kSkipped, "not read: " + model.error().message};
  const Graph& graph = model->graph;
  if (graph.node_count() != 1) return {Outcome::Kind::kSkipped, "more than one node"};
  const Node& node = graph.nodes()[0];
  const OpRow* row = find_op(node.domain, node.op_type, node.opset);
  if (row == nullptr)
    return {Outcome::Kind::kSkipped, std::format("no kernel for {}", node.op_type)};
  for (int i = 0;; ++i) {
    const fs::path data = folder / ("test_data_set_" + std::to_string(i));
    if (!fs::exists(data)) break;
    const std::string text = needs_session(graph, node)
                                 ? run_in_session(folder / "model.onnx", graph, data)
                                 : run_data_set(graph, data);
    if (!text.empty()) return failed(text);
  }
  covered.insert(row);
  return {Outcome::Kind::kPassed, ""};
}

std::vector<fs::path> case_folders(const fs::path& parent) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(parent))
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

TEST(BackendNodeCases, GiveTheStoredOutputs) {
  if (!fs::exists(data_folder())) GTEST_SKIP() << "no test data at " << data_folder();
  std::set<const OpRow*> covered;
  std::map<std::string, int> without_kernel;
  const auto exclusion = excluded();
  int passed = 0;
  int exclusions = 0;
  for (const fs::path& folder : case_folders(data_folder())) {
    const std::string name = folder.filename();
    const Outcome outcome = run_case(folder, covered);
    if (exclusion.contains(name)) {
      EXPECT_NE(outcome.kind, Outcome::Kind::kPassed) << name << " passes, but is excluded";
      ++exclusions;
      continue;
    }
    EXPECT_NE(outcome.kind, Outcome::Kind::kFailed) << name << ": " << outcome.text;
    if (outcome.kind == Outcome::Kind::kPassed) ++passed;
    if (outcome.kind == Outcome::Kind::kSkipped) ++without_kernel[outcome.text];
  }
  std::printf("%d cases passed, %d excluded\n", passed, exclusions);
  for (const auto& [text, count] : without_kernel)
    std::printf("skipped %d: %s\n", count, text.c_str());
  // Falls when cases are lost, say because a kernel stopped being found.
  EXPECT_GE(passed, CTXGEN_BACKEND_CASES);
  run_rows().insert(covered.begin(), covered.end());
}

// Operators that ONNX has no data for, at their present version or at all: outputs of ONNX Runtime.
TEST(OwnNodeCases, GiveTheStoredOutputs) {
  std::set<const OpRow*> covered;
  const auto folders = case_folders(CTXGEN_OWN_CASES);
  EXPECT_GE(folders.size(), 50u);
  for (const fs::path& folder : folders) {
    const Outcome outcome = run_case(folder, covered);
    EXPECT_EQ(outcome.kind, Outcome::Kind::kPassed)
        << folder.filename().string() << ": " << outcome.text;
  }
  run_rows().insert(covered.begin(), covered.end());
}

// Runs after the tests above, which fill the set.
TEST(OwnNodeCases, WithOnnxsCoverEveryRow) {
  if (!fs::exists(data_folder())) GTEST_SKIP() << "no test data at " << data_folder();
  for (const OpRow* row : all_ops())
    EXPECT_TRUE(run_rows().contains(row))
        << row->domain << " " << row->op_type << " " << row->since_min << " has no case";
}

}  // namespace
}  // namespace ctxgen::cpu
