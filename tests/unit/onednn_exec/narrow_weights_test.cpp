#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/half.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "golden.h"
#include "program_maker.h"
#include "reference.h"
#include "sample_context.h"

// Products and convolutions of f32 values by weights that are stored as bf16 or f16.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

std::uint16_t narrow(float x, DataType type) {
  return type == DataType::kBfloat16 ? float_to_bfloat16(x) : float_to_float16(x);
}
float widen(std::uint16_t bits, DataType type) {
  return type == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

/// Rounds a weight; returns it in its narrow type.
Tensor round_weight(Tensor& weight, DataType type) {
  Tensor stored = Tensor::allocate(type, weight.dims()).value();
  Tensor rounded = Tensor::allocate(DataType::kFloat, weight.dims()).value();
  for (std::int64_t i = 0; i < weight.element_count(); ++i) {
    float x = 0;
    std::memcpy(&x, weight.bytes().data() + 4 * i, 4);
    const std::uint16_t bits = narrow(x, type);
    x = widen(bits, type);
    std::memcpy(stored.mutable_bytes().data() + 2 * i, &bits, 2);
    std::memcpy(rounded.mutable_bytes().data() + 4 * i, &x, 4);
  }
  weight = std::move(rounded);
  return stored;
}

/// Runs the program with the second inputs of all its ops stored narrow and compares with double precision
/// on the same numbers. f32 sums of at most 1,100 products of numbers below 1 walk 2e-5; with sources
/// of bf16 even those of 7 would be 1e-3 off.
void expect_f32_results(Maker maker, DataType type) {
  std::vector<std::pair<std::uint32_t, Tensor>> stored;
  for (const ProgramOp& op : maker.program().ops) {
    if (op.kind == kind::kSlice) continue;
    const std::uint32_t index = op.inputs[1].index;
    stored.emplace_back(index, round_weight(maker.weights()[index], type));
  }
  const auto expected = reference(maker);
  for (auto& [index, tensor] : stored) {
    maker.weights()[index] = std::move(tensor);
    maker.program().weights[index].type = type;
  }
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto loaded =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
  std::vector<OpTiming> timings;
  const auto outputs = run(*loaded, maker.inputs(), &timings);
  ASSERT_TRUE(outputs) << outputs.error().message;
  for (std::size_t k = 0; k < expected.size(); ++k)
    for (std::size_t i = 0; i < expected[k].size(); ++i)
      ASSERT_LE(std::fabs((*outputs)[k][i] - expected[k][i]),
                1e-4 * (1 + std::fabs(expected[k][i])))
          << "output " << k << " element " << i;
  if (simd_level() < SimdLevel::kAvx2) return;
  EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U);
  for (const OpTiming& timing : timings)
    EXPECT_EQ(timing.implementation.find("ref"), std::string::npos) << timing.implementation;
}

class NarrowWeights : public ::testing::TestWithParam<DataType> {};

TEST_P(NarrowWeights, OfMatrices) {
  for (const std::int64_t rows : {1, 5, 16})
    for (const Dims& matrix :
         {Dims{16, 8}, Dims{300, 66}, Dims{600, 32}, Dims{1100, 17}, Dims{33, 48}, Dims{7, 5}})
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + to_string(matrix));
        Maker maker(1);
        const Operand x = maker.input(Dims{rows, matrix[0]});
        const Operand w = maker.weight(transposed ? Dims{matrix[1], matrix[0]} : matrix);
        const Operand bias = maker.weight(Dims{matrix[1]});
        const Operand sum = maker.input(Dims{rows, matrix[1]});
        const std::vector<Param> params{integer("trans_b", transposed ? 1 : 0)};
        maker.output(maker.op(kind::kMatmul, {x, w, bias}, params, {unary("relu")}));
        maker.output(maker.op(kind::kMatmul, {x, w}, params, {binary("add", sum), unary("tanh")}));
        expect_f32_results(std::move(maker), GetParam());
      }
}

