// A context binary from its bytes: as it is, and once more with the checksums of header and manifest put right.
#include <cstring>
#include <vector>

#include "ctxgen/base/checked.h"
#include "ctxgen/ctxfile/context_file.h"

#include "fuzz_input.h"
#include "header.h"

using namespace ctxgen;

namespace {

void open_all(const Blob& file) {
  const auto info = read_context_info(file.bytes, "fuzz");
  for (const VerifyBlobs verify : {VerifyBlobs::kNever, VerifyBlobs::kAlways}) {
    const auto reader = ContextReader::open(file, "fuzz", verify);
    if (!reader) continue;
    fuzz::expect(info.has_value(), "a context opens whose header is refused");
    for (std::size_t i = 0; i < reader->blobs().size(); ++i) {
      const auto blob = reader->blob(BlobIndex{static_cast<std::uint32_t>(i)});
      const bool compressed = reader->blobs()[i].encoding != BlobEncoding::kNone;
      fuzz::expect(blob.has_value() || (compressed && verify == VerifyBlobs::kNever),
                   "a blob that is not there");
      if (!blob) continue;
      fuzz::expect(blob->bytes.size() == reader->blobs()[i].size, "a blob of another size");
      fuzz::expect(
          verify == VerifyBlobs::kNever || hash_bytes(blob->bytes) == reader->blobs()[i].hash,
          "a verified blob has another hash");
    }
    for (std::size_t i = 0; i < reader->programs().size(); ++i) {
      const Program& program = reader->programs()[i];
      fuzz::expect(reader->find(program.name).has_value() == program.variant_of.empty(),
                   "a program is not found, or a variant is");
      for (const std::size_t variant : reader->variants(i))
        fuzz::expect(variant < reader->programs().size(), "a variant that is not there");
    }
    std::vector<BlobIndex> all;
    for (std::uint32_t i = 0; i < reader->blobs().size(); ++i) all.push_back({i});
    static_cast<void>(reader->decompress_blobs(all, 2));
    static_cast<void>(reader->verify_blobs());
  }
}

void put(std::vector<std::byte>& file, std::size_t at, Hash128 hash) {
  std::memcpy(file.data() + at, &hash.high, 8);
  std::memcpy(file.data() + at + 8, &hash.low, 8);
}

template <class T>
T number_at(const std::vector<std::byte>& file, std::size_t at) {
  T value{};
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

/// Where the fields stand: docs/format.md.
void repair(std::vector<std::byte>& file) {
  if (file.size() < kFixedHeaderBytes) return;
  const auto begin = number_at<std::uint64_t>(file, 40), size = number_at<std::uint64_t>(file, 48);
  if (range_fits(begin, size, file.size()))
    put(file, 56, hash_bytes(std::span(file).subspan(begin, size)));
  const auto header_size = number_at<std::uint32_t>(file, 12);
  if (header_size < kFixedHeaderBytes || header_size > file.size()) return;
  put(file, kChecksumOffset, Hash128{});
  put(file, kChecksumOffset, hash_bytes(std::span(file).first(header_size)));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  open_all(fuzz::exact(bytes));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  repair(file);
  open_all(fuzz::exact(file));
  return 0;
}
