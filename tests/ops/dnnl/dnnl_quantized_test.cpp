#include <gmock/gmock.h>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/exec.h"

#include "reference.h"

// Quantised operators, in QDQ and in QOperator form, against the CPU kernels (whose sums are double
// precision) and, where real numbers are seen before the last rounding, against those numbers.
namespace ctxgen::testing {
namespace {

Tensor scalar(float value) {
  Tensor tensor = *Tensor::allocate(DataType::kFloat, Dims{});
  tensor.mutable_elements<float>()[0] = value;
  return tensor;
}

Tensor zero_point(DataType type, int value) {
  Tensor tensor = *Tensor::allocate(type, Dims{});
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return tensor;
}

struct Quant {
  float scale;
  int zero;
  DataType type = DataType::kUint8;
};

/// A graph of quantised values with the constants that their conversions take.
struct QuantGraph {
  explicit QuantGraph(std::int64_t opset = 13) : g(opset) {}

  std::string input(const std::string& name, const Dims& dims, DataType type = DataType::kUint8) {
    return g.tensor_input(name, g.random_of(type, dims));
  }
  std::string scale(const Quant& q) { return g.tensor_constant(scalar(q.scale)); }
  std::string zero(const Quant& q) { return g.tensor_constant(zero_point(q.type, q.zero)); }
  std::string real(const std::string& x, const Quant& q) {
    return g.add("DequantizeLinear", {x, scale(q), zero(q)});
  }
  std::string bytes(const std::string& x, const Quant& q) {
    return g.add("QuantizeLinear", {x, scale(q), zero(q)});
  }
  /// Constant weights: random bytes, scales per slice of `axis` (or one), folded to real numbers.
  std::string weights(const Dims& dims, std::int64_t axis, DataType type = DataType::kInt8,
                      int zero = 0) {
    const std::int64_t count = axis < 0 ? 1 : dims[static_cast<std::size_t>(axis)];
    stored = g.tensor_constant(small_bytes(type, dims, zero));
    const Dims shape = axis < 0 ? Dims{} : Dims{count};
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < count; ++i)
      numbers.push_back(0.002F + 0.001F * static_cast<float>(i % 5));
    scales = g.constant(shape, numbers);
    Tensor zeros_tensor = *Tensor::allocate(type, shape);
    for (std::byte& b : zeros_tensor.mutable_bytes()) b = static_cast<std::byte>(zero);
    zeros = g.tensor_constant(zeros_tensor);
    return g.fold(g.add("DequantizeLinear", {stored, scales, zeros},
                        {attr("axis", std::max<std::int64_t>(axis, 0))}));
  }
  /// Bytes that lie in s8 less `zero`.
  Tensor small_bytes(DataType type, const Dims& dims, int zero) {
    Tensor tensor = g.random_of(DataType::kInt8, dims);
    Tensor out = *Tensor::allocate(type, dims);
    for (std::size_t i = 0; i < static_cast<std::size_t>(out.element_count()); ++i) {
      const int low = type == DataType::kUint8 ? 0 : -128;
      const int value = tensor.elements<std::int8_t>()[i] + zero;
      out.mutable_bytes()[i] = static_cast<std::byte>(std::clamp(value, low, low + 255));
    }
    return out;
  }

