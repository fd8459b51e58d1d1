#include "ctxgen/kernels/byte_depthwise.h"

#include <algorithm>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/depthwise.h"
#include "ctxgen/kernels/lane_share.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/byte_depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bytes/byte_columns-inl.h"
#include "bytes/byte_sweep-inl.h"
#include "bytes/byte_taps-inl.h"
#include "stretches.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// to = from - zero.
template <class Byte>
HWY_INLINE void widen_as(const Byte* from, std::int64_t count, std::int32_t zero, float* to) {
  const Floats d;
  const Ints di;
  const hn::Rebind<Byte, Ints> bytes;
  const auto less = hn::Set(di, zero);
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto real = [&](auto value) HWY_ATTR {
    return hn::ConvertTo(d, hn::Sub(hn::PromoteTo(di, value), less));
  };
  std::int64_t i = 0;
  for (; i + step <= count; i += step) hn::StoreU(real(hn::LoadU(bytes, from + i)), d, to + i);
  const auto rest = static_cast<std::size_t>(count - i);
  if (rest > 0) hn::StoreN(real(hn::LoadN(bytes, from + i, rest)), d, to + i, rest);
}

HWY_NOINLINE void widen(const std::uint8_t* from, bool is_signed, std::int64_t count,
                        std::int32_t zero, float* to) {
  if (is_signed) return widen_as(reinterpret_cast<const std::int8_t*>(from), count, zero, to);
  widen_as(from, count, zero, to);
}

#if !CTXGEN_HAVE_VNNI
void prepare_taps(const ByteDepthwise&, std::byte*, const float*, const float*, TapRun&) {}
void convolve_line_of_taps(const TapRun&, std::int64_t, std::int64_t, std::byte*) {}
#endif

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

