#include "ctxgen/base/workers.h"

#include "kernels/kernels_reduce.h"
#include "kernels_bench.h"

// Layer, RMS and group normalisation, with scale and shift, as plans run them.
namespace ctxgen::bench {
namespace {

void own_norm(benchmark::State& state, bool centred) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  Floats in = numbers(rows * width), out(in.size()), scale = numbers(width), shift = numbers(width);
  const auto kernel = onednn::make_norm_kernel({.rows = rows,
                                                .width = width,
                                                .epsilon = 1e-5F,
                                                .centred = centred,
                                                .has_scale = true,
                                                .has_shift = centred});
  std::byte* args[] = {bytes_of(in), bytes_of(out), bytes_of(scale), bytes_of(shift)};
  OneThread one;
  for (auto _ : state) {
    if (!kernel->run(args, one)) state.SkipWithError("failed");
    benchmark::ClobberMemory();
  }
  report(state, rows * width, 8 * rows * width);
}

void onednn_layer_norm(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  Floats in = numbers(rows * width), out(in.size()), scale = numbers(width), shift = numbers(width);
  const memory::desc md({rows, width}, memory::data_type::f32, memory::format_tag::ab);
  const memory::desc vector({width}, memory::data_type::f32, memory::format_tag::a);
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  const dnnl::layer_normalization_forward::primitive_desc pd(
      Primitive::engine(), dnnl::prop_kind::forward_inference, md, md, 1e-5F, flags);
  Primitive primitive(state, pd, dnnl::layer_normalization_forward(pd));
  primitive.bind(DNNL_ARG_SRC, md, in.data());
  primitive.bind(DNNL_ARG_DST, md, out.data());
  primitive.bind(DNNL_ARG_SCALE, vector, scale.data());
  primitive.bind(DNNL_ARG_SHIFT, vector, shift.data());
  for (auto _ : state) primitive.run();
  report(state, rows * width, 8 * rows * width);
}

void own_group_norm(benchmark::State& state, bool channels_last) {
  const std::int64_t channels = state.range(0), pixels = state.range(1);
  Floats in = numbers(channels * pixels), out(in.size()), scale = numbers(channels),
         shift = numbers(channels);
  const onednn::GroupNormShape shape{.images = 1,
                                     .channels = channels,
                                     .pixels = pixels,
                                     .groups = state.range(2),
                                     .epsilon = 1e-5F,
                                     .channels_last = channels_last,
                                     .has_scale = true,
                                     .has_shift = true};
  Floats scratch((shape.scratch_bytes() + 3) / 4);
  const auto kernel = onednn::make_group_norm_kernel(shape, {});
  std::byte* args[] = {bytes_of(in), bytes_of(out), bytes_of(scale), bytes_of(shift),
                       bytes_of(scratch)};
  OneThread one;
  for (auto _ : state) {
    if (!kernel->run(args, one)) state.SkipWithError("failed");
    benchmark::ClobberMemory();
  }
  report(state, channels * pixels, 8 * channels * pixels);
}

void onednn_group_norm(benchmark::State& state, bool channels_last) {
  const std::int64_t channels = state.range(0), pixels = state.range(1);
  Floats in = numbers(channels * pixels), out(in.size()), scale = numbers(channels),
         shift = numbers(channels);
  const memory::desc md({1, channels, 1, pixels}, memory::data_type::f32,
                        channels_last ? memory::format_tag::acdb : memory::format_tag::abcd);
  const memory::desc vector({channels}, memory::data_type::f32, memory::format_tag::a);
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  const dnnl::group_normalization_forward::primitive_desc pd(Primitive::engine(),
                                                             dnnl::prop_kind::forward_inference, md,
                                                             md, state.range(2), 1e-5F, flags);
  Primitive primitive(state, pd, dnnl::group_normalization_forward(pd));
  primitive.bind(DNNL_ARG_SRC, md, in.data());
  primitive.bind(DNNL_ARG_DST, md, out.data());
  primitive.bind(DNNL_ARG_SCALE, vector, scale.data());
  primitive.bind(DNNL_ARG_SHIFT, vector, shift.data());
  for (auto _ : state) primitive.run();
  report(state, channels * pixels, 8 * channels * pixels);
}

}  // namespace

void add_norms() {
  const auto add_rows = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)
        ->Args({16, 384})
        ->Args({128, 768})
        ->Args({3136, 96})
        ->Args({512, 4096});
  };
  add_rows("layer_norm/own", [](benchmark::State& state) { own_norm(state, true); });
  add_rows("layer_norm/onednn", onednn_layer_norm);
  add_rows("rms_norm/own", [](benchmark::State& state) { own_norm(state, false); });
  // Channels, pixels and groups of a diffusion U-Net, and of instance normalisation.
  const auto add_groups = [](const char* name, auto run, bool last) {
    benchmark::RegisterBenchmark(name, [run, last](benchmark::State& state) { run(state, last); })
        ->Args({320, 4096, 32})
        ->Args({1280, 64, 32})
        ->Args({64, 16384, 64});
  };
  add_groups("group_norm/nchw/own", own_group_norm, false);
  add_groups("group_norm/nchw/onednn", onednn_group_norm, false);
  add_groups("group_norm/nhwc/own", own_group_norm, true);
  add_groups("group_norm/nhwc/onednn", onednn_group_norm, true);
}

}  // namespace ctxgen::bench
