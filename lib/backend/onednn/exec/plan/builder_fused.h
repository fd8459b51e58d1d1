#pragma once

#include <chrono>
#include <string>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/stopwatch.h"

#include "plan/builder.h"
#include "plan/dnnl_error.h"
#include "plan/params.h"

namespace ctxgen::onednn {

/// oneDNN chooses reference kernels silently (docs/onednn.md, "Reference kernels").
[[nodiscard]] inline bool is_reference(std::string_view implementation) {
  return implementation.find("ref") != std::string_view::npos;
}

/// For a packing that is not the one which they would choose for AVX-512, convolutions of oneDNN are silently run by kernels
/// for AVX2, at 0.4 of the speed (docs/onednn.md, "Packed weights").
[[nodiscard]] inline bool is_narrow(std::string_view implementation) {
  return includes(usable_instruction_set(), InstructionSet::kAvx512Core) &&
         (implementation.ends_with(":avx2") || implementation.ends_with(":avx") ||
          implementation.ends_with(":sse41"));
}

template <class Primitive>
Status NodeBuilder::add_fused(
    const std::function<typename Primitive::primitive_desc(const dnnl::primitive_attr&)>& make,
    const std::function<std::vector<Arg>(const typename Primitive::primitive_desc&)>& args,
    const OperandView& operand_view, double flops) {
  const auto name = [this] { return label(op()); };
  std::string refusal = "no kernel";
  for (std::size_t count = fused_at_most() + 1; count-- > 0;) {
    // A sum cannot run later: its operand is where the primitive writes.
    bool loses_sum = false;
    for (std::size_t i = count; i < node_.post_ops.size(); ++i)
      loses_sum |= node_.post_ops[i].in_place_sum;
    // Nor can a step over real numbers once they are stored as integers.
    const bool integers = is_byte(output().type);
    if (loses_sum || (count < node_.post_ops.size() && integers)) break;
    std::vector<Arg> post_args;
    const auto attr = make_attr(count, operand_view, post_args);
    if (!attr) continue;
    const auto start = std::chrono::steady_clock::now();
    auto pd = guarded(name, [&] { return make(*attr); });
    if (!pd && pd.error().code != ErrorCode::kUnsupported) return std::unexpected(pd.error());
    if (!pd) continue;
    Step step;
    step.implementation = pd->impl_info_str();
    if ((references_ == References::kRefused && is_reference(step.implementation)) ||
        (refuses_narrow_ && is_narrow(step.implementation))) {
      refusal = step.implementation;
      continue;
    }
    if (context_.create_primitives)
      step.primitive = CTXGEN_TRY(guarded(name, [&] { return Primitive(*pd); }));
    step.args = args(*pd);
    step.args.insert(step.args.end(), post_args.begin(), post_args.end());
    step.flops = flops;
    CTXGEN_CHECK(finish_step(std::move(step), pd->scratchpad_desc(), milliseconds_since(start)));
    return add_chain(output(), output(), std::span(node_.post_ops).subspan(count));
  }
  return fail(ErrorCode::kUnsupported, "{}: oneDNN offers {} only", name(), refusal);
}

template <class Primitive>
Status NodeBuilder::add_primitive(
    const std::function<typename Primitive::primitive_desc(const dnnl::primitive_attr&)>& make,
    const std::vector<Arg>& args, References references) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto start = std::chrono::steady_clock::now();
  const auto what = [this] {
    return node_.program_op != nullptr ? label(op()) : std::string("layout copy");
  };
  const auto pd = CTXGEN_TRY(guarded(what, [&] { return make(attr); }));
  Step step;
  step.implementation = pd.impl_info_str();
  if (references == References::kRefused && references_ == References::kRefused &&
      is_reference(step.implementation))
    return fail(ErrorCode::kUnsupported, "{}: oneDNN offers {} only", what(), step.implementation);
  if (context_.create_primitives)
    step.primitive = CTXGEN_TRY(guarded(what, [&] { return Primitive(pd); }));
  step.args = args;
  return finish_step(std::move(step), pd.scratchpad_desc(), milliseconds_since(start));
}

}  // namespace ctxgen::onednn
