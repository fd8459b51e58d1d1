// If, Loop and Scan in a session: what bodies see, how values travel through iterations, and what
// ends a run. Models are written in ONNX's text form.

#include <algorithm>
#include <atomic>
#include <thread>

#include "session_models.h"

namespace ctxgen {
namespace {

using namespace test;

// ---- If ----

constexpr const char* kIf = R"(
g (bool c, float[n] x) => (float[n] y) {
  twice = Add (x, x)
  y = If (c) <
    then_branch = yes () => (float[n] a) { a = Neg (twice) },
    else_branch = no () => (float[n] b) { b = Identity (x) }
  >
})";

TEST(If, RunsOneBranchWithCapturedValues) {
  const auto session = open(kIf);
  ASSERT_NE(session, nullptr);
  const Tensor x = floats({2}, {1, 2});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(true)}, {"x", x}})->front()),
              (Floats{-2, -4}));
    EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(false)}, {"x", x}})->front()),
              (Floats{1, 2}));
  }
}

TEST(If, ABranchMayBeNothingButACapture) {
  const auto session = open(R"(
g (bool c, float[n] x) => (float[n] y) <float[2] w = {5, 6}> {
  y = If (c) <
    then_branch = yes () => (float[n] x) {},
    else_branch = no () => (float[n] w) {}
  >
})");
  ASSERT_NE(session, nullptr);
  const Tensor x = floats({2}, {1, 2});
  EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(true)}, {"x", x}})->front()), (Floats{1, 2}));
  EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(false)}, {"x", x}})->front()),
            (Floats{5, 6}));
}

TEST(If, CapturesGoThroughGraphsThatDoNotUseThem) {
  const auto session = open(R"(
g (bool c, float[n] x) => (float[n] y) <float[1] w = {100}> {
  y = If (c) <
    then_branch = yes () => (float[n] a) {
      a = If (c) <
        then_branch = inner () => (float[n] d) { e = Add (x, w)  d = Neg (e) },
        else_branch = never () => (float[n] f) { f = Neg (x) }
      >
    },
    else_branch = no () => (float[n] b) { b = Neg (x) }
  >
})");
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(true)}, {"x", floats({1}, {1})}})->front()),
            (Floats{-101}));
}

TEST(If, BodiesHaveInitializersOfTheirOwn) {
  const auto session = open(R"(
g (bool c, float[n] x) => (float[n] y) {
  y = If (c) <
    then_branch = yes () => (float[n] a) <float[1] w = {10}> { a = Add (x, w) },
    else_branch = no () => (float[n] b) <float[1] w = {20}> { b = Add (x, w) }
  >
})");
  ASSERT_NE(session, nullptr);
  const Tensor x = floats({1}, {1});
  EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(true)}, {"x", x}})->front()), (Floats{11}));
  EXPECT_EQ(values_of(session->run(Inputs{{"c", truth(false)}, {"x", x}})->front()), (Floats{21}));
}

TEST(If, RefusesAConditionThatIsNotOneBool) {
  const auto session = open(R"(
g (bool[m] c, float[n] x) => (float[n] y) {
  y = If (c) <then_branch = yes () => (float[n] x) {}, else_branch = no () => (float[n] x) {}>
})");
  ASSERT_NE(session, nullptr);
  const Tensor two = *Tensor::allocate(DataType::kBool, {2});
  const auto outcome = code_of(session->run(Inputs{{"c", two}, {"x", floats({1}, {1})}}));
  EXPECT_EQ(outcome, ErrorCode::kInvalidGraph);
  EXPECT_NE(outcome.message.find("(If)"), std::string::npos) << outcome.message;
}

TEST(If, AnErrorInsideNamesBothNodes) {
  const auto session = open(R"(
g (bool c, float[n] x, float[m] z) => (float[k] y) {
  [choice] y = If (c) <
    then_branch = yes () => (float[k] a) { [sum] a = Add (x, z) },
    else_branch = no () => (float[k] b) { b = Neg (x) }
  >
})");
  ASSERT_NE(session, nullptr);
  const Tensor x = floats({2}, {1, 2});
  const Tensor z = floats({3}, {1, 2, 3});
  const auto outcome = code_of(session->run(Inputs{{"c", truth(true)}, {"x", x}, {"z", z}}));
  EXPECT_EQ(outcome, ErrorCode::kInvalidGraph);
  for (const char* name : {"\"choice\" (If)", "\"yes\"", "\"sum\" (Add)"})
    EXPECT_NE(outcome.message.find(name), std::string::npos) << outcome.message;
  EXPECT_EQ(code_of(session->run(Inputs{{"c", truth(false)}, {"x", x}, {"z", z}})), kOk)
      << "the session stays usable";
}

