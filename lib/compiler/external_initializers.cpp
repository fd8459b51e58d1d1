#include "external_initializers.h"

#include <format>

namespace ctxgen {

Status check_external_options(const CompileOptions& options) {
  const std::string& name = options.external_initializers;
  if (name.empty() && options.external_threshold)
    return fail(ErrorCode::kInvalidArgument,
                "a threshold of {} bytes is given, but no file for external initializers",
                *options.external_threshold);
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." ||
      name == "..")
    return fail(ErrorCode::kInvalidArgument,
                "external initializers \"{}\": expected a bare file name; the file lies beside the "
                "context model", name);
  return {};
}

Status move_initializers(const Model& model, const CompileOptions& options, ModelRewrite& rewrite,
                         ExternalFileBuilder& file) {
  if (options.external_initializers.empty()) return {};
  rewrite.external_location = options.external_initializers;
  const std::uint64_t threshold = options.external_threshold.value_or(kDefaultExternalThreshold);
  for (const ValueId id : rewrite.initializers) {
    const Value& value = model.graph.value(id);
    // ONNX has no external form of strings and of sparse tensors.
    if (!value.initializer || value.is_sparse || value.initializer->is_string()) continue;
    const auto bytes = value.initializer->bytes();
    if (bytes.size() < threshold) continue;
    const std::uint64_t offset = CTXGEN_TRY(file.add({value.initializer->owner(), bytes}));
    rewrite.external.emplace(id, ExternalPlace{offset, bytes.size()});
  }
  return {};
}

void name_external_file(const CompileOptions& options, const ExternalFileBuilder& file,
                        std::span<ModelRewrite> rewrites) {
  if (file.empty()) return;
  const std::string entry = std::format("{}:{}", options.external_initializers, file.hash().hex());
  for (ModelRewrite& rewrite : rewrites)
    if (!rewrite.external.empty())
      rewrite.metadata.emplace_back(std::string(kExternalFileKey), entry);
}

}  // namespace ctxgen
