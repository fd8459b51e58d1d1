#include "layout/tuned_forms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <format>
#include <string_view>
#include <utility>

#include <oneapi/dnnl/dnnl_debug.h>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/simd.h"
#include "ctxgen/onednn/defaults.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "layout/conv_packing.h"
#include "layout/layout.h"
#include "layout/product_packing.h"
#include "layout/weight_layout.h"
#include "plan/params.h"
#include "plan/payload.h"
#include "plan/planner.h"
#include "plan/shapes.h"

namespace ctxgen::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

std::string name_of_tag(Tag tag) { return dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(tag)); }

bool is_narrow(DataType type) { return type == DataType::kBfloat16 || type == DataType::kFloat16; }

/// Whether own kernels read or widen the constant under a source in f32.
bool is_widened(const TunedShape& shape) {
  return shape.source == DataType::kFloat &&
         (shape.weight == DataType::kFloat || is_narrow(shape.weight));
}

/// Of a matrix [k, n].
std::span<const Tag> tags_of_product(const TunedShape& shape, std::int64_t k, std::int64_t n) {
  if (!is_worth_packing(k, n)) return {};
  if (is_narrow(shape.weight) && shape.source == shape.weight) return pair_packings();
  return is_widened(shape) ? panel_packings() : std::span<const Tag>();
}

/// Whether panels serve the windows, those of any width.
bool takes_panels(const TunedShape& shape) {
  return is_widened(shape) &&
         fills_panels(shape.dims[0] / shape.group, shape.dims[1], shape.group > 1);
}

bool is_pointwise(const TunedShape& shape) {
  const auto is_one = [](std::int64_t size) { return size == 1; };
  return shape.group == 1 && std::ranges::all_of(shape.dims.span().subspan(2), is_one) &&
         std::ranges::all_of(shape.strides, is_one);
}

/// One or two spatial dims.
bool is_window_rank(std::size_t rank) { return rank == 3 || rank == 4; }

std::vector<Tag> tags_of(const TunedShape& shape) {
  std::vector<Tag> tags;
  const auto add = [&](std::span<const Tag> more) {
    tags.insert(tags.end(), more.begin(), more.end());
  };
  if (shape.op == kind::kMatmul && shape.dims.size() == 2)
    add(tags_of_product(shape, shape.dims[0], shape.dims[1]));
  if (shape.op == kind::kConv && is_window_rank(shape.dims.size()) && shape.group >= 1) {
    if (is_pointwise(shape)) add(tags_of_product(shape, shape.dims[1], shape.dims[0]));
    if (takes_panels(shape))
      for (const WindowPacking& packing : window_packings())
        tags.push_back(shape.group == 1 ? packing.one : packing.grouped);
  }
  return tags;
}

Result<Dims> per_window_dim(const ProgramOp& op, std::string_view name, const IntList& list,
                            std::size_t count) {
  const IntList all = CTXGEN_TRY(per_dim(op, name, list, count, 1));
  return Dims(std::span(all.begin(), all.end()));
}

/// Without rows; nothing where the constant has but one form.
Result<std::optional<TunedShape>> shape_of(const Program& program, const ProgramOp& op) {
  const bool product = op.kind == kind::kMatmul || op.kind == kind::kConv;
  if (!product || op.inputs.size() < 2 || op.inputs[0].kind != Operand::Kind::kValue ||
      op.inputs[1].kind != Operand::Kind::kWeight)
    return std::nullopt;
  const ProgramWeight& weight = program.weights[op.inputs[1].index];
  TunedShape shape{.op = op.kind.str(),
                   .weight = weight.type,
                   .source = program.values[op.inputs[0].index].type,
                   .dims = weight.dims};
  if (op.kind == kind::kMatmul) {
    const auto params = CTXGEN_TRY(decode<MatmulParams>(op));
    if (weight.dims.size() != 2 || params.trans_a) return std::nullopt;
    shape.dims = matmul_operand_dims(weight.dims, params.trans_b);
  } else {
    const auto params = CTXGEN_TRY(decode<ConvParams>(op));
    if (!is_window_rank(weight.dims.size())) return std::nullopt;
    const std::size_t spatial = weight.dims.size() - 2;
    shape.group = params.group;
    shape.strides = CTXGEN_TRY(per_window_dim(op, "strides", params.window.strides, spatial));
    shape.dilations = CTXGEN_TRY(per_window_dim(op, "dilations", params.window.dilations, spatial));
  }
  if (tags_of(shape).size() < 2) return std::nullopt;
  return shape;
}

