#include "ctxgen/base/spill_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "ctxgen/base/blob_alignment.h"
#include "ctxgen/base/checked.h"

#include "own_memory.h"
#include "unnamed_file.h"
#include "write_all.h"

namespace ctxgen {
namespace {

/// Blobs share maps: a process has 65,530 of them, a model may have more weights.
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;
/// Below, the bookkeeping around a blob costs about as much as its bytes.
constexpr std::uint64_t kSmallestBytes = 256;

/// A range of the file in the address space; parts of it may be after the file's end.
class Window {
 public:
  Window(void* address, std::uint64_t offset, std::uint64_t size)
      : address_(address), offset_(offset), size_(size) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() { ::munmap(address_, size_); }
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset >= offset_ && range_fits(offset - offset_, size, size_);
  }
  [[nodiscard]] std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t size) const {
    return {static_cast<const std::byte*>(address_) + (offset - offset_), size};
  }

 private:
  void* address_;
  std::uint64_t offset_, size_;
};

}  // namespace

struct SpillFile::Impl {
  Impl(std::filesystem::path path, std::uint64_t budget)
      : beside(std::move(path)), memory_left(budget) {}

  Status failure(int error) const {
    return fail(error == ENOMEM ? ErrorCode::kResourceLimit : ErrorCode::kIoError,
                "cannot write \"{}\": a file for its weights next to it: {}", beside.string(),
                std::strerror(error));
  }
  Status append(std::span<const std::byte> bytes) {
    const int error = write_all(fd.get(), bytes);
    if (error != 0) return failure(error);
    end += bytes.size();
    return {};
  }
  Result<std::shared_ptr<const Window>> window_for(std::uint64_t offset, std::uint64_t size) {
    if (window && window->holds(offset, size)) return window;
    const std::uint64_t start = offset / kLargeBlobAlignment * kLargeBlobAlignment;
    const std::uint64_t length = std::max(kWindowBytes, offset - start + size);
    void* address =
        ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd.get(), static_cast<off_t>(start));
    if (address == MAP_FAILED) return std::unexpected(failure(errno).error());
    window = std::make_shared<const Window>(address, start, length);
    return window;
  }
  Result<Blob> spill(std::span<const std::byte> bytes);

  const std::filesystem::path beside;
  std::mutex mutex;  // guards what follows
  std::uint64_t memory_left;
  UniqueFd fd;
  std::uint64_t end = 0;  // of the file
  std::shared_ptr<const Window> window;
};

Result<Blob> SpillFile::Impl::spill(std::span<const std::byte> bytes) {
  static constexpr std::array<std::byte, kLargeBlobAlignment> kZeros{};
  if (!fd.valid()) fd = CTXGEN_TRY(open_unnamed_file(beside));
  const std::uint64_t offset = align_up(end, blob_alignment(bytes.size()));
  CTXGEN_CHECK(append(std::span(kZeros).first(offset - end)));
  CTXGEN_CHECK(append(bytes));
  auto owner = CTXGEN_TRY(window_for(offset, bytes.size()));
  const auto kept = owner->bytes(offset, bytes.size());
  return Blob{std::move(owner), kept};
}

SpillFile::SpillFile(std::filesystem::path beside, std::uint64_t memory_bytes)
    : impl_(std::make_unique<Impl>(std::move(beside), memory_bytes)) {}
SpillFile::~SpillFile() = default;

Result<Blob> SpillFile::keep(Blob made) {
  const std::uint64_t size = made.bytes.size();
  if (size < kSmallestBytes) return made;
  const std::lock_guard lock(impl_->mutex);
  if (size <= impl_->memory_left) {
    impl_->memory_left -= size;
    return made;
  }
  return impl_->spill(made.bytes);
}

Result<Tensor> SpillFile::keep(Tensor tensor) {
  const bool own = std::get_deleter<FreeOwnMemory>(tensor.owner()) != nullptr;
  if (!own) return tensor;
  const Blob kept = CTXGEN_TRY(keep(Blob{tensor.owner(), tensor.bytes()}));
  if (kept.bytes.data() == tensor.bytes().data()) return tensor;
  return Tensor::borrow(tensor.type(), tensor.dims(), kept.owner, kept.bytes);
}

std::uint64_t SpillFile::spilled_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->end;
}

}  // namespace ctxgen
