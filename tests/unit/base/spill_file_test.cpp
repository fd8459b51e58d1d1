#include "ctxgen/base/spill_file.h"

#include <sys/stat.h>

#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"
#include "unnamed_file.h"

namespace ctxgen {
namespace {

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) & 0xFF);
  return bytes;
}

bool lies_at(const Blob& blob, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(blob.bytes.data()) % alignment == 0;
}

TEST(SpillFile, KeepsBytesInMemoryUpToItsBudgetAndMovesTheRest) {
  const test::TempFolder folder;
  SpillFile file(folder / "net.bin", 1000);
  const Blob small = Blob::own(pattern(1000, 1));
  EXPECT_EQ(file.keep(small).value().bytes.data(), small.bytes.data());
  EXPECT_EQ(file.spilled_bytes(), 0U);
  const Blob large = Blob::own(pattern(300, 2));
  const Blob kept = file.keep(large).value();
  EXPECT_NE(kept.bytes.data(), large.bytes.data());
  EXPECT_TRUE(std::ranges::equal(kept.bytes, large.bytes));
  EXPECT_EQ(file.spilled_bytes(), 300U);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the file has no name";
}

TEST(SpillFile, AlignsAsFilesThatAreMapped) {
  const test::TempFolder folder;
  SpillFile file(folder / "net.bin", 0);
  for (const std::size_t size : {257U, 70'000U, 300U, 65'536U, 1'000'001U}) {
    const Blob kept = file.keep(Blob::own(pattern(size, 5))).value();
    EXPECT_TRUE(lies_at(kept, size >= 65'536 ? 4096 : 64)) << size;
    EXPECT_TRUE(std::ranges::equal(kept.bytes, pattern(size, 5))) << size;
  }
}

TEST(SpillFile, WhatItKeptOutlivesIt) {
  const test::TempFolder folder;
  Blob kept;
  {
    SpillFile file(folder / "net.bin", 0);
    kept = file.keep(Blob::own(pattern(5000, 3))).value();
  }
  EXPECT_TRUE(std::ranges::equal(kept.bytes, pattern(5000, 3)));
}

TEST(SpillFile, MovesTensorsThatOwnTheirMemoryAndNoOthers) {
  const test::TempFolder folder;
  SpillFile file(folder / "net.bin", 0);
  Tensor made = Tensor::allocate(DataType::kFloat, {100}).value();
  std::ranges::fill(made.mutable_elements<float>(), 2.5F);
  const Tensor kept = file.keep(made).value();
  EXPECT_NE(kept.bytes().data(), made.bytes().data());
  EXPECT_EQ(kept.dims(), made.dims());
  EXPECT_TRUE(std::ranges::equal(kept.bytes(), made.bytes()));
  EXPECT_EQ(file.keep(kept).value().bytes().data(), kept.bytes().data());
  EXPECT_TRUE(file.keep(Tensor::allocate(DataType::kString, {3}).value()).value().is_string());
}

TEST(SpillFile, WritesFromSeveralThreads) {
  const test::TempFolder folder;
  SpillFile file(folder / "net.bin", 0);
  std::vector<Blob> kept(64);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (unsigned i = t; i < kept.size(); i += 4)
          kept[i] = file.keep(Blob::own(pattern(1000 + i * 997, i))).value();
      });
  }
  for (unsigned i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(kept[i].bytes, pattern(1000 + i * 997, i))) << i;
}

TEST(SpillFile, NeedsAFolderOnlyWhenItWrites) {
  const test::TempFolder folder;
  SpillFile file(folder / "missing" / "net.bin", 0);
  EXPECT_TRUE(file.keep(Blob::own(pattern(100, 1)))) << "small bytes stay";
  EXPECT_EQ(test::code_of(file.keep(Blob::own(pattern(1000, 1)))), ErrorCode::kIoError);
}

TEST(UnnamedFile, LeavesNoNameEvenWithoutTmpfile) {
  const test::TempFolder folder;
  for (const bool tmpfile : {true, false}) {
    const UniqueFd fd = open_unnamed_file(folder / "net.bin", tmpfile).value();
    struct stat status{};
    ASSERT_EQ(::fstat(fd.get(), &status), 0);
    EXPECT_EQ(status.st_nlink, 0U);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    EXPECT_EQ(::write(fd.get(), "abc", 3), 3);
    char back[3] = {};
    EXPECT_EQ(::pread(fd.get(), back, 3, 0), 3);
  }
}

}  // namespace
}  // namespace ctxgen
