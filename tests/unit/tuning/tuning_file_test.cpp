#include "ctxgen/tuning/tuning_file.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/file_lock.h"

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen::test {
namespace {

TuningTable sample() {
  TuningTable table{.library = "oneDNN 3.12.1",
                    .instruction_set = "avx2",
                    .machine = "A \"machine\"",
                    .threads = 4,
                    .rows = {}};
  table.rows.push_back({{.op = "conv",
                         .dims = Dims{64, 32, 3, 3},
                         .group = 2,
                         .strides = Dims{2, 1},
                         .dilations = Dims{1, 3},
                         .rows = 1024},
                        "aBdec32b",
                        12.5,
                        13});
  table.rows.push_back({{.op = "matmul", .dims = Dims{768, 3072}},
                        "BA16a16b:own:apart",
                        2,
                        3,
                        std::vector<std::string>{"weights=f16", "weights=s8:32"}});
  table.rows.push_back({{.op = "matmul", .dims = Dims{768, 4096}},
                        std::string(kTableForm),
                        0,
                        0,
                        std::vector<std::string>()});
  table.rows.push_back({{.op = "matmul", .weight = DataType::kBfloat16, .dims = Dims{768, 3072}},
                        std::string(kTableForm)});
  return table;
}

/// A file with this row.
std::string with_row(std::string_view row) {
  return std::string(R"({"ctxgen_tuning": 1, "library": "l", "instruction_set": "i", "rows": [)") +
         std::string(row) + "]}";
}

TEST(TuningFile, ReadsWhatItWrites) {
  const TuningTable table = sample(), again = parse_tuning(tuning_text(table)).value();
  EXPECT_EQ(again.library, table.library);
  EXPECT_EQ(again.instruction_set, table.instruction_set);
  EXPECT_EQ(again.machine, table.machine);
  EXPECT_EQ(again.threads, table.threads);
  ASSERT_EQ(again.rows.size(), table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    EXPECT_EQ(again.rows[i].shape, table.rows[i].shape);
    EXPECT_EQ(again.rows[i].form, table.rows[i].form);
    EXPECT_EQ(again.rows[i].us, table.rows[i].us);
    EXPECT_EQ(again.rows[i].table_us, table.rows[i].table_us);
    EXPECT_EQ(again.rows[i].precisions, table.rows[i].precisions);
  }
}

TEST(TuningFile, FillsInWhatARowLeavesOut) {
  const TuningRow row =
      parse_tuning(with_row(R"({"op": "conv", "weight": "float32", "dims": "8x4x3", "form": "f"})"))
          .value()
          .rows.front();
  EXPECT_EQ(row.shape.source, DataType::kFloat);
  EXPECT_EQ(row.shape.group, 1);
  EXPECT_EQ(row.shape.strides, Dims{1});
  EXPECT_EQ(row.shape.dilations, Dims{1});
  EXPECT_EQ(row.shape.rows, 0);
}

TEST(TuningFile, RowsAreSorted) {
  TuningTable table = sample();
  std::swap(table.rows[0], table.rows[1]);
  EXPECT_EQ(parse_tuning(tuning_text(table)).value().rows[0].shape.op, "conv");
}

TEST(TuningFile, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"", "[]", "{}", R"({"ctxgen_tuning": 1})", R"({"ctxgen_tuning": "1"})",
        R"({"ctxgen_tuning": 0, "library": "l", "instruction_set": "i", "rows": []})",
        R"({"ctxgen_tuning": 1, "library": "", "instruction_set": "i", "rows": []})",
        R"({"ctxgen_tuning": 1, "library": "l", "instruction_set": 3, "rows": []})",
        R"({"ctxgen_tuning": 1, "library": "l", "instruction_set": "i", "rows": {}})",
        R"({"ctxgen_tuning": 1, "library": "l", "instruction_set": "i"})",
        R"({"ctxgen_tuning": 1, "library": "l", "instruction_set": "i", "rows": [], "x": 1})"})
    EXPECT_EQ(code_of(parse_tuning(text)), ErrorCode::kInvalidArgument) << text;
  EXPECT_EQ(code_of(parse_tuning(R"({"ctxgen_tuning": 2, "library": "l", "rows": []})")),
            ErrorCode::kVersionMismatch);
}

