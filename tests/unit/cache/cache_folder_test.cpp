#include "ctxgen/cache/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/opened_file.h"
#include "ctxgen/cache/file_hashes.h"

#include "code_of.h"
#include "listing.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

constexpr Hash128 kKey{.high = 0x1234, .low = 0x5678};
constexpr Hash128 kOther{.high = 0x1234, .low = 0x5679};

std::unique_ptr<CacheFolder> open(const fs::path& path, std::uint64_t max_bytes = 1 << 20) {
  return CacheFolder::open(path, max_bytes).value();
}

std::string text_of(const std::optional<Blob>& found) {
  return found ? std::string(as_text(found->bytes)) : "(nothing)";
}

fs::path only_entry(const fs::path& folder) {
  const auto entries = list_entries(folder, nullptr);
  EXPECT_EQ(entries.size(), 1U);
  return entries.front().path;
}

/// Gives an entry a time of last use, in seconds since 1970.
void set_used(const fs::path& path, std::int64_t seconds) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = seconds, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(CacheFolder, GivesBackWhatWasAdded) {
  const test::TempFolder folder;
  const fs::path path = folder / "a" / "cache";
  {
    const auto cache = open(path);
    EXPECT_EQ(text_of(cache->find(CacheKind::kBlob, kKey)), "(nothing)");
    EXPECT_FALSE(fs::exists(path)) << "looking makes nothing";
    EXPECT_TRUE(cache->add(CacheKind::kBlob, kKey, as_bytes("weights")));
    EXPECT_TRUE(cache->add(CacheKind::kBlob, kOther, {}));
  }
  const auto cache = open(path);
  EXPECT_EQ(text_of(cache->find(CacheKind::kBlob, kKey)), "weights");
  EXPECT_EQ(text_of(cache->find(CacheKind::kBlob, kOther)), "");
  EXPECT_EQ(text_of(cache->find(CacheKind::kPacked, kKey)), "(nothing)");
  EXPECT_EQ(cache->contents().all().entries, 2U);
  EXPECT_TRUE(fs::exists(path / "CACHEDIR.TAG"));
}

TEST(CacheFolder, MapsWhatWasAdded) {
  const test::TempFolder folder;
  const auto cache = open(folder / "cache");
  const Blob made = Blob::own(std::vector<std::byte>(5000, std::byte{7}));
  const Blob kept = cache->add_and_map(CacheKind::kBlob, kKey, made);
  EXPECT_NE(kept.bytes.data(), made.bytes.data());
  EXPECT_TRUE(std::ranges::equal(kept.bytes, made.bytes));
  ASSERT_TRUE(cache->trim(0));
  EXPECT_TRUE(std::ranges::equal(kept.bytes, made.bytes)) << "a removed entry stays mapped";
}

TEST(CacheFolder, EveryTruncationAndFlippedBitIsAMissAndIsReplaced) {
  const test::TempFolder folder;
  const auto cache = open(folder / "cache");
  ASSERT_TRUE(cache->add(CacheKind::kProgram, kKey, as_bytes("a program")));
  const fs::path path = only_entry(folder / "cache");
  const std::string whole = test::read_text(path);
  const auto write = [&](const std::string& text) {
    fs::remove(path);  // another inode: the old one may still be mapped
    std::ofstream(path, std::ios::binary) << text;
  };
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(whole.substr(0, n));
    EXPECT_FALSE(cache->find(CacheKind::kProgram, kKey)) << n << " bytes";
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x10);
    write(flipped);
    EXPECT_FALSE(cache->find(CacheKind::kProgram, kKey)) << "byte " << n;
  }
  write(whole + "x");
  EXPECT_FALSE(cache->find(CacheKind::kProgram, kKey));
  ASSERT_TRUE(cache->add(CacheKind::kProgram, kKey, as_bytes("a program")));
  EXPECT_EQ(text_of(cache->find(CacheKind::kProgram, kKey)), "a program");
}

TEST(CacheFolder, AnEntryOfAnotherKeyOrKindIsAMiss) {
  const test::TempFolder folder;
  const auto cache = open(folder / "cache");
  ASSERT_TRUE(cache->add(CacheKind::kBlob, kKey, as_bytes("one")));
  const fs::path path = only_entry(folder / "cache");
  fs::copy_file(path, path.parent_path() / kOther.hex().substr(2));
  EXPECT_FALSE(cache->find(CacheKind::kBlob, kOther));
  const fs::path packed = folder / "cache" / "packed" / path.parent_path().filename();
  fs::create_directories(packed);
  fs::copy_file(path, packed / path.filename());
  EXPECT_FALSE(cache->find(CacheKind::kPacked, kKey));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_FALSE(cache->find(CacheKind::kBlob, kKey)) << "a folder in its place";
}

