#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "kernels/kernels_reduce.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/spatial.h"
#include "rules/type_rules.h"
#include "rules/window.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

/// What oneDNN's fast kernels do as ONNX does: no dilation, padding smaller than the kernel, no
/// window that ceil_mode lets reach into memory which an average must not count, and no more taps
/// than its int counts.
bool onednn_agrees(const Window& w, PoolMode mode) {
  std::int64_t taps = 1;
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    taps *= w.kernel[i];  // windows of 2^20 at most, or those of a tensor's dims
    if (w.dilations[i] != 1 || w.pad_begin[i] >= w.kernel[i] ||
        w.pad_end[i] + w.extra_end[i] >= w.kernel[i])
      return false;
    if (mode == PoolMode::kAverageInclude && w.extra_end[i] > 0) return false;
  }
  return taps <= INT32_MAX;
}

dnnl::algorithm pool_algorithm(PoolMode mode) {
  switch (mode) {
    case PoolMode::kMax: return dnnl::algorithm::pooling_max;
    case PoolMode::kAverageInclude: return dnnl::algorithm::pooling_avg_include_padding;
    case PoolMode::kAverageExclude: break;
  }
  return dnnl::algorithm::pooling_avg_exclude_padding;
}

Status build_onednn(NodeBuilder& builder, const Window& w, PoolMode mode) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t rank = src.dims.size();
  const memory::desc src_md = channels_last_md(src.dims, src.type);
  const memory::desc dst_md = channels_last_md(dst.dims, dst.type);
  std::vector<std::int64_t> pad_end = w.pad_end;
  for (std::size_t i = 0; i < pad_end.size(); ++i) {
    // A floor leaves a rest that no window covers; oneDNN wants sizes that match exactly.
    const std::int64_t reach = (w.out[i] - 1) * w.strides[i] + w.kernel[i];
    pad_end[i] = std::max<std::int64_t>(0, reach - src.dims[i + 2] - w.pad_begin[i]);
  }
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::pooling_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, pool_algorithm(mode), src_md, dst_md,
        wide_window(w.strides, rank, 1), wide_window(w.kernel, rank, 1),
        memory::dims(rank == 3 ? 2 : rank - 2, 0), wide_window(w.pad_begin, rank, 0),
        wide_window(mode == PoolMode::kAverageInclude ? w.pad_end : pad_end, rank, 0), attr);
  };
  return builder.add_primitive<dnnl::pooling_forward>(
      make,
      {builder.slot_arg(DNNL_ARG_SRC, src_md, src), builder.slot_arg(DNNL_ARG_DST, dst_md, dst)});
}

/// Pools of lines in f32 and of bytes, but those of whole images. Measured: docs/onednn.md, "Pooling and resizing".
bool prefers_own(const Slot& src, const Slot& dst) {
  return (src.type == DataType::kFloat || is_byte(src.type)) && src.dims.size() <= 4 &&
         volume(dst.dims) > dst.dims[0] * dst.dims[1];
}

Status build_window(NodeBuilder& builder, const Window& w, PoolMode mode) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const bool narrow = src.type == DataType::kBfloat16 || src.type == DataType::kFloat16;
  if (src.type != DataType::kFloat && !narrow && mode != PoolMode::kMax)
    return fail(ErrorCode::kUnsupported, "{}: average of {}", label(builder.op()),
                name_of(src.type));
  Status status = fail(ErrorCode::kUnsupported, "own loop");
  if (!prefers_own(src, dst) && onednn_agrees(w, mode)) status = build_onednn(builder, w, mode);
  if (!status && (narrow || status.error().code != ErrorCode::kUnsupported)) return status;
  if (!status)
    builder.add_kernel("loop:pool", make_pool_kernel(src.dims, w, mode, src.type),
                       {builder.slot_arg(src), builder.slot_arg(dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Result<Window> pool_window(const ProgramOp& op, const Dims& src, const PoolParams& params) {
  IntList kernel = CTXGEN_TRY(per_dim(op, "kernel", params.kernel, src.size() - 2, 1));
  return resolve_window(op, src, std::move(kernel), params.window, params.ceil_mode);
}

Result<ShapeOutputs> pool_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const auto params = CTXGEN_TRY(decode<PoolParams>(op));
  const std::string& mode = params.mode;
  if (mode != "max" && mode != "avg_include" && mode != "avg_exclude")
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(op), mode);
  const Window w = CTXGEN_TRY(pool_window(op, src, params));
  Dims out{src[0], src[1]};
  for (const std::int64_t size : w.out) out.push_back(size);
  return one_shape(out);
}

Result<ShapeOutputs> global_pool_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const std::string mode = CTXGEN_TRY(decode<GlobalPoolParams>(op)).mode;
  if (mode != "max" && mode != "avg")
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(op), mode);
  Dims out(src.size(), 1);
  out[0] = src[0];
  out[1] = src[1];
  return one_shape(out);
}

Status build_pool(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<PoolParams>(builder.op()));
  const Window w = CTXGEN_TRY(pool_window(builder.op(), builder.input(0).dims, params));
  return build_window(builder, w,
                      params.mode == "max"           ? PoolMode::kMax
                      : params.mode == "avg_include" ? PoolMode::kAverageInclude
                                                     : PoolMode::kAverageExclude);
}

Status build_mean(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const MeanShape shape{
      .images = src.dims[0], .pixels = volume(src.dims, 2), .channels = src.dims[1]};
  builder.add_kernel("loop:mean", make_mean_kernel(shape),
                     {builder.slot_arg(src), builder.slot_arg(dst), scratch_arg()},
                     {.scratch_bytes = shape.scratch_bytes()});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_global_pool(NodeBuilder& builder) {
  const Dims& src = builder.input(0).dims;
  const std::string mode = CTXGEN_TRY(decode<GlobalPoolParams>(builder.op())).mode;
  if (mode == "avg" && builder.input(0).type == DataType::kFloat && volume(src, 0) > 0)
    return build_mean(builder);
  const std::size_t k = src.size() - 2;
  const std::vector<std::int64_t> ones(k, 1);
  const std::vector<std::int64_t> zeros(k, 0);
  const Window w{
      std::vector<std::int64_t>(src.begin() + 2, src.end()), ones, ones, zeros, zeros, ones, zeros};
  return build_window(builder, w, mode == "max" ? PoolMode::kMax : PoolMode::kAverageExclude);
}

}  // namespace

constinit const KindRow kPoolRow{
    .name = kind::kPool,
    .number = 3,
    .inputs = {1, 1},
    .traits = {.pools = true},
    .types = check_pool_types,
    .shape = pool_shape,
    .place = place_spatial,
    .build = build_pool,
};

constinit const KindRow kGlobalPoolRow{
    .name = kind::kGlobalPool,
    .number = 4,
    .inputs = {1, 1},
    .traits = {.pools = true},
    .types = check_pool_types,
    .shape = global_pool_shape,
    .place = place_spatial,
    .build = build_global_pool,
};

}  // namespace ctxgen::onednn
