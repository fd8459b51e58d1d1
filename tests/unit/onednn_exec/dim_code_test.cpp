#include "ctxgen/onednn/dim_code.h"

#include <limits>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

namespace ctxgen::onednn::test {
namespace {

using Code = std::vector<std::int64_t>;

constexpr std::int64_t kBig = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> instruction(DimWord word, std::int64_t a = 0, std::int64_t b = 0) {
  return {static_cast<std::int64_t>(word), a, b};
}

Code code(std::initializer_list<std::vector<std::int64_t>> instructions) {
  Code all;
  for (const auto& each : instructions) all.insert(all.end(), each.begin(), each.end());
  return all;
}

Code number(std::int64_t n) { return instruction(DimWord::kNumber, n); }
Code dim(std::int64_t input, std::int64_t axis) { return instruction(DimWord::kDim, input, axis); }

Result<std::vector<std::int64_t>> run_code(const Code& c) {
  return run_dim_code(c, std::vector<Dims>{{2, 3}, {5}}, "op");
}

TEST(DimCode, LeavesAListOfNumbers) {
  EXPECT_EQ(
      run_code(code({dim(0, 1), number(-1), dim(1, 0), number(4), instruction(DimWord::kMul)})),
      (Code{3, -1, 20}));
  EXPECT_EQ(run_code(code({number(7), dim(0, 0), instruction(DimWord::kSub)})), Code{5});
  EXPECT_EQ(run_code(code({number(7), dim(0, 0), instruction(DimWord::kAdd)})), Code{9});
  EXPECT_EQ(run_code(code({number(-7), dim(0, 0), instruction(DimWord::kDiv)})),
            Code{-3});  // to zero
  EXPECT_EQ(run_code({}), Code{});
}

TEST(DimCode, RefusesWhatCannotRun) {
  using ctxgen::test::code_of;
  const auto add = instruction(DimWord::kAdd), mul = instruction(DimWord::kMul);
  const auto div = instruction(DimWord::kDiv);
  for (const Code& bad :
       {code({dim(2, 0)}), code({dim(0, 2)}), code({dim(-1, 0)}), code({dim(0, -1)}), code({add}),
        code({number(1), add}), code({number(1), number(0), div}),
        code({number(kBig), number(1), add}), code({number(kBig), number(2), mul}),
        code({number(-kBig - 1), number(-1), div}), code({{6, 0, 0}}), code({{-1, 0, 0}}),
        Code{0, 1}})
    EXPECT_EQ(code_of(run_code(bad)), ErrorCode::kInvalidGraph);
  Code high;
  for (int i = 0; i < 65; ++i) high.insert(high.end(), {0, 1, 0});
  EXPECT_EQ(code_of(run_code(high)), ErrorCode::kInvalidGraph);
}

TEST(DimCode, MayDescribeAParameterOfAnOp) {
  Maker maker(1);
  const Operand data = maker.input(Dims{}), sizes = maker.input(Dims{});
  maker.op(kind::kReshape, {data, sizes},
           {ints("shape_code", code({dim(1, 0), number(-1)})), integer("sized", 1)});
  const std::vector<Dims> good{{4, 6}, {8, 1}}, bad{{4, 6}, {7, 1}};
  const auto dims = infer_value_dims(maker.program(), good);
  ASSERT_TRUE(dims) << dims.error().message;
  EXPECT_EQ(dims->back(), (Dims{8, 3}));
  EXPECT_EQ(ctxgen::test::code_of(infer_value_dims(maker.program(), bad)),
            ErrorCode::kInvalidGraph);
}

TEST(DimCode, SizedInputsAreNotMoreThanThereAre) {
  for (const int sized : {-1, 1, 2}) {
    Maker maker(1);
    maker.op(kind::kReshape, {maker.input(Dims{})},
             {ints("shape_code", code({number(24)})), integer("sized", sized)});
    const std::vector<Dims> dims{{4, 6}};
    EXPECT_EQ(ctxgen::test::code_of(infer_value_dims(maker.program(), dims)),
              ErrorCode::kCorruptContext)
        << sized;
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
