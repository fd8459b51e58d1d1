#include "dedup_table.h"

#include <string>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

Blob blob_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return Blob::own({bytes.begin(), bytes.end()});
}

constexpr Hash128 kSame{.high = 1, .low = 2};

TEST(DedupTable, KeepsApartWhatOnlySharesItsHash) {
  DedupTable table;
  EXPECT_EQ(table.add(kSame, blob_of("aaaa")).value(), StoreId{0});
  EXPECT_EQ(table.add(kSame, blob_of("bbbb")).value(), StoreId{1});
  EXPECT_EQ(table.add(kSame, blob_of("aaa")).value(), StoreId{2});
  EXPECT_EQ(table.add(kSame, blob_of("bbbb")).value(), StoreId{1});
  EXPECT_EQ(table.add(kSame, blob_of("aaa")).value(), StoreId{2});
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.bytes_stored(), 11U);
  EXPECT_EQ(table.bytes_added(), 18U);
}

TEST(DedupTable, HoldsAnEmptyBlob) {
  DedupTable table;
  EXPECT_EQ(table.add(kSame, Blob{}).value(), StoreId{0});
  EXPECT_EQ(table.add(kSame, blob_of("x")).value(), StoreId{1});
  EXPECT_EQ(table.add(kSame, blob_of("")).value(), StoreId{0});
}

TEST(DedupTableDeathTest, KnowsItsIds) {
  const DedupTable table;
  EXPECT_DEATH(static_cast<void>(table.entry(StoreId{0})), "assertion failed");
}

}  // namespace
}  // namespace ctxgen
