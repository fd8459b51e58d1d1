#include "ctxgen/kernels/move.h"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

// Every move against a loop over bytes. Results are exactly as large as what is written, so that sanitizers
// see what goes beyond; what lies between rows must stay as it was.
namespace ctxgen::kernels {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::int64_t count) {
  std::mt19937 generator(static_cast<unsigned>(count));
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

/// Bytes from the first to the last of `count` elements that are `stride` apart.
std::int64_t extent(std::int64_t count, std::int64_t stride) {
  return count == 0 ? 0 : (count - 1) * std::abs(stride) + 1;
}

void expect_rows(const RowCopy& copy) {
  SCOPED_TRACE(testing::Message() << copy.rows << " rows of " << copy.bytes << ", pitches "
                                  << copy.src_pitch << " and " << copy.dst_pitch);
  const std::int64_t from = extent(copy.rows, copy.src_pitch) - 1 + copy.bytes;
  const std::int64_t to = extent(copy.rows, copy.dst_pitch) - 1 + copy.bytes;
  const Bytes src = random_bytes(std::max<std::int64_t>(from, 0));
  Bytes dst = random_bytes(std::max<std::int64_t>(to, 0) + 1);
  dst.pop_back();
  Bytes expected = dst;
  const std::byte* first = src.data();
  if (copy.src_pitch < 0 && copy.rows > 0) first -= (copy.rows - 1) * copy.src_pitch;
  for (std::int64_t r = 0; r < copy.rows; ++r)
    for (std::int64_t i = 0; i < copy.bytes; ++i)
      expected[static_cast<std::size_t>(r * copy.dst_pitch + i)] = first[r * copy.src_pitch + i];
  copy_rows(copy, first, dst.data());
  EXPECT_EQ(dst, expected);
}

TEST(CopyRows, OfEveryLength) {
  for (std::int64_t bytes = 0; bytes <= 300; ++bytes)
    for (const std::int64_t rows : {0, 1, 3}) expect_rows({rows, bytes, bytes + 3, bytes + 5});
  for (const std::int64_t bytes : {1000, 4095, 4096, 4097, 70'000})
    expect_rows({2, bytes, bytes, bytes + 1});
}

TEST(CopyRows, ForwardsBackwardsAndRepeated) {
  for (const std::int64_t bytes : {1, 2, 3, 7, 12, 16, 31, 65, 129})
    for (const std::int64_t pitch : {std::int64_t{0}, -bytes, -2 * bytes, 2 * bytes})
      expect_rows({5, bytes, pitch, bytes});
}

void expect_transposed(const Transpose& t, std::int64_t element) {
  SCOPED_TRACE(testing::Message() << t.rows << " x " << t.columns << " of " << element
                                  << " bytes, pitches " << t.src_pitch << " and " << t.dst_pitch);
  const bool empty = t.rows == 0 || t.columns == 0;
  const std::int64_t from = empty ? 0 : extent(t.columns, t.src_pitch) - 1 + t.rows;
  const std::int64_t to = empty ? 0 : extent(t.rows, t.dst_pitch) - 1 + t.columns;
  const Bytes src = random_bytes(from * element);
  Bytes dst = random_bytes(to * element + 1);
  dst.pop_back();
  Bytes expected = dst;
  const std::byte* first = src.data();
  if (t.src_pitch < 0 && !empty) first -= (t.columns - 1) * t.src_pitch * element;
  for (std::int64_t r = 0; r < t.rows; ++r)
    for (std::int64_t c = 0; c < t.columns; ++c)
      std::memcpy(expected.data() + (r * t.dst_pitch + c) * element,
                  first + (c * t.src_pitch + r) * element, static_cast<std::size_t>(element));
  transpose(t, element, first, dst.data());
  EXPECT_EQ(dst, expected);
}

constexpr std::int64_t kElements[] = {1, 2, 4, 8};

TEST(Transpose, OfEverySmallSize) {
  for (const std::int64_t element : kElements)
    for (std::int64_t rows = 0; rows <= 36; ++rows)
      for (std::int64_t columns = 0; columns <= 36; ++columns)
        expect_transposed({rows, columns, rows, columns}, element);
}

TEST(Transpose, OfLargeAndPaddedSizes) {
  for (const std::int64_t element : kElements)
    for (const std::int64_t rows : {1, 2, 3, 4, 16, 49, 65, 130})
      for (const std::int64_t columns : {2, 3, 4, 5, 49, 64, 127, 200})
        expect_transposed({rows, columns, rows + 3, columns + 2}, element);
}

TEST(Transpose, OfInterleavedChannels) {
  for (const std::int64_t element : kElements)
    for (const std::int64_t few : {2, 3, 4})
      for (const std::int64_t many : {1, 15, 16, 17, 100, 257}) {
        expect_transposed({few, many, few, many + 1}, element);
        expect_transposed({many, few, many + 5, few}, element);
      }
}

TEST(Transpose, OfColumnsThatGoBackwardsOrRepeat) {
  for (const std::int64_t element : kElements)
    for (const std::int64_t pitch : {0, -50, -33}) expect_transposed({33, 40, pitch, 41}, element);
}

TEST(TakeEvery, OfEveryStride) {
  for (const std::int64_t element : kElements)
    for (std::int64_t count = 0; count <= 140; ++count)
      for (const std::int64_t stride : {-7, -2, -1, 0, 1, 2, 3, 5}) {
        SCOPED_TRACE(testing::Message()
                     << count << " of " << element << " bytes, stride " << stride);
        const Bytes src = random_bytes(extent(count, stride) * element);
        Bytes dst(static_cast<std::size_t>(count * element));
        Bytes expected = dst;
        const std::byte* first = src.data();
        if (stride < 0 && count > 0) first -= (count - 1) * stride * element;
        for (std::int64_t i = 0; i < count; ++i)
          std::memcpy(expected.data() + i * element, first + i * stride * element,
                      static_cast<std::size_t>(element));
        take_every(count, stride, element, first, dst.data());
        EXPECT_EQ(dst, expected);
      }
}

}  // namespace
}  // namespace ctxgen::kernels
