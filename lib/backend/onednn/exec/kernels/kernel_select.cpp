#include <algorithm>
#include <utility>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"
#include "kernels/point_rows.h"

namespace ctxgen::onednn {

// The forms that masks take have loops of their own, which the compiler vectorises.
#define CTXGEN_LOOP(at_c, at_a, at_b)                                                     \
  for (std::int64_t i = 0; i < n; ++i) out[i] = condition[at_c] != 0 ? a[at_a] : b[at_b]; \
  return

constexpr auto select_loop =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const std::uint8_t* condition,
                                  std::int64_t c_step, const float* a, std::int64_t a_step,
                                  const float* b, std::int64_t b_step, float* out) {
      if (c_step == 1 && a_step == 1 && b_step == 1) {
        CTXGEN_LOOP(i, i, i);
      }
      if (c_step == 1 && a_step == 1 && b_step == 0) {
        CTXGEN_LOOP(i, i, 0);
      }
      if (c_step == 1 && a_step == 0 && b_step == 1) {
        CTXGEN_LOOP(i, 0, i);
      }
      CTXGEN_LOOP(i * c_step, i * a_step, i * b_step);
    });
void select_row(std::int64_t n, const std::uint8_t* condition, std::int64_t c_step, const float* a,
                std::int64_t a_step, const float* b, std::int64_t b_step, float* out) {
  select_loop(n, condition, c_step, a, a_step, b, b_step, out);
}
#undef CTXGEN_LOOP

namespace {

class SelectKernel final : public Kernel {
 public:
  explicit SelectKernel(std::vector<PointAxis> axes) : walk_(std::move(axes), kChunk) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    parallel_for(workers, walk_.jobs(), walk_.elements(),
                 [&](std::int64_t job) { run_job(job, args); });
    return {};
  }

 private:
  static constexpr std::int64_t kChunk = 16 * 1024;                // what one thread does at a time
  enum Tensor : std::size_t { kDst, kCondition, kA, kB, kCount };  // order of the strides

  void run_job(std::int64_t job, std::byte* const* args) const {
    std::int64_t at[kCount];
    const std::int64_t n = walk_.place(job, at);
    select_row(n, reinterpret_cast<const std::uint8_t*>(args[0]) + at[kCondition],
               walk_.step(kCondition), reinterpret_cast<const float*>(args[1]) + at[kA],
               walk_.step(kA), reinterpret_cast<const float*>(args[2]) + at[kB], walk_.step(kB),
               reinterpret_cast<float*>(args[3]) + at[kDst]);
  }

  PointWalk walk_;
};

}  // namespace

std::shared_ptr<const Kernel> make_select_kernel(const Dims& dims, const Dims& condition_strides,
                                                 const Dims& a_strides, const Dims& b_strides,
                                                 const Dims& dst_strides) {
  return std::make_shared<SelectKernel>(
      collapse_points(dims, {&dst_strides, &condition_strides, &a_strides, &b_strides}));
}

}  // namespace ctxgen::onednn
