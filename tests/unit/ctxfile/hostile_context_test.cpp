// Files whose checksums are right and whose content is not: checksums guard against accidents only.
#include <functional>

#include <gtest/gtest.h>

#include "ctxgen/base/checked.h"

#include "code_of.h"
#include "header.h"
#include "manifest.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

/// A file in pieces, put together with right checksums after a test has changed a piece.
struct Pieces {
  Header header;
  Manifest manifest;
  std::vector<std::byte> data;
  bool lay_out = true;  // work out the header's offsets and sizes

  Pieces() {
    const auto file = test::file_of(test::sample_content());
    header = decode_header(file).value();
    manifest =
        decode_manifest(std::span(file).subspan(header.manifest_offset, header.manifest_size))
            .value();
    data.assign(file.begin() + static_cast<std::ptrdiff_t>(header.data_offset), file.end());
  }

  void rehash_programs() {
    for (std::size_t i = 0; i < manifest.programs.size(); ++i)
      manifest.program_hashes[i] = hash_program(manifest.programs[i], [&](BlobRef blob) {
        return manifest.blobs.at(blob.bin_index().value).hash;
      });
  }

  [[nodiscard]] std::vector<std::byte> file() const {
    const auto bytes =
        encode_manifest(manifest.programs, manifest.program_hashes, manifest.blobs).value();
    Header head = header;
    head.manifest_hash = hash_bytes(bytes);
    const std::uint64_t begin = align_up(header_size_of(head.info), kManifestAlignment);
    const std::uint64_t data_begin = align_up(begin + bytes.size(), kDataAlignment);
    if (lay_out) {
      head.manifest_offset = begin;
      head.manifest_size = bytes.size();
      head.data_offset = data_begin;
      head.file_size = data_begin + data.size();
    }
    auto out = encode_header(head).value();
    out.resize(begin);
    out.insert(out.end(), bytes.begin(), bytes.end());
    out.resize(data_begin);
    out.insert(out.end(), data.begin(), data.end());
    return out;
  }
};

test::Outcome open_changed(const std::function<void(Pieces&)>& change) {
  Pieces pieces;
  change(pieces);
  return code_of(ContextReader::open(Blob::own(pieces.file()), "test", VerifyBlobs::kAlways));
}

constexpr std::uint64_t kMax = ~std::uint64_t{0};

TEST(HostileContext, ThePiecesMakeAGoodFile) {
  EXPECT_EQ(open_changed([](Pieces&) {}), test::kOk);
  EXPECT_EQ(open_changed([](Pieces& p) { p.rehash_programs(); }), test::kOk);
  EXPECT_EQ(Pieces().file(), test::file_of(test::sample_content()));
}

TEST(HostileContext, HeaderThatPointsElsewhere) {
  const std::function<void(Header&)> changes[] = {
      [](Header& h) { h.file_size += 1; },
      [](Header& h) { h.file_size -= 1; },
      [](Header& h) { h.file_size = kMax; },
      [](Header& h) { h.file_size = 0; },
      [](Header& h) { h.manifest_offset += 8; },
      [](Header& h) { h.manifest_offset = kMax; },
      [](Header& h) { h.manifest_offset = 0; },
      [](Header& h) { h.manifest_size += 1; },
      [](Header& h) { h.manifest_size = 0; },
      [](Header& h) { h.manifest_size = kMax; },
      [](Header& h) { h.manifest_size = kMaxManifestBytes; },
      [](Header& h) { h.manifest_size = kMaxManifestBytes + 1; },
      [](Header& h) { h.data_offset += 4096; },
      [](Header& h) { h.data_offset = kMax; },
      [](Header& h) { h.data_offset = 0; },
  };
  int number = 0;
  for (const auto& change : changes)
    EXPECT_EQ(open_changed([&](Pieces& p) {
                p.lay_out = false;
                change(p.header);
              }),
              ErrorCode::kCorruptContext)
        << "change " << number++;
}