/// Vectors of the result that the constant makes, as keys of rows have them.
std::int64_t rows_of(const TunedShape& shape, const Dims& result) {
  const std::int64_t columns = shape.op == kind::kMatmul ? shape.dims[1] : shape.dims[0];
  const std::int64_t rows = columns > 0 ? volume(result) / columns : 0;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
}

/// Whether both an own kernel and oneDNN's run ops of the shape.
bool has_two_kernels(const TunedShape& shape) {
  return shape.source == DataType::kFloat && shape.weight == DataType::kFloat &&
         simd_level() >= SimdLevel::kAvx2;
}

using First = KernelWay::First;
using Steps = KernelWay::Steps;
template <class Choice>
using Words = std::array<std::pair<std::string_view, Choice>, 2>;
constexpr Words<First> kFirstWords{{{"own", First::kOwn}, {"onednn", First::kLibrary}}};
constexpr Words<Steps> kStepsWords{{{"fused", Steps::kFused}, {"apart", Steps::kApart}}};

template <class Choice>
std::string word_of(const Words<Choice>& words, Choice choice) {
  for (const auto& [word, known] : words)
    if (known == choice) return std::format(":{}", word);
  return "";
}

/// "BA16a64b", "BA16a64b:own", "BA16a64b:onednn:fused".
std::string form_name(std::string_view packing, KernelWay way) {
  return std::string(packing) + word_of(kFirstWords, way.first) + word_of(kStepsWords, way.steps);
}

/// Takes ":" and one of the words from the front of `rest`, if they are there.
template <class Choice>
Choice take_word(const Words<Choice>& words, std::string_view& rest) {
  for (const auto& [word, choice] : words) {
    if (!rest.starts_with(':') || !rest.substr(1).starts_with(word)) continue;
    rest.remove_prefix(1 + word.size());
    return choice;
  }
  return Choice::kRule;
}

/// The reverse of form_name(); nothing: no such form of the shape.
std::optional<TunedForm> form_named(const TunedShape& shape, std::string_view name) {
  const std::string_view packing = name.substr(0, name.find(':'));
  std::string_view rest = name.substr(packing.size());
  KernelWay way;
  way.first = take_word(kFirstWords, rest);
  way.steps = take_word(kStepsWords, rest);
  if (!rest.empty() || (way != KernelWay() && !has_two_kernels(shape))) return std::nullopt;
  for (const Tag tag : tags_of(shape))
    if (name_of_tag(tag) == packing) return TunedForm{tag, way};
  return std::nullopt;
}

/// The packing of an op's constant that a stored plan uses; "" where it says nothing.
Result<std::string> chosen_packing(const ProgramWeight& weight, std::uint16_t choice) {
  if (choice >= weight.packed.size()) return std::string();
  const PackedWeight& packed = weight.packed[choice];
  const std::uint16_t packing = packing_of(packed.layout);
  (void)CTXGEN_TRY(decode_layout(packed.layout, weight));
  return packing == kPlainPacking ? std::string("plain") : name_of_tag(static_cast<Tag>(packing));
}

/// Per op which kernel the plan has: kRule where none was made for it.
Result<std::vector<First>> kernels_of(const Program& program, const StoredPlan& stored,
                                      std::span<const PlanChoice> choices) {
  const WeightForms forms = CTXGEN_TRY(decode_forms(program));
  const Plan plan = CTXGEN_TRY(make_plan({.program = program,
                                          .input_dims = stored.input_dims,
                                          .forms = &forms,
                                          .choices = choices,
                                          .create_primitives = false,
                                          .references = References::kAllowed}));
  std::vector<First> kernels(program.ops.size(), First::kRule);
  for (const Step& step : plan.steps)
    if (step.op != kNone && kernels[step.op] == First::kRule)
      kernels[step.op] = step.implementation.starts_with("loop:") ? First::kOwn : First::kLibrary;
  return kernels;
}

/// Whether a step after the op takes long enough for its place to matter.
bool has_activation(const ProgramOp& op) {
  return std::ranges::any_of(op.post_ops, [](const PostOp& post) {
    return needs_exponential(post.kind, post.operand.kind != Operand::Kind::kNone);
  });
}

/// What an op could be beside what it is: stored in `packing`, run by `kernel`.
std::vector<std::string> other_forms(const TunedShape& shape, const ProgramOp& op,
                                     std::string_view packing, First kernel) {
  const bool two = has_two_kernels(shape);
  std::vector<std::string> others;
  for (const Tag tag : tags_of(shape)) {
    const std::string name = name_of_tag(tag);
    if (!two && name != packing) others.push_back(name);
    for (const First first : {First::kOwn, First::kLibrary})
      if (two && (name != packing || first != kernel))
        others.push_back(form_name(name, {.first = first}));
  }
  if (two && has_activation(op) && form_named(shape, packing)) {
    others.push_back(form_name(packing, {First::kOwn, Steps::kApart}));
    others.push_back(form_name(packing, {First::kLibrary, Steps::kFused}));
  }
  return others;
}

