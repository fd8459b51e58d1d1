#include <algorithm>
#include <cmath>
#include <limits>

#include "families.h"
#include "kernel/stop.h"
#include "kernel/widen.h"
#include "ops/nn/sliding_window.h"

namespace ctxgen::cpu {
namespace {

// The elements of one window that are inside the input.
struct WindowElements {
  ScratchVector<std::int64_t> offsets;  // in the image
  std::int64_t padded_count = 0;        // window elements inside input and padding
};

struct Ranges {
  Dims start, step, count;
  std::int64_t padded = 1;
};

// Elements that a window covers per axis. Past the padding at the end (ceil_mode) nothing counts.
Ranges ranges_of(const Window& window, std::int64_t position) {
  const std::size_t rank = window.axes.size();
  Ranges ranges{.start = Dims(rank, 0), .step = Dims(rank, 0), .count = Dims(rank, 0), .padded = 1};
  for (std::size_t i = rank; i-- > 0;) {
    const WindowAxis& axis = window.axes[i];
    const std::int64_t start = position % axis.output * axis.stride - axis.pad_begin;
    position /= axis.output;
    const std::int64_t d = axis.dilation;
    const std::int64_t skip = start < 0 ? (-start + d - 1) / d : 0;
    const auto taps_below = [&](std::int64_t limit) {
      return limit <= start ? 0 : std::min(axis.kernel, (limit - start + d - 1) / d);
    };
    ranges.start[i] = start + skip * d;
    ranges.step[i] = d;
    ranges.count[i] = std::max<std::int64_t>(0, taps_below(axis.input) - skip);
    if (__builtin_mul_overflow(ranges.padded, taps_below(axis.input + axis.pad_end),
                               &ranges.padded))
      ranges.padded = INT64_MAX;
  }
  return ranges;
}

void collect(const Window& window, const Dims& strides, std::int64_t position,
             WindowElements& elements) {
  const Ranges ranges = ranges_of(window, position);
  elements.offsets.assign(1, 0);
  elements.padded_count = ranges.padded;
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    const std::size_t before = elements.offsets.size();
    const auto count = static_cast<std::size_t>(ranges.count[i]);
    elements.offsets.resize(before * count);
    if (count == 0) return;  // the window is in the padding; nothing is left to read below
    // From the back, so that old offsets are read before they are overwritten.
    for (std::size_t k = before; k-- > 0;) {
      const std::int64_t base = elements.offsets[k];
      for (std::size_t t = count; t-- > 0;)
        elements.offsets[k * count + t] =
            base + (ranges.start[i] + static_cast<std::int64_t>(t) * ranges.step[i]) * strides[i];
    }
  }
}

Dims strides_in(const Window& window) {
  Dims inputs;
  for (const WindowAxis& axis : window.axes) inputs.push_back(axis.input);
  return strides_of(inputs);
}

Dims pooled_dims(const Dims& input, const Window& window) {
  Dims dims{input[0], input[1]};
  for (std::int64_t dim : window.outputs()) dims.push_back(dim);
  return dims;
}

// Calls f(image, output index, window elements) for every output of every channel; windows are the
// same for all channels, so they are the outer loop.
template <class F>
void for_each_window(const Dims& input, const Window& window, F f) {
  const Dims strides = strides_in(window);
  const std::int64_t images = input[0] * input[1];
  const std::int64_t image = product(input, 2, input.size());
  const std::int64_t positions = element_count(window.outputs());
  WindowElements elements;
  for (std::int64_t p = 0; p < positions && !run_stopped(); ++p) {
    collect(window, strides, p, elements);
    for (std::int64_t i = 0; i < images; ++i) f(i * image, i * positions + p, elements);
  }
}

// ---- MaxPool ----

// Index of an element of the flattened input; in column-major order within an image on request.
std::int64_t flat_index(std::int64_t image, std::int64_t offset, const Window& window,
                        bool column_major) {
  if (!column_major) return image + offset;
  std::int64_t index = 0;
  const Dims strides = strides_in(window);
  std::int64_t scale = 1;
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    index += offset / strides[i] * scale;
    offset %= strides[i];
    scale *= window.axes[i].input;
  }
  return image + index;
}

template <class T>
void max_pool(const Tensor& input, const Window& window, Tensor& output, Tensor* indices,
              bool column_major) {
  const T* from = data_of<T>(input);
  T* to = mutable_data_of<T>(output);
  for_each_window(input.dims(), window,
                  [&](std::int64_t image, std::int64_t out, const WindowElements& elements) {
                    T best = std::numeric_limits<T>::lowest();
                    std::int64_t best_offset = -1;
                    for (std::int64_t offset : elements.offsets) {
                      const T x = from[image + offset];
                      if (best_offset < 0 || x > best || x != x) {
                        best = x;
                        best_offset = offset;
                      }
                    }
                    to[out] = best;
                    if (indices != nullptr)
                      indices->mutable_elements<std::int64_t>()[static_cast<std::size_t>(out)] =
                          best_offset < 0 ? -1
                                          : flat_index(image, best_offset, window, column_major);
                  });
}

