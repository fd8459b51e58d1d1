#include "ctxgen/runtime/trace.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

std::vector<OpTiming> two_ops(double start_us) {
  return {{.name = "a \"quoted\" name",
           .kind = "conv",
           .implementation = "jit",
           .microseconds = 4,
           .flops = 8000,
           .bytes = 400,
           .start_us = start_us,
           .end_us = start_us + 4},
          {.name = "b",
           .kind = "Relu",
           .implementation = "cpu",
           .microseconds = 1,
           .start_us = start_us + 5,
           .end_us = start_us + 6}};
}

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Trace, HasOneEventPerOpInOnePerRun) {
  Trace trace;
  EXPECT_TRUE(trace.empty());
  trace.add_run(1, two_ops(1000));
  trace.add_run(2, two_ops(1002));
  trace.add_run(1, {});
  const std::string json = trace.json();
  EXPECT_EQ(count(json, R"("ph": "X")"), 6U);
  EXPECT_EQ(count(json, R"("ph": "M")"), 2U) << "one row per lane";
  EXPECT_EQ(count(json, R"("name": "run )"), 2U) << "a run without ops is none";
  EXPECT_EQ(count(json, R"("ts": 0)"), 2U) << "times begin with the first event";
  EXPECT_EQ(count(json, R"("dur": 6)"), 2U) << "of a run: from its first op to its last";
  EXPECT_EQ(count(json, R"("gflops_per_second": 2)"), 2U);
  EXPECT_EQ(count(json, R"("gbytes_per_second": 0.1)"), 2U);
  EXPECT_EQ(count(json, R"(a \"quoted\" name)"), 2U);
}

TEST(Trace, IsWrittenWholeOrNotAtAll) {
  test::TempFolder folder;
  Trace trace;
  trace.add_run(1, two_ops(0));
  ASSERT_EQ(test::code_of(write_trace(trace, folder / "t.json")), test::kOk);
  EXPECT_EQ(test::read_text(folder / "t.json"), trace.json());
  EXPECT_EQ(test::code_of(write_trace(trace, folder / "no" / "t.json")), ErrorCode::kIoError);
}

}  // namespace
}  // namespace ctxgen
