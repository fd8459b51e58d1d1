#include "session_compiler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <format>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "ctxgen/base/blob_alignment.h"
#include "ctxgen/base/log.h"
#include "ctxgen/base/spill_file.h"
#include "ctxgen/cache/content_hashes.h"

#include "huge_pages.h"
#include "session_entry.h"

namespace ctxgen::plugin {
namespace {

std::vector<std::string> refusals_of(const Graph& graph, const Assignment& assignment) {
  std::map<std::string, std::size_t> counts;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n)
    for (const std::string& reason : assignment.nodes[n].reasons)
      counts[std::format("{}: {}", graph.node(NodeId{n}).op_type, reason)] += 1;
  std::vector<std::string> lines;
  for (const auto& [line, count] : counts) lines.push_back(std::format("{} x {}", count, line));
  return lines;
}

/// The node that comes first is of the program: what it makes is in no other partition.
std::vector<NodeId> joined(std::vector<NodeId> nodes, std::span<const NodeId> folded) {
  nodes.insert(nodes.end(), folded.begin(), folded.end());
  return nodes;
}

SessionPrograms programs_of(const Graph& graph, const ClaimedGraph& claimed) {
  const Assignment& assignment = claimed.assignment;
  SessionPrograms programs;
  programs.nodes = graph.node_count();
  programs.refusals = refusals_of(graph, assignment);
  const auto& partitions = assignment.partitions.front();
  for (std::size_t p = 0; p < partitions.size(); ++p)
    programs.partitions.push_back({.nodes = joined(partitions[p].nodes, claimed.folded_nodes[p]),
                                   .program = {},
                                   .attributes = {}});
  return programs;
}

BlobSource blobs_of(const ContextContent& content) {
  return [blobs = content.blobs](BlobIndex index) -> Result<Blob> { return blobs[index.value]; };
}

/// Weights that are ONNX Runtime's memory get memory of their own, as it lets go of them; and those whose place in the
/// model's files is not that of weights that are used in place.
Result<SessionPrograms> owned(Result<SessionPrograms> made) {
  if (!made || !made->content) return made;
  for (Blob& blob : made->content->blobs) {
    const bool is_aligned =
        reinterpret_cast<std::uintptr_t>(blob.bytes.data()) % kBlobAlignment == 0;
    if ((blob.owner != nullptr && is_aligned) || blob.bytes.empty()) continue;
    Tensor copy = CTXGEN_TRY(
        Tensor::allocate(DataType::kUint8, {static_cast<std::int64_t>(blob.bytes.size())}));
    std::ranges::copy(blob.bytes, copy.mutable_bytes().begin());
    blob = Blob{copy.owner(), copy.bytes()};
  }
  use_huge_pages(*made->content);
  made->blobs = blobs_of(*made->content);
  return made;
}

Result<std::shared_ptr<const Program>> program_of(
    const std::shared_ptr<const std::vector<Program>>& programs, std::string_view name,
    std::size_t blobs) {
  const auto found = std::ranges::find(*programs, name, &Program::name);
  if (found == programs->end())
    return fail(ErrorCode::kInternal, "no program \"{}\" was made", name);
  CTXGEN_CHECK(validate(*found, blobs));
  return std::shared_ptr<const Program>(programs, &*found);
}

}  // namespace

GraphCompileOptions SessionCompiler::graph_options() const {
  return {.provider_options = options_.provider_options,
          .prefix = options_.node_prefix,
          .jobs = options_.threads};
}

Result<SessionPrograms> SessionCompiler::claim(SessionGraph& graph) const {
  const ClaimedGraph claimed = CTXGEN_TRY(claim_graph(graph.model, provider_));
  return programs_of(graph.model.graph, claimed);
}

