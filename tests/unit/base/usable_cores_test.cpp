#include "ctxgen/base/usable_cores.h"

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace ctxgen {
namespace {

TEST(UsableCores, AreOneAtLeast) { EXPECT_GE(usable_cores(), 1); }

TEST(UsableCores, OpenMpSaysHowMany) {
  EXPECT_EQ(threads_of_openmp("3"), 3);
  EXPECT_EQ(threads_of_openmp(" 4 , 2"), 4);
  EXPECT_EQ(threads_of_openmp("99999999999"), 1 << 16);
  for (const char* none : {"", "0", "-2", "many", "2x", "99999999999999999999"})
    EXPECT_EQ(threads_of_openmp(none), std::nullopt) << none;
}

TEST(UsableCores, AreWithinTheQuotaOfAGroup) {
  const ctxgen::test::TempFolder mount;
  mount.write("a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota_of_groups("0::/a/b\n", mount.path()), 1.5);
  EXPECT_EQ(quota_of_groups("0::/a\n", mount.path()), std::nullopt);
  mount.write("a/cpu.max", "100000 100000\n");  // the group above has less
  EXPECT_EQ(quota_of_groups("0::/a/b\n", mount.path()), 1);
  mount.write("a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_of_groups("0::/a/b\n", mount.path()), 1.5);
  mount.write("cpu.max", "20000 100000\n");  // a container sees its own group as the root
  EXPECT_EQ(quota_of_groups("0::/\n", mount.path()), 0.2);
  EXPECT_EQ(quota_of_groups("0::/not/below/the/mount\n", mount.path()), 0.2);
}

TEST(UsableCores, AreWithinTheQuotaOfVersionOne) {
  const ctxgen::test::TempFolder mount;
  mount.write("cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  mount.write("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  mount.write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  mount.write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota_of_groups("9:memory:/a\n4:cpu,cpuacct:/a\n0::/\n", mount.path()), 3);
  EXPECT_EQ(quota_of_groups("9:cpuset:/a\n", mount.path()), std::nullopt);
}

TEST(UsableCores, ReadNothingOutOfNonsense) {
  const ctxgen::test::TempFolder mount;
  for (const char* text : {"", "max", "0 100000", "100000", "5 0", "-5 100000", "x y", "9e9 1"}) {
    mount.write("cpu.max", text);
    EXPECT_EQ(quota_of_groups("0::/\n", mount.path()), std::nullopt) << text;
  }
  mount.write("cpu.max", "9223372036854775807 1");
  EXPECT_GT(quota_of_groups("0::/\n", mount.path()), 1);
  for (const char* groups : {"", "\n\n", "0", "0:", "::", "0::/../..\n"})
    EXPECT_NO_THROW((void)quota_of_groups(groups, mount.path())) << groups;
}

}  // namespace
}  // namespace ctxgen
