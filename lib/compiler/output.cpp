#include "output.h"

#include "ctxgen/base/file.h"

namespace ctxgen {

Status write_files(const std::vector<OutputFile>& files,
                   const std::function<Status()>& before_renames) {
  for (const OutputFile& file : files) remove_stale_temporaries(file.path);
  std::vector<AtomicFile> open;
  for (const OutputFile& file : files) {
    open.push_back(CTXGEN_TRY(AtomicFile::create(file.path)));
    AtomicFile& target = open.back();
    CTXGEN_CHECK(
        file.write([&](std::span<const std::byte> bytes) { return target.write(bytes); }));
  }
  for (AtomicFile& file : open) CTXGEN_CHECK(file.flush());
  if (before_renames) CTXGEN_CHECK(before_renames());
  for (AtomicFile& file : open) CTXGEN_CHECK(file.commit());
  return {};
}

Result<Blob> write_to_memory(const std::function<Status(const ByteSink&)>& write) {
  std::vector<std::byte> bytes;
  CTXGEN_CHECK(write([&](std::span<const std::byte> part) -> Status {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};
  }));
  return Blob::own(std::move(bytes));
}

}  // namespace ctxgen
