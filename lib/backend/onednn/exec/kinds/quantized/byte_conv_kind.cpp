#include <algorithm>
#include <optional>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/byte_depthwise.h"
#include "ctxgen/kernels/byte_windows.h"
#include "ctxgen/kernels/lane_share.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernel_loops.h"
#include "kinds/kind_rows.h"
#include "kinds/quantized/byte_conv_lines.h"
#include "kinds/quantized/byte_form.h"
#include "plan/params.h"
#include "rules/conv_rules.h"
#include "rules/shape_rules.h"
#include "rules/spatial.h"
#include "rules/type_rules.h"

// Convolutions of bytes whose zero point is a value: products of gathered windows, by the kernels of
// byte_matmul, so as exact; those whose results see one channel by a kernel of their own.
namespace ctxgen::onednn {

namespace {

struct ByteConv {
  kernels::ByteMatrix matrix;
  Window window;
  bool depthwise = false;
  [[nodiscard]] std::uint64_t matrix_bytes() const {
    return depthwise ? static_cast<std::uint64_t>(matrix.k * matrix.n)
                     : kernels::packed_bytes(matrix);
  }
};

Result<ByteConv> describe_byte_conv(const ProgramOp& op, const Dims& src) {
  const auto params = CTXGEN_TRY(decode<ByteConvParams>(op));
  ByteConv conv{CTXGEN_TRY(byte_matrix(op, params.matrix)), {}, params.group.value_or(1) != 1};
  std::int64_t depth = conv.matrix.k;
  if (conv.depthwise) {
    const std::int64_t channels = src.size() < 2 ? 0 : src[1];
    if (*params.group != conv.matrix.n || channels != conv.matrix.n || conv.matrix.zeros ||
        conv.matrix.limits || conv.matrix.k > kernels::kMostByteTaps)
      return fail(ErrorCode::kInvalidGraph, "{}: {} groups of {} x {}, source {}", label(op),
                  *params.group, conv.matrix.k, conv.matrix.n, to_string(src));
    depth *= channels;
  }
  conv.window = CTXGEN_TRY(window_of_matrix(op, src, params.kernel, params.window, depth));
  return conv;
}

Status check_byte_conv_types(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(check_byte_types(program, op));
  const auto params = CTXGEN_TRY(decode<ByteConvParams>(op));
  if (params.group.value_or(1) == 1 ||
      operand_type(program, Operand::value(op.outputs[0])) != DataType::kInt32)
    return {};
  return fail(ErrorCode::kUnsupported, "{}: sums of {} groups", label(op), *params.group);
}

Result<ShapeOutputs> byte_conv_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[kBytesA].dims;
  const ByteConv conv = CTXGEN_TRY(describe_byte_conv(op, src));
  CTXGEN_CHECK(check_byte_operands(op, conv.matrix, conv.matrix_bytes(), in));
  return conv_result(src[0], conv.matrix.n, conv.window);
}

Status place_byte_conv(Placement& pass, std::uint32_t op) {
  return place_byte_op(pass, op, Layout::kChannelsLast);
}

std::int64_t column_tiles(const kernels::ByteMatrix& matrix) {
  return (matrix.n + kernels::kByteColumns - 1) / kernels::kByteColumns;
}

/// How windows are multiplied: a part of them at a time, gathered in memory of its own, so that what is
/// gathered is multiplied while it is in a cache.
struct ByteConvForm {
  kernels::Windows windows;
  std::int64_t rows = 0, rows_of_part = 0;
  std::int64_t threads = 1;
  std::int64_t lanes = 1;        // each takes parts one after another, in the same scratch memory,
  bool by_columns = false;       // or gathers the only part for itself, and takes tiles of columns
  std::uint64_t part_bytes = 0;  // of scratch; the windows come first
  std::uint64_t gathered_bytes = 0;
  std::int64_t row_bytes = 0;  // of a gathered window, filled up to words
  [[nodiscard]] std::int64_t parts() const {
    return rows == 0 ? 0 : (rows + rows_of_part - 1) / rows_of_part;
  }
  /// Whether rows are the source's pixels as they are.
  [[nodiscard]] bool in_place() const { return gathered_bytes == 0; }
};

/// Args: those of ByteForm, scratch.
class ByteConvKernel final : public Kernel {
 public:
  ByteConvKernel(const ByteForm& form, const ByteConvForm& conv) : form_(form), conv_(conv) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::ByteProduct product = form_.product(args);
    std::byte* scratch = args[0];
    if (conv_.by_columns) {
      run_columns(product, scratch, workers);
      return {};
    }
    if (conv_.parts() == 1) {
      product.lanes = conv_.threads;
      run_part(product, 0, scratch, workers);
      return {};
    }
    parallel_for(workers, conv_.lanes, form_.work(conv_.rows), [&](std::int64_t lane) {
      OneThread one;
      // Neighbours: the next convolution finds most of what it reads in the caches of the core that wrote it.
      const auto [first, end] = kernels::lane_share(conv_.parts(), conv_.lanes, lane);
      for (std::int64_t part = first; part < end; ++part)
        run_part(product, part, scratch + static_cast<std::uint64_t>(lane) * conv_.part_bytes, one);
    });
    return {};
  }

