// Files of other format versions. They are put together here by the offsets of docs/format.md, and
// by nothing of the library, which can write its own version only.
#include <cstring>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/context_file.h"

#include "code_of.h"
#include "golden.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T number;
  std::memcpy(&number, bytes.subspan(at, sizeof(T)).data(), sizeof(T));
  return number;
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, T number) {
  std::memcpy(&bytes.at(at), &number, sizeof(T));
}

void put_hash(std::vector<std::byte>& bytes, std::size_t at, const Hash128& hash) {
  put(bytes, at, hash.high);
  put(bytes, at + 8, hash.low);
}

/// The golden file in its sections; file() puts them together with right offsets and checksums.
struct Sections {
  std::vector<std::byte> header;
  std::vector<std::byte> manifest;
  std::vector<std::byte> data;

  Sections() {
    const auto file = test::golden(test::kGoldenV1);
    const std::span<const std::byte> bytes(file);
    const auto part = [&](std::uint64_t begin, std::uint64_t size) {
      const auto span = bytes.subspan(begin, size);
      return std::vector<std::byte>(span.begin(), span.end());
    };
    header = part(0, number_at<std::uint32_t>(bytes, 12));
    manifest = part(number_at<std::uint64_t>(bytes, 40), number_at<std::uint64_t>(bytes, 48));
    const auto data_offset = number_at<std::uint64_t>(bytes, 72);
    data = part(data_offset, file.size() - data_offset);
  }

  void set_version(std::uint16_t major, std::uint16_t minor) {
    put(header, 8, major);
    put(header, 10, minor);
  }

  /// From 1.2 on: what a reader must know, group and number each.
  void add_needs(std::uint32_t count, const std::vector<std::uint16_t>& numbers) {
    header.resize(header.size() + 4);
    put(header, header.size() - 4, count);
    for (const std::uint16_t number : numbers) {
      header.resize(header.size() + 2);
      put(header, header.size() - 2, number);
    }
  }

  [[nodiscard]] std::vector<std::byte> file() const {
    auto out = header;
    out.resize((out.size() + 7) / 8 * 8);
    const std::uint64_t manifest_offset = out.size();
    out.insert(out.end(), manifest.begin(), manifest.end());
    out.resize((out.size() + 4095) / 4096 * 4096);
    const std::uint64_t data_offset = out.size();
    out.insert(out.end(), data.begin(), data.end());

    put(out, 12, static_cast<std::uint32_t>(header.size()));
    put(out, 32, std::uint64_t{out.size()});
    put(out, 40, manifest_offset);
    put(out, 48, std::uint64_t{manifest.size()});
    put_hash(out, 56, hash_bytes(manifest));
    put(out, 72, data_offset);
    put_hash(out, 16, Hash128{});
    put_hash(out, 16, hash_bytes(std::span<const std::byte>(out).first(header.size())));
    return out;
  }
};

Result<ContextReader> open(const std::vector<std::byte>& file) {
  return ContextReader::open(Blob::own(file), "skewed", VerifyBlobs::kAlways);
}

TEST(Skew, TheSectionsMakeTheGoldenFile) {
  EXPECT_TRUE(Sections().file() == test::golden(test::kGoldenV1));
}

TEST(Skew, AnotherMajorIsRefusedByName) {
  for (std::uint16_t major : {0, 2, 999}) {
    Sections sections;
    sections.set_version(major, 7);
    const auto reader = open(sections.file());
    ASSERT_EQ(code_of(reader), ErrorCode::kVersionMismatch) << major;
    EXPECT_NE(reader.error().message.find(std::to_string(major) + ".7"), std::string::npos)
        << reader.error().message;
    EXPECT_EQ(code_of(read_context_info(sections.file(), "skewed")), ErrorCode::kVersionMismatch);
  }
}

TEST(Skew, AnotherMajorIsNamedWhateverStandsBehindThePrefix) {
  Sections sections;
  sections.set_version(2, 0);
  auto file = sections.file();
  file.resize(16);
  EXPECT_EQ(code_of(open(file)), ErrorCode::kVersionMismatch);
}

TEST(Skew, ANewerMinorIsRead) {
  Sections sections;
  sections.set_version(1, kFormatMinor + 1);
  sections.add_needs(2, {1, 40, 9, 1});
  const auto reader = open(sections.file());
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(reader->info().format_minor, kFormatMinor + 1);
  EXPECT_EQ(reader->info().needs, (std::vector<Need>{{1, 40}, {9, 1}}));
  EXPECT_EQ(reader->programs()[0], test::sample_dense());
}

