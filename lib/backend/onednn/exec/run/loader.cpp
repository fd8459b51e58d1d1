#include <algorithm>
#include <set>
#include <utility>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/ctxfile/plan_view.h"
#include "ctxgen/ctxfile/tuning_table.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_kinds.h"
#include "ctxgen/onednn/param_codec.h"

#include "kinds/kind_rows.h"
#include "layout/tuned_forms.h"
#include "layout/weight_layout.h"
#include "rules/op_precision.h"
#include "rules/rounding.h"
#include "run/defaults_executable.h"
#include "run/executable.h"
#include "run/isa.h"
#include "run/machine.h"
#include "run/packed_weights.h"
#include "run/show_plan.h"

namespace ctxgen::onednn {
namespace {

/// bf16 and f16 are multiplied by instructions, or not at all.
Status check_narrow_products(const Program& program) {
  const InstructionSet usable = usable_instruction_set();
  for (const ProgramOp& op : program.ops) {
    if (!traits_of(op).product || op.inputs.empty() || op.inputs[0].kind != Operand::Kind::kValue)
      continue;
    const DataType type = program.values[op.inputs[0].index].type;
    const InstructionSet needed = type == DataType::kBfloat16  ? InstructionSet::kAvx512CoreBf16
                                  : type == DataType::kFloat16 ? InstructionSet::kAvx512CoreFp16
                                                               : InstructionSet::kBaseline;
    if (!includes(usable, needed))
      return fail(ErrorCode::kVersionMismatch,
                  "program \"{}\": op \"{}\" multiplies {}, instruction set {} cannot, {} can",
                  program.name, op.name, name_of(type), isa_name(), instruction_set_name(needed));
  }
  return {};
}

/// Without VNNI oneDNN's kernels would give other integers than ONNX asks for.
Status check_instructions(const Program& program) {
  CTXGEN_CHECK(check_narrow_products(program));
  if (has_fast_int8()) return {};
  for (const ProgramOp& op : program.ops)
    if (traits_of(op).quantised)
      return fail(ErrorCode::kVersionMismatch,
                  "program \"{}\": op \"{}\" needs products of 8-bit integers, instruction set {} "
                  "has none",
                  program.name, op.name, isa_name());
  return {};
}

/// Whether every reader of format 1.1 knows it. The fingerprint's version of oneDNN says which of its
/// tags there are.
bool since_1_1(const Need& need) {
  return need.group == Need::kOpKind ? need.number <= kKindsOf1_1 : need.number < kOwnPackings;
}

bool has_limits(const ProgramOp& op) {
  const bool bytes =
      op.kind == kind::kByteMatmul || op.kind == kind::kByteConv || op.kind == kind::kByteLstm;
  return bytes && find_param(op, "limits") != nullptr;
}

class OnednnLoader final : public ProgramLoader,
                           public KnowsRounding,
                           public KnowsNeeds,
                           public PredictsPacking,
                           public ShowsPlans,
                           public KnowsTuning {
 public:
  [[nodiscard]] std::string_view source() const override { return kSource; }

  [[nodiscard]] Result<std::unique_ptr<Executable>> load(
      std::shared_ptr<const Program> program, const BlobSource& blobs, const LoadOptions& options,
      LoadStatistics* statistics) const override {
    if (program->source != kSource)
      return fail(ErrorCode::kCorruptContext, "program \"{}\": source \"{}\", expected \"{}\"",
                  program->name, program->source, kSource);
    CTXGEN_CHECK(check_instructions(*program));
    LoadOptions resolved = options;
    if (resolved.threads <= 0) resolved.threads = default_threads();
    if (auto split = CTXGEN_TRY(split_defaults(*program)))
      return CTXGEN_TRY(DefaultsExecutable::load(*std::move(split), blobs, resolved, statistics));
    return CTXGEN_TRY(OnednnExecutable::load(std::move(program), blobs, resolved, statistics));
  }

  [[nodiscard]] std::vector<OpPrecision> precisions(const Program& program) const override {
    return precisions_of(program);
  }
  [[nodiscard]] Result<std::vector<TunableOp>> tunable_ops(const Program& program) const override {
    return tunable_ops_of(program);
  }
  [[nodiscard]] std::string fingerprint() const override { return make_fingerprint(); }
  [[nodiscard]] Result<std::string> fingerprint_of(const CompileTarget& target) const override {
    return target.portable ? portable_fingerprint() : make_fingerprint(target.isas);
  }
  [[nodiscard]] Status use_isa(std::string_view isa) const override { return onednn::use_isa(isa); }
  [[nodiscard]] std::optional<std::size_t> best_isa(
      std::span<const std::string> isas) const override {
    return onednn::best_isa(isas);
  }
  [[nodiscard]] OpRounding rounding_of(const Program& program, const ProgramOp& op) const override {
    return onednn::rounding_of(program, op);
  }
  [[nodiscard]] std::vector<Need> needs_of(std::span<const Program> programs) const override {
    std::set<Need> needs;
    for (const Program& program : programs) {
      for (const ProgramOp& op : program.ops) {
        if (const KindRow* row = find_kind(op.kind)) needs.insert({Need::kOpKind, row->number});
        if (has_limits(op)) needs.insert({Need::kPacking, kLimitedBytes});
      }
      for (const ProgramWeight& weight : program.weights)
        for (const PackedWeight& packed : weight.packed)
          needs.insert({Need::kPacking, packing_of(packed.layout)});
    }
    if (std::ranges::all_of(needs, since_1_1)) return {};
    return {needs.begin(), needs.end()};
  }
  [[nodiscard]] bool knows(const Need& need) const override {
    if (need.group == Need::kPacking)
      return need.number == kLimitedBytes || knows_packing(need.number);
    return need.group == Need::kOpKind && std::ranges::any_of(kind_rows(), [&](const KindRow* row) {
             return row->number == need.number;
           });
  }
  [[nodiscard]] bool is_of_this_library(std::string_view fingerprint) const override {
    return onednn::is_of_this_library(fingerprint);
  }
  [[nodiscard]] Result<std::vector<PackedAtLoad>> packed_at_load(const Program& program,
                                                                 int threads) const override {
    return onednn::packed_at_load(program, threads);
  }
  /// Of a program with overridable initializers, those of the way that its defaults go.
  [[nodiscard]] Result<ShownProgram> show_plans(std::shared_ptr<const Program> program,
                                                const BlobSource& blobs,
                                                const LoadOptions& options) const override {
    CTXGEN_CHECK(check_instructions(*program));
    LoadOptions resolved = options;
    if (resolved.threads <= 0) resolved.threads = default_threads();
    if (auto split = CTXGEN_TRY(split_defaults(*program)))
      program = std::make_shared<const Program>(std::move(split->by_default));
    const auto executable = CTXGEN_TRY(OnednnExecutable::load(program, blobs, resolved, nullptr));
    ShownProgram shown{.program = program, .plans = {}};
    for (const auto& plan : executable->stored_plans())
      shown.plans.push_back(view_of(*program, *plan));
    return shown;
  }
  [[nodiscard]] std::string layout_name(const ProgramWeight& weight,
                                        const PackedWeight& packed) const override {
    return onednn::layout_name(weight, packed);
  }
  [[nodiscard]] CompatibilityVerdict compatibility(std::string_view fingerprint,
                                                   int threads) const override {
    return compare_fingerprint(fingerprint, threads);
  }
};

}  // namespace

const ProgramLoader& loader() {
  static const OnednnLoader instance;
  return instance;
}

}  // namespace ctxgen::onednn
