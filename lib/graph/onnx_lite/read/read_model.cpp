#include "ctxgen/onnx_lite/read_model.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/file.h"

#include "read/entry_reader.h"
#include "read/file_kind.h"
#include "read/import_context.h"
#include "read/node_order.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace fm = field::model;

namespace {

std::string function_key(std::string_view domain, std::string_view name,
                         std::string_view overload) {
  std::string key(domain);
  key.append(1, '\0').append(name).append(1, '\0').append(overload);
  return key;
}

struct ModelText {
  std::optional<Message> graph;
  std::vector<Message> functions;
};

Status read_metadata(Message message, Model& model) {
  const auto [key, value] = CTXGEN_TRY(read_entry(message, "metadata_props"));
  model.metadata.emplace_back(key, value);
  return {};
}

// One top-level field; those that are written back as they are go to header_sources.
Status read_field(ImportContext& context, const wire::Field& f, ModelText& text) {
  Model& model = context.model;
  switch (f.tag) {
    case wire::bytes(fm::kGraph):
      if (text.graph) return fail(ErrorCode::kInvalidGraph, "more than one main graph");
      text.graph = f.body;
      return {};
    case wire::bytes(fm::kFunctions): text.functions.push_back(f.body); return {};
    case wire::bytes(fm::kOpsetImport):
      model.opset_imports.push_back(CTXGEN_TRY(read_opset_import(f.body)));
      model.opset_sources.push_back(context.range_of(f.body));
      return {};
    case wire::bytes(fm::kMetadata):
      CTXGEN_CHECK(read_metadata(f.body, model));
      model.metadata_sources.push_back(context.range_of(f.body));
      return {};
    case wire::varint(fm::kIrVersion): model.ir_version = f.integer(); break;
    case wire::bytes(fm::kProducerName): model.producer_name = f.text(); break;
    case wire::bytes(fm::kProducerVersion): model.producer_version = f.text(); break;
    default: break;
  }
  model.header_sources.push_back(context.range_of(f.whole));
  return context.count_items(1);
}

Result<ModelText> split_fields(ImportContext& context) {
  ModelText text;
  MessageReader reader(context.model.source.bytes, "model");
  while (const wire::Field* f = reader.next()) CTXGEN_CHECK(read_field(context, *f, text));
  CTXGEN_CHECK(reader.status());
  if (!text.graph) return fail(ErrorCode::kInvalidGraph, "no graph: this is not an ONNX model");
  return text;
}

/// As split_fields(); for a file that is not a model, the error says what it is if its bytes show it.
Result<ModelText> split(ImportContext& context) {
  auto text = split_fields(context);
  if (text || text.error().code != ErrorCode::kInvalidGraph) return text;
  const std::string kind = file_kind(context.model.source.bytes);
  if (kind.empty()) return text;
  return fail(ErrorCode::kInvalidGraph, "{} ({})", kind, text.error().message);
}

Status check_opsets(std::span<const OpsetImport> imports, const ModelLimits& limits) {
  if (imports.size() > limits.opset_imports)
    return fail(ErrorCode::kResourceLimit, "{} opset imports, more than {}", imports.size(),
                limits.opset_imports);
  for (std::size_t i = 0; i < imports.size(); ++i) {
    const auto& [domain, version] = imports[i];
    if (version < 1)
      return fail(ErrorCode::kInvalidGraph, "opset {} of domain \"{}\"", version, domain);
    if (domain.empty() && version > kMaxOpset)
      return fail(ErrorCode::kUnsupported, "opset {} is newer than {}, the newest known", version,
                  kMaxOpset);
  }
  return {};
}

/// Of a domain that is imported twice, the last version counts, as in ONNX Runtime and the checker.
void keep_last_imports(std::vector<OpsetImport>& imports) {
  std::vector<OpsetImport> kept;
  for (OpsetImport& import : imports) {
    const auto same = std::ranges::find(kept, import.domain, &OpsetImport::domain);
    if (same == kept.end())
      kept.push_back(std::move(import));
    else
      same->version = import.version;
  }
  imports = std::move(kept);
}

Status check_versions(const Model& model, const ModelLimits& limits) {
  if (model.ir_version == 0) return fail(ErrorCode::kInvalidGraph, "no IR version");
  if (model.ir_version < kMinIrVersion || model.ir_version > kMaxIrVersion)
    return fail(ErrorCode::kUnsupported, "IR version {}, expected {} to {}", model.ir_version,
                kMinIrVersion, kMaxIrVersion);
  return check_opsets(model.opset_imports, limits);
}

// Splits all functions before any is read: they may call each other in any order.
Status read_functions(ImportContext& context, std::span<const Message> messages) {
  for (const Message message : messages) {
    FunctionText text = CTXGEN_TRY(read_function_text(message));
    if (auto sorted = context.sort(message, text.nodes); !sorted)
      return std::unexpected(
          with_context(std::move(sorted).error(), std::format("function \"{}\"", text.name)));
    CTXGEN_CHECK_AT(check_opsets(text.opsets, context.limits), "function \"{}\"", text.name);
    keep_last_imports(text.opsets);
    const auto key = function_key(text.domain, text.name, text.overload);
    if (!context.function_by_key.emplace(key, context.functions.size()).second)
      return fail(ErrorCode::kInvalidGraph, "function \"{}\" of domain \"{}\" is defined twice",
                  text.name, text.domain);
    context.functions.push_back(std::move(text));
  }
  const bool expand = std::exchange(context.expand_functions, false);
  for (const FunctionText& text : context.functions) {
    CTXGEN_CHECK_AT(read_function(context, text), "function \"{}\"", text.name);
  }
  context.expand_functions = expand;
  return {};
}

Status read_all(ImportContext& context) {
  const ModelText text = CTXGEN_TRY(split(context));
  CTXGEN_CHECK(check_versions(context.model, context.limits));
  keep_last_imports(context.model.opset_imports);
  CTXGEN_CHECK(read_functions(context, text.functions));
  GraphBuild build{.graph = context.model.graph, .defined = {}};
  Scope scope(build, context.model.opset_imports);
  return read_graph(context, scope, *text.graph, true);
}

}  // namespace