TEST(TuningFile, RefusesRowsThatAreWrong) {
  const std::string start = R"({"op": "conv", "weight": "float32", "form": "f", )";
  for (const char* rest :
       {R"("dims": "8x4x3x3", "blocks": 16})", R"("dims": "8x4x3x3", "rows": 3})",
        R"("dims": "8x4x3x3", "rows": -1})", R"("dims": "8x4x3x3", "group": 0})",
        R"("dims": "8x4x3x3", "strides": "1"})", R"("dims": "8x4x3x3", "us": -1})",
        R"("dims": "8x4x3x3", "source": "int9"})", R"("dims": "8x0"})", R"("dims": "8x"})",
        R"("dims": ""})", R"("dims": [8, 4]})", R"("dims": "1x1x1x1x1x1x1x1x1x1x1x1x1"})",
        R"("dims": "4294967296x4294967296x4294967296"})", R"("rows": 4})",
        R"("dims": "8x4x3x3", "precisions": "weights=f16"})",
        R"("dims": "8x4x3x3", "precisions": ["f16"]})", R"("dims": "8x4x3x3", "precisions": [8]})",
        R"("dims": "8x4x3x3", "precisions": ["weights=f16", "weights=f16"]})"})
    EXPECT_EQ(code_of(parse_tuning(with_row(start + rest))), ErrorCode::kInvalidArgument) << rest;
  EXPECT_EQ(code_of(parse_tuning(with_row("3"))), ErrorCode::kInvalidArgument);
}

TEST(TuningFile, RefusesTwoRowsForOneShape) {
  const std::string row = R"({"op": "conv", "weight": "float32", "dims": "8x4x3x3", "form": "f"})";
  EXPECT_EQ(code_of(parse_tuning(with_row(row + "," + row))), ErrorCode::kInvalidArgument);
}

TEST(TuningFile, NamesTheFieldAndTheRow) {
  const auto parsed = parse_tuning(with_row(R"({"op": "conv", "wieght": "float32"})"));
  for (const char* part : {"row 1", "wieght", "weight"})
    EXPECT_TRUE(parsed.error().message.contains(part)) << parsed.error().message;
}

TEST(TuningFile, BoundsItsSize) {
  std::string rows = "0";
  for (std::size_t i = 0; i < kMostTuningRows; ++i) rows += ",0";
  EXPECT_EQ(code_of(parse_tuning(with_row(rows))), ErrorCode::kResourceLimit);
  const TempFolder folder;
  folder.write("large.json", std::string(kMostTuningBytes + 1, ' '));
  EXPECT_EQ(code_of(read_tuning_file(folder / "large.json")), ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(read_tuning_file(folder / "none.json")), ErrorCode::kIoError);
}

TEST(TuningFile, GoesToAFileAndBack) {
  const TempFolder folder;
  ASSERT_TRUE(add_to_tuning_file(folder / "t.json", sample()));
  EXPECT_EQ(effect_of(read_tuning_file(folder / "t.json").value()), effect_of(sample()));
}

/// What sample() is about, with a row for a product of `columns`.
TuningTable with_product(std::int64_t columns, std::string form = "BA16a16b") {
  TuningTable table = sample();
  table.rows = {{{.op = "matmul", .dims = Dims{8, columns}}, std::move(form)}};
  return table;
}

