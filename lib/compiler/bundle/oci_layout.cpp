#include "bundle/oci_layout.h"

#include <algorithm>
#include <format>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/trust/sha256.h"

#include "bundle/bundle_files.h"
#include "bundle/tar_frame.h"

namespace ctxgen {
namespace {

// github.com/opencontainers/image-spec, version 1.1.
constexpr std::string_view kLayout = "{\"imageLayoutVersion\": \"1.0.0\"}\n";
constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view kManifestType = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kConfigType = "application/vnd.oci.image.config.v1+json";
constexpr std::string_view kTarType = "application/vnd.oci.image.layer.v1.tar";
constexpr std::string_view kEmptyType = "application/vnd.oci.empty.v1+json";
constexpr std::string_view kTitle = "org.opencontainers.image.title";
constexpr std::string_view kReferenceName = "org.opencontainers.image.ref.name";
// Ours (docs/bundle.md).
constexpr std::string_view kArtifactType = "application/vnd.ctxgen.model.v1";
constexpr std::string_view kSourceKey = "vnd.ctxgen.source";
constexpr std::string_view kFingerprintKey = "vnd.ctxgen.fingerprint";

std::string_view media_type_of(FileReport::Kind kind) {
  switch (kind) {
    case FileReport::Kind::kBin: return "application/vnd.ctxgen.bin.v1";
    case FileReport::Kind::kExternalInitializers: return "application/vnd.ctxgen.initializers.v1";
    case FileReport::Kind::kForeignBin: return "application/vnd.ctxgen.foreign-bin.v1";
    case FileReport::Kind::kModel: break;
  }
  return "application/vnd.ctxgen.context-model.v1.onnx";
}

struct Descriptor {
  std::string media_type, digest;
  std::uint64_t size = 0;
  std::vector<std::pair<std::string_view, std::string>> annotations = {};
};

void write(JsonWriter& json, const Descriptor& descriptor) {
  json.begin_object()
      .field("mediaType", descriptor.media_type)
      .field("digest", descriptor.digest)
      .field("size", descriptor.size);
  if (descriptor.media_type == kEmptyType) json.field("data", "e30=");  // "{}": need not be fetched
  if (!descriptor.annotations.empty()) {
    json.key("annotations").begin_object();
    for (const auto& [key, value] : descriptor.annotations) json.field(key, value);
    json.end_object();
  }
  json.end_object();
}

/// A file and the first model that it is, where it is one.
struct Layer {
  const SourceFile* file = nullptr;
  const BundledModel* model = nullptr;
};

/// All files are in one folder: of two with one name, only equal ones.
Result<std::vector<Layer>> layers_of(const BundleContent& content) {
  std::vector<Layer> layers;
  std::map<std::string_view, const SourceFile*> names;
  for (const BundledModel& model : content.models)
    for (const std::size_t index : model.files) {
      const SourceFile& file = content.folders[model.folder].files[index];
      const auto [at, added] = names.emplace(file.name, &file);
      if (added) {
        layers.push_back({&file, file.kind == FileReport::Kind::kModel ? &model : nullptr});
        continue;
      }
      const auto a = at->second->bytes.bytes, b = file.bytes.bytes;
      if (a.size() == b.size() && std::ranges::equal(a, b)) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" and \"{}\" would have one name in the bundle, \"{}\": bundle them apart, "
                  "or as variants of a model package",
                  at->second->path.string(), file.path.string(), file.name);
    }
  return layers;
}

class LayoutWriter {
 public:
  LayoutWriter(const BundleOptions& options, AtomicFolder& folder, BundleReport& report)
      : options_(options), folder_(folder), report_(report) {}

  Status run(const BundleContent& content) {
    const std::vector<Layer> layers = CTXGEN_TRY(layers_of(content));
    CTXGEN_CHECK(folder_.make_folder("blobs"));
    CTXGEN_CHECK(folder_.make_folder("blobs/sha256"));
    for (const Layer& layer : layers) CTXGEN_CHECK(add_layer(layer));
    const Descriptor config = CTXGEN_TRY(
        add_text(is_image() ? image_config() : "{}", is_image() ? kConfigType : kEmptyType));
    const Descriptor manifest = CTXGEN_TRY(add_text(manifest_text(config), kManifestType));
    report_.manifest_digest = manifest.digest;
    CTXGEN_CHECK(write_plain("index.json", index_text(manifest)));
    return write_plain("oci-layout", kLayout);
  }

 private:
  [[nodiscard]] bool is_image() const { return options_.format == BundleFormat::kOciImage; }

  Status write_plain(std::string_view name, std::string_view text) {
    report_.bytes += text.size();
    return write_text(folder_, name, text);
  }

