#include <algorithm>
#include <format>
#include <unordered_map>
#include <unordered_set>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/log.h"
#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onednn/defaults.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"
#include "ctxgen/onednn/op_table.h"
#include "ctxgen/onednn/peaks.h"
#include "ctxgen/onednn/provider.h"
#include "ctxgen/onednn/target_costs.h"

#include "fuse/fuse.h"
#include "lower_partition.h"
#include "node_choice.h"
#include "op_row.h"
#include "provider_options.h"

namespace ctxgen::onednn {

namespace {

std::optional<Dims> fixed_dims(const ValueType& type) {
  return type.is_tensor() ? type.fixed_dims() : std::nullopt;
}

/// Dims of the partition's inputs, or nothing if one of them is not known.
template <class DimsOf>
std::optional<std::vector<Dims>> all_dims(const Partition& partition, const DimsOf& dims_of) {
  std::vector<Dims> all;
  for (const ValueId id : partition.inputs) {
    const std::optional<Dims> dims = dims_of(id);
    if (!dims) return std::nullopt;
    all.push_back(*dims);
  }
  return all;
}

/// The shapes to plan ahead, each once.
std::vector<std::vector<Dims>> planned_shapes(const GraphView& view, const Partition& partition,
                                              const ProviderCompileOptions& options) {
  std::vector<std::vector<Dims>> shapes;
  const auto add = [&](std::optional<std::vector<Dims>> dims) {
    if (dims && std::ranges::find(shapes, *dims) == shapes.end()) {
      shapes.push_back(std::move(*dims));
    }
  };
  const auto declared = [&](ValueId id) { return fixed_dims(view.graph().value(id).type); };
  if (auto dims = all_dims(partition, declared)) return {std::move(*dims)};
  if (!options.profile_dims) return shapes;
  for (std::size_t i = 0; i < options.profiles.size(); ++i) {
    add(all_dims(partition, [&](ValueId id) {
      const std::optional<Dims> dims = declared(id);
      return dims ? dims : options.profile_dims(i, id);
    }));
  }
  return shapes;
}

std::uint64_t plain_weight_bytes(const Program& program) {
  std::uint64_t bytes = 0;
  for (const ProgramWeight& weight : program.weights) {
    bytes += checked_size_bytes(weight.type, weight.dims).value_or(0);
  }
  return bytes;
}

/// What a compile is told: of all providers, and of this one.
struct Wanted {
  const ProviderCompileOptions& options;
  DnnlOptions dnnl;
  DnnlChoices choices;
  std::function<Status(std::uint64_t plain_bytes)> packed = {};  // PackOptions::packed

