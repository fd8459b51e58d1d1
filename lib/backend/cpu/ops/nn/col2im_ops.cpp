#include <algorithm>

#include "families.h"
#include "ops/nn/sliding_window.h"

namespace ctxgen::cpu {
namespace {

struct Problem {
  const Tensor* input;
  Window window;
  Dims dims;  // of the output
  std::int64_t kernel, blocks, plane;
};

Result<Problem> read_problem(const KernelContext& context, const WindowAttributes& attributes) {
  Problem p{};
  p.input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*p.input, "input", 3, 3));
  const Tensor* image_tensor = CTXGEN_TRY(required(context, 1));
  const Tensor* block_tensor = CTXGEN_TRY(required(context, 2));
  const auto image = CTXGEN_TRY(ints_of(*image_tensor));
  const auto block = CTXGEN_TRY(ints_of(*block_tensor));
  if (image.empty() || image.size() != block.size() || image.size() + 2 > kMaxRank)
    return fail(ErrorCode::kInvalidGraph, "image_shape has {} values, block_shape {}", image.size(),
                block.size());
  p.dims = Dims{p.input->dims()[0], 1};
  for (std::int64_t dim : image) p.dims.push_back(dim);
  if (!checked_element_count(p.dims) || !checked_element_count(Dims(block)) ||
      std::ranges::min(block) < 1)
    return fail(ErrorCode::kInvalidGraph, "{} and its blocks are not an image", to_string(p.dims));
  p.window = CTXGEN_TRY(resolve_window(attributes, p.dims, block));
  p.kernel = p.window.kernel_size();
  if (!checked_element_count(p.window.outputs()))
    return fail(ErrorCode::kInvalidGraph, "blocks of {} are too many", to_string(p.dims));
  p.blocks = element_count(p.window.outputs());
  if (p.kernel < 1 || p.input->dims()[1] % p.kernel != 0 || p.input->dims()[2] != p.blocks)
    return fail(ErrorCode::kInvalidGraph, "input {} does not fit {} blocks of {}",
                to_string(p.input->dims()), p.blocks, p.kernel);
  p.dims[1] = p.input->dims()[1] / p.kernel;
  p.plane = product(p.dims, 2, p.dims.size());
  return p;
}

// The element of the image that element k of block l is on, or -1 in the padding.
std::int64_t place_of(const Window& window, std::int64_t k, std::int64_t l) {
  std::int64_t place = 0;
  std::int64_t stride = 1;
  for (std::size_t i = window.axes.size(); i-- > 0;) {
    const WindowAxis& axis = window.axes[i];
    const std::int64_t at =
        l % axis.output * axis.stride - axis.pad_begin + k % axis.kernel * axis.dilation;
    if (at < 0 || at >= axis.input) return -1;
    place += at * stride;
    stride *= axis.input;
    l /= axis.output;
    k /= axis.kernel;
  }
  return place;
}

template <class T>
void add_blocks(const Problem& p, Tensor& output) {
  using A = std::conditional_t<kIsFloating<T>, double, std::uint64_t>;  // integers wrap
  ScratchVector<A> sums(static_cast<std::size_t>(p.plane));
  const T* from = data_of<T>(*p.input);
  for (std::int64_t channel = 0; channel < p.dims[0] * p.dims[1]; ++channel) {
    std::ranges::fill(sums, A{});
    for (std::int64_t k = 0; k < p.kernel; ++k)
      for (std::int64_t l = 0; l < p.blocks; ++l, ++from)
        if (const std::int64_t place = place_of(p.window, k, l); place >= 0)
          sums[static_cast<std::size_t>(place)] += static_cast<A>(load(*from));
    std::ranges::transform(sums, mutable_data_of<T>(output) + channel * p.plane,
                           [](auto sum) { return store<T>(sum); });
  }
}

KernelResult make_col2im(const Node& node) {
  WindowAttributes attributes = CTXGEN_TRY(window_attributes(node));
  return kernel([attributes](KernelContext& context) -> Status {
    const Problem p = CTXGEN_TRY(read_problem(context, attributes));
    Tensor* output = CTXGEN_TRY(context.make_output(0, p.input->type(), p.dims));
    return dispatch(NumericTypes{}, p.input->type(), [&]<class T>() -> Status {
      add_blocks<T>(p, *output);
      return {};
    });
  });
}

constexpr OpRow kCol2ImRows[] = {
    {kOnnx, "Col2Im", 18, 18, make_col2im, "numeric; any number of spatial dims"},
};

}  // namespace

constinit const std::span<const OpRow> kCol2ImOps = kCol2ImRows;

}  // namespace ctxgen::cpu
