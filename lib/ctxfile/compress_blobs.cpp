#include "ctxgen/weights/codec.h"

#include "blob_cache.h"

namespace ctxgen {

Status compress_blobs(ContextContent& content, int level, int threads) {
  content.compressed.assign(content.blobs.size(), Blob{});
  return for_each_index(content.blobs.size(), threads, [&](std::size_t i) -> Status {
    const std::span<const std::byte> bytes = content.blobs[i].bytes;
    std::vector<std::byte> frame = CTXGEN_TRY(compress(bytes, level));
    if (frame.size() < bytes.size()) content.compressed[i] = Blob::own(std::move(frame));
    return {};
  });
}

}  // namespace ctxgen
