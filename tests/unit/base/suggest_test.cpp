#include "ctxgen/base/suggest.h"

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

const std::vector<std::string> kVerbs{"compile", "run", "check", "cache", "bench"};

TEST(Suggest, FindsOneSlipOfEveryKind) {
  EXPECT_EQ(closest_word("complie", kVerbs), "compile");   // swapped
  EXPECT_EQ(closest_word("compil", kVerbs), "compile");    // left out
  EXPECT_EQ(closest_word("compiile", kVerbs), "compile");  // added
  EXPECT_EQ(closest_word("bemch", kVerbs), "bench");       // replaced
  EXPECT_EQ(closest_word("RUN", kVerbs), "run");           // case
}

TEST(Suggest, TakesAWordThatIsNotAtItsEnd) {
  EXPECT_EQ(closest_word("avx512", std::vector<std::string>{"avx2", "avx512_core"}), "avx512_core");
  EXPECT_EQ(closest_word("com", kVerbs), "compile");
  EXPECT_EQ(closest_word("co", kVerbs), "");
}

TEST(Suggest, SaysNothingOfWhatIsFar) {
  for (const char* word : {"", "x", "xyz", "verify", "documents", "chain"})
    EXPECT_EQ(closest_word(word, kVerbs), "") << word;
  EXPECT_EQ(closest_word("ab", std::vector<std::string>{"cd", "x", ""}), "");
  EXPECT_EQ(closest_word("run", {}), "");
}

TEST(Suggest, LongWordsMayHaveMoreSlipsAndEndlessOnesNone) {
  const std::vector<std::string> options{"--external-initializers", std::string(100'000, 'a')};
  EXPECT_EQ(closest_word("--extrenal-initialiser", options), "--external-initializers");
  EXPECT_EQ(closest_word(std::string(99'999, 'a'), options), "");
}

TEST(Suggest, TakesTheClosestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(closest_word("avx3", std::vector<std::string>{"avx512", "avx", "avx2"}), "avx");
  EXPECT_EQ(closest_word("cheche", std::vector<std::string>{"check", "cheche"}), "cheche");
}

TEST(Suggest, Texts) {
  EXPECT_EQ(did_you_mean("bach", std::vector<std::string>{"batch"}), "; did you mean \"batch\"?");
  EXPECT_EQ(did_you_mean("zzzz", std::vector<std::string>{"batch"}), "");
  EXPECT_EQ(one_of_text(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(one_of_text(std::vector<std::string>{"a", "b", "c"}), "a, b or c");
  EXPECT_EQ(list_text({}), "none");
  EXPECT_EQ(list_text(std::vector<std::string>{"a", "b", "c"}, 2), "a, b and 1 more");
}

}  // namespace
}  // namespace ctxgen
