#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/opened_file.h"

#include "ort_edge.h"

namespace ctxgen::plugin {

/// The files in which a model keeps initializers, mapped once each: ONNX Runtime maps each initializer.
class ExternalFiles {
 public:
  /// `model`: the path that ONNX Runtime gives for it; names are relative to its folder. Empty: nothing is opened.
  explicit ExternalFiles(const std::filesystem::path& model);

  /// The bytes of an initializer in a file; nothing for another one, and where the file cannot be used: ONNX Runtime says why.
  [[nodiscard]] Result<std::optional<Blob>> find(const OrtApis& ort, const OrtValueInfo& info);
  /// Those that were opened.
  [[nodiscard]] std::vector<OpenedFile> take() && { return std::move(files_); }

 private:
  [[nodiscard]] const OpenedFile* open(const std::string& name);

  std::filesystem::path folder_;  // empty: not known
  std::vector<OpenedFile> files_;
  std::map<std::string, std::optional<std::size_t>> places_;  // in files_, by name
};

}  // namespace ctxgen::plugin
