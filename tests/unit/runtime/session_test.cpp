#include "ctxgen/runtime/session.h"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "code_of.h"
#include "model_bytes.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::ModelBytes;
using test::Outcome;

Tensor floats(const Dims& dims, const std::vector<float>& values) {
  Tensor tensor = *Tensor::allocate(DataType::kFloat, dims);
  std::memcpy(tensor.mutable_bytes().data(), values.data(), values.size() * 4);
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
  std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes().size());
  return values;
}

/// y = relu(x + w), x [batch, 2], w [2].
ModelBytes add_relu(int ir_version = 8) {
  ModelBytes model(ir_version);
  model.input("x", {"batch", 2}).output("y", {"batch", 2}).initializer("w", {1, -10});
  model.add(ModelBytes::node("add", "Add", {"x", "w"}, {"sum"}));
  model.add(ModelBytes::node("relu", "Relu", {"sum"}, {"y"}));
  return model;
}

std::unique_ptr<Session> open(const ModelBytes& model) {
  auto session = Session::open_memory(model.blob());
  EXPECT_EQ(code_of(session), kOk);
  return session ? std::move(*session) : nullptr;
}

Outcome open_error(const ModelBytes& model) { return code_of(Session::open_memory(model.blob())); }

TEST(Session, RunsAPlainModelOnCpuKernels) {
  const auto session = open(add_relu());
  ASSERT_NE(session, nullptr);
  const auto outputs = session->run({{{"x", floats({2, 2}, {1, 2, 3, 40})}}});
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(values_of(outputs->front()), (std::vector<float>{2, 0, 4, 30}));
  EXPECT_EQ(outputs->front().dims(), (Dims{2, 2}));
  EXPECT_EQ(session->statistics().nodes, 2U);
  EXPECT_EQ(session->statistics().partitions, 0U);
}

TEST(Session, TellsInputsAndOutputs) {
  const auto session = open(add_relu());
  ASSERT_EQ(session->inputs().size(), 1U);
  EXPECT_EQ(session->inputs()[0].name, "x");
  EXPECT_EQ(session->inputs()[0].dim_names, (std::vector<std::string>{"batch", ""}));
  EXPECT_FALSE(session->inputs()[0].has_default);
  ASSERT_EQ(session->outputs().size(), 1U);
  EXPECT_EQ(session->outputs()[0].name, "y");
}

TEST(Session, RefusesInputsThatDoNotFit) {
  const auto session = open(add_relu());
  const auto run = [&](std::vector<NamedTensor> inputs) { return code_of(session->run(inputs)); };
  const Tensor good = floats({1, 2}, {1, 2});
  EXPECT_EQ(run({{"x", good}}), kOk);
  EXPECT_EQ(run({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"nobody", good}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"x", good}, {"x", good}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"x", Tensor()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"x", floats({2}, {1, 2})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"x", floats({1, 3}, {1, 2, 3})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"x", *Tensor::allocate(DataType::kDouble, Dims{1, 2})}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{"x", good}}), kOk) << "a refused run must leave the session usable";
}

TEST(Session, EqualSymbolsMustHaveEqualSizes) {
  ModelBytes model;
  model.input("a", {"n", 1}).input("b", {"n", 1}).output("y", {"n", 1});
  model.add(ModelBytes::node("add", "Add", {"a", "b"}, {"y"}));
  const auto session = open(model);
  const Tensor one = floats({1, 1}, {1});
  const Tensor two = floats({2, 1}, {1, 2});
  EXPECT_EQ(code_of(session->run({{{"a", two}, {"b", two}}})), kOk);
  EXPECT_EQ(code_of(session->run({{{"a", one}, {"b", two}}})), ErrorCode::kInvalidArgument);
}

TEST(Session, ReadsInputsOfAnyAlignment) {
  const auto session = open(add_relu());
  auto bytes = std::make_shared<std::vector<std::byte>>(9);
  const std::vector<float> values{5, 15};
  std::memcpy(bytes->data() + 1, values.data(), 8);
  const Tensor odd = Tensor::borrow(DataType::kFloat, Dims{1, 2}, bytes,
                                    std::span<const std::byte>(*bytes).subspan(1));
  const auto outputs = session->run({{{"x", odd}}});
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(values_of(outputs->front()), (std::vector<float>{6, 5}));
}

TEST(Session, InitializersThatAreInputsMayBeOverriddenFromIr4On) {
  ModelBytes model = add_relu(8);
  model.input("w", {2});
  const auto session = open(model);
  ASSERT_EQ(session->inputs().size(), 2U);
  EXPECT_TRUE(session->inputs()[1].has_default);
  const Tensor x = floats({1, 2}, {1, 2});
  EXPECT_EQ(values_of(session->run({{{"x", x}}})->front()), (std::vector<float>{2, 0}));
  const Tensor w = floats({2}, {100, 200});
  EXPECT_EQ(values_of(session->run({{{"x", x}, {"w", w}}})->front()),
            (std::vector<float>{101, 202}));
  EXPECT_EQ(values_of(session->run({{{"x", x}}})->front()), (std::vector<float>{2, 0}))
      << "an override lasts for one run";
}