std::string_view normalised_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view{} : domain;
}

Result<OpsetImport> read_opset_import(Message message) {
  OpsetImport import;
  MessageReader reader(message, "opset_import");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::bytes(field::opset::kDomain)) import.domain = normalised_domain(f->text());
    if (f->tag == wire::varint(field::opset::kVersion)) import.version = f->integer();
  }
  CTXGEN_CHECK(reader.status());
  return import;
}

SourceRange ImportContext::range_of(Message message) const {
  const std::span<const std::byte> all = model.source.bytes;
  const std::less<> before;  // total order also for pointers into different memory
  if (message.empty() || all.empty() || before(message.data(), all.data()) ||
      before(all.data() + all.size(), message.data() + message.size()))
    return {};
  return {static_cast<std::uint64_t>(message.data() - all.data()), message.size()};
}

FunctionText* ImportContext::find_function(const NodeText& node) {
  if (functions.empty()) return nullptr;
  const auto found = function_by_key.find(function_key(node.domain, node.op_type, node.overload));
  return found == function_by_key.end() ? nullptr : &functions[found->second];
}

Status ImportContext::sort(Message owner, std::vector<Message>& node_messages) {
  if (!sort_nodes) return {};
  if (node_messages.size() > limits.nodes)
    return fail(ErrorCode::kResourceLimit, "more than {} nodes", limits.nodes);
  if (!CTXGEN_TRY(ctxgen::sort_nodes(node_messages, limits.items))) return {};
  const SourceRange range = range_of(owner);
  if (range.empty()) return {};
  std::vector<SourceRange>& order = model.sorted_nodes[range.offset];
  order.clear();
  for (const Message message : node_messages) order.push_back(range_of(message));
  return {};
}

