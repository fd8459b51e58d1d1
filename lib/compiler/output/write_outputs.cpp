#include "output/write_outputs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/compile.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

/// Whether the file is there and has just these bytes. Read, not mapped: it may shrink meanwhile.
Result<bool> has_these_bytes(const OutputFile& file) {
  std::error_code error;
  if (!fs::is_regular_file(file.path, error) || fs::file_size(file.path, error) != file.bytes)
    return false;
  std::ifstream there(file.path, std::ios::binary);
  std::vector<char> buffer(std::size_t{256} << 10);
  bool equal = there.is_open();
  const auto status = file.write([&](std::span<const std::byte> bytes) -> Status {
    while (equal && !bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), buffer.size());
      there.read(buffer.data(), static_cast<std::streamsize>(count));
      equal = there.good() && std::memcmp(buffer.data(), bytes.data(), count) == 0;
      bytes = bytes.subspan(count);
    }
    if (!equal) return fail(ErrorCode::kNotSatisfied, "it differs");  // ends the walk
    return {};
  });
  if (!status && equal) return std::unexpected(status.error());
  return equal;
}

Status check_writable_folder(const fs::path& folder) {
  const fs::path real = folder.empty() ? "." : folder;
  std::error_code error;
  if (fs::is_directory(real, error) && ::access(real.c_str(), W_OK | X_OK) == 0) return {};
  return fail(ErrorCode::kIoError, "cannot write into \"{}\": {}", real.string(),
              error ? error.message() : std::strerror(fs::exists(real, error) ? errno : ENOENT));
}

/// What the writing of a file would run into.
Status check_target(const fs::path& path, const CompileOptions& options) {
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    return fail(ErrorCode::kIoError, "cannot write \"{}\": it is not a regular file",
                path.string());
  if (options.make_folder && !fs::exists(path.parent_path(), ignored))
    return {};  // prepare() looked
  return check_writable_folder(path.parent_path());
}

}  // namespace

Result<std::vector<FileReport>> write_files(const std::vector<OutputFile>& files,
                                            const CompileOptions& options,
                                            const std::function<Status()>& before_renames) {
  std::vector<FileReport> reports;
  std::vector<AtomicFile> open;
  if (!options.dry_run)
    for (const OutputFile& file : files) remove_stale_temporaries(file.path);
  for (const OutputFile& file : files) {
    FileReport& report = reports.emplace_back(
        FileReport{file.path, file.kind, file.bytes, FileReport::State::kWritten});
    if (options.dry_run) {
      CTXGEN_CHECK(check_target(file.path, options));
      report.state = FileReport::State::kPlanned;
    }
    if (options.keep_unchanged && CTXGEN_TRY(has_these_bytes(file)))
      report.state = FileReport::State::kUnchanged;
    if (report.state != FileReport::State::kWritten) continue;
    open.push_back(CTXGEN_TRY(AtomicFile::create(file.path)));
    AtomicFile& target = open.back();
    CTXGEN_CHECK(file.write([&](std::span<const std::byte> bytes) { return target.write(bytes); }));
  }
  for (AtomicFile& file : open) CTXGEN_CHECK(file.flush());
  if (before_renames) CTXGEN_CHECK(before_renames());
  for (AtomicFile& file : open) CTXGEN_CHECK(file.commit());
  return reports;
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!made_.empty()) fs::remove(made_, ignored);  // refuses a folder that is not empty
}

Status OutputFolder::prepare(const fs::path& folder, const CompileOptions& options) {
  std::error_code error;
  if (!options.make_folder || folder.empty() || fs::exists(folder, error)) return {};
  if (options.dry_run) return check_writable_folder(folder.parent_path());
  fs::create_directory(folder, error);
  if (error)
    return fail(ErrorCode::kIoError, "folder \"{}\": {}", folder.string(), error.message());
  made_ = folder;
  return {};
}

Result<Blob> write_to_memory(const std::function<Status(const ByteSink&)>& write,
                             std::uint64_t expected_bytes) {
  std::vector<std::byte> bytes;
  bytes.reserve(expected_bytes);
  CTXGEN_CHECK(write([&](std::span<const std::byte> part) -> Status {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};
  }));
  return Blob::own(std::move(bytes));
}

std::string_view name_of(FileReport::Kind kind) {
  switch (kind) {
    case FileReport::Kind::kBin: return "bin";
    case FileReport::Kind::kExternalInitializers: return "external_initializers";
    case FileReport::Kind::kForeignBin: return "foreign_bin";
    case FileReport::Kind::kModel: break;
  }
  return "model";
}

}  // namespace ctxgen