 private:
  /// Each lane gathers all windows and multiplies them by columns of its own.
  void run_columns(const kernels::ByteProduct& product, std::byte* scratch,
                   Workers& workers) const {
    parallel_for(workers, conv_.lanes, form_.work(conv_.rows), [&](std::int64_t lane) {
      const auto [first, end] = kernels::lane_share(column_tiles(form_.matrix), conv_.lanes, lane);
      kernels::ByteProduct own = product;
      own.first_tile = first;
      own.tiles = end - first;
      OneThread one;
      run_part(own, 0, scratch + static_cast<std::uint64_t>(lane) * conv_.part_bytes, one);
    });
  }

  void run_part(kernels::ByteProduct product, std::int64_t part, std::byte* scratch,
                Workers& workers) const {
    const std::int64_t first = part * conv_.rows_of_part;
    product.rows = std::min(conv_.rows_of_part, conv_.rows - first);
    if (conv_.in_place()) {
      product.a += first * form_.matrix.k;
    } else {
      auto* rows = reinterpret_cast<std::uint8_t*>(scratch);
      const std::uint8_t fill = product.a_zero == nullptr ? 0 : *product.a_zero;
      kernels::gather_windows(conv_.windows, product.a, fill, first, product.rows, conv_.row_bytes,
                              rows);
      product.a = rows;
      product.a_stride = conv_.row_bytes;
    }
    form_.move_result(first, product);
    product.scratch = scratch + conv_.gathered_bytes;
    kernels::byte_product(product, workers);
  }

  ByteForm form_;
  ByteConvForm conv_;
};

bool takes_pixels(const kernels::Windows& w) {
  const kernels::Windows::Pair one{1, 1}, none{0, 0};
  return w.kernel == one && w.stride == one && w.pad == none && w.result == w.size;
}

/// Nothing where the sizes pass what a plan may hold.
std::optional<ByteConvForm> plan_parts(const kernels::ByteMatrix& matrix,
                                       const kernels::Windows& windows, std::int64_t rows,
                                       int threads) {
  constexpr std::int64_t kRowsOfPart = 240;
  constexpr std::uint64_t kAlignment = 64;
  ByteConvForm form{.windows = windows, .rows = rows, .threads = threads};
  // All lanes get as many parts, which end where a tile's rows do.
  constexpr std::int64_t kUnit = 16;
  const std::int64_t rounds = (rows + kRowsOfPart * threads - 1) / (kRowsOfPart * threads);
  const std::int64_t even = rows / std::max<std::int64_t>(rounds * threads, 1) + 1;
  form.rows_of_part = std::clamp<std::int64_t>(
      rows, 1, rows <= kRowsOfPart ? kRowsOfPart : (even + kUnit - 1) / kUnit * kUnit);
  const auto aligned = [](std::uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  form.row_bytes = (matrix.k + 3) / 4 * 4;
  // At most 240 x 2^31.
  if (!takes_pixels(windows))
    form.gathered_bytes = aligned(static_cast<std::uint64_t>(form.rows_of_part * form.row_bytes));
  const auto scratch = kernels::scratch_bytes(matrix, form.rows_of_part);
  if (!scratch) return std::nullopt;
  form.part_bytes = form.gathered_bytes + aligned(*scratch);
  form.lanes = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(form.parts(), 1));
  // Windows are many times what they are gathered of: to move them from core to core takes longer than to gather them again.
  form.by_columns =
      form.parts() == 1 && !form.in_place() && threads > 1 && column_tiles(matrix) > 1;
  if (form.by_columns) form.lanes = std::min<std::int64_t>(threads, column_tiles(matrix));
  const auto all = checked_mul(form.part_bytes, static_cast<std::uint64_t>(form.lanes));
  return all && *all <= kMaxTensorBytes ? std::optional(form) : std::nullopt;
}

