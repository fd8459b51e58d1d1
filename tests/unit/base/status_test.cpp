#include "ctxgen/base/status.h"

#include <set>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

constexpr ErrorCode kAll[] = {
    ErrorCode::kInvalidArgument, ErrorCode::kIoError,         ErrorCode::kInvalidGraph,
    ErrorCode::kCorruptContext,  ErrorCode::kVersionMismatch, ErrorCode::kUnsupported,
    ErrorCode::kResourceLimit,   ErrorCode::kNotSatisfied,    ErrorCode::kBackendError,
    ErrorCode::kInternal,        ErrorCode::kCancelled};

TEST(ErrorTable, HasARowForEachCode) {
  for (ErrorCode code : kAll) {
    EXPECT_EQ(error_info(code).code, code);
    EXPECT_FALSE(error_info(code).printed.empty());
    EXPECT_FALSE(error_info(code).when.empty());
  }
}

TEST(ErrorTable, GivesTheDocumentedExitStatuses) {
  const auto exit_of = [](ErrorCode code) { return error_info(code).exit_status; };
  EXPECT_EQ(exit_of(ErrorCode::kInvalidArgument), 1);
  EXPECT_EQ(exit_of(ErrorCode::kInvalidGraph), 2);
  EXPECT_EQ(exit_of(ErrorCode::kCorruptContext), 2);
  EXPECT_EQ(exit_of(ErrorCode::kVersionMismatch), 2);
  EXPECT_EQ(exit_of(ErrorCode::kUnsupported), 2);
  EXPECT_EQ(exit_of(ErrorCode::kResourceLimit), 2);
  EXPECT_EQ(exit_of(ErrorCode::kIoError), 3);
  EXPECT_EQ(exit_of(ErrorCode::kNotSatisfied), 4);
  EXPECT_EQ(exit_of(ErrorCode::kBackendError), 5);
  EXPECT_EQ(exit_of(ErrorCode::kInternal), 5);
  EXPECT_EQ(exit_of(ErrorCode::kCancelled), 130);
}

TEST(ErrorTable, ContextErrorsPrintAsInvalidGraph) {
  EXPECT_EQ(error_info(ErrorCode::kInvalidGraph).printed, "INVALID_GRAPH");
  EXPECT_EQ(error_info(ErrorCode::kCorruptContext).printed, "INVALID_GRAPH");
  EXPECT_EQ(error_info(ErrorCode::kVersionMismatch).printed, "INVALID_GRAPH");
  EXPECT_EQ(error_info(ErrorCode::kUnsupported).printed, "NOT_IMPLEMENTED");
}

Result<int> half_of(int number) {
  if (number % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", number);
  return number / 2;
}
Result<int> quarter_of(int number) {
  const int half = CTXGEN_TRY(half_of(number));
  return half_of(half);
}
Status check_quarter(int number, bool& passed) {
  CTXGEN_CHECK(quarter_of(number));
  passed = true;
  return {};
}

TEST(Try, GivesTheValueOrReturnsTheError) {
  EXPECT_EQ(quarter_of(12).value(), 3);
  EXPECT_EQ(test::code_of(quarter_of(6)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(quarter_of(7).error().message, "7 is odd");
}

TEST(Check, ReturnsEarly) {
  bool passed = false;
  EXPECT_EQ(test::code_of(check_quarter(6, passed)), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(passed);
  EXPECT_EQ(test::code_of(check_quarter(8, passed)), test::kOk);
  EXPECT_TRUE(passed);
}

TEST(WithContext, KeepsTheCodeAndPutsTheCulpritFirst) {
  const Error error = with_context({ErrorCode::kIoError, "no such file"}, "tensor \"w\"");
  EXPECT_EQ(error.code, ErrorCode::kIoError);
  EXPECT_EQ(error.message, "tensor \"w\": no such file");
}

TEST(AssertDeathTest, EndsTheProcess) {
  EXPECT_DEATH(CTXGEN_ASSERT(1 + 1 == 3), "assertion failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace ctxgen