Status ImportContext::count_node() {
  if (++nodes > limits.nodes)
    return fail(ErrorCode::kResourceLimit, "more than {} nodes", limits.nodes);
  return {};
}

Status ImportContext::count_expanded(std::uint64_t bytes) {
  expanded_bytes += bytes;
  if (expanded_bytes <= limits.expanded_bytes) return {};
  return fail(ErrorCode::kResourceLimit, "expanded calls of functions exceed {} bytes",
              limits.expanded_bytes);
}

Status ImportContext::count_items(std::uint64_t count) {
  items += count;
  if (items > limits.items)
    return fail(ErrorCode::kResourceLimit, "more than {} values and attributes", limits.items);
  return {};
}

Status ImportContext::count_name(std::string_view name) {
  constexpr std::size_t kShown = 60;
  if (name.size() > limits.name_bytes)
    return fail(ErrorCode::kResourceLimit, "the name \"{}...\" has {} bytes, more than {}",
                name.substr(0, kShown), name.size(), limits.name_bytes);
  names_bytes += name.size();
  if (names_bytes > limits.names_bytes)
    return fail(ErrorCode::kResourceLimit, "names of more than {} bytes together",
                limits.names_bytes);
  return {};
}

namespace {

/// `sort_nodes` comes back true where the nodes have to be sorted first.
Result<Model> read_once(const Blob& source, const ReadModelOptions& options, bool& sort_nodes) {
  Model model;
  model.source = source;
  model.folder = options.external_data_folder;
  model.file_name = options.file_name;
  ExternalDataResolver resolver(options.external_data_folder, options.limits.external_files);
  for (const auto& [location, bytes] : options.external_buffers)
    resolver.add_buffer(location, bytes);
  const bool resolves = !model.folder.empty() || !options.external_buffers.empty();
  ImportContext context{
      .model = model,
      .tensors = TensorReader(model.source, resolves ? &resolver : nullptr, options.spill),
      .expand_functions = options.expand_functions,
      .limits = options.limits,
      .sort_nodes = sort_nodes,
      .functions = {},
      .function_by_key = {}};
  auto read = read_all(context);
  sort_nodes = context.met_later_name;
  if (!read) return std::unexpected(std::move(read).error());
  std::vector<FileRead> files = resolver.files();
  for (const FileRead& file : files) model.files_read.push_back(file.path);
  if (options.external_files != nullptr) *options.external_files = std::move(files);
  return model;
}

// As the file has the nodes, which costs a sorted model nothing; if that fails for the order, once more.
Result<Model> read_source(const Blob& source, const ReadModelOptions& options) {
  const std::string what =
      options.file_name.empty() ? "model" : std::format("model \"{}\"", options.file_name);
  if (source.bytes.empty()) return fail(ErrorCode::kInvalidGraph, "{}: it is empty", what);
  bool sort_nodes = false;
  auto model = read_once(source, options, sort_nodes);
  if (!model && sort_nodes) model = read_once(source, options, sort_nodes);
  if (!model) return std::unexpected(with_context(std::move(model).error(), what));
  return model;
}

}  // namespace

Result<Model> read_model(Blob source, const ReadModelOptions& options) {
  return at_boundary("reading a model", [&] { return read_source(source, options); });
}

Result<Model> read_model_file(const std::filesystem::path& path, ReadModelOptions options) {
  return at_boundary("reading a model", [&]() -> Result<Model> {
    Blob source = CTXGEN_TRY(map_file(path));
    if (options.external_data_folder.empty())
      options.external_data_folder = path.has_parent_path() ? path.parent_path() : ".";
    if (options.file_name.empty()) options.file_name = path.filename().string();
    return read_source(source, options);
  });
}

Result<Tensor> read_tensor(Blob source) {
  return at_boundary("reading a tensor", [&source]() -> Result<Tensor> {
    TensorReader reader(source, nullptr);
    return CTXGEN_TRY(reader.read(source.bytes)).tensor;
  });
}

}  // namespace ctxgen
