#include "ctxgen/runtime/model_state.h"

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "model_bytes.h"

// Values that runs hand on, with CPU kernels: tests/e2e/test_decode.py has compiled caches.
namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::ModelBytes;

using Floats = std::vector<float>;

/// The past with x behind it; a state that grows by 1 and 10 in each run, and y, which is x + state.
ModelBytes recurrent() {
  ModelBytes model;
  model.input("x", {"batch", "n", 2}).input("past", {"batch", "past_length", 2});
  model.input("state_in", {"batch", 1, 2}).initializer("w", {1, 10});
  model.output("y", {"batch", "n", 2}).output("present", {"batch", "length", 2});
  model.output("state_out", {"batch", 1, 2});
  model.add(ModelBytes::node("concat", "Concat", {"past", "x"}, {"present"}, {{"axis", 1}}));
  model.add(ModelBytes::node("next", "Add", {"state_in", "w"}, {"state_out"}));
  model.add(ModelBytes::node("add", "Add", {"x", "state_in"}, {"y"}));
  return model;
}

Floats floats_of(const RuntimeValue& value) {
  Floats floats(static_cast<std::size_t>(value.tensor().element_count()));
  std::memcpy(floats.data(), value.tensor().bytes().data(), floats.size() * 4);
  return floats;
}

class States : public ::testing::Test {
 protected:
  static SessionOptions with_states(const std::vector<std::string>& states) {
    SessionOptions options;
    options.states = states;
    return options;
  }
  void open(const std::vector<std::string>& states, std::uint64_t max_run_bytes = 0) {
    SessionOptions options = with_states(states);
    options.max_run_bytes = max_run_bytes;
    session_ = Session::open_memory(recurrent().blob(), options).value();
    context_ = session_->make_context().value();
    state_ = session_->make_state().value();
    EXPECT_TRUE(context_->set_state(state_.get()));
  }
  static auto open_with(const std::vector<std::string>& states) {
    return code_of(Session::open_memory(recurrent().blob(), with_states(states)));
  }
  /// A run with rows of `first`, first + 1, ...
  test::Outcome run(float first, std::int64_t rows = 1, std::int64_t batch = 1) {
    Tensor x = Tensor::allocate(DataType::kFloat, {batch, rows, 2}).value();
    for (float& element : x.mutable_elements<float>()) element = first++;
    EXPECT_TRUE(context_->set_input(0, x));
    return code_of(context_->run());
  }
  Floats y() { return floats_of(context_->outputs()[0]); }
  Floats value(std::size_t pair) { return floats_of(state_->read(pair).value()); }

  std::unique_ptr<Session> session_;
  std::unique_ptr<RunContext> context_;
  std::unique_ptr<ModelState> state_;
};

TEST_F(States, AutoPairsUsualNames) {
  open({"auto"});
  const auto pairs = session_->state_pairs();
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].input, "past");
  EXPECT_EQ(pairs[0].output, "present");
  EXPECT_TRUE(pairs[0].grows);
  EXPECT_FALSE(pairs[0].in_place);
  EXPECT_EQ(pairs[1].input, "state_in");
  EXPECT_EQ(pairs[1].output, "state_out");
  EXPECT_FALSE(pairs[1].grows);
}

