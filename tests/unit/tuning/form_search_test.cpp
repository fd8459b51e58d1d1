#include "ctxgen/tuning/form_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen::test {
namespace {

constexpr const char* kFirst = "first";  // the table's form of all shapes

TunedShape shape(std::int64_t columns) { return {.op = "matmul", .dims = Dims{64, columns}}; }

/// Ops whose times are known, and a clock that they move. `noise`: runs take longer by up to this share.
class FakeBench final : public FormBench {
 public:
  void op(std::string name, std::int64_t columns, std::map<std::string, double> us_by_form) {
    times_[columns] = us_by_form;
    TunableOp op{std::move(name), "", shape(columns), kFirst, {}};
    for (const auto& [form, us] : us_by_form)
      if (form != kFirst) op.others.push_back(form);
    ops_.push_back(std::move(op));
  }

  Result<std::unique_ptr<FormTrial>> make(const TuningTable& table) override;
  Result<std::unique_ptr<FormTrial>> make_narrow(const TuningTable& table,
                                                 std::string_view precision) override;
  double seconds() override { return us_ * 1e-6; }

  /// By precision, and by columns of the shapes that may have it, of the time that the first form takes.
  std::map<std::string, std::map<std::int64_t, double>, std::less<>> narrow;

  double noise = 0, load = 1, compile_us = 0;
  std::vector<std::string> refused;  // forms that no kernel takes
  int trials = 0, runs = 0;

 private:
  class Trial final : public FormTrial {
   public:
    Trial(FakeBench& bench, std::vector<TunableOp> ops) : bench_(bench), ops_(std::move(ops)) {}
    [[nodiscard]] std::span<const TunableOp> ops() const override { return ops_; }
    Result<RunTimes> run() override {
      RunTimes times;
      std::uniform_real_distribution<double> more(0, bench_.noise);
      for (const TunableOp& op : ops_) {
        const double us =
            bench_.times_[op.shape.dims[1]][op.form] * bench_.load * (1 + more(bench_.random_));
        times.op_us[op.name] += us;
        times.run_us += us;
      }
      bench_.us_ += times.run_us;
      ++bench_.runs;
      return times;
    }

   private:
    FakeBench& bench_;
    std::vector<TunableOp> ops_;
  };

