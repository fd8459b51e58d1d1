#include <algorithm>
#include <cmath>
#include <complex>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "numbers/fourier.h"

// DFT, STFT, MelWeightMatrix. The windows are in generator_ops.cpp.

namespace ctxgen::cpu {
namespace {

using Complex = std::complex<double>;

// Element i of a signal whose last dimension holds real, or real and imaginary part.
template <class T>
Complex part_of(const T* data, std::int64_t i, std::int64_t parts) {
  const auto real = static_cast<double>(load(data[i * parts]));
  return {real, parts == 1 ? 0.0 : static_cast<double>(load(data[i * parts + 1]))};
}

Status expect_parts(const Tensor& signal, bool onesided) {
  const std::int64_t parts = signal.dims().back();
  if (parts != 1 && parts != 2)
    return fail(ErrorCode::kInvalidGraph, "the signal {} is neither real nor complex",
                to_string(signal.dims()));
  if (onesided && parts == 2)
    return fail(ErrorCode::kInvalidGraph, "onesided needs a real signal, this one is {}",
                to_string(signal.dims()));
  return {};
}

// A real signal may come without the last dimension, of 1, as ONNX Runtime takes it: it then has `rank`.
Tensor with_parts(const Tensor& signal, std::size_t rank) {
  if (signal.rank() != rank) return signal;
  Dims dims = signal.dims();
  dims.push_back(1);
  return signal.with_dims(dims);
}

// ---- DFT ----

struct DftParams {
  std::int64_t axis = 0;
  std::size_t axis_input = kNoInput;
  bool inverse = false, onesided = false;
};

template <class T>
void transform_axis(const Tensor& input, const AxisSplit& from, std::int64_t length,
                    const DftParams& params, Tensor& output, std::int64_t bins) {
  const std::int64_t parts = input.dims().back();
  const std::int64_t inner = from.inner / parts;  // complex elements after the axis
  Fourier fourier(static_cast<std::size_t>(length), params.inverse);
  ScratchVector<Complex> line(static_cast<std::size_t>(length));
  const double factor = params.inverse ? 1 / static_cast<double>(length) : 1;
  T* to = mutable_data_of<T>(output);
  for (std::int64_t l = 0; l < from.outer * inner; ++l) {
    const std::int64_t start = l / inner * from.extent * inner + l % inner;
    for (std::int64_t i = 0; i < length; ++i)
      line[static_cast<std::size_t>(i)] =
          i < from.extent ? part_of(data_of<T>(input), start + i * inner, parts) : Complex();
    fourier.transform(line);
    for (std::int64_t i = 0; i < bins; ++i) {
      const Complex value = line[static_cast<std::size_t>(i)] * factor;
      const std::int64_t at = 2 * ((l / inner * bins + i) * inner + l % inner);
      to[at] = store<T>(value.real());
      to[at + 1] = store<T>(value.imag());
    }
  }
}

Status run_dft(KernelContext& context, const DftParams& params) {
  const Tensor* given_input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*given_input, "input", 2));
  const std::int64_t last = given_input->dims().back();
  const Tensor whole = last == 1 || last == 2 ? *given_input : with_parts(*given_input, 2);
  const Tensor* input = &whole;
  CTXGEN_CHECK(expect_parts(*input, params.onesided));
  std::int64_t axis_number = params.axis;
  if (const Tensor* given = optional_input(context, params.axis_input))
    axis_number = CTXGEN_TRY(scalar_int_of(*given));
  const std::size_t axis = CTXGEN_TRY(normalize_axis(axis_number, input->rank()));
  if (axis + 1 == input->rank())
    return fail(ErrorCode::kInvalidGraph, "axis {} holds the parts of complex numbers",
                axis_number);
  const AxisSplit split = split_at(input->dims(), axis);
  std::int64_t length = split.extent;
  if (const Tensor* given = optional_input(context, 1)) length = CTXGEN_TRY(scalar_int_of(*given));
  if (length < 1) return fail(ErrorCode::kInvalidGraph, "dft_length is {}", length);
  Dims dims = input->dims();
  dims[axis] = params.onesided ? length / 2 + 1 : length;
  dims[dims.size() - 1] = 2;
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  if (output->element_count() == 0) return {};
  return dispatch(RealTypes{}, input->type(), [&]<class T>() -> Status {
    transform_axis<T>(*input, split, length, params, *output, dims[axis]);
    return {};
  });
}

