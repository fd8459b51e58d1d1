#include "plan/builder.h"

#include <algorithm>
#include <bit>

#include "ctxgen/base/checked.h"

#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "plan/params.h"

namespace ctxgen::onednn {

namespace {

constexpr std::uint64_t kScratchAlignment = 64;  // of what oneDNN reads

}  // namespace

Dims broadcast_strides(const Slot& slot, const Dims& dst) {
  Dims strides(dst.size(), 0);
  const std::size_t skip = dst.size() - slot.dims.size();
  for (std::size_t i = 0; i < slot.dims.size(); ++i)
    if (slot.dims[i] != 1) strides[skip + i] = slot.strides[i];
  return strides;
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::algorithm eltwise_algorithm(std::string_view word) {
  using dnnl::algorithm;
  static constexpr std::pair<std::string_view, algorithm> kWords[] = {
      {"relu", algorithm::eltwise_relu},
      {"clip", algorithm::eltwise_clip},
      {"linear", algorithm::eltwise_linear},
      {"sigmoid", algorithm::eltwise_logistic},
      {"tanh", algorithm::eltwise_tanh},
      {"elu", algorithm::eltwise_elu},
      {"exp", algorithm::eltwise_exp},
      {"log", algorithm::eltwise_log},
      {"sqrt", algorithm::eltwise_sqrt},
      {"abs", algorithm::eltwise_abs},
      {"square", algorithm::eltwise_square},
      {"gelu_erf", algorithm::eltwise_gelu_erf},
      {"gelu_tanh", algorithm::eltwise_gelu_tanh},
      {"swish", algorithm::eltwise_swish},
      {"hardswish", algorithm::eltwise_hardswish},
      {"hardsigmoid", algorithm::eltwise_hardsigmoid},
      {"mish", algorithm::eltwise_mish},
      {"soft_relu", algorithm::eltwise_soft_relu},
      {"round", algorithm::eltwise_round},
      {"pow", algorithm::eltwise_pow},
  };
  for (const auto& [name, value] : kWords)
    if (name == word) return value;
  return algorithm::undef;
}

dnnl::algorithm binary_algorithm(std::string_view word) {
  using dnnl::algorithm;
  static constexpr std::pair<std::string_view, algorithm> kWords[] = {
      {"add", algorithm::binary_add}, {"sub", algorithm::binary_sub},
      {"mul", algorithm::binary_mul}, {"div", algorithm::binary_div},
      {"max", algorithm::binary_max}, {"min", algorithm::binary_min},
  };
  for (const auto& [name, value] : kWords)
    if (name == word) return value;
  return algorithm::undef;
}

Arg NodeBuilder::slot_arg(int id, const dnnl::memory::desc& md, const Slot& slot) const {
  return {id,
          md,
          {Location::Kind::kBuffer, slot.buffer,
           static_cast<std::uint64_t>(slot.offset) * element_bytes(slot.type)}};
}

std::vector<Arg> NodeBuilder::operand_args() const {
  std::vector<Arg> args;
  for (std::size_t i = 0; i < node_.inputs.size(); ++i)
    if (has_input(i)) args.push_back(slot_arg(input(i)));
  for (std::size_t i = 0; i < node_.outputs.size(); ++i) args.push_back(slot_arg(output(i)));
  return args;
}

const Dims& NodeBuilder::weight_dims() const {
  const std::uint32_t weight = node_.packed_weight;
  return weight != kNone ? context_.program.weights[weight].dims : input(1).dims;
}

DataType NodeBuilder::weight_type() const {
  const std::uint32_t weight = node_.packed_weight;
  return weight != kNone ? context_.program.weights[weight].type : input(1).type;
}

Arg NodeBuilder::packed_arg(int id, PackedUse use) {
  if (use.weight == kNone) {
    to_pack_.reset();  // of an attempt that oneDNN refused
    packed_bytes_ = 0;
    if (use.wanted == use.logical) return slot_arg(id, use.logical, input(1));
    packed_bytes_ = align_up(use.wanted.get_size(), kScratchAlignment);
    Arg arg{id, use.wanted, {Location::Kind::kScratch, 0, 0}};
    to_pack_ = std::move(use);
    return arg;
  }
  use.op = node_.op;
  Arg arg{id,
          use.wanted,
          {Location::Kind::kPacked, static_cast<std::uint32_t>(build_.packed.size()), 0}};
  build_.packed.push_back(std::move(use));
  return arg;
}

Status NodeBuilder::add_quantisation(dnnl::primitive_attr& attr, std::vector<Arg>& args) const {
  const KindTraits& traits = traits_of(op());
  if (!traits.quantised) return {};
  const auto steps = CTXGEN_TRY(decode<QuantisedParams>(op()));
  const auto constant = [&](int id, DataType type, std::uint32_t bits) {
    args.push_back({id, make_md(Dims{1}, Dims{1}, type), {Location::Kind::kConstant, bits, 0}});
  };
  const auto zero_point = [&](int which, std::int64_t zero) {
    if (zero == 0) return;
    attr.set_zero_points_mask(which, 0);
    constant(DNNL_ARG_ATTR_ZERO_POINTS | which, DataType::kInt32,
             static_cast<std::uint32_t>(static_cast<std::int32_t>(zero)));
  };
  if (has_input(3)) {
    const Slot& scales = input(3);
    const std::int64_t group = traits.matrix ? 1 : CTXGEN_TRY(decode<ConvParams>(op())).group;
    const int rank = static_cast<int>(output().dims.size());
    const int channels = traits.matrix ? 1 << (rank - 1) : group > 1 ? 3 : 1;
    attr.set_scales_mask(DNNL_ARG_WEIGHTS, volume(scales.dims) == 1 ? 0 : channels);
    args.push_back(slot_arg(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
                            make_md(Dims{volume(scales.dims)}, Dims{1}), scales));
  }
  zero_point(DNNL_ARG_SRC, steps.in_zero);
  if (output().type != DataType::kUint8 && output().type != DataType::kInt8) return {};
  const auto scale = static_cast<float>(steps.out_scale.value_or(1));
  attr.set_scales_mask(DNNL_ARG_DST, 0);
  constant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, DataType::kFloat,
           std::bit_cast<std::uint32_t>(scale));
  zero_point(DNNL_ARG_DST, steps.out_zero.value_or(0));
  return {};
}

/// One slope per channel of a spatial result; other forms run as loops.
bool NodeBuilder::append_prelu(std::size_t index, const OperandView& operand_view,
                               dnnl::post_ops& post_ops, std::vector<Arg>& args) const {
  const NodePostOp& stage = node_.post_ops[index];
  if (stage.operand == kNone || output().dims.size() < 3) return false;
  const Slot& operand = slot(stage.operand);
  const auto md = operand_view(operand);
  if (!md || md->get_dims()[1] != output().dims[1] || volume(operand.dims) != output().dims[1])
    return false;
  post_ops.append_prelu(1 << 1);
  args.push_back(slot_arg(
      DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(index)) | DNNL_ARG_WEIGHTS, *md, operand));
  return true;
}

