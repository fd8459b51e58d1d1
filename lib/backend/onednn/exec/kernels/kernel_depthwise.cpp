#include "kernels/kernel_depthwise.h"

#include <utility>

#include "kernels/kernel_loops.h"

namespace ctxgen::onednn {

namespace {

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(DepthwiseForm form, int threads)
      : form_(std::move(form)),
        parts_(kernels::depthwise_parts(form_.conv.windows, threads <= 1 ? 1 : threads * 4)),
        through_rows_(parts_.part_channels >= parts_.channels &&
                      goes_through_rows(form_.finish, parts_.channels)) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::Depthwise conv = form_.conv;
    std::size_t next = 3;
    conv.src = reinterpret_cast<const float*>(args[0]);
    conv.weights = reinterpret_cast<const float*>(args[1]);
    conv.result = reinterpret_cast<float*>(args[2]);
    conv.finish = finish_of(form_.finish, args, next);
    const kernels::Windows& windows = conv.windows;
    const std::int64_t work = work_of(work_of(windows.rows(), windows.channels),
                                      work_of(windows.kernel[0], windows.kernel[1]));
    parallel_for(workers, parts_.count(), work, [&](std::int64_t index) {
      const kernels::DepthwisePart part = parts_.part(index);
      kernels::convolve_depthwise(conv, part);
      if (form_.finish.stages.empty()) return;
      const std::int64_t columns = windows.result[1];
      apply_stages(form_.finish,
                   {part.line * columns, part.lines * columns, part.channel, part.channels},
                   through_rows_, conv.result, args + next);
    });
    return {};
  }

 private:
  DepthwiseForm form_;
  kernels::DepthwiseParts parts_;
  bool through_rows_;
};

}  // namespace

std::shared_ptr<const Kernel> make_depthwise_kernel(DepthwiseForm form, int threads) {
  return std::make_shared<const DepthwiseKernel>(std::move(form), threads);
}

}  // namespace ctxgen::onednn