  /// A blob of what `fill` gives, named by its digest; one that is there already is the same.
  template <class Fill>
  Result<Descriptor> add_blob(std::string_view media_type, const Fill& fill) {
    Sha256 sha;
    Descriptor blob{.media_type = std::string(media_type), .digest = {}};
    CTXGEN_CHECK(folder_.write_file("blobs/next", [&](const AtomicFolder::Sink& sink) -> Status {
      return fill([&](std::span<const std::byte> bytes) -> Status {
        sha.add(bytes);
        blob.size += bytes.size();
        return sink(bytes);
      });
    }));
    const std::string hex = sha.finish().hex();
    CTXGEN_CHECK(folder_.rename_file("blobs/next", "blobs/sha256/" + hex));
    blob.digest = "sha256:" + hex;
    report_.bytes += blob.size;
    return blob;
  }

  Result<Descriptor> add_text(std::string_view text, std::string_view media_type) {
    return add_blob(media_type,
                    [&](const AtomicFolder::Sink& sink) { return sink(as_bytes(text)); });
  }

  Status add_layer(const Layer& layer) {
    const SourceFile& file = *layer.file;
    const TarFrame frame = is_image() ? tar_frame(file.name, file.bytes.bytes.size()) : TarFrame{};
    Descriptor blob =
        CTXGEN_TRY(add_blob(is_image() ? kTarType : media_type_of(file.kind),
                            [&](const AtomicFolder::Sink& sink) -> Status {
                              CTXGEN_CHECK(sink(as_bytes(frame.before)));
                              CTXGEN_CHECK(copy_bytes(file.bytes, options_.cancelled, sink));
                              return sink(as_bytes(frame.after));
                            }));
    if (!is_image()) blob.annotations.emplace_back(kTitle, file.name);
    if (layer.model != nullptr && !layer.model->source.empty()) {
      blob.annotations.emplace_back(kSourceKey, layer.model->source);
      blob.annotations.emplace_back(kFingerprintKey, layer.model->fingerprint);
    }
    report_.files.push_back({.name = file.name,
                             .kind = std::string(name_of(file.kind)),
                             .bytes = file.bytes.bytes.size(),
                             .media_type = blob.media_type,
                             .digest = blob.digest});
    layers_.push_back(std::move(blob));
    return {};
  }

  /// Layers that are not compressed: their digests are those of their content.
  [[nodiscard]] std::string image_config() const {
    JsonWriter json;
    json.begin_object()
        .field("architecture", "amd64")
        .field("os", "linux")
        .key("config")
        .begin_object()
        .end_object()
        .key("rootfs")
        .begin_object()
        .field("type", "layers")
        .key("diff_ids")
        .begin_array();
    for (const Descriptor& layer : layers_) json.value(layer.digest);
    json.end_array().end_object().end_object();
    return json.finish();
  }

  [[nodiscard]] std::string manifest_text(const Descriptor& config) const {
    JsonWriter json;
    json.begin_object().field("schemaVersion", 2).field("mediaType", kManifestType);
    if (!is_image()) json.field("artifactType", kArtifactType);
    write(json.key("config"), config);
    json.key("layers").begin_array();
    for (const Descriptor& layer : layers_) write(json, layer);
    json.end_array().end_object();
    return json.finish();
  }

  [[nodiscard]] std::string index_text(const Descriptor& manifest) const {
    JsonWriter json;
    json.begin_object()
        .field("schemaVersion", 2)
        .field("mediaType", kIndexType)
        .key("manifests")
        .begin_array()
        .begin_object()
        .field("mediaType", kManifestType)
        .field("digest", manifest.digest)
        .field("size", manifest.size);
    if (is_image())
      json.key("platform")
          .begin_object()
          .field("architecture", "amd64")
          .field("os", "linux")
          .end_object();
    else
      json.field("artifactType", kArtifactType);
    json.key("annotations")
        .begin_object()
        .field(kReferenceName, options_.tag)
        .end_object()
        .end_object()
        .end_array()
        .end_object();
    return json.finish();
  }

  const BundleOptions& options_;
  AtomicFolder& folder_;
  BundleReport& report_;
  std::vector<Descriptor> layers_;
};

}  // namespace

Status write_oci_layout(const BundleContent& content, const BundleOptions& options,
                        AtomicFolder& folder, BundleReport& report) {
  for (const BundledModel& model : content.models) {
    BundleReport::Model& entry = report.models.emplace_back();
    entry.input = model.path;
    entry.file = content.folders[model.folder].files[model.files.back()].name;
    entry.instruction_sets = model.instruction_sets;
    entry.precisions = model.precisions;
  }
  return LayoutWriter(options, folder, report).run(content);
}

}  // namespace ctxgen
