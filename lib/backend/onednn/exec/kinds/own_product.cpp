#include "kinds/own_product.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ctxgen/base/instruction_set.h"

#include "kernels/kernel_product.h"
#include "layout/conv_packing.h"
#include "layout/product_packing.h"
#include "plan/params.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;
using kernels::PanelType;

std::optional<PanelType> panel_type(memory::data_type type) {
  switch (type) {
    case memory::data_type::f32: return PanelType::kFloat;
    case memory::data_type::bf16: return PanelType::kBfloat16;
    case memory::data_type::f16: return PanelType::kFloat16;
    default: return std::nullopt;
  }
}

/// Distances between neighbours in an operand, over rows and columns of a result.
struct Distances {
  std::int64_t row = 0, column = 0;
};

/// Nothing where rows are not equally far apart.
std::optional<Distances> distances(const Slot& operand, const Slot& dst, std::size_t column_axis) {
  if (operand.type != DataType::kFloat) return std::nullopt;
  const Dims strides = broadcast_strides(operand, dst.dims);
  Distances found{0, strides[column_axis]};
  std::int64_t rows = 1;  // of the dims so far
  for (std::size_t i = dst.dims.size(); i-- > 0;) {
    if (i == column_axis || dst.dims[i] == 1) continue;
    if (rows == 1) found.row = strides[i];
    if (strides[i] != found.row * rows) return std::nullopt;
    rows *= dst.dims[i];
  }
  return found;
}

/// A product's form and arguments while post-ops are taken into it.
class Assembly {
 public:
  Assembly(NodeBuilder& builder, const OwnProduct& product)
      : builder_(builder), product_(product), dst_(builder.output()) {
    const memory::desc& wanted = product.weight.wanted;
    const std::int64_t block = panel_columns(wanted).value_or(0);
    const std::int64_t panels = product.groups * ((product.columns + block - 1) / block);
    const std::size_t element = dnnl::memory::data_type_size(wanted.get_data_type());
    const auto elements = static_cast<std::int64_t>(wanted.get_size() / element);
    form_.product.windows = product.windows;
    form_.product.matrix = {nullptr, panel_type(wanted.get_data_type()).value_or(PanelType::kFloat),
                            product.columns, block, elements / panels};
    form_.product.result_pitch = product.groups * product.columns;
    form_.groups = product.groups;
    form_.has_bias = builder.has_input(2);
  }

  Status add() {
    const std::span<const NodePostOp> all = builder_.node().post_ops;
    if (next_ < all.size() && take_start(all[next_])) ++next_;
    // The product writes over what such a sum adds.
    const auto sums = [](const NodePostOp& stage) { return stage.in_place_sum; };
    if (std::ranges::any_of(all.subspan(next_), sums))
      return fail(ErrorCode::kUnsupported, "{}: a sum in place after others", label(builder_.op()));
    if (next_ < all.size() && take_clamp(*all[next_].post)) ++next_;
    while (next_ < all.size() && form_.stages.size() < kMostPartStages && take_stage(all[next_]))
      ++next_;
    builder_.add_kernel("loop:product", make_product_kernel(form_, builder_.context().threads),
                        arguments(),
                        {.flops = 2.0 * static_cast<double>(volume(dst_.dims)) *
                                  static_cast<double>(product_.windows.depth())});
    return builder_.add_chain(dst_, dst_, all.subspan(next_));
  }

 private:
  bool take_start(const NodePostOp& stage) {
    if (stage.post->kind != "add" || stage.operand == kNone) return false;
    const auto apart = distances(builder_.slot(stage.operand), dst_, product_.column_axis);
    if (!apart || apart->column != 1) return false;
    const bool one_row = product_.windows.rows() == 1;
    const std::int64_t columns = form_.product.result_pitch;
    if (!one_row && apart->row < columns) return false;
    form_.has_start = true;
    form_.product.finish.start_pitch = one_row ? columns : apart->row;
    start_ = stage.operand;
    return true;
  }

