#include "ctxgen/ctxfile/sharing.h"

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

/// A program whose weights are these blobs.
Program program_of(std::initializer_list<std::uint32_t> blobs) {
  Program program;
  for (const std::uint32_t blob : blobs)
    program.weights.push_back(
        {.name = "w", .type = DataType::kFloat, .dims = {}, .packed = {{{}, BlobIndex{blob}}}});
  return program;
}

using Names = std::vector<std::string>;

TEST(Sharing, GroupsBlobsByWhoUsesThem) {
  const Program a = program_of({0, 1, 2, 4}), b = program_of({0, 1, 3}), c = program_of({0, 4, 4});
  const ProgramUser users[] = {{"a", &a}, {"b", &b}, {"c", &c}};
  const std::uint64_t bytes[] = {100, 10, 1, 1, 1000};
  const auto groups = find_shared_blobs(users, bytes);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].users, (Names{"a", "c"}));
  EXPECT_EQ(groups[0].bytes, 1000U);
  EXPECT_EQ(groups[0].saved_bytes, 2000U) << "once by a, twice by c";
  EXPECT_EQ(groups[1].users, (Names{"a", "b", "c"}));
  EXPECT_EQ(groups[1].saved_bytes, 200U);
  EXPECT_EQ(groups[2].users, (Names{"a", "b"}));
  EXPECT_EQ(groups[2].blobs, 1U);
}

TEST(Sharing, OneUserMayShareWithItself) {
  const Program twice = program_of({0, 0});
  const ProgramUser users[] = {{"a", &twice}};
  const std::uint64_t bytes[] = {7};
  const auto groups = find_shared_blobs(users, bytes);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].users, Names{"a"});
  EXPECT_EQ(groups[0].saved_bytes, 7U);
}

TEST(Sharing, BlobsThatAreNotThereAreNoOnes) {
  const Program damaged = program_of({9, 9});
  const ProgramUser users[] = {{"a", &damaged}};
  EXPECT_TRUE(find_shared_blobs(users, {}).empty());
  EXPECT_TRUE(find_shared_blobs({}, {}).empty());
}

}  // namespace
}  // namespace ctxgen