TEST(If, ANodeInABranchThatHasNoKernelIsNamedAtOpening) {
  const auto outcome = code_of(Session::open_memory(model_bytes(R"(
g (bool c, float[n] x) => (float[n] y) {
  [choice] y = If (c) <
    then_branch = yes () => (float[n] a) { [odd] a = Frobnicate (x) },
    else_branch = no () => (float[n] b) { b = Neg (x) }
  >
})")));
  EXPECT_EQ(outcome, ErrorCode::kUnsupported);
  for (const char* name : {"choice", "then_branch", "Frobnicate"})
    EXPECT_NE(outcome.message.find(name), std::string::npos) << outcome.message;
}

// ---- Loop ----

// Doubles x until it is above the limit; stacks what it was before each step.
constexpr const char* kDoubling = R"(
g (int64 trips, float[1] limit, float[1] x) => (float[1] last, float[t, 1] all) {
  start = Less (x, limit)
  go = Squeeze (start)
  last, all = Loop (trips, go, x) <
    body = b (int64 i, bool c, float[1] v) => (bool more, float[1] next, float[1] before) {
      next = Add (v, v)
      before = Identity (v)
      less = Less (next, limit)
      more = Squeeze (less)
    }
  >
})";

TEST(Loop, EndsByItsConditionOrItsTripCount) {
  const auto session = open(kDoubling);
  ASSERT_NE(session, nullptr);
  const auto run = [&](std::int64_t trips, float limit) {
    return session->run(
        Inputs{{"trips", number(trips)}, {"limit", floats({1}, {limit})}, {"x", floats({1}, {1})}});
  };
  auto outputs = run(100, 10);
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(values_of((*outputs)[0]), (Floats{16}));
  EXPECT_EQ(values_of((*outputs)[1]), (Floats{1, 2, 4, 8}));
  EXPECT_EQ((*outputs)[1].dims(), (Dims{4, 1}));
  outputs = run(2, 10);
  EXPECT_EQ(values_of((*outputs)[0]), (Floats{4}));
  EXPECT_EQ(values_of((*outputs)[1]), (Floats{1, 2}));
  // A trip count that no memory could hold is only a bound.
  outputs = run(INT64_MAX, 1000);
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ((*outputs)[1].dims(), (Dims{10, 1}));
}

TEST(Loop, WithoutATripGivesWhatCameInAndAnEmptyStack) {
  const auto session = open(kDoubling);
  ASSERT_NE(session, nullptr);
  for (const auto& [trips, limit] :
       {std::pair(0, 10.0F), std::pair(5, 0.5F), std::pair(-3, 10.0F)}) {
    const auto outputs = session->run(
        Inputs{{"trips", number(trips)}, {"limit", floats({1}, {limit})}, {"x", floats({1}, {1})}});
    ASSERT_EQ(code_of(outputs), kOk);
    EXPECT_EQ(values_of((*outputs)[0]), (Floats{1}));
    EXPECT_EQ((*outputs)[1].dims(), (Dims{0, 1}));
    EXPECT_EQ((*outputs)[1].type(), DataType::kFloat);
  }
}

TEST(Loop, CarriedValuesMayChangeTheirShape) {
  const auto session = open(R"(
g (int64 trips, float[n] x) => (float[m] y) {
  y = Loop (trips, , x) <
    body = b (int64 i, bool c, float[k] v) => (bool more, float[l] w) {
      more = Identity (c)
      w = Concat <axis = 0> (v, x)
    }
  >
})");
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 2; ++i) {
    const auto outputs = session->run(Inputs{{"trips", number(3)}, {"x", floats({2}, {1, 2})}});
    ASSERT_EQ(code_of(outputs), kOk);
    EXPECT_EQ(values_of(outputs->front()), (Floats{1, 2, 1, 2, 1, 2, 1, 2}));
  }
}

TEST(Loop, StackedOutputsMustHaveOneShape) {
  const auto session = open(R"(
g (int64 trips, float[n] x) => (float[m] y, float[t, s] all) {
  [grow] y, all = Loop (trips, , x) <
    body = b (int64 i, bool c, float[k] v) => (bool more, float[l] w, float[l] o) {
      more = Identity (c)
      w = Concat <axis = 0> (v, x)
      o = Identity (v)
    }
  >
})");
  ASSERT_NE(session, nullptr);
  const auto outcome = code_of(session->run(Inputs{{"trips", number(2)}, {"x", floats({1}, {1})}}));
  EXPECT_EQ(outcome, ErrorCode::kInvalidGraph);
  EXPECT_NE(outcome.message.find("scan output 0"), std::string::npos) << outcome.message;
  EXPECT_NE(outcome.message.find("grow"), std::string::npos) << outcome.message;
}