Result<dnnl::primitive_attr> NodeBuilder::make_attr(std::size_t count,
                                                    const OperandView& operand_view,
                                                    std::vector<Arg>& args) const {
  dnnl::primitive_attr attr;
  dnnl::post_ops post_ops;
  const auto unfusable = [&] { return fail(ErrorCode::kUnsupported, "post-op cannot be fused"); };
  for (std::size_t i = 0; i < count; ++i) {
    const NodePostOp& stage = node_.post_ops[i];
    if (stage.in_place_sum) {
      post_ops.append_sum(1.0F);
      continue;
    }
    const dnnl::algorithm binary = binary_algorithm(stage.post->kind);
    if (binary != dnnl::algorithm::undef) {
      if (stage.operand == kNone) return unfusable();
      const Slot& operand = slot(stage.operand);
      const auto md = operand_view(operand);
      if (!md) return unfusable();
      post_ops.append_binary(binary, *md);
      args.push_back(slot_arg(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1,
                              *md, operand));
    } else if (stage.post->kind == "prelu") {
      if (!append_prelu(i, operand_view, post_ops, args)) return unfusable();
    } else {
      const dnnl::algorithm eltwise = eltwise_algorithm(stage.post->kind);
      if (eltwise == dnnl::algorithm::undef) return unfusable();
      post_ops.append_eltwise(eltwise, stage.post->alpha, stage.post->beta);
    }
  }
  attr.set_post_ops(post_ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  CTXGEN_CHECK(add_quantisation(attr, args));
  return attr;
}

KernelWay NodeBuilder::way() const {
  if (context_.tuned != nullptr) return (*context_.tuned)[node_.op].way;
  return context_.choices.empty() ? KernelWay() : context_.choices[node_.op].way;
}

bool NodeBuilder::own_comes_first(bool rule) const {
  const KernelWay::First first = way().first;
  return first == KernelWay::First::kRule ? rule : first == KernelWay::First::kOwn;
}

std::size_t NodeBuilder::fused_at_most() const {
  const std::vector<NodePostOp>& all = node_.post_ops;
  if (output().type != DataType::kFloat || way().steps == KernelWay::Steps::kFused)
    return all.size();
  std::size_t first = 0;
  const auto runs_apart = [](const NodePostOp& stage) {
    return !stage.in_place_sum && needs_exponential(stage.post->kind, stage.operand != kNone);
  };
  while (first < all.size() && !runs_apart(all[first])) ++first;
  // A sum reads the result's memory before the product writes it: it cannot run apart.
  const auto sums = [](const NodePostOp& stage) { return stage.in_place_sum; };
  return std::any_of(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(), sums) ? all.size()
                                                                                        : first;
}

Status NodeBuilder::add_packing() {
  if (!to_pack_) return {};
  const PackedUse use = *std::exchange(to_pack_, std::nullopt);
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::reorder::primitive_desc(cpu_engine(), use.logical, cpu_engine(), use.wanted, attr);
  };
  return add_primitive<dnnl::reorder>(make,
                                      {slot_arg(DNNL_ARG_FROM, use.logical, input(1)),
                                       {DNNL_ARG_TO, use.wanted, {Location::Kind::kScratch, 0, 0}}},
                                      References::kAllowed);
}

