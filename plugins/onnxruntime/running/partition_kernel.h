#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

#include "ort_edge.h"
#include "ort_tables.h"
#include "running/loaded_partition.h"
#include "running/profiler.h"
#include "running/run_watch.h"

namespace ctxgen::plugin {

/// What ONNX Runtime runs in place of one EPContext node.
///
/// ONNX Runtime runs a fused node whose inputs and outputs are not those of the EPContext node:
/// duplicates, absent and unused ones are gone, the order may be another. Their names are the same.
///
/// Threads  ONNX Runtime may run one node from several threads at once; each call takes an execution
///          state of its own.
class PartitionKernel final : public NodeComputeTable {
 public:
  struct Bindings {
    std::string partition;                            // the program's name
    std::vector<std::size_t> inputs;                  // of the fused node, by program input
    std::vector<std::optional<std::size_t>> outputs;  // likewise; nothing: not wanted
  };
  /// Of the session that runs it.
  struct Surroundings {
    OrtApis ort;
    const RunWatch& watch;  // outlives the kernel: it is its execution provider's
    std::shared_ptr<OpProfiles> profiles;
    bool session_workers = false;  // loops of our own run on the session's threads
  };
  PartitionKernel(Surroundings session, std::string where,
                  std::shared_ptr<LoadedPartition> partition, Bindings bindings);

  /// Values of a node, "" where one is absent.
  struct NodeNames {
    std::vector<std::string> inputs, outputs;
  };
  /// `node`: the EPContext node as it is in the model now; `fused`: what ONNX Runtime runs.
  /// Errors  kCorruptContext: the node has not as many values as the program, or one is absent.
  [[nodiscard]] static Result<Bindings> bind(const Program& program, const NodeNames& node,
                                             const NodeNames& fused);

 private:
  class Outputs;
  [[nodiscard]] Status run(OrtKernelContext& context);
  [[nodiscard]] Result<TensorView> input_view(OrtKernelContext& context, std::size_t index) const;

  const Surroundings session_;
  const OrtApis& ort_ = session_.ort;
  std::string where_;
  std::shared_ptr<LoadedPartition> partition_;
  Bindings bindings_;
};

}  // namespace ctxgen::plugin
