#include <cmath>
#include <format>

#include <gmock/gmock.h>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

// Products with matrices of few bits, as com.microsoft has them.
namespace ctxgen::testing {
namespace {

using ::testing::HasSubstr;

enum class Zeros : std::uint8_t { kNone, kPacked, kReal };

struct NBits {
  std::int64_t bits = 4, block = 32, k = 70, n = 33, rows = 3;
  Zeros zeros = Zeros::kNone;
  std::int64_t level = 0;
  bool bias = false;
  [[nodiscard]] std::int64_t blocks() const { return (k + block - 1) / block; }
};

/// Numbers that rounding to 8-bit integers keeps: whole ones, of which each block has one of 127.
Tensor whole_numbers(const NBits& form) {
  Tensor a = Tensor::allocate(DataType::kFloat, {form.rows, form.k}).value();
  std::int64_t i = 0;
  for (float& x : a.mutable_elements<float>()) {
    const std::int64_t k = i % form.k;
    x = k % form.block == 0 ? 127.0F : static_cast<float>(i * 37 % 255 - 127);
    ++i;
  }
  return a;
}

std::vector<Attribute> attributes_of(const NBits& form) {
  return {attr("K", form.k), attr("N", form.n), attr("bits", form.bits),
          attr("block_size", form.block), attr("accuracy_level", form.level)};
}

std::string add_product(TestGraph& g, const NBits& form) {
  const std::int64_t blocks = form.blocks();
  const std::string a = form.level == 4 ? g.tensor_input("a", whole_numbers(form))
                                        : g.input("a", {form.rows, form.k});
  std::vector<std::string> inputs{
      a,
      g.tensor_constant(
          g.random_of(DataType::kUint8, {form.n, blocks, form.block * form.bits / 8})),
      g.constant({form.n * blocks}, 0.01F, 0.1F)};
  if (form.zeros == Zeros::kPacked)
    inputs.push_back(g.tensor_constant(
        g.random_of(DataType::kUint8, {form.n * ((blocks * form.bits + 7) / 8)})));
  if (form.zeros == Zeros::kReal) inputs.push_back(g.constant({form.n * blocks}, 0.0F, 9.0F));
  if (form.bias) {
    inputs.resize(5);
    inputs.push_back(g.constant({form.n}));
  }
  return g.add_in("com.microsoft", "MatMulNBits", inputs, attributes_of(form));
}

void expect_same_product(const NBits& form) {
  TestGraph g(17);
  g.output(add_product(g, form));
  // Relative to the sums that are centred afterwards, which are larger than the result.
  expect_same(g, 1e-5 * (form.level == 4 ? 127 : 1) * (1 << form.bits) / 16);
}

TEST(DnnlLowBit, ProductsOfAllForms) {
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 64, 128, 256})
      for (const Zeros zeros : {Zeros::kNone, Zeros::kPacked, Zeros::kReal})
        for (const std::int64_t level : {0, 4}) {
          SCOPED_TRACE(std::format("{} bits, blocks of {}, zeros {}, level {}", bits, block,
                                   static_cast<int>(zeros), level));
          expect_same_product({.bits = bits,
                               .block = block,
                               .zeros = zeros,
                               .level = level,
                               .bias = level == 4 || block == 64});
        }
}

TEST(DnnlLowBit, ProductsOfAnyNumberOfRows) {
  for (const std::int64_t level : {0, 4})
    for (const std::int64_t rows : {1, 2, 7, 8, 16, 65}) {
      SCOPED_TRACE(std::format("{} rows, level {}", rows, level));
      expect_same_product({.k = 100, .n = 35, .rows = rows, .level = level});
    }
}

TEST(DnnlLowBit, LevelsSayHowToCompute) {
  const auto compute = [](const NBits& form) {
    TestGraph g(17);
    g.output(add_product(g, form));
    Program program;
    EXPECT_EQ(compiled_results(g, &program).size(), 1U);
    EXPECT_EQ(summary(program), (std::vector<std::string>{"low_bit_matmul"}));
    for (const ProgramParam& param : program.ops[0].params)
      if (param.name == "compute") return std::get<ShortText>(param.value).str();
    return std::string();
  };
  for (const std::int64_t level : {0, 1, 2, 3}) EXPECT_EQ(compute({.level = level}), "float");
  EXPECT_EQ(compute({.level = 4}), "int8");
  EXPECT_EQ(compute({.zeros = Zeros::kPacked, .level = 4}), "int8");
  EXPECT_EQ(compute({.zeros = Zeros::kReal, .level = 4}), "float");
}

