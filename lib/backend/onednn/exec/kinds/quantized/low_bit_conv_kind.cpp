#include <algorithm>
#include <optional>

#include "ctxgen/kernels/byte_windows.h"
#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/kernels/product.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernel_loops.h"
#include "kinds/kind_rows.h"
#include "kinds/quantized/low_bit_matrix_of.h"
#include "layout/placement.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/conv_rules.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/spatial.h"
#include "rules/type_rules.h"

// Convolutions in f32 whose weights are integers of 2, 4 or 8 bits. Some tiles of the weights at a time
// become panels in f32, which the kernel of other convolutions multiplies; few pixels are gathered as rows,
// which the kernel of low_bit_matmul multiplies as the weights are.
namespace ctxgen::onednn {

namespace {

enum Input : std::uint8_t { kSrc, kMatrix, kBias, kInputs };

struct LowBitConv {
  kernels::LowBitMatrix matrix;
  Window window;
};

Result<LowBitConv> describe(const ProgramOp& op, const Dims& src) {
  const auto params = CTXGEN_TRY(decode<LowBitConvParams>(op));
  if (params.matrix.compute != "float")
    return fail(ErrorCode::kUnsupported, "{}: compute \"{}\"", label(op), params.matrix.compute);
  LowBitConv conv{CTXGEN_TRY(low_bit_matrix(op, params.matrix)), {}};
  conv.window = CTXGEN_TRY(window_of_matrix(op, src, params.kernel, params.window, conv.matrix.k));
  return conv;
}

Status check_low_bit_conv_types(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  CTXGEN_CHECK(expect_type(program, op, input(kSrc), {DataType::kFloat}));
  CTXGEN_CHECK(expect_type(program, op, input(kMatrix), {DataType::kUint8}));
  CTXGEN_CHECK(expect_type(program, op, input(kBias), {DataType::kFloat}));
  if (input(kMatrix).kind != Operand::Kind::kWeight)
    return fail(ErrorCode::kUnsupported, "{}: the matrix is not a weight", label(op));
  return expect_type(program, op, Operand::value(op.outputs[0]), {DataType::kFloat});
}

Result<ShapeOutputs> low_bit_conv_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[kSrc].dims;
  const LowBitConv conv = CTXGEN_TRY(describe(op, src));
  CTXGEN_CHECK(expect_packed(op, conv.matrix, in[kMatrix].dims));
  if (in.size() > kBias && in[kBias].present && in[kBias].dims != Dims{conv.matrix.n})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[kBias].dims), conv.matrix.n);
  return conv_result(src[0], conv.matrix.n, conv.window);
}

std::int64_t low_bit_conv_terms(const Program& /*program*/, const ProgramOp& op) {
  const std::int64_t k = decode<LowBitConvParams>(op).value_or(LowBitConvParams()).matrix.k;
  return std::clamp<std::int64_t>(k, 1, kMostTerms);
}

Status place_low_bit_conv(Placement& pass, std::uint32_t op) {
  const ProgramOp& conv = pass.program().ops[op];
  const auto dense = Placement::Density::kDense;
  const SlotId src = pass.need(conv.inputs[kSrc], Layout::kChannelsLast, dense, op);
  const SlotId matrix = pass.need(conv.inputs[kMatrix], Layout::kPlain, dense, op);
  pass.add_placed(op, Layout::kChannelsLast, {src, matrix, place_vector(pass, op, kBias)});
  return {};
}

struct ConvForm {
  kernels::LowBitMatrix matrix;
  kernels::Windows windows;
  std::int64_t tiles_at_once = 0;    // that become panels; 0: rows are gathered
  std::uint64_t gathered_bytes = 0;  // of scratch, which they come first in
  std::uint64_t scratch_bytes = 0;
  bool has_bias = false;
  [[nodiscard]] std::int64_t tiles() const {
    return (matrix.n + kernels::kLowBitColumns - 1) / kernels::kLowBitColumns;
  }
  [[nodiscard]] std::int64_t panel_floats() const {
    return kernels::panel_rows(matrix) * kernels::kLowBitColumns;
  }
};