Status NodeBuilder::finish_step(Step step, const dnnl::memory::desc& scratchpad, double ms) {
  CTXGEN_CHECK(add_packing());
  step.op = node_.op;
  step.scratch_bytes = packed_bytes_ + scratchpad.get_size();
  if (scratchpad.get_size() > 0)
    step.args.push_back(
        {DNNL_ARG_SCRATCHPAD, scratchpad, {Location::Kind::kScratch, 0, packed_bytes_}});
  for (const Arg& arg : step.args)
    if (arg.location.kind != Location::Kind::kScratch) step.bytes += arg.md.get_size();
  build_.creation_ms += ms;
  build_.primitives += 1;
  build_.steps.push_back(std::move(step));
  return {};
}

void NodeBuilder::add_kernel(std::string implementation, std::shared_ptr<const Kernel> kernel,
                             std::vector<Arg> args, const KernelCosts& costs) {
  Step step;
  step.flops = costs.flops;
  step.scratch_bytes = costs.scratch_bytes;
  step.run_scratch_bytes = costs.run_scratch_bytes;
  step.op = node_.op;
  step.implementation = std::move(implementation);
  step.kernel = std::move(kernel);
  step.args = std::move(args);
  const auto args_of = [&](Location::Kind kind) {
    return std::ranges::count(step.args, kind, [](const Arg& arg) { return arg.location.kind; });
  };
  // A second one was packed by the step before; numbers of a run, and machines, may ask for more.
  step.scratch_in_arena = args_of(Location::Kind::kScratch) == 1 &&
                          args_of(Location::Kind::kNumbers) == 0 && costs.run_scratch_bytes == 0;
  for (const Arg& arg : step.args) {
    if (arg.location.kind == Location::Kind::kBuffer)
      step.bytes += context_.graph.buffers[arg.location.index].bytes;
    if (arg.location.kind == Location::Kind::kPacked) step.bytes += arg.md.get_size();
  }
  build_.steps.push_back(std::move(step));
}

Arg numbers_arg(const NodeBuilder& builder) {
  return {0, no_descriptor(), {Location::Kind::kNumbers, builder.node().op, 0}};
}

Arg scratch_arg() { return {0, no_descriptor(), {Location::Kind::kScratch, 0, 0}}; }

namespace {

/// Whether there is nothing to compute. A reduction over nothing is refused by check_nonempty before; lengths say in each
/// run how much there is; what takes empty tensors may have a state to give where its other result is empty.
bool is_empty(const NodeBuilder& builder, const Node& node, const KindRow* row) {
  if (row != nullptr && row->lengths != nullptr) return false;
  const std::size_t outputs = row != nullptr && row->traits.takes_empty ? node.outputs.size() : 1;
  for (std::size_t i = 0; i < outputs; ++i)
    if (volume(builder.output(i).dims) != 0) return false;
  return true;
}

Result<NodeBuild> build_with(const BuildContext& context, const Node& node, References references) {
  NodeBuilder builder(context, node, references);
  const KindRow* row = node.program_op == nullptr ? nullptr : find_kind(node.program_op->kind);
  if (is_empty(builder, node, row)) return builder.take();
  if (node.program_op == nullptr) {
    CTXGEN_CHECK(build_copy(builder));
    return builder.take();
  }
  if (row == nullptr || row->build == nullptr)
    return fail(ErrorCode::kInternal, "{}: no builder", label(*node.program_op));
  CTXGEN_CHECK(row->build(builder));
  return builder.take();
}

}  // namespace

Result<NodeBuild> build_node(const BuildContext& context, const Node& node) {
  auto built = build_with(context, node, References::kRefused);
  if (built || built.error().code != ErrorCode::kUnsupported ||
      context.references == References::kRefused)
    return built;
  return build_with(context, node, References::kAllowed);
}

}  // namespace ctxgen::onednn
