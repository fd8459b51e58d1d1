#include "compile/genai_folder.h"

#include <algorithm>
#include <format>
#include <string_view>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/log.h"
#include "ctxgen/registry/loaders.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "genai_config.json";
constexpr std::uint64_t kMostConfigBytes = std::uint64_t{4} << 20;

/// What ONNX Runtime registers the plugin as.
std::string plugin_name() { return std::string(default_loaders().front()->source()); }

JsonValue* find(JsonValue& value, std::string_view name) {
  auto* const members = std::get_if<JsonValue::Object>(&value.value);
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(*members, name, &JsonMember::name);
  return found == members->end() ? nullptr : &found->value;
}

JsonValue& member(JsonValue& object, std::string_view name, JsonValue missing) {
  if (JsonValue* const found = find(object, name)) return *found;
  auto& members = std::get<JsonValue::Object>(object.value);
  return members.emplace_back(std::string(name), std::move(missing)).value;
}

/// A part of the config that names a model: model.decoder, model.vision, or one step of a pipeline.
struct Section {
  JsonValue* object = nullptr;
  std::string path;
};

/// Objects in `value` with a file name of a model.
void find_sections(JsonValue& value, const std::string& path, std::vector<Section>& sections) {
  if (auto* const items = std::get_if<JsonValue::Array>(&value.value))
    for (JsonValue& item : *items) find_sections(item, path, sections);
  auto* const members = std::get_if<JsonValue::Object>(&value.value);
  if (members == nullptr) return;
  for (auto& [name, inner] : *members) {
    const auto* const text = inner.as<std::string>();
    if (name == "filename" && text != nullptr && text->ends_with(".onnx"))
      sections.push_back({&value, path});
    else
      find_sections(inner, path + "." + name, sections);
  }
}

std::vector<Section> sections_of(JsonValue& config) {
  std::vector<Section> sections;
  if (JsonValue* const model = find(config, "model")) find_sections(*model, "model", sections);
  return sections;
}

const std::string& filename_of(const Section& section) {
  return *find(*section.object, "filename")->as<std::string>();
}

/// "cpu" is what no entry means.
bool is_our_provider(std::string_view name) { return name == "cpu" || name == plugin_name(); }

Status check_section(const fs::path& config, const Section& section) {
  const fs::path file = filename_of(section);
  const bool leaves = file.is_absolute() || std::ranges::contains(file, fs::path(".."));
  if (leaves)
    return fail(ErrorCode::kInvalidArgument, "\"{}\": {}: \"{}\" is not in the folder",
                config.string(), section.path, file.string());
  JsonValue* const options = find(*section.object, "session_options");
  if (options != nullptr && options->as<JsonValue::Object>() == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\": line {}: expected an object of session_options", config.string(),
                options->line);
  JsonValue* const providers = options == nullptr ? nullptr : find(*options, "provider_options");
  if (providers == nullptr) return {};
  const auto* const list = providers->as<JsonValue::Array>();
  if (list == nullptr)
    return fail(ErrorCode::kInvalidArgument, "\"{}\": line {}: expected an array of providers",
                config.string(), providers->line);
  for (const JsonValue& one : *list)
    if (const auto* const names = one.as<JsonValue::Object>())
      for (const JsonMember& name : *names)
        if (!is_our_provider(name.name))
          return fail(ErrorCode::kInvalidArgument,
                      "\"{}\": line {}: {} is for the provider \"{}\", ctxgen compiles for CPUs",
                      config.string(), one.line, section.path, name.name);
  return {};
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

/// Files that are neither models nor read by one.
Result<std::vector<fs::path>> companions_of(const GenaiFolder& genai,
                                            const std::vector<fs::path>& read) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(genai.folder, error), end; !error && at != end;
       at.increment(error)) {
    const fs::path& path = at->path();
    const auto is_this = [&](const fs::path& other) { return same_file(path, other); };
    if (path.filename() == kConfigName || !at->is_regular_file(error) ||
        path.extension() == ".onnx" || std::ranges::any_of(read, is_this))
      continue;
    files.push_back(path);
  }
  if (error)
    return fail(ErrorCode::kIoError, "folder \"{}\": {}", genai.folder.string(), error.message());
  std::ranges::sort(files);
  return files;
}

Result<bool> equal_content(const fs::path& a, const fs::path& b) {
  const Blob first = CTXGEN_TRY(map_file(a)), second = CTXGEN_TRY(map_file(b));
  return std::ranges::equal(first.bytes, second.bytes);
}

/// Whether a config was written here.
bool names_plugin(const fs::path& path) {
  const auto file = map_file(path);
  return file && as_text(file->bytes).contains(plugin_name());
}

/// One entry for the plugin, before others.
void add_provider(JsonValue& section) {
  JsonValue& options = member(section, "session_options", {.value = JsonValue::Object()});
  JsonValue& providers = member(options, "provider_options", {.value = JsonValue::Array()});
  auto& list = std::get<JsonValue::Array>(providers.value);
  const auto is_ours = [](JsonValue& one) { return find(one, plugin_name()) != nullptr; };
  if (std::ranges::any_of(list, is_ours)) return;
  JsonValue entry{.value = JsonValue::Object()};
  member(entry, plugin_name(), {.value = JsonValue::Object()});
  list.insert(list.begin(), std::move(entry));
}

