// Two context binaries whose programs go into one: the sizes of the first as two bytes, then both. What is written is read
// again, and merging that again changes nothing.
#include "regroup/merged_bin.h"

#include <memory>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onednn/exec.h"

#include "fuzz_input.h"

using namespace ctxgen;

namespace {

using Readers = std::vector<std::shared_ptr<const ContextReader>>;

std::vector<std::byte> file_of(const ContextContent& content) {
  std::vector<std::byte> file;
  const Status written = write_context(content, [&](std::span<const std::byte> part) -> Status {
    file.insert(file.end(), part.begin(), part.end());
    return {};
  });
  fuzz::expect(written.has_value(), "programs that were read cannot be written");
  return file;
}

/// All programs that fit each other, as a file; empty: there are none.
std::vector<std::byte> merge(const Readers& readers) {
  MergedBin merged;
  for (const auto& reader : readers)
    for (std::size_t i = 0; i < reader->programs().size(); ++i)
      if (!merged.add(reader, i, "fuzz")) return {};
  return merged.empty() ? std::vector<std::byte>() : file_of(merged.finish(onednn::loader()));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  fuzz::Choices choices(bytes);
  const std::size_t first = static_cast<std::size_t>(choices.byte()) << 8 | choices.byte();
  const auto rest = choices.rest();
  Readers readers;
  for (const auto part :
       {rest.first(std::min(first, rest.size())), rest.subspan(std::min(first, rest.size()))})
    if (auto reader = ContextReader::open(fuzz::exact(part), "fuzz", VerifyBlobs::kNever))
      readers.push_back(std::make_shared<const ContextReader>(std::move(*reader)));
  const std::vector<std::byte> once = merge(readers);
  if (once.empty()) return 0;
  auto again = ContextReader::open(fuzz::exact(once), "fuzz", VerifyBlobs::kAlways);
  fuzz::expect(again.has_value(), "what was merged does not open");
  if (readers.size() == 2)
    fuzz::expect(merge({std::make_shared<const ContextReader>(std::move(*again))}) == once,
                 "merging again changes it");
  return 0;
}
