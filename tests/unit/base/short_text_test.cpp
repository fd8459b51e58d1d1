#include "ctxgen/base/short_text.h"

#include <format>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

static_assert(sizeof(ShortText) == 16);

TEST(ShortText, KeepsTextOfAnyLength) {
  std::vector<ShortText> all;
  std::vector<std::string> expected;
  for (const std::size_t length :
       {0U, 1U, 14U, 15U, 16U, 17U, 126U, 127U, 128U, 255U, 256U, 70'000U}) {
    std::string text(length, 'x');
    for (std::size_t i = 0; i < length; ++i)
      text[i] = static_cast<char>(i * 7);  // zeros among them
    all.emplace_back(text);
    expected.push_back(std::move(text));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].view(), expected[i]);
    EXPECT_EQ(all[i].size(), expected[i].size());
    EXPECT_EQ(all[i].empty(), expected[i].empty());
    for (std::size_t j = 0; j < all.size(); ++j) EXPECT_EQ(all[i] == all[j], i == j);
  }
}

TEST(ShortText, CopiesAreIndependent) {
  for (const std::string text : {"Conv", "QLinearGlobalAveragePool"}) {
    ShortText first = text;
    ShortText copy = first;
    const ShortText& same = first;
    first = same;
    EXPECT_EQ(first.view(), text);
    const ShortText moved = std::move(first);
    EXPECT_EQ(moved.view(), text);
    EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): what was moved from is empty
    copy = "other";
    EXPECT_EQ(moved.view(), text);
    EXPECT_EQ(copy.str(), "other");
  }
}

TEST(ShortText, ReadsAsText) {
  const ShortText text = "LayerNormalization";
  EXPECT_EQ(std::format("{:>20}", text), "  LayerNormalization");
  EXPECT_EQ(std::string("com.microsoft.") + text, "com.microsoft.LayerNormalization");
  EXPECT_TRUE(ShortText("Add") < text);
  EXPECT_TRUE(text == "LayerNormalization" && text != std::string_view("Layer"));
}

}  // namespace
}  // namespace ctxgen
