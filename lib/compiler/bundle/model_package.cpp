#include "bundle/model_package.h"

#include <algorithm>
#include <format>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/version.h"

#include "bundle/bundle_files.h"
#include "output/output_names.h"

namespace ctxgen {
namespace {

// As model_package and onnxruntime/core/session/model_package in ONNX Runtime's sources describe it (schema 1.0, read by
// releases from 1.29 on): a manifest of components with variants. ONNX Runtime takes those of the first EP of a session
// and lets the EP judge their compatibility strings; of equally good ones it takes the first.
constexpr std::string_view kSchema = "1.0";
constexpr std::string_view kCpuSource = "CPUExecutionProvider";

/// A name that is one step of a path, whatever a file says.
std::string safe_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = '_';
  if (name.empty() || name.front() == '.') name.insert(0, 1, '_');
  return name;
}

/// "bf16" of "precision=bf16", "s4_weights" of "weights=s4:32"; empty for f32.
std::string short_precision(std::string_view precision) {
  if (precision == "f32") return {};
  const std::size_t equals = precision.find('=');
  if (equals == std::string_view::npos) return std::string(precision);
  const std::string_view type = precision.substr(equals + 1);
  const bool weights = precision.starts_with("weights");
  return std::format("{}{}", type.substr(0, type.find(':')), weights ? "_weights" : "");
}

/// "avx2", "avx2+avx512_core-bf16", "cpu".
std::string variant_name(const BundledModel& model) {
  std::string name;
  for (const std::string& isa : model.instruction_sets) name += (name.empty() ? "" : "+") + isa;
  if (name.empty()) name = "cpu";
  std::set<std::string> precisions;
  for (const std::string& precision : model.precisions)
    if (std::string text = short_precision(precision); !text.empty())
      precisions.insert(std::move(text));
  for (const std::string& precision : precisions) name += "-" + precision;
  return safe_name(std::move(name));
}

/// The most able of the instruction sets that a model needs at least comes first; what has none, last.
std::uint32_t rank_of(const BundledModel& model) {
  std::uint32_t rank = 0;
  for (const std::string& isa : model.instruction_sets)
    for (const NamedInstructionSet& known : instruction_sets())
      if (known.name == isa) rank = std::max(rank, static_cast<std::uint32_t>(known.value));
  return rank;
}

struct Variant {
  const BundledModel* model = nullptr;
  std::string name, file, directory;  // of the package
};

struct Component {
  std::string name;
  std::vector<Variant> variants;
};

Status check_alike(const Component& component, const BundledModel& model, const std::string& name) {
  if (component.variants.empty()) return {};
  const BundledModel& first = *component.variants.front().model;
  if (first.interface != model.interface)
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\" and \"{}\" cannot be variants of one component \"{}\": their inputs and "
                "outputs differ in names or types",
                first.path.string(), model.path.string(), component.name);
  const auto same = std::ranges::find(component.variants, name, &Variant::name);
  if (same == component.variants.end()) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "\"{}\" and \"{}\" would both be the variant \"{}\" of component \"{}\", of which ONNX "
      "Runtime would never take the second",
      same->model->path.string(), model.path.string(), name, component.name);
}

/// Components in the order of their first models.
Result<std::vector<Component>> components_of(const BundleContent& content) {
  std::vector<Component> components;
  for (const BundledModel& model : content.models) {
    const std::string& file = content.folders[model.folder].files[model.files.back()].name;
    const std::string name = safe_name(stem_without_ctx(file));
    auto at = std::ranges::find(components, name, &Component::name);
    if (at == components.end()) at = components.insert(at, {name, {}});
    const std::string variant = variant_name(model);
    CTXGEN_CHECK(check_alike(*at, model, variant));
    at->variants.push_back({&model, variant, file, {}});
  }
  // What is compiled for a folder of the source stays in one folder, so that models share a bin; its name is that of
  // the first of its models.
  std::map<std::size_t, std::string> directories;
  for (Component& component : components) {
    std::ranges::stable_sort(component.variants, std::ranges::greater{},
                             [](const Variant& variant) { return rank_of(*variant.model); });
    for (Variant& variant : component.variants)
      variant.directory =
          directories
              .emplace(variant.model->folder, std::format("{}/{}", component.name, variant.name))
              .first->second;
  }
  return components;
}

void write_variant(JsonWriter& json, const Variant& variant) {
  const BundledModel& model = *variant.model;
  json.key(variant.name)
      .begin_object()
      .field("variant_directory", variant.directory)
      .field("ep", model.source.empty() ? kCpuSource : std::string_view(model.source))
      .field("device", "cpu");
  if (!model.source.empty()) json.field("compatibility_string", model.fingerprint);
  json.key("executor_info")
      .begin_object()
      .key("ort")
      .begin_object()
      .field("model_file", variant.file)
      .end_object()
      .end_object()
      .key("additional_metadata")
      .begin_object()
      .list("instruction_sets", model.instruction_sets)
      .list("precisions", model.precisions)
      .end_object()
      .end_object();
}

std::string manifest_text(const std::vector<Component>& components) {
  JsonWriter json;
  json.begin_object().field("schema_version", kSchema).key("components").begin_object();
  for (const Component& component : components) {
    json.key(component.name).begin_object().key("variants").begin_object();
    for (const Variant& variant : component.variants) write_variant(json, variant);
    json.end_object().end_object();
  }
  json.end_object()
      .key("additional_metadata")
      .begin_object()
      .field("producer", "ctxgen " CTXGEN_VERSION_STRING)
      .end_object()
      .end_object();
  return json.finish();
}

/// The folders of a file, each once, outer ones first.
Status make_folders(const std::filesystem::path& file, std::set<std::filesystem::path>& made,
                    AtomicFolder& folder) {
  std::filesystem::path path;
  for (const std::filesystem::path& part : file.parent_path()) {
    path /= part;
    if (made.insert(path).second) CTXGEN_CHECK(folder.make_folder(path));
  }
  return {};
}

}  // namespace

Status write_model_package(const BundleContent& content, const BundleOptions& options,
                           AtomicFolder& folder, BundleReport& report) {
  const std::vector<Component> components = CTXGEN_TRY(components_of(content));
  std::set<std::filesystem::path> made;
  std::set<std::size_t> copied;
  for (const Component& component : components)
    for (const Variant& variant : component.variants) {
      const BundledModel& model = *variant.model;
      report.models.push_back({.input = model.path,
                               .file = variant.directory + "/" + variant.file,
                               .instruction_sets = model.instruction_sets,
                               .precisions = model.precisions,
                               .component = component.name,
                               .variant = variant.name});
      if (!copied.insert(model.folder).second) continue;
      for (const SourceFile& file : content.folders[model.folder].files) {
        const std::string name = variant.directory + "/" + file.name;
        CTXGEN_CHECK(make_folders(name, made, folder));
        CTXGEN_CHECK(folder.write_file(name, [&](const AtomicFolder::Sink& sink) {
          return copy_bytes(file.bytes, options.cancelled, sink);
        }));
        report.bytes += file.bytes.bytes.size();
        report.files.push_back({.name = name,
                                .kind = std::string(name_of(file.kind)),
                                .bytes = file.bytes.bytes.size(),
                                .media_type = {},
                                .digest = {}});
      }
    }
  const std::string manifest = manifest_text(components);
  report.bytes += manifest.size();
  return write_text(folder, "manifest.json", manifest);
}

}  // namespace ctxgen
