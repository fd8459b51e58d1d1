#include "ctxgen/onednn/op_table.h"

#include <tuple>

#include <gtest/gtest.h>

namespace ctxgen::onednn {

TEST(DnnlOpTable, RowsAreSortedAndDoNotOverlap) {
  const std::vector<OpInfo> rows = op_infos();
  ASSERT_FALSE(rows.empty());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LE(rows[i].since_min, rows[i].since_max) << rows[i].op_type;
    EXPECT_FALSE(rows[i].limits.empty()) << rows[i].op_type;
    if (i == 0) continue;
    const OpInfo &a = rows[i - 1], &b = rows[i];
    EXPECT_LT(std::tie(a.domain, a.op_type, a.since_min),
              std::tie(b.domain, b.op_type, b.since_min));
    if (a.domain == b.domain && a.op_type == b.op_type) {
      EXPECT_LT(a.since_max, b.since_min) << a.op_type;
    }
  }
}

}  // namespace ctxgen::onednn
