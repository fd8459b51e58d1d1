#include "ctxgen/ctxfile/resolve.h"

#include <algorithm>
#include <format>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/ctxfile/workspace.h"

#include "header.h"

namespace ctxgen {
namespace {

Result<Blob> open_bin(const ContextNode& node, const ContextPlaces& places) {
  const std::string& name = node.attributes.ep_cache_context;
  if (name.empty())
    return fail(ErrorCode::kCorruptContext,
                "{}: main_context is 1, but ep_cache_context names no context binary", node.where);
  std::string tried;
  std::optional<Error> cause;
  const auto accepted = [&](Blob blob) -> Result<Blob> {
    if (places.accept) CTXGEN_CHECK(places.accept(name, blob.bytes));
    return blob;
  };
  if (places.bin_source) {
    auto blob = places.bin_source(name);
    if (blob) return accepted(*std::move(blob));
    cause = std::move(blob).error();
    tried = "the caller's bin source";
  } else if (!places.folder.empty()) {
    auto blob = map_file_beneath(places.folder, name);
    if (blob) return accepted(*std::move(blob));
    cause = std::move(blob).error();
    tried = (places.folder / name).string();
  } else {
    return fail(ErrorCode::kInvalidArgument,
                "{}: a model from memory needs ep.context_file_path (context_file_path) to find "
                "\"{}\"",
                node.where, name);
  }
  // A bin that is not there makes the context unusable: INVALID_GRAPH, whatever the file system
  // said. Out of memory and the like stay what they are.
  const bool missing =
      cause->code == ErrorCode::kIoError || cause->code == ErrorCode::kInvalidGraph;
  return fail(missing ? ErrorCode::kCorruptContext : cause->code,
              "{}: context binary \"{}\" cannot be opened ({}); tried {}", node.where, name,
              cause->message, tried);
}

Status check_source(const ContextNode& node, const std::string& context, const std::string& found) {
  const std::string& wanted = node.attributes.source;
  if (found == wanted) return {};
  return fail(ErrorCode::kCorruptContext,
              "{}: context \"{}\" was written by \"{}\", expected \"{}\"", node.where, context,
              found, wanted);
}

/// Opens the context of a primary node, once per name and source; returns its index.
Result<std::size_t> open_primary(const ContextNode& node, const ContextPlaces& places,
                                 ResolvedContexts& set) {
  const EpContextAttributes& attributes = node.attributes;
  OpenContext context;
  context.source = attributes.source;
  context.loader = node.loader;
  context.embedded = attributes.embed_mode == 1;
  context.name = context.embedded ? node.where : attributes.ep_cache_context;
  if (!context.embedded)
    for (std::size_t i = 0; i < set.contexts.size(); ++i)
      if (!set.contexts[i].embedded && set.contexts[i].name == context.name &&
          set.contexts[i].source == context.source)
        return i;
  const auto open = [&]() -> Result<ContextReader> {
    const Blob blob = context.embedded ? node.payload : CTXGEN_TRY(open_bin(node, places));
    return ContextReader::open(blob, context.name, places.verify);
  };
  const bool shared = places.workspace != nullptr && !context.embedded && !places.bin_source &&
                      !places.accept && !places.folder.empty();
  if (shared)
    context.reader =
        CTXGEN_TRY(places.workspace->get(places.folder, context.name, places.verify, open));
  else
    context.reader = std::make_shared<const ContextReader>(CTXGEN_TRY(open()));
  CTXGEN_CHECK(check_source(node, context.name, context.reader->info().source));
  set.contexts.push_back(std::move(context));
  return set.contexts.size() - 1;
}

/// Why a partition may be missing: bin and models are renamed one after the other.
constexpr std::string_view kOtherCompile =
    "; the model and its context are from different compiles (one was interrupted, or the context is another model's): compile again";

/// Context and program of a node that leans on the primary contexts.
Result<ProgramPlace> find_in_all(const ContextNode& node, const ResolvedContexts& set) {
  const std::string& name = node.attributes.partition_name;
  std::optional<ProgramPlace> found;
  std::string looked;
  for (std::size_t i = 0; i < set.contexts.size(); ++i) {
    const OpenContext& context = set.contexts[i];
    if (context.source != node.attributes.source) continue;
    looked += std::format("{}\"{}\"", looked.empty() ? "" : ", ", context.name);
    const auto program = context.reader->find(name);
    if (!program) continue;
    if (found)
      return fail(ErrorCode::kCorruptContext,
                  "{}: partition \"{}\" is in two contexts, \"{}\" and \"{}\"", node.where, name,
                  set.contexts[found->context].name, context.name);
    found = ProgramPlace{i, *program};
  }
  if (found) return *found;
  if (looked.empty())
    return fail(ErrorCode::kCorruptContext,
                "{}: main_context is 0, but no node of source \"{}\" has main_context 1",
                node.where, node.attributes.source);
  return fail(ErrorCode::kCorruptContext, "{}: partition \"{}\" is in none of the contexts {}{}",
              node.where, name, looked, kOtherCompile);
}

/// Of the programs of one partition the one for the best instruction set that this machine has.
/// Where it has none of them, the fingerprint says so, too, and loading refuses the context.
std::size_t best_variant(const OpenContext& context, std::size_t program) {
  const std::vector<std::size_t> all = context.reader->variants(program);
  if (all.size() == 1) return program;
  std::vector<std::string> isas;
  for (const std::size_t index : all) isas.push_back(context.reader->programs()[index].isa);
  const auto best = context.loader->best_isa(isas);
  return best ? all[*best] : program;
}

/// The model and its bin are renamed one after the other: a kill in between leaves two that do not
/// belong together, which shows in the program's hash.
Status check_hash(const ContextNode& node, Hash128 found) {
  const EpContextAttributes& attributes = node.attributes;
  constexpr std::string_view key = "hash=";
  if (attributes.notes.empty()) return {};
  std::string_view rest = attributes.notes;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!part.starts_with(key)) continue;
    if (part.substr(key.size()) == found.hex()) return {};
    return fail(ErrorCode::kCorruptContext,
                "{}: interrupted compile: partition \"{}\" has program {}, the model expects {}; "
                "compile again",
                node.where, attributes.partition_name, found.hex(), part.substr(key.size()));
  }
  return fail(ErrorCode::kCorruptContext, "{}: attribute \"notes\" holds no program hash",
              node.where);
}

