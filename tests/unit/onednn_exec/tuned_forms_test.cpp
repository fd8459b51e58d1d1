#include "layout/tuned_forms.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/simd.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "layout/weight_layout.h"
#include "plan/payload.h"
#include "program_maker.h"
#include "reference.h"

// A tuning table decides in which packing a constant is stored; what is computed stays the same.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;
using ctxgen::test::kOk;

TuningTable table_for(std::vector<TuningRow> rows) {
  std::ranges::sort(rows, {}, &TuningRow::shape);
  TuningTable table;
  table.library = "oneDNN " + library_version();
  table.instruction_set = isa_name();
  table.rows = std::move(rows);
  return table;
}

/// The form in which the program's first weight is stored.
std::string stored_form(const Packed& packed) {
  const std::vector<PackedWeight>& forms = packed.program.weights[0].packed;
  if (forms.size() != 1) return std::to_string(forms.size()) + " forms";
  return dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(packing_of(forms[0].layout)));
}

Maker product(std::int64_t rows, bool transposed = false) {
  Maker maker(5);
  const Operand x = maker.input(Dims{rows, 96});
  const Operand w = maker.weight(transposed ? Dims{200, 96} : Dims{96, 200});
  std::vector<Param> params;
  if (transposed) params.push_back(integer("trans_b", 1));
  maker.output(
      maker.op(kind::kMatmul, {x, w, maker.weight(Dims{200})}, std::move(params), {unary("relu")}));
  return maker;
}

Maker convolution(std::int64_t size, const Dims& weight, std::int64_t group = 1) {
  Maker maker(6);
  Dims source{2, weight[1] * group};
  for (std::size_t i = 2; i < weight.size(); ++i) source.push_back(size);
  const Operand x = maker.input(source), w = maker.weight(weight);
  maker.output(maker.op(kind::kConv, {x, w, maker.weight(Dims{weight[0]})},
                        {integer("group", group)}, {unary("relu")}));
  return maker;
}

/// With a row for its only product, any number of rows.
TuningTable table_of(Maker& maker, std::string form) {
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  TunedShape shape = tunable_ops_of(packed.program).value().at(0).shape;
  shape.rows = 0;
  return table_for({{shape, std::move(form)}});
}

/// Stored so, computing the same, and packed by no load, whatever the sizes and the threads.
void expect_stored_as(const std::function<Maker(std::int64_t)>& make, const std::string& form) {
  SCOPED_TRACE(form);
  Maker maker = make(9);
  const TuningTable table = table_of(maker, form);
  ASSERT_EQ(code_of(check_tuning(table)), kOk);
  const Packed packed = pack(maker, {maker.input_dims()}, false, &table).value();
  EXPECT_EQ(stored_form(packed), form);
  for (const int threads : {1, 3}) {
    LoadStatistics statistics;
    ASSERT_TRUE(loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, &statistics));
    EXPECT_EQ(statistics.repacked_weights, 0U) << threads << " threads";
  }
  const auto loaded =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
  for (const std::int64_t size : {9, 4}) {
    Maker other = make(size);
    const Outputs found = run(*loaded, other.inputs()).value();
    const auto expected = reference(other);
    for (std::size_t i = 0; i < expected[0].size(); ++i)
      ASSERT_NEAR(found[0][i], expected[0][i], 2e-4 * (1 + std::abs(expected[0][i])));
  }
  EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U);
  // Without a plan, too.
  const Packed open = pack(maker, {}, false, &table).value();
  EXPECT_EQ(stored_form(open), form);
}

bool has_own_products() { return simd_level() >= SimdLevel::kAvx2; }

TEST(TunedForms, OfProducts) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  for (const char* form : {"BA16a16b", "BA16a32b", "BA16a48b", "BA16a64b"})
    for (const bool transposed : {false, true})
      expect_stored_as([&](std::int64_t rows) { return product(rows, transposed); }, form);
}

TEST(TunedForms, OfConvolutions) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  for (const char* form : {"Acdb16a", "Acdb32a", "Acdb48a", "Acdb64a"}) {
    expect_stored_as([](std::int64_t size) { return convolution(size, Dims{40, 16, 3, 3}); }, form);
    expect_stored_as([](std::int64_t size) { return convolution(size, Dims{40, 16, 3}); }, form);
  }
  for (const char* form : {"aBdec16b", "aBdec32b", "aBdec48b", "aBdec64b"})
    expect_stored_as([](std::int64_t size) { return convolution(size, Dims{32, 16, 3, 3}, 2); },
                     form);
}

