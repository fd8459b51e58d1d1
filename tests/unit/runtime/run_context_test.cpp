#include "ctxgen/runtime/run_context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "model_bytes.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::ModelBytes;

using Floats = std::vector<float>;

/// y = relu(x + w), x [batch, 2]; further outputs: x itself, the constant w, and y once more.
ModelBytes four_outputs() {
  ModelBytes model;
  model.input("x", {"batch", 2}).output("y", {"batch", 2}).initializer("w", {1, -10});
  model.output("x", {"batch", 2}).output("w", {2}).output("y", {"batch", 2});
  model.add(ModelBytes::node("add", "Add", {"x", "w"}, {"sum"}));
  model.add(ModelBytes::node("relu", "Relu", {"sum"}, {"y"}));
  return model;
}

/// Memory of the caller's: nobody else owns it.
Tensor borrowed(const Dims& dims, const void* data) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return Tensor::borrow(DataType::kFloat, dims, nullptr,
                        std::span(bytes, *checked_size_bytes(DataType::kFloat, dims)));
}

Floats floats_of(const RuntimeValue& value) {
  Floats floats(static_cast<std::size_t>(value.tensor().element_count()));
  std::memcpy(floats.data(), value.tensor().bytes().data(), floats.size() * 4);
  return floats;
}

std::span<std::byte> memory_of(Floats& floats) { return std::as_writable_bytes(std::span(floats)); }

class Context : public ::testing::Test {
 protected:
  explicit Context(const ModelBytes& model = four_outputs()) {
    session_ = std::move(*Session::open_memory(model.blob()));
    context_ = std::move(*session_->make_context());
  }
  test::Outcome run() { return code_of(context_->run()); }

  std::unique_ptr<Session> session_;
  std::unique_ptr<RunContext> context_;
};

TEST_F(Context, KeepsItsInputsFromRunToRun) {
  Floats x{1, 20};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  ASSERT_EQ(run(), kOk);
  EXPECT_EQ(floats_of(context_->outputs()[0]), (Floats{2, 10}));
  x = {5, 50};  // in place
  ASSERT_EQ(run(), kOk);
  EXPECT_EQ(floats_of(context_->outputs()[0]), (Floats{6, 40}));
  ASSERT_EQ(code_of(context_->set_input(0, {})), kOk);
  EXPECT_EQ(run(), ErrorCode::kInvalidArgument) << "the input was taken back";
  EXPECT_TRUE(context_->outputs().empty());
}

TEST_F(Context, WritesEveryOutputWhereTheCallerWants) {
  const Floats x{1, 20};
  std::array<Floats, 4> outputs{Floats(2), Floats(2), Floats(2), Floats(3, 7)};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  for (std::size_t i = 0; i < 4; ++i)
    ASSERT_EQ(code_of(context_->set_output(i, memory_of(outputs[i]))), kOk);
  ASSERT_EQ(run(), kOk);
  EXPECT_EQ(outputs[0], (Floats{2, 10}));
  EXPECT_EQ(outputs[1], (Floats{1, 20})) << "an input that passes through";
  EXPECT_EQ(outputs[2], (Floats{1, -10})) << "a constant";
  EXPECT_EQ(outputs[3], (Floats{2, 10, 7})) << "repeated, in more memory than it needs";
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<const void*>(context_->outputs()[i].tensor().bytes().data()),
              outputs[i].data());
    EXPECT_EQ(context_->outputs()[i].tensor().bytes().size(), 8U);
  }
}

TEST_F(Context, OutputMemoryMayHaveAnyAlignment) {
  const Floats x{1, 20};
  std::array<std::byte, 11> memory{};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  ASSERT_EQ(code_of(context_->set_output(0, std::span(memory).subspan(3))), kOk);
  ASSERT_EQ(run(), kOk);
  Floats y(2);
  std::memcpy(y.data(), memory.data() + 3, 8);
  EXPECT_EQ(y, (Floats{2, 10}));
}

