#include "ctxgen/cache/file_hashes.h"

#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/byte_io.h"

#include "temp_folder.h"

namespace ctxgen {
namespace {

constexpr FileIdentity kFile{
    .device = 1, .inode = 2, .size = 1000, .modified_ns = 3, .changed_ns = 4};
constexpr Hash128 kHash{.high = 5, .low = 6};

std::unique_ptr<CacheFolder> open(const test::TempFolder& folder) {
  return CacheFolder::open(folder / "cache", 1 << 20).value();
}

TEST(FileHashes, AreKnownToTheNextProcess) {
  const test::TempFolder folder;
  const auto cache = open(folder);
  FileHashes first(*cache);
  EXPECT_FALSE(first.find(kFile, {0, 10}));
  first.add(kFile, {0, 10}, kHash);
  EXPECT_EQ(first.find(kFile, {0, 10}), kHash);
  EXPECT_FALSE(FileHashes(*cache).find(kFile, {0, 10})) << "not stored yet";
  first.store();
  FileHashes second(*cache);
  EXPECT_EQ(second.find(kFile, {0, 10}), kHash);
  second.add(kFile, {10, 990}, {.high = 7, .low = 8});
  second.store();
  FileHashes third(*cache);
  EXPECT_EQ(third.find(kFile, {0, 10}), kHash) << "what was there stays";
  EXPECT_EQ(third.find(kFile, {10, 990}), (Hash128{.high = 7, .low = 8}));
  EXPECT_FALSE(third.find(kFile, {0, 11}));
  EXPECT_FALSE(third.find(kFile, {1, 10}));
  EXPECT_EQ(cache->contents().all().entries, 1U);
}

TEST(FileHashes, AreThoseOfOneStateOfAFile) {
  const test::TempFolder folder;
  const auto cache = open(folder);
  FileHashes hashes(*cache);
  hashes.add(kFile, {0, 10}, kHash);
  hashes.store();
  const auto changed = [](auto change) {
    FileIdentity other = kFile;
    change(other);
    return other;
  };
  for (const FileIdentity& other :
       {changed([](auto& f) { f.device += 1; }), changed([](auto& f) { f.inode += 1; }),
        changed([](auto& f) { f.size += 1; }), changed([](auto& f) { f.modified_ns += 1; }),
        changed([](auto& f) { f.changed_ns += 1; })})
    EXPECT_FALSE(FileHashes(*cache).find(other, {0, 10}));
}

/// The text of an entry for kFile and these numbers.
std::vector<std::byte> text(const std::vector<std::uint64_t>& numbers, std::uint64_t size = 1000) {
  ByteWriter writer;
  for (const std::uint64_t field :
       {std::uint64_t{1}, std::uint64_t{2}, size, std::uint64_t{3}, std::uint64_t{4}})
    writer.u64(field);
  for (const std::uint64_t number : numbers) writer.u64(number);
  return writer.release();
}

/// Everybody who may write the folder can give an entry a checksum that fits.
TEST(FileHashes, HostileEntriesAreNotKnown) {
  const test::TempFolder folder;
  const auto cache = open(folder);
  const auto finds = [&](const std::vector<std::byte>& entry) {
    EXPECT_TRUE(cache->add(CacheKind::kHashes, FileHashes::key_of(kFile), entry));
    return FileHashes(*cache).find(kFile, {0, 10}).has_value();
  };
  EXPECT_TRUE(finds(text({0, 10, 5, 6, 10, 10, 5, 6})));
  EXPECT_FALSE(finds({}));
  EXPECT_FALSE(finds(text({0, 10, 5, 6}, 1001))) << "of another file";
  EXPECT_FALSE(finds(text({0, 10, 5, 6, 10, 991, 5, 6}))) << "beyond the file's end";
  EXPECT_FALSE(finds(text({0, 10, 5, 6, ~std::uint64_t{0}, 2, 5, 6}))) << "overflows";
  EXPECT_FALSE(finds(text({0, 10, 5, 6, 0, 10, 5, 7}))) << "twice";
  EXPECT_FALSE(finds(text({10, 10, 5, 6, 0, 10, 5, 6}))) << "not in order";
  const std::vector<std::byte> whole = text({0, 10, 5, 6, 10, 10, 5, 6});
  constexpr std::size_t kWithoutParts = 40, kWithOne = 72;
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(finds({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)}), n == kWithOne)
        << n << " bytes, without parts " << kWithoutParts;
}

TEST(FileHashes, AreBoundedInNumber) {
  const test::TempFolder folder;
  const auto cache = CacheFolder::open(folder / "cache", 16 << 20).value();
  constexpr FileIdentity kLarge{.size = std::uint64_t{1} << 40};
  constexpr std::uint64_t kMaxParts = 65'536;
  FileHashes hashes(*cache);
  for (std::uint64_t i = 0; i <= kMaxParts; ++i) hashes.add(kLarge, {i, 1}, kHash);
  hashes.store();
  FileHashes read(*cache);
  EXPECT_EQ(read.find(kLarge, {kMaxParts - 1, 1}), kHash);
  EXPECT_FALSE(read.find(kLarge, {kMaxParts, 1}));
}

}  // namespace
}  // namespace ctxgen