/// ", BA16a16b, BA16a32b", and what may follow them.
std::string expected_forms(const TunedShape& shape) {
  std::string names;
  for (const std::string& form : forms_of(shape)) names += ", " + form;
  if (has_two_kernels(shape))
    names += "; after these :own or :onednn, then :fused or :apart, where wanted";
  return names;
}

}  // namespace

std::vector<std::string> forms_of(const TunedShape& shape) {
  std::vector<std::string> names;
  for (const Tag tag : tags_of(shape)) names.push_back(name_of_tag(tag));
  return names;
}

Status check_tuning(const TuningTable& table) {
  const std::string library = "oneDNN " + library_version(), isa = isa_name();
  if (table.library != library)
    return fail(ErrorCode::kVersionMismatch, "tuning: measured with \"{}\", this is {}",
                table.library, library);
  if (table.instruction_set != isa)
    return fail(ErrorCode::kVersionMismatch,
                "tuning: measured with instruction set \"{}\", this compile is for {}",
                table.instruction_set, isa);
  for (const TuningRow& row : table.rows) {
    if (forms_of(row.shape).size() < 2)
      return fail(ErrorCode::kInvalidArgument,
                  "tuning: {}: the constants of such an op have no choice of packings",
                  to_string(row.shape));
    if (row.form == kTableForm || form_named(row.shape, row.form)) continue;
    return fail(ErrorCode::kInvalidArgument, "tuning: {}: form \"{}\", expected {}{}",
                to_string(row.shape), row.form, kTableForm, expected_forms(row.shape));
  }
  return {};
}

Result<std::vector<TunedForms>> tuned_forms(const Program& program, const TuningTable& table,
                                            std::span<const std::vector<Dims>> profiles) {
  std::vector<TunedForms> forms(std::max<std::size_t>(profiles.size(), 1),
                                TunedForms(program.ops.size()));
  if (!steers(table)) return forms;
  std::vector<std::vector<Dims>> values;
  for (const std::vector<Dims>& profile : profiles)
    values.push_back(CTXGEN_TRY(infer_value_dims(program, profile)));
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    auto shape = CTXGEN_TRY(shape_of(program, program.ops[i]));
    if (!shape) continue;
    std::vector<const TuningRow*> rows;  // for each profile; null: none
    for (std::size_t p = 0; p < forms.size(); ++p) {
      if (p < values.size()) shape->rows = rows_of(*shape, values[p][program.ops[i].outputs[0]]);
      rows.push_back(find_row(table, *shape));
    }
    const auto first =
        std::ranges::find_if(rows, [](const TuningRow* row) { return row != nullptr; });
    if (first == rows.end()) continue;
    const TunedForm wanted = form_named(*shape, (*first)->form).value_or(TunedForm());
    for (std::size_t p = 0; p < forms.size(); ++p) {
      forms[p][i].tag = wanted.tag;
      const auto here = rows[p] != nullptr ? form_named(*shape, rows[p]->form) : std::nullopt;
      if (here && here->tag == wanted.tag) forms[p][i].way = here->way;
    }
  }
  return forms;
}

Result<std::vector<TunableOp>> tunable_ops_of(const Program& whole) {
  const auto split = CTXGEN_TRY(split_defaults(whole));
  const Program& program = split ? split->by_default : whole;
  std::vector<TunableOp> ops;
  if (program.plans.empty()) return ops;
  const StoredPlan& plan = program.plans.front();
  const auto choices = CTXGEN_TRY(decode_choices(plan.payload, program.ops.size()));
  const auto values = CTXGEN_TRY(infer_value_dims(program, plan.input_dims));
  const auto kernels = CTXGEN_TRY(kernels_of(program, plan, choices));
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const ProgramOp& op = program.ops[i];
    auto shape = CTXGEN_TRY(shape_of(program, op));
    if (!shape) continue;
    shape->rows = rows_of(*shape, values[op.outputs[0]]);
    const std::string packing =
        CTXGEN_TRY(chosen_packing(program.weights[op.inputs[1].index], choices[i].form));
    std::vector<std::string> others = other_forms(*shape, op, packing, kernels[i]);
    ops.push_back({op.name, program.weights[op.inputs[1].index].name, *std::move(shape),
                   form_name(packing, choices[i].way), std::move(others)});
  }
  return ops;
}

}  // namespace ctxgen::onednn
