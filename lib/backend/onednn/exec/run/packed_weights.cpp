#include "run/packed_weights.h"

#include <algorithm>

#include "ctxgen/base/checked.h"
#include "ctxgen/onednn/defaults.h"
#include "ctxgen/onednn/exec.h"

#include "layout/weight_layout.h"
#include "plan/omp_workers.h"
#include "plan/payload.h"
#include "plan/planner.h"

namespace ctxgen::onednn {
namespace {

/// Forms that plans of a program have asked for and that the file does not have.
class Missing {
 public:
  Missing(const Program& program, const WeightForms& forms) : program_(program), forms_(forms) {}

  void add(const Plan& plan) {
    for (const PackedUse& use : plan.packed) {
      if (use.wanted == use.logical)
        add_plain(use.weight);
      else if (!form_of_use(forms_[use.weight], use))
        add_packed(use);
    }
    for (const Buffer& buffer : plan.buffers)
      if (buffer.kind == Buffer::Kind::kWeight) add_plain(buffer.index);
  }
  [[nodiscard]] const std::vector<PackedAtLoad>& found() const { return found_; }

 private:
  void add_plain(std::uint32_t weight) {
    if (has_plain_form(forms_[weight]) || std::ranges::contains(plain_, weight)) return;
    plain_.push_back(weight);
    const ProgramWeight& of = program_.weights[weight];
    found_.push_back({of.name, checked_size_bytes(of.type, of.dims).value_or(0)});
  }
  void add_packed(const PackedUse& use) {
    const bool known = std::ranges::any_of(packed_, [&](const PackedUse& other) {
      return other.weight == use.weight && other.transposed == use.transposed &&
             other.wanted == use.wanted;
    });
    if (known) return;
    packed_.push_back(use);
    found_.push_back({program_.weights[use.weight].name, use.wanted.get_size()});
    add_plain(use.weight);  // from which it is packed
  }

  const Program& program_;
  const WeightForms& forms_;
  std::vector<std::uint32_t> plain_;
  std::vector<PackedUse> packed_;
  std::vector<PackedAtLoad> found_;
};

Result<std::vector<PackedAtLoad>> packed_by_plans(const Program& program, int threads) {
  const OmpThreads scope(threads);
  const WeightForms forms = CTXGEN_TRY(decode_forms(program));
  Missing missing(program, forms);
  for (const StoredPlan& stored : program.plans) {
    const auto choices = CTXGEN_TRY(decode_choices(stored.payload, program.ops.size()));
    missing.add(CTXGEN_TRY(make_plan({.program = program,
                                      .input_dims = stored.input_dims,
                                      .forms = &forms,
                                      .choices = choices,
                                      .threads = threads,
                                      .references = References::kAllowed})));
  }
  return missing.found();
}

/// Stored as a table says, or as it is read. Weights without a choice are plain because the user wants
/// them so.
bool is_settled(const PackedUse& use, const WeightForms& forms,
                std::span<const PlanChoice> choices) {
  if (choices[use.op].form == kNoChoice || use.wanted == use.logical) return true;
  return !use.library_choice && form_of_use(forms[use.weight], use).has_value();
}

/// Whether loads of a program that was compiled here may pack weights: because oneDNN chose a form
/// (for one thread), or its choice has no format tag.
Result<bool> may_pack_at_load(const Program& program) {
  const auto split = CTXGEN_TRY(split_defaults(program));
  const Program& planned = split ? split->by_default : program;
  const OmpThreads scope(1);
  const WeightForms forms = CTXGEN_TRY(decode_forms(planned));
  for (const StoredPlan& stored : planned.plans) {
    const auto choices = CTXGEN_TRY(decode_choices(stored.payload, planned.ops.size()));
    const Plan plan = CTXGEN_TRY(make_plan({.program = planned,
                                            .input_dims = stored.input_dims,
                                            .choices = {},
                                            .create_primitives = false}));
    if (!std::ranges::all_of(plan.packed,
                             [&](const PackedUse& use) { return is_settled(use, forms, choices); }))
      return true;
  }
  return false;
}

}  // namespace

Result<std::vector<PackedAtLoad>> packed_at_load(const Program& program, int threads) {
  if (threads <= 0) threads = default_threads();
  const auto split = CTXGEN_TRY(split_defaults(program));
  return packed_by_plans(split ? split->by_default : program, threads);
}

Result<std::vector<PackedAtLoad>> packed_at_some_loads(const Program& program) {
  std::vector<PackedAtLoad> all;
  if (!CTXGEN_TRY(may_pack_at_load(program))) return all;
  for (const int threads : {1, 2, 8, 64})
    for (PackedAtLoad& packed : CTXGEN_TRY(packed_at_load(program, threads)))
      if (!std::ranges::contains(all, packed.weight, &PackedAtLoad::weight))
        all.push_back(std::move(packed));
  return all;
}

}  // namespace ctxgen::onednn
