#include "ctxgen/base/opened_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

FileIdentity identity_of_file(const fs::path& path) { return OpenedFile::open(path)->identity(); }

/// Longer than the kernel's clock for times of files stands still.
void wait_for_the_clock() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(OpenedFile, GivesTheBytesAndWhatTellsTheState) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  const auto file = OpenedFile::open(path).value();
  EXPECT_EQ(as_text(file.content().bytes), "hello");
  EXPECT_EQ(file.identity().size, 5U);
  EXPECT_TRUE(file.is_unchanged());
  file.release_pages();
  EXPECT_EQ(as_text(file.content().bytes), "hello");
  EXPECT_EQ(identity_of_file(path), file.identity());
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(identity_of(status), file.identity());
}

TEST(OpenedFile, ReleasesWhatWasTouched) {
  const test::TempFolder temp;
  constexpr std::size_t kBytes = 32 << 20;
  const auto file = OpenedFile::open(temp.write("a", std::string(kBytes, 'a'))).value();
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    std::size_t size = 0, pages = 0;
    statm >> size >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  };
  EXPECT_EQ(std::ranges::count(file.content().bytes, std::byte{'a'}), kBytes);
  const std::size_t before = resident();
  file.release_pages();
  EXPECT_LT(resident() + kBytes / 2, before);
}

TEST(OpenedFile, IsTheFileThatWasOpenedWhereAnotherTookItsName) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  const auto file = OpenedFile::open(path).value();
  fs::rename(temp.write("b", "other"), path);
  EXPECT_EQ(as_text(file.content().bytes), "hello");
  EXPECT_NE(identity_of_file(path), file.identity());
}

TEST(OpenedFile, ShowsAChangeThatKeepsSizeAndTime) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  const auto file = OpenedFile::open(path).value();
  struct stat before{};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  wait_for_the_clock();
  std::ofstream(path, std::ios::binary) << "jello";
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(identity_of_file(path).modified_ns, file.identity().modified_ns);
  EXPECT_FALSE(file.is_unchanged());
  EXPECT_NE(identity_of_file(path), file.identity());
}

TEST(OpenedFile, RefusesWhatMapFileRefuses) {
  const test::TempFolder temp;
  EXPECT_EQ(test::code_of(OpenedFile::open(temp / "none")), ErrorCode::kIoError);
  EXPECT_EQ(test::code_of(OpenedFile::open(temp.path())), ErrorCode::kIoError);
  temp.write("in/a", "hello");
  EXPECT_EQ(as_text(OpenedFile::open_beneath(temp / "in", "a")->content().bytes), "hello");
  EXPECT_EQ(test::code_of(OpenedFile::open_beneath(temp / "in", "../in/a")),
            ErrorCode::kInvalidGraph);
}

TEST(FileIdentity, IsSettledTwoSecondsAfterEachOfItsTimes) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const FileIdentity file{.modified_ns = 10 * kSecond, .changed_ns = 20 * kSecond};
  EXPECT_FALSE(file.is_settled(22 * kSecond));
  EXPECT_TRUE(file.is_settled(22 * kSecond + 1));
  EXPECT_FALSE(file.is_settled(13 * kSecond)) << "changed later than it is now";
  const FileIdentity from_the_future{.modified_ns = 30 * kSecond, .changed_ns = 20 * kSecond};
  EXPECT_FALSE(from_the_future.is_settled(25 * kSecond));
}

TEST(FileIdentity, OfAFileThatWasJustWrittenIsNotSettled) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  EXPECT_FALSE(identity_of_file(path).is_settled(file_clock_ns()));
}

}  // namespace
}  // namespace ctxgen
