#include "ctxgen/weights/codec.h"

#include <algorithm>
#include <memory>

#include <zstd.h>

#include "ctxgen/base/tensor.h"

namespace ctxgen {
namespace {

/// A frame's block gives at most 128 KiB and takes at least 4 bytes.
constexpr std::uint64_t kMostBytesPerByte = 128 * 1024 / 4;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

}  // namespace

Result<std::vector<std::byte>> compress(std::span<const std::byte> bytes, int level) {
  const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  if (context == nullptr) return fail(ErrorCode::kResourceLimit, "zstd: out of memory");
  const int given = std::clamp(level, kMinCompressLevel, kMaxCompressLevel);
  for (const auto& [parameter, value] :
       {std::pair{ZSTD_c_compressionLevel, given}, std::pair{ZSTD_c_checksumFlag, 1}})
    if (const auto set = ZSTD_CCtx_setParameter(context.get(), parameter, value); ZSTD_isError(set))
      return fail(ErrorCode::kInternal, "zstd: {}", ZSTD_getErrorName(set));
  std::vector<std::byte> frame(ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size))
    return fail(ErrorCode::kResourceLimit, "zstd: {}", ZSTD_getErrorName(size));
  frame.resize(size);
  frame.shrink_to_fit();
  return frame;
}

Result<Blob> decompress(std::span<const std::byte> frame, std::uint64_t size) {
  if (size / kMostBytesPerByte > frame.size())
    return fail(ErrorCode::kCorruptContext, "{} compressed bytes cannot hold {}", frame.size(),
                size);
  const unsigned long long stated = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (stated == ZSTD_CONTENTSIZE_ERROR || stated == ZSTD_CONTENTSIZE_UNKNOWN || stated != size)
    return fail(ErrorCode::kCorruptContext, "not a zstd frame of {} bytes", size);
  const std::size_t length = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(length) || length != frame.size())
    return fail(ErrorCode::kCorruptContext, "the zstd frame does not have {} bytes", frame.size());
  Tensor bytes =
      CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{static_cast<std::int64_t>(size)}));
  const std::size_t got =
      ZSTD_decompress(bytes.mutable_bytes().data(), size, frame.data(), frame.size());
  if (ZSTD_isError(got) || got != size)
    return fail(ErrorCode::kCorruptContext, "zstd: {}",
                ZSTD_isError(got) ? ZSTD_getErrorName(got) : "another size");
  return Blob{bytes.owner(), bytes.bytes()};
}

}  // namespace ctxgen
