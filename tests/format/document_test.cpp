// docs/format.md is normative; what can be compared in it is.
#include <algorithm>
#include <format>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/context_file.h"

#include "golden.h"

namespace ctxgen {
namespace {

/// One line of the dump: "00000010: ba64 e1c2 ...", without the text behind the bytes.
std::string dump_line(std::span<const std::byte> file, std::size_t offset) {
  std::string line = std::format("{:08x}:", offset);
  for (std::size_t i = offset; i < std::min(offset + 16, file.size()); ++i)
    line += std::format("{}{:02x}", i % 2 == 0 ? " " : "", std::to_integer<unsigned>(file[i]));
  return line;
}

bool all_zero(std::span<const std::byte> file, std::size_t begin, std::size_t end) {
  return std::ranges::all_of(file.subspan(begin, end - begin),
                             [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(FormatPage, ShowsTheGoldenFile) {
  const auto file = test::golden(test::kGoldenV1);
  std::ifstream page(CTXGEN_FORMAT_PAGE);
  std::size_t next = 0;  // the first byte not yet shown
  for (std::string line; std::getline(page, line);) {
    if (line.size() < 10 || line.find_first_not_of("0123456789abcdef") != 8 || line[8] != ':')
      continue;
    const std::size_t offset = std::stoul(line.substr(0, 8), nullptr, 16);
    ASSERT_LE(next, offset) << line;
    ASSERT_LE(offset, file.size()) << line;
    EXPECT_TRUE(all_zero(file, next, offset)) << line;
    const std::string expected = dump_line(file, offset);
    EXPECT_EQ(line.substr(0, expected.size()), expected);
    next = std::min(offset + 16, file.size());
  }
  EXPECT_EQ(next, file.size());
}

TEST(FormatPage, NamesTheCurrentVersion) {
  std::ifstream page(CTXGEN_FORMAT_PAGE);
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_NE(text.find(std::format("format version **{}.{}**", kFormatMajor, kFormatMinor)),
            std::string::npos);
}

}  // namespace
}  // namespace ctxgen