  std::map<std::int64_t, std::map<std::string, double>> times_;
  std::vector<TunableOp> ops_;
  std::mt19937 random_{7};
  double us_ = 0;
};

Result<std::unique_ptr<FormTrial>> FakeBench::make(const TuningTable& table) {
  ++trials;
  us_ += compile_us;
  std::vector<TunableOp> ops = ops_;
  for (TunableOp& op : ops) {
    const TuningRow* row = find_row(table, op.shape);
    if (row == nullptr || row->form == kTableForm || std::ranges::contains(refused, row->form))
      continue;
    op.others.push_back(std::exchange(op.form, row->form));
    std::erase(op.others, op.form);
  }
  return std::make_unique<Trial>(*this, std::move(ops));
}

Result<std::unique_ptr<FormTrial>> FakeBench::make_narrow(const TuningTable&,
                                                          std::string_view precision) {
  const auto shares = narrow.find(precision);
  if (shares == narrow.end()) return nullptr;
  ++trials;
  std::vector<TunableOp> ops = ops_;
  for (TunableOp& op : ops) {
    const auto share = shares->second.find(op.shape.dims[1]);
    if (share == shares->second.end()) continue;
    auto& times = times_[op.shape.dims[1]];
    op.form = precision;
    times[op.form] = times[kFirst] * share->second;
  }
  return std::make_unique<Trial>(*this, std::move(ops));
}

std::map<std::int64_t, std::string> forms_of(const FormFinding& found) {
  std::map<std::int64_t, std::string> forms;
  for (const TuningRow& row : found.table.rows) forms[row.shape.dims[1]] = row.form;
  return forms;
}

/// Three shapes: a clear winner, a gain below what counts, a table that is right. Two ops have the first shape.
void fill(FakeBench& bench) {
  bench.op("a", 100, {{kFirst, 100}, {"second", 90}, {"third", 80}});
  bench.op("b", 100, {{kFirst, 100}, {"second", 90}, {"third", 80}});
  bench.op("c", 200, {{kFirst, 50}, {"second", 49}});
  bench.op("d", 300, {{kFirst, 10}, {"second", 20}, {"third", 30}, {"fourth", 11}});
}

const std::map<std::int64_t, std::string> kExpected{{100, "third"}, {200, "table"}, {300, "table"}};

TEST(FormSearch, KeepsWhatWinsByMoreThanNoise) {
  FakeBench bench;
  fill(bench);
  const FormFinding found = search_forms(bench, {.seconds = 1}).value();
  EXPECT_EQ(forms_of(found), kExpected);
  EXPECT_EQ(found.report.shapes, 3U);
  EXPECT_EQ(found.report.measured, 3U);
  EXPECT_EQ(found.report.known, 0U);
  EXPECT_EQ(found.report.unfinished, 0U);
  EXPECT_FALSE(found.report.interrupted);
  ASSERT_EQ(found.report.gains.size(), 1U);
  EXPECT_EQ(found.report.gains[0].ops, 2U);
  EXPECT_EQ(found.report.gains[0].table_form, kFirst);
  EXPECT_DOUBLE_EQ(found.report.gains[0].row.us, 160);
  EXPECT_DOUBLE_EQ(found.report.gains[0].row.table_us, 200);
  EXPECT_DOUBLE_EQ(found.report.table_run_us, 260);
  EXPECT_DOUBLE_EQ(found.report.run_us, 220);
  EXPECT_EQ(bench.trials, 5);  // the table's, three others, what won
}

TEST(FormSearch, NoiseDoesNotChangeTheChoice) {
  FakeBench bench;
  fill(bench);
  bench.noise = 0.5;
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(forms_of(search_forms(bench, {.seconds = 1}).value()), kExpected);
}

TEST(FormSearch, LoadThatBothSeeDoesNotCount) {
  FakeBench bench;
  fill(bench);
  FormSearch search{.seconds = 1};
  search.progress = [&](const FormProgress& at) { bench.load = 1 + static_cast<double>(at.trial); };
  EXPECT_EQ(forms_of(search_forms(bench, search).value()), kExpected);
}

TEST(FormSearch, KeepsToItsTime) {
  for (const double seconds : {0.01, 0.1, 1.0}) {
    FakeBench bench;
    fill(bench);
    const FormFinding found = search_forms(bench, {.seconds = seconds}).value();
    EXPECT_LE(bench.seconds(), seconds + 8 * 340e-6);  // the rounds that are always made
    EXPECT_EQ(forms_of(found), kExpected);
  }
}

TEST(FormSearch, SaysWhatItDidNotComeTo) {
  FakeBench bench;
  fill(bench);
  bench.compile_us = 400'000;  // the table's, and one other form
  const FormFinding found = search_forms(bench, {.seconds = 1}).value();
  EXPECT_GT(found.report.unfinished, 0U);
  EXPECT_EQ(found.report.unfinished + found.report.measured, 3U);
  // A shape of which not all forms were tried has no row for the table.
  EXPECT_FALSE(forms_of(found).contains(300));
}

TEST(FormSearch, FormsThatAreNotTakenAreNoGain) {
  FakeBench bench;
  fill(bench);
  bench.refused = {"third"};
  const FormFinding found = search_forms(bench, {.seconds = 1}).value();
  EXPECT_EQ(forms_of(found).at(100), "second");
}

TEST(FormSearch, MeasuresOnlyWhatIsNotKnown) {
  FakeBench bench;
  fill(bench);
  FormSearch search{.seconds = 1};
  search.known.rows = {{shape(100), "second", 1, 2}};
  std::vector<std::int64_t> asked;
  search.recall = [&](const TunedShape& one) -> std::optional<TuningRow> {
    asked.push_back(one.dims[1]);
    if (one != shape(200)) return std::nullopt;
    return TuningRow{one, "second"};
  };
  const FormFinding found = search_forms(bench, search).value();
  EXPECT_EQ(forms_of(found), (std::map<std::int64_t, std::string>{
                                 {100, "second"}, {200, "second"}, {300, "table"}}));
  EXPECT_EQ(asked, (std::vector<std::int64_t>{200, 300}));
  EXPECT_EQ(found.report.known, 2U);
  ASSERT_EQ(found.measured.size(), 1U);
  EXPECT_EQ(found.measured[0].shape, shape(300));

  const int runs = bench.runs;
  const FormFinding again = search_forms(bench, {.seconds = 1, .known = found.table}).value();
  EXPECT_EQ(effect_of(again.table), effect_of(found.table));
  EXPECT_EQ(again.report.known, 3U);
  EXPECT_EQ(bench.runs, runs);  // nothing was run
}

TEST(FormSearch, RowsOfOtherShapesStay) {
  FakeBench bench;
  fill(bench);
  FormSearch search{.seconds = 1};
  search.known.rows = {{shape(7), "second"}};
  EXPECT_EQ(forms_of(search_forms(bench, search).value()).at(7), "second");
}

TEST(FormSearch, AnInterruptLeavesWhatIsKnown) {
  for (const int stop_after : {0, 1, 10, 30, 60, 90}) {
    FakeBench bench;
    fill(bench);
    FormSearch search{.seconds = 1};
    search.known.rows = {{shape(200), "second"}};
    search.stop = [&] { return bench.runs > stop_after; };
    const FormFinding found = search_forms(bench, search).value();
    EXPECT_TRUE(found.report.interrupted);
    EXPECT_EQ(forms_of(found).at(200), "second");
    EXPECT_LE(bench.runs, stop_after + 4);
    for (const TuningRow& row : found.measured)
      EXPECT_EQ(row.form, kExpected.at(row.shape.dims[1]));
  }
}

TEST(FormSearch, ModelsWithoutAChoiceAreNotRun) {
  FakeBench bench;
  const FormFinding found = search_forms(bench, {.seconds = 1}).value();
  EXPECT_EQ(found.report.shapes, 0U);
  EXPECT_EQ(bench.runs, 0);
}

using Words = std::vector<std::string>;

TEST(FormSearch, PrecisionsThatAreFasterComeByTime) {
  FakeBench bench;
  fill(bench);
  bench.narrow["weights=s8:32"] = {{100, 0.5}, {200, 0.9}, {300, 1.5}};
  bench.narrow["weights=f16"] = {{100, 0.6}, {200, 0.7}, {300, 0.99}};
  bench.narrow["weights=bf16"] = {{100, 0.79}, {200, 0.701}};
  const FormFinding found = search_forms(bench, {.seconds = 1, .precisions = true}).value();
  EXPECT_EQ(forms_of(found), kExpected);
  const auto of = [&](std::int64_t columns) {
    return find_row(found.table, shape(columns))->precisions.value();
  };
  // The third form of the first shape takes 0.8 of the table's already.
  EXPECT_EQ(of(100), (Words{"weights=s8:32", "weights=f16"}));
  EXPECT_EQ(of(200), (Words{"weights=f16", "weights=bf16", "weights=s8:32"}));
  EXPECT_EQ(of(300), Words());
  ASSERT_EQ(found.measured.size(), 3U);
  EXPECT_TRUE(std::ranges::all_of(found.measured,
                                  [](const TuningRow& row) { return row.precisions.has_value(); }));
  EXPECT_NE(effect_of(found.table), effect_of(search_forms(bench, {.seconds = 1}).value().table));
}

TEST(FormSearch, PrecisionsAreMeasuredIfWanted) {
  FakeBench bench;
  fill(bench);
  bench.narrow["weights=f16"] = {{100, 0.5}};
  const FormFinding without = search_forms(bench, {.seconds = 1}).value();
  for (const TuningRow& row : without.table.rows) EXPECT_FALSE(row.precisions);
  // What is known without them is measured again, and replaced.
  const FormFinding with =
      search_forms(bench, {.seconds = 1, .known = without.table, .precisions = true}).value();
  EXPECT_EQ(with.table.rows.size(), without.table.rows.size());
  EXPECT_EQ(with.report.known, 0U);
  EXPECT_EQ(find_row(with.table, shape(100))->precisions, (Words{"weights=f16"}));
  EXPECT_EQ(forms_of(with), kExpected);
  // Whatever they were.
  TuningTable wrong = without.table;
  for (TuningRow& row : wrong.rows) row.form = "fourth";
  EXPECT_EQ(
      forms_of(search_forms(bench, {.seconds = 1, .known = wrong, .precisions = true}).value()),
      kExpected);
  const FormFinding again =
      search_forms(bench, {.seconds = 1, .known = with.table, .precisions = true}).value();
  EXPECT_EQ(again.report.known, 3U);
}

TEST(FormSearch, AnInterruptLeavesNoHalfOfThePrecisions) {
  for (const int stop_after : {60, 90, 120, 150, 200, 300}) {
    FakeBench bench;
    fill(bench);
    bench.narrow["weights=s8:32"] = {{100, 0.5}};
    bench.narrow["weights=bf16"] = {{100, 0.4}};
    FormSearch search{.seconds = 0.1, .precisions = true};
    search.stop = [&] { return bench.runs > stop_after; };
    const FormFinding found = search_forms(bench, search).value();
    for (const TuningRow& row : found.table.rows)
      if (row.precisions && row.shape == shape(100)) {
        EXPECT_EQ(*row.precisions, (Words{"weights=bf16", "weights=s8:32"}));
      }
  }
}

TEST(FormSearch, NamesTheClosestOtherForm) {
  FakeBench bench;
  fill(bench);
  const FormFinding found = search_forms(bench, {.seconds = 1}).value();
  ASSERT_EQ(found.report.stays.size(), 2U);
  EXPECT_EQ(found.report.stays[0].shape, shape(200));
  EXPECT_EQ(found.report.stays[0].closest, "second");
  EXPECT_NEAR(found.report.stays[0].closest_share, 0.98, 1e-9);
  EXPECT_EQ(found.report.stays[1].closest, "fourth");
  EXPECT_NEAR(found.report.stays[1].closest_share, 1.1, 1e-9);
}

TEST(FormSearch, TwoSearchesAgree) {
  std::vector<std::vector<std::string>> effects;
  for (const double noise : {0.1, 0.3}) {
    FakeBench bench;
    fill(bench);
    bench.noise = noise;
    effects.push_back(effect_of(search_forms(bench, {.seconds = 1}).value().table));
  }
  EXPECT_EQ(effects[0], effects[1]);
}

}  // namespace
}  // namespace ctxgen::test
