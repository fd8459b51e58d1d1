#include "ctxgen/base/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { set_log_function(nullptr, LogLevel::kOff); }
};

TEST_F(LogTest, SaysNothingByDefault) {
  EXPECT_FALSE(log_enabled(LogLevel::kError));
  log(LogLevel::kError, "nobody listens");
}

TEST_F(LogTest, HandsOnWhatReachesTheLevel) {
  std::vector<std::string> seen;
  set_log_function([&](LogLevel, std::string_view message) { seen.emplace_back(message); },
                   LogLevel::kWarning);
  log(LogLevel::kInfo, "too small");
  log(LogLevel::kWarning, "{} of {}", 1, 2);
  log(LogLevel::kError, "large");
  EXPECT_EQ(seen, (std::vector<std::string>{"1 of 2", "large"}));
  EXPECT_FALSE(log_enabled(LogLevel::kOff));
}

TEST_F(LogTest, TheFunctionMayLogItself) {
  int calls = 0;
  set_log_function(
      [&](LogLevel level, std::string_view) {
        ++calls;
        if (level == LogLevel::kError) log(LogLevel::kWarning, "inner");
      },
      LogLevel::kTrace);
  log(LogLevel::kError, "outer");
  EXPECT_EQ(calls, 2);
}

TEST_F(LogTest, StderrLinesNameTheToolAndTheLevel) {
  set_log_function(stderr_log_function(false), LogLevel::kTrace);
  testing::internal::CaptureStderr();
  log(LogLevel::kWarning, "{{}} is kept, %v too");
  log(LogLevel::kError, "e");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ctxgen: warning: {} is kept, %v too\nctxgen: error: e\n");
}

TEST_F(LogTest, ColourIsOnlyForTheLevel) {
  set_log_function(stderr_log_function(true), LogLevel::kTrace);
  testing::internal::CaptureStderr();
  log(LogLevel::kError, "e");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("ctxgen: \x1b[")) << text;
  EXPECT_TRUE(text.ends_with(": e\n")) << text;
}

TEST(Printable, LeavesNothingThatATerminalObeys) {
  EXPECT_EQ(printable("plain \xC3\xA4 text"), "plain \xC3\xA4 text");
  EXPECT_EQ(printable("a\x1b[31m\x07\r\x7f"), "a\\x1b[31m\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m\xC2\xA0"),
            "\\u009b1m\xC2\xA0");
  EXPECT_EQ(printable("a\nb\tc"), "a\\x0ab\\x09c");
  EXPECT_EQ(printable("a\nb\tc\r", true), "a\nb\tc\\x0d");
  EXPECT_EQ(printable(std::string_view("\0\xC2", 2)), "\\x00\xC2");
}

}  // namespace
}  // namespace ctxgen
