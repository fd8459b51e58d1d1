#include "ctxgen/base/data_type.h"

#include <set>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

TEST(DataTypes, NamesAreUniqueAndFindTheirType) {
  std::set<std::string_view> names;
  for (std::int32_t number = 1; number <= 26; ++number) {
    const auto type = static_cast<DataType>(number);
    EXPECT_TRUE(is_known_data_type(number));
    EXPECT_TRUE(names.insert(name_of(type)).second) << name_of(type);
    EXPECT_EQ(data_type_from_name(name_of(type)), type);
  }
  EXPECT_EQ(data_type_from_name("float33"), std::nullopt);
  EXPECT_EQ(data_type_from_name("undefined"), std::nullopt);
}

TEST(DataTypes, NumbersOutsideOnnxAreNotKnown) {
  for (std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{27},
                              std::int64_t{1} << 32, INT64_MIN, INT64_MAX})
    EXPECT_FALSE(is_known_data_type(number)) << number;
}

TEST(DataTypes, WidthsAreThoseOfRawData) {
  EXPECT_EQ(bits_of(DataType::kFloat), 32U);
  EXPECT_EQ(bits_of(DataType::kComplex128), 128U);
  EXPECT_EQ(bits_of(DataType::kBool), 8U);
  EXPECT_EQ(bits_of(DataType::kBfloat16), 16U);
  EXPECT_EQ(bits_of(DataType::kInt4), 4U);
  EXPECT_EQ(bits_of(DataType::kUint2), 2U);
  EXPECT_EQ(bits_of(DataType::kFloat8E8M0), 8U);
  EXPECT_EQ(bits_of(DataType::kString), 0U);
  EXPECT_EQ(bits_of(DataType::kUndefined), 0U);
  EXPECT_EQ(bits_of(static_cast<DataType>(-1)), 0U);
  EXPECT_EQ(bits_of(static_cast<DataType>(1000)), 0U);
}

TEST(DataTypes, CppElementsHaveTheirWidth) {
  EXPECT_EQ(bits_of(kDataTypeOf<float>), 8 * sizeof(float));
  EXPECT_EQ(bits_of(kDataTypeOf<double>), 8 * sizeof(double));
  EXPECT_EQ(bits_of(kDataTypeOf<std::int64_t>), 64U);
  EXPECT_EQ(bits_of(kDataTypeOf<std::uint16_t>), 16U);
  EXPECT_EQ(bits_of(kDataTypeOf<bool>), 8 * sizeof(bool));
}

}  // namespace
}  // namespace ctxgen
