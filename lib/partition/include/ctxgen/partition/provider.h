#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/certificate.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/ctxfile/tuning_table.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/partition/provider_info.h"
#include "ctxgen/partition/shape_profile.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen {

/// A set of nodes that a provider takes together. Claims of one provider are merged into
/// partitions; the nodes of one claim are never separated.
struct Claim {
  std::vector<NodeId> nodes;
  bool glue = false;  // moves data only (Reshape, Transpose, ...): worth it only next to others
};

/// Why a provider does not take a node: one line for `ctxgen explain`.
struct Rejection {
  NodeId node;
  std::string reason;
};

struct Capabilities {
  std::vector<Claim> claims;
  std::vector<Rejection> rejections;  // every node that is in no claim has one
};

/// A graph as providers see it: with types, constants, marks on nodes that are taken, and the
/// machines to compile for.
class GraphView {
 public:
  GraphView(const Model& model, const Graph& graph, const CompileTarget& target = {});
  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const Tensor* constant(ValueId id) const {
    if (!id.valid()) return nullptr;
    const Value& value = graph_->value(id);
    return by_default_ ? value.constant_by_default() : value.constant();
  }
  /// The graph as it is while callers override no initializer: defaults are constants.
  [[nodiscard]] GraphView by_default() const {
    GraphView view = *this;
    view.by_default_ = true;
    return view;
  }
  [[nodiscard]] bool is_by_default() const { return by_default_; }
  [[nodiscard]] bool taken(NodeId id) const { return taken_[id.index]; }
  void take(NodeId id) { taken_[id.index] = true; }
  [[nodiscard]] const CompileTarget& target() const { return target_; }

 private:
  const Model* model_;
  const Graph* graph_;
  CompileTarget target_;
  bool by_default_ = false;
  std::vector<bool> taken_;
};

/// A convex set of nodes of one provider, to become one program and one EPContext node.
struct Partition {
  std::vector<NodeId> nodes;     // topological order
  std::vector<ValueId> inputs;   // values from outside that are not constants, by first use
  std::vector<ValueId> outputs;  // values read outside or graph outputs, by producing node
};

struct ProviderCompileOptions {
  std::vector<ShapeProfile> profiles;  // empty: plan if every partition input has fixed dims
  int jobs = 0;                        // threads that compile; 0: what the process may use
  /// Dims of `value` under profile `index`, found by shape inference; nothing if still unknown.
  std::function<std::optional<Dims>(std::size_t profile, ValueId value)> profile_dims;
  std::vector<std::pair<std::string, std::string>> provider_options;  // of this provider
  /// Goes before provider_options for the ops in it.
  ChoiceTable choices = {};
  /// Belongs to `choices`: what is known of it before the programs are. None: choices are not by an error's bound.
  std::optional<Certificate> certificate = {};
  /// Goes before the provider's own tables of packings; null: none (not owned).
  const TuningTable* tuning = nullptr;
  SpillFile* spill = nullptr;  // for what is made outside the store (not owned)
  /// Weights (their very bytes) that programs must refer to in plain form only, because they are to
  /// stay where the source has them. Empty: none.
  std::function<bool(std::span<const std::byte>)> stays_plain = {};
  /// Told which share of compile() is done, 0 to 1, by the thread that called it; its error ends the compile.
  /// May be empty.
  std::function<Status(double share)> progress = {};
};

/// What a provider made of one partition. `program.name` is set by the compiler afterwards.
struct CompiledPartition {
  Program program;  // its blobs are in the WeightStore
};

