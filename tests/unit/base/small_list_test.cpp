#include "ctxgen/base/small_list.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

struct Pair {
  std::uint8_t kind = 0;
  std::uint32_t index = 0;
  bool operator==(const Pair&) const = default;
};

static_assert(sizeof(SmallList<std::uint32_t>) == 16);
static_assert(SmallList<std::uint32_t>::kInline == 2 && SmallList<Pair>::kInline == 1);

TEST(SmallList, DoesWhatAVectorDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    SmallList<std::uint32_t> list;
    std::vector<std::uint32_t> expected;
    for (int step = 0; step < 40; ++step) {
      const auto number = static_cast<std::uint32_t>(random());
      const std::size_t at = expected.empty() ? 0 : random() % expected.size();
      switch (random() % 8) {
        case 0:
          if (expected.empty()) break;
          expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
          list.erase(list.begin() + at);
          break;
        case 1:
          expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at), number);
          list.insert(list.begin() + at, number);
          break;
        case 2:
          expected.resize(at);
          list.resize(at);
          break;
        case 3:
          std::erase_if(expected, [](std::uint32_t n) { return n % 3 == 0; });
          erase_if(list, [](std::uint32_t n) { return n % 3 == 0; });
          break;
        default: expected.push_back(number); list.push_back(number);
      }
      ASSERT_EQ(list, expected);
      ASSERT_EQ(std::vector<std::uint32_t>(list.begin(), list.end()), expected);
      if (!expected.empty()) {
        ASSERT_EQ(list.back(), expected.back());
      }
    }
    const SmallList<std::uint32_t> copy = list;
    const SmallList<std::uint32_t> moved = std::move(list);
    EXPECT_EQ(copy, moved);
    EXPECT_TRUE(list.empty());  // NOLINT(bugprone-use-after-move): what was moved from is empty
  }
}

TEST(SmallList, CopiesAreIndependentAndMayBeOfThemselves) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 9U}) {
    SmallList<Pair> list;
    for (std::uint32_t i = 0; i < count; ++i) list.push_back({1, i});
    SmallList<Pair> copy = list;
    copy.push_back({2, 7});
    EXPECT_EQ(list.size(), count);
    const SmallList<Pair>& same = list;
    list = same;
    EXPECT_EQ(list.size(), count);
    std::swap(list, copy);
    EXPECT_EQ(list.size(), count + 1);
    EXPECT_EQ(list.back(), (Pair{2, 7}));
  }
}

TEST(SmallList, ComesFromAndGoesToOtherRanges) {
  const std::vector<std::uint32_t> numbers{1, 2, 3};
  const SmallList<std::uint32_t> list = numbers;
  EXPECT_EQ(static_cast<std::vector<std::uint32_t>>(list), numbers);
  EXPECT_EQ((SmallList<std::uint32_t>{1, 2, 3}), list);
  EXPECT_EQ(SmallList<std::uint32_t>(std::span<const std::uint32_t>()).size(), 0U);
  EXPECT_DEATH((void)list.at(3), "");
}

}  // namespace
}  // namespace ctxgen