TEST(HostileContext, BlobsThatLieWrong) {
  const std::function<void(std::vector<ManifestBlob>&)> changes[] = {
      [](auto& b) { b[0].offset = kMax; },
      [](auto& b) { b[0].size = kMax; },
      [](auto& b) { b[2].size += 1; },   // ends behind the file
      [](auto& b) { b[2].size -= 1; },   // the file ends behind it
      [](auto& b) { b[2].offset = 0; },  // overlaps the first
      [](auto& b) { std::swap(b[0].offset, b[1].offset); },
      [](auto& b) { b[1].offset += 1; },  // not aligned
      [](auto& b) { b[1].offset = b[0].offset; },
      [](auto& b) { b.pop_back(); },  // and the programs refer to it
      [](auto& b) { b.clear(); },
  };
  int number = 0;
  for (const auto& change : changes)
    EXPECT_EQ(open_changed([&](Pieces& p) { change(p.manifest.blobs); }),
              ErrorCode::kCorruptContext)
        << "change " << number++;
}

TEST(HostileContext, ALargeBlobNeedsAPage) {
  const auto with_offset = [](std::uint64_t offset) {
    return open_changed([&](Pieces& p) {
      p.data.assign(offset + kLargeBlobBytes, std::byte{0});
      p.manifest.programs.clear();
      p.manifest.program_hashes.clear();
      const auto content = std::span<const std::byte>(p.data).subspan(offset);
      p.manifest.blobs = {{offset, content.size(), hash_bytes(content), 0}};
    });
  };
  EXPECT_EQ(with_offset(0), test::kOk);
  EXPECT_EQ(with_offset(4096), test::kOk);
  EXPECT_EQ(with_offset(64), ErrorCode::kCorruptContext);
}

TEST(HostileContext, AnEncodingThatIsNotKnownIsAVersionMismatch) {
  EXPECT_EQ(open_changed([](Pieces& p) { p.manifest.blobs[0].encoding = 2; }),
            ErrorCode::kVersionMismatch);
  EXPECT_EQ(open_changed([](Pieces& p) { p.manifest.blobs[0].encoding = 0xffffffff; }),
            ErrorCode::kVersionMismatch);
}

TEST(HostileContext, SizesThatACompressedBlobCannotHave) {
  const auto with_size = [](std::uint32_t encoding, std::uint64_t size) {
    return open_changed([&](Pieces& p) {
      p.manifest.blobs[0].encoding = encoding;
      p.manifest.blobs[0].content_size = size;
    });
  };
  EXPECT_EQ(with_size(0, 1), ErrorCode::kCorruptContext);
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{32}, kMaxTensorBytes + 1, kMax})
    EXPECT_EQ(with_size(1, size), ErrorCode::kCorruptContext) << size;
  // The blob's 32 bytes are no frame: seen when they are verified, before anything is allocated.
  for (const std::uint64_t size : {std::uint64_t{33}, std::uint64_t{1} << 20, kMaxTensorBytes})
    EXPECT_TRUE(with_size(1, size) == ErrorCode::kCorruptContext ||
                with_size(1, size) == ErrorCode::kResourceLimit)
        << size;
}

