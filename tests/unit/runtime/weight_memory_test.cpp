#include "load/weight_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;

/// A file without a name, mapped as weights are.
class MappedPages : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = tmpfile();
    ASSERT_NE(file_, nullptr);
    ASSERT_EQ(ftruncate(fileno(file_), static_cast<off_t>(kPages * page_)), 0);
    void* at = mmap(nullptr, kPages * page_, PROT_READ, MAP_SHARED, fileno(file_), 0);
    ASSERT_NE(at, MAP_FAILED);
    data_ = static_cast<std::byte*>(at);
  }
  void TearDown() override {
    munmap(data_, kPages * page_);
    fclose(file_);
  }
  Blob bytes(std::size_t offset, std::size_t size) const {
    return {nullptr, {data_ + offset, size}};
  }
  /// Bytes of this mapping that are locked.
  std::uint64_t locked() const {
    std::ifstream map("/proc/self/smaps");
    char address[32];
    std::snprintf(address, sizeof address, "%lx-", reinterpret_cast<unsigned long>(data_));
    bool here = false;
    std::uint64_t kilobytes = 0, sum = 0;
    for (std::string line; std::getline(map, line);) {
      unsigned long begin = 0, end = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
        here = begin >= reinterpret_cast<unsigned long>(data_) &&
               end <= reinterpret_cast<unsigned long>(data_) + kPages * page_;
      if (here && std::sscanf(line.c_str(), "Locked: %lu kB", &kilobytes) == 1) sum += kilobytes;
    }
    return sum * 1024;
  }
  std::size_t resident() const {
    std::array<unsigned char, kPages> pages{};
    mincore(data_, kPages * page_, pages.data());
    std::size_t count = 0;
    for (const unsigned char page : pages) count += page & 1U;
    return count;
  }

  static constexpr std::size_t kPages = 32;
  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  FILE* file_ = nullptr;
  std::byte* data_ = nullptr;
};

TEST_F(MappedPages, PrefaultBringsInWhatWasAddedAndOnDemandDoesNot) {
  WeightPages lazy(WeightMemory::kOnDemand);
  lazy.add(bytes(0, kPages * page_));
  ASSERT_EQ(code_of(lazy.prepare()), kOk);
  ASSERT_EQ(resident(), 0U);
  WeightPages eager(WeightMemory::kPrefault);
  eager.add(bytes(3 * page_ + 5, 1));
  eager.add(bytes(4 * page_ - 1, page_));
  eager.add(bytes(20 * page_, 0));
  ASSERT_EQ(code_of(eager.prepare()), kOk);
  EXPECT_GE(resident(), 2U);
  EXPECT_EQ(locked(), 0U);
}

// Sanitizers take mlock(2) for themselves and do nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLocks = false;
#else
constexpr bool kLocks = true;
#endif

TEST_F(MappedPages, LockKeepsWholePages) {
  if (!kLocks) GTEST_SKIP() << "a sanitizer does not lock";
  WeightPages pages(WeightMemory::kLock);
  pages.add(bytes(3 * page_ + 5, 1));
  pages.add(bytes(4 * page_, page_));
  const auto outcome = code_of(pages.prepare());
  if (outcome == ErrorCode::kResourceLimit) GTEST_SKIP() << outcome.message;
  ASSERT_EQ(outcome, kOk);
  EXPECT_EQ(locked(), 2 * page_);
}

TEST_F(MappedPages, ATruncatedFileIsAnErrorAndNoSignal) {
  ASSERT_EQ(ftruncate(fileno(file_), 0), 0);
  WeightPages pages(WeightMemory::kPrefault);
  pages.add(bytes(0, page_));
  EXPECT_EQ(code_of(pages.prepare()), ErrorCode::kIoError);
}

TEST_F(MappedPages, WhatMayNotBeLockedIsAResourceLimit) {
  if (!kLocks) GTEST_SKIP() << "a sanitizer does not lock";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  // Root may lock whatever the limit is: a child that is somebody else may not.
  const auto child = [&] {
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && seteuid(65534) != 0)) _exit(2);
    WeightPages pages(WeightMemory::kLock);
    pages.add(bytes(0, page_));
    _exit(code_of(pages.prepare()) == ErrorCode::kResourceLimit ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ctxgen
