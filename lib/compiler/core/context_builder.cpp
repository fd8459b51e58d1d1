#include "ctxgen/compiler/context_builder.h"

#include <algorithm>
#include <bit>
#include <format>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/ctxfile/needs.h"

#include "core/blob_table.h"
#include "core/program_cache.h"
#include "core/program_key.h"

namespace ctxgen {
namespace {

std::uint64_t packed_bytes(const Program& program, const WeightStore& store) {
  std::uint64_t bytes = 0;
  for (const ProgramWeight& weight : program.weights)
    for (const PackedWeight& packed : weight.packed)
      bytes += store.blob(packed.blob.store_id()).bytes.size();
  return bytes;
}

/// Replaces indices of the reader's blobs by WeightStore ids.
Status take_over_weights(Program& program, const ContextReader& reader, WeightStore& store) {
  for (ProgramWeight& weight : program.weights)
    for (PackedWeight& packed : weight.packed) {
      Blob blob = CTXGEN_TRY(reader.blob(packed.blob.bin_index()));
      packed.blob = CTXGEN_TRY(store.add(std::move(blob)));
    }
  return {};
}

/// All of it: certificates that differ in anything are of two programs.
void add_certificate(Hasher& hasher, const Certificate& certificate) {
  const auto add_hash = [&](const Hash128& hash) {
    hasher.add(hash.high);
    hasher.add(hash.low);
  };
  for (const double number :
       {certificate.bound, certificate.searched_error, certificate.held_out_error})
    hasher.add(std::bit_cast<std::uint64_t>(number));
  hasher.add(std::string_view(certificate.norm));
  add_hash(certificate.samples);
  hasher.add(certificate.searched);
  hasher.add(certificate.held_out);
  hasher.add(std::string_view(certificate.producer));
  hasher.add(std::string_view(certificate.fingerprint));
  hasher.add(std::uint64_t(certificate.choices.size()));
  for (const OpChoice& one : certificate.choices) {
    hasher.add(std::string_view(one.op));
    hasher.add(std::string_view(one.choice));
  }
  for (const Hash128& program : certificate.programs) add_hash(program);
}

/// The content hash leaves names out, which readers of a program bind by: those of one name must not differ in them, in
/// whatever batch they meet.
Hash128 hash_with_names(const Program& program, std::string_view content_hash) {
  Hasher hasher;
  hasher.add(content_hash);
  for (const ProgramValue& value : program.values) hasher.add(std::string_view(value.name));
  for (const ProgramWeight& weight : program.weights) hasher.add(std::string_view(weight.name));
  // Programs with and without one, and with those of two models, may be in one bin.
  if (program.certificate) add_certificate(hasher, *program.certificate);
  return hasher.finish();
}

/// "portable", "avx2,avx512_core"; empty where it is this machine.
std::string name_of(const CompileTarget& target) {
  if (target.portable) return "portable";
  std::string names;
  for (const std::string& isa : target.isas) names += (names.empty() ? "" : ",") + isa;
  return names;
}

}  // namespace

ContextBuilder::ContextBuilder(std::span<const Provider* const> providers,
                               const CompileTarget& target, SpillFile* spill, CacheFolder* cache)
    : providers_(providers.begin(), providers.end()), cache_(cache), target_(target) {
  for (std::size_t p = 0; p < providers_.size(); ++p)
    bins_.push_back(std::make_unique<Bin>(spill, cache));
}

ContextBuilder::~ContextBuilder() = default;

/// The plain bytes that stay in a source's file are not stored: a reference stands for them.
Status ContextBuilder::refer_to_sources(Program& program, WeightStore& store) const {
  if (!reference_of_) return {};
  for (ProgramWeight& weight : program.weights)
    for (PackedWeight& packed : weight.packed) {
      if (!packed.layout.empty()) continue;
      const StoreId id = packed.blob.store_id();
      const auto reference = reference_of_(store.blob(id).bytes, store.hash(id));
      if (!reference) continue;
      packed.blob = CTXGEN_TRY(store.add(Blob::own(encode_reference(*reference))));
      packed.layout = reference_layout();
    }
  return {};
}

Status ContextBuilder::add_program(std::size_t provider, Program program) {
  Bin& bin = *bins_[provider];
  const Program* same_name = bin.find(program.name);
  if (same_name == nullptr)
    bin.add(std::move(program));
  else if (*same_name != program)
    return fail(ErrorCode::kInternal, "two different programs \"{}\"", program.name);
  return {};
}

/// One program per partition, of the cache where it has them.
Result<std::vector<Program>> ContextBuilder::compile(std::size_t provider, const GraphView& view,
                                                     std::span<const Partition> partitions,
                                                     const ProviderCompileOptions& options) {
  Bin& bin = *bins_[provider];
  const ProgramLoader* loader = providers_[provider]->loader();
  CacheFolder* const cache = loader == nullptr ? nullptr : cache_;
  std::vector<Program> programs(partitions.size());
  std::vector<ProgramKey> keys;
  std::vector<Partition> missing;
  std::vector<std::size_t> missing_at;
  GraphHashes* hashes = nullptr;
  std::string fingerprint;
  if (cache != nullptr) {
    auto& of_graph = hashes_[&view.graph()];
    if (!of_graph)
      of_graph = std::make_unique<GraphHashes>(hash_structure(view.model(), view.graph()));
    hashes = of_graph.get();
    fingerprint = CTXGEN_TRY(loader->fingerprint_of(target_));
  }
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    if (cache != nullptr) {
      keys.push_back(key_of_partition(view, partitions[i], *providers_[provider], options,
                                      fingerprint, *hashes));
      if (auto found = CTXGEN_TRY(find_program(*cache, keys[i], bin.store))) {
        counts_.programs_cached += 1;
        counts_.bytes_cached += found->weight_bytes;
        bin.contents.merge(found->contents);
        programs[i] = std::move(found->program);
        continue;
      }
    }
    missing.push_back(partitions[i]);
    missing_at.push_back(i);
  }
  if (missing.empty()) return programs;
  auto compiled = CTXGEN_TRY(providers_[provider]->compile(view, missing, options, bin.store));
  if (compiled.size() != missing.size())
    return fail(ErrorCode::kInternal, "provider \"{}\" gave {} programs for {} partitions",
                providers_[provider]->name(), compiled.size(), missing.size());
  counts_.programs_compiled += missing.size();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    Program& program = programs[missing_at[i]];
    program = std::move(compiled[i].program);
    if (cache != nullptr) keep_program(*cache, keys[missing_at[i]], program, bin.store);
  }
  return programs;
}