  /// The options of all ops.
  [[nodiscard]] std::vector<DnnlOptions> all() const {
    std::vector<DnnlOptions> all{dnnl};
    for (const auto& [op, chosen] : choices) all.push_back(chosen);
    return all;
  }
};

Result<Wanted> read_wanted(const ProviderCompileOptions& options) {
  const DnnlOptions dnnl = CTXGEN_TRY(read_dnnl_options(options.provider_options));
  return Wanted{options, dnnl, CTXGEN_TRY(read_dnnl_choices(options.choices))};
}

/// Whether the target widens bf16 and f16 fast; a portable context is for all that do.
bool has_narrow_kernels(bool portable) {
  return portable || includes(usable_instruction_set(), InstructionSet::kAvx2);
}

/// Errors  INVALID_ARGUMENT naming an option that the target lacks instructions for, or that cannot be combined
///         with weights that stay in their files.
Status check_possible(const DnnlOptions& wanted, bool portable, bool stays_plain) {
  const bool changes_weights = wanted.low_bit_weights || wanted.narrow_weights || wanted.arithmetic;
  if (changes_weights && stays_plain)
    return fail(
        ErrorCode::kInvalidArgument,
        "dnnl:weights, dnnl:precision and dnnl:fpmath make new weights, which cannot stay in "
        "the source's files");
  CTXGEN_CHECK(check_arithmetic(wanted, portable));
  if (!wanted.narrow_weights || has_narrow_kernels(portable)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "dnnl:weights={}: instruction set {} has no kernels for such weights, avx2 has",
              *wanted.narrow_weights == DataType::kBfloat16 ? "bf16" : "f16", isa_name());
}

/// With the constants that `view` has.
Result<Program> compile_seen(const GraphView& view, const Partition& partition,
                             const Wanted& wanted, WeightStore& store) {
  const ProviderCompileOptions& options = wanted.options;
  Lowered lowered = CTXGEN_TRY(lower_partition(view, partition, store.spill()));
  lowered.integer_products = !view.target().portable;
  lowered.options = wanted.dnnl;
  lowered.choices = wanted.choices;
  lowered.narrow_kernels = has_narrow_kernels(view.target().portable);
  CTXGEN_CHECK(fuse(lowered));
  const PackOptions pack{.profiles = planned_shapes(view, partition, options),
                         .jobs = options.jobs,
                         .portable = view.target().portable,
                         .stays_plain = options.stays_plain,
                         .tuning = options.tuning,
                         .packed = wanted.packed};
  CTXGEN_CHECK(plan_and_pack(lowered.program, lowered.weights, pack, store));
  return std::move(lowered.program);
}

/// The inputs that are constants while callers override no initializer; none if a program that takes
/// them for such is not possible.
std::vector<DefaultInput> defaults_of(const GraphView& by_default, const Partition& partition) {
  std::vector<DefaultInput> defaults;
  for (const ValueId output : partition.outputs)
    if (by_default.constant(output) != nullptr) return {};
  for (std::uint32_t i = 0; i < partition.inputs.size(); ++i) {
    const ValueId id = partition.inputs[i];
    const Tensor* constant = by_default.constant(id);
    if (constant == nullptr) continue;
    // Equal bytes in other dims would be another tensor.
    const ValueType& type = by_default.graph().value(id).type;
    if (constant->is_string() || constant->type() != type.element ||
        fixed_dims(type) != constant->dims())
      return {};
    defaults.push_back({i, hash_bytes(constant->bytes())});
  }
  return defaults;
}

/// A partition that reads initializers which callers may override gets two ways to its outputs: with the
/// defaults as constants, folded and packed, and with whatever the inputs hold.
Result<Program> compile_one(const GraphView& view, const Partition& partition, const Wanted& wanted,
                            WeightStore& store) {
  Program general = CTXGEN_TRY(compile_seen(view, partition, wanted, store));
  const GraphView by_default = view.by_default();
  const std::vector<DefaultInput> defaults = defaults_of(by_default, partition);
  if (defaults.empty() || std::max(defaults.size(), partition.outputs.size()) > kMostDefaults)
    return general;
  auto packed = compile_seen(by_default, partition, wanted, store);
  if (packed) return join_defaults(std::move(*packed), general, defaults);
  // A node may be taken with values and not with constants: then values it is.
  const ErrorCode code = packed.error().code;
  if (code != ErrorCode::kUnsupported && code != ErrorCode::kInvalidGraph)
    return std::unexpected(std::move(packed).error());
  log(LogLevel::kInfo, "defaults are not packed ahead: {}", packed.error().message);
  return general;
}

/// The message of a failure that another provider may not have.
std::optional<std::string> failure_of(const GraphView& view, const Partition& partition,
                                      const Wanted& wanted) {
  WeightStore scratch(wanted.options.spill);
  const auto compiled = compile_one(view, partition, wanted, scratch);
  if (compiled) return std::nullopt;
  const ErrorCode code = compiled.error().code;
  if (code != ErrorCode::kUnsupported && code != ErrorCode::kInvalidGraph) return std::nullopt;
  return compiled.error().message;
}

/// These nodes as a partition of their own.
Partition partition_of(const GraphView& view, const std::vector<NodeId>& nodes) {
  Partition partition{.nodes = nodes, .inputs = {}, .outputs = {}};
  const NodeScope scope(nodes);
  const auto inside = [&](NodeId id) { return scope.place(id) < scope.size(); };
  std::unordered_set<ValueId> known;
  for (const NodeId id : nodes) {
    const Node& node = view.graph().node(id);
    for (const ValueId input : node.inputs) {
      if (!input.valid() || view.constant(input) != nullptr) continue;
      const NodeId producer = view.graph().value(input).producer;
      if (producer.valid() && inside(producer)) continue;
      if (known.insert(input).second) partition.inputs.push_back(input);
    }
    for (const ValueId output : node.outputs) {
      if (!output.valid()) continue;
      const Value& value = view.graph().value(output);
      if (value.is_output || !std::ranges::all_of(value.consumers, inside))
        partition.outputs.push_back(output);
    }
  }
  return partition;
}

class DnnlProvider final : public Provider {
 public:
  [[nodiscard]] std::string_view name() const override { return "dnnl"; }
  [[nodiscard]] std::string_view source() const override { return kSource; }
  [[nodiscard]] Result<Capabilities> capabilities(const GraphView& view) const override;
  [[nodiscard]] bool keeps_unfolded(const GraphView& view, NodeId node) const override {
    return view.graph().node(node).op_type == "DequantizeLinear" && keeps_low_bits(view, node);
  }
  [[nodiscard]] Result<std::vector<CompiledPartition>> compile(
      const GraphView& view, std::span<const Partition> partitions,
      const ProviderCompileOptions& options, WeightStore& store) const override;
  [[nodiscard]] std::vector<Rejection> refused_after_all(
      const GraphView& view, std::span<const Partition> partitions,
      const ProviderCompileOptions& options) const override;
  [[nodiscard]] std::vector<EpContextAttributes> context_nodes(
      std::span<const Program> programs) const override;
  [[nodiscard]] const ProgramLoader* loader() const override { return &onednn::loader(); }
  [[nodiscard]] ProviderInfo info() const override {
    return {.library = "oneDNN " + library_version(),
            .instruction_set = isa_name(),
            .threads = default_threads()};
  }
  [[nodiscard]] std::vector<std::string> option_names() const override {
    return dnnl_option_names();
  }
  [[nodiscard]] Status check_options(
      std::span<const std::pair<std::string, std::string>> options) const override {
    (void)CTXGEN_TRY(read_dnnl_options(options));
    return {};
  }
  [[nodiscard]] Status check_tuning(const TuningTable& table) const override {
    return onednn::check_tuning(table);
  }
  [[nodiscard]] std::vector<std::string> notes(const Program& program) const override;
  [[nodiscard]] std::vector<InstructionSetState> instruction_sets() const override;
  [[nodiscard]] std::vector<OperatorInfo> operators() const override;
  [[nodiscard]] std::vector<std::string> target_costs(
      const GraphView& view, std::span<const Partition> partitions) const override {
    return onednn::target_costs(view, partitions);
  }
  [[nodiscard]] Result<std::optional<ctxgen::MachinePeaks>> peaks(
      int threads, std::uint64_t read_bytes) const override {
    const auto [gflops, int8_gops, bf16_gflops, gbytes] =
        CTXGEN_TRY(measure_peaks(threads, read_bytes));
    return ctxgen::MachinePeaks{
        .gflops = gflops, .int8_gops = int8_gops, .bf16_gflops = bf16_gflops, .gbytes = gbytes};
  }
};

std::vector<InstructionSetState> DnnlProvider::instruction_sets() const {
  std::vector<InstructionSetState> sets;
  for (const auto& [name, usable] : isas()) sets.push_back({name, usable});
  return sets;
}

/// Weights that not every load takes as they are stored.
std::optional<std::string> packing_note(const Program& program) {
  if (!program.isa.empty() && program.isa != isa_name()) return std::nullopt;  // of a variant
  const auto packed = packed_at_some_loads(program);
  if (!packed || packed->empty()) return std::nullopt;
  return std::format("loads with other numbers of threads may pack {}", to_string(*packed));
}

/// What the narrow operands of a program's ops are, and how many have f32 ones.
std::optional<std::string> note_of_narrow(const Program& program) {
  std::size_t bf16 = 0, f16 = 0, left = 0;
  for (const ProgramOp& op : program.ops) {
    const bool lookup = op.kind == kind::kLookup;
    const std::size_t place = lookup ? 0 : 1;
    if ((!lookup && !traits_of(op).product) || op.inputs[place].kind != Operand::Kind::kWeight)
      continue;
    switch (program.weights[op.inputs[place].index].type) {
      case DataType::kBfloat16: ++bf16; break;
      case DataType::kFloat16: ++f16; break;
      case DataType::kFloat: ++left; break;
      default: break;
    }
  }
  if (bf16 + f16 == 0) return std::nullopt;
  std::string types = bf16 > 0 ? std::format("{} with bf16", bf16) : "";
  if (f16 > 0) types += std::format("{}{} with f16", types.empty() ? "" : ", ", f16);
  return std::format("products, convolutions and lookups: {} weights, {} with f32", types, left);
}

/// How many products multiply narrow numbers.
std::optional<std::string> note_of_arithmetic(const Program& program) {
  std::size_t bf16 = 0, f16 = 0, left = 0;
  for (const ProgramOp& op : program.ops) {
    if (!traits_of(op).product || op.inputs[0].kind != Operand::Kind::kValue) continue;
    switch (program.values[op.inputs[0].index].type) {
      case DataType::kBfloat16: ++bf16; break;
      case DataType::kFloat16: ++f16; break;
      case DataType::kFloat: ++left; break;
      default: break;
    }
  }
  if (bf16 + f16 == 0) return std::nullopt;
  const auto narrow = [](const ProgramValue& value) {
    return value.type == DataType::kBfloat16 || value.type == DataType::kFloat16;
  };
  return std::format("products and convolutions: {} in {}, {} in f32; {} of {} values are {}",
                     bf16 + f16, bf16 > 0 ? "bf16" : "f16", left,
                     std::ranges::count_if(program.values, narrow), program.values.size(),
                     bf16 > 0 ? "bf16" : "f16");
}

/// What became of weights that the user wanted in fewer bits.
std::optional<std::string> low_bit_note(const Program& program) {
  std::size_t made = 0, left = 0;
  LowBitMatmulParams worst;
  std::string_view name;
  for (const ProgramOp& op : program.ops) {
    if (op.kind == kind::kMatmul && op.inputs[1].kind == Operand::Kind::kWeight) ++left;
    if (op.kind != kind::kLowBitMatmul) continue;
    auto params = decode<LowBitMatmulParams>(op);
    if (!params || !params->weight_error) continue;
    if (++made > 1 && *params->weight_error <= *worst.weight_error) continue;
    worst = *std::move(params);
    name = op.name;
  }
  if (made == 0) return std::nullopt;
  return std::format(
      "{} product{} with s{} weights in blocks of {}: their errors are at most {:.2g} (op \"{}\"), {} stay{} f32",
      made, made == 1 ? "" : "s", worst.bits, worst.block, *worst.weight_error, name, left,
      left == 1 ? "s" : "");
}

std::vector<std::string> DnnlProvider::notes(const Program& program) const {
  std::vector<std::string> notes;
  if (program.certificate) notes.push_back(to_string(*program.certificate));
  for (auto& note : {note_of_arithmetic(program), note_of_narrow(program), low_bit_note(program),
                     packing_note(program)})
    if (note) notes.push_back(*note);
  return notes;
}

std::vector<OperatorInfo> DnnlProvider::operators() const {
  std::vector<OperatorInfo> operators;
  for (const OpInfo& row : op_infos())
    operators.push_back({.domain = row.domain,
                         .op_type = row.op_type,
                         .since_min = row.since_min,
                         .since_max = row.since_max,
                         .joins = row.glue,
                         .limits = row.limits});
  return operators;
}

Result<Capabilities> DnnlProvider::capabilities(const GraphView& view) const {
  Capabilities capabilities;
  const NodeScope all(view.graph());
  const std::size_t count = all.size();
  std::vector<bool> free(count);
  for (std::uint32_t i = 0; i < count; ++i) free[i] = !view.taken(NodeId{i});
  const NodeChoice choice(view, all, free, [](const NodeView& n) { return check_node(n); });
  std::vector<bool> grouped(count, false);
  for (const std::vector<NodeId>& group : choice.chains().groups()) {
    bool glue = true;
    for (const NodeId id : group) {
      grouped[id.index] = true;
      glue = glue && !choice.in_pattern(id) &&
             (choice.chains().vanishes(id) || find_row(view.graph().node(id))->glue);
    }
    capabilities.claims.push_back({.nodes = group, .glue = glue});
  }
  for (const PatternMatch& match : choice.patterns())
    if (!grouped[match.nodes.front().index])
      capabilities.claims.push_back({.nodes = match.nodes, .glue = false});
  for (std::uint32_t i = 0; i < count; ++i) {
    const NodeId id{i};
    if (choice.in_pattern(id) || grouped[i]) continue;
    if (!free[i])
      capabilities.rejections.push_back({id, "taken by another provider"});
    else if (Refusal refusal = choice.refusal(id))
      capabilities.rejections.push_back({id, *std::move(refusal)});
    else
      capabilities.claims.push_back({.nodes = {id}, .glue = find_row(view.graph().node(id))->glue});
  }
  std::ranges::stable_sort(capabilities.claims, {},
                           [](const Claim& claim) { return claim.nodes.front(); });
  return capabilities;
}

/// What a partition is to progress: bytes of constants, which are packed, and nodes, which are planned.
std::uint64_t work_of(const GraphView& view, const Partition& partition) {
  constexpr std::uint64_t kBytesPerNode =
      1 << 20;  // a primitive takes about as long as packing so much
  std::unordered_set<ValueId> seen;
  std::uint64_t work = partition.nodes.size() * kBytesPerNode;
  for (const NodeId id : partition.nodes)
    for (const ValueId input : view.graph().node(id).inputs)
      if (const Tensor* constant = view.constant(input);
          constant != nullptr && !constant->is_string() && seen.insert(input).second)
        work += constant->bytes().size();
  return work;
}

Result<std::vector<CompiledPartition>> DnnlProvider::compile(const GraphView& view,
                                                             std::span<const Partition> partitions,
                                                             const ProviderCompileOptions& options,
                                                             WeightStore& store) const {
  Wanted wanted = CTXGEN_TRY(read_wanted(options));
  for (const DnnlOptions& wanted_one : wanted.all())
    CTXGEN_CHECK(check_possible(wanted_one, view.target().portable, bool(options.stays_plain)));
  std::uint64_t all = 0, done = 0, packed = 0;
  for (const Partition& partition : partitions) all += work_of(view, partition);
  if (options.progress)
    wanted.packed = [&](std::uint64_t bytes) {
      packed += bytes;
      return options.progress(static_cast<double>(done + packed) / static_cast<double>(all));
    };
  std::vector<CompiledPartition> compiled;
  for (const Partition& partition : partitions) {
    compiled.push_back({.program = CTXGEN_TRY(compile_one(view, partition, wanted, store))});
    done += work_of(view, partition);
    packed = 0;
  }
  return compiled;
}

/// check() judges by what it sees of a node; planning sees concrete shapes and asks oneDNN. Each
/// failing partition's claims are tried alone; where none fails alone, the partition is given up.
std::vector<Rejection> DnnlProvider::refused_after_all(
    const GraphView& view, std::span<const Partition> partitions,
    const ProviderCompileOptions& options) const {
  std::vector<Rejection> refused;
  const auto capabilities = this->capabilities(view);
  const auto wanted = read_wanted(options);
  if (!capabilities || !wanted) return refused;
  std::unordered_map<NodeId, const Claim*> claim_at;  // by its first node
  for (const Claim& claim : capabilities->claims) claim_at.emplace(claim.nodes.front(), &claim);
  for (const Partition& partition : partitions) {
    const auto whole = failure_of(view, partition, *wanted);
    if (!whole) continue;
    const std::size_t before = refused.size();
    for (const NodeId first : partition.nodes) {
      const auto found = claim_at.find(first);
      if (found == claim_at.end()) continue;
      const Claim& claim = *found->second;
      const bool inside = std::ranges::all_of(
          claim.nodes, [&](NodeId id) { return std::ranges::binary_search(partition.nodes, id); });
      if (!inside) continue;
      if (const auto failure = failure_of(view, partition_of(view, claim.nodes), *wanted))
        for (const NodeId node : claim.nodes) refused.push_back({node, *failure});
    }
    if (refused.size() == before)
      for (const NodeId node : partition.nodes) refused.push_back({node, *whole});
  }
  return refused;
}

std::vector<EpContextAttributes> DnnlProvider::context_nodes(
    std::span<const Program> programs) const {
  std::vector<EpContextAttributes> nodes;
  for (const Program& program : programs) {
    EpContextAttributes attributes;
    attributes.source = kSource;
    attributes.ep_sdk_version =
        std::format("ctxgen {} format {}.{} oneDNN {}", CTXGEN_VERSION_STRING, kFormatMajor,
                    kFormatMinor, library_version());
    attributes.hardware_architecture = isa_name();
    attributes.notes =
        std::format("ops={};weights={}", program.ops.size(), plain_weight_bytes(program));
    attributes.max_size = 0;
    for (const StoredPlan& plan : program.plans) {
      const std::uint64_t bytes = checked_add(plan.arena_bytes, plan.scratch_bytes).value_or(0);
      attributes.max_size = std::max(attributes.max_size, static_cast<std::int64_t>(bytes));
    }
    nodes.push_back(std::move(attributes));
  }
  return nodes;
}

}  // namespace

std::unique_ptr<Provider> make_provider() { return std::make_unique<DnnlProvider>(); }

}  // namespace ctxgen::onednn
