#include "run/peak_loops.h"

#include <array>
#include <cstdint>
#include <span>

#include <gtest/gtest.h>

#include "ctxgen/base/instruction_set.h"

// The loops that measure what the machine can do. How long they take is no test's business; how much
// they say they did is.
namespace ctxgen::onednn {
namespace {

TEST(PeakLoops, CountWhatTheyDo) {
  const double lanes = simd_level() == SimdLevel::kAvx512 ? 16
                       : simd_level() == SimdLevel::kAvx2 ? 8
                                                          : 4;
  EXPECT_EQ(multiply_add_f32(0), 0);
  EXPECT_EQ(multiply_add_f32(10), 10 * 12 * 2 * lanes);  // steps, chains, product and sum
}

TEST(PeakLoops, RunOnlyWhatTheProcessMayUse) {
  const InstructionSet usable = usable_instruction_set();
  const bool vnni = includes(usable, InstructionSet::kAvx512CoreVnni) ||
                    includes(usable, InstructionSet::kAvx2Vnni);
  EXPECT_EQ(multiply_add_int8(10) > 0, vnni);
  EXPECT_EQ(multiply_add_bf16(10) > 0, includes(usable, InstructionSet::kAvx512CoreBf16));
}

/// Every 64-bit word is read once: the sum of all is what comes back, in one lane or in several.
TEST(PeakLoops, ReadAllBytes) {
  alignas(64) std::array<std::uint64_t, 256> words{};
  EXPECT_EQ(read_all(std::as_bytes(std::span(words))), 0U);
  for (std::size_t at : {std::size_t{0}, std::size_t{128}, std::size_t{248}}) {  // first lanes
    words.fill(0);
    words[at] = 7;
    EXPECT_EQ(read_all(std::as_bytes(std::span(words))), 7U) << at;
  }
}

}  // namespace
}  // namespace ctxgen::onednn
