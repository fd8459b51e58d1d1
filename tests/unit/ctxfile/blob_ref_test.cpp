#include "ctxgen/ctxfile/blob_ref.h"

#include <concepts>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

template <class From, class To>
constexpr bool kMixes = std::convertible_to<From, To> || std::constructible_from<To, From>;

// A place in the one table is none in the other, and a number is neither.
static_assert(!kMixes<StoreId, BlobIndex> && !kMixes<BlobIndex, StoreId>);
static_assert(!kMixes<BlobRef, BlobIndex> && !kMixes<BlobRef, StoreId>);
static_assert(!kMixes<std::uint32_t, BlobRef> && !std::default_initializable<BlobRef>);
static_assert(!std::convertible_to<std::uint32_t, StoreId>);
static_assert(!std::convertible_to<std::uint32_t, BlobIndex>);

TEST(BlobRef, KnowsItsTable) {
  const BlobRef stored = StoreId{3};
  const BlobRef written = BlobIndex{3};
  EXPECT_TRUE(stored.is_in_store());
  EXPECT_FALSE(written.is_in_store());
  EXPECT_EQ(stored.store_id(), StoreId{3});
  EXPECT_EQ(written.bin_index(), BlobIndex{3});
  EXPECT_NE(stored, written);
  EXPECT_EQ(written, BlobRef(BlobIndex{3}));
}

TEST(BlobRefDeathTest, RefusesTheOtherTable) {
  EXPECT_DEATH(static_cast<void>(BlobRef(StoreId{3}).bin_index()), "assertion failed");
  EXPECT_DEATH(static_cast<void>(BlobRef(BlobIndex{3}).store_id()), "assertion failed");
}

}  // namespace
}  // namespace ctxgen
