#include "ctxgen/base/memory_limit.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace ctxgen {
namespace {

std::uint64_t limit(const test::TempFolder& temp, const std::string& groups) {
  std::istringstream lines(groups);
  return group_limit_bytes(lines, temp / "cgroup");
}

TEST(MemoryLimit, IsThatOfTheGroupOrOfOneAroundIt) {
  const test::TempFolder temp;
  temp.write("cgroup/user.slice/memory.max", "6000\n");
  temp.write("cgroup/user.slice/run.scope/memory.max", "4000\n");
  temp.write("cgroup/user.slice/big.scope/memory.max", "8000\n");
  temp.write("cgroup/user.slice/free.scope/memory.max", "max\n");
  EXPECT_EQ(limit(temp, "0::/user.slice/run.scope\n"), 4000U);
  EXPECT_EQ(limit(temp, "1:cpu:/\n0::/user.slice/big.scope\n"), 6000U);
  EXPECT_EQ(limit(temp, "0::/user.slice/free.scope\n"), 6000U);
  EXPECT_EQ(limit(temp, "0::/\n"), UINT64_MAX);
}

// A container's own group is the root of what it sees.
TEST(MemoryLimit, TakesTheRootOfAContainer) {
  const test::TempFolder temp;
  temp.write("cgroup/memory.max", "5000\n");
  for (const char* groups :
       {"0::/\n", "0::/../gone.scope\n", "0::/of/the/host\n", "4:memory:/\n", ""})
    EXPECT_EQ(limit(temp, groups), 5000U) << groups;
}

TEST(MemoryLimit, OfThisProcessIsThereAndStays) {
  EXPECT_GT(default_memory_limit_bytes(), 0U);
  EXPECT_EQ(default_memory_limit_bytes(), default_memory_limit_bytes());
}

}  // namespace
}  // namespace ctxgen
