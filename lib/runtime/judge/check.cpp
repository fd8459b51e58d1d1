#include "ctxgen/runtime/check.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/file.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/ctxfile/fingerprint.h"
#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/ctxfile/packed_at_load.h"
#include "ctxgen/onnx_lite/list_contexts.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/registry/loaders.h"
#include "ctxgen/weights/external_file.h"

#include "load/context_set.h"
#include "load/signature.h"

namespace ctxgen {
namespace {

void add(ContextCheck& check, ContextFinding finding) {
  if (finding.verdict.verdict > check.verdict ||
      (finding.verdict.verdict == check.verdict && check.reason.empty())) {
    check.verdict = finding.verdict.verdict;
    check.reason = finding.verdict.reason;
  }
  check.findings.push_back(std::move(finding));
}

using Metadata = std::vector<std::pair<std::string, std::string>>;

void check_metadata(const Metadata& metadata, std::span<const ProgramLoader* const> loaders,
                    int threads, ContextCheck& check) {
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kCompatibilityKeyPrefix)) continue;
    const std::string_view source =
        std::string_view(key).substr(std::string_view(kCompatibilityKeyPrefix).size());
    const ProgramLoader* loader = find_loader(loaders, source);
    if (loader == nullptr) continue;  // another vendor's note about its own nodes
    add(check, {"metadata", std::string(source), loader->compatibility(value, threads)});
  }
}

/// Of a context of another version of its library: whether its programs are taken as they are stored.
Result<CompatibilityVerdict> judge_programs(const ContextSet& set, std::size_t index, int threads) {
  const OpenContext& context = set.contexts[index];
  std::set<std::size_t> used;  // many nodes may name one program
  for (const ResolvedNode& node : set.nodes)
    if (node.context == index) used.insert(node.program);
  std::vector<const Program*> programs;
  for (const std::size_t program : used) programs.push_back(&context.reader->programs()[program]);
  return fitness_of_programs(context.reader->info(), programs, *context.loader, threads);
}

/// What opening the contexts as a session would says, without loading a program.
Status check_contexts(const std::shared_ptr<const Model>& model, const ContextPlaces& places,
                      std::span<const ProgramLoader* const> loaders, int threads,
                      ContextCheck& check) {
  const ContextSet set = CTXGEN_TRY(open_contexts(model, places, loaders));
  for (std::size_t i = 0; i < set.contexts.size(); ++i) {
    const OpenContext& context = set.contexts[i];
    add(check, {context.name, context.source, CTXGEN_TRY(judge_programs(set, i, threads))});
    if (i == 0) check.instruction_sets = instruction_sets_of(context.reader->info().fingerprint);
  }
  for (const ResolvedNode& node : set.nodes) {
    const OpenContext& context = set.contexts[node.context];
    const Program& program = context.reader->programs()[node.program];
    for (const OpPrecision& op : context.loader->precisions(program))
      ++check.precisions[op.precision];
    const auto signature = bind_signature(*node.graph, node.graph->node(node.node), program);
    if (!signature) return std::unexpected(signature.error());
  }
  return {};
}

Result<ContextCheck> check_model(const std::filesystem::path& path, const SessionOptions& options) {
  const auto loaders = loaders_of(options);
  const auto model = std::make_shared<const Model>(CTXGEN_TRY(read_model_file(path)));
  ContextCheck check;
  check.partitions = count_ep_contexts(model->graph);
  check.is_compiled = is_compiled(*model);
  check_metadata(model->metadata, loaders, options.threads, check);
  const ContextPlaces places{path.has_parent_path() ? path.parent_path() : ".", options.bin_source,
                             VerifyBlobs::kNever};
  const auto status = check_contexts(model, places, loaders, options.threads, check);
  if (!status && status.error().code == ErrorCode::kResourceLimit)
    return std::unexpected(status.error());  // says nothing about the context
  if (!status)
    add(check,
        {path.filename().string(), "", {Compatibility::kUnsupported, status.error().message}});
  return check;
}

/// What a session would say of one node, as far as the header of its context shows it.
Result<ContextFinding> judge_node(const ListedContext& listed, const ListedContexts& all,
                                  const ContextPlaces& places, const SessionOptions& options) {
  const std::string& source = listed.attributes.source;
  const ContextNode node{listed.where, listed.attributes, listed.payload,
                         find_loader(loaders_of(options), source)};
  if (node.loader == nullptr)
    return fail(ErrorCode::kUnsupported,
                "{}: needs the execution provider \"{}\" of another vendor", listed.where, source);
  if (listed.attributes.main_context == 1) {
    const ContextInfo info = CTXGEN_TRY(read_context_header(node, places));
    const std::string& name =
        listed.attributes.embed_mode == 1 ? listed.where : listed.attributes.ep_cache_context;
    return ContextFinding{name, source, fitness_of(info, *node.loader, options.threads)};
  }
  const bool has_primary = std::ranges::any_of(all.nodes, [&](const ListedContext& other) {
    return other.attributes.main_context == 1 && other.attributes.source == source;
  });
  if (!has_primary)
    return fail(ErrorCode::kCorruptContext,
                "{}: main_context is 0, but no node of source \"{}\" has main_context 1",
                listed.where, source);
  return ContextFinding{listed.where, source, {Compatibility::kOptimal, ""}};
}

Result<ContextCheck> judge(const Blob& model, const std::filesystem::path& folder,
                           const SessionOptions& options) {
  const ListedContexts listed = CTXGEN_TRY(list_contexts(model));
  const ContextPlaces places{folder, options.bin_source, VerifyBlobs::kNever};
  ContextCheck check;
  check.partitions = listed.nodes.size();
  check.is_compiled =
      check.partitions > 0 || std::ranges::contains(listed.metadata, kCompileKeyMetadata,
                                                    &std::pair<std::string, std::string>::first);
  check_metadata(listed.metadata, loaders_of(options), options.threads, check);
  for (const auto& [key, value] : listed.metadata)
    if (key == kExternalFileKey)
      if (const auto status = check_external_file(folder, value); !status)
        add(check, {key, "", {Compatibility::kUnsupported, status.error().message}});
  for (const ListedContext& node : listed.nodes) {
    auto finding = judge_node(node, listed, places, options);
    if (!finding)
      finding = ContextFinding{node.where,
                               node.attributes.source,
                               {Compatibility::kUnsupported, std::move(finding).error().message}};
    add(check, *std::move(finding));
  }
  return check;
}

}  // namespace

Result<ContextCheck> judge_context(const std::filesystem::path& path,
                                   const SessionOptions& options) {
  return at_boundary("judging a context", [&]() -> Result<ContextCheck> {
    return judge(CTXGEN_TRY(map_file(path)), path.has_parent_path() ? path.parent_path() : ".",
                 options);
  });
}

Result<ContextCheck> judge_context_memory(const Blob& model, const SessionOptions& options) {
  return at_boundary("judging a context", [&] {
    return judge(model, options.context_file_path.parent_path(), options);
  });
}

Result<ContextCheck> check_context(const std::filesystem::path& path,
                                   const SessionOptions& options) {
  return at_boundary("checking a context", [&] { return check_model(path, options); });
}

}  // namespace ctxgen
