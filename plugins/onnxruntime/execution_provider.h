#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/source_weights.h"
#include "ctxgen/ctxfile/workspace.h"

#include "ep_options.h"
#include "graph_nodes.h"
#include "ort_edge.h"
#include "ort_tables.h"
#include "partition_kernel.h"
#include "run_watch.h"

namespace ctxgen::plugin {

/// The execution provider of one session. Refers to nothing of the factory: an application may
/// unregister the library while sessions live.
class ExecutionProvider final : public EpTable {
 public:
  /// `name`: the `source` of the EPContext nodes that it runs. `options`: an error in them is logged now and returned by Compile: ONNX Runtime's Python package
  /// would answer an error from here by a session without the EP.
  ExecutionProvider(OrtApis ort, std::string name, Result<EpOptions> options,
                    const OrtLogger* logger);

 private:
  void fill_compiling() noexcept;
  void fill_running() noexcept;
  [[nodiscard]] Status claim(const OrtGraph& graph, OrtEpGraphSupportInfo& info) const;
  [[nodiscard]] Status compile(std::span<const OrtGraph* const> graphs,
                               std::span<const OrtNode* const> fused_nodes,
                               OrtNodeComputeInfo** kernels);
  [[nodiscard]] Status claim_to_refuse(std::span<const OrtNode* const> nodes,
                                       OrtEpGraphSupportInfo& info) const;
  [[nodiscard]] Status check_options(std::span<const OrtGraph* const> graphs) const;
  [[nodiscard]] Status check_graph_count();
  [[nodiscard]] Result<ContextPlaces> places(const OrtGraph& graph) const;
  [[nodiscard]] Status judge(const ResolvedContexts& contexts) const;
  [[nodiscard]] Result<std::unique_ptr<PartitionKernel>> load(
      const ContextNode& node, const OrtNode& source, const OrtNode& fused,
      const OpenContext& context, std::size_t program, SourceWeights& sources) const;

  OrtApis ort_;
  std::string name_;
  EpOptions options_;
  Status options_status_;
  const OrtLogger* logger_;
  RunWatch watch_;
  std::shared_ptr<Workspace> group_;
  int compiled_graphs_ = 0;
};

}  // namespace ctxgen::plugin