/// Args: those of ByteForm, scratch.
class ByteDepthwiseKernel final : public Kernel {
 public:
  ByteDepthwiseKernel(const ByteForm& form, const kernels::Windows& windows,
                      const kernels::ByteDepthwiseForm& parts)
      : form_(form), windows_(windows), parts_(parts) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const kernels::ByteProduct product = form_.product(args);
    kernels::byte_depthwise({.windows = windows_,
                             .is_signed = product.is_signed,
                             .src = product.a,
                             .zero = product.a_zero,
                             .weights = reinterpret_cast<const std::int8_t*>(product.packed),
                             .a_scale = product.a_scale,
                             .b_scales = product.b_scales,
                             .scale_per_channel = product.scale_per_column,
                             .bias = product.bias,
                             .bytes = product.bytes,
                             .out = product.out,
                             .steps = product.steps,
                             .scratch = args[0]},
                            parts_, workers);
    return {};
  }

 private:
  ByteForm form_;
  kernels::Windows windows_;
  kernels::ByteDepthwiseForm parts_;
};

Status build_depthwise(NodeBuilder& builder, const ByteConv& conv) {
  const Slot &src = builder.input(kBytesA), &dst = builder.output();
  const kernels::Windows windows = windows_of(src.dims, conv.window, 1);
  kernels::ByteDepthwiseForm parts;
  if (volume(dst.dims) > 0) {
    const auto found = kernels::byte_depthwise_form(windows, builder.context().threads);
    if (!found || found->scratch_bytes() > kMaxTensorBytes)
      return fail(ErrorCode::kResourceLimit, "{}: lines of {}", label(builder.op()),
                  to_string(src.dims));
    parts = *found;
  }
  std::vector<Arg> args;
  const ByteForm bytes(builder, conv.matrix, args);
  args.push_back(scratch_arg());
  builder.add_kernel(
      "loop:byte_depthwise", std::make_shared<const ByteDepthwiseKernel>(bytes, windows, parts),
      std::move(args),
      {.flops = 2.0 * static_cast<double>(volume(dst.dims)) * static_cast<double>(conv.matrix.k),
       .scratch_bytes = std::max<std::uint64_t>(parts.scratch_bytes(), 64)});
  if (bytes.steps) return {};
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_byte_conv(NodeBuilder& builder) {
  const Slot &src = builder.input(kBytesA), &dst = builder.output();
  const ByteConv conv = CTXGEN_TRY(describe_byte_conv(builder.op(), src.dims));
  if (conv.depthwise) return build_depthwise(builder, conv);
  const kernels::Windows windows = windows_of(src.dims, conv.window, 1);
  const double flops =
      2.0 * static_cast<double>(volume(dst.dims)) * static_cast<double>(conv.matrix.k);
  std::vector<Arg> args;
  const ByteForm bytes(builder, conv.matrix, args);
  args.push_back(scratch_arg());
  const auto add = [&](const std::shared_ptr<const Kernel>& kernel, std::uint64_t scratch) {
    builder.add_kernel("loop:byte_conv", kernel, std::move(args),
                       {.flops = flops, .scratch_bytes = std::max<std::uint64_t>(scratch, 64)});
  };
  if (!takes_pixels(windows) && takes_lines(conv.matrix, windows, bytes.is_signed)) {
    const auto form = plan_lines(windows, builder.context().threads);
    if (!form)
      return fail(ErrorCode::kResourceLimit, "{}: lines of {}", label(builder.op()),
                  to_string(src.dims));
    add(make_byte_lines_kernel(bytes, *form),
        form->lane_bytes * static_cast<std::uint64_t>(form->lanes));
  } else {
    const std::int64_t rows = volume(dst.dims) / conv.matrix.n;
    const auto form = plan_parts(conv.matrix, windows, rows, builder.context().threads);
    if (!form) return fail(ErrorCode::kResourceLimit, "{}: {} windows", label(builder.op()), rows);
    add(std::make_shared<const ByteConvKernel>(bytes, *form),
        form->part_bytes * static_cast<std::uint64_t>(form->lanes));
  }
  if (bytes.steps) return {};
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kByteConvRow{
    .name = kind::kByteConv,
    .number = 43,
    .inputs = {2, kByteInputs},
    .traits = {.own_bytes = true, .absorbs_eltwise = true},
    .types = check_byte_conv_types,
    .shape = byte_conv_shape,
    .terms = byte_terms,
    .place = place_byte_conv,
    .build = build_byte_conv,
};

}  // namespace ctxgen::onednn
