#include <algorithm>
#include <format>
#include <optional>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/kind_traits.h"

#include "layout/tuned_forms.h"
#include "layout/weight_layout.h"
#include "plan/omp_workers.h"
#include "plan/payload.h"
#include "plan/planner.h"
#include "plan/reorder_weight.h"

namespace ctxgen::onednn {
namespace {

/// Where oneDNN chooses a form, it chooses the one for a single thread: a file does not depend on how
/// many will run it.
constexpr int kPlanningThreads = 1;

/// Adds stored forms to the weights of a program as plans ask for them.
class Packer {
 public:
  /// `options.jobs`: threads that reorder; the bytes do not depend on it.
  Packer(Program& program, std::span<const Tensor> plain, const PackOptions& options, int jobs,
         WeightStore& store)
      : program_(program),
        plain_(plain),
        options_(options),
        jobs_(jobs),
        store_(store),
        contents_(plain.size()) {}

  [[nodiscard]] bool stays_plain(std::uint32_t weight) const {
    return options_.stays_plain && options_.stays_plain(plain_[weight].bytes());
  }

  /// Index of the plain form of `weight`, stored now if need be.
  Result<std::uint16_t> add_plain(std::uint32_t weight) {
    std::vector<PackedWeight>& packed = program_.weights[weight].packed;
    for (std::size_t i = 0; i < packed.size(); ++i)
      if (packed[i].layout.empty()) return static_cast<std::uint16_t>(i);
    const Tensor& tensor = plain_[weight];
    return append(weight, {},
                  CTXGEN_TRY(store_.add(content_of(weight), {tensor.owner(), tensor.bytes()})));
  }

  /// Index of the form that `use` wants.
  Result<std::uint16_t> add_packed(const PackedUse& use) {
    if (use.wanted == use.logical || stays_plain(use.weight)) return add_plain(use.weight);
    const auto layout = encode_layout(use.wanted, use.transposed);
    // A layout that has no name is stored plain and repacked at load.
    if (!layout) return add_plain(use.weight);
    std::vector<PackedWeight>& packed = program_.weights[use.weight].packed;
    for (std::size_t i = 0; i < packed.size(); ++i)
      if (packed[i].layout == *layout) return static_cast<std::uint16_t>(i);
    const auto reorder = [&]() -> Result<Blob> {
      const OmpThreads scope(jobs_);
      auto bytes = std::make_shared<const AlignedBytes>(
          CTXGEN_TRY(reorder_weight(plain_[use.weight].bytes().data(), use.logical, use.wanted)));
      const std::span<const std::byte> view(bytes->data(), use.wanted.get_size());
      return Blob{std::move(bytes), view};
    };
    const PackedFrom from{.content = content_of(use.weight),
                          .layout = *layout,
                          .packer = std::format("oneDNN {} {} {}", library_version(), isa_name(),
                                                name_of(plain_[use.weight].type()))};
    return append(use.weight, *layout, CTXGEN_TRY(store_.add_packed(from, reorder)));
  }

 private:
  Hash128 content_of(std::uint32_t weight) {
    auto& known = contents_[weight];
    if (!known) known = hash_bytes(plain_[weight].bytes());
    return *known;
  }
  Result<std::uint16_t> append(std::uint32_t weight, std::vector<std::byte> layout, StoreId id) {
    std::vector<PackedWeight>& packed = program_.weights[weight].packed;
    if (packed.size() >= kMostForms)
      return fail(ErrorCode::kResourceLimit, "weight \"{}\": more than {} layouts",
                  program_.weights[weight].name, packed.size());
    packed.push_back({std::move(layout), id});
    if (packed.size() == 1 && options_.packed)
      CTXGEN_CHECK(options_.packed(plain_[weight].bytes().size()));
    return static_cast<std::uint16_t>(packed.size() - 1);
  }

