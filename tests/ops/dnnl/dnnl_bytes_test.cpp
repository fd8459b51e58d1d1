#include <cmath>
#include <format>
#include <limits>
#include <optional>

#include <gmock/gmock.h>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

// Models as ONNX Runtime's quantize_dynamic writes them, and the operators that it fuses of them.
namespace ctxgen::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

struct Dynamic {
  std::int64_t rows = 3, k = 70, n = 33;
  DataType weights = DataType::kInt8;
  bool per_column = false, zeros = false, bias = true, rows_of_one_number = false;
  std::string after = {};
};

Tensor one_of(DataType type, std::int64_t value) {
  Tensor tensor = Tensor::allocate(type, {}).value();
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return tensor;
}

/// Weights, scales and zero points.
struct Constants {
  Constants(TestGraph& g, const Dynamic& d)
      : weights(g.tensor_constant(g.random_of(d.weights, {d.k, d.n}))),
        scales(d.per_column ? g.constant({d.n}, 0.01F, 0.02F)
                            : g.tensor_constant(scalar_of(0.0173F))) {
    if (d.zeros)
      zeros =
          g.tensor_constant(d.per_column ? g.random_of(d.weights, {d.n}) : one_of(d.weights, 17));
  }
  static Tensor scalar_of(float value) {
    Tensor tensor = Tensor::allocate(DataType::kFloat, {1}).value();
    tensor.mutable_elements<float>()[0] = value;
    return tensor;
  }
  std::string weights, scales, zeros;
};

std::string add_source(TestGraph& g, const Dynamic& d) {
  if (!d.rows_of_one_number) return g.input("x", {d.rows, d.k});
  Tensor x = Tensor::allocate(DataType::kFloat, {d.rows, d.k}).value();
  for (float& value : x.mutable_elements<float>()) value = 0;
  return g.tensor_input("x", std::move(x));
}

/// x -> DynamicQuantizeLinear: bytes, scale, zero point.
std::vector<std::string> quantized(TestGraph& g, const std::string& x) {
  std::string name = g.add("DynamicQuantizeLinear", {x}, {}, 3);  // ends in "_0"
  std::vector<std::string> names;
  for (const char output : {'0', '1', '2'}) {
    name.back() = output;
    names.push_back(name);
  }
  return names;
}

std::string made_real(TestGraph& g, const std::vector<std::string>& q, const Constants& c,
                      const Dynamic& d) {
  std::vector<std::string> inputs{q[0], c.weights, q[2]};
  if (!c.zeros.empty()) inputs.push_back(c.zeros);
  std::string y = g.add("MatMulInteger", inputs);
  y = g.add("Cast", {y}, {attr("to", 1)});
  y = g.add("Mul", {y, g.add("Mul", {q[1], c.scales})});
  if (d.bias) y = g.add("Add", {g.constant({d.n}), y});
  return d.after.empty() ? y : g.add(d.after, {y});
}

void expect_chain(const Dynamic& d) {
  TestGraph g(17);
  const Constants constants(g, d);
  const std::string y = made_real(g, quantized(g, add_source(g, d)), constants, d);
  g.output(y);
  Program program;
  const auto results = compiled_results(g, &program);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(summary(program),
            (Words{"dynamic_quantize", d.after.empty() ? "byte_matmul" : "byte_matmul +relu"}));
  // The same roundings in the same order.
  ASSERT_EQ(results[0].dims(), g.value(y).dims());
  for (std::int64_t i = 0; i < results[0].element_count(); ++i)
    ASSERT_EQ(at(results[0], i), at(g.value(y), i)) << i;
}

TEST(DnnlBytes, ChainsOfAllForms) {
  for (const DataType weights : {DataType::kInt8, DataType::kUint8})
    for (const bool per_column : {false, true})
      for (const bool zeros : {false, true})
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(std::format("{}, per column {}, zeros {}, bias {}", name_of(weights),
                                   per_column, zeros, bias));
          expect_chain(
              {.weights = weights, .per_column = per_column, .zeros = zeros, .bias = bias});
        }
}