/// Args: src, packed matrix, dst, scratch, bias if there is one.
class LowBitConvKernel final : public Kernel {
 public:
  explicit LowBitConvKernel(const ConvForm& form) : form_(form) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    if (form_.tiles_at_once == 0) {
      multiply_gathered(args, workers);
      return {};
    }
    for (std::int64_t first = 0; first < form_.tiles(); first += form_.tiles_at_once)
      multiply_tiles(args, first, std::min(first + form_.tiles_at_once, form_.tiles()), workers);
    return {};
  }

 private:
  [[nodiscard]] const float* bias_of(std::byte* const* args) const {
    return form_.has_bias ? reinterpret_cast<const float*>(args[4]) : nullptr;
  }

  void multiply_tiles(std::byte* const* args, std::int64_t first, std::int64_t last,
                      Workers& workers) const {
    auto* panels = reinterpret_cast<float*>(args[3]);
    parallel_for(workers, last - first, work_of(last - first, form_.panel_floats()),
                 [&](std::int64_t i) {
                   kernels::unpack_tiles(form_.matrix, args[1], first + i, first + i + 1,
                                         panels + i * form_.panel_floats());
                 });
    const std::int64_t column = first * kernels::kLowBitColumns;
    const std::int64_t end = std::min(last * kernels::kLowBitColumns, form_.matrix.n);
    const float* bias = bias_of(args);
    const kernels::PanelProduct product{
        .windows = form_.windows,
        .src = reinterpret_cast<const float*>(args[0]),
        .matrix = {.panels = args[3],
                   .columns = end - column,
                   .block = kernels::kLowBitColumns,
                   .panel_elements = form_.panel_floats()},
        .finish = {.bias = bias == nullptr ? nullptr : bias + column},
        .result = reinterpret_cast<float*>(args[2]) + column,
        .result_pitch = form_.matrix.n};
    constexpr std::int64_t kParts = 16;  // for as many threads as a machine has, or nearly
    const kernels::ProductParts parts =
        kernels::product_parts(product.windows, product.matrix, kParts);
    const std::int64_t work =
        work_of(work_of(form_.windows.rows(), form_.matrix.k), (end - column) / 8 + 1);
    parallel_for(workers, parts.count(), work,
                 [&](std::int64_t i) { kernels::multiply_panels(product, parts.part(i)); });
  }

  void multiply_gathered(std::byte* const* args, Workers& workers) const {
    const std::int64_t rows = form_.windows.rows();
    kernels::Windows bytes = form_.windows;  // 0 is 0.0F
    bytes.channels *= static_cast<std::int64_t>(sizeof(float));
    bytes.pitch *= static_cast<std::int64_t>(sizeof(float));
    kernels::gather_windows(bytes, reinterpret_cast<const std::uint8_t*>(args[0]), 0, 0, rows,
                            bytes.depth(), reinterpret_cast<std::uint8_t*>(args[3]));
    kernels::low_bit_product({.matrix = form_.matrix,
                              .rows = rows,
                              .a = reinterpret_cast<const float*>(args[3]),
                              .packed = args[1],
                              .bias = bias_of(args),
                              .out = reinterpret_cast<float*>(args[2]),
                              .scratch = args[3] + form_.gathered_bytes},
                             workers);
  }

  ConvForm form_;
};

/// Nothing where the sizes pass what a plan may hold.
std::optional<ConvForm> plan_conv(const kernels::LowBitMatrix& matrix,
                                  const kernels::Windows& windows) {
  constexpr std::int64_t kFewRows = 8, kPanelsAtOnce = 512 * 1024;  // floats
  constexpr std::uint64_t kAlignment = 64;
  ConvForm form{.matrix = matrix, .windows = windows};
  const std::int64_t rows = windows.rows();
  if (rows >= kFewRows) {
    form.tiles_at_once =
        std::clamp<std::int64_t>(kPanelsAtOnce / form.panel_floats(), 1, form.tiles());
    form.scratch_bytes =
        static_cast<std::uint64_t>(form.tiles_at_once * form.panel_floats()) * sizeof(float);
  } else {
    const auto bytes = static_cast<std::uint64_t>(rows * matrix.k) * sizeof(float);
    form.gathered_bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const auto scratch = kernels::scratch_bytes(matrix, kernels::LowBitCompute::kFloat, rows);
    if (!scratch || *scratch > kMaxTensorBytes) return std::nullopt;
    form.scratch_bytes = std::max(form.gathered_bytes + *scratch, kAlignment);
  }
  return form.scratch_bytes <= kMaxTensorBytes ? std::optional(form) : std::nullopt;
}

Status build_low_bit_conv(NodeBuilder& builder) {
  const Slot &src = builder.input(kSrc), &dst = builder.output();
  const LowBitConv conv = CTXGEN_TRY(describe(builder.op(), src.dims));
  auto form = plan_conv(conv.matrix, windows_of(src.dims, conv.window, 1));
  if (!form)
    return fail(ErrorCode::kResourceLimit, "{}: {} x {}", label(builder.op()), conv.matrix.k,
                conv.matrix.n);
  form->has_bias = builder.has_input(kBias);
  std::vector<Arg> args{builder.slot_arg(src), builder.slot_arg(builder.input(kMatrix)),
                        builder.slot_arg(dst), scratch_arg()};
  if (form->has_bias) args.push_back(builder.slot_arg(builder.input(kBias)));
  builder.add_kernel(
      "loop:low_bit_conv", std::make_shared<const LowBitConvKernel>(*form), std::move(args),
      {.flops = 2.0 * static_cast<double>(volume(dst.dims)) * static_cast<double>(conv.matrix.k),
       .scratch_bytes = form->scratch_bytes});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kLowBitConvRow{
    .name = kind::kLowBitConv,
    .number = 46,
    .inputs = {2, kInputs},
    .traits = {.absorbs_eltwise = true},
    .types = check_low_bit_conv_types,
    .shape = low_bit_conv_shape,
    .terms = low_bit_conv_terms,
    .place = place_low_bit_conv,
    .build = build_low_bit_conv,
};

}  // namespace ctxgen::onednn
