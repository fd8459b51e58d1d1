#include "ctxgen/ctxfile/needs.h"

#include <gtest/gtest.h>

#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"

#include "code_of.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

class Loader : public ProgramLoader {
 public:
  std::string_view source() const override { return "numbered"; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program>, const BlobSource&,
                                           const LoadOptions&, LoadStatistics*) const override {
    return fail(ErrorCode::kInternal, "not for this test");
  }
  std::string fingerprint() const override { return "fits"; }
  CompatibilityVerdict compatibility(std::string_view fingerprint, int) const override {
    return {fingerprint == "fits" ? Compatibility::kOptimal : Compatibility::kPreferRecompilation,
            ""};
  }
};

/// Knows op kinds up to 34 and the packing 1; programs need one kind per op.
class Numbered final : public Loader, public KnowsNeeds {
 public:
  std::vector<Need> needs_of(std::span<const Program> programs) const override {
    std::vector<Need> needs;
    for (std::uint16_t i = 0; i < programs[0].ops.size(); ++i)
      needs.push_back({Need::kOpKind, static_cast<std::uint16_t>(i + 1)});
    return needs;
  }
  bool knows(const Need& need) const override {
    return need.group == Need::kOpKind ? need.number <= 34 : need == Need{Need::kPacking, 1};
  }
};

ContextInfo info_of(std::vector<Need> needs) {
  return {.source = "numbered",
          .fingerprint = "fits",
          .producer = "ctxgen 9.8.7",
          .needs = std::move(needs)};
}

TEST(Needs, StandInTheHeaderOfA1_2File) {
  ContextContent content = test::sample_content();
  content.needs = {{1, 2}, {1, 35}, {2, 0x8000}, {7, 1}};
  const auto file = test::file_of(content);
  const auto reader = ContextReader::open(Blob::own(file), "needs", VerifyBlobs::kAlways);
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(reader->info().format_minor, 2);
  EXPECT_EQ(reader->info().needs, content.needs);
  EXPECT_EQ(read_context_info(file, "needs")->needs, content.needs);
  EXPECT_EQ(to_string(reader->info().needs), "op kind 2, op kind 35, packing 32768, feature 7.1");
}

TEST(Needs, AFileThatNeedsNothingNewIsOfTheOldestVersion) {
  const auto file = test::file_of(test::sample_content());
  EXPECT_EQ(read_context_info(file, "old")->format_minor, 0);
  EXPECT_TRUE(read_context_info(file, "old")->needs.empty());
}

TEST(Needs, MustAscend) {
  for (const std::vector<Need>& needs :
       {std::vector<Need>{{1, 2}, {1, 2}}, {{1, 3}, {1, 2}}, {{2, 1}, {1, 2}}}) {
    ContextContent content = test::sample_content();
    content.needs = needs;
    const auto written =
        write_context(content, [](std::span<const std::byte>) -> Status { return {}; });
    EXPECT_EQ(code_of(written), ErrorCode::kInternal);
  }
}

TEST(Needs, TooManyPassTheLimitOfTheHeader) {
  ContextContent content = test::sample_content();
  for (std::uint16_t i = 1; i < 20000; ++i) content.needs.push_back({1, i});
  EXPECT_EQ(code_of(context_size(content)), ErrorCode::kResourceLimit);
}

TEST(Needs, WhatIsKnownIsJudgedByItsFingerprint) {
  const Numbered loader;
  EXPECT_EQ(fitness_of(info_of({}), loader, 1).verdict, Compatibility::kOptimal);
  EXPECT_EQ(fitness_of(info_of({{1, 34}, {2, 1}}), loader, 1).verdict, Compatibility::kOptimal);
  ContextInfo other = info_of({{1, 34}});
  other.fingerprint = "other";
  EXPECT_EQ(fitness_of(other, loader, 1).verdict, Compatibility::kPreferRecompilation);
}

TEST(Needs, WhatIsUnknownIsRefusedByTheReleaseThatWroteIt) {
  const Numbered loader;
  const auto verdict = fitness_of(info_of({{1, 1}, {1, 35}, {2, 40}, {3, 1}}), loader, 1);
  EXPECT_EQ(verdict.verdict, Compatibility::kUnsupported);
  for (const std::string_view part :
       {"ctxgen 9.8.7", "op kind 35, packing 40, feature 3.1", CTXGEN_VERSION_STRING})
    EXPECT_NE(verdict.reason.find(part), std::string::npos) << verdict.reason;
  // A loader without numbers knows none.
  EXPECT_EQ(fitness_of(info_of({{1, 1}}), Loader(), 1).verdict, Compatibility::kUnsupported);
}

TEST(Needs, AreNamedUpTo16) {
  std::vector<Need> needs;
  for (std::uint16_t i = 1; i <= 1000; ++i) needs.push_back({Need::kOpKind, i});
  const std::string text = to_string(needs);
  EXPECT_TRUE(text.ends_with("op kind 16 and 984 more")) << text;
}

TEST(Needs, OfProgramsAreThoseThatTheirLoaderCounts) {
  const std::vector<Program> programs{test::sample_dense()};
  EXPECT_EQ(needs_of(Numbered(), programs), (std::vector<Need>{{1, 1}, {1, 2}}));
  EXPECT_TRUE(needs_of(Loader(), programs).empty());
}

}  // namespace
}  // namespace ctxgen
