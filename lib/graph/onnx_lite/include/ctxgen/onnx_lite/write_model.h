#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// One node of the model to write: an old node (verbatim), a function call that was expanded but
/// is written as it was, or a new EPContext node.
struct EpContextNode {
  std::string name;
  std::vector<ValueId> inputs, outputs;
  EpContextAttributes attributes;
  Blob payload;  // embed mode: written as ep_cache_context instead of the attribute's text
};

struct NodeToWrite {
  enum class Kind { kNode, kCall, kEpContext } kind = Kind::kNode;
  NodeId node;                 // kNode
  std::int32_t call = -1;      // kCall
  std::size_t ep_context = 0;  // kEpContext: index into ModelRewrite::ep_contexts
  bool rewired = false;        // kNode: its inputs are Node::inputs, not those of the source
};

/// Where the bytes of an initializer are in a file next to the model.
struct ExternalPlace {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string location = {};  // empty: ModelRewrite::external_location
};

struct BodyRewrite;

/// What of a graph is written, and with what changes. Everything not named here is written as it
/// stood in the source, byte for byte.
struct GraphRewrite {
  std::vector<NodeToWrite> nodes;  // topological order
  std::vector<EpContextNode> ep_contexts;
  std::vector<ValueId> inputs;        // graph inputs kept, in order
  std::vector<ValueId> initializers;  // kept, in order of the source
  std::vector<ValueId> value_infos;   // written from ValueType where the source has none
  std::vector<ValueId> captures;      // values of enclosing graphs that what is written reads
  std::vector<BodyRewrite> bodies;    // bodies of written nodes that change
};

/// A body of an If, Loop or Scan node.
struct BodyRewrite {
  const Graph* graph = nullptr;
  GraphRewrite rewrite;
};

/// What of a model is written: its main graph, and what belongs to no graph.
struct ModelRewrite : GraphRewrite {
  std::vector<std::size_t> functions;  // indices of functions kept
  /// External data of the source that was read from memory, by location.
  std::vector<std::pair<std::string, Blob>> external_buffers;
  std::string external_location;  // file of those in `external` that name none
  std::unordered_map<ValueId, ExternalPlace> external;  // kept initializers without bytes inline
  std::vector<std::pair<std::string, std::string>> metadata;  // added or replaced
  bool needs_microsoft_opset = false;
};

using ModelSink = std::function<Status(std::span<const std::byte>)>;

/// Protobuf's own limit on a message, which every reader of ONNX files shares.
inline constexpr std::uint64_t kMaxModelBytes = (std::uint64_t{1} << 31) - 1;

/// Whether a model of `size` bytes, of which context binaries inside take `embedded`, can be written.
/// Errors  RESOURCE_LIMIT saying what helps.
[[nodiscard]] Status check_model_size(std::uint64_t size, std::uint64_t embedded);

/// Size in bytes of the ModelProto that write_model would write.
[[nodiscard]] Result<std::uint64_t> model_size(const Model& model, const ModelRewrite& rewrite);

/// Streams the ModelProto: big tensors go from the map to the sink. External initializers are
/// written inline (relocated). Deterministic.
/// Errors  those of check_model_size before the first byte; those of `sink`.
[[nodiscard]] Status write_model(const Model& model, const ModelRewrite& rewrite,
                                 const ModelSink& sink);

/// The content hash (ctxgen/onnx_lite/content_hash.h) of what write_model would write; metadata does not
/// count. Nothing is copied together for it.
[[nodiscard]] Result<Hash128> content_hash(const Model& model, const ModelRewrite& rewrite);

/// Indices of the model's functions that `nodes` call as they will be written, in subgraphs and
/// through other functions too: ModelRewrite::functions.
[[nodiscard]] std::vector<std::size_t> functions_in_use(const Model& model,
                                                        std::span<const NodeToWrite> nodes);

/// A rewrite that keeps a graph as it is, the main one or a body.
[[nodiscard]] GraphRewrite identity_rewrite(const Graph& graph);
/// The same for the whole model.
[[nodiscard]] ModelRewrite identity_rewrite(const Model& model);

}  // namespace ctxgen
