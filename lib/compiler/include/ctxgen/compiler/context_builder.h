#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/partition/partitioner.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen {

/// A partition that became a program: where it is, and what its EPContext node says. The driver
/// fills in ep_cache_context, main_context, embed_mode and onnx_model_filename.
struct BuiltPartition {
  std::size_t provider = 0;   // index into the provider list
  std::size_t partition = 0;  // index into Assignment::partitions[provider]
  int body = -1;              // the main graph, or a body of a node (PreparedModel::bodies)
  EpContextAttributes attributes;
  std::uint64_t weight_bytes = 0;  // of the program, before deduplication
};

/// Collects the programs of one or several models into one context binary per provider, with the
/// weights of all of them deduplicated.
class ContextBuilder {
 public:
  /// `providers` and what it points to must outlive the builder. `threads`: of the target.
  ContextBuilder(std::span<const Provider* const> providers, int threads,
                 const CompileTarget& target = {});
  ~ContextBuilder();

  /// Compiles every partition of one graph of a model. `options[p]` belongs to provider p. Programs
  /// get partition names `<prefix><provider>_<hash>_<ordinal>`, counted from `first_ordinal`; one that is there already, equal in
  /// everything, is shared.
  /// Returns the partitions in the order in which their nodes stand in the model.
  [[nodiscard]] Result<std::vector<BuiltPartition>> add_model(
      const Model& model, const Graph& graph, const Assignment& assignment,
      std::span<const ProviderCompileOptions> options, std::string_view prefix,
      std::size_t first_ordinal = 0);

  /// Takes over all programs of a bin of provider p, with their names and weights, before any model
  /// is added. Requires  it was made for this builder's target.  Lifetime  keeps what `reader` maps.
  [[nodiscard]] Status adopt(std::size_t provider, const ContextReader& reader);

  /// Adds the program of a partition for a further instruction set of the target. `built` is a
  /// partition of add_model(); the program's blobs are indices of `reader`.
  [[nodiscard]] Status add_variant(BuiltPartition& built, std::string_view isa, Program program,
                                   const ContextReader& reader);

  /// The bin of provider p, or nothing if it has no program. Blobs stand in the order in which the
  /// programs refer to them first.
  [[nodiscard]] Result<std::optional<ContextContent>> content(std::size_t provider) const;

  [[nodiscard]] std::uint64_t weight_bytes_added() const;
  [[nodiscard]] std::uint64_t weight_bytes_stored() const;

 private:
  struct Bin {
    std::vector<Program> programs;  // blob indices are WeightStore ids
    WeightStore store;
    std::uint64_t bytes_added = 0;
  };
  [[nodiscard]] Result<std::string> add_program(std::size_t provider, Program program,
                                                std::string_view base_name);
  std::vector<const Provider*> providers_;
  std::vector<std::unique_ptr<Bin>> bins_;
  int threads_;
  CompileTarget target_;
};

}  // namespace ctxgen
