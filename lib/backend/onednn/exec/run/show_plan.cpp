#include "run/show_plan.h"

#include <algorithm>
#include <format>
#include <numeric>

#include <oneapi/dnnl/dnnl_debug.h>

#include "layout/layout.h"
#include "layout/weight_layout.h"
#include "plan/dnnl_error.h"

namespace ctxgen::onednn {
namespace {

using dnnl::memory;

/// "acdb", "Acdb16a": the dims from the slowest to the fastest, those in blocks in capitals, then the
/// blocks. As oneDNN names its format tags.
std::string name_of_md(const memory::desc& md) {
  if (!md || md.get_format_kind() != memory::format_kind::blocked) return "";
  const memory::dims dims = md.get_dims(), strides = md.get_strides();
  const memory::dims blocks = md.get_inner_blks(), indices = md.get_inner_idxs();
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t d) { return strides[d]; });
  std::string name;
  for (const std::size_t d : order)
    name += static_cast<char>(
        (std::ranges::contains(indices, static_cast<std::int64_t>(d)) ? 'A' : 'a') + d);
  for (std::size_t i = 0; i < std::min(blocks.size(), indices.size()); ++i)
    name += std::format("{}{}", blocks[i], static_cast<char>('a' + indices[i]));
  return name;
}

const memory::desc* argument(const Step& step, int id) {
  const auto found = std::ranges::find(step.args, id, &Arg::id);
  return found == step.args.end() ? nullptr : &found->md;
}

std::string_view type_word(const memory::desc& md) {
  return dnnl_dt2str(static_cast<dnnl_data_type_t>(md.get_data_type()));
}

/// Types and layouts of a primitive's source, weight and result.
void describe_primitive(const Step& step, PlanStep& shown) {
  const memory::desc* source = argument(step, DNNL_ARG_SRC);
  const memory::desc* weight = argument(step, DNNL_ARG_WEIGHTS);
  const memory::desc* result = argument(step, DNNL_ARG_DST);
  if (source == nullptr || result == nullptr || !*source || !*result) return;
  shown.types = type_word(*source);
  shown.layouts = name_of_md(*source);
  if (weight != nullptr && *weight) {
    shown.types += std::format(" * {}", type_word(*weight));
    shown.layouts += ", " + name_of_md(*weight);
  }
  shown.types += std::format(" -> {}", type_word(*result));
  shown.layouts += " -> " + name_of_md(*result);
}

std::string_view type_word(DataType type) {
  const memory::data_type known = dnnl_type(type);
  return known == memory::data_type::undef ? name_of(type)
                                           : dnnl_dt2str(static_cast<dnnl_data_type_t>(known));
}

std::string types_of(const Program& program, const ProgramOp& op) {
  std::string sources;
  for (const Operand& operand : op.inputs) {
    if (operand.kind == Operand::Kind::kNone) continue;
    const DataType type = operand.kind == Operand::Kind::kValue
                              ? program.values[operand.index].type
                              : program.weights[operand.index].type;
    sources += std::format("{}{}", sources.empty() ? "" : " * ", type_word(type));
    if (std::ranges::count(sources, '*') == 1) break;  // a source and a weight say enough
  }
  if (op.outputs.empty()) return sources;
  return std::format("{} -> {}", sources, type_word(program.values[op.outputs[0]].type));
}

PlanStep shown_step(const Program& program, const Step& step) {
  PlanStep shown;
  shown.op = step.op;
  shown.implementation = step.implementation;
  shown.flops = step.flops;
  shown.bytes = step.bytes;
  shown.scratch_bytes = step.scratch_bytes;
  const bool primitive = step.kernel == nullptr && step.primitive;
  shown.moves = step.implementation == "loop:copy" ||
                (primitive && step.primitive.get_kind() == dnnl::primitive::kind::reorder);
  if (primitive) describe_primitive(step, shown);
  if (shown.types.empty() && !shown.moves) shown.types = types_of(program, program.ops[step.op]);
  return shown;
}

}  // namespace

PlanView view_of(const Program& program, const Plan& plan) {
  PlanView view{.input_dims = plan.input_dims,
                .steps = {},
                .regions = {},
                .arena_bytes = plan.arena_bytes,
                .scratch_bytes = plan.scratch_bytes};
  std::vector<PlanRegion> lives(plan.buffers.size());
  std::vector<bool> used(plan.buffers.size());
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s) {
    view.steps.push_back(shown_step(program, plan.steps[s]));
    for (const Arg& arg : plan.steps[s].args) {
      if (arg.location.kind != Location::Kind::kBuffer) continue;
      PlanRegion& life = lives[arg.location.index];
      if (!used[arg.location.index]) life.first = s;
      used[arg.location.index] = true;
      life.last = s;
    }
  }
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.kind != Buffer::Kind::kArena || !used[i]) continue;
    lives[i].offset = buffer.arena_offset;
    lives[i].bytes = buffer.bytes;
    view.regions.push_back(lives[i]);
  }
  return view;
}

std::string layout_name(const ProgramWeight& weight, const PackedWeight& packed) {
  const std::uint16_t packing = packing_of(packed.layout);
  if (packing == kPlainPacking) return "plain";
  if (!decode_layout(packed.layout, weight)) return "unknown";
  return dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(packing));
}

}  // namespace ctxgen::onednn
