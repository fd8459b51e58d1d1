#include "ctxgen/weights/weight_store.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/cache/cache_folder.h"

#include "temp_folder.h"

namespace ctxgen {
namespace {

Blob blob_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return Blob::own({bytes.begin(), bytes.end()});
}

TEST(WeightStore, KeepsEqualContentOnce) {
  WeightStore store;
  const auto first = store.add(blob_of("weights")).value();
  EXPECT_EQ(store.add(blob_of("others")).value(), StoreId{1});
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

PackedFrom from(std::string_view content, std::string_view layout) {
  const auto bytes = as_bytes(layout);
  return {hash_bytes(as_bytes(content)), {bytes.begin(), bytes.end()}, "packer 1"};
}

TEST(WeightStore, MovesWhatIsPackedToTheSpillFileOnce) {
  const test::TempFolder folder;
  SpillFile spill(folder / "net.bin", 0);
  WeightStore store(&spill);
  const std::string text(5000, 'w');
  const auto pack = [&]() -> Result<Blob> { return blob_of(text); };
  const auto first = store.add_packed(from("plain", "L"), pack).value();
  EXPECT_EQ(spill.spilled_bytes(), 5000U);
  EXPECT_EQ(store.add_packed(from("other", "L"), pack).value(), first) << "equal once packed";
  EXPECT_EQ(store.add(blob_of(text)).value(), first);
  EXPECT_EQ(spill.spilled_bytes(), 5000U);
  EXPECT_EQ(store.bytes_added(), 15'000U);
  EXPECT_EQ(store.bytes_packed(), 10'000U);
  EXPECT_EQ(as_text(store.blob(first).bytes), text);
}

TEST(WeightStore, KnowsWhatABlobWasPackedFrom) {
  WeightStore store;
  const auto plain = store.add(blob_of("plain")).value();
  const auto pack = [](std::string_view text) {
    return [text]() -> Result<Blob> { return blob_of(text); };
  };
  const auto one = store.add_packed(from("plain", "L"), pack("packed")).value();
  const auto two = store.add_packed(from("plain", "M"), pack("dekcap")).value();
  EXPECT_EQ(store.content_of(plain), hash_bytes(as_bytes("plain")));
  EXPECT_EQ(store.content_of(one), store.content_of(plain));
  EXPECT_EQ(store.content_of(two), store.content_of(plain));
}

TEST(WeightStore, PacksOnceForAllCompilesWithACache) {
  const test::TempFolder folder;
  const std::string text(5000, 'p');
  int packed = 0;
  const auto pack = [&]() -> Result<Blob> {
    ++packed;
    return blob_of(text);
  };
  for (int compile = 0; compile < 2; ++compile) {
    const auto cache = CacheFolder::open(folder / "cache", 1 << 20).value();
    WeightStore store(nullptr, cache.get());
    const auto id = store.add_packed(from("plain", "L"), pack).value();
    EXPECT_EQ(as_text(store.blob(id).bytes), text);
    EXPECT_EQ(store.hash(id), hash_bytes(as_bytes(text)));
    EXPECT_EQ(store.bytes_packed(), compile == 0 ? 5000U : 0U);
    EXPECT_EQ(store.bytes_cached(), compile == 0 ? 0U : 5000U);
  }
  EXPECT_EQ(packed, 1);
  const auto cache = CacheFolder::open(folder / "cache", 1 << 20).value();
  WeightStore store(nullptr, cache.get());
  ASSERT_TRUE(store.add_packed(from("plain", "M"), pack));
  ASSERT_TRUE(store.add_packed(from("other", "L"), pack));
  PackedFrom newer = from("plain", "L");
  newer.packer = "packer 2";
  ASSERT_TRUE(store.add_packed(newer, pack));
  EXPECT_EQ(packed, 4) << "another layout, content or packer is another weight";
}

TEST(WeightStore, TakesWeightsFromSeveralThreads) {
  constexpr int kThreads = 8;
  constexpr int kDistinct = 200;
  WeightStore store;
  std::vector<std::set<StoreId>> ids(kThreads);
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
