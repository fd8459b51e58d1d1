#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ctxgen/compiler/build_counts.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/partition/partitioner.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen {

class CacheFolder;
struct GraphHashes;

/// A partition that became a program: where it is, and what its EPContext node says. The driver
/// fills in ep_cache_context, main_context, embed_mode and onnx_model_filename.
struct BuiltPartition {
  std::size_t provider = 0;   // index into the provider list
  std::size_t partition = 0;  // index into Assignment::partitions[provider]
  int body = -1;              // the main graph, or a body of a node (PreparedModel::bodies)
  EpContextAttributes attributes;
  std::uint64_t weight_bytes = 0;       // of the program, before deduplication
  std::size_t plans = 0;                // made ahead
  std::vector<std::string> notes = {};  // Provider::notes() of the program
};

/// Collects the programs of one or several models into one context binary per provider, with the
/// weights of all of them deduplicated.
class ContextBuilder {
 public:
  /// `providers` and what it points to must outlive the builder, and so must the models, whose graphs
  /// must not change once they are added. `spill` keeps weights that are made (null: memory does), `cache` gives and takes programs and weights (null: there is none);
  /// neither is owned.
  explicit ContextBuilder(std::span<const Provider* const> providers,
                          const CompileTarget& target = {}, SpillFile* spill = nullptr,
                          CacheFolder* cache = nullptr);
  ~ContextBuilder();

  /// Weights which stay in the sources' files, by their bytes and the hash of these; nothing: all are
  /// stored.
  using ReferenceOf =
      std::function<std::optional<WeightReference>(std::span<const std::byte>, Hash128)>;
  void set_references(ReferenceOf reference_of) { reference_of_ = std::move(reference_of); }
  /// Compiles every partition of one graph of a model. `options[p]` belongs to provider p. Programs
  /// get partition names `<prefix><provider>_<hash>_<ordinal>`, counted from `first_ordinal`; the hash is over
  /// the content and all names, so a name does not depend on what is there already. One that is, equal
  /// in everything, is shared.
  /// Returns the partitions in the order in which their nodes stand in the model.
  [[nodiscard]] Result<std::vector<BuiltPartition>> add_model(
      const Model& model, const Graph& graph, const Assignment& assignment,
      std::span<const ProviderCompileOptions> options, std::string_view prefix,
      std::size_t first_ordinal = 0);

  /// Takes over all programs of a bin of provider p, with their names and weights, before any model
  /// is added. Requires  it was made for this builder's target.  Lifetime  keeps what `reader` maps.
  [[nodiscard]] Status adopt(std::size_t provider, const ContextReader& reader);

  /// Adds the program of a partition for a further instruction set of the target. `built` is a
  /// partition of add_model(); the program's blobs are those of `reader`.
  [[nodiscard]] Status add_variant(BuiltPartition& built, std::string_view isa, Program program,
                                   const ContextReader& reader);

  /// The bin of provider p, or nothing if it has no program. Blobs stand in the order in which the
  /// programs refer to them first.
  [[nodiscard]] Result<std::optional<ContextContent>> content(std::size_t provider) const;

  [[nodiscard]] std::uint64_t weight_bytes_added() const;
  [[nodiscard]] std::uint64_t weight_bytes_stored() const;
  [[nodiscard]] BuildCounts counts() const;
  /// Weights that are equal before packing and that programs want in different layouts.
  [[nodiscard]] std::vector<SplitWeights> split_weights(std::size_t provider) const;

 private:
  struct Bin {
    Bin(SpillFile* spill, CacheFolder* cache) : store(spill, cache) {}
    [[nodiscard]] Hash128 content_of(StoreId id) const;
    /// The program of that name; null if there is none.
    [[nodiscard]] const Program* find(std::string_view name) const;
    void add(Program program);
    std::vector<Program> programs;  // blobs are those of `store`
    std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>>
        index;  // by name, the first
    WeightStore store;
    std::map<StoreId, Hash128> contents;  // of packed blobs from cached programs
    std::uint64_t bytes_added = 0;
  };
  [[nodiscard]] Result<std::vector<Program>> compile(std::size_t provider, const GraphView& view,
                                                     std::span<const Partition> partitions,
                                                     const ProviderCompileOptions& options);
  void certify(std::size_t provider, const Certificate& draft,
               std::vector<Program>& programs) const;
  [[nodiscard]] Status settle(Program program, std::string_view prefix, std::size_t ordinal,
                              BuiltPartition& built);
  [[nodiscard]] Status refer_to_sources(Program& program, WeightStore& store) const;
  [[nodiscard]] Status add_program(std::size_t provider, Program program);
  std::vector<const Provider*> providers_;
  std::vector<std::unique_ptr<Bin>> bins_;
  std::map<const Graph*, std::unique_ptr<GraphHashes>> hashes_;  // where there is a cache
  CacheFolder* cache_;
  BuildCounts counts_;
  CompileTarget target_;
  ReferenceOf reference_of_;
};

}  // namespace ctxgen