/// Rounded to integers, a block of a row is off by half a 127th of its largest number at most.
TEST(DnnlLowBit, Level4RoundsBlocksOfRows) {
  TestGraph g(17);
  const NBits form{.k = 256, .n = 32, .rows = 5};
  std::vector<std::string> inputs{
      g.input("a", {form.rows, form.k}),
      g.tensor_constant(g.random_of(DataType::kUint8, {form.n, form.blocks(), 16})),
      g.constant({form.n * form.blocks()}, 0.01F, 0.1F)};
  std::vector<Attribute> attributes = attributes_of(form);
  attributes.back() = attr("accuracy_level", 4);
  const std::string y = g.add_in("com.microsoft", "MatMulNBits", inputs, attributes);
  g.output(y);
  const Tensor found = compiled_results(g)[0];
  double error = 0, size = 0;
  for (std::int64_t i = 0; i < found.element_count(); ++i) {
    error += std::pow(at(found, i) - at(g.value(y), i), 2);
    size += std::pow(at(g.value(y), i), 2);
  }
  EXPECT_GT(std::sqrt(error / size), 1e-4);  // it does round
  EXPECT_LT(std::sqrt(error / size), 1e-2);
}

TEST(DnnlLowBit, HalfPrecision) {
  TestGraph g(17);
  Tensor halves = g.random_of(DataType::kFloat16, {24});
  const std::string a = g.tensor_input("a", g.random_of(DataType::kFloat16, {2, 64}));
  g.output(g.add_in("com.microsoft", "MatMulNBits",
                    {a, g.tensor_constant(g.random_of(DataType::kUint8, {12, 2, 16})),
                     g.tensor_constant(std::move(halves))},
                    {attr("K", 64), attr("N", 12), attr("bits", 4), attr("block_size", 32)}));
  expect_same(g, 2e-3);
}

TEST(DnnlLowBit, TwoProductsWithOneMatrixStoreItOnce) {
  TestGraph g(17);
  const std::string b = g.tensor_constant(g.random_of(DataType::kUint8, {40, 2, 16}));
  const std::string scales = g.constant({80}, 0.01F, 0.1F);
  for (const char* name : {"x", "y"})
    g.output(g.add_in("com.microsoft", "MatMulNBits", {g.input(name, {2, 64}), b, scales},
                      {attr("K", 64), attr("N", 40), attr("block_size", 32)}));
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 2U);
  ASSERT_EQ(program.weights.size(), 2U);
  EXPECT_EQ(program.weights[0].packed[0].blob, program.weights[1].packed[0].blob);
}

/// The reason why the last node is refused, or "" if it is claimed.
std::string reason_of(const TestGraph& g) {
  const auto capabilities = onednn::make_provider()->capabilities(g.view());
  EXPECT_TRUE(capabilities.has_value());
  for (const Rejection& rejection : capabilities->rejections)
    if (rejection.node == g.last_node()) return rejection.reason;
  return "";
}

std::string reason_of(const NBits& form) {
  TestGraph g(17);
  add_product(g, form);
  return reason_of(g);
}

TEST(DnnlLowBit, FormsThatAreRefused) {
  EXPECT_EQ(reason_of(NBits{}), "");
  EXPECT_THAT(reason_of({.block = 512}), HasSubstr("blocks of 512"));
  EXPECT_THAT(reason_of({.level = 5}), HasSubstr("accuracy_level is 5"));
  EXPECT_THAT(reason_of({.level = -1}), HasSubstr("accuracy_level is -1"));
  EXPECT_THAT(reason_of({.block = 16, .k = 1 << 18, .n = 1}), HasSubstr("too few"));
  TestGraph packed(17);
  std::vector<Attribute> attributes = attributes_of({});
  attributes.push_back(attr("weight_prepacked", 1));
  const NBits form;
  packed.add_in("com.microsoft", "MatMulNBits",
                {packed.input("a", {1, form.k}),
                 packed.tensor_constant(packed.random_of(DataType::kUint8, {form.n, 3, 16})),
                 packed.constant({form.n * 3})},
                attributes);
  EXPECT_THAT(reason_of(packed), HasSubstr("packed for another library"));
}

/// Which of A, B, scales and bias is of the other kind, constant or not.
TEST(DnnlLowBit, ConstantsThatAreNot) {
  for (const std::size_t other : {0, 1, 2, 5}) {
    TestGraph g(17);
    const NBits form;
    const Tensor matrix = g.random_of(DataType::kUint8, {form.n, 3, 16});
    const Dims scales{form.n * 3};
    g.add_in("com.microsoft", "MatMulNBits",
             {other == 0 ? g.constant({2, form.k}) : g.input("a", {2, form.k}),
              other == 1 ? g.tensor_input("b", matrix) : g.tensor_constant(matrix),
              other == 2 ? g.input("s", scales) : g.constant(scales), "", "",
              other == 5 ? g.input("bias", {form.n}) : g.constant({form.n})},
             attributes_of(form));
    EXPECT_THAT(reason_of(g), HasSubstr("constant")) << other;
  }
}

}  // namespace
}  // namespace ctxgen::testing
