#include "ctxgen/base/working_memory.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

using Memory = std::unique_ptr<void, FreeWorkingMemory>;

std::uint64_t address(const Memory& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.get());
}

/// Whether huge pages were asked for at an address (proc(5): VmFlags has "hg").
bool asked_for_huge_pages(std::uint64_t at) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= at && at < end;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(WorkingMemory, IsAlignedAndWritableToItsEnd) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64},
                                    std::uint64_t{4097}, kHugePageBytes - 1}) {
    const Memory memory(allocate_working_memory(bytes));
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_EQ(address(memory) % 64, 0U) << bytes;
    std::memset(memory.get(), 1, bytes);
  }
}

TEST(WorkingMemory, BeginsAtAHugePageWhereItHoldsOne) {
  for (const std::uint64_t bytes : {kHugePageBytes, kHugePageBytes + 64, 3 * kHugePageBytes - 1}) {
    const Memory memory(allocate_working_memory(bytes));
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_EQ(address(memory) % kHugePageBytes, 0U) << bytes;
    std::memset(memory.get(), 1, bytes);
  }
}

TEST(WorkingMemory, AsksForHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this system has no transparent huge pages";
  const Memory memory(allocate_working_memory(2 * kHugePageBytes));
  ASSERT_NE(memory, nullptr);
  if (!std::filesystem::exists("/proc/self/smaps")) GTEST_SKIP() << "/proc/self/smaps is not there";
  EXPECT_TRUE(asked_for_huge_pages(address(memory)));
}

TEST(WorkingMemory, IsNullWhereThereIsNone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process instead";
#endif
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bytes : {kMost, kMost - 64, kMost - kHugePageBytes, kMost / 4})
    EXPECT_EQ(allocate_working_memory(bytes), nullptr) << bytes;
}

}  // namespace
}  // namespace ctxgen
