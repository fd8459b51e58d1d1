#include <tuple>

#include <gtest/gtest.h>

#include "ctxgen/cpu/kernel.h"

namespace ctxgen::cpu {
namespace {

TEST(OperatorTable, RowsAreSortedAndDoNotOverlap) {
  const auto rows = all_ops();
  ASSERT_GT(rows.size(), 100u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LE(rows[i]->since_min, rows[i]->since_max) << rows[i]->op_type;
    EXPECT_FALSE(rows[i]->limits.empty()) << rows[i]->op_type;
    EXPECT_NE(rows[i]->make, nullptr) << rows[i]->op_type;
    if (i == 0) continue;
    const OpRow& before = *rows[i - 1];
    const OpRow& row = *rows[i];
    EXPECT_LT(std::tuple(before.domain, before.op_type, before.since_min),
              std::tuple(row.domain, row.op_type, row.since_min));
    if (before.domain == row.domain && before.op_type == row.op_type) {
      EXPECT_LT(before.since_max, row.since_min) << row.op_type;
    }
  }
}

TEST(OperatorTable, FindsTheVersionAtOrBelowTheOpset) {
  ASSERT_NE(find_op("", "Erf", 9), nullptr);
  EXPECT_EQ(find_op("", "Erf", 25)->since_min, 9);
  EXPECT_EQ(find_op("", "Erf", 8), nullptr);
  EXPECT_EQ(find_op("", "NoSuchOperator", 13), nullptr);
  EXPECT_EQ(find_op("com.example", "Relu", 13), nullptr);
  EXPECT_EQ(find_op("", "", 13), nullptr);
  EXPECT_NE(find_op("com.microsoft", "FastGelu", 1), nullptr);
}

}  // namespace
}  // namespace ctxgen::cpu