/// Each program of a model gets what is known of all of them, and the choices that are its own.
void ContextBuilder::certify(std::size_t provider, const Certificate& draft,
                             std::vector<Program>& programs) const {
  Certificate all = draft;
  all.choices.clear();
  all.programs.clear();
  const WeightStore& store = bins_[provider]->store;
  for (Program& program : programs) {
    program.source = providers_[provider]->source();
    all.programs.push_back(
        hash_program(program, [&](BlobRef blob) { return store.hash(blob.store_id()); }));
  }
  std::ranges::sort(all.programs);
  const auto doubled = std::ranges::unique(all.programs);
  all.programs.erase(doubled.begin(), doubled.end());
  for (Program& program : programs) {
    Certificate& own = program.certificate.emplace(all);
    std::set<std::string_view> constants;
    for (const ProgramWeight& weight : program.weights) constants.insert(weight.name);
    std::ranges::copy_if(draft.choices, std::back_inserter(own.choices),
                         [&](const OpChoice& choice) { return constants.contains(choice.op); });
  }
}

/// Enters a program into its bin, and what its EPContext node says into `built`.
Status ContextBuilder::settle(Program program, std::string_view prefix, std::size_t ordinal,
                              BuiltPartition& built) {
  const Provider& provider = *providers_[built.provider];
  Bin& bin = *bins_[built.provider];
  program.source = provider.source();
  CTXGEN_CHECK(refer_to_sources(program, bin.store));
  built.attributes = provider.context_nodes(std::span(&program, 1)).front();
  if (const std::string machines = name_of(target_); !machines.empty())
    built.attributes.hardware_architecture = machines;
  built.weight_bytes = packed_bytes(program, bin.store);
  built.plans = program.plans.size();
  built.notes = provider.notes(program);
  bin.bytes_added += built.weight_bytes;
  const std::string hash =
      hash_program(program, [&](BlobRef blob) { return bin.store.hash(blob.store_id()); }).hex();
  program.name = std::format("{}{}_{}_{}", prefix, provider.name(),
                             hash_with_names(program, hash).hex().substr(0, 16), ordinal);
  built.attributes.partition_name = program.name;
  CTXGEN_CHECK(add_program(built.provider, std::move(program)));
  built.attributes.source = provider.source();
  built.attributes.notes = built.attributes.notes.empty()
                               ? std::format("hash={}", hash)
                               : std::format("hash={};{}", hash, built.attributes.notes);
  return {};
}

