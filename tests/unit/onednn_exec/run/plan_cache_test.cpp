#include "run/plan_cache.h"

#include <atomic>
#include <latch>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "reference.h"

// Plans for shapes met at run time: one per shape whoever asks, a bounded number of them, and none
// that goes away under a run. Built with -fsanitize=thread as well.
namespace ctxgen::onednn::test {
namespace {

struct Shape {
  explicit Shape(std::int64_t size) : view{DataType::kFloat, Dims{size}, nullptr} {}
  TensorView view;
  [[nodiscard]] std::span<const TensorView> inputs() const { return {&view, 1}; }
};

PlanCache::PlanPtr plan_of(std::int64_t size) {
  auto plan = std::make_shared<Plan>();
  plan->input_dims = {Dims{size}};
  return plan;
}

PlanCache::PlanPtr get(PlanCache& cache, std::int64_t size) {
  return cache.get(Shape(size).inputs(), [&] { return Result<PlanCache::PlanPtr>(plan_of(size)); })
      .value();
}

TEST(PlanCache, KeepsTheMostRecentlyUsed) {
  PlanCache cache(2);
  const auto* one = get(cache, 1).get();
  (void)get(cache, 2);
  EXPECT_EQ(get(cache, 1).get(), one);
  (void)get(cache, 3);  // drops 2
  EXPECT_EQ(get(cache, 1).get(), one);
  EXPECT_EQ(cache.counters().made, 3U);
  EXPECT_EQ(cache.counters().dropped, 1U);
  (void)get(cache, 2);
  EXPECT_EQ(cache.counters().made, 4U);
  EXPECT_EQ(cache.counters().kept, 2U);
}

TEST(PlanCache, KeepsOneAtLeast) {
  PlanCache cache(0);
  const auto* one = get(cache, 1).get();
  EXPECT_EQ(get(cache, 1).get(), one);
  EXPECT_EQ(cache.counters().kept, 1U);
}

TEST(PlanCache, FindsADroppedPlanThatStillRuns) {
  PlanCache cache(1);
  const PlanCache::PlanPtr running = get(cache, 1);
  (void)get(cache, 2);
  EXPECT_EQ(get(cache, 1), running);
  EXPECT_EQ(cache.counters().made, 2U);
}

TEST(PlanCache, AFailureIsReportedAndNotRemembered) {
  PlanCache cache(2);
  const auto failing = [] {
    return Result<PlanCache::PlanPtr>(fail(ErrorCode::kUnsupported, "no"));
  };
  EXPECT_EQ(cache.get(Shape(1).inputs(), failing).error().code, ErrorCode::kUnsupported);
  const auto throwing = []() -> Result<PlanCache::PlanPtr> { throw std::bad_alloc(); };
  EXPECT_EQ(cache.get(Shape(1).inputs(), throwing).error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ(get(cache, 1)->input_dims, std::vector<Dims>{Dims{1}});
  EXPECT_EQ(cache.counters().made, 1U);
}

TEST(PlanCache, ThreadsThatAskForOneShapeGetOnePlan) {
  constexpr int kThreads = 4;
  PlanCache cache(2);
  std::atomic<int> made{0};
  std::latch start(kThreads);
  std::vector<PlanCache::PlanPtr> plans(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        plans[static_cast<std::size_t>(t)] =
            cache
                .get(Shape(7).inputs(),
                     [&] {
                       made += 1;
                       // Until all others wait for this one or the machine is too busy to get them here.
                       for (int i = 0; i < 2000 && cache.counters().waits < kThreads - 1; ++i)
                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       return Result<PlanCache::PlanPtr>(plan_of(7));
                     })
                .value();
      });
  }
  EXPECT_EQ(made, 1);
  for (const auto& plan : plans) EXPECT_EQ(plan, plans[0]);
}

TEST(PlanCache, AKnownPlanIsFoundWhileAnotherIsMade) {
  PlanCache cache(2);
  const PlanCache::PlanPtr known = get(cache, 1);
  std::latch making(1), done(1);
  std::jthread slow([&] {
    (void)cache.get(Shape(2).inputs(), [&] {
      making.count_down();
      done.wait();
      return Result<PlanCache::PlanPtr>(plan_of(2));
    });
  });
  making.wait();
  EXPECT_EQ(get(cache, 1), known);  // would never return if the lock were held
  (void)get(cache, 3);              // and so would another new shape
  done.count_down();
}

/// relu(x * W + b) with rows of any number, whose results are known without running anything else.
void make_rows(Maker& maker, std::int64_t rows) {
  const Operand x = maker.input(Dims{rows, 16});
  maker.output(maker.op(kind::kMatmul, {x, maker.weight(Dims{16, 80}), maker.weight(Dims{80})}, {},
                        {unary("relu")}));
}

TEST(PlanCache, RunsOutliveTheirPlansEviction) {
  Maker first(31);
  make_rows(first, 1);
  const Packed packed = pack(first, {}).value();
  const auto executable =
      loader()
          .load(packed.shared(), packed.blobs(), {.threads = 1, .kept_plans = 1}, nullptr)
          .value();
  const auto work = [&](std::int64_t begin) {
    const auto state = executable->make_state().value();
    for (std::int64_t i = 0; i < 40; ++i) {
      Maker maker(31);
      make_rows(maker, begin + i % 5);
      const auto expected = reference(maker);
      const TensorView input = maker.inputs()[0].view();
      VectorOutputs outputs;
      ASSERT_TRUE(executable->run(*state, std::span(&input, 1), outputs));
      ASSERT_EQ(outputs.data[0].size(), expected[0].size());
      for (std::size_t k = 0; k < expected[0].size(); ++k)
        ASSERT_NEAR(outputs.data[0][k], expected[0][k], 1e-4);
    }
  };
  {
    std::jthread a(work, 1), b(work, 3), c(work, 1);
    work(4);
  }
  const PlanStatistics statistics = executable->plan_statistics();
  EXPECT_EQ(statistics.kept, 1U);
  EXPECT_GT(statistics.dropped, 0U);
}

/// Many shapes: plans stay bounded, and so do the forms of the weights.
TEST(PlanCache, ManyShapesNeedBoundedMemory) {
  Maker first(32);
  make_rows(first, 1);
  const Packed packed = pack(first, {}).value();
  const auto executable =
      loader()
          .load(packed.shared(), packed.blobs(), {.threads = 1, .kept_plans = 3}, nullptr)
          .value();
  const auto state = executable->make_state().value();
  for (std::int64_t rows = 1; rows <= 60; ++rows) {
    Maker maker(32);
    make_rows(maker, rows);
    const TensorView input = maker.inputs()[0].view();
    VectorOutputs outputs;
    ASSERT_TRUE(executable->run(*state, std::span(&input, 1), outputs));
  }
  const PlanStatistics statistics = executable->plan_statistics();
  EXPECT_EQ(statistics.made, 60U);
  EXPECT_EQ(statistics.kept, 3U);
  EXPECT_EQ(statistics.dropped, 57U);
  EXPECT_EQ(statistics.repacked_weights, 0U) << "one packing serves every number of rows";
}

/// A 1x1 convolution whose packing flips with the image size on some machines: whatever oneDNN
/// picks, a form is made once, however often its shapes come back.
TEST(PlanCache, WeightsAreRepackedOncePerLayout) {
  const auto make = [](Maker& maker, std::int64_t size) {
    const Operand x = maker.input(Dims{1, 32, size, size});
    maker.output(maker.op(kind::kConv, {x, maker.weight(Dims{64, 32, 1, 1})}));
  };
  Maker first(33);
  make(first, 7);
  const Packed packed = pack(first, {{first.input_dims()}}).value();
  const auto executable =
      loader()
          .load(packed.shared(), packed.blobs(), {.threads = 1, .kept_plans = 1}, nullptr)
          .value();
  const auto state = executable->make_state().value();
  std::uint64_t repacked = 0;
  std::map<std::int64_t, std::vector<std::vector<double>>> references;  // by size
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t size : {7, 28, 8, 14}) {
      Maker maker(33);
      make(maker, size);
      const TensorView input = maker.inputs()[0].view();
      VectorOutputs outputs;
      ASSERT_TRUE(executable->run(*state, std::span(&input, 1), outputs));
      auto& expected = references[size];
      if (expected.empty()) expected = reference(maker);
      for (std::size_t k = 0; k < expected[0].size(); ++k)
        ASSERT_NEAR(outputs.data[0][k], expected[0][k], 1e-3);
    }
    const PlanStatistics statistics = executable->plan_statistics();
    if (round == 0) repacked = statistics.repacked_weights;
    EXPECT_EQ(statistics.repacked_weights, repacked);
    // The plain form, where a packing is the only stored one, and a few blockings of it.
    EXPECT_LE(statistics.repacked_weights, 4U);
    EXPECT_LE(statistics.repacked_bytes, 4U * 64 * 32 * sizeof(float));
    EXPECT_EQ(statistics.stored, 1U);
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