/// Context and program of a primary node.
Result<ProgramPlace> find_own(const ContextNode& node, const ContextPlaces& places,
                              ResolvedContexts& set) {
  const std::size_t context = CTXGEN_TRY(open_primary(node, places, set));
  auto program = set.contexts[context].reader->find(node.attributes.partition_name);
  if (program) return ProgramPlace{context, *program};
  Error error = with_context(std::move(program).error(), node.where);
  error.message += kOtherCompile;
  return std::unexpected(std::move(error));
}

}  // namespace

Result<ContextInfo> read_context_header(const ContextNode& node, const ContextPlaces& places) {
  const bool embedded = node.attributes.embed_mode == 1;
  const Blob file = embedded ? node.payload : CTXGEN_TRY(open_bin(node, places));
  const std::string& name = embedded ? node.where : node.attributes.ep_cache_context;
  auto header = decode_header(file.bytes);
  if (header && header->file_size != file.bytes.size())
    header = fail(ErrorCode::kCorruptContext, "the file has {} bytes, its header says {}",
                  file.bytes.size(), header->file_size);
  if (!header)
    return std::unexpected(
        with_context(std::move(header).error(), std::format("context binary \"{}\"", name)));
  CTXGEN_CHECK(check_source(node, name, header->info.source));
  return std::move(header->info);
}

Result<ResolvedContexts> resolve_contexts(std::span<const ContextNode> nodes,
                                          const ContextPlaces& places) {
  ResolvedContexts set;
  set.programs.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].attributes.main_context == 1)
      set.programs[i] = CTXGEN_TRY(find_own(nodes[i], places, set));
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].attributes.main_context == 0)
      set.programs[i] = CTXGEN_TRY(find_in_all(nodes[i], set));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [context, program] = set.programs[i];
    CTXGEN_CHECK(check_hash(nodes[i], set.contexts[context].reader->program_hash(program)));
    set.programs[i].program = best_variant(set.contexts[context], program);
  }
  return set;
}

Result<std::vector<std::string>> check_fitness(std::span<const OpenContext> contexts, int threads) {
  std::vector<std::string> warnings;
  for (const OpenContext& context : contexts) {
    const CompatibilityVerdict verdict =
        fitness_of(context.reader->info(), *context.loader, threads);
    if (verdict.verdict == Compatibility::kUnsupported)
      return fail(ErrorCode::kVersionMismatch, "context \"{}\": {}", context.name, verdict.reason);
    if (verdict.verdict == Compatibility::kPreferRecompilation)
      warnings.push_back(std::format("context \"{}\" runs, but should be compiled again: {}",
                                     context.name, verdict.reason));
  }
  return warnings;
}

Status decompress_weights(std::span<const OpenContext> contexts,
                          std::span<const ProgramPlace> programs, int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::vector<BlobIndex>> blobs(contexts.size());
  std::set<std::pair<std::size_t, std::size_t>> places;  // many nodes may name one program
  for (const auto& [context, program] : programs) places.emplace(context, program);
  for (const auto& [context, program] : places)
    for (const ProgramWeight& weight : contexts[context].reader->programs()[program].weights)
      for (const PackedWeight& packed : weight.packed)
        blobs[context].push_back(packed.blob.bin_index());
  for (std::size_t i = 0; i < blobs.size(); ++i)
    CTXGEN_CHECK(contexts[i].reader->decompress_blobs(blobs[i], threads));
  return {};
}

}  // namespace ctxgen