TEST(HostileContext, VariantsThatAreNone) {
  const auto with_variant = [](const std::function<void(Manifest&, Program&)>& change) {
    return open_changed([&](Pieces& p) {
      p.manifest.programs[0].isa = "avx2";
      Program variant = p.manifest.programs[0];
      variant.variant_of = variant.name;
      variant.name = "other";
      variant.isa = "avx512_core";
      change(p.manifest, variant);
      p.manifest.programs.push_back(std::move(variant));
      p.manifest.program_hashes.emplace_back();
      p.rehash_programs();
    });
  };
  EXPECT_EQ(with_variant([](auto&, auto&) {}), test::kOk);
  const std::function<void(Manifest&, Program&)> changes[] = {
      [](auto&, Program& v) { v.isa.clear(); },
      [](auto&, Program& v) { v.isa = "avx2"; },  // the partition's own
      [](auto&, Program& v) { v.variant_of = "nobody"; },
      [](auto&, Program& v) { v.variant_of = v.name; },  // itself
      [](Manifest& m, auto&) { m.programs[0].isa.clear(); },
      [](Manifest& m, auto&) { m.programs[0].variant_of = m.programs[1].name; },  // a chain
      [](auto&, Program& v) { v.source = "somebody else"; },
      [](auto&, Program& v) { v.values[0].name = "renamed"; },
      [](auto&, Program& v) { std::swap(v.outputs[0], v.outputs[1]); },
      [](auto&, Program& v) { v.outputs.pop_back(); },
  };
  int number = 0;
  for (const auto& change : changes)
    EXPECT_EQ(with_variant(change), ErrorCode::kCorruptContext) << "change " << number++;
}

TEST(HostileContext, ProgramsThatAreNotWhatTheirHashSays) {
  EXPECT_EQ(open_changed([](Pieces& p) { p.manifest.program_hashes[0].low ^= 1; }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(open_changed([](Pieces& p) { p.manifest.programs[0].ops[0].kind = "conv"; }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(open_changed([](Pieces& p) {
              auto& weights = p.manifest.programs[0].weights;
              std::swap(weights[0].packed[0].blob, weights[1].packed[0].blob);
            }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(open_changed([](Pieces& p) {
              p.manifest.programs[0].ops[0].kind = "conv";
              p.rehash_programs();
            }),
            test::kOk);
}

TEST(HostileContext, ProgramsThatBreakTheRules) {
  EXPECT_EQ(open_changed([](Pieces& p) {
              p.manifest.programs[1].inputs.clear();
              p.rehash_programs();
            }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(open_changed(
                [](Pieces& p) { p.manifest.programs[1].weights[0].packed[0].blob = BlobIndex{3}; }),
            ErrorCode::kCorruptContext);
}

TEST(HostileContext, TwoPartitionsOfOneName) {
  EXPECT_EQ(
      open_changed([](Pieces& p) { p.manifest.programs[1].name = p.manifest.programs[0].name; }),
      ErrorCode::kCorruptContext);
}

TEST(HostileContext, PaddingThatHidesSomething) {
  const auto good = Pieces().file();
  const Header header = decode_header(good).value();
  const std::uint64_t gaps[] = {header.manifest_end(), header.data_offset - 1,
                                header.data_offset + 32, header.data_offset + 63};
  for (std::uint64_t at : gaps) {
    auto file = good;
    ASSERT_EQ(file[at], std::byte{0});
    file[at] = std::byte{1};
    EXPECT_EQ(code_of(ContextReader::open(Blob::own(file), "test", VerifyBlobs::kAlways)),
              ErrorCode::kCorruptContext)
        << at;
    EXPECT_EQ(code_of(ContextReader::open(Blob::own(file), "test", VerifyBlobs::kNever)), test::kOk)
        << at;
  }
}

TEST(HostileContext, TextsThatPassTheHeader) {
  // Texts' lengths stand at 80, 84 and 88; encode_header cannot write wrong ones.
  for (std::size_t at : {80U, 84U, 88U})
    for (unsigned char value : {0U, 1U, 200U, 255U}) {
      auto file = Pieces().file();
      const Header header = decode_header(file).value();
      if (file[at] == std::byte{value}) continue;
      file[at] = std::byte{value};
      std::fill_n(file.begin() + kChecksumOffset, kChecksumBytes, std::byte{0});
      const Hash128 checksum = hash_bytes(std::span(file).first(header.header_size));
      std::memcpy(&file[kChecksumOffset], &checksum.high, 8);
      std::memcpy(&file[kChecksumOffset + 8], &checksum.low, 8);
      EXPECT_EQ(code_of(read_context_info(file, "test")), ErrorCode::kCorruptContext)
          << at << " " << int{value};
    }
}

}  // namespace
}  // namespace ctxgen
