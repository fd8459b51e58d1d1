#include "plan/reorder_weight.h"

#include "plan/dnnl_error.h"

namespace ctxgen::onednn {

Result<AlignedBytes> reorder_weight(const std::byte* src, const dnnl::memory::desc& from,
                                    const dnnl::memory::desc& to) {
  AlignedBytes out = CTXGEN_TRY(AlignedBytes::allocate(to.get_size()));
  CTXGEN_CHECK(guarded("weight reorder", [&] {
    dnnl::stream stream(cpu_engine());
    dnnl::memory in(from, cpu_engine(), const_cast<std::byte*>(src));
    dnnl::memory result(to, cpu_engine(), out.data());
    dnnl::reorder(in, result).execute(stream, in, result);
    stream.wait();
  }));
  return out;
}

}  // namespace ctxgen::onednn