  TestGraph g;
  std::string stored, scales, zeros;  // of the last weights
};

/// Expects the first output to be a rounding of `real` (what the CPU kernels see before the last
/// conversion), moved over a tie by f32 arithmetic in few places: results below 256 quanta, rounded
/// up to eight times to 24 bits, are off by 256 * 8 * 2^-24 = 2^-13 quanta.
void expect_rounding_of(const TestGraph& g, const std::string& real, const Quant& q,
                        const std::vector<Tensor>& results) {
  ASSERT_FALSE(results.empty());
  const double low = q.type == DataType::kInt8 ? -128 : 0;
  std::size_t moved = 0;
  const auto count = static_cast<std::size_t>(results[0].element_count());
  const std::string& name = g.model.graph.value(g.model.graph.outputs[0]).name;
  for (std::size_t i = 0; i < count; ++i) {
    const double exact = std::clamp(number_at(g.value(real), i) / q.scale + q.zero, low, low + 255);
    const double got = number_at(results[0], i);
    ASSERT_LE(std::abs(got - exact), 0.5 + 1.0 / 8192) << name << " at " << i;
    moved += got != number_at(g.value(name), i);
  }
  EXPECT_LE(moved, count / 200) << "of " << count;
}

std::vector<std::string> kinds_of(const Program& program) {
  std::vector<std::string> kinds;
  for (const ProgramOp& op : program.ops) kinds.push_back(op.kind.str());
  return kinds;
}

/// The whole program is one integer product: `own`, because the source has a zero point or there is little to multiply; empty:
/// oneDNN's where the machine has such, else it computes real numbers.
void expect_integer_kind(const Program& program, const std::string& library,
                         const std::string& own) {
  if (own.empty() && !onednn::has_fast_int8()) return;
  EXPECT_EQ(kinds_of(program), std::vector<std::string>{own.empty() ? library : own});
}

constexpr Quant kIn{0.02F, 120};
constexpr Quant kOut{0.11F, 130};

struct ConvCase {
  const char* name;
  Dims src, weights;
  std::vector<Attribute> attributes;
  std::int64_t axis;
  DataType in, out, weight;
  int weight_zero;
};

TEST(DnnlQuantized, ConvolutionsBetweenConversions) {
  using enum DataType;
  const ConvCase cases[] = {
      {"per tensor",
       {1, 16, 9, 9},
       {8, 16, 3, 3},
       {attr("pads", List{1, 1, 1, 1})},
       -1,
       kUint8,
       kUint8,
       kInt8,
       0},
      {"per channel",
       {1, 16, 9, 9},
       {8, 16, 3, 3},
       {attr("pads", List{1, 1, 1, 1})},
       0,
       kUint8,
       kUint8,
       kInt8,
       0},
      {"signed",
       {2, 5, 8, 8},
       {7, 5, 1, 1},
       {attr("strides", List{2, 2})},
       0,
       kInt8,
       kInt8,
       kInt8,
       0},
      {"depthwise",
       {1, 24, 9, 9},
       {24, 1, 3, 3},
       {attr("group", 24), attr("pads", List{1, 1, 1, 1})},
       0,
       kUint8,
       kInt8,
       kInt8,
       0},
      {"groups", {1, 8, 9, 9}, {8, 4, 3, 3}, {attr("group", 2)}, 0, kInt8, kUint8, kInt8, 0},
      {"u8 weights", {1, 8, 9, 9}, {8, 8, 3, 3}, {}, -1, kUint8, kUint8, kUint8, 128},
      {"1-D", {1, 8, 40}, {12, 8, 5}, {attr("pads", List{2, 2})}, 0, kUint8, kUint8, kInt8, 0},
      {"weight zero point", {1, 8, 9, 9}, {8, 8, 3, 3}, {}, -1, kUint8, kUint8, kInt8, 9},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c.name);
    QuantGraph q;
    const Quant in{kIn.scale, c.in == kInt8 ? -8 : kIn.zero, c.in};
    const Quant out{kOut.scale, c.out == kInt8 ? 3 : kOut.zero, c.out};
    const std::string x = q.real(q.input("x", c.src, c.in), in);
    const std::string w = q.weights(c.weights, c.axis, c.weight, c.weight_zero);
    const std::string y = q.g.add("Conv", {x, w, q.g.constant(Dims{c.weights[0]})}, c.attributes);
    const std::string r = q.g.add("Relu", {y});
    q.g.output(q.bytes(r, out));
    Program program;
    const auto results = compiled_results(q.g, &program);
    expect_rounding_of(q.g, r, out, results);
    expect_integer_kind(program, "qconv",
                        c.weights[1] == c.src[1] || c.weights[1] == 1 ? "byte_conv" : "");
  }
}