KernelResult make_dft(const Node& node) {
  const bool inputs = node.opset >= 20;  // the axis was an attribute before
  const DftParams params{.axis = inputs ? -2 : node.int_or("axis", 1),
                         .axis_input = inputs ? 2 : kNoInput,
                         .inverse = node.int_or("inverse", 0) != 0,
                         .onesided = node.int_or("onesided", 0) != 0};
  return kernel([params](KernelContext& context) { return run_dft(context, params); });
}

// ---- STFT ----

struct Frames {
  std::int64_t step = 0, length = 0, count = 0;
};

Result<Frames> frames_of(const KernelContext& context, const Tensor& signal, const Tensor* window) {
  const Tensor* step = CTXGEN_TRY(required(context, 1));
  Frames frames{.step = CTXGEN_TRY(scalar_int_of(*step))};
  frames.length = window == nullptr ? signal.dims()[1] : window->dims()[0];
  if (const Tensor* length = optional_input(context, 3))
    frames.length = CTXGEN_TRY(scalar_int_of(*length));
  if (frames.step < 1 || frames.length < 1 || frames.length > signal.dims()[1])
    return fail(ErrorCode::kInvalidGraph, "frames of {} each {} in a signal {}", frames.length,
                frames.step, to_string(signal.dims()));
  if (window != nullptr) CTXGEN_CHECK(expect_dims(*window, "window", {frames.length}));
  frames.count = 1 + (signal.dims()[1] - frames.length) / frames.step;
  return frames;
}

template <class T>
void transform_frames(const Tensor& signal, const Tensor* window, const Frames& frames,
                      Tensor& output) {
  const std::int64_t parts = signal.dims()[2];
  const std::int64_t bins = output.dims()[2];
  Fourier fourier(static_cast<std::size_t>(frames.length), false);
  ScratchVector<Complex> line(static_cast<std::size_t>(frames.length));
  T* to = mutable_data_of<T>(output);
  for (std::int64_t f = 0; f < signal.dims()[0] * frames.count; ++f) {
    const std::int64_t start = f / frames.count * signal.dims()[1] + f % frames.count * frames.step;
    for (std::int64_t i = 0; i < frames.length; ++i)
      line[static_cast<std::size_t>(i)] =
          part_of(data_of<T>(signal), start + i, parts) *
          (window == nullptr ? 1.0 : static_cast<double>(load(data_of<T>(*window)[i])));
    fourier.transform(line);
    for (std::int64_t i = 0; i < bins; ++i) {
      *to++ = store<T>(line[static_cast<std::size_t>(i)].real());
      *to++ = store<T>(line[static_cast<std::size_t>(i)].imag());
    }
  }
}

KernelResult make_stft(const Node& node) {
  return kernel([onesided = node.int_or("onesided", 1) != 0](KernelContext& context) -> Status {
    const Tensor* given = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*given, "signal", 2, 3));
    const Tensor signal = with_parts(*given, 2);
    CTXGEN_CHECK(expect_parts(signal, onesided));
    const Tensor* window = optional_input(context, 2);
    if (window != nullptr) {
      CTXGEN_CHECK(same_type(signal, *window));
      CTXGEN_CHECK(expect_rank(*window, "window", 1, 1));
    }
    const Frames frames = CTXGEN_TRY(frames_of(context, signal, window));
    const std::int64_t bins = onesided ? frames.length / 2 + 1 : frames.length;
    Tensor* output = CTXGEN_TRY(
        context.make_output(0, signal.type(), {signal.dims()[0], frames.count, bins, 2}));
    return dispatch(RealTypes{}, signal.type(), [&]<class T>() -> Status {
      transform_frames<T>(signal, window, frames, *output);
      return {};
    });
  });
}