TEST(TunedForms, OfPointwiseConvolutionsAreThoseOfProductsToo) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  for (const char* form : {"BA16a16b", "BA16a48b", "Acdb16a", "Acdb64a"})
    expect_stored_as([](std::int64_t size) { return convolution(size, Dims{40, 16, 1, 1}); }, form);
}

/// What runs the program's only op, and what follows it, when the op has this form. Values may be brought into its
/// layout before, and from there after.
std::vector<std::string> kernels_with(Maker maker, const std::string& form) {
  const TuningTable table = table_of(maker, form);
  EXPECT_EQ(code_of(check_tuning(table)), kOk) << form;
  const Packed packed = pack(maker, {maker.input_dims()}, false, &table).value();
  EXPECT_EQ(tunable_ops_of(packed.program).value().at(0).form, form);
  const auto loaded =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
  std::vector<OpTiming> timings;
  const Outputs found = run(*loaded, maker.inputs(), &timings).value();
  const auto expected = reference(maker);
  for (std::size_t i = 0; i < expected[0].size(); ++i)
    EXPECT_NEAR(found[0][i], expected[0][i], 2e-4 * (1 + std::abs(expected[0][i]))) << form;
  std::vector<std::string> kernels;
  for (const OpTiming& timing : timings)
    if (timing.implementation != "loop:copy") kernels.push_back(timing.implementation);
  return kernels;
}

constexpr std::int64_t kLargeRows = 40;  // oneDNN's, by our rules

Maker activated_product(std::int64_t rows = kLargeRows) {
  Maker maker(7);
  const Operand x = maker.input(Dims{rows, 96});
  maker.output(maker.op(kind::kMatmul, {x, maker.weight(Dims{96, 200}), maker.weight(Dims{200})},
                        {}, {unary("gelu_tanh")}));
  return maker;
}

TEST(TunedForms, SayWhichKernelRuns) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  EXPECT_EQ(kernels_with(product(kLargeRows), "BA16a32b:own").at(0), "loop:product");
  EXPECT_FALSE(kernels_with(product(kLargeRows), "BA16a32b").at(0).starts_with("loop:"));
  EXPECT_EQ(kernels_with(product(2), "BA16a32b").at(0), "loop:product");
  EXPECT_FALSE(kernels_with(product(2), "BA16a32b:onednn").at(0).starts_with("loop:"));
  EXPECT_EQ(kernels_with(convolution(9, Dims{40, 16, 1, 1}), "BA16a16b:own").at(0), "loop:product");
  EXPECT_FALSE(kernels_with(convolution(9, Dims{40, 16, 1, 1}), "BA16a16b:onednn")
                   .at(0)
                   .starts_with("loop:"));
  EXPECT_EQ(kernels_with(convolution(9, Dims{40, 16, 3, 3}), "Acdb16a:own").at(0), "loop:product");
  const auto has_winograd = [](const Maker& maker, const char* form) {
    return std::ranges::count(kernels_with(maker, form), "loop:winograd") == 1;
  };
  EXPECT_TRUE(has_winograd(convolution(16, Dims{40, 32, 3, 3}), "Acdb16a"));
  EXPECT_FALSE(has_winograd(convolution(16, Dims{40, 32, 3, 3}, 2), "aBdec16b"));
  EXPECT_FALSE(has_winograd(convolution(8, Dims{40, 32, 3, 3}), "Acdb16a"));  // too few tiles
}

TEST(TunedForms, SayWhereActivationsRun) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  const auto steps = [](const char* form) {
    return kernels_with(activated_product(), form).size();
  };
  EXPECT_EQ(steps("BA16a32b:own"), 1U);
  EXPECT_EQ(steps("BA16a32b:own:fused"), 1U);
  EXPECT_EQ(steps("BA16a32b:own:apart"), 2U);
  EXPECT_EQ(steps("BA16a32b:onednn:fused"), 1U);
  EXPECT_EQ(steps("BA16a32b:onednn:apart"), 2U);
}

TEST(TunedForms, WaysArePartOfAStoredPlan) {
  std::vector<PlanChoice> all{{}};
  for (const auto first :
       {KernelWay::First::kRule, KernelWay::First::kOwn, KernelWay::First::kLibrary})
    for (const auto steps :
         {KernelWay::Steps::kRule, KernelWay::Steps::kFused, KernelWay::Steps::kApart})
      for (const std::uint16_t form : {0, 3, int(kMostForms) - 1})
        all.push_back({form, {first, steps}});
  EXPECT_EQ(decode_choices(encode_choices(all), all.size()).value(), all);
  // As releases without them wrote it, and as they read it: an index that there is not.
  const std::vector<PlanChoice> plain{{2}, {}};
  const std::vector<std::byte> bytes = encode_choices(plain);
  EXPECT_EQ(bytes[5], std::byte{2});
  EXPECT_EQ(bytes[6], std::byte{0});
  EXPECT_EQ(encode_choices(std::vector<PlanChoice>{{2, {.first = KernelWay::First::kOwn}}})[6],
            std::byte{0x10});
}