TEST_F(States, RunsContinueEachOther) {
  open({"auto"});
  EXPECT_EQ(state_->length(), 0);
  ASSERT_EQ(run(1, 2), kOk);
  EXPECT_EQ(y(), (Floats{1, 2, 3, 4}));
  EXPECT_FALSE(context_->outputs()[1].defined());
  EXPECT_EQ(state_->length(), 2);
  ASSERT_EQ(run(5), kOk);
  EXPECT_EQ(y(), (Floats{6, 16}));
  EXPECT_EQ(value(0), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(value(1), (Floats{2, 20}));
  EXPECT_TRUE(state_->reset());
  EXPECT_EQ(state_->length(), 0);
  ASSERT_EQ(run(7, 1, 2), kOk);  // of another batch
  EXPECT_EQ(y(), (Floats{7, 8, 9, 10}));
  EXPECT_EQ(value(1), (Floats{1, 10, 1, 10}));
}

TEST_F(States, AStateGoesWithAnyContext) {
  open({"auto"});
  ASSERT_EQ(run(1), kOk);
  const auto other = session_->make_context().value();
  const auto fork = state_->fork().value();
  ASSERT_EQ(run(3), kOk);
  context_ = session_->make_context().value();
  ASSERT_TRUE(context_->set_state(fork.get()));
  ASSERT_EQ(run(5), kOk);
  EXPECT_EQ(value(0), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(floats_of(fork->read(0).value()), (Floats{1, 2, 5, 6}));
  EXPECT_EQ(floats_of(fork->read(1).value()), (Floats{2, 20}));
  const auto stranger = Session::open_memory(recurrent().blob(), with_states({"auto"})).value();
  EXPECT_EQ(code_of(context_->set_state(stranger->make_state().value().get())),
            ErrorCode::kInvalidArgument);
}

TEST_F(States, RewindForgetsRows) {
  open({"past=present"});
  ASSERT_TRUE(context_->set_input(2, Tensor::allocate(DataType::kFloat, {1, 1, 2}).value()));
  ASSERT_EQ(run(1, 4), kOk);
  for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{5}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(code_of(state_->rewind(length)), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(state_->rewind(4));
  EXPECT_TRUE(state_->rewind(1));
  EXPECT_EQ(state_->length(), 1);
  ASSERT_EQ(run(9), kOk);
  EXPECT_EQ(value(0), (Floats{1, 2, 9, 10}));
  EXPECT_TRUE(state_->rewind(0));
  ASSERT_EQ(run(3), kOk);
  EXPECT_EQ(value(0), (Floats{3, 4}));
}

TEST_F(States, WhatDoesNotGrowCannotBeRewound) {
  open({"auto"});
  ASSERT_EQ(run(1, 2), kOk);
  EXPECT_EQ(code_of(state_->rewind(1)), ErrorCode::kUnsupported);
  EXPECT_EQ(state_->length(), 2);
}

TEST_F(States, AFailedRunChangesNothing) {
  open({"auto"});
  EXPECT_EQ(code_of(context_->run()), ErrorCode::kInvalidArgument);  // no x
  EXPECT_EQ(code_of(state_->read(0)), ErrorCode::kInvalidArgument);
  ASSERT_EQ(run(1, 1, 2), kOk);
  EXPECT_EQ(run(1, 1, 3), test::Outcome(ErrorCode::kInvalidArgument));  // another batch
  context_->stop();
  EXPECT_EQ(run(1, 1, 2), test::Outcome(ErrorCode::kCancelled));
  EXPECT_EQ(value(0), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(value(1), (Floats{1, 10, 1, 10}));
  ASSERT_EQ(run(5, 1, 2), kOk);
  EXPECT_EQ(value(0), (Floats{1, 2, 5, 6, 3, 4, 7, 8}));
}

TEST_F(States, MemoryIsBounded) {
  open({"auto"}, 6000);
  ASSERT_EQ(run(1, 300), kOk);
  EXPECT_EQ(run(1, 300), test::Outcome(ErrorCode::kResourceLimit));
  EXPECT_EQ(state_->length(), 300);
  EXPECT_GE(state_->size_bytes(), 300U * 8);
}

TEST_F(States, WhatIsTheStatesIsNotGiven) {
  open({"auto"});
  Floats memory(8);
  ASSERT_TRUE(context_->set_output(1, std::as_writable_bytes(std::span(memory))));
  EXPECT_EQ(run(1), test::Outcome(ErrorCode::kInvalidArgument));
  ASSERT_TRUE(context_->set_output(1, {}));
  ASSERT_TRUE(context_->set_input(2, Tensor::allocate(DataType::kFloat, {1, 1, 2}).value()));
  EXPECT_EQ(run(1), test::Outcome(ErrorCode::kInvalidArgument));
  ASSERT_TRUE(context_->set_input(2, {}));
  EXPECT_EQ(run(1), kOk);
}

TEST_F(States, WrongPairsAreRefused) {
  for (const char* wrong :
       {"past", "", "=", "past=", "=present", "none=present", "past=none", "past=y="})
    EXPECT_EQ(open_with({wrong}), test::Outcome(ErrorCode::kInvalidArgument)) << wrong;
  EXPECT_EQ(open_with({"past=present", "past=present"}),
            test::Outcome(ErrorCode::kInvalidArgument));
  EXPECT_EQ(open_with({"past=present", "auto"}), kOk);
  const auto plain = Session::open_memory(recurrent().blob()).value();
  EXPECT_EQ(code_of(plain->make_state()), ErrorCode::kInvalidArgument);
  ModelBytes none;
  none.input("x", {2}).output("y", {2});
  none.add(ModelBytes::node("relu", "Relu", {"x"}, {"y"}));
  EXPECT_EQ(code_of(Session::open_memory(none.blob(), with_states({"auto"}))),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ctxgen
