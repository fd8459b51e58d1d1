#include "kernels/kernels.h"
#include "plan/builder_fused.h"

namespace ctxgen::onednn {

/// Between plain and channels-last oneDNN has a blocked transpose; copies of rows are own loops, and so are those of two to four
/// channels, which are interleaved in registers: 3 of 224x224 bytes take 9 us, oneDNN's 85 (one thread of a Zen 5).
Status build_copy(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  constexpr std::int64_t kWorthPrimitive = 8192;  // below, a loop is done before a call is set up
  constexpr std::int64_t kInterleaved = 4;
  bool transposes =
      dst.dims.size() >= 3 && dst.dims[1] > kInterleaved && volume(dst.dims) >= kWorthPrimitive;
  const auto dense = [](const Slot& slot, Layout layout) {
    return is_layout(slot.dims, slot.strides, layout);
  };
  transposes = transposes && dnnl_type(dst.type) != dnnl::memory::data_type::undef &&
               !layouts_coincide(dst.dims) &&
               ((dense(src, Layout::kPlain) && dense(dst, Layout::kChannelsLast)) ||
                (dense(src, Layout::kChannelsLast) && dense(dst, Layout::kPlain)));
  if (transposes) {
    // Three dims say the same and leave oneDNN no odd ranks: [N, C, pixels].
    const Dims dims{dst.dims[0], dst.dims[1], volume(dst.dims, 2)};
    const bool to_last = dense(dst, Layout::kChannelsLast);
    const auto src_md =
        make_md(dims, strides_of(to_last ? Layout::kPlain : Layout::kChannelsLast, dims), src.type);
    const auto dst_md =
        make_md(dims, strides_of(to_last ? Layout::kChannelsLast : Layout::kPlain, dims), dst.type);
    const auto make = [&](const dnnl::primitive_attr& attr) {
      return dnnl::reorder::primitive_desc(cpu_engine(), src_md, cpu_engine(), dst_md, attr);
    };
    const Status status = builder.add_primitive<dnnl::reorder>(
        make,
        {builder.slot_arg(DNNL_ARG_FROM, src_md, src), builder.slot_arg(DNNL_ARG_TO, dst_md, dst)});
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  builder.add_kernel("loop:copy",
                     make_copy_kernel(dst.dims, src.strides, dst.strides, element_bytes(dst.type)),
                     {builder.slot_arg(src), builder.slot_arg(dst)});
  return {};
}

}  // namespace ctxgen::onednn
