#include "ctxgen/compiler/option_table.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/compiler/config_keys.h"

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;
using testing::HasSubstr;
using testing::Not;

TEST(OptionTable, FlagsAreThereOnceWithTheirHelp) {
  std::set<std::string_view> flags;
  for (const OptionRow& row : option_rows()) {
    if (row.flag.empty()) continue;
    EXPECT_TRUE(flags.insert(row.flag).second) << row.flag;
    EXPECT_FALSE(row.help.empty()) << row.flag;
  }
  EXPECT_GT(flags.size(), 25U);
}

TEST(OptionTable, KeysAreKeysThatApply) {
  for (const OptionRow& row : option_rows()) {
    if (row.key.empty()) continue;
    const auto key = std::ranges::find(config_keys(), row.key, &ConfigKey::name);
    ASSERT_NE(key, config_keys().end()) << row.key;
    EXPECT_EQ(key->does_not_apply, "") << row.key;
  }
}

TEST(OptionTable, AnOptionIsCalledAsItsCallerKnowsIt) {
  const auto name = [](OptionNames names, OptionSlot slot) {
    return option_name(options_named(names), slot);
  };
  EXPECT_EQ(name(OptionNames::kFlags, &CompileOptions::jobs), "--jobs");
  EXPECT_EQ(name(OptionNames::kFields, &CompileOptions::jobs), "CompileOptions::jobs");
  EXPECT_EQ(name(OptionNames::kSetters, &CompileOptions::jobs), "ctxgen_compile_options_set_jobs");
  EXPECT_EQ(name(OptionNames::kFlags, &CompileOptions::weightless), "ep.enable_weightless_mode");
  EXPECT_EQ(name(OptionNames::kSetters, &CompileOptions::make_folder),
            "CompileOptions::make_folder");
}

TEST(OptionTable, OnlyTheCommandLineIsToldOfFlags) {
  const auto contradictions = [](OptionNames names) {
    std::vector<CompileOptions> all(7, options_named(names));
    all[0].embed = true;
    all[0].bin = "x.bin";
    all[1].embed = true;
    all[1].subgraphs = true;
    all[2].keep_unchanged = true;
    all[2].no_clobber = true;
    all[3].force = true;
    all[3].no_clobber = true;
    all[4].append = "x.bin";
    all[4].force = true;
    all[5].weightless = WeightlessMode::kAll;
    all[5].isas = {"a", "b"};
    all[6].external_initializers = "w";
    all[6].initializer_location = [](const InitializerInfo&) { return InitializerLocation{}; };
    return all;
  };
  for (const OptionNames names : {OptionNames::kFields, OptionNames::kFlags, OptionNames::kSetters})
    for (const CompileOptions& options : contradictions(names)) {
      const Status status = check_options(options, 1);
      ASSERT_EQ(code_of(status), ErrorCode::kInvalidArgument);
      const std::string& text = status.error().message;
      if (names == OptionNames::kFlags)
        EXPECT_THAT(text, HasSubstr("--"));
      else
        EXPECT_THAT(text, Not(HasSubstr("--")));
    }
}

}  // namespace
}  // namespace ctxgen