TEST(Loop, LoopsNestAndCountOnTheirOwn) {
  // The sum of i * j over i < 3, j < 4.
  const auto session = open(R"(
g (float zero) => (float sum) <int64 three = {3}, int64 four = {4}> {
  sum = Loop (three, , zero) <
    body = outer (int64 i, bool c, float s) => (bool d, float r) {
      d = Identity (c)
      r = Loop (four, , s) <
        body = inner (int64 j, bool e, float t) => (bool f, float u) {
          f = Identity (e)
          p = Mul (i, j)
          q = Cast <to = 1> (p)
          u = Add (t, q)
        }
      >
    }
  >
})");
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(values_of(session->run(Inputs{{"zero", floats({}, {0})}})->front()), (Floats{18}));
}

TEST(Loop, StacksThousandsInLinearMemory) {
  const auto session = open(R"(
g (int64 trips) => (int64[t] all) {
  all = Loop (trips, ) <
    body = b (int64 i, bool c) => (bool more, int64 o) { more = Identity (c)  o = Identity (i) }
  >
})");
  ASSERT_NE(session, nullptr);
  const auto outputs = session->run(Inputs{{"trips", number(20000)}});
  ASSERT_EQ(code_of(outputs), kOk);
  const auto all = values_of<std::int64_t>(outputs->front());
  ASSERT_EQ(all.size(), 20000U);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::int64_t>(i));
}

// ---- Scan ----

constexpr const char* kRunningSum = R"(
g (float[2] start, float[t, 2] x) => (float[2] sum, float[t, 2] sums) {
  sum, sums = Scan <num_scan_inputs = 1,
    body = b (float[2] s, float[2] e) => (float[2] r, float[2] o) {
      r = Add (s, e)
      o = Identity (r)
    }
  > (start, x)
})";

TEST(Scan, CarriesStateAndStacksOutputs) {
  const auto session = open(kRunningSum);
  ASSERT_NE(session, nullptr);
  const auto outputs = session->run(
      Inputs{{"start", floats({2}, {0, 100})}, {"x", floats({3, 2}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(values_of((*outputs)[0]), (Floats{9, 112}));
  EXPECT_EQ(values_of((*outputs)[1]), (Floats{1, 102, 4, 106, 9, 112}));
}

TEST(Scan, OfNothingGivesTheStateAndAnEmptyStack) {
  const auto session = open(kRunningSum);
  ASSERT_NE(session, nullptr);
  const auto outputs =
      session->run(Inputs{{"start", floats({2}, {7, 8})}, {"x", floats({0, 2}, {})}});
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(values_of((*outputs)[0]), (Floats{7, 8}));
  EXPECT_EQ((*outputs)[1].dims(), (Dims{0, 2}));
}

TEST(Scan, TakesAxesAndDirections) {
  const auto session = open(R"(
g (float[2, t] x, float[t] w) => (float[2, t] y) {
  y = Scan <num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [0, 1],
            scan_output_axes = [-1], scan_output_directions = [1],
    body = b (float[2] e, float f) => (float[2] o) { o = Mul (e, f) }
  > (x, w)
})");
  ASSERT_NE(session, nullptr);
  const auto outputs = session->run(
      Inputs{{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"w", floats({3}, {1, 10, 100})}});
  ASSERT_EQ(code_of(outputs), kOk);
  // Column t times w[2 - t], at column 2 - t.
  EXPECT_EQ(values_of((*outputs)[0]), (Floats{3, 20, 100, 6, 50, 400}));
}

TEST(Scan, RefusesInputsOfDifferentLengths) {
  const auto session = open(R"(
g (float[t] x, float[u] w) => (float[v] y) {
  y = Scan <num_scan_inputs = 2,
    body = b (float e, float f) => (float o) { o = Mul (e, f) }
  > (x, w)
})");
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(
      code_of(session->run(Inputs{{"x", floats({2}, {1, 2})}, {"w", floats({3}, {1, 2, 3})}})),
      ErrorCode::kInvalidGraph);
}

TEST(Scan, Version8RunsEachSequenceOfABatchToItsLength) {
  const auto session = open(R"(
g (int64[b] lengths, float[b] start, float[b, t] x) => (float[b] sum, float[b, t] sums) {
  sum, sums = Scan <num_scan_inputs = 1, directions = [1],
    body = b (float s, float e) => (float r, float o) { r = Add (s, e)  o = Identity (r) }
  > (lengths, start, x)
})",
                            {}, 8);
  ASSERT_NE(session, nullptr);
  const auto outputs = session->run(Inputs{{"lengths", tensor<std::int64_t>({3}, {3, 1, 0})},
                                           {"start", floats({3}, {0, 10, 20})},
                                           {"x", floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}});
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(values_of((*outputs)[0]), (Floats{6, 14, 20}));
  EXPECT_EQ(values_of((*outputs)[1]), (Floats{3, 5, 6, 14, 0, 0, 0, 0, 0}));
}

// ---- limits ----

// Doubles a tensor in each iteration, without end.
constexpr const char* kExplosion = R"(
g (float[n] x) => (float[m] y) {
  [bomb] y = Loop ( , , x) <
    body = b (int64 i, bool c, float[k] v) => (bool more, float[l] w) {
      more = Identity (c)
      w = Concat <axis = 0> (v, v)
    }
  >
})";

TEST(Limits, ALoopThatGrowsForEverEndsWithAnError) {
  const auto session = open(kExplosion, limited_to(1 << 20));
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 2; ++i) {
    const auto outcome = code_of(session->run(Inputs{{"x", floats({1}, {1})}}));
    EXPECT_EQ(outcome, ErrorCode::kResourceLimit);
    EXPECT_NE(outcome.message.find("bomb"), std::string::npos) << outcome.message;
  }
}

TEST(Limits, AStackThatGrowsForEverEndsWithAnError) {
  const auto session = open(R"(
g (float[n] x) => (float[t, n] all) {
  all = Loop ( , ) <
    body = b (int64 i, bool c) => (bool more, float[n] o) { more = Identity (c)  o = Neg (x) }
  >
})",
                            limited_to(1 << 20));
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(code_of(session->run(Inputs{{"x", floats({64}, Floats(64))}})),
            ErrorCode::kResourceLimit);
}

