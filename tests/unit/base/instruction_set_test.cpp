#include "ctxgen/base/instruction_set.h"

#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/simd.h"

// Limits hold for a process for good, so what sets one runs in a process of its own (EXPECT_EXIT).
namespace ctxgen {
namespace {

using enum InstructionSet;

constexpr auto double_row =
    simd_loop([] CTXGEN_SIMD_LOOP(std::size_t n, const auto* in, auto* out) {
      for (std::size_t i = 0; i < n; ++i) out[i] = in[i] + in[i];
    });

std::vector<float> doubled(const std::vector<float>& in) {
  std::vector<float> out(in.size());
  double_row(in.size(), in.data(), out.data());
  return out;
}

TEST(InstructionSet, NamesAreUniqueAndSmallerOnesComeFirst) {
  std::set<std::string_view> names;
  for (const NamedInstructionSet& row : instruction_sets()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(includes(row.value, kSse41)) << row.name;
  }
  EXPECT_EQ(instruction_sets().front().name, "sse41");
}

TEST(InstructionSet, OneIncludesAnother) {
  EXPECT_TRUE(includes(kAvx512Core, kAvx2));
  EXPECT_TRUE(includes(kAvx2, kBaseline));
  EXPECT_TRUE(includes(kAvx512CoreFp16, kAvx2Vnni));
  EXPECT_FALSE(includes(kAvx512Core, kAvx2Vnni));
  EXPECT_FALSE(includes(kAvx2, kAvx512Core));
}

TEST(InstructionSet, TheEnvironmentLimitsInEitherCase) {
  const auto limited = [](const char* variable, const char* value) {
    unsetenv("ONEDNN_MAX_CPU_ISA");
    unsetenv("DNNL_MAX_CPU_ISA");
    if (variable != nullptr) setenv(variable, value, 1);
    return instruction_set_of_environment();
  };
  const auto all_hold = [&] {
    return limited("ONEDNN_MAX_CPU_ISA", "AVX2") == kAvx2 &&
           limited("DNNL_MAX_CPU_ISA", "avx512_core") == kAvx512Core && !limited(nullptr, "") &&
           !limited("ONEDNN_MAX_CPU_ISA", "ALL") && !limited("ONEDNN_MAX_CPU_ISA", "avx3");
  };
  EXPECT_EXIT(std::_Exit(all_hold() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(InstructionSet, ALimitIsLoweredOnly) {
  const auto lowered = [] {
    limit_instruction_set(kSse41);
    limit_instruction_set(kAvx512CoreAmx);
    return includes(kSse41, usable_instruction_set()) && simd_level() == SimdLevel::kBaseline;
  };
  EXPECT_EXIT(std::_Exit(lowered() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(InstructionSet, LoopsFollowTheLimit) {
  const auto follow = [] {
    constexpr std::pair<InstructionSet, SimdLevel> kLimits[] = {
        {kAvx512CoreAmxFp16, SimdLevel::kAvx512},
        {kAvx2Vnni2, SimdLevel::kAvx2},
        {kAvx, SimdLevel::kBaseline}};
    for (const auto& [most, level] : kLimits) {
      limit_instruction_set(most);
      if (simd_level() > level) return false;
      if (doubled({1.5F, -2.0F, 0.0F}) != std::vector{3.0F, -4.0F, 0.0F}) return false;
    }
    return true;
  };
  EXPECT_EXIT(std::_Exit(follow() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(InstructionSet, LoopsTakeTheBestThatIsThere) {
  if (!includes(usable_instruction_set(), kAvx2) || !__builtin_cpu_supports("x86-64-v3"))
    GTEST_SKIP() << "this machine has no x86-64-v3";
  EXPECT_GE(simd_level(), SimdLevel::kAvx2);
}

TEST(InstructionSet, LoopsGiveWhatTheyCompute) {
  EXPECT_EQ(simd_loop([] CTXGEN_SIMD_LOOP(int x) { return x + 1; })(6), 7);
  EXPECT_TRUE(doubled({}).empty());
  EXPECT_EQ(doubled(std::vector<float>(67, 2.0F)), std::vector<float>(67, 4.0F));
}

}  // namespace
}  // namespace ctxgen