  bool take_clamp(const PostOp& post) {
    kernels::Finish& finish = form_.product.finish;
    if (post.kind == "relu" && post.alpha == 0.0F) {
      finish.low = 0;
    } else if (post.kind == "clip" && post.alpha <= post.beta) {
      finish.low = post.alpha;
      finish.high = post.beta;
    } else {
      return false;
    }
    return true;
  }

  bool take_stage(const NodePostOp& stage) {
    const auto point = point_op(stage.post->kind, stage.operand != kNone);
    if (!point) return false;
    PartStage added{*point, stage.post->alpha, stage.post->beta, 0, 0};
    if (takes_operand(*point)) {
      if (stage.operand == kNone) return false;  // add_chain() says what is wrong
      const auto apart = distances(builder_.slot(stage.operand), dst_, product_.column_axis);
      if (!apart) return false;
      added.row_stride = apart->row;
      added.column_stride = apart->column;
      operands_.push_back(stage.operand);
    }
    form_.stages.push_back(added);
    return true;
  }

  std::vector<Arg> arguments() {
    std::vector<Arg> args{builder_.slot_arg(builder_.input(0)),
                          builder_.packed_arg(0, product_.weight), builder_.slot_arg(dst_)};
    if (form_.has_bias) args.push_back(builder_.slot_arg(builder_.input(2)));
    if (form_.has_start) args.push_back(builder_.slot_arg(builder_.slot(start_)));
    for (const SlotId operand : operands_)
      args.push_back(builder_.slot_arg(builder_.slot(operand)));
    return args;
  }

  NodeBuilder& builder_;
  const OwnProduct& product_;
  const Slot& dst_;
  ProductForm form_;
  std::size_t next_ = 0;  // of the node's post-ops, the first that is not taken
  SlotId start_ = kNone;
  std::vector<SlotId> operands_;
};

}  // namespace

std::optional<std::int64_t> panel_columns(const memory::desc& md) {
  const memory::data_type type = md.get_data_type();
  if (md.get_format_kind() != memory::format_kind::blocked || !panel_type(type))
    return std::nullopt;
  const memory::dims dims = md.get_dims();
  if (dims.size() == 2) return packed_columns(md);
  if (dims.size() != 4 && dims.size() != 5) return std::nullopt;
  for (const auto& [columns, one, grouped] : window_packings())
    if (md == memory::desc(dims, type, dims.size() == 4 ? one : grouped)) return columns;
  return std::nullopt;
}

bool takes_own_product(const NodeBuilder& builder) {
  if (builder.node().packed_weight == kNone) return false;
  if (simd_level() < SimdLevel::kAvx2 && !widens_weight(builder)) return false;
  return builder.input(0).type == DataType::kFloat && builder.output().type == DataType::kFloat &&
         panel_type(dnnl_type(builder.weight_type())).has_value();
}

bool widens_weight(const NodeBuilder& builder) {
  const DataType type = builder.weight_type();
  return builder.input(0).type == DataType::kFloat &&
         (type == DataType::kBfloat16 || type == DataType::kFloat16);
}

// Measured: docs/onednn.md, "Packed weights".
bool prefers_own_windows(const kernels::Windows& windows) {
  constexpr std::int64_t kLongDepth = 1024;
  if (!includes(usable_instruction_set(), InstructionSet::kAvx512Core))
    return windows.depth() >= kShortDepth;
  const bool one_line = windows.size[0] == 1 && windows.kernel[0] == 1 && windows.kernel[1] > 1;
  return one_line && windows.depth() >= kLongDepth;
}

bool prefers_own_rows(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  constexpr std::int64_t kMostRows = 512, kLeastDepth = 256;
  if (rows <= kernels::most_stream_rows() || is_small_product(rows, depth, columns)) return true;
  return includes(usable_instruction_set(), InstructionSet::kAvx512Core) && rows <= kMostRows &&
         depth >= kLeastDepth;
}

bool is_small_product(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  constexpr double kSmall = 1 << 18;  // multiplications
  return static_cast<double>(rows) * static_cast<double>(depth) * static_cast<double>(columns) <=
         kSmall;
}

Status add_own_product(NodeBuilder& builder, const OwnProduct& product) {
  return Assembly(builder, product).add();
}

}  // namespace ctxgen::onednn