TEST(DnnlQuantized, LargeConvolutionsOfBytesWithoutZeroPoint) {
  constexpr Quant kPlain{0.02F, 0};
  QuantGraph q;
  const std::string x = q.real(q.input("x", {1, 32, 48, 48}, DataType::kUint8), kPlain);
  const std::string w = q.weights({32, 32, 3, 3}, 0, DataType::kInt8, 0);
  const std::string y = q.g.add("Conv", {x, w, q.g.constant(Dims{32})});
  q.g.output(q.bytes(y, kOut));
  Program program;
  const auto results = compiled_results(q.g, &program);
  expect_rounding_of(q.g, y, kOut, results);
  expect_integer_kind(program, "qconv", onednn::has_fast_int8() ? "" : "byte_conv");
}

/// Where there is VNNI and no AMX, images of few pixels are ours.
TEST(DnnlQuantized, ConvolutionsOfFewPixels) {
  constexpr Quant kPlain{0.02F, 0};
  QuantGraph q;
  const std::string x = q.real(q.input("x", {1, 64, 14, 14}, DataType::kUint8), kPlain);
  const std::string w = q.weights({256, 64, 3, 3}, 0, DataType::kInt8, 0);
  const std::string y =
      q.g.add("Conv", {x, w, q.g.constant(Dims{256})}, {attr("pads", List{1, 1, 1, 1})});
  q.g.output(q.bytes(y, kOut));
  Program program;
  const auto results = compiled_results(q.g, &program);
  expect_rounding_of(q.g, y, kOut, results);
  const InstructionSet usable = usable_instruction_set();
  const bool ours = includes(usable, InstructionSet::kAvx512CoreVnni) &&
                    !includes(usable, InstructionSet::kAvx512CoreAmx);
  expect_integer_kind(program, "qconv", onednn::has_fast_int8() && !ours ? "" : "byte_conv");
}

/// What comes between the sums and the conversion, and is no bound, runs over real numbers.
TEST(DnnlQuantized, ConvolutionsWithOtherStepsBeforeTheConversion) {
  for (const char* step : {"Clip", "HardSwish", "Add"}) {
    SCOPED_TRACE(step);
    QuantGraph q(14);
    const std::string x = q.real(q.input("x", {1, 16, 9, 9}), kIn);
    const std::string w = q.weights({8, 16, 3, 3}, 0);
    const std::string y = q.g.add("Conv", {x, w, q.g.constant(Dims{8})});
    std::vector<std::string> inputs{y};
    if (step == std::string("Clip"))
      inputs.insert(inputs.end(),
                    {q.g.tensor_constant(scalar(0.0F)), q.g.tensor_constant(scalar(6.0F))});
    if (step == std::string("Add")) inputs.push_back(q.real(q.input("other", {1, 8, 7, 7}), kOut));
    const std::string r = q.g.add(step, inputs);
    q.g.output(q.bytes(r, kOut));
    Program program;
    const auto results = compiled_results(q.g, &program);
    expect_rounding_of(q.g, r, kOut, results);
    if (step == std::string("Clip")) expect_integer_kind(program, "qconv", "byte_conv");
    EXPECT_THAT(kinds_of(program), ::testing::Contains("byte_conv"));
  }
}

TEST(DnnlQuantized, WeightsBeyondInt8StayReal) {
  QuantGraph q;
  const std::string x = q.real(q.input("x", {1, 8, 9, 9}), kIn);
  const std::string stored = q.g.tensor_constant(q.g.random_of(DataType::kUint8, {8, 8, 3, 3}));
  const std::string w = q.g.fold(
      q.g.add("DequantizeLinear", {stored, q.g.tensor_constant(scalar(0.004F)),
                                   q.g.tensor_constant(zero_point(DataType::kUint8, 90))}));
  const std::string y = q.g.add("Conv", {x, w});
  q.g.output(q.bytes(y, kOut));
  Program program;
  const auto results = compiled_results(q.g, &program);
  expect_rounding_of(q.g, y, kOut, results);
  EXPECT_EQ(kinds_of(program), (std::vector<std::string>{"point", "conv", "point"}));
}

