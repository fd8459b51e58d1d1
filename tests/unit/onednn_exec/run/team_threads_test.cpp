#include "run/team_threads.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <latch>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "reference.h"

namespace ctxgen::onednn {
namespace {

using namespace test;

std::thread::id thread_of_call(TeamThreads& threads) {
  std::thread::id id;
  threads.run([&] { id = std::this_thread::get_id(); });
  return id;
}

std::thread::id thread_of_call_from_another(TeamThreads& threads) {
  std::thread::id id;
  std::jthread([&] { id = thread_of_call(threads); }).join();
  return id;
}

TEST(TeamThreads, CallsOfDifferentThreadsRunInOneThread) {
  TeamThreads threads;
  std::set<std::thread::id> seen;
  for (int i = 0; i < 20; ++i) seen.insert(thread_of_call_from_another(threads));
  seen.insert(thread_of_call(threads));
  EXPECT_EQ(seen.size(), 1);
  EXPECT_FALSE(seen.contains(std::this_thread::get_id()));
  EXPECT_EQ(threads.threads(), 1);
}

TEST(TeamThreads, CallsAtTheSameTimeRunInDifferentThreads) {
  TeamThreads threads;
  constexpr int kCalls = 3;
  std::latch all_run(kCalls);
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCalls; ++i)
    callers.emplace_back([&] { threads.run([&] { all_run.arrive_and_wait(); }); });
  callers.clear();
  EXPECT_LE(threads.threads(), kCalls);
}

TEST(TeamThreads, IdleThreadsEndButForOne) {
  TeamThreads threads;
  std::latch both_run(2);
  const auto call = [&] { threads.run([&] { both_run.arrive_and_wait(); }); };
  std::jthread other(call);
  call();
  other.join();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (threads.threads() > 1 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(threads.threads(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it may not end either
  EXPECT_EQ(threads.threads(), 1);
  EXPECT_NE(thread_of_call(threads), std::this_thread::get_id());
}

TEST(TeamThreads, AThreadThatCallsAloneComputesItself) {
  TeamThreads threads;
  for (std::size_t i = 0; i < TeamThreads::kSettled; ++i)
    EXPECT_NE(thread_of_call(threads), std::this_thread::get_id()) << i;
  EXPECT_EQ(thread_of_call(threads), std::this_thread::get_id());
  EXPECT_EQ(threads.threads(), 0);

  EXPECT_NE(thread_of_call_from_another(threads), std::this_thread::get_id());
  EXPECT_NE(thread_of_call(threads), std::this_thread::get_id());
  EXPECT_EQ(threads.threads(), 1);
}

TEST(TeamThreads, AnExceptionReachesTheCaller) {
  TeamThreads threads;
  EXPECT_THROW(threads.run([] { throw std::runtime_error("of the task"); }), std::runtime_error);
  EXPECT_NE(thread_of_call(threads), std::this_thread::get_id());
}

TEST(TeamThreads, ACallWithinACallStaysInItsThread) {
  TeamThreads threads;
  std::thread::id outer, inner;
  threads.run([&] {
    outer = std::this_thread::get_id();
    inner = thread_of_call(threads);
  });
  EXPECT_EQ(inner, outer);
}

TEST(TeamThreads, ACallRunsOnTheProcessorsOfItsCaller) {
  TeamThreads threads;
  (void)thread_of_call(threads);  // a thread of all processors
  cpu_set_t all, one, seen;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  CPU_ZERO(&seen);
  std::jthread([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    threads.run([&] { (void)sched_getaffinity(0, sizeof(seen), &seen); });
  }).join();
  EXPECT_TRUE(CPU_EQUAL(&seen, &one));
  threads.run([&] { (void)sched_getaffinity(0, sizeof(seen), &seen); });
  EXPECT_TRUE(CPU_EQUAL(&seen, &all));
}

// The thread sanitizer does not follow threads through fork().
#if !defined(__SANITIZE_THREAD__)
TEST(TeamThreads, AForkedProcessHasThreadsOfItsOwn) {
  auto threads = std::make_unique<TeamThreads>();
  for (std::size_t i = 0; i <= TeamThreads::kSettled; ++i) (void)thread_of_call(*threads);
  (void)thread_of_call_from_another(*threads);
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(60);  // rather than waiting for ever for a thread of the parent
    bool own = true;
    for (std::size_t i = 0; i < 2 * TeamThreads::kSettled; ++i)
      own = own && thread_of_call(*threads) != std::this_thread::get_id();
    threads.reset();
    _exit(own ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_NE(thread_of_call_from_another(*threads), std::this_thread::get_id());
}

/// Runs that took a thread of its own so often that the calling one has a team.
TEST(TeamThreads, AProgramRunsAfterAFork) {
  Maker maker(41);
  const Operand x = maker.input(Dims{64, 256});
  maker.output(maker.op(kind::kMatmul, {x, maker.weight(Dims{256, 512})}));
  const auto expected = reference(maker);
  const Packed packed = pack(maker, {}).value();
  const auto executable =
      loader().load(packed.shared(), packed.blobs(), {.threads = 2}, nullptr).value();
  const auto state = executable->make_state().value();
  const TensorView input = maker.inputs()[0].view();
  const auto is_right = [&] {
    VectorOutputs outputs;
    if (!executable->run(*state, std::span(&input, 1), outputs)) return false;
    for (std::size_t k = 0; k < expected[0].size(); ++k)
      if (std::abs(outputs.data[0][k] - expected[0][k]) > 1e-3) return false;
    return true;
  };
  for (std::size_t i = 0; i < TeamThreads::kSettled + 8; ++i) ASSERT_TRUE(is_right());
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(60);
    _exit(is_right() && is_right() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(is_right());
}
#endif

TEST(TeamThreads, AreSharedWhileSomeoneHoldsThem) {
  const auto first = TeamThreads::of_process();
  EXPECT_EQ(first, TeamThreads::of_process());
}

/// Threads that were started for a run of the program with two of them.
std::size_t threads_of_run(Maker& maker) {
  const auto threads = TeamThreads::of_process();
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto loaded =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
  const auto expected = reference(maker);
  for (int runs = 0; runs < 2; ++runs) {
    const Outputs found = run(*loaded, maker.inputs()).value();
    for (std::size_t i = 0; i < expected[0].size(); ++i)
      EXPECT_NEAR(found[0][i], expected[0][i], 2e-4 * (1 + std::fabs(expected[0][i])));
  }
  return threads->threads();
}

Maker chain(std::int64_t size) {
  Maker maker(3);
  const Operand x = maker.input(Dims{size, size}), y = maker.input(Dims{size, size});
  const Operand product =  // of two values: oneDNN's
      maker.op(kind::kMatmul, {x, y}, {}, {unary("relu")});
  const Operand sum = maker.op(kind::kMatmul, {product, maker.weight(Dims{size, 8})});
  maker.output(maker.op(kind::kSoftmax, {sum}, {integer("axis", 1)}));
  return maker;
}

TEST(TeamThreads, SmallProgramsRunInTheCallingThread) {
  Maker small = chain(12), large = chain(120);
  EXPECT_EQ(threads_of_run(small), 0U);
  EXPECT_EQ(threads_of_run(large), 1U);
}

/// Own kernels say as they run that they want threads.
TEST(TeamThreads, LargeLoopsOfSmallProgramsAreHandedOver) {
  Maker maker(4);
  const Operand x = maker.input(Dims{300, 1000});
  const Operand chain = maker.op(kind::kEltwise, {x}, {text("alg", "tanh")});
  maker.output(maker.op(kind::kEltwise, {chain}, {text("alg", "exp")}));
  EXPECT_EQ(threads_of_run(maker), 1U);
}

TEST(TeamThreads, ManyCallersAndFewThreads) {
  TeamThreads threads;
  std::atomic<int> calls = 0;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      for (int k = 0; k < 500; ++k) threads.run([&] { ++calls; });
    });
  callers.clear();
  EXPECT_EQ(calls, 8 * 500);
}

}  // namespace
}  // namespace ctxgen::onednn
