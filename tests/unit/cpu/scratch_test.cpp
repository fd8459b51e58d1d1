#include "ctxgen/cpu/scratch.h"

#include <cstdint>
#include <limits>
#include <new>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace ctxgen::cpu {
namespace {

class KeptScratch : public testing::Test {
 protected:
  void SetUp() override {
    if (!Scratch::keeps()) GTEST_SKIP() << "AddressSanitizer sees each block by itself";
  }
  /// Takes and gives in a run.
  void run(std::size_t size_bytes) {
    const ScratchScope scope(&scratch_);
    Scratch::give(Scratch::take(size_bytes));
  }
  Scratch scratch_;
};

TEST_F(KeptScratch, GivesTheSameBlockAgain) {
  const ScratchScope scope(&scratch_);
  void* first = Scratch::take(1000);
  void* second = Scratch::take(1000);
  EXPECT_NE(first, second);
  Scratch::give(first);
  EXPECT_EQ(Scratch::take(1000), first);
  Scratch::give(first);
  Scratch::give(second);
}

TEST_F(KeptScratch, BlocksAreAtMostAQuarterLarger) {
  for (std::size_t size = 1; size < 100'000; size += size / 7 + 1) {
    Scratch scratch;
    const ScratchScope scope(&scratch);
    auto* block = static_cast<unsigned char*>(Scratch::take(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0U);
    block[size - 1] = 1;
    Scratch::give(block);
    EXPECT_GE(scratch.free_bytes(), size);
    EXPECT_LE(scratch.free_bytes(), std::max<std::size_t>(64, size + size / 4));
  }
}

TEST_F(KeptScratch, AnotherSizeIsAnotherBlock) {
  run(1000);
  const std::size_t before = scratch_.free_bytes();
  run(3000);
  EXPECT_GE(scratch_.free_bytes(), before + 3000);
}

TEST_F(KeptScratch, WhatARunHadNoUseForGoesBack) {
  run(1000);
  scratch_.end_run();  // the run took it
  EXPECT_GE(scratch_.free_bytes(), 1000U);
  run(1000);
  scratch_.end_run();
  EXPECT_GE(scratch_.free_bytes(), 1000U);
  scratch_.end_run();  // this run did not
  EXPECT_EQ(scratch_.free_bytes(), 0U);
}

TEST_F(KeptScratch, OnlyTheUnusedOnesOfASizeGoBack) {
  const auto take_three = [this](int count) {
    const ScratchScope scope(&scratch_);
    void* blocks[3];
    for (int i = 0; i < count; ++i) blocks[i] = Scratch::take(64);
    for (int i = 0; i < count; ++i) Scratch::give(blocks[i]);
    scratch_.end_run();
  };
  take_three(3);
  EXPECT_EQ(scratch_.free_bytes(), 3 * 64U);
  take_three(1);
  EXPECT_EQ(scratch_.free_bytes(), 64U);
}

// A kernel that takes a larger vector each time leaves one of each size behind.
TEST_F(KeptScratch, WhatIsKeptCountsAgainstTheLimit) {
  Scratch limited(10'000);
  const ScratchScope scope(&limited);
  for (std::size_t size_bytes = 64; size_bytes <= 8192; size_bytes *= 2) {
    Scratch::give(Scratch::take(size_bytes));
    EXPECT_LE(limited.free_bytes(), 10'000U) << size_bytes;
    EXPECT_GE(limited.free_bytes(), size_bytes);
  }
}

TEST_F(KeptScratch, MemoryGoesHomeFromAnyScope) {
  Scratch other;
  void* block = nullptr;
  {
    const ScratchScope scope(&scratch_);
    block = Scratch::take(100);
    const ScratchScope inner(&other);
    Scratch::give(block);
    EXPECT_EQ(other.free_bytes(), 0U);
    block = Scratch::take(100);
    const ScratchScope none(nullptr);
    Scratch::give(Scratch::take(100));
  }
  EXPECT_GE(scratch_.free_bytes(), 100U);
  EXPECT_EQ(other.free_bytes(), 0U);
  Scratch::give(block);
  EXPECT_GE(other.free_bytes(), 100U);
}

TEST_F(KeptScratch, AScopeIsOneThreads) {
  const ScratchScope scope(&scratch_);
  std::thread([] { Scratch::give(Scratch::take(100)); }).join();
  EXPECT_EQ(scratch_.free_bytes(), 0U);
}

TEST(ScratchVector, IsAVector) {
  Scratch scratch;
  const ScratchScope scope(&scratch);
  ScratchVector<int> values;
  for (int i = 0; i < 10'000; ++i) values.push_back(i);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 9'999 * 5'000);
  const ScratchVector<ScratchVector<int>> rows(3, values);
  EXPECT_EQ(rows.back(), values);
  ScratchVector<bool> bits(1'000'000, true);
  EXPECT_TRUE(bits.back());
}

TEST(ScratchVector, SizesWithoutEndAreBadAlloc) {
  EXPECT_THROW(
      (void)ScratchAllocator<double>().allocate(std::numeric_limits<std::size_t>::max() / 8),
      std::bad_alloc);
  EXPECT_THROW((void)Scratch::take(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
}

TEST(Scratch, BlocksInUseAreBounded) {
  if (!Scratch::keeps()) GTEST_SKIP() << "every block is the system's";
  Scratch scratch(1 << 20);
  const ScratchScope scope(&scratch);
  for (int round = 0; round < 3; ++round) {
    ScratchVector<char> half(600 << 10);
    EXPECT_THROW(ScratchVector<char>(600 << 10), std::bad_alloc);
    ScratchVector<char> rest(200 << 10);
  }
  EXPECT_THROW(ScratchVector<char>(2 << 20), std::bad_alloc);
}

}  // namespace
}  // namespace ctxgen::cpu