/// The config with the context models' names. Sections without options take those of the decoder.
std::string compiled_config(const GenaiFolder& genai, const CompileReport& report) {
  JsonValue config = genai.config;
  const bool compiled = std::ranges::any_of(
      report.models, [](const ModelReport& model) { return !model.partitions.empty(); });
  for (const Section& section : sections_of(config)) {
    const auto at = std::ranges::find(genai.models, filename_of(section));
    const auto index = static_cast<std::size_t>(at - genai.models.begin());
    find(*section.object, "filename")->value =
        fs::path(default_output_name(fs::path(genai.models[index]).filename().string())).string();
    const bool own_options = find(*section.object, "session_options") != nullptr;
    if (compiled && (own_options || section.path == "model.decoder")) add_provider(*section.object);
  }
  JsonWriter json;
  write_json(json, config);
  return json.finish();
}

}  // namespace

Result<std::optional<GenaiFolder>> find_genai_folder(const std::vector<std::string>& arguments) {
  std::error_code ignored;
  if (arguments.size() != 1 || !fs::is_directory(arguments[0], ignored)) return std::nullopt;
  GenaiFolder genai{.folder = arguments[0], .config = {}, .models = {}};
  const fs::path path = genai.folder / kConfigName;
  if (!fs::exists(path, ignored))
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\" is a folder without a {}: give the models in it", arguments[0],
                kConfigName);
  const Blob file = CTXGEN_TRY(map_file(path));
  if (file.bytes.size() > kMostConfigBytes)
    return fail(ErrorCode::kResourceLimit, "\"{}\": {} bytes, at most {} are read", path.string(),
                file.bytes.size(), kMostConfigBytes);
  genai.config = CTXGEN_TRY_AT(parse_json(as_text(file.bytes)), "\"{}\"", path.string());
  for (const Section& section : sections_of(genai.config)) {
    CTXGEN_CHECK(check_section(path, section));
    if (!std::ranges::contains(genai.models, filename_of(section)))
      genai.models.push_back(filename_of(section));
  }
  if (genai.models.empty())
    return fail(ErrorCode::kInvalidArgument, "\"{}\" names no model (model.decoder.filename)",
                path.string());
  return genai;
}

std::vector<std::string> models_of(const GenaiFolder& genai) {
  std::vector<std::string> paths;
  for (const std::string& model : genai.models) paths.push_back((genai.folder / model).string());
  return paths;
}

Result<std::string> output_of(const GenaiFolder& genai, const std::string& output) {
  if (output.empty() || output == "-")
    return fail(ErrorCode::kInvalidArgument,
                "a folder of models needs -o FOLDER, where its config and other files go, too");
  std::error_code ignored;
  if (fs::exists(output, ignored) && !fs::is_directory(output, ignored))
    return fail(ErrorCode::kInvalidArgument,
                "-o: a folder of models needs a folder, \"{}\" is a file", output);
  if (same_file(output, genai.folder))
    return fail(ErrorCode::kInvalidArgument,
                "-o: \"{}\" is the folder of the models: its config would be replaced", output);
  return output.ends_with('/') ? output : output + "/";
}

Status check_companions(const GenaiFolder& genai, const fs::path& output) {
  std::error_code ignored;
  for (const fs::path& file : CTXGEN_TRY(companions_of(genai, {}))) {
    const fs::path copy = output / file.filename();
    if (fs::exists(copy, ignored) && !CTXGEN_TRY(equal_content(file, copy)))
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" is another file than \"{}\": remove it, or give another folder",
                  copy.string(), file.string());
  }
  const fs::path config = output / kConfigName;
  if (fs::exists(config, ignored) && !names_plugin(config))
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\" was not written for compiled models: remove it, or give another folder",
                config.string());
  return {};
}

Result<std::vector<FileUse>> companion_uses(const GenaiFolder& genai, const fs::path& output) {
  std::vector<FileUse> uses{
      {FileUse::How::kRead, genai.folder / kConfigName, "the folder's config"},
      {FileUse::How::kWritten, output / kConfigName, "the config of the output folder"}};
  for (const fs::path& file : CTXGEN_TRY(companions_of(genai, {}))) {
    uses.push_back({FileUse::How::kRead, file, "a file of the folder"});
    uses.push_back({FileUse::How::kWritten, output / file.filename(), "a copy of a file"});
  }
  return uses;
}

Result<std::vector<fs::path>> write_companions(const GenaiFolder& genai, const fs::path& output,
                                               const CompileReport& report) {
  std::vector<fs::path> written;
  std::error_code ignored;
  for (const fs::path& file : CTXGEN_TRY(companions_of(genai, report.files_read))) {
    const fs::path copy = output / file.filename();
    written.push_back(copy);
    if (fs::exists(copy, ignored) && CTXGEN_TRY(equal_content(file, copy))) continue;
    CTXGEN_CHECK(write_file(copy, CTXGEN_TRY(map_file(file)).bytes));
  }
  const fs::path config = output / kConfigName;
  CTXGEN_CHECK(write_file(config, as_bytes(compiled_config(genai, report))));
  written.push_back(config);
  return written;
}

}  // namespace ctxgen::cli
