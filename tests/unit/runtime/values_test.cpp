// Sequences, optionals, maps and strings in a session.

#include <chrono>
#include <thread>

#include "session_models.h"

namespace ctxgen {
namespace {

using namespace test;
using Kind = RuntimeValue::Kind;

RuntimeValue sequence_of(std::vector<Tensor> tensors) {
  auto sequence = std::make_shared<SequenceValue>();
  for (Tensor& one : tensors) {
    sequence->element = one.type();
    sequence->items.emplace_back(std::move(one));
  }
  return RuntimeValue(std::move(sequence));
}

Result<std::vector<RuntimeValue>> run(const std::unique_ptr<Session>& session,
                                      std::vector<NamedValue> inputs) {
  return session->run_values(inputs);
}

Tensor strings(std::vector<std::string> texts) {
  const Dims dims{static_cast<std::int64_t>(texts.size())};
  return Tensor::of_strings(dims, std::move(texts));
}

// Appends i to the sequence in each of n iterations, and gives the one that came in as well.
constexpr const char* kAppend = R"(
g (int64 n, seq(int64) start) => (seq(int64) all, seq(int64) before) {
  all = Loop (n, , start) <
    body = b (int64 i, bool c, seq(int64) s) => (bool more, seq(int64) t) {
      more = Identity (c)
      t = SequenceInsert (s, i)
    }
  >
  before = Identity (start)
})";

TEST(Sequences, GrowInALoopAndLeaveTheirSourceAlone) {
  const auto session = open(kAppend);
  ASSERT_NE(session, nullptr);
  const RuntimeValue start = sequence_of({number(-1)});
  for (int i = 0; i < 2; ++i) {
    const auto outputs = run(session, {{"n", number(1000)}, {"start", start}});
    ASSERT_EQ(code_of(outputs), kOk);
    const SequenceValue& all = (*outputs)[0].sequence();
    ASSERT_EQ(all.items.size(), 1001U);
    EXPECT_EQ(values_of<std::int64_t>(all.items[1000].tensor()).front(), 999);
    EXPECT_EQ((*outputs)[1].sequence().items.size(), 1U);
    EXPECT_EQ(start.sequence().items.size(), 1U);
  }
}

TEST(Sequences, GrowingWithoutEndIsALimit) {
  const auto session = open(R"(
g (int64 x) => (seq(int64) all) {
  empty = SequenceEmpty <dtype = 7> ()
  all = Loop ( , , empty) <
    body = b (int64 i, bool c, seq(int64) s) => (bool more, seq(int64) t) {
      more = Identity (c)
      t = SequenceInsert (s, x)
    }
  >
})",
                            limited_to(1 << 20));
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(code_of(run(session, {{"x", number(1)}})), ErrorCode::kResourceLimit);
}

TEST(Sequences, PositionsCountFromBothEndsAndAreChecked) {
  const auto session = open(R"(
g (seq(float[]) s, float[] x, int64 p) => (seq(float[]) with, float[] at, seq(float[]) without) {
  with = SequenceInsert (s, x, p)
  at = SequenceAt (s, p)
  without = SequenceErase (s, p)
})");
  ASSERT_NE(session, nullptr);
  const RuntimeValue s = sequence_of({floats({}, {1}), floats({}, {2})});
  const auto at = [&](std::int64_t p) {
    return run(session, {{"s", s}, {"x", floats({}, {9})}, {"p", number(p)}});
  };
  const auto outputs = at(-1);
  ASSERT_EQ(code_of(outputs), kOk);
  const auto& with = (*outputs)[0].sequence().items;
  ASSERT_EQ(with.size(), 3U);
  EXPECT_EQ(values_of(with[1].tensor()), (Floats{9}));
  EXPECT_EQ(values_of((*outputs)[1].tensor()), (Floats{2}));
  EXPECT_EQ(values_of((*outputs)[2].sequence().items.at(0).tensor()), (Floats{1}));
  for (const std::int64_t p : {2, -3, 1000}) EXPECT_EQ(code_of(at(p)), ErrorCode::kInvalidGraph);
}

