#include "layout/product_packing.h"

#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "layout/weight_layout.h"
#include "program_maker.h"
#include "reference.h"

// One file serves every number of rows and threads: the stored form of a product's weight depends on
// the weight and the instruction set.
namespace ctxgen::onednn::test {
namespace {

using Tag = dnnl::memory::format_tag;

TEST(ProductPacking, IsChosenByInstructionSet) {
  const auto packing = [](InstructionSet usable) { return product_packing(768, 3072, {}, usable); };
  EXPECT_EQ(packing(InstructionSet::kAvx2), Tag::BA16a32b);
  EXPECT_EQ(packing(InstructionSet::kAvx2Vnni2), Tag::BA16a32b);
  EXPECT_EQ(packing(InstructionSet::kAvx512Core), Tag::BA16a64b);
  EXPECT_EQ(packing(InstructionSet::kAvx512CoreAmx), Tag::BA16a64b);
  const auto narrow = [](std::int64_t n, InstructionSet usable) {
    return product_packing(768, n, {}, usable);
  };
  EXPECT_EQ(narrow(4, InstructionSet::kAvx2), std::nullopt);
  EXPECT_EQ(narrow(10, InstructionSet::kAvx512Core), Tag::BA16a16b);
  EXPECT_EQ(narrow(24, InstructionSet::kAvx512Core), Tag::BA16a32b);
  EXPECT_EQ(narrow(40, InstructionSet::kAvx512Core), Tag::BA16a48b);
  EXPECT_EQ(narrow(40, InstructionSet::kAvx2), Tag::BA16a32b);
  EXPECT_EQ(narrow(96, InstructionSet::kAvx512Core), Tag::BA16a48b);   // 64 would store 128 columns
  EXPECT_EQ(narrow(160, InstructionSet::kAvx512Core), Tag::BA16a32b);  // and 192 for these
  EXPECT_EQ(narrow(1000, InstructionSet::kAvx512Core), Tag::BA16a48b);
  EXPECT_EQ(product_packing(8, 3072, {}, InstructionSet::kAvx2), std::nullopt);
  EXPECT_EQ(product_packing(768, 3072, {DataType::kInt32}, InstructionSet::kAvx2), std::nullopt);
}

/// [rows, 96] times a constant [96, 200], or its transpose.
Maker product(std::int64_t rows, bool transposed) {
  Maker maker(5);
  const Operand x = maker.input(Dims{rows, 96});
  const Operand w = maker.weight(transposed ? Dims{200, 96} : Dims{96, 200});
  std::vector<Param> params;
  if (transposed) params.push_back(integer("trans_b", 1));
  maker.output(maker.op(kind::kMatmul, {x, w}, std::move(params)));
  return maker;
}

TEST(ProductPacking, IsTheSameForEveryNumberOfRowsAndThreads) {
  for (const bool transposed : {false, true}) {
    std::vector<PackedWeight> first;
    for (const std::int64_t rows : {1, 2, 31, 500}) {
      Maker maker = product(rows, transposed);
      const Packed packed = pack(maker, {maker.input_dims()}).value();
      const std::vector<PackedWeight>& forms = packed.program.weights[0].packed;
      ASSERT_EQ(forms.size(), 1U);
      if (first.empty()) first = forms;
      EXPECT_EQ(forms[0].layout, first[0].layout) << rows << " rows";
      for (const int threads : {1, 2, 7, 64}) {
        LoadStatistics statistics;
        ASSERT_TRUE(
            loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, &statistics));
        EXPECT_EQ(statistics.repacked_weights, 0U) << threads << " threads";
      }
    }
  }
}

/// A stem of 32 channels and a pointwise convolution to 96.
Maker pointwise(std::int64_t images, std::int64_t size) {
  Maker maker(6);
  const Operand x = maker.input(Dims{images, 32, size, size});
  const Operand w = maker.weight(Dims{96, 32, 1, 1}), bias = maker.weight(Dims{96});
  maker.output(maker.op(kind::kConv, {x, w, bias}));
  return maker;
}

TEST(ProductPacking, ServesPointwiseConvolutionsOfEverySizeAndNumberOfThreads) {
  std::vector<std::byte> first;
  for (const std::int64_t size : {1, 7, 30})
    for (const int threads : {1, 3}) {
      Maker maker = pointwise(2, size);
      const Packed packed = pack(maker, {maker.input_dims()}).value();
      const std::vector<PackedWeight>& forms = packed.program.weights[0].packed;
      ASSERT_EQ(forms.size(), 1U);
      if (first.empty()) first = forms[0].layout;
      EXPECT_EQ(forms[0].layout, first) << size << " pixels";
      const auto loaded =
          loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, nullptr).value();
      ASSERT_TRUE(run(*loaded, pointwise(1, size + 5).inputs()));  // a size that was not planned
      EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U);
    }
}

TEST(ProductPacking, OfAPointwiseConvolutionTakesItsPostOps) {
  Maker maker(7);
  const Operand x = maker.input(Dims{2, 32, 9, 5});
  const Operand wide = maker.op(kind::kConv, {x, maker.weight(Dims{96, 32, 1, 1})}, {},
                                {unary("relu"), binary("mul", maker.weight(Dims{96, 1, 1}))});
  const Operand again = maker.op(kind::kConv, {wide, maker.weight(Dims{96, 96, 1, 1})}, {},
                                 {unary("gelu_erf"), binary("add", wide), unary("relu")});
  maker.output(maker.op(kind::kConv, {again, maker.weight(Dims{64, 96, 1, 1})}, {},
                        {binary("add", maker.weight(Dims{1})), unary("swish", 1)}));
  expect_matches_reference(maker);
}

/// Files that other releases wrote, or this one for other machines, are read as they are.
TEST(ProductPacking, OfAnyFileServesEveryNumberOfRows) {
  for (const Tag tag : product_packings().first(4)) {  // f32's
    Maker maker = product(3, false);
    Packed packed = pack(maker, {maker.input_dims()}).value();
    const dnnl::memory::desc md({96, 200}, dnnl::memory::data_type::f32, tag);
    WeightStore& store = *packed.store;
    const Tensor zeros =
        Tensor::allocate(DataType::kUint8, Dims{static_cast<std::int64_t>(md.get_size())}).value();
    const Blob blob{zeros.owner(), zeros.bytes()};
    packed.program.weights[0].packed = {
        {encode_layout(md, false).value(), BlobIndex{store.add(blob).value().value}}};
    packed.program.plans.clear();
    LoadStatistics statistics;
    const auto loaded = loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, &statistics);
    ASSERT_TRUE(loaded) << loaded.error().message;
    for (const std::int64_t rows : {1, 3, 64}) {
      Maker other = product(rows, false);
      ASSERT_TRUE(run(**loaded, other.inputs()));
    }
    EXPECT_EQ((*loaded)->plan_statistics().repacked_weights, 0U) << static_cast<int>(tag);
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
