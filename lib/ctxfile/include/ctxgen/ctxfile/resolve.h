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

namespace ctxgen {

class Workspace;

/// An EPContext node of ours, from either reader.
struct ContextNode {
  std::string where;                      // for messages: `node "dnnl_0" (EPContext)`
  EpContextAttributes attributes;         // an embedded payload is not here
  Blob payload;                           // embed_mode=1
  const ProgramLoader* loader = nullptr;  // of attributes.source
};

/// A file by its relative name, and its bytes.
using AcceptFile =
    std::function<Status(std::string_view relative_name, std::span<const std::byte>)>;

/// Where a model's context binaries are looked for.
struct ContextPlaces {
  std::filesystem::path folder;  // empty: none known (a model from memory)
  std::function<Result<Blob>(std::string_view relative_name)> bin_source;  // instead of files
  VerifyBlobs verify = VerifyBlobs::kAuto;
  Workspace* workspace = nullptr;  // of the session's group, if it shares; binaries from files only
  /// Whether a file below the folder may be used; asked before anything in it is read. Null: all of them. With one each
  /// session opens its binaries itself.
  AcceptFile accept = {};
};

/// A context binary that a primary node named.
struct OpenContext {
  std::string name;    // relative name, or the node's for an embedded payload
  std::string source;  // the EP name
  bool embedded = false;
  std::shared_ptr<const ContextReader> reader;
  const ProgramLoader* loader = nullptr;
  /// One of the reader's, which lives as long.
  [[nodiscard]] std::shared_ptr<const Program> program(std::size_t index) const {
    return {reader, &reader->programs()[index]};
  }
};

/// A program of an open context.
struct ProgramPlace {
  std::size_t context = 0;  // index into ResolvedContexts::contexts
  std::size_t program = 0;
};

struct ResolvedContexts {
  std::vector<OpenContext> contexts;
  std::vector<ProgramPlace> programs;  // one per node
};

/// Opens the context binaries that `nodes` name and finds each node's program: primary nodes
/// (main_context=1) in theirs, the others in any primary context of their source. Where a partition
/// has programs for several instruction sets, it is the best that this machine has.
///
/// Requires  every node has a loader.
/// Errors    kCorruptContext (missing, damaged, partition not there or there twice, program of an
///           interrupted compile), kVersionMismatch (another format major), INVALID_ARGUMENT (no
///           folder to look in).
[[nodiscard]] Result<ResolvedContexts> resolve_contexts(std::span<const ContextNode> nodes,
                                                        const ContextPlaces& places);

/// What the context of a primary node was made for, from its header alone: as resolve_contexts, as far
/// as the header shows it (missing, another format, another provider's, truncated), at a cost that does
/// not depend on its size.
[[nodiscard]] Result<ContextInfo> read_context_header(const ContextNode& node,
                                                      const ContextPlaces& places);

/// Whether contexts fit this machine, before their programs are touched. Gives what should be said of
/// those that run and had better be compiled again.
/// Errors  kVersionMismatch for one that does not fit.
[[nodiscard]] Result<std::vector<std::string>> check_fitness(std::span<const OpenContext> contexts,
                                                             int threads);

/// Decompresses the weights of all programs to load, where they are compressed, on `threads` threads
/// (0: all) at once.
[[nodiscard]] Status decompress_weights(std::span<const OpenContext> contexts,
                                        std::span<const ProgramPlace> programs, int threads);

}  // namespace ctxgen