namespace {

void widen_bytes(const std::uint8_t* from, bool is_signed, std::int64_t count, std::int32_t zero,
                 float* to) {
  CTXGEN_DISPATCH(widen(from, is_signed, count, zero, to));
}
void finish(const ColumnRun& run, const float* sums, std::int64_t pixels, std::int64_t at) {
  CTXGEN_DISPATCH(finish_pixels(run, sums, pixels, at));
}
void make_numbers(const ByteSteps& steps, std::int64_t channels, std::int64_t products,
                  TapNumbers& numbers) {
  CTXGEN_DISPATCH(make_factors(steps, channels, products, numbers));
}
void sweep(const ColumnRun& run, std::int64_t image, std::int64_t line) {
  CTXGEN_DISPATCH(sweep_columns(run, image, line));
}

constexpr std::int64_t kPartFloats = 24 << 10;  // of sums
constexpr std::int64_t kBlock = 32;             // channels that rows of weights are filled up to
constexpr std::int64_t kNumbers = TapLayout::kNumbers;  // rows of them; one of padding follows

std::int64_t pitch_of(const Windows& w) { return divide_up(w.channels, kBlock) * kBlock; }

/// Lines of the source that so many lines of results see, at most.
std::int64_t source_lines(const Windows& w, std::int64_t lines) {
  return std::min(w.size[0], seen_lines(w, lines));
}

std::optional<std::uint64_t> float_bytes(std::int64_t a, std::int64_t b, std::int64_t c) {
  const auto plane = checked_mul(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
  const auto all = plane ? checked_mul(*plane, static_cast<std::uint64_t>(c)) : plane;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  if (!all || *all > kMost) return std::nullopt;
  return (*all * 4 + 63) / 64 * 64;
}

/// The product of both scales, for each channel.
void write_factors(const ByteDepthwise& conv, float* to) {
  const std::int64_t channels = conv.windows.channels;
  if (conv.b_scales != nullptr && conv.scale_per_channel)
    std::copy_n(conv.b_scales, channels, to);
  else
    std::fill_n(to, channels, conv.b_scales == nullptr ? 1.0F : *conv.b_scales);
  if (conv.a_scale == nullptr) return;
  for (std::int64_t c = 0; c < channels; ++c) to[c] = *conv.a_scale * to[c];
}

void prepare(const ByteDepthwise& conv, std::byte* shared, const float* scales, const float* biases,
             TapRun& run) {
  CTXGEN_DISPATCH(prepare_taps(conv, shared, scales, biases, run));
}
void convolve_line(const TapRun& run, std::int64_t image, std::int64_t line, std::byte* joined) {
  CTXGEN_DISPATCH(convolve_line_of_taps(run, image, line, joined));
}

/// Calls take(image, line) for the parts of a lane: neighbours, whose sources overlap and come from the caches of the core
/// that has them.
template <class Take>
void for_parts_of_lane(const Windows& w, const ByteDepthwiseForm& form, std::int64_t lane,
                       const Take& take) {
  const LaneShare share = lane_share(w.images * form.parts_of_image, form.lanes, lane);
  for (std::int64_t i = share.first; i < share.end; ++i)
    take(i / form.parts_of_image, i % form.parts_of_image * form.part_lines);
}

/// One run of a convolution by products of four bytes.
class JoinedRun {
 public:
  JoinedRun(const ByteDepthwise& conv, const ByteDepthwiseForm& form) : conv_(conv), form_(form) {
    const Windows& w = conv.windows;
    const TapLayout layout(w);
    // The memory of a lane is not needed yet.
    auto* scales = reinterpret_cast<float*>(conv.scratch + form.shared_bytes);
    float* biases = scales + layout.channels;
    std::fill_n(scales, 2 * layout.channels, 0.0F);
    write_factors(conv, scales);
    if (conv.bias != nullptr) std::copy_n(conv.bias, w.channels, biases);
    prepare(conv, conv.scratch, scales, biases, run_);
  }

  void lane(std::int64_t index) const {
    const Windows& w = conv_.windows;
    std::byte* joined =
        conv_.scratch + form_.shared_bytes + static_cast<std::uint64_t>(index) * form_.lane_bytes;
    for_parts_of_lane(w, form_, index, [&](std::int64_t image, std::int64_t first) {
      const std::int64_t end = std::min(first + form_.part_lines, w.result[0]);
      for (std::int64_t line = first; line < end; ++line) convolve_line(run_, image, line, joined);
    });
  }

 private:
  const ByteDepthwise& conv_;
  const ByteDepthwiseForm& form_;
  TapRun run_;
};

/// One run of a convolution in f32.
class Run {
 public:
  Run(const ByteDepthwise& conv, const ByteDepthwiseForm& form)
      : conv_(conv), w_(conv.windows), form_(form) {
    if (conv.zero != nullptr)
      zero_ = conv.is_signed ? static_cast<std::int8_t>(*conv.zero) : *conv.zero;
    const std::int64_t taps = w_.kernel[0] * w_.kernel[1], pitch = pitch_of(w_);
    auto* weights = reinterpret_cast<float*>(conv.scratch);
    for (std::int64_t p = 0; p < taps; ++p)
      widen_bytes(reinterpret_cast<const std::uint8_t*>(conv.weights) + p * w_.channels, true,
                  w_.channels, 0, weights + p * pitch);
    float* numbers = weights + taps * pitch;
    auto* padding = reinterpret_cast<std::uint8_t*>(numbers + kNumbers * pitch);
    std::fill_n(numbers, kNumbers * pitch, 0.0F);
    std::fill_n(padding, pitch, conv.zero == nullptr ? std::uint8_t{0} : *conv.zero);
    run_ = {.conv = &conv,
            .weights = weights,
            .pitch = pitch,
            .numbers = tap_numbers(numbers, pitch, conv.bias != nullptr),
            .padding = padding};
    write_factors(conv, run_.numbers.scale);
    if (conv.bias != nullptr) std::copy_n(conv.bias, w_.channels, run_.numbers.bias);
    if (conv.bytes == nullptr) return;
    make_numbers(conv.steps, pitch, taps, run_.numbers);
    swept_ = run_.numbers.usable && may_be_swept(w_);
    if (swept_) start_columns();
  }

  void lane(std::int64_t index) const {
    std::byte* scratch =
        conv_.scratch + form_.shared_bytes + static_cast<std::uint64_t>(index) * form_.lane_bytes;
    for_parts_of_lane(w_, form_, index, [&](std::int64_t image, std::int64_t line) {
      const std::int64_t lines = std::min(form_.part_lines, w_.result[0] - line);
      if (!swept_) return part(image, line, lines, scratch);
      for (std::int64_t i = 0; i < lines; ++i) sweep(run_, image, line + i);
    });
  }

 private:
  /// What sums begin with that are of bytes as they are.
  void start_columns() {
    std::int32_t* first = run_.numbers.first;
    for (std::int64_t p = 0; p < w_.kernel[0] * w_.kernel[1]; ++p)
      for (std::int64_t c = 0; c < w_.channels; ++c)
        first[c] -= zero_ * conv_.weights[p * w_.channels + c];
  }

  /// Lines of results of an image from `line` on.
  void part(std::int64_t image, std::int64_t line, std::int64_t lines, std::byte* scratch) const {
    const std::int64_t top = line * w_.stride[0] - w_.pad[0];
    const std::int64_t bottom = top + seen_lines(w_, lines);
    const std::int64_t first = std::clamp<std::int64_t>(top, 0, w_.size[0]);
    const std::int64_t end = std::clamp<std::int64_t>(bottom, first, w_.size[0]);
    const std::int64_t row = w_.size[1] * w_.channels;
    auto* source = reinterpret_cast<float*>(scratch);
    auto* sums = reinterpret_cast<float*>(scratch + form_.source_bytes);
    widen_bytes(conv_.src + (image * w_.size[0] + first) * row, conv_.is_signed,
                (end - first) * row, zero_, source);
    Depthwise real{.windows = w_,
                   .src = source,
                   .weights = run_.weights,
                   .weight_pitch = run_.pitch,
                   .finish = {},
                   .result = sums,
                   .result_pitch = w_.channels};
    real.windows.images = 1;
    real.windows.size[0] = end - first;
    real.windows.result[0] = lines;
    real.windows.pad[0] = first - top;
    convolve_depthwise(real, {0, lines, 0, w_.channels});
    const std::int64_t pixel = (image * w_.result[0] + line) * w_.result[1];
    finish(run_, sums, lines * w_.result[1], pixel * w_.channels);
  }

  const ByteDepthwise& conv_;
  const Windows& w_;
  const ByteDepthwiseForm& form_;
  ColumnRun run_;
  std::int32_t zero_ = 0;
  bool swept_ = false;  // by sweep(), without memory of a lane
};

std::optional<ByteDepthwiseForm> fits(const ByteDepthwiseForm& form) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 61;
  const auto lanes = checked_mul(form.lane_bytes, static_cast<std::uint64_t>(form.lanes));
  return lanes && *lanes < kMost ? std::optional(form) : std::nullopt;
}

/// The memory of products of four bytes.
bool join_lines_of(const Windows& w, ByteDepthwiseForm& form) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const auto reach = [&](std::int64_t count, std::int64_t step) {
    return checked_mul(static_cast<std::uint64_t>(count - 1), static_cast<std::uint64_t>(step));
  };
  const auto strides = reach(w.result[1], w.stride[1]), kernel = reach(w.kernel[1], w.dilation[1]);
  if (!strides || !kernel || *strides > kMost || *kernel > kMost) return false;
  const auto columns = static_cast<std::int64_t>(*strides + *kernel) + 1;
  const std::int64_t channels =
      divide_up(w.channels, TapLayout::kTapChannels) * TapLayout::kTapChannels;
  const auto line = float_bytes(divide_up(w.kernel[0], 4), columns, channels);
  const auto numbers = float_bytes(2, channels, 1);  // that lines make room for first
  if (!line || !numbers || *line > kMost) return false;
  form.joined = true;
  form.shared_bytes = (static_cast<std::uint64_t>(TapLayout(w).shared_bytes) + 63) / 64 * 64;
  form.lane_bytes = std::max(*line, *numbers);
  return true;
}

}  // namespace

