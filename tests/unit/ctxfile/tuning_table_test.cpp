#include "ctxgen/ctxfile/tuning_table.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen::test {
namespace {

TuningRow row(std::int64_t rows, std::string form) {
  return {{.op = "matmul", .dims = Dims{64, 128}, .rows = rows}, std::move(form)};
}

TuningTable table_of(std::vector<TuningRow> rows) {
  TuningTable table;
  table.library = "l";
  table.rows = std::move(rows);
  return table;
}

TEST(TuningTable, FindsARowOfTheSameRowsFirst) {
  const TuningTable table = table_of({row(0, "any"), row(16, "few")});
  EXPECT_EQ(find_row(table, row(16, "").shape)->form, "few");
  EXPECT_EQ(find_row(table, row(32, "").shape)->form, "any");
  EXPECT_EQ(find_row(table_of({row(16, "few")}), row(32, "").shape), nullptr);
}

TEST(TuningTable, EveryPartOfAShapeTells) {
  const TunedShape base{.op = "conv",
                        .dims = Dims{32, 16, 3, 3},
                        .strides = Dims{1, 1},
                        .dilations = Dims{1, 1},
                        .rows = 64};
  std::vector<TunedShape> others(8, base);
  others[0].op = "matmul";
  others[1].weight = DataType::kFloat16;
  others[2].source = DataType::kFloat16;
  others[3].dims = Dims{32, 16, 3, 1};
  others[4].group = 2;
  others[5].strides = Dims{1, 2};
  others[6].dilations = Dims{2, 1};
  others[7].rows = 128;
  for (const TunedShape& other : others) {
    EXPECT_NE(base <=> other, std::strong_ordering::equal);
    EXPECT_NE(to_string(base), to_string(other));
    EXPECT_EQ((base <=> other) == std::strong_ordering::less,
              (other <=> base) == std::strong_ordering::greater);
  }
}

TEST(TuningTable, TimesAndRowsForTheTableHaveNoEffect) {
  TuningTable table = table_of({row(16, std::string(kTableForm))});
  EXPECT_FALSE(steers(table));
  EXPECT_TRUE(effect_of(table).empty());
  table.rows.push_back(row(32, "BA16a16b"));
  EXPECT_TRUE(steers(table));
  const auto effect = effect_of(table);
  table.rows[1].us = 7;
  EXPECT_EQ(effect_of(table), effect);
  table.rows[1].form = "BA16a32b";
  EXPECT_NE(effect_of(table), effect);
}

}  // namespace
}  // namespace ctxgen::test
