#include "ctxgen/ctxfile/certificate.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "code_of.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

Blob borrowed(std::span<const std::byte> bytes) { return {nullptr, bytes}; }

/// What a reader says of a file whose first program has a certificate that was changed.
test::Outcome opened(const std::function<void(Certificate&)>& change) {
  ContextContent content = test::sample_content_1_3();
  change(*content.programs[0].certificate);
  const auto file = test::file_of(content);
  return code_of(ContextReader::open(borrowed(file), "changed", VerifyBlobs::kAlways));
}

TEST(Certificate, IsOfItsPrograms) {
  EXPECT_EQ(opened([](Certificate&) {}), test::kOk);
  EXPECT_EQ(opened([](Certificate& c) { c.programs.clear(); }), ErrorCode::kCorruptContext);
  EXPECT_EQ(opened([](Certificate& c) { c.programs = {{.high = 1, .low = 1}}; }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(opened([](Certificate& c) { c.programs.push_back(c.programs.back()); }),
            ErrorCode::kCorruptContext);
}

TEST(Certificate, CopiedToAnotherProgramIsRefused) {
  ContextContent content = test::sample_content_1_3();
  content.programs[0].plans.pop_back();
  const auto file = test::file_of(content);
  EXPECT_EQ(code_of(ContextReader::open(borrowed(file), "copied", VerifyBlobs::kNever)),
            ErrorCode::kCorruptContext);
}

TEST(Certificate, SaysNothingThatCannotBe) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double bound : {0.0, -1.0, kNan, std::numeric_limits<double>::infinity(), 0.005})
    EXPECT_EQ(opened([&](Certificate& c) { c.bound = bound; }), ErrorCode::kCorruptContext)
        << bound;
  for (const double error : {-1.0, kNan, 0.02}) {
    EXPECT_EQ(opened([&](Certificate& c) { c.searched_error = error; }), ErrorCode::kCorruptContext)
        << error;
    EXPECT_EQ(opened([&](Certificate& c) { c.held_out_error = error; }), ErrorCode::kCorruptContext)
        << error;
  }
  for (const char* norm : {"", "l2", "MAX", "max "})
    EXPECT_EQ(opened([&](Certificate& c) { c.norm = norm; }), ErrorCode::kCorruptContext) << norm;
  EXPECT_EQ(opened([](Certificate& c) { c.searched = 0; }), ErrorCode::kCorruptContext);
  EXPECT_EQ(opened([](Certificate& c) { c.held_out = 0; }), ErrorCode::kCorruptContext);
  EXPECT_EQ(opened([](Certificate& c) { c.choices.push_back({"a", "weights=f16"}); }),
            ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
