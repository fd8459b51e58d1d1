#include "bundle/bundle_files.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace ctxgen {

Status copy_bytes(const Blob& bytes, const std::function<bool()>& cancelled,
                  const AtomicFolder::Sink& sink) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  std::span<const std::byte> rest = bytes.bytes;
  while (!rest.empty()) {
    if (cancelled && cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPieceBytes));
    CTXGEN_CHECK(sink(piece));
    rest = rest.subspan(piece.size());
  }
  return {};
}

Status write_text(AtomicFolder& folder, const std::filesystem::path& relative,
                  std::string_view text) {
  return folder.write_file(relative,
                           [&](const AtomicFolder::Sink& sink) { return sink(as_bytes(text)); });
}

}  // namespace ctxgen
