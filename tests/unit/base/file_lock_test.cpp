#include "ctxgen/base/file_lock.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen::test {
namespace {

using std::chrono::milliseconds;

TEST(FileLock, HasOneOwner) {
  const TempFolder folder;
  for (const auto& path : {folder.write("file", "text"), folder.path()}) {
    FileLock lock = lock_path(path, {}).value();
    ASSERT_NE(lock, nullptr);
    EXPECT_EQ(code_of(lock_path(path, {.most = milliseconds(30)})), ErrorCode::kIoError);
    lock.reset();
    EXPECT_NE(lock_path(path, {.most = milliseconds(0)}).value(), nullptr);
  }
}

TEST(FileLock, WaitsUntilItIsFree) {
  const TempFolder folder;
  FileLock lock = lock_path(folder.path(), {}).value();
  std::atomic<bool> freed = false;
  const std::jthread owner([&] {
    std::this_thread::sleep_for(milliseconds(60));
    freed = true;
    lock.reset();
  });
  EXPECT_NE(lock_path(folder.path(), {}).value(), nullptr);
  EXPECT_TRUE(freed);
}

TEST(FileLock, CanBeCancelled) {
  const TempFolder folder;
  const FileLock lock = lock_path(folder.path(), {}).value();
  EXPECT_EQ(code_of(lock_path(folder.path(), {.cancelled = [] { return true; }})),
            ErrorCode::kCancelled);
}

TEST(FileLock, IsOfTheFileThatThePathNames) {
  const TempFolder folder;
  const auto path = folder.write("file", "old");
  const FileLock old = lock_path(path, {}).value();
  std::filesystem::rename(folder.write("new", "new"), path);
  EXPECT_NE(lock_path(path, {.most = milliseconds(0)}).value(), nullptr);
}

TEST(FileLock, NeedsSomethingToLock) {
  const TempFolder folder;
  EXPECT_EQ(code_of(lock_path(folder / "none", {})), ErrorCode::kIoError);
}

}  // namespace
}  // namespace ctxgen::test
