#include "plan/aligned_bytes.h"

#include "ctxgen/base/checked.h"

namespace ctxgen::onednn {

Result<AlignedBytes> AlignedBytes::allocate(std::uint64_t bytes) {
  AlignedBytes out;
  if (bytes == 0) return out;
  out.size_ = align_up(bytes, 64);
  out.data_.reset(static_cast<std::byte*>(allocate_working_memory(out.size_)));
  if (!out.data_) return fail(ErrorCode::kResourceLimit, "no memory for {} bytes", bytes);
  return out;
}

}  // namespace ctxgen::onednn
