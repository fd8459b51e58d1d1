#include "ctxgen/cache/content_hashes.h"

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace ctxgen {
namespace {

constexpr std::size_t kSize = 10'000;

void wait_until_settled(const OpenedFile& file) {
  while (!file.identity().is_settled(file_clock_ns()))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

/// A file of two parts, which is old enough to be known by its times.
class SettledFile : public testing::Test {
 protected:
  void SetUp() override {
    files.push_back(OpenedFile::open(path).value());
    wait_until_settled(files.front());
  }
  [[nodiscard]] std::span<const std::byte> part(std::size_t i) const {
    return files.front().content().bytes.subspan(i * kSize, kSize);
  }
  [[nodiscard]] Hash128 hash(std::size_t i) const { return hash_bytes(part(i)); }

  test::TempFolder folder;
  std::filesystem::path path =
      folder.write("weights", std::string(kSize, 'a') + std::string(kSize, 'b'));
  std::vector<OpenedFile> files;
  std::unique_ptr<CacheFolder> cache = CacheFolder::open(folder / "cache", 1 << 20).value();
};

TEST_F(SettledFile, IsReadOnce) {
  ContentHashes first(cache.get(), files);
  EXPECT_EQ(first.of(part(1)), hash(1));
  EXPECT_FALSE(first.has_remembered());
  first.store();
  ContentHashes second(cache.get(), files);
  EXPECT_EQ(second.of(part(0)), hash(0));
  EXPECT_FALSE(second.has_remembered()) << "another part";
  EXPECT_EQ(second.of(part(1)), hash(1));
  EXPECT_TRUE(second.has_remembered());
  ContentHashes reads_all(nullptr, files);
  EXPECT_EQ(reads_all.of(part(1)), hash(1));
  EXPECT_FALSE(reads_all.has_remembered());
  reads_all.store();
  // What is known is taken at its word, which shows that nothing is read.
  FileHashes lie(*cache);
  lie.add(files.front().identity(), {.offset = kSize, .size = kSize}, {.high = 1, .low = 2});
  lie.store();
  EXPECT_EQ(ContentHashes(cache.get(), files).of(part(1)), (Hash128{.high = 1, .low = 2}));
}

TEST_F(SettledFile, IsNotKnownIfItChangedWhileItWasRead) {
  ContentHashes hashes(cache.get(), files);
  EXPECT_EQ(hashes.of(part(0)), hash(0));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  hashes.store();
  EXPECT_EQ(cache->contents().all().entries, 0U);
}

TEST_F(SettledFile, OtherMemoryAndSmallPartsAreHashed) {
  ContentHashes hashes(cache.get(), files);
  const std::string elsewhere(kSize, 'a');
  EXPECT_EQ(hashes.of(as_bytes(elsewhere)), hash(0));
  EXPECT_EQ(hashes.of({}), hash_bytes({}));
  const auto small = part(0).first(100);
  EXPECT_EQ(hashes.of(small), hash_bytes(small));
  hashes.store();
  EXPECT_EQ(cache->contents().all().entries, 0U);
}

TEST(ContentHashes, AFileThatWasJustWrittenIsNotKnown) {
  const test::TempFolder folder;
  const auto path = folder.write("weights", std::string(kSize, 'a'));
  const std::vector<OpenedFile> files{OpenedFile::open(path).value()};
  const auto cache = CacheFolder::open(folder / "cache", 1 << 20).value();
  ContentHashes hashes(cache.get(), files);
  const auto bytes = files.front().content().bytes;
  EXPECT_EQ(hashes.of(bytes), hash_bytes(bytes));
  hashes.store();
  EXPECT_EQ(cache->contents().all().entries, 0U);
}

}  // namespace
}  // namespace ctxgen