Status run_max_pool(KernelContext& context, const WindowAttributes& attributes, bool column_major) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const auto window = CTXGEN_TRY(resolve_window(attributes, input->dims(), attributes.kernel));
  const Dims dims = pooled_dims(input->dims(), window);
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  Tensor* indices = nullptr;
  if (context.output_wanted(1))
    indices = CTXGEN_TRY(context.make_output(1, DataType::kInt64, dims));
  return dispatch(Types<float, double, std::int8_t, std::uint8_t>{}, input->type(),
                  [&]<class T>() -> Status {
                    max_pool<T>(*input, window, *output, indices, column_major);
                    return {};
                  });
}

KernelResult make_max_pool(const Node& node) {
  const auto attributes = CTXGEN_TRY(window_attributes(node));
  return widened_kernel(
      [attributes, column_major = node.int_or("storage_order", 0) != 0](KernelContext& context) {
        return run_max_pool(context, attributes, column_major);
      });
}

// ---- AveragePool, LpPool ----

template <class Reduce>
Status run_float_pool(KernelContext& context, const WindowAttributes& attributes, Reduce reduce) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const auto window = CTXGEN_TRY(resolve_window(attributes, input->dims(), attributes.kernel));
  Tensor* output =
      CTXGEN_TRY(context.make_output(0, input->type(), pooled_dims(input->dims(), window)));
  return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(*input);
    T* to = mutable_data_of<T>(*output);
    for_each_window(input->dims(), window,
                    [&](std::int64_t image, std::int64_t out, const WindowElements& elements) {
                      to[out] = static_cast<T>(reduce(from + image, elements));
                    });
    return {};
  });
}

KernelResult make_average_pool(const Node& node) {
  const auto attributes = CTXGEN_TRY(window_attributes(node));
  const bool with_padding = node.int_or("count_include_pad", 0) != 0;
  // Before opset 19 the whole window counts, even what ceil_mode lets extend past the padding.
  std::int64_t whole = node.opset < 19 ? 1 : 0;
  for (std::int64_t extent : attributes.kernel)
    if (__builtin_mul_overflow(whole, extent, &whole))
      return fail(ErrorCode::kInvalidGraph, "{}: kernel_shape is too large", node.describe());
  return widened_kernel([attributes, with_padding, whole](KernelContext& context) {
    return run_float_pool(context, attributes,
                          [with_padding, whole](const auto* image, const WindowElements& elements) {
                            double sum = 0;
                            for (std::int64_t offset : elements.offsets) sum += image[offset];
                            auto count = static_cast<std::int64_t>(elements.offsets.size());
                            if (with_padding) count = whole != 0 ? whole : elements.padded_count;
                            return count == 0 ? 0.0 : sum / static_cast<double>(count);
                          });
  });
}

// p is a float before opset 2.
double norm_order(const Node& node) {
  const Attribute* p = node.attribute("p");
  if (p == nullptr) return 2;
  return p->kind == AttributeKind::kFloat ? p->f : static_cast<double>(p->i);
}

KernelResult make_lp_pool(const Node& node) {
  const auto attributes = CTXGEN_TRY(window_attributes(node));
  return widened_kernel([attributes, p = norm_order(node)](KernelContext& context) {
    return run_float_pool(context, attributes,
                          [p](const auto* image, const WindowElements& elements) {
                            double sum = 0;
                            for (std::int64_t offset : elements.offsets)
                              sum += std::pow(std::abs(static_cast<double>(image[offset])), p);
                            return std::pow(sum, 1 / p);
                          });
  });
}

// ---- global pools ----

template <class Reduce>
Status run_global_pool(KernelContext& context, Reduce reduce) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*input, "input", 2));
  Dims dims(input->rank(), 1);
  dims[0] = input->dims()[0];
  dims[1] = input->dims()[1];
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  const std::int64_t image = product(input->dims(), 2, input->rank());
  return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(*input);
    for (T& to : output->mutable_elements<T>()) {
      to = static_cast<T>(reduce(std::span(from, static_cast<std::size_t>(image))));
      from += image;
    }
    return {};
  });
}

KernelResult make_global_average_pool(const Node&) {
  return widened_kernel([](KernelContext& context) {
    return run_global_pool(context, [](auto image) {
      double sum = 0;
      for (double x : image) sum += x;
      return sum / static_cast<double>(image.size());
    });
  });
}

