#include <array>

#include "families.h"
#include "kernel/stop.h"
#include "kernel/widen.h"
#include "numbers/interpolation.h"
#include "ops/nn/sliding_window.h"

namespace ctxgen::cpu {
namespace {

struct DeformParams {
  WindowAttributes window;
  std::int64_t group = 1, offset_group = 1;
};

struct DeformProblem {
  const Tensor *x, *w, *offset, *bias, *mask;
  Window window;
  std::size_t axes;
  std::int64_t kernel_size, points;  // of the kernel, of the output
};

Result<DeformProblem> read_problem(const KernelContext& context, const DeformParams& params) {
  DeformProblem p{};
  p.x = CTXGEN_TRY(required(context, 0));
  p.w = CTXGEN_TRY(required(context, 1, p.x->type()));
  p.offset = CTXGEN_TRY(required(context, 2, p.x->type()));
  p.bias = optional_input(context, 3);
  p.mask = optional_input(context, 4);
  CTXGEN_CHECK(expect_rank(*p.x, "X", 3));
  CTXGEN_CHECK(expect_rank(*p.w, "W", p.x->rank(), p.x->rank()));
  p.axes = p.x->rank() - 2;
  const std::int64_t channels = p.x->dims()[1];
  const std::int64_t filters = p.w->dims()[0];
  if (params.group < 1 || params.offset_group < 1 || channels % params.group != 0 ||
      p.w->dims()[1] != channels / params.group || filters % params.group != 0 ||
      channels % params.offset_group != 0)
    return fail(ErrorCode::kInvalidGraph, "X {}, W {}, group {} and offset_group {} do not fit",
                to_string(p.x->dims()), to_string(p.w->dims()), params.group, params.offset_group);
  p.window = CTXGEN_TRY(resolve_window(params.window, p.x->dims(), p.w->dims().span().subspan(2)));
  if (!checked_element_count(Dims(p.w->dims().span().subspan(2))))
    return fail(ErrorCode::kInvalidGraph, "W has shape {}", to_string(p.w->dims()));
  p.kernel_size = p.window.kernel_size();
  std::int64_t offsets = 0;
  if (__builtin_mul_overflow(params.offset_group, p.kernel_size, &offsets) ||
      offsets > kMaxWindowValue)
    return fail(ErrorCode::kInvalidGraph, "{} offsets", params.offset_group);
  Dims dims{p.x->dims()[0], offsets * static_cast<std::int64_t>(p.axes)};
  for (std::int64_t dim : p.window.outputs()) dims.push_back(dim);
  CTXGEN_CHECK(expect_dims(*p.offset, "offset", dims));
  p.points = product(dims, 2, dims.size());
  if (p.bias != nullptr) {
    CTXGEN_CHECK(same_type(*p.x, *p.bias));
    CTXGEN_CHECK(expect_dims(*p.bias, "B", {filters}));
  }
  if (p.mask != nullptr) {
    CTXGEN_CHECK(same_type(*p.x, *p.mask));
    dims[1] = offsets;
    CTXGEN_CHECK(expect_dims(*p.mask, "mask", dims));
  }
  return p;
}

// Values of all channels under the kernel at one output point, [channel][kernel element].
template <class T>
class Gather {
 public:
  Gather(const DeformProblem& p, std::int64_t offset_group)
      : p_(p),
        groups_(offset_group),
        plane_(product(p.x->dims(), 2, p.x->rank())),
        strides_(strides_of(Dims(p.x->dims().span().subspan(2)))),
        values_(static_cast<std::size_t>(p.x->dims()[1] * p.kernel_size)) {}