TEST(DnnlBytes, ChainsOfAnyNumberOfRows) {
  for (const std::int64_t rows : {1, 2, 7, 12, 13, 64, 65}) {
    SCOPED_TRACE(rows);
    expect_chain({.rows = rows, .k = 101, .n = 35, .zeros = true});
    expect_chain({.rows = rows, .k = 64, .n = 64, .after = "Relu"});
  }
}

TEST(DnnlBytes, OfZeros) { expect_chain({.zeros = true, .rows_of_one_number = true}); }

/// Query, key and value read what is rounded once.
TEST(DnnlBytes, ProductsShareWhatIsRounded) {
  TestGraph g(17);
  const Dynamic d;
  const auto q = quantized(g, add_source(g, d));
  for (int i = 0; i < 3; ++i) g.output(made_real(g, q, Constants(g, d), d));
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 3U);
  EXPECT_EQ(summary(program),
            (Words{"dynamic_quantize", "byte_matmul", "byte_matmul", "byte_matmul"}));
  expect_same(g, 1e-6);
}

TEST(DnnlBytes, RoundingAlone) {
  TestGraph g(17);
  for (const std::string& output : quantized(g, g.input("x", {5, 9}))) g.output(output);
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 3U);
  EXPECT_EQ(summary(program), Words{"dynamic_quantize"});
  expect_same(g, 0.0);
}

TEST(DnnlBytes, RoundingOfSpecialNumbers) {
  for (const float special : {std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), 3e38F, -3e38F, 1e-45F}) {
    TestGraph g(17);
    Tensor x = g.random_of(DataType::kFloat, {3, 9});
    x.mutable_elements<float>()[4] = special;
    for (const std::string& output : quantized(g, g.tensor_input("x", std::move(x))))
      g.output(output);
    expect_same(g, 0.0);
  }
}

/// Bytes and a zero point from elsewhere; sums that are results.
TEST(DnnlBytes, SumsAlone) {
  for (const DataType type : {DataType::kUint8, DataType::kInt8})
    for (const bool constant_zero : {false, true}) {
      TestGraph g(17);
      const Tensor zero = one_of(type, 40);
      g.output(g.add("MatMulInteger",
                     {g.tensor_input("x", g.random_of(type, {2, 3, 65})),
                      g.tensor_constant(g.random_of(DataType::kUint8, {65, 10})),
                      constant_zero ? g.tensor_constant(zero) : g.tensor_input("z", zero),
                      g.tensor_constant(g.random_of(DataType::kUint8, {10}))}));
      Program program;
      EXPECT_EQ(compiled_results(g, &program).size(), 1U);
      EXPECT_EQ(summary(program), Words{"byte_matmul"});
      expect_same(g, 0.0);
    }
}

TEST(DnnlBytes, MatMulIntegerToFloat) {
  for (const bool whole : {false, true}) {
    TestGraph g(17);
    const Dynamic d{.per_column = whole, .zeros = whole};
    const Constants c(g, d);
    std::vector<std::string> inputs{g.tensor_input("x", g.random_of(DataType::kUint8, {4, d.k})),
                                    c.weights,
                                    g.tensor_input("s", Constants::scalar_of(0.031F)),
                                    c.scales,
                                    g.tensor_input("z", one_of(DataType::kUint8, 99)),
                                    c.zeros};
    if (whole) inputs.push_back(g.constant({d.n}));
    g.output(g.add_in("com.microsoft", "MatMulIntegerToFloat", inputs, {}));
    Program program;
    EXPECT_EQ(compiled_results(g, &program).size(), 1U);
    EXPECT_EQ(summary(program), Words{"byte_matmul"});
    // The reference makes real numbers of both sides and sums those.
    expect_same(g, 1e-5);
  }
}

