#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// The forms of a folder that holds context models with all of their files (docs/bundle.md).
enum class BundleFormat {
  kOciArtifact,   // an OCI image layout: an artifact whose layers are the files as they are
  kOciImage,      // an OCI image layout: an image whose layers are archives (tar) of one file each
  kModelPackage,  // ONNX Runtime's model package, schema 1.0
};

struct BundleOptions {
  BundleFormat format = BundleFormat::kOciArtifact;
  std::string tag = "latest";  // OCI: the name of the manifest in the layout
  std::function<bool()> cancelled;
};

struct BundleReport {
  struct Model {
    std::filesystem::path input;
    std::string file;  // in the bundle, or as a layer's title
    std::vector<std::string> instruction_sets, precisions;
    std::string component, variant;  // model package
  };
  struct File {
    std::string name;  // as Model::file
    std::string kind;  // "model", "bin", "external_initializers", "foreign_bin"
    std::uint64_t bytes = 0;
    std::string media_type, digest;  // OCI: of the layer
  };
  std::vector<Model> models;
  std::vector<File> files;
  std::string manifest_digest;  // OCI
  std::uint64_t bytes = 0;      // of all files that were written
  std::vector<std::filesystem::path> files_read;
  double seconds = 0;
};

/// Copies context models and all files that they need into a new folder of another form, for the stores where
/// artifacts are kept. Their bytes stay; those of the rest follow from them and the options alone. The folder
/// appears complete or not at all (AtomicFolder).
///
/// In       models: in files; several in one folder share what is there. folder: not there, or empty.
/// Memory   models and manifests; files are copied from maps.
/// Errors   INVALID_ARGUMENT: no models, a folder that is not empty, a tag that is none; OCI: two different files of
///          one name; model package: two variants of one name, variants with different inputs or outputs.
///          INVALID_GRAPH, kCorruptContext, NOT_SATISFIED, UNSUPPORTED: of a model, as regroup(). IO_ERROR, CANCELLED.
[[nodiscard]] Result<BundleReport> make_bundle(const std::vector<std::filesystem::path>& models,
                                               const std::filesystem::path& folder,
                                               const BundleOptions& options = {});

}  // namespace ctxgen
