#include "ctxgen/weights/weight_store.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ctxgen {
namespace {

Blob blob_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return Blob::own({bytes.begin(), bytes.end()});
}

TEST(WeightStore, KeepsEqualContentOnce) {
  WeightStore store;
  const auto first = store.add(blob_of("weights")).value();
  EXPECT_EQ(store.add(blob_of("others")).value(), 1U);
  EXPECT_EQ(store.add(blob_of("weights")).value(), first);
  EXPECT_EQ(store.size(), 2U);
  EXPECT_EQ(store.bytes_added(), 20U);
  EXPECT_EQ(store.bytes_stored(), 13U);
  EXPECT_EQ(as_text(store.blob(first).bytes), "weights");
  EXPECT_EQ(store.hash(first), hash_bytes(as_bytes("weights")));
}

TEST(WeightStore, KeepsTheOwnerOfWhatItHolds) {
  WeightStore store;
  std::weak_ptr<const void> kept;
  std::weak_ptr<const void> dropped;
  {
    const Blob one = blob_of("same");
    const Blob two = blob_of("same");
    kept = one.owner;
    dropped = two.owner;
    ASSERT_TRUE(store.add(one));
    ASSERT_TRUE(store.add(two));
  }
  EXPECT_FALSE(kept.expired());
  EXPECT_TRUE(dropped.expired());
}

TEST(WeightStore, TakesWeightsFromSeveralThreads) {
  constexpr int kThreads = 8;
  constexpr int kDistinct = 200;
  WeightStore store;
  std::vector<std::set<WeightStore::Id>> ids(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kDistinct; ++i) {
          const int number = (i * 7 + t * 31) % kDistinct;  // each thread in an order of its own
          const auto id = store.add(blob_of("weight " + std::to_string(number))).value();
          ids[static_cast<std::size_t>(t)].insert(id);
          EXPECT_EQ(as_text(store.blob(id).bytes), "weight " + std::to_string(number));
        }
      });
  }
  EXPECT_EQ(store.size(), static_cast<std::size_t>(kDistinct));
  for (const auto& seen : ids) EXPECT_EQ(seen.size(), static_cast<std::size_t>(kDistinct));
  EXPECT_EQ(store.bytes_added(), kThreads * store.bytes_stored());
}

}  // namespace
}  // namespace ctxgen