TEST(DnnlQuantized, MatrixProductsBetweenConversions) {
  for (const bool gemm : {false, true})
    for (const bool per_channel : {false, true})
      for (const std::int64_t rows : {1, 33}) {
        SCOPED_TRACE(std::format("gemm {} per channel {} rows {}", gemm, per_channel, rows));
        QuantGraph q;
        const std::string x = q.real(q.input("x", {rows, 70}), kIn);
        const Dims dims = gemm ? Dims{20, 70} : Dims{70, 20};
        const std::string w = q.weights(dims, per_channel ? (gemm ? 0 : 1) : -1);
        const std::string y =
            gemm ? q.g.add("Gemm", {x, w, q.g.constant(Dims{20})}, {attr("transB", 1)})
                 : q.g.add("MatMul", {x, w});
        q.g.output(q.bytes(y, kOut));
        Program program;
        const auto results = compiled_results(q.g, &program);
        expect_rounding_of(q.g, y, kOut, results);
        expect_integer_kind(program, "qmatmul", "byte_matmul");
      }
}

TEST(DnnlQuantized, ElementwiseBetweenConversionsIsOnePass) {
  struct Case {
    const char* op;
    bool binary;
    std::vector<Attribute> attributes;
  };
  const Case cases[] = {{"Add", true, {}},        {"Mul", true, {}},   {"Relu", false, {}},
                        {"Sigmoid", false, {}},   {"Tanh", false, {}}, {"HardSwish", false, {}},
                        {"LeakyRelu", false, {}}, {"Sub", true, {}},   {"Max", true, {}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    QuantGraph q(14);
    const std::string a = q.real(q.input("a", {1, 6, 9, 9}), kIn);
    std::vector<std::string> inputs = {a};
    if (c.binary)
      inputs.push_back(
          q.real(q.input("b", {1, 6, 9, 9}, DataType::kInt8), {0.013F, -9, DataType::kInt8}));
    const std::string y = q.g.add(c.op, inputs, c.attributes);
    q.g.output(q.bytes(y, {0.05F, 100}));
    Program program;
    const auto results = compiled_results(q.g, &program);
    expect_rounding_of(q.g, y, {0.05F, 100}, results);
    EXPECT_EQ(kinds_of(program), std::vector<std::string>{"point"});
  }
}

TEST(DnnlQuantized, ClipBetweenConversions) {
  QuantGraph q(13);
  const std::string x = q.real(q.input("x", {1, 6, 9, 9}), kIn);
  const std::string y =
      q.g.add("Clip", {x, q.g.tensor_constant(scalar(0.0F)), q.g.tensor_constant(scalar(1.5F))});
  q.g.output(q.bytes(y, {0.0078125F, 0}));
  const auto results = compiled_results(q.g);
  expect_rounding_of(q.g, y, {0.0078125F, 0}, results);
}

TEST(DnnlQuantized, MoversAndMaximaWorkOnBytes) {
  QuantGraph q;
  const std::string x = q.input("x", {1, 8, 12, 12});
  std::string y = q.g.add("MaxPool", {q.real(x, kIn)},
                          {attr("kernel_shape", List{2, 2}), attr("strides", List{2, 2})});
  y = q.bytes(y, kIn);
  y = q.bytes(q.g.add("Transpose", {q.real(y, kIn)}, {attr("perm", List{0, 2, 3, 1})}), kIn);
  y = q.bytes(q.g.add("Reshape", {q.real(y, kIn), q.g.ints({1, 36, 8})}), kIn);
  q.g.output(y);
  Program program;
  const auto results = compiled_results(q.g, &program);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(difference(results[0], q.g.value(y)), 0.0);
  EXPECT_EQ(kinds_of(program), (std::vector<std::string>{"pool", "transpose", "reshape"}));
}

TEST(DnnlQuantized, ConcatenationOfDifferentScales) {
  QuantGraph q;
  const std::string a = q.real(q.input("a", {1, 3, 5, 5}), kIn);
  const std::string b = q.real(q.input("b", {1, 4, 5, 5}), {0.03F, 7});
  const std::string y = q.g.add("Concat", {a, b}, {attr("axis", 1)});
  q.g.output(q.bytes(y, kIn));
  Program program;
  const auto results = compiled_results(q.g, &program);
  expect_rounding_of(q.g, y, kIn, results);
  EXPECT_EQ(kinds_of(program), (std::vector<std::string>{"point", "concat"}));
}

TEST(DnnlQuantized, PoolsAndSoftmaxBetweenConversions) {
  struct Case {
    const char* op;
    std::vector<Attribute> attributes;
  };
  const Case cases[] = {
      {"AveragePool", {attr("kernel_shape", List{3, 3}), attr("pads", List{1, 1, 1, 1})}},
      {"GlobalAveragePool", {}},
      {"Softmax", {attr("axis", -1)}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    QuantGraph q;
    const std::string y = q.g.add(c.op, {q.real(q.input("x", {1, 6, 9, 9}), kIn)}, c.attributes);
    const Quant out{1.0F / 128, 128};
    q.g.output(q.bytes(y, out));
    expect_rounding_of(q.g, y, out, compiled_results(q.g));
  }
}

/// Expects bytes that differ from the CPU kernels' by one at most, and rarely.
void expect_same_bytes(const TestGraph& g, Program* program = nullptr) {
  const auto results = compiled_results(g, program);
  ASSERT_EQ(results.size(), g.model.graph.outputs.size());
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Tensor& expected = g.value(g.model.graph.value(g.model.graph.outputs[k]).name);
    ASSERT_EQ(results[k].type(), expected.type());
    ASSERT_EQ(results[k].dims(), expected.dims());
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(expected.element_count()); ++i) {
      const double off = std::abs(number_at(results[k], i) - number_at(expected, i));
      ASSERT_LE(off, 1.0) << i;
      moved += off != 0.0;
    }
    EXPECT_LE(moved, std::max<std::int64_t>(1, expected.element_count() / 200));
  }
}