TEST(TunedForms, WaysThatThereAreNotAreOurRules) {
  std::vector<std::byte> bytes = encode_choices(std::vector<PlanChoice>{{2}});
  bytes[6] = std::byte{0xf0};
  EXPECT_EQ(decode_choices(bytes, 1).value(), (std::vector<PlanChoice>{{2}}));
}

TEST(TunedForms, AnyNumbersOfAStoredPlanComputeTheSame) {
  for (Maker maker : {activated_product(3), convolution(4, Dims{40, 16, 1, 1}),
                      convolution(4, Dims{40, 16, 3, 3}), convolution(4, Dims{32, 16, 3, 3}, 2)}) {
    Packed packed = pack(maker, {maker.input_dims()}).value();
    const auto expected = reference(maker);
    for (unsigned bits = 0; bits < 32;
         ++bits) {  // each way of the first form, and of one that there is not
      const unsigned number = (bits >> 1) << 12 | (bits % 2 == 0 ? 0 : 0xfff);
      std::vector<std::byte>& payload = packed.program.plans.at(0).payload;
      payload.at(5) = static_cast<std::byte>(number & 0xff);
      payload.at(6) = static_cast<std::byte>(number >> 8);
      const auto loaded =
          loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
      const Outputs found = run(*loaded, maker.inputs()).value();
      for (std::size_t i = 0; i < expected[0].size(); ++i)
        ASSERT_NEAR(found[0][i], expected[0][i], 2e-4 * (1 + std::abs(expected[0][i]))) << number;
    }
  }
}

TEST(TunedForms, RowsAreRoundedUp) {
  const auto rows_of = [](Maker maker) {
    const Packed packed = pack(maker, {maker.input_dims()}).value();
    return tunable_ops_of(packed.program).value().at(0).shape.rows;
  };
  EXPECT_EQ(rows_of(product(1)), 1);
  EXPECT_EQ(rows_of(product(100)), 128);
  EXPECT_EQ(rows_of(product(128)), 128);
  EXPECT_EQ(rows_of(convolution(9, Dims{40, 16, 3, 3})), 128);  // 2 x 7 x 7
}

TEST(TunedForms, TheFirstProfileWithARowDecides) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  Maker maker = product(1);
  TuningTable table = table_of(maker, "BA16a16b");
  table.rows[0].shape.rows = 128;
  const auto form = [&](std::vector<std::int64_t> sizes) {
    std::vector<std::vector<Dims>> profiles;
    for (const std::int64_t size : sizes) profiles.push_back({Dims{size, 96}});
    return stored_form(pack(maker, profiles, false, &table).value());
  };
  const std::string by_table = form({1});
  EXPECT_NE(by_table, "BA16a16b");
  EXPECT_EQ(form({}), by_table);
  EXPECT_EQ(form({100}), "BA16a16b");
  EXPECT_EQ(form({1, 100}), "BA16a16b");  // stored once, for both
}

TEST(TunedForms, EachProfileHasTheWayOfItsRow) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  Maker maker = product(1);
  const TunedShape shape = table_of(maker, "BA16a16b").rows[0].shape;
  const auto row = [&](std::int64_t rows, const char* form) {
    TuningRow made{.shape = shape, .form = form};
    made.shape.rows = rows;
    return made;
  };
  const TuningTable table = table_for(
      {row(1, "BA16a16b:onednn"), row(128, "BA16a16b:own:apart"), row(64, "BA16a64b:own")});
  std::vector<std::vector<Dims>> profiles;
  for (const std::int64_t size : {1, 100, 50, 7}) profiles.push_back({Dims{size, 96}});
  const Packed packed = pack(maker, profiles, false, &table).value();
  EXPECT_EQ(stored_form(packed), "BA16a16b");
  std::vector<KernelWay> ways;
  for (const StoredPlan& plan : packed.program.plans)
    ways.push_back(decode_choices(plan.payload, 1).value()[0].way);
  using First = KernelWay::First;
  // The third row is for another packing than the stored one, and the fourth profile has none.
  EXPECT_EQ(ways, (std::vector<KernelWay>{
                      {First::kLibrary}, {First::kOwn, KernelWay::Steps::kApart}, {}, {}}));
}