TEST(DnnlBytes, DynamicQuantizeMatMul) {
  for (const bool whole : {false, true}) {
    TestGraph g(17);
    const Dynamic d{.per_column = whole, .zeros = whole};
    const Constants c(g, d);
    std::vector<std::string> inputs{add_source(g, d), c.weights, c.scales, c.zeros};
    if (whole) inputs.push_back(g.constant({d.n}));
    g.output(g.add_in("com.microsoft", "DynamicQuantizeMatMul", inputs, {}));
    Program program;
    EXPECT_EQ(compiled_results(g, &program).size(), 1U);
    EXPECT_EQ(summary(program), (Words{"dynamic_quantize", "byte_matmul"}));
    expect_same(g, 1e-5);
  }
}

/// Sums that something else reads too stay, and so does what follows them.
TEST(DnnlBytes, SumsThatAreReadTwiceAreNotJoined) {
  TestGraph g(17);
  const auto q = quantized(g, g.input("x", {4, 32}));
  const std::string sums = g.add(
      "MatMulInteger", {q[0], g.tensor_constant(g.random_of(DataType::kInt8, {32, 8})), q[2]});
  const std::string real = g.add("Cast", {sums}, {attr("to", 1)});
  g.output(sums);
  g.output(real);
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 2U);
  EXPECT_THAT(summary(program), Contains("byte_matmul"));
  expect_same(g, 0.0);
}

/// Tables of bytes, and what makes real numbers of their slices.
TEST(DnnlBytes, SlicesOfTables) {
  for (const DataType type : {DataType::kUint8, DataType::kInt8}) {
    TestGraph g(17);
    Tensor indices = Tensor::allocate(DataType::kInt64, {2, 3}).value();
    for (std::int64_t i = 0; i < 6; ++i)
      indices.mutable_elements<std::int64_t>()[static_cast<std::size_t>(i)] = i - 3;
    const std::string found = g.add("Gather", {g.tensor_constant(g.random_of(type, {9, 5})),
                                               g.tensor_input("i", std::move(indices))});
    g.output(g.add("DequantizeLinear", {found, g.tensor_constant(Constants::scalar_of(0.02F))}));
    Program program;
    EXPECT_EQ(compiled_results(g, &program).size(), 1U);
    EXPECT_EQ(summary(program), (Words{"lookup", "point"}));
    expect_same(g, 1e-6);
  }
}

/// The reason why the last node is refused, or "" if it is claimed.
std::string reason_of(const TestGraph& g) {
  const auto capabilities = onednn::make_provider()->capabilities(g.view());
  EXPECT_TRUE(capabilities.has_value());
  for (const Rejection& rejection : capabilities->rejections)
    if (rejection.node == g.last_node()) return rejection.reason;
  return "";
}

TEST(DnnlBytes, FormsThatAreRefused) {
  const auto reason = [](const Dims& weights, const Tensor& zero, bool constant) {
    TestGraph g(17);
    const Tensor values = g.random_of(DataType::kInt8, weights);
    g.add("MatMulInteger",
          {g.tensor_input("x", g.random_of(DataType::kUint8, {2, weights[weights.size() - 2]})),
           constant ? g.tensor_constant(values) : g.tensor_input("w", values),
           g.tensor_input("z", zero)});
    return reason_of(g);
  };
  const Tensor zero = one_of(DataType::kUint8, 3);
  const Tensor per_row = Tensor::allocate(DataType::kUint8, {2}).value();
  EXPECT_EQ(reason({16, 8}, zero, true), "");
  EXPECT_THAT(reason({16, 8}, zero, false), HasSubstr("not constant"));
  EXPECT_THAT(reason({16, 8}, per_row, true), HasSubstr("several elements"));
  EXPECT_THAT(reason({2, 16, 8}, zero, true), HasSubstr("rank 3"));
  EXPECT_THAT(reason({1 << 18, 1}, zero, true), HasSubstr("too few"));
}

// ---- QGemm ----

struct ByteGemm {
  std::int64_t rows = 3, k = 70, n = 33;
  DataType weights = DataType::kInt8;
  bool per_column = false, trans_a = false, trans_b = false;
  std::optional<Dims> c = {};
  bool bytes_again = false, constant_scale = true;
  float alpha = 1;
};