TEST_F(Context, RefusesMemoryThatDoesNotServe) {
  Floats x{1, 20, 3, 40}, small(1), good(4);
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  EXPECT_EQ(code_of(context_->set_input(1, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(context_->set_output(4, {})), ErrorCode::kInvalidArgument);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(code_of(context_->set_output(i, memory_of(small))), kOk);
    EXPECT_EQ(run(), ErrorCode::kInvalidArgument) << "too small for output " << i;
    ASSERT_EQ(code_of(context_->set_output(i, memory_of(x).subspan(4, 8))), kOk);
    EXPECT_EQ(run(), ErrorCode::kInvalidArgument) << "half of the input";
    ASSERT_EQ(code_of(context_->set_output(i, {})), kOk);
  }
  ASSERT_EQ(code_of(context_->set_output(0, memory_of(good).first(8))), kOk);
  ASSERT_EQ(code_of(context_->set_output(2, memory_of(good).subspan(4))), kOk);
  EXPECT_EQ(run(), ErrorCode::kInvalidArgument) << "two outputs overlap";
  ASSERT_EQ(code_of(context_->set_output(2, memory_of(good).subspan(8))), kOk);
  EXPECT_EQ(run(), kOk) << "side by side they do not";
  EXPECT_EQ(x, (Floats{1, 20, 3, 40}));
}

TEST_F(Context, OutputsOfItsOwnDoNotPointIntoTheCallersInput) {
  Floats x{1, 20};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  ASSERT_EQ(run(), kOk);
  x = {0, 0};
  EXPECT_EQ(floats_of(context_->outputs()[1]), (Floats{1, 20}));
}

TEST_F(Context, AnOutputThatSomebodyKeepsIsNotOverwritten) {
  Floats x{1, 20};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  ASSERT_EQ(run(), kOk);
  const RuntimeValue kept = context_->outputs()[0];
  x = {7, 70};
  ASSERT_EQ(run(), kOk);
  EXPECT_EQ(floats_of(kept), (Floats{2, 10}));
  EXPECT_EQ(floats_of(context_->outputs()[0]), (Floats{8, 60}));
  context_.reset();
  EXPECT_EQ(floats_of(kept), (Floats{2, 10}));
}

TEST_F(Context, AFailedRunLeavesItUsable) {
  const Floats x{1, 20, 3};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 3}, x.data()))), kOk);
  EXPECT_EQ(run(), ErrorCode::kInvalidArgument);
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  EXPECT_EQ(run(), kOk);
}

TEST_F(Context, StopEndsTheNextRunOnce) {
  const Floats x{1, 20};
  ASSERT_EQ(code_of(context_->set_input(0, borrowed(Dims{1, 2}, x.data()))), kOk);
  context_->stop();
  EXPECT_EQ(run(), ErrorCode::kCancelled);
  EXPECT_EQ(run(), kOk);
}

/// A Loop of very many iterations.
ModelBytes endless() {
  test::Proto body;
  body.message(1, ModelBytes::node("go", "Identity", {"more"}, {"on"}));
  body.message(1, ModelBytes::node("step", "Relu", {"v"}, {"next"})).text(2, "body");
  body.message(11, ModelBytes::value_info("i", DataType::kInt64, {}));
  body.message(11, ModelBytes::value_info("more", DataType::kBool, {}));
  body.message(11, ModelBytes::value_info("v", DataType::kFloat, {2}));
  body.message(12, ModelBytes::value_info("on", DataType::kBool, {}));
  body.message(12, ModelBytes::value_info("next", DataType::kFloat, {2}));
  ModelBytes model;
  model.input("n", {}, DataType::kInt64).input("x", {2}).output("y", {2});
  model.add(ModelBytes::node("loop", "Loop", {"n", "", "x"}, {"y"}, {{"body", body}}));
  return model;
}

class EndlessContext : public Context {
 protected:
  EndlessContext() : Context(endless()) {
    Tensor n = *Tensor::allocate(DataType::kInt64, Dims{});
    const std::int64_t many = INT64_MAX;
    std::memcpy(n.mutable_bytes().data(), &many, 8);
    EXPECT_EQ(code_of(context_->set_input(0, n)), kOk);
    EXPECT_EQ(code_of(context_->set_input(1, *Tensor::allocate(DataType::kFloat, Dims{2}))), kOk);
  }
};

TEST_F(EndlessContext, OneRunAtATimeAndStopEndsTheOneThatIsUnderWay) {
  std::array<test::Outcome, 2> outcomes{kOk, kOk};
  std::array<std::thread, 2> threads;
  for (std::size_t i = 0; i < 2; ++i)
    threads[i] = std::thread([&, i] {
      outcomes[i] = run();
      if (outcomes[i] == ErrorCode::kInvalidArgument) context_->stop();  // the other one runs
    });
  for (std::thread& thread : threads) thread.join();
  const bool first_ran = outcomes[0] == ErrorCode::kCancelled;
  EXPECT_EQ(outcomes[first_ran ? 0 : 1], ErrorCode::kCancelled);
  EXPECT_EQ(outcomes[first_ran ? 1 : 0], ErrorCode::kInvalidArgument);
}

TEST(Contexts, OfOneSessionRunAtTheSameTime) {
  const auto session = std::move(*Session::open_memory(four_outputs().blob()));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const auto context = std::move(*session->make_context());
      Floats x(10), y(10);
      for (int i = 0; i < 100; ++i) {
        const std::int64_t batch = 1 + (i + t) % 5;
        std::ranges::fill(x, static_cast<float>(20 + t));
        const bool fine = context->set_input(0, borrowed(Dims{batch, 2}, x.data())) &&
                          context->set_output(0, memory_of(y)) && context->run();
        if (!fine || y[1] != static_cast<float>(10 + t) ||
            context->outputs()[0].tensor().dims() != Dims{batch, 2})
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ctxgen