TEST(DnnlQuantized, QLinearConv) {
  for (const bool bias : {false, true})
    for (const bool per_channel : {false, true}) {
      SCOPED_TRACE(std::format("bias {} per channel {}", bias, per_channel));
      QuantGraph q;
      const std::string x = q.input("x", {1, 8, 9, 9});
      q.weights({6, 8, 3, 3}, per_channel ? 0 : -1);
      std::vector<std::string> inputs = {x,        q.scale(kIn), q.zero(kIn),   q.stored,
                                         q.scales, q.zeros,      q.scale(kOut), q.zero(kOut)};
      if (bias) {
        Tensor counts = *Tensor::allocate(DataType::kInt32, Dims{6});
        for (std::int32_t i = 0; i < 6; ++i)
          counts.mutable_elements<std::int32_t>()[static_cast<std::size_t>(i)] = 500 * i - 900;
        inputs.push_back(q.g.tensor_constant(counts));
      }
      q.g.output(q.g.add("QLinearConv", inputs, {attr("pads", List{1, 1, 1, 1})}));
      Program program;
      expect_same_bytes(q.g, &program);
      expect_integer_kind(program, "qconv", "byte_conv");
    }
}

TEST(DnnlQuantized, QLinearMatMul) {
  QuantGraph q;
  const std::string x = q.input("x", {2, 5, 40});
  q.weights({40, 12}, 1);
  q.g.output(q.g.add("QLinearMatMul", {x, q.scale(kIn), q.zero(kIn), q.stored, q.scales, q.zeros,
                                       q.scale(kOut), q.zero(kOut)}));
  expect_same_bytes(q.g);
}