std::string add_gemm(TestGraph& g, const ByteGemm& d) {
  const Dims a = d.trans_a ? Dims{d.k, d.rows} : Dims{d.rows, d.k};
  const Dims b = d.trans_b ? Dims{d.n, d.k} : Dims{d.k, d.n};
  const Tensor scale = Constants::scalar_of(0.021F);
  std::vector<std::string> inputs{
      g.tensor_input("a", g.random_of(DataType::kUint8, a)),
      d.constant_scale ? g.tensor_constant(scale) : g.tensor_input("s", scale),
      g.tensor_constant(one_of(DataType::kUint8, 119)),
      g.tensor_constant(g.random_of(d.weights, b)),
      d.per_column ? g.constant({d.n}, 0.001F, 0.002F)
                   : g.tensor_constant(Constants::scalar_of(0.0173F)),
      g.tensor_constant(d.per_column ? g.random_of(d.weights, {d.n}) : one_of(d.weights, 17)),
      ""};
  if (d.c) {
    Tensor c = Tensor::allocate(DataType::kInt32, *d.c).value();
    std::int32_t next = -9000;
    for (std::int32_t& count : c.mutable_elements<std::int32_t>()) count = next += 577;
    inputs.back() = g.tensor_constant(std::move(c));
  }
  if (d.bytes_again) {
    inputs.push_back(g.tensor_constant(Constants::scalar_of(7.1F)));
    inputs.push_back(g.tensor_constant(one_of(DataType::kUint8, 128)));
  }
  return g.add_in("com.microsoft", "QGemm", inputs,
                  {attr("alpha", d.alpha), attr("transA", d.trans_a), attr("transB", d.trans_b)});
}

void expect_gemm(const ByteGemm& d) {
  TestGraph g(17);
  g.output(add_gemm(g, d));
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 1U);
  Words ops{"byte_matmul"};
  if (d.trans_a) ops.insert(ops.begin(), "transpose");
  EXPECT_EQ(summary(program), ops);
  // The scales are multiplied in another order; bytes differ by a step where that meets a tie.
  expect_same(g, d.bytes_again ? 1.0 : 2e-6);
}

TEST(DnnlBytes, GemmsOfAllForms) {
  for (const DataType weights : {DataType::kInt8, DataType::kUint8})
    for (const bool per_column : {false, true})
      for (const bool bytes_again : {false, true})
        for (const bool trans_b : {false, true}) {
          SCOPED_TRACE(std::format("{}, per column {}, bytes again {}, transposed {}",
                                   name_of(weights), per_column, bytes_again, trans_b));
          expect_gemm({.weights = weights,
                       .per_column = per_column,
                       .trans_a = trans_b && per_column,
                       .trans_b = trans_b,
                       .c = per_column ? std::optional<Dims>(Dims{33}) : std::nullopt,
                       .bytes_again = bytes_again,
                       .alpha = trans_b ? 0.5F : 1.0F});
        }
  for (const Dims& c : {Dims{}, Dims{1}, Dims{1, 33}, Dims{1, 1}}) expect_gemm({.c = c});
}

