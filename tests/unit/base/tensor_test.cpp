#include "ctxgen/base/tensor.h"

#include <cstring>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

TEST(Dims, ComparesByContent) {
  EXPECT_EQ((Dims{1, 2}), (Dims{1, 2}));
  EXPECT_FALSE((Dims{1, 2} == Dims{1, 2, 3}));
  EXPECT_FALSE((Dims{1, 2} == Dims{1, 3}));
  EXPECT_EQ(to_string(Dims{1, 3, 224}), "[1, 3, 224]");
  EXPECT_EQ(to_string(Dims{}), "[]");
}

TEST(ElementCount, IsCheckedAgainstOverflow) {
  EXPECT_EQ(checked_element_count(Dims{}), 1U);
  EXPECT_EQ(checked_element_count(Dims{2, 3, 4}), 24U);
  EXPECT_EQ(checked_element_count(Dims{2, 0, 4}), 0U);
  EXPECT_EQ(checked_element_count(Dims{2, -1}), std::nullopt);
  EXPECT_EQ(checked_element_count(Dims{0, -1}), std::nullopt);
  EXPECT_EQ(checked_element_count(Dims{INT64_MAX}), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(checked_element_count(Dims{INT64_MAX, 2}), std::nullopt);
  EXPECT_EQ(checked_element_count(Dims{std::int64_t{1} << 32, std::int64_t{1} << 32}),
            std::nullopt);
  // The product of the others passes 64 bits although one dim is zero.
  EXPECT_EQ(checked_element_count(Dims{0, INT64_MAX, INT64_MAX}), std::nullopt);
}

TEST(SizeBytes, RoundsSubByteTypesUpOverTheWholeTensor) {
  EXPECT_EQ(checked_size_bytes(DataType::kInt4, Dims{3}), 2U);
  EXPECT_EQ(checked_size_bytes(DataType::kInt4, Dims{3, 3}), 5U);
  EXPECT_EQ(checked_size_bytes(DataType::kUint2, Dims{5}), 2U);
  EXPECT_EQ(checked_size_bytes(DataType::kFloat, Dims{}), 4U);
  EXPECT_EQ(checked_size_bytes(DataType::kString, Dims{7}), 0U);
  EXPECT_EQ(checked_size_bytes(DataType::kDouble, Dims{INT64_MAX}), std::nullopt);
}

TEST(Tensor, AllocatesAlignedMemory) {
  for (std::int64_t count : {0, 1, 63, 1000}) {
    const Tensor tensor = Tensor::allocate(DataType::kFloat, Dims{count}).value();
    EXPECT_EQ(tensor.bytes().size(), static_cast<std::size_t>(count) * 4);
    EXPECT_NE(tensor.bytes().data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64, 0U);
  }
}

TEST(Tensor, RefusesSizesBeyondTheLimitBeforeAllocating) {
  constexpr std::int64_t kTooMany = std::int64_t{1} << 40;
  EXPECT_EQ(code_of(Tensor::allocate(DataType::kFloat, Dims{kTooMany})), ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(Tensor::allocate(DataType::kString, Dims{kTooMany})),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(Tensor::allocate(DataType::kUint8, Dims{INT64_MAX, INT64_MAX})),
            ErrorCode::kResourceLimit);
}

TEST(Tensor, SharesItsBytes) {
  Tensor tensor = Tensor::allocate(DataType::kInt32, Dims{2, 3}).value();
  for (std::size_t i = 0; i < 6; ++i)
    tensor.mutable_elements<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  const Tensor other = tensor.with_dims(Dims{6});
  tensor = Tensor();
  EXPECT_EQ(other.dims(), (Dims{6}));
  EXPECT_EQ(other.elements<std::int32_t>()[5], 5);
  EXPECT_FALSE(tensor.defined());
}

TEST(Tensor, AlignedCopiesOnlyWhatIsNotAligned) {
  Tensor base = Tensor::allocate(DataType::kUint8, Dims{128}).value();
  for (std::size_t i = 0; i < 128; ++i) base.mutable_bytes()[i] = static_cast<std::byte>(i);
  const auto bytes = base.bytes();
  const Tensor straight =
      Tensor::borrow(DataType::kUint8, Dims{64}, base.owner(), bytes.subspan(64));
  EXPECT_EQ(straight.aligned().value().bytes().data(), straight.bytes().data());
  const Tensor skewed =
      Tensor::borrow(DataType::kUint8, Dims{64}, base.owner(), bytes.subspan(3, 64));
  const Tensor copy = skewed.aligned().value();
  EXPECT_NE(copy.bytes().data(), skewed.bytes().data());
  EXPECT_EQ(std::memcmp(copy.bytes().data(), bytes.data() + 3, 64), 0);
}

TEST(Tensor, HoldsStrings) {
  Tensor tensor = Tensor::allocate(DataType::kString, Dims{2}).value();
  EXPECT_EQ(tensor.strings().size(), 2U);
  tensor.mutable_strings()[1] = "x";
  EXPECT_EQ(tensor.strings()[1], "x");
  EXPECT_EQ(Tensor::of_strings(Dims{1}, {"y"}).strings()[0], "y");
}

TEST(TensorDeathTest, RefusesBytesThatDoNotFitItsDims) {
  const std::vector<std::byte> bytes(7);
  EXPECT_DEATH(static_cast<void>(Tensor::borrow(DataType::kFloat, Dims{2}, nullptr, bytes)),
               "assertion failed");
}

}  // namespace
}  // namespace ctxgen
