#include <format>

#include <gmock/gmock.h>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

// Matrices of few bits that DequantizeLinear makes real, and tables of such rows.
namespace ctxgen::testing {
namespace {

using ::testing::HasSubstr;
using Summary = std::vector<std::string>;

enum class Scales : std::uint8_t { kOne, kColumns, kBlocks };

/// x [rows, k] times a stored matrix [k, n], or [n, k] if swapped.
struct Stored {
  DataType type = DataType::kInt4;
  Scales scales = Scales::kBlocks;
  std::int64_t block = 32, k = 70, n = 33, rows = 3;
  bool zeros = false, swapped = false;
  DataType real = DataType::kFloat;
};

Tensor scales_of(TestGraph& g, const Stored& form, const Dims& dims) {
  Tensor scales = g.random_of(DataType::kFloat16, dims);  // in [-1, 1]
  if (form.real == DataType::kFloat16) return scales;
  Tensor wide = Tensor::allocate(DataType::kFloat, dims).value();
  float next = 0.01F;
  for (float& scale : wide.mutable_elements<float>()) {
    scale = next;
    next = next > 0.1F ? -0.02F : next + 0.007F;
  }
  return wide;
}

/// DequantizeLinear of the matrix.
std::string add_matrix(TestGraph& g, const Stored& form) {
  const std::int64_t blocks = (form.k + form.block - 1) / form.block;
  const Dims dims = form.swapped ? Dims{form.n, form.k} : Dims{form.k, form.n};
  Dims scales;
  if (form.scales == Scales::kColumns) scales = {form.n};
  if (form.scales == Scales::kBlocks)
    scales = form.swapped ? Dims{form.n, blocks} : Dims{blocks, form.n};
  std::vector<std::string> inputs{g.tensor_constant(g.random_of(form.type, dims)),
                                  g.tensor_constant(scales_of(g, form, scales))};
  if (form.zeros) inputs.push_back(g.tensor_constant(g.random_of(form.type, scales)));
  std::vector<Attribute> attributes;
  const bool blocked = form.scales == Scales::kBlocks;
  if (form.scales != Scales::kOne) attributes.push_back(attr("axis", blocked == form.swapped));
  if (blocked) attributes.push_back(attr("block_size", form.block));
  return g.add("DequantizeLinear", inputs, attributes);
}

std::string add_x(TestGraph& g, const Stored& form) {
  if (form.real == DataType::kFloat) return g.input("x", {form.rows, form.k});
  return g.tensor_input("x", g.random_of(form.real, {form.rows, form.k}));
}

Summary ops_of(const TestGraph& g) {
  Program program;
  (void)compiled_results(g, &program);
  return summary(program);
}

void expect_product(const Stored& form) {
  TestGraph g(25);
  const std::string x = add_x(g, form), matrix = add_matrix(g, form);
  g.output(form.swapped ? g.add("Gemm", {x, matrix}, {attr("transB", 1)})
                        : g.add("MatMul", {x, matrix}));
  const bool half = form.real == DataType::kFloat16;
  expect_same(g, half ? 2e-2 : 1e-5 * (form.type == DataType::kUint8 ? 16 : 4));
  if (half) return;
  EXPECT_EQ(ops_of(g), Summary{"low_bit_matmul"});
}

TEST(DnnlStoredLowBits, ProductsOfAllForms) {
  for (const DataType type : {DataType::kInt2, DataType::kUint2, DataType::kInt4, DataType::kUint4,
                              DataType::kInt8, DataType::kUint8})
    for (const Scales scales : {Scales::kOne, Scales::kColumns, Scales::kBlocks})
      for (const bool zeros : {false, true})
        for (const bool swapped : {false, true}) {
          SCOPED_TRACE(std::format("{}, scales {}, zeros {}, swapped {}", name_of(type),
                                   static_cast<int>(scales), zeros, swapped));
          expect_product({.type = type, .scales = scales, .zeros = zeros, .swapped = swapped});
        }
}

TEST(DnnlStoredLowBits, ProductsOfAnySize) {
  for (const std::int64_t block : {16, 48, 64, 256, 320, 512, 70, 1 << 20})
    for (const std::int64_t k : {1, 16, 70, 300})
      for (const std::int64_t n : {1, 5, 64}) {
        if (block % 16 != 0 && block < k) continue;
        SCOPED_TRACE(std::format("blocks of {}, {} x {}", block, k, n));
        expect_product({.block = block, .k = k, .n = n, .zeros = n == 5, .swapped = n == 5});
      }
  for (const std::int64_t rows : {1, 2, 7, 8, 33, 65})
    expect_product({.type = DataType::kUint4, .rows = rows, .zeros = true});
}

TEST(DnnlStoredLowBits, HalfPrecision) {
  expect_product({.real = DataType::kFloat16});
  expect_product({.type = DataType::kUint8, .scales = Scales::kOne, .real = DataType::kFloat16});
}

TEST(DnnlStoredLowBits, TransposesAndBiasesBelongToTheProduct) {
  TestGraph g(25);
  const Stored form{.swapped = true};
  const std::string matrix = g.add("Transpose", {add_matrix(g, form)});
  const std::string sum =
      g.add("Add", {g.add("MatMul", {add_x(g, form), matrix}), g.constant({33})});
  g.output(g.add("Relu", {sum}));
  expect_same(g);
  EXPECT_EQ(ops_of(g), (Summary{"low_bit_matmul", "eltwise:relu"}));
}

TEST(DnnlStoredLowBits, BiasesOfGemm) {
  for (const Dims& dims : {Dims{}, Dims{1}, Dims{33}, Dims{1, 33}})
    for (const float beta : {1.0F, 0.25F}) {
      TestGraph g(25);
      const Stored form;
      g.output(g.add("Gemm", {add_x(g, form), add_matrix(g, form), g.constant(dims)},
                     {attr("beta", beta)}));
      expect_same(g);
      EXPECT_EQ(ops_of(g), Summary{"low_bit_matmul"});
    }
}

/// The bytes of a program's weights.
std::uint64_t weight_bytes(const TestGraph& g) {
  Program program;
  (void)compiled_results(g, &program);
  std::uint64_t bytes = 0;
  for (const ProgramWeight& weight : program.weights)
    bytes += checked_size_bytes(weight.type, weight.dims).value();
  return bytes;
}

TEST(DnnlStoredLowBits, StayAsSmallAsTheyAre) {
  const auto bytes = [](const Stored& form) {
    TestGraph g(25);
    g.output(g.add("MatMul", {add_x(g, form), add_matrix(g, form)}));
    return weight_bytes(g);
  };
  const Stored form{.k = 512, .n = 64};
  EXPECT_EQ(bytes(form), 512 * 64 / 2 + 16 * 64 * 4);
  EXPECT_EQ(bytes({.scales = Scales::kColumns, .k = 512, .n = 64}), 512 * 64 / 2 + 2 * 64 * 4);
  EXPECT_EQ(bytes({.type = DataType::kInt8, .scales = Scales::kOne, .k = 512, .n = 64}),
            512 * 64 + 2 * 64 * 4);
}

/// Whether the provider asks to leave the first node, a DequantizeLinear, to a product.
bool keeps(const TestGraph& g, NodeId node) {
  return onednn::make_provider()->keeps_unfolded(g.view(), node);
}

TEST(DnnlStoredLowBits, OthersAreFolded) {
  const auto kept = [](const Stored& form, const auto& add_readers) {
    TestGraph g(25);
    const std::string x = add_x(g, form);
    const std::string matrix = add_matrix(g, form);
    const NodeId node = g.last_node();
    add_readers(g, x, matrix);
    return keeps(g, node);
  };
  const auto multiply = [](TestGraph& g, const std::string& x, const std::string& matrix) {
    g.output(g.add("MatMul", {x, matrix}));
  };
  EXPECT_TRUE(kept({}, multiply));
  EXPECT_FALSE(kept({.block = 8}, multiply));
  EXPECT_FALSE(kept({.block = 24}, multiply));
  EXPECT_FALSE(
      kept({.type = DataType::kInt4, .block = 256, .k = 1 << 17, .n = 1, .rows = 1}, multiply));
  EXPECT_FALSE(kept({}, [](TestGraph& g, const std::string& x, const std::string& matrix) {
    g.output(g.add("MatMul", {x, matrix}));
    g.output(matrix);
  }));
  EXPECT_FALSE(kept({}, [](TestGraph& g, const std::string& x, const std::string& matrix) {
    g.output(g.add("MatMul", {x, matrix}));
    g.output(g.add("MatMul", {x, matrix}));
  }));
  EXPECT_FALSE(kept({}, [](TestGraph& g, const std::string& x, const std::string& matrix) {
    g.output(g.add("Gemm", {x, matrix}, {attr("alpha", 2.0F)}));
  }));
  EXPECT_FALSE(kept({}, [](TestGraph& g, const std::string& x, const std::string& matrix) {
    g.output(g.add("Gemm", {x, matrix, g.constant({3, 33})}));
  }));
  EXPECT_FALSE(kept({.k = 33, .rows = 33},
                    [](TestGraph& g, const std::string& x, const std::string& matrix) {
                      g.output(g.add("MatMul", {matrix, x}));
                    }));
  EXPECT_FALSE(
      kept({.k = 33}, [](TestGraph& g, const std::string& /*x*/, const std::string& matrix) {
        g.output(g.add("MatMul", {matrix, matrix}));
      }));
}

/// Columns of bytes times bytes belong to integer products, where there are some.
TEST(DnnlStoredLowBits, BytesTimesBytesAreFolded) {
  for (const bool moved : {false, true}) {
    TestGraph g(25);
    const Stored form{.type = DataType::kInt8, .scales = Scales::kColumns};
    const std::string scale = g.constant({}, {0.1F});
    std::string x = g.add("DequantizeLinear",
                          {g.tensor_input("x", g.random_of(DataType::kUint8, {70, 3})), scale});
    x = g.add("Transpose", {x});
    if (moved) x = g.add("Unsqueeze", {x, g.ints({0})});
    const std::string matrix = add_matrix(g, form);
    const NodeId node = g.last_node();
    g.output(g.add("MatMul", {x, matrix}));
    EXPECT_FALSE(keeps(g, node));
  }
}

// ---- Conv ----

/// x convolved with stored weights [M, C, K1..Kk]; blocks are of channels.
struct StoredConv {
  DataType type = DataType::kInt8;
  Scales scales = Scales::kColumns;
  std::int64_t block = 16;
  Dims x = {1, 32, 9, 7}, weights = {33, 32, 3, 3};
  bool zeros = false, bias = false;
  std::vector<Attribute> attributes = {};
  std::string after = {};
};

std::string add_weights(TestGraph& g, const StoredConv& c) {
  Dims scales;
  if (c.scales == Scales::kColumns) scales = {c.weights[0]};
  if (c.scales == Scales::kBlocks) {
    scales = c.weights;
    scales[1] = (scales[1] - 1) / c.block + 1;
  }
  std::vector<std::string> inputs{g.tensor_constant(g.random_of(c.type, c.weights)),
                                  g.tensor_constant(scales_of(g, {}, scales))};
  if (c.zeros) inputs.push_back(g.tensor_constant(g.random_of(c.type, scales)));
  std::vector<Attribute> attributes;
  if (c.scales == Scales::kColumns) attributes.push_back(attr("axis", 0));
  if (c.scales == Scales::kBlocks) attributes.push_back(attr("block_size", c.block));
  return g.add("DequantizeLinear", inputs, attributes);
}

std::string add_conv(TestGraph& g, const StoredConv& c) {
  std::vector<std::string> inputs{g.input("x", c.x), add_weights(g, c)};
  if (c.bias) inputs.push_back(g.constant({c.weights[0]}));
  const std::string y = g.add("Conv", inputs, c.attributes);
  return c.after.empty() ? y : g.add(c.after, {y});
}

void expect_conv(const StoredConv& c) {
  TestGraph g(25);
  g.output(add_conv(g, c));
  expect_same(g, 1e-5 * (c.type == DataType::kUint8 ? 16 : 4));
  EXPECT_EQ(ops_of(g), Summary{c.after.empty() ? "low_bit_conv" : "low_bit_conv +relu"});
}

TEST(DnnlStoredLowBits, ConvolutionsOfAllForms) {
  for (const DataType type : {DataType::kInt2, DataType::kUint2, DataType::kInt4, DataType::kUint4,
                              DataType::kInt8, DataType::kUint8})
    for (const Scales scales : {Scales::kOne, Scales::kColumns, Scales::kBlocks})
      for (const bool zeros : {false, true})
        for (const std::int64_t block : {16, 32, 64}) {
          if (scales != Scales::kBlocks && block > 16) continue;
          SCOPED_TRACE(std::format("{}, scales {}, zeros {}, blocks of {}", name_of(type),
                                   static_cast<int>(scales), zeros, block));
          expect_conv({.type = type,
                       .scales = scales,
                       .block = block,
                       .zeros = zeros,
                       .bias = scales == Scales::kColumns});
        }
}

TEST(DnnlStoredLowBits, ConvolutionsOfAllWindows) {
  const auto list = [](const char* name, List values) { return attr(name, std::move(values)); };
  expect_conv({.attributes = {list("pads", {1, 1, 1, 1})}, .after = "Relu"});
  expect_conv({.bias = true, .attributes = {list("pads", {0, 2, 1, 3}), list("strides", {2, 3})}});
  expect_conv({.attributes = {list("pads", {3, 3, 3, 3}), list("dilations", {3, 2})}});
  expect_conv({.attributes = {attr("auto_pad", std::string("SAME_UPPER"))}});
  expect_conv({.x = {2, 150, 19, 21}, .weights = {32, 150, 1, 1}, .after = "Relu"});
  expect_conv({.type = DataType::kUint4,
               .scales = Scales::kBlocks,
               .block = 64,
               .x = {2, 150, 5, 4},
               .weights = {32, 150, 1, 1},
               .zeros = true});
  expect_conv(
      {.x = {1, 128, 6, 6}, .weights = {40, 128, 1, 1}, .attributes = {list("strides", {2, 2})}});
  expect_conv({.x = {2, 3, 60, 61},
               .weights = {64, 3, 7, 7},
               .attributes = {list("strides", {2, 2}), list("pads", {3, 3, 3, 3})}});
  expect_conv({.type = DataType::kInt4,
               .scales = Scales::kBlocks,
               .x = {2, 48, 40},
               .weights = {32, 48, 5},
               .attributes = {list("pads", {2, 2})}});
  expect_conv({.x = {1, 256, 2, 2}, .weights = {16, 256, 2, 2}});
}

TEST(DnnlStoredLowBits, ConvolutionsThatAreFolded) {
  const auto kept = [](const StoredConv& c) {
    TestGraph g(25);
    const std::string weights = add_weights(g, c);
    const NodeId node = g.last_node();
    g.output(g.add("Conv", {g.input("x", c.x), weights}, c.attributes));
    return keeps(g, node);
  };
  EXPECT_TRUE(kept({}));
  EXPECT_FALSE(kept({.scales = Scales::kBlocks, .block = 8}));
  EXPECT_FALSE(kept({.scales = Scales::kBlocks, .block = 24}));
  EXPECT_FALSE(kept({.x = {1, 32, 5, 5, 5}, .weights = {32, 32, 3, 3, 3}}));
  EXPECT_FALSE(
      kept({.x = {1, 64, 9, 7}, .weights = {34, 32, 3, 3}, .attributes = {attr("group", 2)}}));
  EXPECT_FALSE(kept({.x = {1, 512, 5, 5}, .weights = {8, 512, 1, 1}}));
  EXPECT_FALSE(kept({.x = {1, 8, 5, 5}, .weights = {32, 8, 3, 3}}));
}

/// Weights of bytes times bytes belong to integer convolutions.
TEST(DnnlStoredLowBits, BytesConvolvedWithBytesAreFolded) {
  TestGraph g(25);
  const StoredConv c;
  const std::string x =
      g.add("DequantizeLinear",
            {g.tensor_input("x", g.random_of(DataType::kUint8, c.x)), g.constant({}, {0.1F})});
  const std::string weights = add_weights(g, c);
  const NodeId node = g.last_node();
  g.output(g.add("Conv", {g.add("Relu", {x}), weights}));
  EXPECT_FALSE(keeps(g, node));
}

// ---- GatherBlockQuantized ----

/// A table [n, k] in blocks of its rows.
struct Table {
  DataType type = DataType::kUint8;
  std::int64_t bits = 4, block = 32, n = 40, k = 96;
  bool zeros = false;
  std::int64_t gather_axis = 0, quantize_axis = 1;
  [[nodiscard]] std::int64_t blocks() const { return (k + block - 1) / block; }
};

std::string add_lookup(TestGraph& g, const Table& table, DataType real = DataType::kFloat) {
  const bool bytes = table.type == DataType::kUint8;
  const std::int64_t per_byte = bytes ? 8 / table.bits : 1;
  Tensor scales = g.random_of(DataType::kFloat16, {table.n, table.blocks()});
  std::vector<std::string> inputs{
      g.tensor_constant(g.random_of(table.type, {table.n, table.k / per_byte})),
      g.int_tensor({2, 3}, {0, table.n - 1, 5, -1, -table.n, 7}),
      real == DataType::kFloat16 ? g.tensor_constant(std::move(scales))
                                 : g.constant({table.n, table.blocks()}, 0.01F, 0.1F)};
  inputs[1] = g.tensor_input("ids", g.value(inputs[1]));
  if (table.zeros)
    inputs.push_back(g.tensor_constant(g.random_of(
        table.type, {table.n, bytes ? (table.blocks() * table.bits + 7) / 8 : table.blocks()})));
  return g.add_in(
      "com.microsoft", "GatherBlockQuantized", inputs,
      {attr("bits", table.bits), attr("block_size", table.block),
       attr("gather_axis", table.gather_axis), attr("quantize_axis", table.quantize_axis)});
}

TEST(DnnlStoredLowBits, LookupsOfAllForms) {
  const std::vector<std::pair<DataType, std::int64_t>> forms{{DataType::kUint8, 2},
                                                             {DataType::kUint8, 4},
                                                             {DataType::kUint8, 8},
                                                             {DataType::kUint4, 4},
                                                             {DataType::kInt4, 4}};
  for (const auto& [type, bits] : forms)
    for (const std::int64_t block : {16, 32, 128, 1024})
      for (const bool zeros : {false, true}) {
        SCOPED_TRACE(
            std::format("{}, {} bits, blocks of {}, zeros {}", name_of(type), bits, block, zeros));
        TestGraph g(21);
        g.output(add_lookup(g, {.type = type, .bits = bits, .block = block, .zeros = zeros}));
        expect_same(g, 0);
        EXPECT_EQ(ops_of(g), Summary{"low_bit_lookup"});
      }
  TestGraph g(21);
  g.output(add_lookup(g, {.quantize_axis = -1}, DataType::kFloat16));
  expect_same(g, 1e-3);
}

/// An embedding that the last product uses again.
TEST(DnnlStoredLowBits, ATableAndAProductShareTheirBytes) {
  TestGraph g(21);
  const Table table;
  const Tensor bytes = g.random_of(DataType::kUint8, {table.n, table.k / 2});
  const std::string scales = g.constant({table.n, table.blocks()}, 0.01F, 0.1F);
  const std::string ids = g.tensor_input("ids", g.value(g.int_tensor({2}, {3, 39})));
  g.output(g.add_in("com.microsoft", "GatherBlockQuantized",
                    {g.tensor_constant(bytes), ids, scales},
                    {attr("bits", 4), attr("block_size", table.block)}));
  g.output(g.add_in(
      "com.microsoft", "MatMulNBits",
      {g.input("x", {2, table.k}),
       g.tensor_constant(bytes.with_dims({table.n, table.blocks(), 16})), scales},
      {attr("K", table.k), attr("N", table.n), attr("bits", 4), attr("block_size", table.block)}));
  expect_same(g);
  Program program;
  (void)compiled_results(g, &program);
  ASSERT_EQ(program.weights.size(), 2U);
  EXPECT_EQ(program.weights[0].packed[0].blob, program.weights[1].packed[0].blob);
}

TEST(DnnlStoredLowBits, LookupsThatAreRefused) {
  const auto reason = [](const Table& table) {
    TestGraph g(21);
    add_lookup(g, table);
    for (const Rejection& rejection : onednn::make_provider()->capabilities(g.view())->rejections)
      if (rejection.node == g.last_node()) return rejection.reason;
    return std::string();
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_THAT(reason({.type = DataType::kInt4, .n = 96, .k = 96, .gather_axis = 1}),
              HasSubstr("axes other than"));
}

}  // namespace
}  // namespace ctxgen::testing
