#include <algorithm>
#include <format>
#include <optional>
#include <set>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/kind_traits.h"

#include "layout/weight_layout.h"
#include "plan/omp_workers.h"
#include "plan/payload.h"
#include "plan/planner.h"
#include "plan/reorder_weight.h"

namespace ctxgen::onednn {
namespace {

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

  /// Layouts that the store prefers: others have the same weights in them.
  Result<WeightForms> preferred() {
    WeightForms forms(program_.weights.size());
    for (std::uint32_t w = 0; w < forms.size(); ++w)
      for (const auto& layout : store_.layouts_of(content_of(w)))
        if (auto form = decode_layout(layout, program_.weights[w])) forms[w].push_back(*form);
    return forms;
  }

 private:
  Hash128 content_of(std::uint32_t weight) {
    auto& known = contents_[weight];
    if (!known) known = hash_bytes(plain_[weight].bytes());
    return *known;
  }
  Result<std::uint16_t> append(std::uint32_t weight, std::vector<std::byte> layout, StoreId id) {
    std::vector<PackedWeight>& packed = program_.weights[weight].packed;
    if (packed.size() + 1 >= kNoChoice)
      return fail(ErrorCode::kResourceLimit, "weight \"{}\": more than {} layouts",
                  program_.weights[weight].name, packed.size());
    packed.push_back({std::move(layout), id});
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
Status add_portable_profile(Program& program, std::span<const Dims> input_dims, int threads) {
  const Plan plan = CTXGEN_TRY(make_plan({.program = program,
                                          .input_dims = input_dims,
                                          .forms = nullptr,
                                          .choices = {},
                                          .threads = threads,
                                          .create_primitives = false}));
  const std::vector<std::uint16_t> choices(program.ops.size(), kNoChoice);
  program.plans.push_back(StoredPlan{plan.input_dims, 0, 0, encode_choices(choices)});
  return {};
}

Result<Plan> plan_profile(const Program& program, std::span<const Dims> input_dims, int threads,
                          const WeightForms& preferred) {
  return make_plan({.program = program,
                    .input_dims = input_dims,
                    .forms = &preferred,
                    .choices = {},
                    .threads = threads,
                    .create_primitives = false});
}

/// The layouts that plans want for weights, where one weight has several (its plain form is none).
Result<bool> add_wishes(std::span<const Plan> plans, const Program& program,
                        WeightForms& preferred) {
  std::vector<std::set<std::vector<std::byte>>> wanted(program.weights.size());
  for (const Plan& plan : plans)
    for (const PackedUse& use : plan.packed) {
      const bool plain = use.wanted == use.logical;
      wanted[use.weight].insert(
          plain ? std::vector<std::byte>()
                : encode_layout(use.wanted, use.transposed).value_or(std::vector<std::byte>()));
    }
  bool several = false;
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    if (wanted[w].size() < 2) continue;
    several = true;
    for (const std::vector<std::byte>& layout : wanted[w])
      if (!layout.empty())
        preferred[w].push_back(CTXGEN_TRY(decode_layout(layout, program.weights[w])));
  }
  return several;
}

/// Plans for all profiles. Where they want a weight in several layouts, they are made again: a kernel
/// that is as good with a layout that another one needs takes that.
Result<std::vector<Plan>> plan_profiles(const Program& program, const PackOptions& options,
                                        int threads, WeightForms& preferred) {
  for (bool first = true;; first = false) {
    std::vector<Plan> plans;
    for (const std::vector<Dims>& profile : options.profiles)
      plans.push_back(CTXGEN_TRY(plan_profile(program, profile, threads, preferred)));
    if (!first || !CTXGEN_TRY(add_wishes(plans, program, preferred))) return plans;
  }
}

Status pack_plan(Program& program, const Plan& plan, Packer& packer) {
  std::vector<std::uint16_t> choices(program.ops.size(), kNoChoice);
  for (const PackedUse& use : plan.packed) {
    const std::uint16_t form = CTXGEN_TRY(packer.add_packed(use));
    // Without a choice the load asks oneDNN, and packs.
    if (use.wanted == use.logical || !packer.stays_plain(use.weight)) choices[use.op] = form;
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

/// Packs the weight of one op for shapes that are not known yet, by planning the op alone.
Status pack_typical(const Program& program, const ProgramOp& op, int threads,
                    const WeightForms& preferred, Packer& packer) {
  const KindTraits& traits = traits_of(op);
  const bool packs = traits.product && op.inputs.size() >= 2 &&
                     op.inputs[0].kind == Operand::Kind::kValue &&
                     op.inputs[1].kind == Operand::Kind::kWeight;
  if (!packs || program.weights[op.inputs[1].index].dims.size() < 2) return {};
  if (traits.matrix && program.weights[op.inputs[1].index].dims.size() != 2) return {};
  Program alone;                       // with the weights that it reads, and the forms of those
  std::vector<std::uint32_t> weights;  // of `alone`, as indices in `program`
  WeightForms forms;
  const auto move_in = [&](Operand operand) {
    if (operand.kind != Operand::Kind::kWeight) return operand;
    weights.push_back(operand.index);
    alone.weights.push_back(program.weights[operand.index]);
    forms.push_back(preferred[operand.index]);
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
  const auto plan = make_plan({.program = alone,
                               .input_dims = std::span(&source, 1),
                               .forms = &forms,
                               .choices = {},
                               .threads = threads,
                               .create_primitives = false});
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
  const int threads = options.threads > 0 ? options.threads : default_threads();
  const OmpThreads scope(threads);
  Packer packer(program, plain_weights, options, options.jobs > 0 ? options.jobs : threads, store);
  if (options.portable) {
    for (const std::vector<Dims>& profile : options.profiles)
      CTXGEN_CHECK(add_portable_profile(program, profile, threads));
  }
  WeightForms preferred(program.weights.size());
  if (!options.portable) {
    preferred = CTXGEN_TRY(packer.preferred());
    const std::vector<Plan> plans = CTXGEN_TRY(plan_profiles(program, options, threads, preferred));
    for (const Plan& plan : plans) CTXGEN_CHECK(pack_plan(program, plan, packer));
  }
  for (const ProgramOp& op : program.ops) {
    const bool open = !options.portable && op.inputs.size() >= 2 &&
                      op.inputs[1].kind == Operand::Kind::kWeight &&
                      program.weights[op.inputs[1].index].packed.empty();
    if (open) CTXGEN_CHECK(pack_typical(program, op, threads, preferred, packer));
  }
  for (std::uint32_t i = 0; i < program.weights.size(); ++i)
    if (program.weights[i].packed.empty()) (void)CTXGEN_TRY(packer.add_plain(i));
  return {};
}

}  // namespace ctxgen::onednn