// ---- MelWeightMatrix ----

struct MelInputs {
  std::int64_t bands = 0, length = 0, rate = 0;
  double low = 0, high = 0;
};

Result<MelInputs> mel_inputs(const KernelContext& context) {
  std::array<const Tensor*, 5> tensors{};
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = CTXGEN_TRY(required(context, i));
  MelInputs in;
  in.bands = CTXGEN_TRY(scalar_int_of(*tensors[0]));
  in.length = CTXGEN_TRY(scalar_int_of(*tensors[1]));
  in.rate = CTXGEN_TRY(scalar_int_of(*tensors[2]));
  in.low = CTXGEN_TRY(scalar_of(*tensors[3]));
  in.high = CTXGEN_TRY(scalar_of(*tensors[4]));
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (in.bands < 0 || in.bands > kMost || in.length < 1 || in.length > kMost || in.rate < 1 ||
      !(in.low >= 0 && in.high >= in.low && in.high < 1e15))
    return fail(ErrorCode::kInvalidGraph, "{} bands, dft_length {}, rate {}, {} to {} hertz",
                in.bands, in.length, in.rate, in.low, in.high);
  return in;
}

// The spectrum's bin of each of the edges of the bands.
Result<ScratchVector<std::int64_t>> mel_edges(const MelInputs& in) {
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(in.high) - mel(in.low)) / static_cast<double>(in.bands + 2);
  ScratchVector<std::int64_t> edges;
  for (std::int64_t i = 0; i < in.bands + 2; ++i) {
    const double hertz =
        700 * (std::pow(10, (mel(in.low) + static_cast<double>(i) * step) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(in.length + 1) * hertz / static_cast<double>(in.rate));
    if (!(bin >= 0 && bin <= static_cast<double>(in.length / 2)))
      return fail(ErrorCode::kInvalidGraph, "{} hertz are outside of a spectrum at rate {}", hertz,
                  in.rate);
    edges.push_back(static_cast<std::int64_t>(bin));
  }
  return edges;
}

template <class T>
void fill_triangles(std::span<const std::int64_t> edges, std::int64_t bands, Tensor& output) {
  T* to = mutable_data_of<T>(output);
  std::fill_n(to, output.element_count(), store<T>(0.0));
  for (std::int64_t b = 0; b < bands; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const std::int64_t low = edges[at], centre = edges[at + 1], high = edges[at + 2];
    const auto put = [&](std::int64_t bin, double value) { to[bin * bands + b] = store<T>(value); };
    if (low == centre) put(centre, 1);
    for (std::int64_t bin = low; low != centre && bin <= centre; ++bin)
      put(bin, static_cast<double>(bin - low) / static_cast<double>(centre - low));
    for (std::int64_t bin = centre; bin < high; ++bin)
      put(bin, static_cast<double>(high - bin) / static_cast<double>(high - centre));
  }
}

KernelResult make_mel(const Node& node) {
  const std::int64_t type = node.int_or("output_datatype", 1);
  if (!is_known_data_type(type))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), type);
  return kernel([type](KernelContext& context) -> Status {
    const MelInputs in = CTXGEN_TRY(mel_inputs(context));
    Tensor* output = CTXGEN_TRY(
        context.make_output(0, static_cast<DataType>(type), {in.length / 2 + 1, in.bands}));
    const auto edges = CTXGEN_TRY(mel_edges(in));
    return dispatch(NumericTypes{}, output->type(), [&]<class T>() -> Status {
      fill_triangles<T>(edges, in.bands, *output);
      return {};
    });
  });
}

constexpr OpRow kSignalRows[] = {
    {kOnnx, "DFT", 17, 20, make_dft, "floats; computed in double"},
    {kOnnx, "MelWeightMatrix", 17, 17, make_mel, "numeric"},
    {kOnnx, "STFT", 17, 17, make_stft, "floats; computed in double"},
};

}  // namespace

constinit const std::span<const OpRow> kSignalOps = kSignalRows;

}  // namespace ctxgen::cpu
