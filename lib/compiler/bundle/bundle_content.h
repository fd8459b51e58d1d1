#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"

#include "stages/provider_list.h"

namespace ctxgen {

struct SourceFile {
  FileReport::Kind kind = FileReport::Kind::kModel;
  std::filesystem::path path;  // where it was read
  std::string name;            // relative to the models of its folder, which call it so
  Blob bytes;                  // a map
};

struct BundledModel {
  std::filesystem::path path;
  std::size_t folder = 0;
  std::vector<std::size_t> files;  // of its folder, itself last
  std::string source;              // the EP that it needs; empty: none of ours
  std::string fingerprint;         // of its programs
  std::vector<std::string> instruction_sets, precisions;
  std::vector<std::pair<std::string, DataType>> interface;  // inputs, then outputs
};

/// Context models that are in one folder, with the files that they need: each once, by name.
struct SourceFolder {
  std::vector<SourceFile> files;
  std::map<std::string, std::size_t> by_name;
};

struct BundleContent {
  std::vector<BundledModel> models;  // as given
  std::vector<SourceFolder> folders;
};

/// Reads the models and finds what they need; everything is compared with its hashes.
/// Errors  as make_bundle(), of the models.
[[nodiscard]] Result<BundleContent> read_bundle_content(
    const std::vector<std::filesystem::path>& models, const ProviderList& providers,
    const std::function<bool()>& cancelled);

}  // namespace ctxgen