KernelResult make_global_max_pool(const Node&) {
  return widened_kernel([](KernelContext& context) {
    return run_global_pool(context, [](auto image) {
      double most = -std::numeric_limits<double>::infinity();
      for (double x : image)
        if (x > most || x != x) most = x;
      return most;
    });
  });
}

KernelResult make_global_lp_pool(const Node& node) {
  return widened_kernel([p = norm_order(node)](KernelContext& context) {
    return run_global_pool(context, [p](auto image) {
      double sum = 0;
      for (double x : image) sum += std::pow(std::abs(x), p);
      return std::pow(sum, 1 / p);
    });
  });
}

// ---- MaxUnpool ----

// Dims that the attributes give; indices refer to a tensor of these dims.
Result<Dims> unpooled_dims(const WindowAttributes& attributes, const Dims& input) {
  const std::size_t spatial = input.size() - 2;
  if (attributes.kernel.size() != spatial ||
      (!attributes.strides.empty() && attributes.strides.size() != spatial) ||
      (!attributes.pads.empty() && attributes.pads.size() != 2 * spatial))
    return fail(ErrorCode::kInvalidGraph, "attributes do not fit input {}", to_string(input));
  Dims dims = input;
  for (std::size_t i = 0; i < spatial; ++i) {
    if (input[i + 2] > kMaxWindowValue)
      return fail(ErrorCode::kResourceLimit, "an axis of {} is too long", input[i + 2]);
    dims[i + 2] = (input[i + 2] - 1) * (attributes.strides.empty() ? 1 : attributes.strides[i]) +
                  attributes.kernel[i];
    if (!attributes.pads.empty()) dims[i + 2] -= attributes.pads[i] + attributes.pads[i + spatial];
    dims[i + 2] = std::max<std::int64_t>(dims[i + 2], 0);
  }
  return dims;
}

// Offset in a tensor of dims `to` of the position that `index` is in a tensor of dims `from`.
std::optional<std::int64_t> moved_index(std::int64_t index, const Dims& from, const Dims& to) {
  const Dims strides = strides_of(to);
  std::int64_t offset = 0;
  for (std::size_t i = from.size(); i-- > 0;) {
    const std::int64_t at = index % from[i];
    if (at >= to[i]) return std::nullopt;
    offset += at * strides[i];
    index /= from[i];
  }
  return offset;
}

Status run_max_unpool(KernelContext& context, const WindowAttributes& attributes) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* indices = CTXGEN_TRY(required(context, 1, DataType::kInt64));
  const Tensor* shape = optional_input(context, 2);
  CTXGEN_CHECK(expect_rank(*input, "input", 3));
  CTXGEN_CHECK(expect_dims(*indices, "indices", input->dims()));
  const Dims inferred = CTXGEN_TRY(unpooled_dims(attributes, input->dims()));
  Dims dims = inferred;
  if (shape != nullptr) {
    const auto given = CTXGEN_TRY(ints_of(*shape));
    if (given.size() != input->rank())
      return fail(ErrorCode::kInvalidGraph, "output_shape has {} values", given.size());
    dims = Dims(given);
  }
  const auto positions = checked_element_count(inferred);
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
    const auto to = output->mutable_elements<T>();
    std::ranges::fill(to, T(0));
    const auto at = indices->elements<std::int64_t>();
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::optional<std::int64_t> offset;
      if (positions && at[i] >= 0 && static_cast<std::uint64_t>(at[i]) < *positions)
        offset = moved_index(at[i], inferred, dims);
      if (!offset)
        return fail(ErrorCode::kInvalidGraph, "index {} is outside of {}", at[i], to_string(dims));
      to[static_cast<std::size_t>(*offset)] = input->elements<T>()[i];
    }
    return {};
  });
}

KernelResult make_max_unpool(const Node& node) {
  const auto attributes = CTXGEN_TRY(window_attributes(node));
  return widened_kernel(
      [attributes](KernelContext& context) { return run_max_unpool(context, attributes); });
}

constexpr std::string_view kPoolTypes = "float, double, float16, bfloat16";

constexpr OpRow kPoolRows[] = {
    {kOnnx, "AveragePool", 1, 22, make_average_pool, kPoolTypes},
    {kOnnx, "GlobalAveragePool", 1, 22, make_global_average_pool, kPoolTypes},
    {kOnnx, "GlobalLpPool", 1, 22, make_global_lp_pool, kPoolTypes},
    {kOnnx, "GlobalMaxPool", 1, 22, make_global_max_pool, kPoolTypes},
    {kOnnx, "LpPool", 1, 22, make_lp_pool, kPoolTypes},
    {kOnnx, "MaxPool", 1, 22, make_max_pool, "floats, int8, uint8"},
    {kOnnx, "MaxUnpool", 9, 22, make_max_unpool, kPoolTypes},
};

}  // namespace

constinit const std::span<const OpRow> kPoolOps = kPoolRows;

}  // namespace ctxgen::cpu