  Program& program_;
  std::span<const Tensor> plain_;
  const PackOptions& options_;
  int jobs_;
  WeightStore& store_;
  std::vector<std::optional<Hash128>> contents_;  // by weight
};

Status check_weights(const Program& program, std::span<const Tensor> plain) {
  if (plain.size() != program.weights.size())
    return fail(ErrorCode::kInternal, "program \"{}\": {} plain weights for {}", program.name,
                plain.size(), program.weights.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    if (plain[i].dims() != program.weights[i].dims || plain[i].type() != program.weights[i].type)
      return fail(ErrorCode::kInternal, "weight \"{}\": tensor {}, expected {}",
                  program.weights[i].name, to_string(plain[i].dims()),
                  to_string(program.weights[i].dims));
  return {};
}

/// A plan of which only the shapes are stored. It is made all the same: what no kernel takes here is
/// to be refused.
Status add_portable_profile(Program& program, std::span<const Dims> input_dims) {
  const Plan plan = CTXGEN_TRY(make_plan({.program = program,
                                          .input_dims = input_dims,
                                          .forms = nullptr,
                                          .choices = {},
                                          .threads = kPlanningThreads,
                                          .create_primitives = false}));
  const std::vector<PlanChoice> choices(program.ops.size());
  program.plans.push_back(StoredPlan{plan.input_dims, 0, 0, encode_choices(choices)});
  return {};
}

Result<Plan> plan_profile(const Program& program, std::span<const Dims> input_dims,
                          const TunedForms& tuned) {
  return make_plan({.program = program,
                    .input_dims = input_dims,
                    .forms = nullptr,
                    .choices = {},
                    .tuned = &tuned,
                    .threads = kPlanningThreads,
                    .create_primitives = false});
}

Status pack_plan(Program& program, const Plan& plan, const TunedForms& tuned, Packer& packer) {
  std::vector<PlanChoice> choices(program.ops.size());
  for (const PackedUse& use : plan.packed) {
    const std::uint16_t form = CTXGEN_TRY(packer.add_packed(use));
    // Without a choice the load asks oneDNN, and packs.
    if (use.wanted == use.logical || !packer.stays_plain(use.weight))
      choices[use.op] = {form, tuned[use.op].way};
  }
  for (const Buffer& buffer : plan.buffers)
    if (buffer.kind == Buffer::Kind::kWeight) (void)CTXGEN_TRY(packer.add_plain(buffer.index));
  program.plans.push_back(
      StoredPlan{plan.input_dims, plan.arena_bytes, plan.scratch_bytes, encode_choices(choices)});
  return {};
}

/// A typical source for an op whose shapes are unknown: one image of 28 x 28 (or what the kernel
/// needs), 32 rows.
Result<Dims> typical_source(const Program& program, const ProgramOp& op) {
  const Dims& weights = program.weights[op.inputs[1].index].dims;
  if (traits_of(op).matrix) {
    const auto params = CTXGEN_TRY(decode<MatmulParams>(op));
    return Dims{32, weights[params.trans_b ? 1 : 0]};
  }
  const auto params = CTXGEN_TRY(decode<ConvParams>(op));
  Dims src{1, weights[1] * params.group};
  for (std::size_t i = 2; i < weights.size(); ++i)
    src.push_back(std::max<std::int64_t>(28, 8 * weights[i]));
  return src;
}

/// Packs the weight of one op for shapes that are not known yet, by planning the op alone. `tuned`: what a tuning
/// table wants for it.
Status pack_typical(const Program& program, const ProgramOp& op, const TunedForm& tuned,
                    Packer& packer) {
  const KindTraits& traits = traits_of(op);
  const bool packs = traits.product && op.inputs.size() >= 2 &&
                     op.inputs[0].kind == Operand::Kind::kValue &&
                     op.inputs[1].kind == Operand::Kind::kWeight;
  if (!packs || program.weights[op.inputs[1].index].dims.size() < 2) return {};
  if (traits.matrix && program.weights[op.inputs[1].index].dims.size() != 2) return {};
  Program alone;                       // with the weights that it reads
  std::vector<std::uint32_t> weights;  // of `alone`, as indices in `program`
  const auto move_in = [&](Operand operand) {
    if (operand.kind != Operand::Kind::kWeight) return operand;
    weights.push_back(operand.index);
    alone.weights.push_back(program.weights[operand.index]);
    return Operand::weight(static_cast<std::uint32_t>(weights.size() - 1));
  };
  const auto type_of = [&](const Operand& value) { return program.values[value.index].type; };
  alone.values = {ProgramValue{"", type_of(op.inputs[0]), {}, false},
                  ProgramValue{"", type_of(Operand::value(op.outputs[0])), {}, false}};
  alone.inputs = {0};
  alone.outputs = {1};
  alone.ops = {op};
  alone.ops[0].post_ops.clear();
  alone.ops[0].outputs = {1};
  alone.ops[0].inputs = {Operand::value(0), move_in(op.inputs[1])};
  if (traits.quantised && op.inputs.size() > 3) {
    alone.ops[0].inputs.resize(4);
    alone.ops[0].inputs[3] = move_in(op.inputs[3]);
  }
  std::erase_if(alone.ops[0].params,
                [](const ProgramParam& param) { return param.name == "trans_a"; });
  const Dims source = CTXGEN_TRY(typical_source(program, op));
  const auto plan = plan_profile(alone, std::span(&source, 1), {tuned});
  // An op that does not plan here may plan with its real shapes; its weight is stored plain.
  if (!plan) return {};
  for (PackedUse use : plan->packed) {
    use.weight = weights[use.weight];
    (void)CTXGEN_TRY(packer.add_packed(use));
  }
  return {};
}

}  // namespace

Status plan_and_pack(Program& program, std::span<const Tensor> plain_weights,
                     const PackOptions& options, WeightStore& store) {
  CTXGEN_CHECK(check_weights(program, plain_weights));
  const OmpThreads scope(kPlanningThreads);
  Packer packer(program, plain_weights, options,
                options.jobs > 0 ? options.jobs : default_threads(), store);
  const TuningTable none;
  const bool tunes = options.tuning != nullptr && !options.portable;
  const std::vector<TunedForms> tuned =
      CTXGEN_TRY(tuned_forms(program, tunes ? *options.tuning : none, options.profiles));
  std::vector<Plan> plans;
  for (const std::vector<Dims>& profile : options.profiles) {
    if (options.portable)
      CTXGEN_CHECK(add_portable_profile(program, profile));
    else
      plans.push_back(CTXGEN_TRY(plan_profile(program, profile, tuned[plans.size()])));
  }
  for (std::size_t p = 0; p < plans.size(); ++p)
    CTXGEN_CHECK(pack_plan(program, plans[p], tuned[p], packer));
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const ProgramOp& op = program.ops[i];
    const bool open = !options.portable && op.inputs.size() >= 2 &&
                      op.inputs[1].kind == Operand::Kind::kWeight &&
                      program.weights[op.inputs[1].index].packed.empty();
    if (open) CTXGEN_CHECK(pack_typical(program, op, tuned.front()[i], packer));
  }
  for (std::uint32_t i = 0; i < program.weights.size(); ++i)
    if (program.weights[i].packed.empty()) (void)CTXGEN_TRY(packer.add_plain(i));
  release_omp_team();  // who runs what was compiled has a team of its own, and two are too many
  return {};
}

}  // namespace ctxgen::onednn
