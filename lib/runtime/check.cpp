#include "ctxgen/runtime/check.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "context_set.h"
#include "ctxgen/base/boundary.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/registry/loaders.h"
#include "signature.h"

namespace ctxgen {
namespace {

void add(ContextCheck& check, ContextFinding finding) {
  if (finding.verdict.verdict > check.verdict) {
    check.verdict = finding.verdict.verdict;
    check.reason = finding.verdict.reason;
  }
  check.findings.push_back(std::move(finding));
}

void check_metadata(const Model& model, std::span<const ProgramLoader* const> loaders,
                    int threads, ContextCheck& check) {
  for (const auto& [key, value] : model.metadata) {
    if (!key.starts_with(kCompatibilityKeyPrefix)) continue;
    const std::string_view source =
        std::string_view(key).substr(std::string_view(kCompatibilityKeyPrefix).size());
    const ProgramLoader* loader = find_loader(loaders, source);
    if (loader == nullptr) continue;  // another vendor's note about its own nodes
    add(check, {"metadata", std::string(source), loader->compatibility(value, threads)});
  }
}

/// What opening the contexts as a session would says, without loading a program.
Status check_contexts(const std::shared_ptr<const Model>& model, const ContextPlaces& places,
                      std::span<const ProgramLoader* const> loaders, int threads,
                      ContextCheck& check) {
  const ContextSet set = CTXGEN_TRY(open_contexts(model, places, loaders));
  for (const OpenContext& context : set.contexts)
    add(check, {context.name, context.source,
                context.loader->compatibility(context.reader->info().fingerprint, threads)});
  for (const ResolvedNode& node : set.nodes) {
    const auto signature =
        bind_signature(*node.graph, node.graph->node(node.node),
                       set.contexts[node.context].reader->programs()[node.program]);
    if (!signature) return std::unexpected(signature.error());
  }
  return {};
}

Result<ContextCheck> check_model(const std::filesystem::path& path,
                                 const SessionOptions& options) {
  const auto loaders = options.loaders.empty() ? default_loaders() : std::span(options.loaders);
  const auto model = std::make_shared<const Model>(CTXGEN_TRY(read_model_file(path)));
  ContextCheck check;
  check.partitions = count_ep_contexts(model->graph);
  check_metadata(*model, loaders, options.threads, check);
  const ContextPlaces places{path.has_parent_path() ? path.parent_path() : ".",
                             options.bin_source, VerifyBlobs::kNever};
  const auto status = check_contexts(model, places, loaders, options.threads, check);
  if (!status && status.error().code == ErrorCode::kResourceLimit)
    return std::unexpected(status.error());  // says nothing about the context
  if (!status)
    add(check, {path.filename().string(), "",
                {Compatibility::kUnsupported, status.error().message}});
  return check;
}

}  // namespace

Result<ContextCheck> check_context(const std::filesystem::path& path,
                                   const SessionOptions& options) {
  return at_boundary("checking a context", [&] { return check_model(path, options); });
}

}  // namespace ctxgen