/// To a 1.0 reader the fields of 1.1 are unknown ones: a file that has them under numbers that this
/// reader does not know opens as it does there.
TEST(Skew, A1_0ReaderSeesVariantsAsFurtherPrograms) {
  ContextContent content = test::sample_content_1_1();
  const auto file = test::file_of(content);  // not compressed
  ASSERT_EQ(number_at<std::uint16_t>(file, 10), 1);
  auto old = file;
  const auto begin = number_at<std::uint64_t>(file, 40), size = number_at<std::uint64_t>(file, 48);
  int renamed = 0;
  for (std::uint64_t at = begin; at + 2 < begin + size; ++at) {
    // Tags of text fields 12 and 13 before what they hold here; 15 is not known.
    const auto tag = std::to_integer<unsigned>(old[at]);
    const std::string_view text = as_text(std::span<const std::byte>(old).subspan(at + 2, 4));
    if ((tag != 0x62 && tag != 0x6a) || (text != "avx2" && text != "avx5" && text != "dnnl"))
      continue;
    old[at] = std::byte{0x7a};
    ++renamed;
  }
  ASSERT_EQ(renamed, 3);
  put_hash(old, 56, hash_bytes(std::span<const std::byte>(old).subspan(begin, size)));
  put_hash(old, 16, Hash128{});
  put_hash(old, 16,
           hash_bytes(std::span<const std::byte>(old).first(number_at<std::uint32_t>(old, 12))));
  const auto reader = open(old);
  ASSERT_EQ(code_of(reader), test::kOk) << reader.error().message;
  EXPECT_EQ(reader->find("dnnl_sample_0").value(), 0U);
  EXPECT_EQ(reader->programs()[0], test::sample_dense());
  EXPECT_EQ(reader->variants(0).size(), 1U);
  // The fingerprint names no single instruction set, which refuses the file before any of this.
  EXPECT_NE(reader->info().fingerprint.find("isa=avx2,avx512_core"), std::string::npos);
}

TEST(Skew, WhatANewerMinorAddsIsPassedOver) {
  Sections sections;
  sections.set_version(1, 200);
  sections.add_needs(0, {});
  sections.header.resize(sections.header.size() + 21, std::byte{0xab});  // header fields
  for (unsigned char byte : {0xc2, 0x3e, 0x02, 0x68, 0x69})  // manifest field 1000: "hi"
    sections.manifest.push_back(std::byte{byte});
  sections.data.resize(sections.data.size() + 5000, std::byte{0xcd});  // sections
  const auto reader = open(sections.file());
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(reader->programs()[1], test::sample_scalar());
  EXPECT_EQ(as_text(reader->blob(BlobIndex{2})->bytes),
            as_text(test::sample_content().blobs[2].bytes));
  EXPECT_EQ(code_of(read_context_info(sections.file(), "skewed")), test::kOk);
}

TEST(Skew, NeedsThatDoNotFitTheHeaderAreRefused) {
  const std::pair<std::uint32_t, std::vector<std::uint16_t>> cases[] = {
      {1, {}},           {2, {1, 1}},       {0xffffffff, {1, 1}},  // more than there are
      {2, {1, 2, 1, 1}}, {2, {1, 1, 1, 1}}, {2, {2, 1, 1, 1}},
  };
  for (const auto& [count, numbers] : cases) {
    Sections sections;
    sections.set_version(1, 3);
    sections.add_needs(count, numbers);
    EXPECT_EQ(code_of(open(sections.file())), ErrorCode::kCorruptContext) << count;
    EXPECT_EQ(code_of(read_context_info(sections.file(), "skewed")), ErrorCode::kCorruptContext);
  }
  Sections without;  // not even their count
  without.set_version(1, 2);
  EXPECT_EQ(code_of(open(without.file())), ErrorCode::kCorruptContext);
}

TEST(Skew, OurOwnMinorHasNothingToPassOver) {
  Sections header;
  header.header.resize(header.header.size() + 1, std::byte{0});
  EXPECT_EQ(code_of(open(header.file())), ErrorCode::kCorruptContext);
  Sections data;
  data.data.push_back(std::byte{0});
  EXPECT_EQ(code_of(open(data.file())), ErrorCode::kCorruptContext);
}

TEST(Skew, ANewerMinorIsVerifiedAllTheSame) {
  Sections sections;
  sections.set_version(1, kFormatMinor + 1);
  sections.add_needs(0, {});
  auto file = sections.file();
  file[20] ^= std::byte{1};
  EXPECT_EQ(code_of(open(file)), ErrorCode::kCorruptContext);
  file = sections.file();
  file.back() ^= std::byte{1};
  EXPECT_EQ(code_of(open(file)), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
