#include "ctxgen/base/workers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

/// How often each index was called.
std::vector<int> calls(Workers& workers, std::int64_t count) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(count));
  workers.parallel_for(count, [&](std::int64_t i) { ++counts.at(static_cast<std::size_t>(i)); });
  return {counts.begin(), counts.end()};
}

TEST(Workers, CallEachIndexOnce) {
  OneThread one;
  StartedThreads two(2);
  StartedThreads many(1000);  // of which 64 are used
  StartedThreads none(0);     // the caller alone
  for (Workers* workers : std::initializer_list<Workers*>{&one, &two, &many, &none})
    for (const std::int64_t count : {0, 1, 2, 3, 1000}) {
      const std::vector<int> got = calls(*workers, count);
      EXPECT_EQ(got, std::vector<int>(static_cast<std::size_t>(count), 1)) << count;
    }
}

TEST(Workers, OneThreadKeepsTheOrder) {
  OneThread one;
  std::vector<std::int64_t> order;
  one.parallel_for(5, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Workers, StartedThreadsRunAtOnce) {
  // Each task waits for the other: one thread alone would not come back.
  std::atomic<int> arrived{0};
  std::set<std::thread::id> threads;
  std::mutex mutex;
  StartedThreads(2).parallel_for(2, [&](std::int64_t) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
    const std::scoped_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2U);
}

TEST(Workers, WhatTasksWroteIsSeenAfterwards) {
  std::vector<std::int64_t> squares(1000);
  StartedThreads(4).parallel_for(std::ssize(squares), [&](std::int64_t i) { squares[i] = i * i; });
  EXPECT_EQ(std::accumulate(squares.begin(), squares.end(), std::int64_t{0}), 332'833'500);
}

}  // namespace
}  // namespace ctxgen
