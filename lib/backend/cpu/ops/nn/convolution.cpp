#include "ops/nn/convolution.h"

#include <algorithm>

namespace ctxgen::cpu {

Result<ConvShape> conv_shape(const WindowAttributes& attributes, std::int64_t groups,
                             const Dims& input, const Dims& weights) {
  if (input.size() != weights.size() || input.size() < 3)
    return fail(ErrorCode::kInvalidGraph, "input {} and weights {} do not fit", to_string(input),
                to_string(weights));
  if (groups < 1 || groups > std::max<std::int64_t>(weights[0], 1) || weights[0] % groups != 0 ||
      input[1] % groups != 0 || input[1] / groups != weights[1])
    return fail(ErrorCode::kInvalidGraph, "input {} and weights {} do not fit {} groups",
                to_string(input), to_string(weights), groups);
  const auto kernel = weights.span().subspan(2);
  if (!attributes.kernel.empty() && !std::ranges::equal(attributes.kernel, kernel))
    return fail(ErrorCode::kInvalidGraph, "kernel_shape differs from weights {}",
                to_string(weights));
  ConvShape shape{.batch = input[0],
                  .groups = groups,
                  .in_channels = input[1],
                  .out_channels = weights[0],
                  .window = {},
                  .output = {}};
  shape.window = CTXGEN_TRY(resolve_window(attributes, input, kernel));
  shape.output = {input[0], weights[0]};
  for (std::int64_t dim : shape.window.outputs()) shape.output.push_back(dim);
  return shape;
}

namespace {

// Offsets of the kernel's elements: per axis and in the input.
struct Tap {
  Dims at;  // k * dilation per axis
  std::int64_t offset = 0;
};

ScratchVector<Tap> taps_of(const Window& window, const Dims& strides) {
  ScratchVector<Tap> taps;
  const std::int64_t count = window.kernel_size();
  Dims position(window.axes.size(), 0);
  for (std::int64_t t = 0; t < count; ++t) {
    Tap tap;
    for (std::size_t i = 0; i < window.axes.size(); ++i) {
      tap.at.push_back(position[i] * window.axes[i].dilation);
      tap.offset += tap.at[i] * strides[i];
    }
    taps.push_back(tap);
    for (std::size_t i = window.axes.size(); i-- > 0;) {
      if (++position[i] < window.axes[i].kernel) break;
      position[i] = 0;
    }
  }
  return taps;
}

// Where the window of one output position starts, per axis and in the input.
struct Origin {
  Dims at;
  std::int64_t offset = 0;
  bool inside = false;  // the whole window is inside the input
};

Origin origin_of(const Window& window, const Dims& strides, std::int64_t position) {
  Origin origin{.at = Dims(window.axes.size(), 0), .offset = 0, .inside = true};
  for (std::size_t i = window.axes.size(); i-- > 0;) {
    const WindowAxis& axis = window.axes[i];
    const std::int64_t start = position % axis.output * axis.stride - axis.pad_begin;
    position /= axis.output;
    origin.at[i] = start;
    origin.offset += start * strides[i];
    origin.inside =
        origin.inside && start >= 0 && start + (axis.kernel - 1) * axis.dilation < axis.input;
  }
  return origin;
}

bool tap_inside(const Window& window, const Origin& origin, const Tap& tap) {
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    const std::int64_t at = origin.at[i] + tap.at[i];
    if (at < 0 || at >= window.axes[i].input) return false;
  }
  return true;
}

// One panel of the matrix whose columns are the windows of kPanelColumns positions.
template <class E>
class WindowPacker {
 public:
  WindowPacker(const Window& window, std::int64_t channels) : window_(window), channels_(channels) {
    Dims inputs;
    for (const WindowAxis& axis : window.axes) inputs.push_back(axis.input);
    strides_ = strides_of(inputs);
    image_ = element_count(inputs);
    taps_ = taps_of(window, strides_);
    positions_ = element_count(window.outputs());
  }

  [[nodiscard]] std::int64_t positions() const { return positions_; }
  [[nodiscard]] std::int64_t image_size() const { return image_; }

  void pack(const E* image, std::int64_t first, E* panel) const {
    for (std::int64_t j = 0; j < kPanelColumns; ++j) {
      if (first + j >= positions_) {
        clear_column(panel + j);
        continue;
      }
      const Origin origin = origin_of(window_, strides_, first + j);
      if (origin.inside)
        pack_inside(image + origin.offset, panel + j);
      else
        pack_border(image, origin, panel + j);
    }
  }

 private:
  void clear_column(E* panel) const {
    const auto depth = channels_ * static_cast<std::int64_t>(taps_.size());
    for (std::int64_t k = 0; k < depth; ++k) panel[k * kPanelColumns] = E(0);
  }
  void pack_inside(const E* window, E* panel) const {
    for (std::int64_t c = 0; c < channels_; ++c)
      for (const Tap& tap : taps_) {
        *panel = window[c * image_ + tap.offset];
        panel += kPanelColumns;
      }
  }
  void pack_border(const E* image, const Origin& origin, E* panel) const {
    const auto step = static_cast<std::int64_t>(taps_.size()) * kPanelColumns;
    for (const Tap& tap : taps_) {
      const bool inside = tap_inside(window_, origin, tap);
      const std::int64_t offset = inside ? origin.offset + tap.offset : 0;
      for (std::int64_t c = 0; c < channels_; ++c)
        panel[c * step] = inside ? image[c * image_ + offset] : E(0);
      panel += kPanelColumns;
    }
  }

  const Window& window_;
  std::int64_t channels_;
  Dims strides_;
  std::int64_t image_ = 0, positions_ = 0;
  ScratchVector<Tap> taps_;
};

}  // namespace

template <class E>
void convolve(const ConvShape& shape, const E* image, const E* weights,
              StoreSums<typename SumOf<E>::Type> store) {
  const std::int64_t channels = shape.in_channels / shape.groups;
  const std::int64_t rows = shape.out_channels / shape.groups;
  const std::int64_t depth = channels * shape.window.kernel_size();
  const WindowPacker<E> packer(shape.window, channels);
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    const E* group_image = image + g * channels * packer.image_size();
    multiply<E>(
        {.m = rows, .n = packer.positions(), .k = depth}, {weights + g * rows * depth, depth, 1},
        [&](std::int64_t first, E* panel) { packer.pack(group_image, first, panel); },
        [&](std::int64_t m, std::int64_t n, const auto* sums, std::int64_t count) {
          store(g * rows + m, n, sums, count);
        });
  }
}

template void convolve<float>(const ConvShape&, const float*, const float*, StoreSums<double>);
template void convolve<double>(const ConvShape&, const double*, const double*, StoreSums<double>);
template void convolve<std::int32_t>(const ConvShape&, const std::int32_t*, const std::int32_t*,
                                     StoreSums<std::uint32_t>);

}  // namespace ctxgen::cpu
