#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <format>
#include <set>

#include <gtest/gtest.h>

#include "ctxgen/base/file.h"

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using test::code_of;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

using Names = std::set<std::string>;

/// The id of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(AtomicFile, AppearsOnCommitOnly) {
  const test::TempFolder temp;
  auto file = AtomicFile::create(temp / "out").value();
  ASSERT_TRUE(file.write(as_bytes("abc")));
  ASSERT_TRUE(file.write_zeros(5000));
  ASSERT_TRUE(file.write(as_bytes("d")));
  EXPECT_EQ(file.size(), 5004U);
  EXPECT_FALSE(fs::exists(temp / "out"));
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(test::read_text(temp / "out"), "abc" + std::string(5000, '\0') + "d");
  EXPECT_EQ(names_in(temp.path()), Names{"out"});
}

TEST(AtomicFile, KeepsTheOrderOfPiecesOfAllSizes) {
  constexpr std::size_t kPiece = std::size_t{2} << 20U;
  const test::TempFolder temp;
  auto file = AtomicFile::create(temp / "out").value();
  std::string expected;
  for (const std::size_t size : {std::size_t{3}, kPiece - 4, std::size_t{1}, kPiece, kPiece + 1,
                                 3 * kPiece + 5, std::size_t{0}, kPiece - 7, std::size_t{9}}) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<char>((expected.size() + i) * 2654435761U >> 24U);
    expected += bytes;
    ASSERT_TRUE(file.write(as_bytes(bytes)));
    EXPECT_EQ(file.size(), expected.size());
  }
  ASSERT_TRUE(file.flush());
  ASSERT_TRUE(file.commit());
  EXPECT_TRUE(test::read_text(temp / "out") == expected);
}

TEST(AtomicFile, LeavesTheOldFileAloneUntilThen) {
  const test::TempFolder temp;
  temp.write("out", "old");
  {
    auto file = AtomicFile::create(temp / "out").value();
    ASSERT_TRUE(file.write(as_bytes("new")));
    EXPECT_EQ(names_in(temp.path()).size(), 2U);
  }
  EXPECT_EQ(test::read_text(temp / "out"), "old");
  EXPECT_EQ(names_in(temp.path()), Names{"out"});
}

TEST(AtomicFile, MovesWithItsTemporary) {
  const test::TempFolder temp;
  auto file = AtomicFile::create(temp / "a").value();
  auto other = AtomicFile::create(temp / "b").value();
  file = std::move(other);  // a's temporary goes
  EXPECT_EQ(names_in(temp.path()).size(), 1U);
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(names_in(temp.path()), Names{"b"});
}

TEST(AtomicFile, TwoOfOneTargetDoNotMeet) {
  const test::TempFolder temp;
  auto one = AtomicFile::create(temp / "out").value();
  auto two = AtomicFile::create(temp / "out").value();
  ASSERT_TRUE(one.write(as_bytes("one")));
  ASSERT_TRUE(two.write(as_bytes("two")));
  ASSERT_TRUE(one.commit());
  ASSERT_TRUE(two.commit());
  EXPECT_EQ(test::read_text(temp / "out"), "two");
}