TEST(TunedForms, ARowForTheTableChangesNothing) {
  Maker maker = product(7);
  const TuningTable table = table_of(maker, std::string(kTableForm));
  EXPECT_EQ(code_of(check_tuning(table)), kOk);
  EXPECT_EQ(stored_form(pack(maker, {maker.input_dims()}, false, &table).value()),
            stored_form(pack(maker, {maker.input_dims()}).value()));
}

TEST(TunedForms, PortableProgramsStayPlain) {
  Maker maker = product(7);
  const TuningTable table = table_of(maker, "BA16a16b");
  const Packed packed = pack(maker, {maker.input_dims()}, true, &table).value();
  EXPECT_TRUE(packed.program.weights[0].packed[0].layout.empty());
}

TEST(TunedForms, OpsTellWhatTheyAreAndCouldBe) {
  Maker maker = product(7);
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto ops = tunable_ops_of(packed.program).value();
  ASSERT_EQ(ops.size(), 1U);
  EXPECT_EQ(ops[0].shape.dims, (Dims{96, 200}));
  EXPECT_EQ(ops[0].form, stored_form(packed));
  EXPECT_GE(ops[0].others.size(), 3U);
  EXPECT_FALSE(std::ranges::contains(ops[0].others, ops[0].form));
  if (!has_own_products()) return;
  // Seven rows are a small product: its own kernel runs already.
  EXPECT_FALSE(std::ranges::contains(ops[0].others, ops[0].form + ":own"));
  EXPECT_TRUE(std::ranges::contains(ops[0].others, ops[0].form + ":onednn"));
}

TEST(TunedForms, OpsWithActivationsTellWhereTheseCouldRun) {
  if (!has_own_products()) GTEST_SKIP() << "kernels that read all panels need avx2";
  Maker maker = activated_product();
  const auto op = tunable_ops_of(pack(maker, {maker.input_dims()}).value().program).value().at(0);
  EXPECT_TRUE(std::ranges::contains(op.others, op.form + ":own:apart"));
  EXPECT_TRUE(std::ranges::contains(op.others, op.form + ":onednn:fused"));
}

TEST(TunedForms, RefusesOtherLibrariesAndInstructionSets) {
  TuningTable table = table_for({});
  EXPECT_EQ(code_of(check_tuning(table)), kOk);
  table.library = "oneDNN 2.7";
  EXPECT_EQ(code_of(check_tuning(table)), ErrorCode::kVersionMismatch);
  table = table_for({});
  table.instruction_set = "avx9";
  EXPECT_EQ(code_of(check_tuning(table)), ErrorCode::kVersionMismatch);
}

TEST(TunedForms, RefusesOpsAndFormsThatThereAreNot) {
  const TunedShape product{.op = "matmul", .dims = Dims{96, 200}};
  const auto refused = [](const TunedShape& shape, const char* form) {
    return code_of(check_tuning(table_for({{shape, form}})));
  };
  EXPECT_EQ(refused(product, "BA16a16b"), kOk);
  EXPECT_EQ(refused(product, "BA16a16b2a"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(product, "Acdb16a"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(product, ""), ErrorCode::kInvalidArgument);
  for (const char* form : {"BA16a16b:", "BA16a16b:mine", "BA16a16b:apart:own", "BA16a16b:own:own",
                           "BA16a16b:own:apart:", ":own"})
    EXPECT_EQ(refused(product, form), ErrorCode::kInvalidArgument) << form;
  const TunedShape narrow{.op = "matmul", .weight = DataType::kBfloat16, .dims = Dims{96, 200}};
  EXPECT_EQ(refused(narrow, "BA16a16b:own"),
            ErrorCode::kInvalidArgument);  // one kernel widens them
  TunedShape other = product;
  other.op = "softmax";
  EXPECT_EQ(refused(other, "BA16a16b"), ErrorCode::kInvalidArgument);
  other = product;
  other.dims = Dims{4, 4};
  EXPECT_EQ(refused(other, "BA16a16b"), ErrorCode::kInvalidArgument);
  other = product;
  other.source = DataType::kString;
  EXPECT_EQ(refused(other, "BA16a16b"), ErrorCode::kInvalidArgument);
  const TunedShape strange{.op = "conv", .dims = Dims{3}, .group = 1};
  EXPECT_EQ(refused(strange, "Acdb16a"), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ctxgen::onednn::test
