#include "ctxgen/weights/external_data.h"

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using test::code_of;

TEST(ParseDecimal, TakesDigitsOnly) {
  EXPECT_EQ(parse_decimal_u64("0", "x").value(), 0U);
  EXPECT_EQ(parse_decimal_u64("4096", "x").value(), 4096U);
  EXPECT_EQ(parse_decimal_u64("18446744073709551615", "x").value(), ~std::uint64_t{0});
  for (std::string_view text :
       {std::string_view(""), std::string_view("-1"), std::string_view("+1"),
        std::string_view(" 1"), std::string_view("1 "), std::string_view("0x10"),
        std::string_view("1e3"), std::string_view("1.0"), std::string_view("1\0", 2),
        std::string_view("18446744073709551616"), std::string_view("99999999999999999999999")})
    EXPECT_EQ(code_of(parse_decimal_u64(text, "x")), ErrorCode::kInvalidGraph) << text;
}

using Entries = std::vector<std::pair<std::string_view, std::string_view>>;

TEST(ParseExternalData, ReadsTheKeysOfOnnx) {
  const auto ref = parse_external_data(Entries{{"length", "12"},
                                               {"location", "w.bin"},
                                               {"offset", "64"},
                                               {"checksum", "abc"},
                                               {"whatever", "x"}},
                                       "w")
                       .value();
  EXPECT_EQ(ref.location, "w.bin");
  EXPECT_EQ(ref.offset, 64U);
  EXPECT_EQ(ref.length, 12U);
  const auto bare = parse_external_data(Entries{{"location", "w.bin"}}, "w").value();
  EXPECT_EQ(bare.offset, 0U);
  EXPECT_EQ(bare.length, std::nullopt);
}

TEST(ParseExternalData, RefusesWhatCannotBeMeant) {
  for (const Entries& entries :
       {Entries{}, Entries{{"offset", "0"}}, Entries{{"location", "a"}, {"location", "b"}},
        Entries{{"location", "a"}, {"offset", "-64"}}, Entries{{"location", "a"}, {"length", ""}},
        Entries{{"location", "a"}, {"offset", "0"}, {"offset", "0"}}})
    EXPECT_EQ(code_of(parse_external_data(entries, "w")), ErrorCode::kInvalidGraph);
}

class Resolver : public testing::Test {
 protected:
  Resolver() {
    temp_.write("model/w.bin", "0123456789");
    temp_.write("model/sub/v.bin", "abc");
    temp_.write("outside.bin", "secret");
    fs::create_symlink("../outside.bin", temp_ / "model/link.bin");
  }
  auto resolve(const ExternalDataRef& ref, std::uint64_t size) {
    return resolver_.resolve(ref, size, "w");
  }
  test::TempFolder temp_;
  ExternalDataResolver resolver_{temp_ / "model"};
};

TEST_F(Resolver, GivesTheTensorsBytes) {
  EXPECT_EQ(as_text(resolve({"w.bin", 2, 3}, 3)->bytes), "234");
  EXPECT_EQ(as_text(resolve({"w.bin", 0, 10}, 10)->bytes), "0123456789");
  EXPECT_EQ(as_text(resolve({"w.bin", 4, std::nullopt}, 2)->bytes), "45");
  EXPECT_EQ(as_text(resolve({"sub/v.bin", 0, 3}, 3)->bytes), "abc");
  EXPECT_TRUE(resolve({"w.bin", 10, 0}, 0)->bytes.empty());
}

TEST_F(Resolver, RefusesRangesOutsideTheFile) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_EQ(code_of(resolve({"w.bin", 8, 3}, 3)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(resolve({"w.bin", 11, 0}, 0)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(resolve({"w.bin", kMax, 2}, 2)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(resolve({"w.bin", 1, kMax}, kMax)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(resolve({"w.bin", 0, std::nullopt}, 11)), ErrorCode::kInvalidGraph);
}

TEST_F(Resolver, RefusesALengthThatIsNotTheTensors) {
  EXPECT_EQ(code_of(resolve({"w.bin", 0, 4}, 3)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(resolve({"w.bin", 0, 2}, 3)), ErrorCode::kInvalidGraph);
}

TEST_F(Resolver, RefusesPathsThatLeaveTheFolder) {
  for (const char* location : {"../outside.bin", "/etc/passwd", "link.bin", "", "sub/../w.bin"})
    EXPECT_EQ(code_of(resolve({location, 0, 1}, 1)), ErrorCode::kInvalidGraph) << location;
  EXPECT_TRUE(resolver_.files().empty());
}

TEST_F(Resolver, ReportsAMissingFile) {
  EXPECT_EQ(code_of(resolve({"missing.bin", 0, 1}, 1)), ErrorCode::kIoError);
  EXPECT_EQ(code_of(resolve({"sub", 0, 1}, 1)), ErrorCode::kIoError);
}

TEST_F(Resolver, NamesTheTensorInItsErrors) {
  EXPECT_TRUE(resolve({"missing.bin", 0, 1}, 1).error().message.starts_with("tensor \"w\": "));
}

TEST_F(Resolver, ListsEachFileOnceInOrderOfUse) {
  ASSERT_TRUE(resolve({"w.bin", 0, 1}, 1));
  ASSERT_TRUE(resolve({"sub/v.bin", 0, 1}, 1));
  ASSERT_TRUE(resolve({"w.bin", 5, 1}, 1));
  std::vector<fs::path> paths;
  for (const FileRead& file : resolver_.files()) paths.push_back(file.path);
  EXPECT_EQ(paths, (std::vector<fs::path>{temp_ / "model/w.bin", temp_ / "model/sub/v.bin"}));
}

TEST_F(Resolver, BlobsOutliveIt) {
  Blob blob;
  {
    ExternalDataResolver other(temp_ / "model");
    blob = other.resolve({"w.bin", 0, 10}, 10, "w").value();
  }
  EXPECT_EQ(as_text(blob.bytes), "0123456789");
}

}  // namespace
}  // namespace ctxgen
