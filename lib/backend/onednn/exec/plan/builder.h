#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "layout/layout_pass.h"
#include "plan/payload.h"
#include "plan/plan.h"

namespace ctxgen::onednn {

/// The layouts in which weights are stored, decoded: per weight, in order of ProgramWeight::packed.
struct WeightForm {
  bool plain = false;       // dense row-major in the ONNX dims; md is empty
  bool transposed = false;  // the md has the last two dims of the tensor swapped
  dnnl::memory::desc md;
};
using WeightForms = std::vector<std::vector<WeightForm>>;

/// What a tuning table wants for the constant of an op; no tag: our own tables decide.
struct TunedForm {
  std::optional<dnnl::memory::format_tag> tag;
  KernelWay way;
};
using TunedForms = std::vector<TunedForm>;  // per op

/// Whether a kernel that oneDNN calls a reference may be used: some are not slow.
enum class References : std::uint8_t { kRefused, kAllowed };

/// What all builders read. Nothing here changes while nodes are built, on any number of threads.
struct BuildContext {
  const Program& program;
  const NodeGraph& graph;
  const WeightForms* forms = nullptr;   // null while packing
  std::span<const PlanChoice> choices;  // per op, of a stored plan; or empty
  const TunedForms* tuned = nullptr;    // while packing; null: there is none
  int threads = 1;                      // that will run the plan
  bool create_primitives = true;
  /// kAllowed: a node that oneDNN has nothing else for gets its reference kernel.
  References references = References::kRefused;
};

/// The steps that one node becomes.
struct NodeBuild {
  std::vector<Step> steps;
  std::vector<PackedUse> packed;  // referred to by kPacked locations, numbered from 0 here
  double creation_ms = 0;
  std::uint64_t primitives = 0;
};

[[nodiscard]] const dnnl::engine& cpu_engine();

/// The steps of a node. Errors  UNSUPPORTED when oneDNN has only a reference kernel, the context
/// refuses those and there is no own loop; kSumRefused (below) when a sum in place is what it refuses.
[[nodiscard]] Result<NodeBuild> build_node(const BuildContext& context, const Node& node);

/// Index maps (pad, tile, gather, resize) are as long as the dims of results. What a program may ask
/// for is bounded before any is made: per dim, and over all nodes of a plan.
/// Errors  RESOURCE_LIMIT naming the op.
[[nodiscard]] Status check_map_sizes(const NodeGraph& graph);

/// Words of PostOp::kind and `alg`, as oneDNN names them; undef if it is not such a word.
[[nodiscard]] dnnl::algorithm eltwise_algorithm(std::string_view word);
[[nodiscard]] dnnl::algorithm binary_algorithm(std::string_view word);

/// Strides of `slot` over the dims of `dst`, 0 where it is broadcast.
[[nodiscard]] Dims broadcast_strides(const Slot& slot, const Dims& dst);

/// The descriptor of a post-op's operand as seen by a primitive whose dst is a reinterpretation of
/// the op's (dims merged or added); nothing if it has no such form, the op then runs on its own.
using OperandView = std::function<std::optional<dnnl::memory::desc>(const Slot&)>;

/// What an own kernel does and needs.
struct KernelCosts {
  double flops = 0;
  std::uint64_t scratch_bytes = 0;  // of its scratch_arg(), at a multiple of 64, on every machine
  std::uint64_t run_scratch_bytes = 0;  // on this one, if that is more
};

/// Helpers of the family builders for one node.
class NodeBuilder {
 public:
  NodeBuilder(const BuildContext& context, const Node& node,
              References references = References::kRefused)
      : context_(context), node_(node), references_(references) {}

  /// Whether primitives of narrower vectors than the processor's are refused as reference kernels are: where another kernel
  /// takes the same operands.
  void refuse_narrow(bool refuse) { refuses_narrow_ = refuse; }

  [[nodiscard]] const BuildContext& context() const { return context_; }
  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const ProgramOp& op() const { return *node_.program_op; }
  /// How a measurement wants the op run.
  [[nodiscard]] KernelWay way() const;
  /// Whether an own kernel comes before oneDNN's; `rule`: what our rules say.
  [[nodiscard]] bool own_comes_first(bool rule) const;
  [[nodiscard]] const Slot& slot(SlotId id) const { return context_.graph.slots[id]; }
  [[nodiscard]] const Slot& input(std::size_t i) const { return slot(node_.inputs[i]); }
  [[nodiscard]] const Slot& output(std::size_t i = 0) const { return slot(node_.outputs[i]); }
  [[nodiscard]] bool has_input(std::size_t i) const {
    return i < node_.inputs.size() && node_.inputs[i] != kNone;
  }

