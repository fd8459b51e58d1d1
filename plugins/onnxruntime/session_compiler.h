#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/compile_graph.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/partition/provider.h"

#include "ep_options.h"
#include "graph/session_graph.h"
#include "ort_edge.h"

namespace ctxgen::plugin {

/// Nodes that become one program.
struct SessionPartition {
  std::vector<NodeId> nodes;               // in order, and what was computed for it alone
  std::shared_ptr<const Program> program;  // null: only claimed
  EpContextAttributes attributes;          // of a compile, not of the cache
};

/// What is compiled of a session's model.
struct SessionPrograms {
  std::vector<SessionPartition> partitions;
  BlobSource blobs;                       // of the programs
  std::optional<ContextContent> content;  // of a compile, not of the cache
  std::size_t nodes = 0;                  // of the model
  bool cached = false;
  /// Why nodes stay with ONNX Runtime, of a claim or a compile: one line for each operator and reason.
  std::vector<std::string> refusals;
};

/// Compiles the model of a session, or takes it from a cache.
///
/// Lifetime  the result holds no memory of ONNX Runtime's.
class SessionCompiler {
 public:
  /// All three outlive it. `cache`: that of options.cache_dir, null for none.
  SessionCompiler(const Provider& provider, const EpOptions& options, CacheFolder* cache)
      : provider_(provider), options_(options), cache_(cache) {}

  /// Only what would be compiled.
  [[nodiscard]] Result<SessionPrograms> claim(SessionGraph& graph) const;
  [[nodiscard]] Result<SessionPrograms> compile(SessionGraph& graph) const;
  /// The same for a context model: with content and attributes, after the programs of `earlier`, if any.
  /// `sources`: of weights that stay in their files, null for none.
  [[nodiscard]] Result<SessionPrograms> compile_for_file(SessionGraph& graph,
                                                         const ContextReader* earlier,
                                                         const SourceIndex* sources) const;

 private:
  [[nodiscard]] GraphCompileOptions graph_options() const;
  /// Weights may be ONNX Runtime's memory.
  [[nodiscard]] Result<SessionPrograms> compile_now(SessionGraph& graph,
                                                    const GraphCompileOptions& options) const;
  [[nodiscard]] Result<SessionPrograms> compile_beside_cache(SessionGraph& graph) const;
  [[nodiscard]] Result<SessionPrograms> compile_for_cache(SessionGraph& graph, Hash128 key) const;
  /// What the cache has under that key for a model of so many nodes.
  [[nodiscard]] std::optional<SessionPrograms> find_entry(Hash128 key, std::size_t nodes) const;

  const Provider& provider_;
  const EpOptions& options_;
  CacheFolder* cache_;
};

}  // namespace ctxgen::plugin
