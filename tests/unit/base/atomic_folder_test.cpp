#include "ctxgen/base/atomic_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <format>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "ctxgen/base/file.h"

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using test::code_of;
using test::kOk;

std::set<std::string> all_below(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.insert(entry.path().lexically_relative(folder).string());
  return names;
}

Status write(AtomicFolder& folder, const fs::path& name, std::string_view text) {
  return folder.write_file(name,
                           [&](const AtomicFolder::Sink& sink) { return sink(as_bytes(text)); });
}

/// "a", "sub/b" and, under its final name, "sub/c".
Status fill(AtomicFolder& folder) {
  CTXGEN_CHECK(folder.make_folder("sub"));
  CTXGEN_CHECK(write(folder, "a", "alpha"));
  CTXGEN_CHECK(write(folder, "sub/b", "beta"));
  CTXGEN_CHECK(write(folder, "next", "gamma"));
  return folder.rename_file("next", "sub/c");
}

const std::set<std::string> kWhole = {"out", "out/a", "out/sub", "out/sub/b", "out/sub/c"};

TEST(AtomicFolder, AppearsWhole) {
  const test::TempFolder temp;
  auto folder = AtomicFolder::create(temp / "out");
  ASSERT_EQ(code_of(folder), kOk);
  ASSERT_EQ(code_of(fill(*folder)), kOk);
  EXPECT_FALSE(fs::exists(temp / "out"));
  ASSERT_EQ(code_of(folder->commit()), kOk);
  EXPECT_EQ(all_below(temp.path()), kWhole);
}

TEST(AtomicFolder, ScratchIsForThisUserAndGoes) {
  fs::path path;
  {
    auto folder = AtomicFolder::scratch();
    ASSERT_EQ(code_of(folder), kOk);
    path = folder->path();
    EXPECT_EQ(fs::canonical(path.parent_path()), fs::canonical(fs::temp_directory_path()));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    ASSERT_EQ(code_of(fill(*folder)), kOk);
    EXPECT_TRUE(fs::exists(path / "sub" / "c"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(AtomicFolder, WithoutCommitNothingStays) {
  const test::TempFolder temp;
  {
    auto folder = AtomicFolder::create(temp / "out");
    ASSERT_EQ(code_of(folder), kOk);
    ASSERT_EQ(code_of(fill(*folder)), kOk);
  }
  EXPECT_TRUE(all_below(temp.path()).empty());
}

TEST(AtomicFolder, TakesThePlaceOfAnEmptyFolderOnly) {
  const test::TempFolder temp;
  fs::create_directory(temp / "real");
  fs::create_directory_symlink("real", temp / "link");
  for (const char* name : {"real/", "link"}) {
    auto folder = AtomicFolder::create(temp / name);
    ASSERT_EQ(code_of(folder), kOk) << name;
    ASSERT_EQ(code_of(fill(*folder)), kOk);
    ASSERT_EQ(code_of(folder->commit()), kOk) << name;
    EXPECT_TRUE(fs::exists(temp / "real/sub/c"));
    EXPECT_EQ(code_of(AtomicFolder::create(temp / name)), ErrorCode::kInvalidArgument);
    fs::remove_all(temp / "real");
    fs::create_directory(temp / "real");
  }
  temp.write("file", "text");
  EXPECT_EQ(code_of(AtomicFolder::create(temp / "file")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(AtomicFolder::create(temp / "none/out")), ErrorCode::kIoError);
  EXPECT_TRUE(fs::is_symlink(temp / "link"));
}

TEST(AtomicFolder, WhatCameMeanwhileIsNotReplaced) {
  const test::TempFolder temp;
  auto folder = AtomicFolder::create(temp / "out");
  ASSERT_EQ(code_of(folder), kOk);
  temp.write("out/theirs", "text");
  EXPECT_EQ(code_of(folder->commit()), ErrorCode::kIoError);
  EXPECT_TRUE(fs::exists(temp / "out/theirs"));
}

TEST(AtomicFolder, ErrorsOfAWriterAndOfTheDisk) {
  const test::TempFolder temp;
  auto folder = AtomicFolder::create(temp / "out");
  ASSERT_EQ(code_of(folder), kOk);
  EXPECT_EQ(code_of(folder->write_file("x",
                                       [](const AtomicFolder::Sink&) -> Status {
                                         return fail(ErrorCode::kCancelled, "interrupted");
                                       })),
            ErrorCode::kCancelled);
  EXPECT_EQ(code_of(write(*folder, "none/x", "text")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(folder->rename_file("none", "y")), ErrorCode::kIoError);
  ASSERT_EQ(code_of(folder->make_folder("sub")), kOk);
  EXPECT_EQ(code_of(folder->make_folder("sub")), ErrorCode::kIoError);
}

TEST(AtomicFolder, ASignalHandlerRemovesItWithFoldersInFolders) {
  const test::TempFolder temp;
  auto folder = AtomicFolder::create(temp / "out");
  ASSERT_EQ(code_of(folder), kOk);
  ASSERT_EQ(code_of(fill(*folder)), kOk);
  ASSERT_EQ(code_of(folder->make_folder("sub/deep")), kOk);
  ASSERT_EQ(code_of(write(*folder, "sub/deep/d", "delta")), kOk);
  unlink_live_temporaries();
  EXPECT_TRUE(all_below(temp.path()).empty());
}

TEST(AtomicFolder, HasRoomForWhatAFleetHas) {
  constexpr int kEntries = 5000;  // more than AtomicFiles at once; files would wait for the disk
  const test::TempFolder temp;
  auto folder = AtomicFolder::create(temp / "out");
  ASSERT_EQ(code_of(folder), kOk);
  for (int i = 0; i < kEntries; ++i)
    ASSERT_EQ(code_of(folder->make_folder(std::format("folder{}", i))), kOk) << i;
  ASSERT_EQ(code_of(write(*folder, "folder7/x", "text")), kOk);
  unlink_live_temporaries();
  EXPECT_TRUE(all_below(temp.path()).empty());
}

TEST(AtomicFolder, RemovesWhatDeadProcessesLeft) {
  const test::TempFolder temp;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  temp.write(std::format(".out.ctxgen-{}-0.tmp/sub/x", dead), "text");
  temp.write(".out.ctxgen-1-0.tmp/x", "of a process that lives");
  temp.write(std::format(".other.ctxgen-{}-0.tmp/x", dead), "of another target");
  temp.write(std::format(".out.ctxgen-{}-1.tmp", dead), "a file");
  {
    ASSERT_EQ(code_of(AtomicFolder::create(temp / "out")), kOk);
  }
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(temp.path()))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{".out.ctxgen-1-0.tmp",
                                         std::format(".other.ctxgen-{}-0.tmp", dead),
                                         std::format(".out.ctxgen-{}-1.tmp", dead)}));
}

}  // namespace
}  // namespace ctxgen
