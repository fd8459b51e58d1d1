#include "output/external_initializers.h"

#include <format>

#include "ctxgen/compiler/option_table.h"

namespace ctxgen {
namespace {

/// Pads, shapes, axes, scales: shape inference, ONNX Runtime's too, reads such tensors and refuses a model
/// in which they are external ("Cannot parse data from external tensors").
bool may_be_read_by_shape_inference(const Tensor& tensor) {
  constexpr std::uint64_t kMaxBytes = 256;  // pads of the largest rank have 2 * 12 * 8
  const bool type = tensor.type() == DataType::kInt64 || tensor.type() == DataType::kInt32 ||
                    tensor.type() == DataType::kFloat;
  return type && tensor.dims().size() <= 1 && tensor.bytes().size() <= kMaxBytes;
}

}  // namespace

Status check_external_options(const CompileOptions& options) {
  const std::string& name = options.external_initializers;
  if (name.empty() && options.external_threshold)
    return fail(ErrorCode::kInvalidArgument,
                "a threshold of {} bytes is given, but no file for external initializers",
                *options.external_threshold);
  if (!name.empty() && options.initializer_location)
    return fail(ErrorCode::kInvalidArgument,
                "{} {} cannot be combined with an initializer location function",
                option_name(options, &CompileOptions::external_initializers), name);
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." ||
      name == "..")
    return fail(
        ErrorCode::kInvalidArgument,
        "external initializers \"{}\": expected a bare file name; the file is written next to the context model",
        name);
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
    if (bytes.size() < threshold || may_be_read_by_shape_inference(*value.initializer)) continue;
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
