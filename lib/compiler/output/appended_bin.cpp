#include "output/appended_bin.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <format>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/version.h"
#include "ctxgen/compiler/option_table.h"

#include "output/target_fields.h"

namespace ctxgen {
namespace {

std::unexpected<Error> io_error(const std::filesystem::path& path) {
  return fail(ErrorCode::kIoError, "\"{}\": {}", path.string(), std::strerror(errno));
}

/// An open file, locked; closing unlocks. Nothing while another process has the lock, or if the file was
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
  struct stat ours{}, there{};
  if (fstat(fd, &ours) != 0 || stat(path.c_str(), &there) != 0) return io_error(path);
  if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) return nullptr;
  return file;
}

/// "it is for isa avx2, this compile for isa avx512_core: add --isa avx2".
std::string differences(std::string_view found, std::string_view expected,
                        const CompileOptions& options) {
  const TargetDifference difference = difference_of(found, expected);
  const std::string& isa = difference.found_isa;
  const std::string advice =
      isa.empty()         ? "; compile the models of the bin together again"
      : isa == "portable" ? "; add " + option_name(options, &CompileOptions::portable)
                          : "; add " + option_name(options, &CompileOptions::isas) + " " + isa;
  return std::format("it is for {}, this compile for {}{}", difference.found, difference.expected,
                     advice);
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
  const auto name = [&](OptionSlot slot) { return option_name(options, slot); };
  if (options.embed)
    return fail(ErrorCode::kInvalidArgument,
                "an embedded context ({}) cannot be added to a bin ({})",
                name(&CompileOptions::embed), name(&CompileOptions::append));
  if (options.force)
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with {}: one replaces a bin, the other adds to it",
                name(&CompileOptions::force), name(&CompileOptions::append));
  if (!options.bin.empty() && options.bin != options.append)
    return fail(ErrorCode::kInvalidArgument,
                "the bin \"{}\" ({}) is not the bin to add to, \"{}\" ({})", options.bin.string(),
                name(&CompileOptions::bin), options.append.string(), name(&CompileOptions::append));
  return {};
}

Status check_same_target(const ContextReader& reader, std::string_view fingerprint,
                         const CompileOptions& options) {
  const std::string producer = "ctxgen " CTXGEN_VERSION_STRING;
  if (reader.info().producer != producer)
    return fail(ErrorCode::kVersionMismatch,
                "the bin to add to was written by \"{}\", expected \"{}\"", reader.info().producer,
                producer);
  if (reader.info().fingerprint == fingerprint) return {};
  return fail(ErrorCode::kVersionMismatch, "the bin to add to was made for another target: {}",
              differences(reader.info().fingerprint, fingerprint, options));
}

}  // namespace ctxgen