std::optional<ByteDepthwiseForm> byte_depthwise_form(const Windows& w, int threads) {
  const auto taps = float_bytes(w.kernel[0], w.kernel[1], 1);
  if (!taps || w.kernel[0] * w.kernel[1] > kMostByteTaps) return std::nullopt;
  const auto line = float_bytes(w.result[1], w.channels, 1);
  if (!line) return std::nullopt;
  ByteDepthwiseForm form;
  const bool joined = may_use_vnni() && join_lines_of(w, form);
  if (!joined)  // joined lines share nothing
    form.part_lines =
        std::clamp<std::int64_t>(kPartFloats / (w.result[1] * w.channels), 1, w.result[0]);
  form.parts_of_image = divide_up(w.result[0], form.part_lines);
  std::int64_t parts = 0;
  if (__builtin_mul_overflow(form.parts_of_image, w.images, &parts)) return std::nullopt;
  form.lanes = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(parts, 1));
  if (joined) return fits(form);
  const auto weights = float_bytes(w.kernel[0] * w.kernel[1] + kNumbers + 1, pitch_of(w), 1);
  const auto source = float_bytes(source_lines(w, form.part_lines), w.size[1], w.channels);
  const auto sums = float_bytes(form.part_lines, w.result[1], w.channels);
  if (!weights || !source || !sums) return std::nullopt;
  form.shared_bytes = *weights;
  form.source_bytes = *source;
  form.lane_bytes = *source + *sums;
  return fits(form);
}

void byte_depthwise(const ByteDepthwise& conv, const ByteDepthwiseForm& form, Workers& workers) {
  if (conv.windows.rows() == 0) return;
  const auto take = [&](const auto& run) {
    const auto lane = [&](std::int64_t index) { run.lane(index); };
    if (form.lanes > 1)
      workers.parallel_for(form.lanes, lane);
    else
      lane(0);
  };
  if (form.joined) return take(JoinedRun(conv, form));
  take(Run(conv, form));
}

}  // namespace ctxgen::kernels
#endif