/// A backend that may claim nodes.
class Provider {
 public:
  virtual ~Provider() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;    // "dnnl"
  [[nodiscard]] virtual std::string_view source() const = 0;  // EPContext `source`, the EP name
  /// Names of options that `ProviderCompileOptions::provider_options` may hold.
  [[nodiscard]] virtual std::vector<std::string> option_names() const { return {}; }
  /// Errors  INVALID_ARGUMENT naming an option whose value is not one.
  [[nodiscard]] virtual Status check_options(
      std::span<const std::pair<std::string, std::string>> /*options*/) const {
    return {};
  }
  /// Whether the provider compiles with such a table. May be the first use of its library.
  /// Errors  INVALID_ARGUMENT, VERSION_MISMATCH: of another library or instruction set.
  [[nodiscard]] virtual Status check_tuning(const TuningTable& /*table*/) const {
    return fail(ErrorCode::kInvalidArgument, "tuning: provider \"{}\" has nothing to tune", name());
  }
  /// Looks at every node that is not taken; changes nothing.
  [[nodiscard]] virtual Result<Capabilities> capabilities(const GraphView& view) const = 0;
  /// Whether it compiles a node of constants together with what reads it, in a form that is smaller than
  /// the node's result: then that is not computed ahead. Asked before capabilities().
  [[nodiscard]] virtual bool keeps_unfolded(const GraphView& /*view*/, NodeId /*node*/) const {
    return false;
  }
  /// One program per partition, in order. Weights go to `store`.
  [[nodiscard]] virtual Result<std::vector<CompiledPartition>> compile(
      const GraphView& view, std::span<const Partition> partitions,
      const ProviderCompileOptions& options, WeightStore& store) const = 0;
  /// Asked after compile() failed: the nodes of `partitions` that it failed for, with the reasons.
  /// The compiler then leaves them to the next provider and partitions again. Empty: the failure is
  /// not caused by a single node; it is reported as is.
  [[nodiscard]] virtual std::vector<Rejection> refused_after_all(
      const GraphView& /*view*/, std::span<const Partition> /*partitions*/,
      const ProviderCompileOptions& /*options*/) const {
    return {};
  }
  /// The provider's part of the EPContext attributes of what it compiled, one per program:
  /// source, ep_sdk_version, hardware_architecture, notes, max_size. The framework adds
  /// main_context, embed_mode, ep_cache_context, partition_name, onnx_model_filename.
  [[nodiscard]] virtual std::vector<EpContextAttributes> context_nodes(
      std::span<const Program> programs) const = 0;
  /// What a user should know of a program that compile() made, one line each, for the summary.
  [[nodiscard]] virtual std::vector<std::string> notes(const Program& /*program*/) const {
    return {};
  }
  /// Whether compile() writes programs (false for cpu, which only runs what is left).
  [[nodiscard]] virtual bool compiles() const { return true; }
  /// The load side; nullptr where compiles() is false.
  [[nodiscard]] virtual const ProgramLoader* loader() const = 0;

  /// May be the first use of the provider's library: then ProgramLoader::use_isa() comes too late.
  [[nodiscard]] virtual ProviderInfo info() const { return {}; }
  /// All that programs can be compiled for, smaller ones first, as ProgramLoader::sort_isas() takes them.
  [[nodiscard]] virtual std::vector<InstructionSetState> instruction_sets() const { return {}; }
  /// Its operators, sorted by (domain, op_type, since_min). They refer to static text.
  [[nodiscard]] virtual std::vector<OperatorInfo> operators() const { return {}; }
  /// What instructions that the target of `view` lacks cost `partitions`, in size or speed, with figures:
  /// one line each, for the summary of a compile. Empty: nothing worth a line.
  [[nodiscard]] virtual std::vector<std::string> target_costs(
      const GraphView& /*view*/, std::span<const Partition> /*partitions*/) const {
    return {};
  }
  /// Measures this machine with the instructions that the provider may use, about half a second long; nothing if it cannot.
  /// `threads` as in LoadOptions, `read_bytes`: of memory to read, which the provider may limit.
  [[nodiscard]] virtual Result<std::optional<MachinePeaks>> peaks(
      int /*threads*/, std::uint64_t /*read_bytes*/) const {
    return std::nullopt;
  }
};

}  // namespace ctxgen