TEST(Limits, MemoryOfOneRunIsNotHeldAgainstTheNext) {
  // Each output is 40000 bytes, the limit 100000: kept outputs of earlier runs count no longer.
  const auto session = open(kRunningSum, limited_to(100000));
  ASSERT_NE(session, nullptr);
  std::vector<Tensor> kept;
  for (int i = 0; i < 10; ++i) {
    const auto outputs = session->run(
        Inputs{{"start", floats({2}, {0, 0})}, {"x", floats({5000, 2}, Floats(10000, 1))}});
    ASSERT_EQ(code_of(outputs), kOk) << "run " << i;
    kept.push_back((*outputs)[1]);
  }
  EXPECT_EQ(values_of(kept.front()).back(), 5000);
}

TEST(Limits, ALoopWithoutEndCanBeStopped) {
  const auto session = open(R"(
g (float[n] x) => (float[n] y) {
  y = Loop ( , , x) <
    body = b (int64 i, bool c, float[n] v) => (bool c, float[n] v) {}
  >
})");
  ASSERT_NE(session, nullptr);
  std::atomic<bool> stop = false;
  std::thread stopper([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  const std::vector<NamedValue> inputs{{"x", floats({1}, {1})}};
  EXPECT_EQ(code_of(session->run_values(inputs, {.timings = nullptr, .stop = &stop})),
            ErrorCode::kCancelled);
  stopper.join();
}

// ---- threads ----

TEST(ControlFlow, OneSessionRunsInSeveralThreadsAtOnce) {
  const auto choice = open(kIf);
  const auto doubling = open(kDoubling);
  ASSERT_NE(choice, nullptr);
  ASSERT_NE(doubling, nullptr);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::int64_t size = 1 + (i + t) % 5;
        const bool yes = (i + t) % 2 == 0;
        const Tensor x = floats({size}, Floats(static_cast<std::size_t>(size), 3));
        const auto chosen = choice->run(Inputs{{"c", truth(yes)}, {"x", x}});
        if (!chosen || values_of(chosen->front()).back() != (yes ? -6 : 3)) ++wrong;
        const auto doubled = doubling->run(Inputs{
            {"trips", number(3 + t)}, {"limit", floats({1}, {1e9F})}, {"x", floats({1}, {1})}});
        if (!doubled || values_of((*doubled)[0])[0] != static_cast<float>(1 << (3 + t)) ||
            (*doubled)[1].dims()[0] != 3 + t)
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ControlFlow, TimingsOfANodeLeaveOutItsBodies) {
  const auto session = open(kDoubling);
  std::vector<OpTiming> timings;
  const Inputs inputs{
      {"trips", number(3)}, {"limit", floats({1}, {1e9F})}, {"x", floats({1}, {1})}};
  ASSERT_EQ(code_of(session->run(inputs, &timings)), kOk);
  EXPECT_EQ(std::ranges::count(timings, "Add", &OpTiming::kind), 3);
  EXPECT_EQ(std::ranges::count(timings, "Loop", &OpTiming::kind), 1);
  for (const OpTiming& timing : timings) EXPECT_GE(timing.microseconds, 0);
}

}  // namespace
}  // namespace ctxgen
