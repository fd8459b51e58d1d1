#include "generated_context.h"

#include <algorithm>
#include <cstdint>
#include <format>
#include <limits>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/ctxfile/magic.h"

#include "graph/graph_nodes.h"

namespace ctxgen::plugin {
namespace {

/// The file that sessions of the process's group write.
struct SharedBin {
  std::mutex mutex;
  std::filesystem::path path;  // empty: there is none yet
  Blob bytes;                  // of what the application keeps
};

SharedBin& shared_bin() {
  static SharedBin bin;
  return bin;
}

/// As the command line names it: "model.onnx" and "model_ctx.onnx" give "model_dnnl.bin".
std::filesystem::path bin_next_to(const std::filesystem::path& model, std::string_view provider) {
  std::string stem = model.stem().string();
  if (stem.size() > 4 && stem.ends_with("_ctx")) stem.resize(stem.size() - 4);
  return model.parent_path() / std::format("{}_{}.bin", stem, provider);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return std::filesystem::absolute(file).parent_path().lexically_normal();
}

/// In memory: an application's function gets a context in one piece.
Result<std::vector<std::byte>> bytes_of(const ContextContent& content) {
  std::vector<std::byte> bytes;
  bytes.reserve(CTXGEN_TRY(context_size(content)));
  CTXGEN_CHECK(write_context(content, [&bytes](std::span<const std::byte> part) -> Status {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};
  }));
  return bytes;
}

/// A file that is something else is not replaced.
Status check_replaceable(const std::filesystem::path& bin) {
  std::error_code error;
  if (!std::filesystem::exists(bin, error)) return {};
  const Blob file = CTXGEN_TRY(map_file(bin));
  if (as_text(file.bytes).starts_with(kContextMagic)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" exists and is not a context binary: it is not replaced", bin.string());
}

/// Attributes of a node to be made. CreateNode takes them over and sets them to null.
class NewAttributes {
 public:
  explicit NewAttributes(const OrtApi& api) : api_(api) {}
  ~NewAttributes() {
    for (OrtOpAttr* attribute : attributes_)
      if (attribute != nullptr) api_.ReleaseOpAttr(attribute);
  }
  NewAttributes(const NewAttributes&) = delete;
  NewAttributes& operator=(const NewAttributes&) = delete;