  std::span<const double> at(std::int64_t n, std::int64_t point) {
    const std::int64_t per_group = p_.x->dims()[1] / groups_;
    for (std::int64_t g = 0; g < groups_; ++g)
      for (std::int64_t k = 0; k < p_.kernel_size; ++k) {
        const double factor = place_taps(n, g, k, point);
        for (std::int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
          const T* from = data_of<T>(*p_.x) + (n * p_.x->dims()[1] + c) * plane_;
          values_[static_cast<std::size_t>(c * p_.kernel_size + k)] =
              factor * interpolate(std::span(taps_).first(p_.axes), strides_.span(),
                                   [from](std::int64_t i) { return static_cast<double>(from[i]); });
        }
      }
    return values_;
  }

 private:
  // Sets the taps of one kernel element; returns its mask.
  double place_taps(std::int64_t n, std::int64_t g, std::int64_t k, std::int64_t point) {
    const auto axes = static_cast<std::int64_t>(p_.axes);
    const std::int64_t element = (n * groups_ + g) * p_.kernel_size + k;
    std::int64_t kernel_rest = k;
    std::int64_t point_rest = point;
    for (std::size_t i = p_.axes; i-- > 0;) {
      const WindowAxis& axis = p_.window.axes[i];
      const T shift = data_of<T>(
          *p_.offset)[(element * axes + static_cast<std::int64_t>(i)) * p_.points + point];
      const std::int64_t base = point_rest % axis.output * axis.stride - axis.pad_begin +
                                kernel_rest % axis.kernel * axis.dilation;
      taps_[i] = axis.input == 0 ? Taps{}
                                 : taps_at(static_cast<double>(base) + static_cast<double>(shift),
                                           axis.input, TapRule{});
      point_rest /= axis.output;
      kernel_rest /= axis.kernel;
    }
    return p_.mask == nullptr
               ? 1.0
               : static_cast<double>(data_of<T>(*p_.mask)[element * p_.points + point]);
  }

  const DeformProblem& p_;
  std::int64_t groups_, plane_;
  Dims strides_;
  ScratchVector<double> values_;
  std::array<Taps, kMaxRank> taps_;
};

template <class T>
Status run(KernelContext& context, const DeformParams& params) {
  const DeformProblem p = CTXGEN_TRY(read_problem(context, params));
  const std::int64_t filters = p.w->dims()[0];
  Dims dims{p.x->dims()[0], filters};
  for (std::int64_t dim : p.window.outputs()) dims.push_back(dim);
  Tensor* output = CTXGEN_TRY(context.make_output(0, p.x->type(), dims));
  const std::int64_t depth = p.w->dims()[1] * p.kernel_size;  // per group
  Gather<T> gather(p, params.offset_group);
  for (std::int64_t i = 0; i < dims[0] * p.points && !run_stopped(); ++i) {
    const auto values = gather.at(i / p.points, i % p.points);
    for (std::int64_t m = 0; m < filters; ++m) {
      double sum = p.bias == nullptr ? 0.0 : static_cast<double>(data_of<T>(*p.bias)[m]);
      const T* weights = data_of<T>(*p.w) + m * depth;
      const std::int64_t first = m / (filters / params.group) * depth;
      for (std::int64_t d = 0; d < depth; ++d)
        sum += static_cast<double>(weights[d]) * values[static_cast<std::size_t>(first + d)];
      mutable_data_of<T>(*output)[(i / p.points * filters + m) * p.points + i % p.points] =
          static_cast<T>(sum);
    }
  }
  return {};
}

KernelResult make_deform_conv(const Node& node) {
  DeformParams params{.window = CTXGEN_TRY(window_attributes(node)),
                      .group = node.int_or("group", 1),
                      .offset_group = node.int_or("offset_group", 1)};
  return widened_kernel([params](KernelContext& context) -> Status {
    const Tensor* x = CTXGEN_TRY(required(context, 0));
    return dispatch(FloatTypes{}, x->type(), [&]<class T>() { return run<T>(context, params); });
  });
}

constexpr OpRow kDeformConvRows[] = {
    {kOnnx, "DeformConv", 19, 22, make_deform_conv, "floats; any number of spatial dims"},
};

}  // namespace

constinit const std::span<const OpRow> kDeformConvOps = kDeformConvRows;

}  // namespace ctxgen::cpu
