#include "ctxgen/ctxfile/program.h"

#include <functional>

#include <gtest/gtest.h>

#include "code_of.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

TEST(Validate, AcceptsTheSamples) {
  EXPECT_EQ(code_of(validate(test::sample_dense(), 3)), test::kOk);
  EXPECT_EQ(code_of(validate(test::sample_scalar(), 3)), test::kOk);
}

struct BrokenRule {
  const char* name;
  std::function<void(Program&)> break_it;
};

void PrintTo(const BrokenRule& rule, std::ostream* out) { *out << rule.name; }

class ValidateRefuses : public testing::TestWithParam<BrokenRule> {};

TEST_P(ValidateRefuses, IsCorruptContextAndNamesTheProgram) {
  Program program = test::sample_dense();
  GetParam().break_it(program);
  const Status status = validate(program, 3);
  EXPECT_EQ(code_of(status), ErrorCode::kCorruptContext);
  EXPECT_TRUE(status.error().message.starts_with("program \"" + program.name + "\": "))
      << status.error().message;
}

const BrokenRule kRules[] = {
    {"NoName", [](Program& p) { p.name.clear(); }},
    {"NoOutput", [](Program& p) { p.outputs.clear(); }},
    {"InputOutOfRange", [](Program& p) { p.inputs = {4}; }},
    {"InputTwice",
     [](Program& p) {
       p.inputs = {0, 0};
       p.plans.clear();
     }},
    {"OutputOutOfRange", [](Program& p) { p.outputs = {~0U}; }},
    {"OutputTwice", [](Program& p) { p.outputs = {2, 2}; }},
    {"OutputIsAnInput", [](Program& p) { p.outputs = {2, 0}; }},
    {"TwoInterfaceValuesOfOneName", [](Program& p) { p.values[2].name = "x"; }},
    {"ValueNeverWritten",
     [](Program& p) { p.values.push_back({"z", DataType::kFloat, {}, true}); }},
    {"ValueWrittenByTwoOps", [](Program& p) { p.ops[1].outputs = {2, 3, 1}; }},
    {"ValueWrittenTwiceByOneOp", [](Program& p) { p.ops[1].outputs = {2, 3, 3}; }},
    {"InputWrittenByAnOp", [](Program& p) { p.ops[1].outputs = {2, 3, 0}; }},
    {"ReadBeforeWritten", [](Program& p) { std::swap(p.ops[0], p.ops[1]); }},
    {"ReadsItsOwnOutput", [](Program& p) { p.ops[1].inputs = {Operand::value(2)}; }},
    {"PostOpReadsBeforeWritten",
     [](Program& p) { p.ops[0].post_ops[1].operand = Operand::value(2); }},
    {"OperandValueOutOfRange", [](Program& p) { p.ops[0].inputs[0] = Operand::value(4); }},
    {"OperandWeightOutOfRange", [](Program& p) { p.ops[0].inputs[1] = Operand::weight(2); }},
    {"PostOpWeightOutOfRange",
     [](Program& p) { p.ops[0].post_ops[0].operand = Operand::weight(2); }},
    {"UnknownOperandKind",
     [](Program& p) { p.ops[0].inputs[0].kind = static_cast<Operand::Kind>(9); }},
    {"OpOutputOutOfRange", [](Program& p) { p.ops[1].outputs = {2, 3, 4}; }},
    {"OpWithoutOutput", [](Program& p) { p.ops.push_back({"noop", "", {}, {}, {}, {}}); }},
    {"OpWithoutKind", [](Program& p) { p.ops[0].kind = ""; }},
    {"ValueOfNoType", [](Program& p) { p.values[1].type = DataType::kUndefined; }},
    {"ValueOfUnknownType", [](Program& p) { p.values[1].type = static_cast<DataType>(27); }},
    {"ValueOfTooManyDims", [](Program& p) { p.values[1].dims.resize(kMaxRank + 1); }},
    {"DimsWithoutRank", [](Program& p) { p.values[1].has_rank = false; }},
    {"SymbolOutOfRange", [](Program& p) { p.values[1].dims[0].symbol = 2; }},
    {"DimOfTwoKinds", [](Program& p) { p.values[1].dims[0].value = 3; }},
    {"WeightOfStrings", [](Program& p) { p.weights[0].type = DataType::kString; }},
    {"WeightOfUnknownType", [](Program& p) { p.weights[0].type = static_cast<DataType>(-5); }},
    {"WeightOfNegativeDim", [](Program& p) { p.weights[0].dims = Dims{-1, 2}; }},
    {"WeightTooLarge", [](Program& p) { p.weights[0].dims = Dims{INT64_MAX, INT64_MAX}; }},
    {"WeightAboveTheLimit", [](Program& p) { p.weights[0].dims = Dims{std::int64_t{1} << 40}; }},
    {"WeightWithoutBytes", [](Program& p) { p.weights[0].packed.clear(); }},
    {"BlobInAStore", [](Program& p) { p.weights[1].packed[0].blob = StoreId{0}; }},
    {"BlobOutOfRange", [](Program& p) { p.weights[1].packed[0].blob = BlobIndex{3}; }},
    {"PlanOfOtherInputs", [](Program& p) { p.plans[0].input_dims.clear(); }},
    {"PlanOfAnotherRank", [](Program& p) { p.plans[0].input_dims[0] = Dims{1, 4, 1}; }},
    {"PlanOfAnotherDim", [](Program& p) { p.plans[0].input_dims[0] = Dims{1, 5}; }},
    {"PlanOfNegativeDim", [](Program& p) { p.plans[0].input_dims[0] = Dims{-1, 4}; }},
    {"PlanOfHugeInput",
     [](Program& p) { p.plans[0].input_dims[0] = Dims{std::int64_t{1} << 50, 4}; }},
    {"PlanOfHugeArena", [](Program& p) { p.plans[0].arena_bytes = ~std::uint64_t{0}; }},
    {"PlanOfHugeScratch", [](Program& p) { p.plans[1].scratch_bytes = kMaxTensorBytes + 1; }},
};

INSTANTIATE_TEST_SUITE_P(Rules, ValidateRefuses, testing::ValuesIn(kRules),
                         [](const auto& rule) { return std::string(rule.param.name); });

TEST(Validate, CountsBlobs) {
  EXPECT_EQ(code_of(validate(test::sample_dense(), 2)), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(validate(test::sample_dense(), 0)), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
