#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/resolve.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

struct SessionOptions;

/// Those of the options, or the ones of this build.
[[nodiscard]] std::span<const ProgramLoader* const> loaders_of(const SessionOptions& options);

/// An EPContext node and the program that it stands for.
struct ResolvedNode {
  const Graph* graph = nullptr;  // the main graph, or a body of a node in it
  NodeId node;
  std::size_t context = 0;  // index into ContextSet::contexts
  std::size_t program = 0;
};

struct ContextSet {
  std::vector<OpenContext> contexts;
  std::vector<ResolvedNode> nodes;
  std::string source_model_name;  // what the nodes call the model that they were compiled from
};

/// How many EPContext nodes a graph and the bodies in it have, of whatever source.
[[nodiscard]] std::size_t count_ep_contexts(const Graph& graph);

/// Whether a compile wrote the model: it has EPContext nodes, or the key of a compile that found nothing
/// to compile.
[[nodiscard]] bool is_compiled(const Model& model);

/// Opens the context binaries of all EPContext nodes of the model, those in bodies of If, Loop and Scan
/// too, and finds each node's program: primary nodes (main_context=1) first, then the others through all primary contexts.
///
/// Errors  UNSUPPORTED (foreign source, naming the EP), kCorruptContext (missing, damaged, partition
///         not there or there twice, program of an interrupted compile), kVersionMismatch (another
///         format major), INVALID_ARGUMENT (no folder to look in).
[[nodiscard]] Result<ContextSet> open_contexts(const std::shared_ptr<const Model>& model,
                                               const ContextPlaces& places,
                                               std::span<const ProgramLoader* const> loaders);

}  // namespace ctxgen