TEST(Session, InitializersThatAreInputsAreConstantsBelowIr4) {
  ModelBytes model = add_relu(3);
  model.input("w", {2});
  const auto session = open(model);
  ASSERT_EQ(session->inputs().size(), 1U);
  const Tensor two = floats({2}, {1, 2});
  EXPECT_EQ(code_of(session->run({{{"x", floats({1, 2}, {1, 2})}, {"w", two}}})),
            ErrorCode::kInvalidArgument);
}

TEST(Session, OutputsMayBeInputsConstantsAndRepeated) {
  ModelBytes model = add_relu();
  model.output("x", {"batch", 2}).output("w", {2}).output("y", {"batch", 2});
  const auto session = open(model);
  const auto outputs = session->run({{{"x", floats({1, 2}, {1, 20})}}});
  ASSERT_EQ(code_of(outputs), kOk);
  ASSERT_EQ(outputs->size(), 4U);
  EXPECT_EQ(values_of((*outputs)[0]), (std::vector<float>{2, 10}));
  EXPECT_EQ(values_of((*outputs)[1]), (std::vector<float>{1, 20}));
  EXPECT_EQ(values_of((*outputs)[2]), (std::vector<float>{1, -10}));
  EXPECT_EQ(values_of((*outputs)[3]), (std::vector<float>{2, 10}));
}

TEST(Session, OutputsOutliveTheSession) {
  std::vector<Tensor> outputs;
  {
    ModelBytes model = add_relu();
    model.output("w", {2});
    outputs = *open(model)->run({{{"x", floats({1, 2}, {1, 20})}}});
  }
  EXPECT_EQ(values_of(outputs[0]), (std::vector<float>{2, 10}));
  EXPECT_EQ(values_of(outputs[1]), (std::vector<float>{1, -10}));
}

TEST(Session, EarlierOutputsAreNotOverwritten) {
  const auto session = open(add_relu());
  const auto first = session->run({{{"x", floats({1, 2}, {1, 20})}}});
  const auto second = session->run({{{"x", floats({1, 2}, {7, 70})}}});
  EXPECT_EQ(values_of(first->front()), (std::vector<float>{2, 10}));
  EXPECT_EQ(values_of(second->front()), (std::vector<float>{8, 60}));
}

TEST(Session, RefusesNodesWithoutKernelByName) {
  ModelBytes model;
  model.input("x", {2}).output("y", {2});
  model.add(ModelBytes::node("odd", "Frobnicate", {"x"}, {"y"}, {}, "test.unknown"));
  const auto outcome = open_error(model);
  EXPECT_EQ(outcome, ErrorCode::kUnsupported);
  EXPECT_NE(outcome.message.find("Frobnicate"), std::string::npos) << outcome.message;
  EXPECT_NE(outcome.message.find("test.unknown"), std::string::npos) << outcome.message;
}

TEST(Session, RefusesDamagedModels) {
  const std::string whole = add_relu().text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto bytes = as_bytes(std::string_view(whole).substr(0, size));
    const auto session = Session::open_memory(Blob::own({bytes.begin(), bytes.end()}));
    if (session) continue;  // cut between two fields that may be absent
    const ErrorCode code = session.error().code;
    EXPECT_TRUE(code == ErrorCode::kInvalidGraph || code == ErrorCode::kUnsupported)
        << size << " bytes: " << session.error().message;
  }
}

TEST(Session, ReportsEachKernelsTime) {
  const auto session = open(add_relu());
  std::vector<OpTiming> timings;
  const std::vector<NamedTensor> inputs{{"x", floats({1, 2}, {1, 2})}};
  ASSERT_EQ(code_of(session->run(inputs, &timings)), kOk);
  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[0].name, "add");
  EXPECT_EQ(timings[0].kind, "Add");
  EXPECT_EQ(timings[1].implementation, "cpu");
}

TEST(Session, RunsInSeveralThreadsAtOnce) {
  const auto session = open(add_relu());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::int64_t batch = 1 + (i + t) % 5;
        const std::vector<float> values(static_cast<std::size_t>(batch) * 2,
                                        static_cast<float>(20 + t));
        const auto outputs = session->run({{{"x", floats({batch, 2}, values)}}});
        if (!outputs || values_of(outputs->front())[1] != static_cast<float>(10 + t)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Session, MissingFileIsAnIoError) {
  EXPECT_EQ(code_of(Session::open("/nonexistent/model.onnx")), ErrorCode::kIoError);
}

}  // namespace
}  // namespace ctxgen