TEST(DnnlQuantized, IntegerSums) {
  if (!onednn::has_fast_int8()) GTEST_SKIP() << "this machine has no VNNI";
  {
    QuantGraph q(10);
    const std::string x = q.input("x", {1, 8, 9, 9});
    const std::string w = q.g.tensor_constant(q.small_bytes(DataType::kUint8, {6, 8, 3, 3}, 128));
    q.g.output(q.g.add("ConvInteger",
                       {x, w, q.g.tensor_constant(zero_point(DataType::kUint8, 111)),
                        q.g.tensor_constant(zero_point(DataType::kUint8, 128))},
                       {attr("pads", List{1, 1, 1, 1})}));
    expect_same(q.g, 0.0);
  }
  {
    QuantGraph q(10);
    const std::string x = q.input("x", {7, 300}, DataType::kInt8);
    const std::string w = q.g.tensor_constant(q.g.random_of(DataType::kInt8, {300, 9}));
    q.g.output(
        q.g.add("MatMulInteger", {x, w, q.g.tensor_constant(zero_point(DataType::kInt8, -4))}));
    expect_same(q.g, 0.0);
  }
}

TEST(DnnlQuantized, IntegerSumsMadeRealAreOneProduct) {
  if (!onednn::has_fast_int8()) GTEST_SKIP() << "this machine has no VNNI";
  QuantGraph q(10);
  const std::string x = q.input("x", {7, 300});
  const std::string w = q.g.tensor_constant(q.g.random_of(DataType::kInt8, {300, 9}));
  std::string y =
      q.g.add("MatMulInteger", {x, w, q.g.tensor_constant(zero_point(DataType::kUint8, 100))});
  y = q.g.add("Cast", {y}, {attr("to", 1)});
  y = q.g.add("Mul", {y, q.g.tensor_constant(scalar(0.0001F))});
  y = q.g.add("Add", {y, q.g.constant(Dims{9})});
  q.g.output(y);
  Program program;
  const auto results = compiled_results(q.g, &program);
  ASSERT_EQ(results.size(), 1U);
  // Sums below 2^23, scaled and shifted: three roundings.
  EXPECT_LE(difference(results[0], q.g.value(y)), 4e-7);
  EXPECT_EQ(kinds_of(program), std::vector<std::string>{"qmatmul"});
}

TEST(DnnlQuantized, MicrosoftOperators) {
  const std::string ms = "com.microsoft";
  {
    for (const char* op : {"QLinearAdd", "QLinearMul"}) {
      QuantGraph q;
      const std::string a = q.input("a", {1, 6, 9, 9}), b = q.input("b", {1, 6, 9, 9});
      q.g.output(q.g.add_in(ms, op,
                            {a, q.scale(kIn), q.zero(kIn), b, q.scale(kOut), q.zero(kOut),
                             q.scale(kOut), q.zero(kOut)}));
      expect_same_bytes(q.g);
    }
  }
  {
    QuantGraph q;  // a constant second operand
    const std::string a = q.input("a", {1, 6, 9, 9});
    const std::string b = q.g.tensor_constant(q.g.random_of(DataType::kUint8, {6, 1, 1}));
    q.g.output(q.g.add_in(ms, "QLinearAdd",
                          {a, q.scale(kIn), q.zero(kIn), b, q.scale(kOut), q.zero(kOut),
                           q.scale(kOut), q.zero(kOut)}));
    expect_same_bytes(q.g);
  }
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax",
                         "QLinearGlobalAveragePool", "QLinearAveragePool"}) {
    SCOPED_TRACE(op);
    QuantGraph q;
    const Quant out{1.0F / 128, 100};
    std::vector<Attribute> attributes;
    if (op == std::string("QLinearAveragePool"))
      attributes = {attr("kernel_shape", List{2, 2}), attr("strides", List{2, 2})};
    if (op == std::string("QLinearSoftmax")) attributes = {attr("axis", -1)};
    q.g.output(q.g.add_in(
        ms, op, {q.input("x", {1, 6, 8, 8}), q.scale(kIn), q.zero(kIn), q.scale(out), q.zero(out)},
        attributes));
    expect_same_bytes(q.g);
  }
}

}  // namespace
}  // namespace ctxgen::testing