  Status add(const char* name, std::int64_t value) { return add(name, &value, 1, ORT_OP_ATTR_INT); }
  Status add(const char* name, const std::string& value) {
    if (value.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      return fail(
          ErrorCode::kResourceLimit,
          "attribute \"{}\" has {} bytes, at most 2 GiB are possible: write the context to a "
          "file (ep.context_embed_mode=0)",
          name, value.size());
    return add(name, value.data(), static_cast<int>(value.size()), ORT_OP_ATTR_STRING);
  }
  [[nodiscard]] std::vector<OrtOpAttr*>& all() { return attributes_; }

 private:
  Status add(const char* name, const void* data, int size, OrtOpAttrType type) {
    OrtOpAttr* attribute = nullptr;
    CTXGEN_CHECK(from_ort(api_, api_.CreateOpAttr(name, data, size, type, &attribute)));
    attributes_.push_back(attribute);
    return {};
  }
  const OrtApi& api_;
  std::vector<OrtOpAttr*> attributes_;
};

Status add_attributes(NewAttributes& made, const EpContextAttributes& a) {
  CTXGEN_CHECK(made.add("main_context", a.main_context));
  CTXGEN_CHECK(made.add("ep_cache_context", a.ep_cache_context));
  CTXGEN_CHECK(made.add("embed_mode", a.embed_mode));
  CTXGEN_CHECK(made.add("ep_sdk_version", a.ep_sdk_version));
  CTXGEN_CHECK(made.add("onnx_model_filename", a.onnx_model_filename));
  CTXGEN_CHECK(made.add("hardware_architecture", a.hardware_architecture));
  CTXGEN_CHECK(made.add("partition_name", a.partition_name));
  CTXGEN_CHECK(made.add("source", a.source));
  CTXGEN_CHECK(made.add("notes", a.notes));
  return made.add("max_size", a.max_size);
}

std::vector<const char*> names_of(const Program& program, std::span<const std::uint32_t> values) {
  std::vector<const char*> names;
  for (const std::uint32_t value : values) names.push_back(program.values[value].name.c_str());
  return names;
}

/// What no node of ONNX Runtime's graph reads is absent: it would know no type of it.
void leave_out_unread(std::vector<const char*>& outputs, std::span<const std::string> read) {
  for (const char*& name : outputs)
    if (!std::ranges::contains(read, std::string_view(name))) name = "";
}

}  // namespace

Result<GeneratedContext> GeneratedContext::plan(const EpOptions& options,
                                                const std::filesystem::path& model,
                                                std::string_view provider) {
  GeneratedContext context;
  context.model_name_ = model.filename().string();
  context.shares_ = options.share_ep_contexts;
  context.ends_group_ = options.stop_share_ep_contexts;
  const std::filesystem::path& near =
      options.context_file_path.empty() ? model : options.context_file_path;
  if (!near.empty()) context.folder_ = near.parent_path();
  // As a load looks for it; mode 1 does not need the source itself, which may be anywhere.
  const std::filesystem::path& source = model.empty() ? options.source_model.path : model;
  if (options.weightless != WeightlessMode::kNone && context.folder_ && !source.empty())
    context.model_name_ =
        file_reference(*context.folder_, source).value_or(source.filename().string());
  if (options.embeds) {
    if (options.share_ep_contexts)
      return fail(ErrorCode::kInvalidArgument,
                  "ep.context_embed_mode=1 cannot be combined with ep.share_ep_contexts=1: an "
                  "embedded context belongs to one model");
    return context;
  }
  context.data_ = options.data;
  if (near.empty() && !context.data_.writes())
    return fail(ErrorCode::kInvalidArgument,
                "set ep.context_file_path, next to which the context binary goes, or "
                "ep.context_embed_mode=1");
  context.bin_ = bin_next_to(near.empty() ? std::filesystem::path("model") : near, provider);
  if (options.share_ep_contexts && CTXGEN_TRY(context.join_group())) return context;
  if (!context.data_.writes()) CTXGEN_CHECK(check_replaceable(context.bin_));
  return context;
}

Result<bool> GeneratedContext::join_group() {
  SharedBin& shared = shared_bin();
  const std::lock_guard lock(shared.mutex);
  std::error_code error;
  const bool begun = data_.writes()
                         ? !shared.bytes.bytes.empty()
                         : !shared.path.empty() && std::filesystem::exists(shared.path, error);
  if (!begun) return false;
  if (folder_of(shared.path) != folder_of(bin_))
    return fail(ErrorCode::kInvalidArgument,
                "models that share a context must be in one folder: \"{}\" is that of the "
                "first one, \"{}\" is another (ep.share_ep_contexts)",
                folder_of(shared.path).string(), folder_of(bin_).string());
  bin_ = shared.path;
  Blob bytes = data_.writes() ? shared.bytes : CTXGEN_TRY(map_file(shared.path));
  earlier_ = CTXGEN_TRY(ContextReader::open(std::move(bytes), bin_.string(), VerifyBlobs::kNever));
  return true;
}

Status GeneratedContext::write(const OrtApis& ort, const ContextContent& content) {
  if (bin_.empty())
    return write_context(content, [this](std::span<const std::byte> bytes) -> Status {
      payload_ += as_text(bytes);
      return {};
    });
  Blob given;
  if (data_.writes()) {
    given = Blob::own(CTXGEN_TRY(bytes_of(content)));
    CTXGEN_CHECK(data_.write(ort, bin_.filename().string(), given.bytes));
  } else {
    AtomicFile file = CTXGEN_TRY(AtomicFile::create(bin_));
    CTXGEN_CHECK(write_context(content, [&file](auto bytes) { return file.write(bytes); }));
    CTXGEN_CHECK(file.commit());
  }
  if (!shares_) return {};
  SharedBin& shared = shared_bin();
  const std::lock_guard lock(shared.mutex);
  shared.path = ends_group_ ? std::filesystem::path() : std::filesystem::absolute(bin_);
  shared.bytes = ends_group_ ? Blob() : std::move(given);
  return {};
}

EpContextAttributes GeneratedContext::complete(EpContextAttributes attributes, bool first) const {
  attributes.main_context = first ? 1 : 0;
  attributes.embed_mode = bin_.empty() ? 1 : 0;
  attributes.onnx_model_filename = model_name_;
  attributes.ep_cache_context = !first ? "" : bin_.empty() ? payload_ : bin_.filename().string();
  return attributes;
}

Result<OrtNode*> make_context_node(const OrtApis& ort, const OrtNode& fused, const Program& program,
                                   const EpContextAttributes& attributes) {
  const OrtModelEditorApi* editor = ort.api->GetModelEditorApi();
  if (editor == nullptr)
    return fail(ErrorCode::kUnsupported, "this ONNX Runtime cannot make nodes");
  const char* name = "";
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetName(&fused, &name)));
  NewAttributes made(*ort.api);
  CTXGEN_CHECK(add_attributes(made, attributes));
  const auto from = names_of(program, program.inputs);
  auto to = names_of(program, program.outputs);
  leave_out_unread(to, CTXGEN_TRY(output_names(ort, fused)));
  OrtNode* node = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, editor->CreateNode(kEpContextOpType, kMicrosoftDomain, name,
                                                     from.data(), from.size(), to.data(), to.size(),
                                                     made.all().data(), made.all().size(), &node)));
  return node;
}

}  // namespace ctxgen::plugin
