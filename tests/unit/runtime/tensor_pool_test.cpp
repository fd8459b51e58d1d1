#include "run/tensor_pool.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

Tensor take(TensorPool& pool, std::int64_t elements) {
  auto tensor = pool.allocate(DataType::kFloat, Dims{elements});
  EXPECT_TRUE(tensor.has_value());
  return std::move(*tensor);
}

TEST(TensorPool, GivesTheSameMemoryInTheNextRun) {
  TensorPool pool;
  const auto run = [&] {
    Tensor a = take(pool, 100);
    Tensor b = take(pool, 1000);
    pool.release(std::move(a));
    pool.release(std::move(b));
    pool.end_run();
  };
  run();
  const auto first = pool.allocations();
  run();
  run();
  EXPECT_EQ(first, 2U);
  EXPECT_EQ(pool.allocations(), first);
}

TEST(TensorPool, MemoryIsAlignedAndOfTheAskedSize) {
  TensorPool pool;
  pool.release(take(pool, 64));
  const Tensor tensor = take(pool, 60);
  EXPECT_EQ(tensor.bytes().size(), 240U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64, 0U);
  EXPECT_EQ(pool.allocations(), 1U);
}

TEST(TensorPool, LeavesTensorsAloneThatSomebodyElseSees) {
  TensorPool pool;
  RuntimeValue tensor = take(pool, 10);
  const RuntimeValue other = tensor;
  pool.release(std::move(tensor));
  EXPECT_FALSE(tensor.defined());
  EXPECT_EQ(pool.free_buffers(), 0U);
}

TEST(TensorPool, TakesOnlyMemoryOfItsOwn) {
  TensorPool pool;
  pool.release(*Tensor::allocate(DataType::kFloat, Dims{10}));
  pool.release(Tensor());
  EXPECT_EQ(pool.free_buffers(), 0U);
}

TEST(TensorPool, AHugeBufferDoesNotServeASmallTensor) {
  TensorPool pool;
  pool.release(take(pool, 1 << 20));
  const Tensor small = take(pool, 1);
  EXPECT_EQ(pool.allocations(), 2U);
  EXPECT_EQ(pool.free_buffers(), 1U);
}

TEST(TensorPool, GivesUnusedMemoryBackAfterTwoRuns) {
  TensorPool pool;
  pool.release(take(pool, 1 << 20));
  pool.end_run();
  EXPECT_EQ(pool.free_buffers(), 1U);
  pool.end_run();
  pool.end_run();
  EXPECT_EQ(pool.free_buffers(), 0U);
}

/// A decoder's step: masks with a number per token, next to tensors of one size.
void run_step(TensorPool& pool, std::int64_t length, std::int64_t most) {
  pool.expect_runs(static_cast<std::uint64_t>(most - length));
  Tensor fixed = take(pool, 300), mask = take(pool, length), other = take(pool, 2 * length + 1);
  pool.release(std::move(mask));
  Tensor late = take(pool, 700);
  pool.release(std::move(fixed));
  pool.release(std::move(other));
  pool.release(std::move(late));
  pool.end_run();
}

TEST(TensorPool, WhatGrowsFromRunToRunGetsRoomForThoseThatFollow) {
  constexpr std::int64_t kMost = 5000;
  TensorPool pool;
  for (std::int64_t length = 64; length < 66; ++length) run_step(pool, length, kMost);
  const std::uint64_t before = pool.allocations();
  for (std::int64_t length = 66; length < kMost; ++length) run_step(pool, length, kMost);
  EXPECT_EQ(pool.allocations(), before);
}

TEST(TensorPool, RoomStaysWithinTheLimit) {
  TensorPool pool(4096);
  for (const std::int64_t length : {600, 700, 800}) {
    pool.expect_runs(1'000'000);
    pool.release(take(pool, length));
    pool.end_run();
  }
}

TEST(TensorPool, RefusesWhatCannotBe) {
  TensorPool pool;
  EXPECT_EQ(code_of(pool.allocate(DataType::kFloat, Dims{INT64_MAX, 4})),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(pool.allocate(DataType::kFloat, Dims{std::int64_t{1} << 40, 4})),
            ErrorCode::kResourceLimit);
}

TEST(TensorPool, HoldsStringsToo) {
  TensorPool pool;
  const auto tensor = pool.allocate(DataType::kString, Dims{3});
  ASSERT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor->strings().size(), 3U);
}

constexpr std::int64_t kLarge = std::int64_t{1} << 19U;  // floats: more than malloc keeps

Tensor take_lasting(TensorPool& pool, std::int64_t elements) {
  auto tensor = pool.allocate_lasting(DataType::kFloat, Dims{elements});
  EXPECT_TRUE(tensor.has_value());
  return std::move(*tensor);
}

TEST(TensorPool, WritesWhereACallerHasLetGoOf) {
  TensorPool pool;
  Tensor output = take_lasting(pool, kLarge);
  const std::byte* first = output.bytes().data();
  pool.end_run();
  const std::uint64_t allocated = pool.allocated_bytes();
  for (int run = 0; run < 3; ++run) {
    output = Tensor();
    output = take_lasting(pool, kLarge);
    EXPECT_EQ(output.bytes().data(), first);
    pool.end_run();
  }
  EXPECT_EQ(pool.allocated_bytes(), allocated);
}

TEST(TensorPool, ACallersTensorIsLeftAlone) {
  TensorPool pool;
  const Tensor kept = take_lasting(pool, kLarge);
  pool.end_run();
  EXPECT_NE(take_lasting(pool, kLarge).bytes().data(), kept.bytes().data());
}

TEST(TensorPool, KeepsNoMoreThanTheOutputsOfOneRun) {
  TensorPool pool;
  {
    const Tensor one = take_lasting(pool, kLarge);
    pool.end_run();
    const Tensor two = take_lasting(pool, kLarge);
    pool.end_run();
  }
  const std::uint64_t before = pool.allocated_bytes();
  const Tensor one = take_lasting(pool, kLarge), two = take_lasting(pool, kLarge);
  EXPECT_EQ(pool.allocated_bytes() - before, two.bytes().size());
}

TEST(TensorPool, FreesWhatTheNextRunHasNoUseFor) {
  TensorPool pool;
  static_cast<void>(take_lasting(pool, kLarge));
  pool.end_run();
  static_cast<void>(take_lasting(pool, kLarge));
  pool.end_run();
  const std::uint64_t before = pool.allocated_bytes();
  static_cast<void>(take_lasting(pool, kLarge));
  EXPECT_GT(pool.allocated_bytes(), before);
}

TEST(TensorPool, OutputsOutliveThePool) {
  Tensor output;
  {
    TensorPool pool;
    output = take_lasting(pool, kLarge);
    pool.end_run();
  }
  EXPECT_EQ(output.bytes().size(), kLarge * sizeof(float));
}

TEST(TensorPool, WhatACallerLetGoOfIsBoundedByTheLimit) {
  TensorPool pool(3 * kLarge * sizeof(float));
  static_cast<void>(take_lasting(pool, kLarge));
  pool.end_run();
  const Tensor large = take(pool, 2 * kLarge), lasting = take_lasting(pool, kLarge);
  EXPECT_EQ(code_of(pool.allocate_lasting(DataType::kFloat, Dims{kLarge})),
            ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ctxgen