TEST_P(NarrowWeights, OfBatchesOfRows) {
  Maker maker(2);
  const Operand x = maker.input(Dims{2, 3, 40});
  maker.output(maker.op(kind::kMatmul, {x, maker.weight(Dims{40, 72})}));
  const Operand cut = maker.op(kind::kSlice, {maker.input(Dims{9, 50})},
                               {ints("starts", {5}), ints("ends", {45}), ints("axes", {1})});
  maker.output(maker.op(kind::kMatmul, {cut, maker.weight(Dims{40, 72})}));
  expect_f32_results(std::move(maker), GetParam());
}

struct NarrowConv {
  Dims src, weights;
  std::vector<std::int64_t> strides, pads;
  std::int64_t group = 1;
};

TEST_P(NarrowWeights, OfConvolutions) {
  const std::vector<NarrowConv> cases{
      {{2, 16, 9, 11}, {24, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{1, 3, 33, 21}, {24, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}},
      {{1, 3, 17, 21}, {32, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{2, 40, 7, 5}, {64, 40, 1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{3, 48, 8, 8}, {100, 48, 1, 1}, {2, 2}, {0, 0, 0, 0}},
      {{2, 24, 50}, {40, 24, 7}, {2}, {3, 3}},
      {{2, 48, 9, 7}, {72, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, 3},
  };
  for (const NarrowConv& c : cases) {
    SCOPED_TRACE(to_string(c.src) + " " + to_string(c.weights));
    Maker maker(1);
    const Operand x = maker.input(c.src);
    maker.output(
        maker.op(kind::kConv, {x, maker.weight(c.weights), maker.weight(Dims{c.weights[0]})},
                 {ints("strides", c.strides), ints("pads", c.pads), integer("group", c.group)},
                 {unary("clip", -0.5F, 3)}));
    expect_f32_results(std::move(maker), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowWeights,
                         ::testing::Values(DataType::kBfloat16, DataType::kFloat16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

constexpr std::string_view kGoldenNarrow = "v1_narrow_avx2.ctx";

/// A convolution with bf16 weights and a product with f16 ones, and the same with the rounded numbers in f32.
struct NarrowNetwork {
  Maker rounded{78}, narrow{78};
  NarrowNetwork() {
    for (Maker* maker : {&rounded, &narrow}) {
      const Operand x = maker->input(Dims{1, 8, 9, 9});
      const Operand filter = maker->weight(Dims{16, 8, 3, 3});
      maker->output(
          maker->op(kind::kConv, {x, filter}, {ints("pads", {1, 1, 1, 1})}, {unary("relu")}));
      const Operand rows = maker->input(Dims{5, 32});
      const Operand matrix = maker->weight(Dims{32, 40});
      maker->output(maker->op(kind::kMatmul, {rows, matrix}));
      for (const auto& [weight, type] :
           {std::pair(filter, DataType::kBfloat16), std::pair(matrix, DataType::kFloat16)}) {
        Tensor stored = round_weight(maker->weights()[weight.index], type);
        if (maker == &rounded) continue;
        maker->weights()[weight.index] = std::move(stored);
        maker->program().weights[weight.index].type = type;
      }
    }
  }
};

void write_narrow_golden() {
  NarrowNetwork network;
  const Packed packed = pack(network.narrow, {network.narrow.input_dims()}).value();
  ContextContent content{.source = std::string(kSource),
                         .fingerprint = "format=1;onednn=3.12.1;isa=avx2",
                         .programs = {packed.program},
                         .blobs = {},
                         .blob_hashes = {},
                         .producer = "ctxgen 0.1.0"};
  for (std::uint32_t i = 0; i < packed.store->size(); ++i) {
    content.blobs.push_back(packed.store->blob(StoreId{i}));
    content.blob_hashes.push_back(packed.store->hash(StoreId{i}));
  }
  auto out = AtomicFile::create(ctxgen::test::golden_path(kGoldenNarrow)).value();
  ASSERT_TRUE(out.write(ctxgen::test::file_of(content)));
  ASSERT_TRUE(out.commit());
}

// Run with CTXGEN_WRITE_GOLDEN=1 and ONEDNN_MAX_CPU_ISA=AVX2 to write the file anew.
TEST(NarrowWeightTypes, AFileOfThemIsTakenAsItIsStored) {
  if (std::getenv("CTXGEN_WRITE_GOLDEN") != nullptr && isa_name() == "avx2") write_narrow_golden();
  if (!includes(usable_instruction_set(), InstructionSet::kAvx2))
    GTEST_SKIP() << "the file is for AVX2";
  const Blob file = map_file(ctxgen::test::golden_path(kGoldenNarrow)).value();
  const auto reader = ContextReader::open(file, "golden", VerifyBlobs::kAlways).value();
  const auto program = std::make_shared<const Program>(reader.programs().front());
  const std::vector<OpPrecision> precisions = loader().precisions(*program);
  ASSERT_EQ(precisions.size(), 2U);
  EXPECT_EQ(precisions[0].precision, "weights=bf16");
  EXPECT_EQ(precisions[1].precision, "weights=f16");
  EXPECT_EQ(precisions[1].elements, 32U * 40);
  NarrowNetwork network;
  const auto expected = reference(network.rounded);
  const BlobSource blobs = [&](BlobIndex index) { return reader.blob(index); };
  const auto loaded = loader().load(program, blobs, LoadOptions{1}, nullptr).value();
  const Outputs outputs = run(*loaded, network.rounded.inputs()).value();
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (std::size_t j = 0; j < expected[i].size(); ++j)
      ASSERT_NEAR(outputs[i][j], expected[i][j], 1e-4 * (1 + std::fabs(expected[i][j])));
}

TEST(NarrowWeightTypes, OtherProductsAreRefused) {
  const auto code = [](const Dims& source, const Dims& weights, std::string_view kind,
                       std::vector<Param> params) {
    Maker maker(1);
    const Operand w = maker.weight(weights);
    maker.output(maker.op(kind, {maker.input(source), w}, std::move(params)));
    maker.weights()[w.index] = round_weight(maker.weights()[w.index], DataType::kBfloat16);
    maker.program().weights[w.index].type = DataType::kBfloat16;
    return code_of(compile_and_run(maker));
  };
  const ErrorCode refused = ErrorCode::kUnsupported;
  EXPECT_EQ(code({40, 9}, {40, 72}, kind::kMatmul, {integer("trans_a", 1)}), refused);
  EXPECT_EQ(code({2, 9, 40}, {2, 40, 72}, kind::kMatmul, {}), refused);
  EXPECT_EQ(code({1, 16, 5, 5, 5}, {24, 16, 3, 3, 3}, kind::kConv, {}), refused);
  EXPECT_EQ(code({1, 16, 5, 5}, {16, 1, 3, 3}, kind::kConv, {integer("group", 16)}), refused);
}

TEST(NarrowWeightTypes, OtherOperandsAreRefused) {
  Maker bias(1);
  const Operand x = bias.input(Dims{2, 20});
  const Operand w = bias.weight(Dims{20, 30}), b = bias.weight(Dims{30});
  bias.output(bias.op(kind::kMatmul, {x, w, b}));
  bias.weights()[b.index] = round_weight(bias.weights()[b.index], DataType::kBfloat16);
  bias.program().weights[b.index].type = DataType::kBfloat16;
  EXPECT_EQ(code_of(compile_and_run(bias)), ErrorCode::kUnsupported);
  Maker eltwise(1);
  const Operand table = eltwise.weight(Dims{20});
  eltwise.output(eltwise.op(kind::kBinary, {eltwise.input(Dims{20}), table}, {text("alg", "add")}));
  eltwise.weights()[table.index] =
      round_weight(eltwise.weights()[table.index], DataType::kBfloat16);
  eltwise.program().weights[table.index].type = DataType::kBfloat16;
  EXPECT_EQ(code_of(compile_and_run(eltwise)), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ctxgen::onednn::test
