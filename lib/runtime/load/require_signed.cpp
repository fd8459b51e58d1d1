#include "load/require_signed.h"

#include "ctxgen/runtime/session.h"

namespace ctxgen {

Result<SignedLoad> SignedLoad::start(const SessionOptions& options,
                                     const std::filesystem::path& model) {
  const RequiredSignature& required = options.required_signature;
  SignedLoad load;
  if (required.key.empty()) {
    if (required.signature.empty()) return load;
    return fail(ErrorCode::kInvalidArgument,
                "a signature \"{}\" without a key that it has to be by (ctxgen.require_signed)",
                required.signature.string());
  }
  if (model.empty())
    return fail(ErrorCode::kInvalidArgument,
                "a model from memory needs ep.context_file_path (context_file_path) to be found "
                "in a signature");
  load.model_ = model;
  load.files_ = std::make_shared<const SignedFiles>(
      CTXGEN_TRY(SignedFiles::open(required, model.parent_path())));
  return load;
}

Status SignedLoad::check_model(const Model& read, std::span<const FileRead> files) const {
  if (files_ == nullptr) return {};
  CTXGEN_CHECK(files_->check(model_, read.source.bytes));
  for (const FileRead& file : files) CTXGEN_CHECK(files_->check(file.path, file.bytes.bytes));
  return {};
}

AcceptFile SignedLoad::accept() const {
  if (files_ == nullptr) return nullptr;
  return [files = files_, folder = model_.parent_path()](std::string_view name,
                                                         std::span<const std::byte> bytes) {
    return files->check(folder / name, bytes);
  };
}

}  // namespace ctxgen
