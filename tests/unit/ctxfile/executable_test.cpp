#include "ctxgen/ctxfile/executable.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

/// What has no default, and nothing else.
class PlainLoader final : public ProgramLoader {
 public:
  std::string_view source() const override { return "PlainExecutionProvider"; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program>, const BlobSource&,
                                           const LoadOptions&, LoadStatistics*) const override {
    return fail(ErrorCode::kUnsupported, "loads nothing");
  }
  std::string fingerprint() const override { return "plain=1"; }
  CompatibilityVerdict compatibility(std::string_view, int) const override { return {}; }
};

const PlainLoader kLoader;

ErrorCode code_of_sorting(const std::vector<std::string>& names) {
  const auto sorted = kLoader.sort_isas(names);
  return sorted ? ErrorCode::kInternal : sorted.error().code;
}

TEST(ProgramLoaderDefaults, EveryNamedInstructionSetIsTaken) {
  for (const NamedInstructionSet& row : instruction_sets()) {
    const std::vector<std::string> one = {std::string(row.name)};
    EXPECT_EQ(kLoader.sort_isas(one), std::vector{instruction_set_name(row.value)}) << row.name;
  }
}

TEST(ProgramLoaderDefaults, SmallerInstructionSetsComeFirst) {
  const std::vector<std::string> names = {"avx512_core_bf16", "sse41", "avx2_vnni"};
  EXPECT_EQ(kLoader.sort_isas(names),
            (std::vector<std::string>{"sse41", "avx2_vnni", "avx512_core_bf16"}));
}

TEST(ProgramLoaderDefaults, OtherListsAreRefused) {
  EXPECT_EQ(code_of_sorting({"avx3"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of_sorting({"avx2", "avx2"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of_sorting({"avx10_1_512", "avx512_core_fp16"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of_sorting({"avx2_vnni", "avx512_core"}), ErrorCode::kInvalidArgument);
}

TEST(ProgramLoaderDefaults, TheBestIsTheLargestThatTheProcessMayUse) {
  std::vector<std::string> names;
  std::optional<std::size_t> largest;
  for (const NamedInstructionSet& row : instruction_sets()) {
    if (row.name.starts_with("avx10")) continue;  // second names
    if (includes(usable_instruction_set(), row.value)) largest = names.size();
    names.emplace_back(row.name);
  }
  EXPECT_EQ(kLoader.best_isa(names), largest);
  EXPECT_EQ(kLoader.best_isa({}), std::nullopt);
  EXPECT_EQ(kLoader.best_isa(std::vector<std::string>{"avx3"}), std::nullopt);
}

TEST(ProgramLoaderDefaults, ProgramsAreTheSameForEveryTarget) {
  for (const CompileTarget& target :
       {CompileTarget{}, CompileTarget{.portable = true, .isas = {}},
        CompileTarget{.portable = false, .isas = {"avx2", "avx512_core"}}})
    EXPECT_EQ(kLoader.fingerprint_of(target), kLoader.fingerprint());
}

// A limit holds for a process for good.
TEST(ProgramLoaderDefaults, AnInstructionSetLimitsTheProcessOnce) {
  if (!includes(machine_instruction_set(), InstructionSet::kAvx2))
    GTEST_SKIP() << "this machine has no avx2";
  const auto limited = [] {
    const auto code = [](std::string_view name) {
      const Status used = kLoader.use_isa(name);
      return used ? ErrorCode::kInternal : used.error().code;
    };
    return code("avx3") == ErrorCode::kInvalidArgument && kLoader.use_isa("avx").has_value() &&
           usable_instruction_set() == InstructionSet::kAvx && kLoader.use_isa("avx").has_value() &&
           code("avx2") == ErrorCode::kInvalidArgument;
  };
  EXPECT_EXIT(std::_Exit(limited() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ctxgen
