#include <algorithm>

#include "ctxgen/kernels/activate.h"

#include "kernels/kernel_loops.h"
#include "kernels/recurrent/kernels_recurrence.h"

// Operators that keep a state of one size: how their work is cut.
namespace ctxgen::onednn {

namespace {

constexpr std::int64_t kChannelsAtOnce = 64;
/// Of a causal convolution: channels at once share a scratch.
std::int64_t parts_of(const kernels::CausalConv& conv) {
  return (conv.channels + kChannelsAtOnce - 1) / kChannelsAtOnce;
}

template <class T>
void take(std::byte* const*& args, T*& to, bool present = true) {
  if (present) to = reinterpret_cast<T*>(*args++);
}

class LinearAttentionKernel final : public Kernel {
 public:
  explicit LinearAttentionKernel(const LinearAttentionWork& work) : work_(work) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::LinearAttention a = work_.attend;
    take(args, a.q);
    take(args, a.k);
    take(args, a.v);
    take(args, a.past, work_.has_past);
    take(args, a.decay, work_.has_decay);
    take(args, a.rate, work_.has_rate);
    take(args, a.out);
    take(args, a.present);
    if (work_.has_decay) {
      float* factors = nullptr;
      take(args, factors);
      kernels::activate(kernels::Activation::kExp, 0, work_.decay_count(), a.decay, factors);
      a.decay = factors;
    }
    const std::int64_t columns = kernels::linear_attention_columns();
    const std::int64_t blocks = (a.width + columns - 1) / columns;
    // A step is four operations on each element of a state.
    const std::int64_t work = work_of(work_of(a.images * a.states, a.size * a.width), a.steps + 1);
    parallel_for(workers, a.images * a.states * blocks, work, [&](std::int64_t job) {
      const std::int64_t state = job / blocks, first = job % blocks * columns;
      kernels::attend_linearly(a, state / a.states, state % a.states, first,
                               std::min(columns, a.width - first));
    });
    return {};
  }

 private:
  LinearAttentionWork work_;
};

class CausalConvKernel final : public Kernel {
 public:
  explicit CausalConvKernel(const CausalConvWork& work) : work_(work) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::CausalConv c = work_.conv;
    take(args, c.x);
    take(args, c.weights);
    take(args, c.bias, work_.has_bias);
    take(args, c.past, work_.has_past);
    take(args, c.out);
    take(args, c.present);
    float* scratch = nullptr;
    take(args, scratch);
    const std::int64_t parts = parts_of(c), size = kernels::causal_conv_scratch(c);
    const std::int64_t work = work_of(work_of(work_.images, c.channels * c.length), c.taps + 4);
    parallel_for(workers, work_.images * parts, work, [&](std::int64_t job) {
      const std::int64_t first = job % parts * kChannelsAtOnce;
      kernels::run_causal_conv(c, job / parts, first, std::min(kChannelsAtOnce, c.channels - first),
                               scratch + job * size);
    });
    return {};
  }

 private:
  CausalConvWork work_;
};

}  // namespace

std::shared_ptr<const Kernel> make_linear_attention_kernel(LinearAttentionWork work) {
  return std::make_shared<const LinearAttentionKernel>(work);
}

std::uint64_t CausalConvWork::scratch_bytes() const {
  return static_cast<std::uint64_t>(images * parts_of(conv) * kernels::causal_conv_scratch(conv)) *
         sizeof(float);
}

std::shared_ptr<const Kernel> make_causal_conv_kernel(CausalConvWork work) {
  return std::make_shared<const CausalConvKernel>(work);
}

}  // namespace ctxgen::onednn