TEST(DnnlBytes, GemmsThatAreRefused) {
  const auto reason = [](const ByteGemm& d) {
    TestGraph g(17);
    add_gemm(g, d);
    return reason_of(g);
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_THAT(reason({.constant_scale = false}), HasSubstr("scale is not constant"));
  EXPECT_THAT(reason({.c = Dims{3, 33}}), HasSubstr("C has dims"));
  EXPECT_THAT(reason({.c = Dims{3, 1}}), HasSubstr("C has dims"));
  EXPECT_THAT(reason({.rows = 1, .k = 1 << 18, .n = 1}), HasSubstr("too few"));
  EXPECT_THAT(reason({.alpha = 3e38F * 10}), HasSubstr("scale is"));
}

// ---- QAttention ----

struct ByteAttention {
  std::int64_t batch = 2, rows = 5, depth = 24, heads = 2, size = 8;
  bool per_column = false, causal = false, constant_weights = true;
  std::optional<Dims> mask = {};
  std::int32_t hidden = 0;  // what the mask has where a key is hidden
  std::vector<Attribute> attributes = {};
  bool past = false;
};

std::string add_byte_attention(TestGraph& g, const ByteAttention& d) {
  const std::int64_t columns = 3 * 16;
  const Tensor weights = g.random_of(DataType::kInt8, {d.depth, columns});
  std::vector<std::string> inputs{
      g.tensor_input("x", g.random_of(DataType::kUint8, {d.batch, d.rows, d.depth})),
      d.constant_weights ? g.tensor_constant(weights) : g.tensor_input("w", weights),
      g.constant({columns}),
      g.tensor_input("s", Constants::scalar_of(0.013F)),
      d.per_column ? g.constant({columns}, 0.001F, 0.002F)
                   : g.tensor_constant(Constants::scalar_of(0.0017F)),
      "",
      g.tensor_input("z", one_of(DataType::kUint8, 121)),
      g.tensor_constant(d.per_column ? Tensor::allocate(DataType::kInt8, {columns}).value()
                                     : one_of(DataType::kInt8, 0))};
  if (d.mask) {
    Tensor mask = Tensor::allocate(DataType::kInt32, *d.mask).value();
    std::int32_t i = 0;
    for (std::int32_t& shown : mask.mutable_elements<std::int32_t>())
      shown = ++i % 3 == 0 ? d.hidden : i;
    inputs[5] = g.tensor_input("m", std::move(mask));
  }
  if (d.past) inputs.push_back(g.input("past", {2, d.batch, d.heads, 4, 16 / d.heads}));
  std::vector<Attribute> attributes = d.attributes;
  attributes.push_back(attr("num_heads", d.heads));
  attributes.push_back(attr("unidirectional", d.causal));
  return g.add_in("com.microsoft", "QAttention", inputs, attributes);
}

TEST(DnnlBytes, AttentionOfAllForms) {
  for (const bool per_column : {false, true})
    for (const bool causal : {false, true})
      for (const auto& mask : {std::optional<Dims>(), std::optional<Dims>(Dims{2, 5})}) {
        SCOPED_TRACE(
            std::format("per column {}, causal {}, mask {}", per_column, causal, mask.has_value()));
        TestGraph g(17);
        g.output(add_byte_attention(
            g, {.per_column = per_column, .causal = causal, .mask = mask, .hidden = -2}));
        Program program;
        EXPECT_EQ(compiled_results(g, &program).size(), 1U);
        Words ops{"byte_matmul", "attention"};
        if (mask) ops = {"byte_matmul", "point +clip", "unsqueeze", "attention"};
        EXPECT_EQ(summary(program), ops);
        expect_same(g, 1e-5);
      }
}

TEST(DnnlBytes, AttentionsThatAreRefused) {
  const auto reason = [](const ByteAttention& d) {
    TestGraph g(17);
    add_byte_attention(g, d);
    return reason_of(g);
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_THAT(reason({.constant_weights = false}), HasSubstr("not constant"));
  EXPECT_THAT(reason({.mask = Dims{2}}), HasSubstr("rank 1"));
  EXPECT_THAT(reason({.mask = Dims{2, 1}}), HasSubstr("one key"));
  EXPECT_THAT(reason({.past = true}), HasSubstr("past"));
  EXPECT_THAT(reason({.attributes = {attr("mask_filter_value", 1.0F)}}),
              HasSubstr("mask_filter_value"));
}

// ---- DynamicQuantizeLSTM ----

struct ByteLstm {
  std::string direction = "forward";
  DataType weights = DataType::kInt8;
  bool per_column = false, bias = true, states = false, constant_weights = true;
  std::int64_t steps = 5, batch = 3, inputs = 11, hidden = 13;
};

/// A matrix [D, K, 4 * hidden] with its scale and zero point behind `more`.
std::string add_matrix(TestGraph& g, const ByteLstm& d, std::int64_t k, const char* name,
                       Words& more) {
  const std::int64_t directions = d.direction == "bidirectional" ? 2 : 1, columns = 4 * d.hidden;
  const Tensor values = g.random_of(d.weights, {directions, k, columns});
  const Dims dims = d.per_column ? Dims{directions, columns} : Dims{directions};
  more.push_back(g.constant(dims, 0.0005F, 0.001F));
  Tensor zeros = Tensor::allocate(d.weights, dims).value();
  for (std::byte& zero : zeros.mutable_bytes())
    zero = static_cast<std::byte>(d.weights == DataType::kInt8 ? (d.per_column ? 3 : 0) : 131);
  more.push_back(g.tensor_constant(std::move(zeros)));
  return d.constant_weights ? g.tensor_constant(values) : g.tensor_input(name, values);
}

std::string add_byte_lstm(TestGraph& g, const ByteLstm& d) {
  const std::int64_t directions = d.direction == "bidirectional" ? 2 : 1;
  Words inputs{g.input("x", {d.steps, d.batch, d.inputs})}, more;
  inputs.push_back(add_matrix(g, d, d.inputs, "w", more));
  inputs.push_back(add_matrix(g, d, d.hidden, "r", more));
  inputs.push_back(d.bias ? g.constant({directions, 8 * d.hidden}) : "");
  inputs.push_back("");
  for (const char* name : {"h", "c"})
    inputs.push_back(d.states ? g.input(name, {directions, d.batch, d.hidden}) : "");
  inputs.push_back("");
  inputs.insert(inputs.end(), more.begin(), more.end());
  return g.add_in("com.microsoft", "DynamicQuantizeLSTM", inputs,
                  {attr("hidden_size", d.hidden), attr("direction", d.direction)}, 1,
                  3);  // ends in "_0"
}

void expect_byte_lstm(const ByteLstm& d) {
  TestGraph g(17);
  const std::string y = add_byte_lstm(g, d);
  const std::string stem = y.substr(0, y.size() - 1);
  for (std::size_t i = 0; i < 3; ++i) g.output(stem + std::to_string(i));
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 3U);
  EXPECT_THAT(summary(program), Contains("byte_lstm"));
  std::uint64_t stored = 0;
  for (const ProgramWeight& weight : program.weights)
    if (weight.type == DataType::kUint8) stored += static_cast<std::uint64_t>(weight.dims[1]);
  EXPECT_GT(stored, 0U);
  // Sums are exact and scaled alike. Functions differ by ulps, which rounding the state may make a step of 1 / 255
  // of its range, times weights of at most 131 * 0.001: a gate's sum moves by 1e-3 for each.
  expect_same(g, 2e-3);
}

TEST(DnnlBytes, LstmsOfAllForms) {
  for (const char* direction : {"forward", "reverse", "bidirectional"})
    for (const DataType weights : {DataType::kInt8, DataType::kUint8})
      for (const bool per_column : {false, true})
        for (const bool states : {false, true}) {
          SCOPED_TRACE(std::format("{}, {}, per column {}, states {}", direction, name_of(weights),
                                   per_column, states));
          expect_byte_lstm({.direction = direction,
                            .weights = weights,
                            .per_column = per_column,
                            .bias = !states,
                            .states = states});
        }
}

/// More steps than are multiplied at once, batches beyond that, and widths of whole and broken tiles.
TEST(DnnlBytes, LstmsOfAllSizes) {
  for (const std::int64_t steps : {1, 97, 130}) expect_byte_lstm({.steps = steps, .batch = 1});
  for (const std::int64_t batch : {1, 2, 65, 100}) expect_byte_lstm({.steps = 2, .batch = batch});
  for (const std::int64_t hidden : {4, 8, 33, 64})
    expect_byte_lstm({.inputs = 65, .hidden = hidden});
}

TEST(DnnlBytes, LstmsThatAreRefused) {
  const auto reason = [](const ByteLstm& d) {
    TestGraph g(17);
    add_byte_lstm(g, d);
    return reason_of(g);
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_THAT(reason({.constant_weights = false}), HasSubstr("not constant"));
  EXPECT_THAT(reason({.inputs = 1 << 18, .hidden = 1}), HasSubstr("too few"));
}

}  // namespace
}  // namespace ctxgen::testing