  [[nodiscard]] Arg slot_arg(int id, const dnnl::memory::desc& md, const Slot& slot) const;
  /// An argument of an own kernel.
  [[nodiscard]] Arg slot_arg(const Slot& slot) const { return slot_arg(0, no_descriptor(), slot); }
  /// All inputs that there are, then the results, as arguments of an own kernel.
  [[nodiscard]] std::vector<Arg> operand_args() const;
  /// The weight of a product, packed at load; where the node's second input is a value instead
  /// (use.weight is kNone), in each run, by a step before the next one.
  [[nodiscard]] Arg packed_arg(int id, PackedUse use);
  /// Dims and type of the second input of a product: a packed weight, or a value.
  [[nodiscard]] const Dims& weight_dims() const;
  [[nodiscard]] DataType weight_type() const;

  /// Creates descriptor and primitive with as many of the node's post-ops as stay off oneDNN's
  /// reference kernels; the rest follow as own steps over dst. `make` builds the descriptor from
  /// attributes (scratchpad mode and post-ops set); `args` are the other arguments.
  template <class Primitive>
  [[nodiscard]] Status add_fused(
      const std::function<typename Primitive::primitive_desc(const dnnl::primitive_attr&)>& make,
      const std::function<std::vector<Arg>(const typename Primitive::primitive_desc&)>& args,
      const OperandView& operand_view, double flops);

  /// One primitive without post-ops, or kUnsupported if it would be a reference kernel that is not
  /// allowed.
  template <class Primitive>
  [[nodiscard]] Status add_primitive(
      const std::function<typename Primitive::primitive_desc(const dnnl::primitive_attr&)>& make,
      const std::vector<Arg>& args, References references = References::kRefused);

  void add_kernel(std::string implementation, std::shared_ptr<const Kernel> kernel,
                  std::vector<Arg> args, const KernelCosts& costs = {});

  /// dst = chain(src), own loops where they exist, oneDNN's eltwise for the rest.
  [[nodiscard]] Status add_chain(const Slot& src, const Slot& dst,
                                 std::span<const NodePostOp> stages);

  [[nodiscard]] NodeBuild take() { return std::move(build_); }

 private:
  /// Scales and zero points of a quantised product.
  [[nodiscard]] Status add_quantisation(dnnl::primitive_attr& attr, std::vector<Arg>& args) const;
  /// How many of the node's post-ops a product is to take: those before the first one that a pass of
  /// our own over the result computes faster, if what follows may run apart.
  [[nodiscard]] std::size_t fused_at_most() const;
  [[nodiscard]] Result<dnnl::primitive_attr> make_attr(std::size_t count,
                                                       const OperandView& operand_view,
                                                       std::vector<Arg>& args) const;
  [[nodiscard]] bool append_prelu(std::size_t index, const OperandView& operand_view,
                                  dnnl::post_ops& post_ops, std::vector<Arg>& args) const;
  [[nodiscard]] Status finish_step(Step step, const dnnl::memory::desc& scratchpad, double ms);
  /// The step that packs what packed_arg() was asked for, if there is one.
  [[nodiscard]] Status add_packing();
  [[nodiscard]] Status add_eltwise(const Slot& src, const Slot& dst, const PostOp& stage);

  const BuildContext& context_;
  const Node& node_;
  References references_;  // of every primitive
  bool refuses_narrow_ = false;
  NodeBuild build_;
  std::optional<PackedUse> to_pack_;  // a computed weight that the next step reads
  std::uint64_t packed_bytes_ = 0;    // what one takes at the start of the scratch, before the rest
};

/// The scratch memory of an own kernel.
[[nodiscard]] Arg scratch_arg();
/// The numbers of a run that the op's kernel reads (KindRow::lengths), null where they are as planned.
[[nodiscard]] Arg numbers_arg(const NodeBuilder& builder);

/// A copy between layouts, which is not an op of the program.
[[nodiscard]] Status build_copy(NodeBuilder& builder);

}  // namespace ctxgen::onednn
