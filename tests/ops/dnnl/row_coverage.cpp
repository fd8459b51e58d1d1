#include <set>

#include <gtest/gtest.h>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_table.h"

#include "test_graph.h"

// Every row of the operator table has a differential test: after the last test each must have been
// compiled and compared at least once.
namespace ctxgen::testing {
namespace {

class RowCoverage : public ::testing::Environment {
 public:
  void TearDown() override {
    if (GTEST_FLAG_GET(filter) != "*") return;  // a part of the tests covers a part of the rows
    for (const onednn::OpInfo& row : onednn::op_infos()) {
      if (row.limits.contains("needs VNNI") && !onednn::has_fast_int8()) continue;
      EXPECT_TRUE(compared_rows().contains({std::string(row.op_type), row.since_min}))
          << row.op_type << " from opset " << row.since_min << " on has no differential test";
    }
  }
};

// gtest owns it.
const auto* const environment = ::testing::AddGlobalTestEnvironment(new RowCoverage);

}  // namespace
}  // namespace ctxgen::testing
