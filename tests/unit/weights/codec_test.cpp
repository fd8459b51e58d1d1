#include "ctxgen/weights/codec.h"

#include <cstring>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

std::vector<std::byte> repeated(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 61);
  return bytes;
}

TEST(Codec, ComesBackAtEveryLevel) {
  const auto bytes = repeated(300000);
  for (int level = kMinCompressLevel; level <= kMaxCompressLevel; level += 6) {
    const auto frame = compress(bytes, level).value();
    EXPECT_LT(frame.size(), bytes.size() / 10);
    const Blob back = decompress(frame, bytes.size()).value();
    EXPECT_EQ(as_text(back.bytes), as_text(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(back.bytes.data()) % 64, 0U);
  }
  EXPECT_EQ(decompress(compress({}, 3).value(), 0).value().bytes.size(), 0U);
}

TEST(Codec, RefusesAnotherSizeThanTheFrames) {
  const auto bytes = repeated(5000);
  const auto frame = compress(bytes, 3).value();
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{4999}, std::uint64_t{5001},
                                   std::uint64_t{1} << 40, UINT64_MAX})
    EXPECT_EQ(code_of(decompress(frame, size)), ErrorCode::kCorruptContext) << size;
}

TEST(Codec, RefusesWhatIsNoSingleFrame) {
  const auto bytes = repeated(5000);
  auto frame = compress(bytes, 3).value();
  for (std::size_t n = 0; n < frame.size(); ++n)
    EXPECT_EQ(code_of(decompress(std::span(frame).first(n), 5000)), ErrorCode::kCorruptContext)
        << n;
  auto twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  EXPECT_EQ(code_of(decompress(twice, 5000)), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(decompress(repeated(40), 41)), ErrorCode::kCorruptContext);
}

TEST(Codec, AFlippedBitIsFound) {
  const auto bytes = repeated(5000);
  const auto frame = compress(bytes, 3).value();
  for (std::size_t at = 0; at < frame.size(); ++at) {
    auto damaged = frame;
    damaged[at] ^= std::byte{4};
    const auto back = decompress(damaged, bytes.size());
    EXPECT_TRUE(!back || std::memcmp(back->bytes.data(), bytes.data(), bytes.size()) == 0) << at;
  }
}

}  // namespace
}  // namespace ctxgen