TEST(AtomicFile, HasThePermissionsOfAnyNewFile) {
  const test::TempFolder temp;
  const mode_t before = ::umask(027);
  auto file = AtomicFile::create(temp / "out").value();
  ::umask(before);
  ASSERT_TRUE(file.commit());
  struct stat status{};
  ASSERT_EQ(::stat((temp / "out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST(AtomicFile, KeepsToTheFolderOfItsCreation) {
  const test::TempFolder temp;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  auto file = AtomicFile::create("out").value();
  fs::current_path(before);
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(names_in(temp.path()), Names{"out"});
}

TEST(AtomicFile, RefusesWhatIsNoFile) {
  const test::TempFolder temp;
  fs::create_symlink("missing", temp / "dangling");
  fs::create_symlink(".", temp / "folder");
  fs::create_symlink("loop", temp / "loop");
  for (const fs::path& target : {temp.path(), temp / "dangling", temp / "folder", temp / "loop",
                                 temp / "sub/", fs::path("")})
    EXPECT_EQ(code_of(AtomicFile::create(target)), ErrorCode::kIoError) << target;
  EXPECT_EQ(names_in(temp.path()), (Names{"dangling", "folder", "loop"}));
}

TEST(AtomicFile, WritesThroughALinkInTheFolderOfItsTarget) {
  const test::TempFolder temp;
  temp.write("store/file", "old");
  fs::create_directory(temp / "out");
  fs::create_symlink("../store/file", temp / "out/first");
  fs::create_symlink(temp / "out/first", temp / "out/second");
  auto file = AtomicFile::create(temp / "out/second").value();
  ASSERT_TRUE(file.write(as_bytes("new")));
  EXPECT_EQ(names_in(temp / "store").size(), 2U);  // the temporary is there
  EXPECT_EQ(test::read_text(temp / "store/file"), "old");
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(test::read_text(temp / "store/file"), "new");
  EXPECT_FALSE(fs::is_symlink(temp / "store/file"));
  EXPECT_TRUE(fs::is_symlink(temp / "out/first") && fs::is_symlink(temp / "out/second"));
  EXPECT_EQ(names_in(temp / "store"), Names{"file"});
  EXPECT_EQ(names_in(temp / "out"), (Names{"first", "second"}));
}

TEST(AtomicFile, ReplacesALinkWhereThatIsAskedFor) {
  const test::TempFolder temp;
  temp.write("file", "old");
  fs::create_symlink("file", temp / "link");
  fs::create_symlink("missing", temp / "dangling");
  for (const char* name : {"link", "dangling"}) {
    auto file = AtomicFile::create(temp / name, Links::kReplace).value();
    ASSERT_TRUE(file.write(as_bytes("new")));
    ASSERT_TRUE(file.commit());
    EXPECT_FALSE(fs::is_symlink(temp / name));
    EXPECT_EQ(test::read_text(temp / name), "new");
  }
  EXPECT_EQ(test::read_text(temp / "file"), "old");
}

TEST(AtomicFile, WritesToPipesAndDevicesAndNeverReplacesThem) {
  const test::TempFolder temp;
  ASSERT_EQ(::mkfifo((temp / "fifo").c_str(), 0600), 0);
  const int reader = ::open((temp / "fifo").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  fs::create_symlink("/dev/null", temp / "null");
  for (const char* name : {"fifo", "null"}) {
    auto file = AtomicFile::create(temp / name).value();
    ASSERT_TRUE(file.write(as_bytes("bytes")));
    ASSERT_TRUE(file.flush());
    ASSERT_TRUE(file.commit());
  }
  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 5);
  EXPECT_EQ(std::string(got.data()), "bytes");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(temp / "fifo"));
  EXPECT_TRUE(fs::is_character_file(temp / "null"));
  EXPECT_EQ(names_in(temp.path()), (Names{"fifo", "null"}));
}

TEST(AtomicFile, WritesToADescriptorWhereItStands) {
  const test::TempFolder temp;
  const fs::path log = temp.write("log", "first ");
  const int fd = ::open(log.c_str(), O_WRONLY | O_APPEND);
  const int read_only = ::open(log.c_str(), O_RDONLY);
  ASSERT_TRUE(fd >= 0 && read_only >= 0);
  {
    auto file = AtomicFile::create(std::format("/dev/fd/{}", fd)).value();
    ASSERT_TRUE(file.write(as_bytes("second")));
    ASSERT_TRUE(file.commit());
  }
  EXPECT_EQ(code_of(AtomicFile::create(std::format("/dev/fd/{}", read_only))), ErrorCode::kIoError);
  ::close(fd);
  ::close(read_only);
  EXPECT_EQ(test::read_text(log), "first second");
  EXPECT_EQ(names_in(temp.path()), Names{"log"});
}

TEST(AtomicFile, ReportsAMissingFolder) {
  const test::TempFolder temp;
  EXPECT_EQ(code_of(AtomicFile::create(temp / "missing/out")), ErrorCode::kIoError);
}

TEST(AtomicFile, ReportsALongName) {
  const test::TempFolder temp;
  auto longest = AtomicFile::create(temp / std::string(255, 'x'));
  ASSERT_EQ(code_of(longest), test::kOk);
  EXPECT_EQ(code_of(longest->commit()), test::kOk);
  auto longer = AtomicFile::create(temp / std::string(256, 'y'));
  EXPECT_EQ(code_of(longer ? longer->commit() : Status(std::unexpect, longer.error())),
            ErrorCode::kIoError);
}

TEST(AtomicFile, ReportsAFullDisk) {
  const test::TempFolder temp;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  {
    auto file = AtomicFile::create(temp / "out").value();
    const rlimit small{.rlim_cur = 10000, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_EQ(code_of(file.write_zeros(3U << 20U)), ErrorCode::kIoError);
    auto held_back = AtomicFile::create(temp / "small").value();
    ASSERT_TRUE(held_back.write_zeros(20000));
    EXPECT_EQ(code_of(held_back.commit()), ErrorCode::kIoError);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(names_in(temp.path()).empty());
}

TEST(AtomicFile, ReportsAFailedRename) {
  const test::TempFolder temp;
  fs::create_directory(temp / "sub");
  auto file = AtomicFile::create(temp / "sub/out").value();
  fs::create_directory(temp / "sub/out");  // in the way since
  EXPECT_EQ(code_of(file.commit()), ErrorCode::kIoError);
  file = AtomicFile::create(temp / "other").value();
  EXPECT_EQ(names_in(temp / "sub"), Names{"out"});
}

TEST(Temporaries, OfDeadProcessesAreRemoved) {
  const test::TempFolder temp;
  const std::string dead = std::to_string(dead_process());
  const std::string live = std::to_string(::getppid());
  const Names kept = {"out",
                      ".out.ctxgen-" + live + "-0.tmp",
                      ".other.ctxgen-" + dead + "-0.tmp",
                      ".out.ctxgen-" + dead + "-0.tmp2",
                      ".out.ctxgen-" + dead + "-.tmp",
                      ".out.ctxgen-" + dead + ".tmp",
                      ".out.ctxgen--" + dead + "-1.tmp",
                      ".out.ctxgen-x-1.tmp",
                      ".out.ctxgen-.tmp",
                      "out.ctxgen-" + dead + "-0.tmp"};
  for (const std::string& name : kept) temp.write(name, "");
  temp.write(".out.ctxgen-" + dead + "-0.tmp", "");
  temp.write(".out.ctxgen-" + dead + "-17.tmp", "");
  remove_stale_temporaries(temp / "out");
  EXPECT_EQ(names_in(temp.path()), kept);
}

TEST(Temporaries, OfOurOwnIdAreRemovedUnlessTheyAreInUse) {
  const test::TempFolder temp;
  auto file = AtomicFile::create(temp / "out").value();
  ASSERT_TRUE(file.write(as_bytes("x")));
  temp.write(".out.ctxgen-" + std::to_string(::getpid()) + "-999999.tmp", "an earlier process's");
  EXPECT_EQ(names_in(temp.path()).size(), 2U);
  remove_stale_temporaries(temp / "out");
  EXPECT_EQ(names_in(temp.path()).size(), 1U);
  EXPECT_TRUE(file.commit());
}

TEST(Temporaries, OfALongNameAreFound) {
  const test::TempFolder temp;
  const std::string name(255, 'x');
  const std::string dead = std::to_string(dead_process());
  temp.write("." + name.substr(0, 200) + ".ctxgen-" + dead + "-0.tmp", "");
  remove_stale_temporaries(temp / name);
  EXPECT_TRUE(names_in(temp.path()).empty());
}

TEST(Temporaries, RemovingLeavesAMissingFolderAlone) {
  remove_stale_temporaries("/nonexistent-folder/out");  // nothing to do, nothing to report
  EXPECT_FALSE(fs::exists("/nonexistent-folder"));
}

TEST(Temporaries, ASignalHandlerUnlinksThemAll) {
  const test::TempFolder temp;
  std::vector<AtomicFile> files;
  for (int i = 0; i < 100; ++i)
    files.push_back(AtomicFile::create(temp / std::to_string(i)).value());
  ASSERT_TRUE(files[0].commit());
  files.pop_back();
  unlink_live_temporaries();
  EXPECT_EQ(names_in(temp.path()), Names{"0"});
  EXPECT_EQ(code_of(files[1].commit()), ErrorCode::kIoError);
}

TEST(Temporaries, AreGoneAfterAnInterruptedProcess) {
  const test::TempFolder temp;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, [](int) {
      unlink_live_temporaries();
      ::_exit(130);
    });
    auto file = AtomicFile::create(temp / "out");
    if (!file || !file->write(as_bytes("half"))) ::_exit(1);
    ::raise(SIGINT);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130);
  EXPECT_TRUE(names_in(temp.path()).empty());
}

TEST(Temporaries, AreLimitedInNumber) {
  const test::TempFolder temp;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 8192) GTEST_SKIP() << "only " << before.rlim_max << " open files allowed";
  const rlimit many{.rlim_cur = 8192, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &many), 0);
  std::vector<AtomicFile> files;
  Result<AtomicFile> next = AtomicFile::create(temp / "out");
  for (; next; next = AtomicFile::create(temp / "out")) files.push_back(std::move(*next));
  EXPECT_EQ(code_of(next), ErrorCode::kResourceLimit);
  EXPECT_EQ(files.size(), 4096U);
  files.clear();
  EXPECT_EQ(code_of(AtomicFile::create(temp / "out")), test::kOk);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace ctxgen
