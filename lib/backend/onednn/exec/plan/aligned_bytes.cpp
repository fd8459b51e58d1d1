#include "plan/aligned_bytes.h"

#include <new>

#include "ctxgen/base/checked.h"

namespace ctxgen::onednn {

void AlignedBytes::Free::operator()(std::byte* data) const {
  ::operator delete(data, std::align_val_t{64});
}

Result<AlignedBytes> AlignedBytes::allocate(std::uint64_t bytes) {
  AlignedBytes out;
  if (bytes == 0) return out;
  out.size_ = align_up(bytes, 64);
  out.data_.reset(
      static_cast<std::byte*>(::operator new(out.size_, std::align_val_t{64}, std::nothrow)));
  if (!out.data_) return fail(ErrorCode::kResourceLimit, "no memory for {} bytes", bytes);
  return out;
}

}  // namespace ctxgen::onednn
