#include "append.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "ctxgen/base/file.h"
#include "ctxgen/base/version.h"

namespace ctxgen {
namespace {

std::unexpected<Error> io_error(const std::filesystem::path& path) {
  return fail(ErrorCode::kIoError, "\"{}\": {}", path.string(), std::strerror(errno));
}

/// An open file, locked; closing unlocks. Nothing while somebody else has the lock, or if the file was
/// replaced before it was ours: then the one that is there now has to be locked.
Result<std::shared_ptr<const void>> try_lock(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(path);
  std::shared_ptr<const void> file(new int(fd), [](const void* p) {
    const auto* number = static_cast<const int*>(p);
    ::close(*number);
    delete number;
  });
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return nullptr;
    return io_error(path);
  }
  struct stat ours {}, there {};
  if (fstat(fd, &ours) != 0 || stat(path.c_str(), &there) != 0) return io_error(path);
  if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) return nullptr;
  return file;
}

}  // namespace

Result<AppendedBin> AppendedBin::open(const std::filesystem::path& path,
                                      const std::function<bool()>& cancelled) {
  AppendedBin bin;
  while (true) {
    bin.lock_ = CTXGEN_TRY(try_lock(path));
    if (bin.lock_ != nullptr) break;
    if (cancelled && cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Blob file = CTXGEN_TRY(map_file(path));
  bin.reader_ = std::make_shared<const ContextReader>(
      CTXGEN_TRY(ContextReader::open(file, path.filename().string(), VerifyBlobs::kAlways)));
  return bin;
}

Status check_append_options(const CompileOptions& options) {
  if (options.append.empty()) return {};
  if (options.embed)
    return fail(ErrorCode::kInvalidArgument,
                "an embedded context (--embed) cannot be added to a bin (--append)");
  if (!options.bin.empty() && options.bin != options.append)
    return fail(ErrorCode::kInvalidArgument,
                "the bin \"{}\" (--bin) is another one than the bin to add to, \"{}\" (--append)",
                options.bin.string(), options.append.string());
  return {};
}

Status check_same_target(const ContextReader& reader, std::string_view fingerprint) {
  const std::string producer = "ctxgen " CTXGEN_VERSION_STRING;
  if (reader.info().producer != producer)
    return fail(ErrorCode::kVersionMismatch, "the bin to add to was written by \"{}\", expected \"{}\"",
                reader.info().producer, producer);
  if (reader.info().fingerprint != fingerprint)
    return fail(ErrorCode::kVersionMismatch, "the bin to add to is for \"{}\", expected \"{}\"",
                reader.info().fingerprint, fingerprint);
  return {};
}

}  // namespace ctxgen
