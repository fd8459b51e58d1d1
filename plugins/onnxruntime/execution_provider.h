#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/ctxfile/source_weights.h"
#include "ctxgen/ctxfile/workspace.h"
#include "ctxgen/partition/provider.h"

#include "ep_options.h"
#include "generated_context.h"
#include "graph/graph_nodes.h"
#include "ort_edge.h"
#include "ort_tables.h"
#include "running/partition_kernel.h"
#include "running/profiler.h"
#include "running/run_watch.h"
#include "session_compiler.h"
#include "session_sources.h"

namespace ctxgen::plugin {

/// The execution provider of one session. Refers to nothing of the factory: an application may
/// unregister the library while sessions live.
class ExecutionProvider final : public EpTable {
 public:
  /// `provider`: runs EPContext nodes whose `source` is its name, and compiles other nodes. `options`: an error in them is logged now and returned by Compile: ONNX Runtime's Python package
  /// would answer an error from here by a session without the EP.
  ExecutionProvider(OrtApis ort, std::unique_ptr<Provider> provider, Result<EpOptions> options,
                    const OrtLogger* logger);

 private:
  /// Compiled when it was claimed: what ONNX Runtime gave for that is gone when it asks for the kernel.
  struct Made {
    std::string output;  // a value that only its nodes make
    std::shared_ptr<const Program> program;
    EpContextAttributes attributes;
  };

  void fill_compiling() noexcept;
  void fill_running() noexcept;
  [[nodiscard]] PartitionKernel::Surroundings surroundings() const {
    return {ort_, watch_, profiles_, options_.session_workers};
  }
  [[nodiscard]] Status claim(const OrtGraph& graph, OrtEpGraphSupportInfo& info);
  [[nodiscard]] Status claim_ordinary(const OrtGraph& graph, OrtEpGraphSupportInfo& info);
  /// `cache`: null for none.
  [[nodiscard]] Result<SessionPrograms> compile_ordinary(const OrtGraph& source,
                                                         SessionGraph& graph, CacheFolder* cache);
  /// Null without cache_dir.
  [[nodiscard]] Result<std::unique_ptr<CacheFolder>> open_cache() const;
  /// Writes the context of a context model, and makes its nodes.
  [[nodiscard]] Status generate(std::span<const OrtGraph* const> graphs,
                                std::span<const OrtNode* const> fused_nodes,
                                OrtNode** context_nodes);
  [[nodiscard]] Result<const Made*> find_made(const OrtGraph& graph) const;
  [[nodiscard]] Status compile(std::span<const OrtGraph* const> graphs,
                               std::span<const OrtNode* const> fused_nodes,
                               OrtNodeComputeInfo** kernels, OrtNode** context_nodes);
  /// One of an ordinary model.
  [[nodiscard]] Result<std::unique_ptr<PartitionKernel>> load_ordinary(const OrtGraph& graph,
                                                                       const OrtNode& fused) const;
  [[nodiscard]] Status load_contexts(std::span<const OrtGraph* const> graphs,
                                     std::span<const OrtNode* const> fused_nodes,
                                     OrtNodeComputeInfo** kernels) const;
  [[nodiscard]] Status claim_to_refuse(std::span<const OrtNode* const> nodes,
                                       OrtEpGraphSupportInfo& info) const;
  [[nodiscard]] Status check_options(std::span<const OrtGraph* const> graphs) const;
  [[nodiscard]] Status check_graph_count();
  /// Why ordinary nodes that come after a call of compile() are not claimed; empty: they are.
  [[nodiscard]] std::string_view why_no_more() const;
  /// With a folder for external initializers ONNX Runtime gives a model from memory (since 1.29 each model) a path there, which
  /// says nothing about the model's own place.
  [[nodiscard]] bool is_elsewhere(const std::filesystem::path& model) const;
  [[nodiscard]] Result<ContextPlaces> places(const OrtGraph& graph) const;
  [[nodiscard]] Status require_signed(const std::filesystem::path& model, bool from_memory,
                                      ContextPlaces& places) const;
  [[nodiscard]] Status judge(const ResolvedContexts& contexts) const;
  [[nodiscard]] Result<std::unique_ptr<PartitionKernel>> load(
      const ContextNode& node, const OrtNode& source, const OrtNode& fused,
      const OpenContext& context, std::size_t program, SourceWeights& sources) const;

  OrtApis ort_;
  std::unique_ptr<Provider> provider_;
  std::string name_;
  EpOptions options_;
  Status options_status_;
  const OrtLogger* logger_;
  RunWatch watch_;
  std::shared_ptr<OpProfiles> profiles_ = std::make_shared<OpProfiles>();
  std::shared_ptr<Workspace> group_;
  int compiled_graphs_ = 0;
  std::vector<Made> made_;
  BlobSource made_blobs_;
  bool has_compiled_ = false;
  std::atomic<bool> trims_at_run_ = false;  // at the next one
  bool has_loaded_contexts_ = false;        // nothing is compiled in such a session
  std::optional<GeneratedContext> context_;
  std::optional<SessionSources> sources_;       // of the context, where weights stay in files
  std::optional<ContextContent> made_content_;  // of the context
  Status refusal_;                              // of a session that cannot have what it asks for
  std::string fingerprint_;
};

}  // namespace ctxgen::plugin