TEST(CacheFolder, TrimsWhatWasNotUsedForLongest) {
  const test::TempFolder folder;
  const std::string kilobyte(1000, 'k');
  const auto cache = open(folder / "cache");
  for (std::uint64_t i = 0; i < 4; ++i)
    ASSERT_TRUE(cache->add(CacheKind::kBlob, {.high = i << 56, .low = 0}, as_bytes(kilobyte)));
  for (const ListedEntry& entry : list_entries(folder / "cache", nullptr))
    set_used(entry.path, 1000 + std::stoi(entry.path.parent_path().filename().string()));
  ASSERT_TRUE(cache->find(CacheKind::kBlob, {.high = 0, .low = 0})) << "the oldest, used now";
  const std::uint64_t each = cache->contents().all().bytes / 4;
  const auto removed = cache->trim(2 * each).value();
  EXPECT_EQ(removed.entries, 2U);
  EXPECT_EQ(removed.bytes, 2 * each);
  for (std::uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(cache->find(CacheKind::kBlob, {.high = i << 56, .low = 0}).has_value(),
              i == 0 || i == 3)
        << i;
}

/// An entry of kind output that is old enough to be known by its times.
class SettledEntry : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cache->add(CacheKind::kOutput, kKey, as_bytes("outputs")));
    path = only_entry(folder / "cache");
    wait_until_settled();
  }
  void wait_until_settled() const {
    while (!OpenedFile::open(path)->identity().is_settled(file_clock_ns()))
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  [[nodiscard]] std::uint64_t known_files() const {
    return cache->contents().kinds[static_cast<std::size_t>(CacheKind::kHashes)].entries;
  }
  /// Writes it anew, so that it is damaged.
  void damage() const {
    std::string text = test::read_text(path);
    text[0] = 'O';
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << text;
  }

  test::TempFolder folder;
  std::unique_ptr<CacheFolder> cache = open(folder / "cache");
  fs::path path;
};

TEST_F(SettledEntry, IsComparedOnceWhileItDoesNotChange) {
  const fs::file_time_type written = fs::last_write_time(path);
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "outputs");
  EXPECT_EQ(known_files(), 1U);
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "outputs");
  EXPECT_EQ(fs::last_write_time(path), written) << "marking it would change it";
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kOther)), "(nothing)");
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kBlob, kKey)), "(nothing)");
}

TEST_F(SettledEntry, ThatWasAddedIsKnownAtOnce) {
  ASSERT_TRUE(
      cache->add(CacheKind::kOutput, kKey, as_bytes("others")));  // another file, not settled
  EXPECT_EQ(text_of(cache->find_added(CacheKind::kOutput, kKey)), "others");
  EXPECT_EQ(known_files(), 1U);
  EXPECT_EQ(text_of(cache->find_added(CacheKind::kOutput, kOther)), "(nothing)");
  const FileIdentity file = OpenedFile::open(path)->identity();
  EXPECT_EQ(FileHashes(*cache).find(file, {.offset = 0, .size = file.size}),
            hash_bytes(as_bytes("others")));
  const std::string whole = test::read_text(path);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << whole.substr(0, n);
    EXPECT_EQ(text_of(cache->find_added(CacheKind::kOutput, kKey)), "(nothing)") << n;
  }
}

TEST_F(SettledEntry, ThatChangedIsComparedAgain) {
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "outputs");
  damage();
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "(nothing)");
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(SettledEntry, ThatIsDamagedIsNotKnown) {
  damage();
  wait_until_settled();
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "(nothing)");
  EXPECT_EQ(known_files(), 0U);
}

/// The footer and its own hash are read each time; what was noted stands for the bytes.
TEST_F(SettledEntry, OfWhichAnotherHashIsNotedIsRead) {
  const FileIdentity file = OpenedFile::open(path)->identity();
  FileHashes hashes(*cache);
  hashes.add(file, {.offset = 0, .size = file.size}, kOther);
  hashes.store();
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "outputs");
  damage();
  const FileIdentity damaged = OpenedFile::open(path)->identity();
  hashes.add(damaged, {.offset = 0, .size = damaged.size}, hash_bytes(as_bytes("outputs")));
  hashes.store();
  EXPECT_EQ(text_of(cache->find_unchanged(CacheKind::kOutput, kKey)), "Outputs")
      << "a checksum guards against accidents, not against who may write the folder";
}