Result<SessionPrograms> SessionCompiler::compile_now(SessionGraph& graph,
                                                     const GraphCompileOptions& options) const {
  ClaimedGraph claimed = CTXGEN_TRY(claim_graph(graph.model, provider_, options.spill));
  CompiledGraph compiled =
      CTXGEN_TRY(compile_graph(graph.model, std::move(claimed), provider_, options));
  SessionPrograms result;
  result.nodes = graph.nodes.size();
  result.refusals = refusals_of(graph.model.graph, compiled.assignment);
  if (!compiled.content) return result;
  result.content = std::move(compiled.content);
  const auto programs = std::make_shared<const std::vector<Program>>(result.content->programs);
  for (BuiltPartition& built : compiled.partitions)
    result.partitions.push_back(
        {.nodes = joined(compiled.assignment.partitions[built.provider][built.partition].nodes,
                         compiled.folded_nodes[built.partition]),
         .program = CTXGEN_TRY(
             program_of(programs, built.attributes.partition_name, result.content->blobs.size())),
         .attributes = std::move(built.attributes)});
  result.blobs = blobs_of(*result.content);
  return result;
}

/// As compile_now(), where the disk may be full: what does not fit there is in memory.
Result<SessionPrograms> SessionCompiler::compile_beside_cache(SessionGraph& graph) const {
  std::error_code error;
  std::filesystem::create_directories(options_.cache_dir, error);
  if (error || ::access(options_.cache_dir.c_str(), W_OK) != 0)
    return compile_now(graph, graph_options());
  SpillFile spill(options_.cache_dir / "x", SpillFile::kDefaultMemoryBytes);
  GraphCompileOptions with_spill = graph_options();
  with_spill.spill = &spill;
  auto made = compile_now(graph, with_spill);
  if (made || made.error().code != ErrorCode::kIoError) return made;
  log(LogLevel::kWarning, "option \"cache_dir\": {}: compiled in memory", made.error().message);
  return compile_now(graph, graph_options());
}

Result<SessionPrograms> SessionCompiler::compile_for_file(SessionGraph& graph,
                                                          const ContextReader* earlier,
                                                          const SourceIndex* sources) const {
  GraphCompileOptions options = graph_options();
  options.added = earlier;
  options.sources = sources;
  options.cache = cache_;  // by program: the file needs what only a compile knows
  return owned(compile_now(graph, options));
}

std::optional<SessionPrograms> SessionCompiler::find_entry(Hash128 key, std::size_t nodes) const {
  auto entry = options_.verify_cache == VerifyCache::kAlways
                   ? cache_->find(CacheKind::kOutput, key)
                   : cache_->find_unchanged(CacheKind::kOutput, key);
  if (!entry) return std::nullopt;
  auto found = read_session_entry(*entry, nodes);
  if (found) return *std::move(found);
  log(LogLevel::kWarning, "an entry of the cache is not used: {}", found.error().message);
  return std::nullopt;
}

Result<SessionPrograms> SessionCompiler::compile_for_cache(SessionGraph& graph, Hash128 key) const {
  SessionPrograms made = CTXGEN_TRY(compile_beside_cache(graph));
  if (!made.content) return made;  // so little work that it need not be kept
  if (!CTXGEN_TRY(keep_session_entry(*cache_, key, made))) return owned(std::move(made));
  auto kept = options_.verify_cache == VerifyCache::kAlways
                  ? cache_->find(CacheKind::kOutput, key)
                  : cache_->find_added(CacheKind::kOutput, key);
  if (kept) {
    auto mapped = read_session_entry(*kept, graph.nodes.size());
    if (mapped) {
      mapped->cached = false;
      return mapped;
    }
  }
  return owned(std::move(made));
}

Result<SessionPrograms> SessionCompiler::compile(SessionGraph& graph) const {
  if (cache_ == nullptr) return owned(compile_now(graph, graph_options()));
  ContentHashes hashes(options_.verify_cache == VerifyCache::kAlways ? nullptr : cache_,
                       graph.files);
  const Hash128 key = CTXGEN_TRY(graph_key(graph.model, provider_, graph_options(),
                                           [&](auto content) { return hashes.of(content); }));
  hashes.store();
  if (auto found = find_entry(key, graph.nodes.size())) return *std::move(found);
  if (!hashes.has_remembered()) return compile_for_cache(graph, key);
  // What is stored for others goes by what the weights are, not by what they were.
  const Hash128 read = CTXGEN_TRY(graph_key(graph.model, provider_, graph_options(),
                                            [](auto content) { return hash_bytes(content); }));
  auto found = read == key ? std::nullopt : find_entry(read, graph.nodes.size());
  return found ? *std::move(found) : compile_for_cache(graph, read);
}

}  // namespace ctxgen::plugin