Result<std::vector<BuiltPartition>> ContextBuilder::add_model(
    const Model& model, const Graph& graph, const Assignment& assignment,
    std::span<const ProviderCompileOptions> options, std::string_view prefix,
    std::size_t first_ordinal) {
  CTXGEN_ASSERT(options.size() == providers_.size());
  const GraphView view(model, graph, target_);
  std::vector<BuiltPartition> built;
  std::vector<std::vector<Program>> programs(providers_.size());
  for (std::size_t p = 0; p < providers_.size(); ++p) {
    const std::vector<Partition>& partitions = assignment.partitions[p];
    if (partitions.empty()) continue;
    programs[p] = CTXGEN_TRY(compile(p, view, partitions, options[p]));
    if (options[p].certificate) certify(p, *options[p].certificate, programs[p]);
    for (std::size_t i = 0; i < partitions.size(); ++i)
      built.push_back({.provider = p, .partition = i, .attributes = {}});
  }
  std::ranges::sort(built, {}, [&](const BuiltPartition& b) {
    return assignment.partitions[b.provider][b.partition].nodes.back();
  });
  for (BuiltPartition& one : built)
    CTXGEN_CHECK(
        settle(std::move(programs[one.provider][one.partition]), prefix, first_ordinal++, one));
  return built;
}

const Program* ContextBuilder::Bin::find(std::string_view name) const {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &programs[found->second];
}

void ContextBuilder::Bin::add(Program program) {
  index.try_emplace(program.name, programs.size());
  programs.push_back(std::move(program));
}

Hash128 ContextBuilder::Bin::content_of(StoreId id) const {
  const auto cached = contents.find(id);
  return cached != contents.end() ? cached->second : store.content_of(id);
}

Status ContextBuilder::adopt(std::size_t provider, const ContextReader& reader) {
  Bin& bin = *bins_[provider];
  for (Program program : reader.programs()) {
    if (program.variant_of.empty()) program.isa.clear();  // content() puts it back
    CTXGEN_CHECK(take_over_weights(program, reader, bin.store));
    bin.bytes_added += packed_bytes(program, bin.store);
    bin.add(std::move(program));
  }
  return {};
}

Status ContextBuilder::add_variant(BuiltPartition& built, std::string_view isa, Program program,
                                   const ContextReader& reader) {
  Bin& bin = *bins_[built.provider];
  program.variant_of = built.attributes.partition_name;
  program.name = std::format("{}@{}", program.variant_of, isa);
  program.isa = isa;
  program.source = providers_[built.provider]->source();
  CTXGEN_CHECK(take_over_weights(program, reader, bin.store));
  bin.bytes_added += packed_bytes(program, bin.store);
  for (const StoredPlan& plan : program.plans) {
    const std::uint64_t bytes = checked_add(plan.arena_bytes, plan.scratch_bytes).value_or(0);
    built.attributes.max_size =
        std::max(built.attributes.max_size, static_cast<std::int64_t>(bytes));
  }
  const Program* same_name = bin.find(program.name);
  if (same_name == nullptr) {
    bin.add(std::move(program));
    return {};
  }
  // Two models share the partition.
  if (*same_name == program) return {};
  return fail(ErrorCode::kInternal, "two different programs \"{}\"", program.name);
}

Result<std::optional<ContextContent>> ContextBuilder::content(std::size_t provider) const {
  const Bin& bin = *bins_[provider];
  if (bin.programs.empty()) return std::nullopt;
  ContextContent content;
  content.source = providers_[provider]->source();
  const ProgramLoader* loader = providers_[provider]->loader();
  if (loader == nullptr)
    return fail(ErrorCode::kInternal, "provider \"{}\" compiles but has no loader",
                providers_[provider]->name());
  content.fingerprint = CTXGEN_TRY(loader->fingerprint_of(target_));
  BlobTable table(bin.store);
  for (Program program : bin.programs) {
    if (target_.isas.size() > 1 && program.variant_of.empty()) program.isa = target_.isas.front();
    table.renumber(program);
    content.programs.push_back(std::move(program));
  }
  table.put_into(content);
  content.needs = needs_of(*loader, content.programs);
  return content;
}

std::uint64_t ContextBuilder::weight_bytes_added() const {
  std::uint64_t bytes = 0;
  for (const auto& bin : bins_) bytes += bin->bytes_added;
  return bytes;
}

std::uint64_t ContextBuilder::weight_bytes_stored() const {
  std::uint64_t bytes = 0;
  for (std::size_t p = 0; p < bins_.size(); ++p)
    if (auto one = content(p); one && *one)
      for (const Blob& blob : (*one)->blobs) bytes += blob.bytes.size();
  return bytes;
}

BuildCounts ContextBuilder::counts() const {
  BuildCounts counts = counts_;
  for (const auto& bin : bins_) {
    counts.bytes_packed += bin->store.bytes_packed();
    counts.bytes_cached += bin->store.bytes_cached();
  }
  return counts;
}

}  // namespace ctxgen