TEST_F(SettledEntry, CountsAsUsedWhenItsHashWas) {
  ASSERT_TRUE(cache->find_unchanged(CacheKind::kOutput, kKey));
  ASSERT_TRUE(cache->add(CacheKind::kBlob, kOther, as_bytes("a later one")));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(cache->find_unchanged(CacheKind::kOutput, kKey));
  ASSERT_TRUE(cache->trim(cache->contents().all().bytes - 1));
  EXPECT_EQ(text_of(cache->find(CacheKind::kOutput, kKey)), "outputs");
  EXPECT_EQ(text_of(cache->find(CacheKind::kBlob, kOther)), "(nothing)");
}

TEST(CacheFolder, StaysWithinItsBoundByItself) {
  const test::TempFolder folder;
  const std::string kilobyte(1000, 'k');
  {
    const auto cache = open(folder / "cache", 5000);
    EXPECT_FALSE(cache->add(CacheKind::kBlob, kKey, as_bytes(std::string(5001, 'x'))))
        << "too large for it";
    for (std::uint64_t i = 0; i < 9; ++i)
      ASSERT_TRUE(cache->add(CacheKind::kBlob, {.high = i << 56, .low = 0}, as_bytes(kilobyte)));
  }
  EXPECT_EQ(open(folder / "cache")->contents().all().entries, 4U);
}

TEST(CacheFolder, ClearsEntriesAndStaleTemporariesAndNothingElse) {
  const test::TempFolder folder;
  const auto cache = open(folder / "cache");
  ASSERT_TRUE(cache->add(CacheKind::kBlob, kKey, as_bytes("one")));
  const fs::path shelf = only_entry(folder / "cache").parent_path();
  const fs::path stale = shelf / ".abc.ctxgen-999999999-0.tmp";
  const fs::path foreign = shelf / "notes.txt";
  const fs::path foreign_temporary = shelf / ".notes.tmp";
  for (const fs::path& path : {stale, foreign, foreign_temporary}) std::ofstream(path) << "x";
  ASSERT_TRUE(cache->trim(0));
  EXPECT_EQ(cache->contents().all().entries, 0U);
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(foreign_temporary));
}

TEST(CacheFolder, AFileInItsPlaceOrAboveIsAnError) {
  const test::TempFolder folder;
  const fs::path file = folder.write("cache", "x");
  EXPECT_EQ(test::code_of(CacheFolder::open(file, 1000)), ErrorCode::kIoError);
  EXPECT_EQ(test::code_of(CacheFolder::open(file / "below", 1000)), ErrorCode::kIoError);
}

TEST(CacheFolder, ServesReadersWhereItCannotBeWritten) {
  const test::TempFolder folder;
  ASSERT_TRUE(open(folder / "cache")->add(CacheKind::kBlob, kKey, as_bytes("one")));
  // A file where the shelf would be fails for root too.
  const fs::path shelf = folder / "cache" / "blob" / "ff";
  std::ofstream(shelf) << "x";
  const auto cache = open(folder / "cache");
  EXPECT_FALSE(
      cache->add(CacheKind::kBlob, {.high = ~std::uint64_t{0}, .low = 0}, as_bytes("two")));
  EXPECT_FALSE(cache->add(CacheKind::kBlob, kOther, as_bytes("two"))) << "it does not try again";
  EXPECT_EQ(text_of(cache->find(CacheKind::kBlob, kKey)), "one");
}

TEST(CacheFolder, WritersAndReadersOfOneEntryAgree) {
  const test::TempFolder folder;
  const std::string text(100'000, 't');
  std::atomic<int> found = 0, wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        const auto cache = open(folder / "cache");
        for (int i = 0; i < 50; ++i) {
          if (t % 2 == 0) static_cast<void>(cache->add(CacheKind::kBlob, kKey, as_bytes(text)));
          const auto blob = cache->find(CacheKind::kBlob, kKey);
          if (blob) ++found;
          if (blob && as_text(blob->bytes) != text) ++wrong;
        }
      });
  }
  EXPECT_GT(found, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(open(folder / "cache")->contents().all().entries, 1U);
}

}  // namespace
}  // namespace ctxgen
