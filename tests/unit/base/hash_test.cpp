#include "ctxgen/base/hash.h"

#include <string>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

// XXH3-128 with seed 0, from the reference implementation's command line (xxhsum -H2): the value is
// part of the file format.
TEST(Hash, IsXxh3Of128Bits) {
  EXPECT_EQ(hash_bytes({}).hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_bytes(as_bytes("a")).hex(), "a96faf705af16834e6c632b61e964e1f");
}

TEST(Hash, HexHasTheHighHalfFirstAndAllZeros) {
  EXPECT_EQ((Hash128{.high = 1, .low = 0xab}).hex(), "000000000000000100000000000000ab");
}

TEST(Hasher, OfBytesEqualsTheHashInOneGo) {
  const std::string text(1000, 'x');
  Hasher hasher;
  hasher.add(as_bytes(std::string_view(text).substr(0, 1)));
  hasher.add(as_bytes(std::string_view(text).substr(1)));
  EXPECT_EQ(hasher.finish(), hash_bytes(as_bytes(text)));
}

TEST(Hasher, TellsSequencesApartThatConcatenateEqually) {
  Hasher one;
  one.add(std::string_view("ab"));
  one.add(std::string_view("c"));
  Hasher other;
  other.add(std::string_view("a"));
  other.add(std::string_view("bc"));
  EXPECT_NE(one.finish(), other.finish());
}

TEST(Hasher, FinishDoesNotEndIt) {
  Hasher hasher;
  hasher.add(std::uint64_t{1});
  const Hash128 first = hasher.finish();
  EXPECT_EQ(hasher.finish(), first);
  hasher.add(std::uint64_t{2});
  EXPECT_NE(hasher.finish(), first);
}

TEST(Hasher, MovesWithItsState) {
  Hasher hasher;
  hasher.add(std::uint64_t{1});
  const Hash128 expected = hasher.finish();
  Hasher moved = std::move(hasher);
  EXPECT_EQ(moved.finish(), expected);
}

}  // namespace
}  // namespace ctxgen
