#include <format>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/needs.h"

#include "code_of.h"
#include "kinds/kind_rows.h"
#include "program_maker.h"

// What holds for the row of every op kind, whatever the kind.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

/// A program of one op with `inputs` f32 vectors.
Program program_of(const KindRow& row, std::size_t inputs) {
  Program program;
  program.name = "one";
  program.source = kSource;
  ProgramOp op;
  op.kind = std::string(row.name);
  op.name = "op";
  for (std::uint32_t i = 0; i <= inputs; ++i)
    program.values.push_back({"v" + std::to_string(i), DataType::kFloat, {}, false});
  for (std::uint32_t i = 0; i < inputs; ++i) {
    program.inputs.push_back(i);
    op.inputs.push_back(Operand::value(i));
  }
  op.outputs = {static_cast<std::uint32_t>(inputs)};
  program.outputs = op.outputs;
  program.ops = {op};
  return program;
}

Result<std::vector<Dims>> infer(const Program& program) {
  return infer_value_dims(program, std::vector<Dims>(program.inputs.size(), Dims{2, 2, 2, 2}));
}

TEST(Kinds, HaveNumbersInOrderAndNamesOfTheirOwn) {
  std::set<std::string_view> names;
  std::uint16_t number = 0;
  for (const KindRow* row : kind_rows()) {
    EXPECT_GT(row->number, number) << row->name << ": numbers lie in files and never move";
    number = row->number;
    EXPECT_TRUE(names.insert(row->name).second) << row->name;
    EXPECT_EQ(find_kind(row->name), row);
  }
  EXPECT_EQ(find_kind("no_such_kind"), nullptr);
}

TEST(Kinds, HaveEveryRuleAndTraitsThatAgree) {
  for (const KindRow* row : kind_rows()) {
    SCOPED_TRACE(row->name);
    const KindTraits& traits = row->traits;
    EXPECT_TRUE(row->types != nullptr && row->shape != nullptr && row->place != nullptr);
    EXPECT_LE(row->inputs.least, row->inputs.most);
    EXPECT_GE(row->inputs.least, 1U);
    EXPECT_LE(row->inputs.most, kManyInputs);
    if (row->build == nullptr) {
      EXPECT_FALSE(traits.post_ops) << "nothing would run them";
    }
    if (traits.view) {
      EXPECT_EQ(row->build, nullptr);
    }
    if (traits.rearranges) {
      EXPECT_TRUE(traits.view);
    }
    if (traits.quantised || traits.matrix) {
      EXPECT_TRUE(traits.product);
    }
    if (traits.product) {
      EXPECT_GE(row->inputs.least, 2U);
    }
    if (traits.absorbs_binary) {
      EXPECT_TRUE(traits.absorbs_eltwise);
    }
    if (traits.absorbs_eltwise) {
      EXPECT_TRUE(traits.post_ops);
    }
    EXPECT_LE(traits.strided_operands, row->inputs.least);
  }
}

TEST(Kinds, RefuseTooFewAndTooManyInputs) {
  for (const KindRow* row : kind_rows()) {
    SCOPED_TRACE(row->name);
    EXPECT_EQ(code_of(infer(program_of(*row, row->inputs.least - 1))), ErrorCode::kCorruptContext);
    EXPECT_EQ(code_of(infer(program_of(*row, row->inputs.most + 1))), ErrorCode::kCorruptContext);
    Program absent = program_of(*row, row->inputs.least);
    absent.ops[0].inputs[row->inputs.least - 1] = {};
    EXPECT_EQ(code_of(infer(absent)), ErrorCode::kCorruptContext);
  }
}

TEST(Kinds, WithoutParametersGiveAnErrorOrDims) {
  for (const KindRow* row : kind_rows())
    for (std::size_t inputs = row->inputs.least;
         inputs <= std::min<std::size_t>(row->inputs.most, 6); ++inputs) {
      const auto dims = infer(program_of(*row, inputs));
      if (dims) continue;
      const ErrorCode code = dims.error().code;
      EXPECT_TRUE(code == ErrorCode::kInvalidGraph || code == ErrorCode::kUnsupported)
          << row->name << ": " << dims.error().message;
    }
}

TEST(Kinds, RefuseTypesThatHaveNoKernel) {
  for (const KindRow* row : kind_rows()) {
    Program program = program_of(*row, row->inputs.least);
    for (ProgramValue& value : program.values) value.type = DataType::kDouble;
    EXPECT_EQ(code_of(row->types(program, program.ops[0])), ErrorCode::kUnsupported) << row->name;
  }
}

/// What the header of a context binary with this program lists.
std::vector<Need> needs_of_one(const Program& program) {
  return needs_of(loader(), std::span(&program, 1));
}

TEST(Kinds, ThatCameAfter1_1AreListedInHeaders) {
  for (const KindRow* row : kind_rows()) {
    const Need need{Need::kOpKind, row->number};
    EXPECT_EQ(needs_of_one(program_of(*row, row->inputs.least)),
              row->number <= kKindsOf1_1 ? std::vector<Need>{} : std::vector<Need>{need})
        << row->name;
    EXPECT_TRUE(dynamic_cast<const KnowsNeeds&>(loader()).knows(need)) << row->name;
  }
  const auto after = static_cast<std::uint16_t>(kind_rows().back()->number + 1);
  EXPECT_FALSE(dynamic_cast<const KnowsNeeds&>(loader()).knows({Need::kOpKind, after}));
  EXPECT_FALSE(dynamic_cast<const KnowsNeeds&>(loader()).knows({Need::kOpKind, 0}));
  EXPECT_FALSE(dynamic_cast<const KnowsNeeds&>(loader()).knows({3, 1}));
}

TEST(Kinds, HaveTheirNumbersInTheFormatPage) {
  std::ifstream file(CTXGEN_FORMAT_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const KindRow* row : kind_rows())
    EXPECT_TRUE(page.contains(std::format("{} `{}`", row->number, row->name))) << row->name;
}

TEST(Kinds, WithoutPostOpsRefuseThem) {
  for (const KindRow* row : kind_rows()) {
    if (row->traits.post_ops || row->inputs.least != 1) continue;
    Program program = program_of(*row, 1);
    program.ops[0].post_ops = {unary("relu")};
    const auto dims = infer(program);
    ASSERT_FALSE(dims) << row->name;
    // Kinds that need parameters fail for these first; all others for the post-op.
    if (!infer(program_of(*row, 1))) continue;
    EXPECT_EQ(dims.error().code, ErrorCode::kCorruptContext) << row->name;
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
