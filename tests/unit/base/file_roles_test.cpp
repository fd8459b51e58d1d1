#include "ctxgen/base/file_roles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using How = FileUse::How;
using test::code_of;
using test::kOk;

FileUse reads(fs::path path) { return {How::kRead, std::move(path), "an input"}; }
FileUse writes(fs::path path) { return {How::kWritten, std::move(path), "an output"}; }

TEST(FileUses, MayReadTwiceAndReplaceWhatNobodyReads) {
  const test::TempFolder temp;
  temp.write("old", "");
  EXPECT_EQ(code_of(check_file_uses({})), kOk);
  EXPECT_EQ(code_of(check_file_uses({reads(temp / "in"), reads(temp / "in"), writes(temp / "old"),
                                     writes(temp / "new")})),
            kOk);
}

TEST(FileUses, NothingReadIsWritten) {
  const test::TempFolder temp;
  temp.write("in", "");
  fs::create_symlink("in", temp / "link");
  fs::create_hard_link(temp / "in", temp / "hard");
  fs::create_directory_symlink(".", temp / "here");
  for (const fs::path& path : {temp / "in", temp / "link", temp / "hard", temp / "here/in",
                               temp / "./in", temp / "x/../in"}) {
    EXPECT_EQ(code_of(check_file_uses({reads(temp / "in"), writes(path)})),
              ErrorCode::kInvalidArgument)
        << path;
    EXPECT_EQ(code_of(check_file_uses({writes(temp / "in"), reads(path)})),
              ErrorCode::kInvalidArgument)
        << path;
  }
}

TEST(FileUses, NothingIsWrittenTwice) {
  const test::TempFolder temp;
  fs::create_directory(temp / "sub");
  fs::create_directory_symlink("sub", temp / "link");
  EXPECT_EQ(code_of(check_file_uses({writes(temp / "new"), writes(temp / "new")})),
            ErrorCode::kInvalidArgument);
  // Files that are not there yet have real paths, too.
  EXPECT_EQ(code_of(check_file_uses({writes(temp / "sub/new"), writes(temp / "link/new")})),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(check_file_uses({writes(temp / "sub/new"), writes(temp / "new")})), kOk);
}

TEST(FileUses, RelativePathsMeetAbsoluteOnes) {
  const test::TempFolder temp;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  const auto outcome = code_of(check_file_uses({writes("new"), writes(temp / "new")}));
  fs::current_path(before);
  EXPECT_EQ(outcome, ErrorCode::kInvalidArgument);
}

TEST(FileUses, NoFileLiesWhereAFolderHasToBe) {
  const test::TempFolder temp;
  EXPECT_EQ(code_of(check_file_uses({writes(temp / "x"), writes(temp / "x/y/z")})),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(check_file_uses(
                {{How::kFolder, temp / "cache", "the cache"}, writes(temp / "cache")})),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(check_file_uses(
                {{How::kFolder, temp / "cache/", "the cache"}, writes(temp / "cache/x")})),
            kOk);
}

TEST(FileUses, DevicesTakeAnything) {
  EXPECT_EQ(
      code_of(check_file_uses({writes("/dev/null"), writes("/dev/null"), reads("/dev/null")})),
      kOk);
}

TEST(CheckWritable, AsksTheFolderAndWhatIsThere) {
  const test::TempFolder temp;
  temp.write("file", "old");
  fs::create_symlink("file", temp / "link");
  fs::create_symlink("missing", temp / "dangling");
  EXPECT_EQ(code_of(check_writable(temp / "new")), kOk);
  EXPECT_EQ(code_of(check_writable(temp / "file")), kOk);
  EXPECT_EQ(code_of(check_writable(temp / "link")), kOk);
  EXPECT_EQ(code_of(check_writable("/dev/null")), kOk);
  EXPECT_EQ(code_of(check_writable(temp / "dangling")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_writable(temp / "no/new")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_writable(temp / "file/new")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_writable(temp.path())), ErrorCode::kIoError);
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(temp.path().c_str(), 0500), 0);
    EXPECT_EQ(code_of(check_writable(temp / "new")), ErrorCode::kIoError);
    ASSERT_EQ(::chmod(temp.path().c_str(), 0700), 0);
  }
}

TEST(Streams, AreTold) {
  const test::TempFolder temp;
  fs::create_symlink("/dev/stdout", temp / "out");
  ASSERT_EQ(::mkfifo((temp / "fifo").c_str(), 0600), 0);
  EXPECT_TRUE(is_stream("/dev/null"));
  EXPECT_TRUE(is_stream(temp / "fifo"));
  EXPECT_FALSE(is_stream(temp / "new"));
  EXPECT_TRUE(is_standard_output(temp / "out"));
  EXPECT_TRUE(is_standard_output("/dev/fd/1"));
  EXPECT_TRUE(is_standard_output("/proc/self/fd/1"));
  EXPECT_FALSE(is_standard_output("/dev/fd/2"));
  EXPECT_FALSE(is_standard_output("/dev/null"));
}

}  // namespace
}  // namespace ctxgen
