#include "ctxgen/trust/signed_files.h"

#include <system_error>
#include <utility>

#include "ctxgen/base/file.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

/// Links in folders are followed, that of the file itself is not: its name is the signed one.
fs::path real_place(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path).parent_path(), error);
  return folder / path.filename();
}

}  // namespace

Result<SignedFiles> SignedFiles::open(const RequiredSignature& required, const fs::path& folder) {
  SignedFiles files;
  files.signature_ = required.signature.empty() ? folder / kSignatureName : required.signature;
  files.root_ = real_place(files.signature_).parent_path();
  const Blob key = CTXGEN_TRY(map_file(required.key));
  const Blob signature = CTXGEN_TRY(map_file(files.signature_));
  auto set = verify_signature(signature.bytes, as_text(key.bytes));
  if (!set) {
    Error error = std::move(set).error();
    error.message =
        "\"" +
        (error.code == ErrorCode::kInvalidArgument ? required.key : files.signature_).string() +
        "\": " + error.message;
    return std::unexpected(std::move(error));
  }
  for (SignedFile& file : set->files) files.digests_.emplace(std::move(file.name), file.digest);
  return files;
}

Status SignedFiles::check_all() {
  for (const auto& [name, digest] : digests_) {
    Blob file = CTXGEN_TRY(map_file(root_ / name));
    CTXGEN_CHECK(check(root_ / name, file.bytes));
    checked_.emplace(name, std::move(file));
  }
  return {};
}

Status SignedFiles::check(const fs::path& path, std::span<const std::byte> bytes) const {
  const std::string name = real_place(path).lexically_relative(root_).generic_string();
  const auto found = digests_.find(name);
  if (found == digests_.end())
    return fail(ErrorCode::kNotSatisfied, "\"{}\" is not among the files that \"{}\" vouches for",
                path.string(), signature_.string());
  // One file is mapped once in a process while someone holds it.
  const auto known = checked_.find(name);
  if (known != checked_.end() && known->second.bytes.data() == bytes.data() &&
      known->second.bytes.size() == bytes.size())
    return {};
  if (sha256_of(bytes) == found->second) return {};
  return fail(ErrorCode::kNotSatisfied, "\"{}\" is not the file that \"{}\" vouches for",
              path.string(), signature_.string());
}

}  // namespace ctxgen