TEST(TuningFile, KeepsWhatOthersAdded) {
  const TempFolder folder;
  const auto path = folder / "t.json";
  ASSERT_TRUE(add_to_tuning_file(path, with_product(1)));
  ASSERT_TRUE(add_to_tuning_file(path, with_product(2)));
  const TuningTable now = add_to_tuning_file(path, with_product(1, "BA16a64b")).value();
  ASSERT_EQ(now.rows.size(), 2U);
  EXPECT_EQ(now.rows[0].form, "BA16a64b");
  EXPECT_EQ(effect_of(read_tuning_file(path).value()), effect_of(now));
}

TEST(TuningFile, LosesNoRowWhenManyAddAtOnce) {
  constexpr int kWriters = 4, kRows = 16;
  const TempFolder folder;
  const auto path = folder / "t.json";
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < kWriters; ++w)
      writers.emplace_back([&path, w] {
        for (int r = 0; r < kRows; ++r)
          EXPECT_EQ(code_of(add_to_tuning_file(path, with_product(1 + w * kRows + r))), kOk);
      });
  }
  EXPECT_EQ(read_tuning_file(path).value().rows.size(), std::size_t{kWriters * kRows});
}

TEST(TuningFile, WaitsForALockNoLongerThanTold) {
  const TempFolder folder;
  const auto path = folder / "t.json", link = folder / "links/t.json";
  std::filesystem::create_directory(link.parent_path());
  ASSERT_TRUE(add_to_tuning_file(path, with_product(1)));
  std::filesystem::create_symlink("../t.json", link);
  FileLock lock = lock_path(folder.path(), {}).value();
  ASSERT_NE(lock, nullptr);
  for (const auto& name : {path, link}) {  // both names of the one file
    const auto added = add_to_tuning_file(name, with_product(2), std::chrono::milliseconds(30));
    EXPECT_EQ(code_of(added), ErrorCode::kIoError);
    EXPECT_TRUE(added.error().message.contains("another process")) << added.error().message;
    EXPECT_EQ(code_of(check_tuning_file(name, std::chrono::milliseconds(30))), ErrorCode::kIoError);
  }
  EXPECT_EQ(read_tuning_file(path).value().rows.size(), 1U);
  lock.reset();
  EXPECT_EQ(code_of(check_tuning_file(path)), kOk);
  EXPECT_EQ(add_to_tuning_file(link, with_product(2)).value().rows.size(), 2U);
}

TEST(TuningFile, AddsOnlyWhatWasMeasuredInTheSameWay) {
  const TempFolder folder;
  const auto path = folder / "t.json";
  ASSERT_TRUE(add_to_tuning_file(path, with_product(1)));
  TuningTable library = with_product(2), isa = library, machine = library, threads = library;
  library.library = "oneDNN 2.7.1";
  isa.instruction_set = "avx512_core";
  machine.machine = "another";
  threads.threads = 5;
  for (const TuningTable& other : {library, isa, machine, threads})
    EXPECT_EQ(code_of(add_to_tuning_file(path, other)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_tuning_file(path).value().rows.size(), 1U);
}

TEST(TuningFile, WritesNoMoreRowsThanItReads) {
  const TempFolder folder;
  const auto path = folder / "t.json";
  TuningTable table = with_product(1);
  table.rows.resize(kMostTuningRows, table.rows.front());
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    table.rows[i].shape.dims = Dims{8, static_cast<std::int64_t>(i) + 1};
  ASSERT_TRUE(add_to_tuning_file(path, with_product(1 << 20)));
  EXPECT_EQ(code_of(add_to_tuning_file(path, table)), ErrorCode::kResourceLimit);
  EXPECT_EQ(read_tuning_file(path).value().rows.size(), 1U);
}

TEST(TuningFile, ChecksItsFolderBeforeItIsWritten) {
  const TempFolder folder;
  EXPECT_EQ(code_of(check_tuning_file(folder / "none/t.json")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_tuning_file(folder.path())), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_tuning_file(folder / "t.json")), kOk);
  EXPECT_FALSE(std::filesystem::exists(folder / "t.json"));
}

}  // namespace
}  // namespace ctxgen::test