TEST(Sequences, MapRunsItsBodyForEachItem) {
  const auto session = open(R"(
g (seq(float[n]) s, float[1] x) => (seq(float[n]) t) {
  t = SequenceMap <body = b (float[n] a, float[1] y) => (float[n] c) { c = Mul (a, y) }> (s, x)
})");
  ASSERT_NE(session, nullptr);
  const auto outputs = run(session, {{"s", sequence_of({floats({1}, {1}), floats({2}, {2, 3})})},
                                     {"x", floats({1}, {10})}});
  ASSERT_EQ(code_of(outputs), kOk);
  const auto& items = outputs->front().sequence().items;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(values_of(items[1].tensor()), (Floats{20, 30}));
}

TEST(Sequences, TensorKernelsRefuseThem) {
  const auto session = open(R"(
g (seq(float[n]) s) => (float[n] y) { [wrong] y = Neg (s) })");
  ASSERT_NE(session, nullptr);
  const auto outcome = code_of(run(session, {{"s", sequence_of({floats({1}, {1})})}}));
  EXPECT_EQ(outcome, ErrorCode::kInvalidGraph);
  EXPECT_NE(outcome.message.find("wrong"), std::string::npos) << outcome.message;
}

TEST(Values, InputsOfTheWrongKindOrTypeAreRefused) {
  const auto session = open(kAppend);
  ASSERT_NE(session, nullptr);
  for (const RuntimeValue& wrong :
       {RuntimeValue(number(1)), sequence_of({floats({1}, {1})}), RuntimeValue::empty_optional()})
    EXPECT_EQ(code_of(run(session, {{"n", number(1)}, {"start", wrong}})),
              ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(run(session, {{"n", number(1)}})), ErrorCode::kInvalidArgument);
}

TEST(Values, RunGivesTensorsOnly) {
  const auto session = open(R"(g (float[n] x) => (seq(float[n]) s) { s = SequenceConstruct (x) })");
  ASSERT_NE(session, nullptr);
  const auto outcome = code_of(session->run(Inputs{{"x", floats({1}, {1})}}));
  EXPECT_EQ(outcome, ErrorCode::kUnsupported);
  EXPECT_NE(outcome.message.find("\"s\""), std::string::npos) << outcome.message;
}

TEST(Optionals, AnInputLeftOutIsEmpty) {
  const auto session = open(R"(
g (optional(float[n]) o, float[n] x) => (float[m] y) {
  has = OptionalHasElement (o)
  y = If (has) <
    then_branch = t () => (float[n] a) { a = OptionalGetElement (o) },
    else_branch = e () => (float[n] x) {}
  >
})");
  ASSERT_NE(session, nullptr);
  const Tensor x = floats({1}, {1});
  const auto without = run(session, {{"x", x}});
  ASSERT_EQ(code_of(without), kOk);
  EXPECT_EQ(values_of(without->front().tensor()), (Floats{1}));
  const auto with = run(session, {{"x", x}, {"o", floats({2}, {5, 6})}});
  ASSERT_EQ(code_of(with), kOk);
  EXPECT_EQ(values_of(with->front().tensor()), (Floats{5, 6}));
}

TEST(Strings, GrowingWithoutEndIsALimit) {
  const auto session = open(R"(
g (string[n] x) => (string[n] y) {
  y = Loop ( , , x) <
    body = b (int64 i, bool c, string[n] s) => (bool more, string[n] t) {
      more = Identity (c)
      t = StringConcat (s, s)
    }
  >
})",
                            limited_to(1 << 20), 20);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(code_of(run(session, {{"x", strings({"0123456789"})}})), ErrorCode::kResourceLimit);
}

TEST(Strings, CopiesOfALongOneAreALimit) {
  const auto session = open(R"(
g (string[1] x, int64[1] n) => (string[n] y) { y = Expand (x, n) })",
                            limited_to(1 << 20));
  ASSERT_NE(session, nullptr);
  const Tensor text = strings({std::string(10000, 'x')});
  const auto times = [&](std::int64_t n) {
    return code_of(run(session, {{"x", text}, {"n", tensor<std::int64_t>({1}, {n})}}));
  };
  EXPECT_EQ(times(10), kOk);
  EXPECT_EQ(times(1000), ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ctxgen
