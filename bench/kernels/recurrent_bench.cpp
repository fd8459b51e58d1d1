#include <string>

#include "ctxgen/base/workers.h"
#include "ctxgen/kernels/recurrent.h"

#include "kernels/recurrent/kernels_rnn.h"
#include "kernels_bench.h"

// LSTM, GRU and RNN layers in one direction, as plans run them, and the cells alone. An element of a layer is
// a weight that is multiplied; its bytes are those of the recurrent weights, which each step reads.
namespace ctxgen::bench {
namespace {

using onednn::RnnCell;

struct Layer {
  std::int64_t steps, batch, inputs, units, gates;
  bool linear;

  Layer(const benchmark::State& sizes, RnnCell kind)
      : steps(sizes.range(0)),
        batch(sizes.range(1)),
        inputs(sizes.range(2)),
        units(sizes.range(3)),
        gates(kind == RnnCell::kLstm   ? 4
              : kind == RnnCell::kTanh ? 1
                                       : 3),
        linear(kind == RnnCell::kLinearGru) {}

  Floats x = numbers(steps * batch * inputs);
  Floats weights = numbers(inputs * gates * units, 0.05F);
  Floats recurrent = numbers(units * gates * units, 0.05F);
  Floats bias = numbers((gates + (linear ? 1 : 0)) * units);
  Floats y = Floats(static_cast<std::size_t>(steps * batch * units));
  Floats last = Floats(static_cast<std::size_t>(batch * units));
  Floats last_cell = last;

  void report_to(benchmark::State& state) const {
    report(state, steps * batch * (inputs + units) * gates * units,
           4 * steps * units * gates * units);
  }
};

void own_layer(benchmark::State& state, RnnCell cell) {
  Layer layer(state, cell);
  const onednn::RnnShape shape{.cell = cell,
                               .steps = layer.steps,
                               .batch = layer.batch,
                               .inputs = layer.inputs,
                               .units = layer.units,
                               .directions = 1,
                               .reversed = false,
                               .has_state = false,
                               .has_cell = false};
  Floats scratch(shape.scratch_bytes() / sizeof(float) + 16);
  const auto kernel = onednn::make_rnn_kernel(shape);
  std::vector<std::byte*> args{bytes_of(layer.x),         bytes_of(layer.weights),
                               bytes_of(layer.recurrent), bytes_of(layer.bias),
                               bytes_of(layer.y),         bytes_of(layer.last)};
  if (cell == RnnCell::kLstm) args.push_back(bytes_of(layer.last_cell));
  args.push_back(bytes_of(scratch));
  OneThread one;
  for (auto _ : state) {
    if (!kernel->run(args.data(), one)) state.SkipWithError("failed");
    benchmark::ClobberMemory();
  }
  layer.report_to(state);
}

void onednn_layer(benchmark::State& state, RnnCell cell) {
  using tag = memory::format_tag;
  Layer layer(state, cell);
  const auto md = [](const memory::dims& dims, tag form) {
    return memory::desc(dims, memory::data_type::f32, form);
  };
  const memory::desc x = md({layer.steps, layer.batch, layer.inputs}, tag::tnc),
                     y = md({layer.steps, layer.batch, layer.units}, tag::tnc),
                     weights = md({1, 1, layer.inputs, layer.gates, layer.units}, tag::ldigo),
                     recurrent = md({1, 1, layer.units, layer.gates, layer.units}, tag::ldigo),
                     bias =
                         md({1, 1, layer.gates + (layer.linear ? 1 : 0), layer.units}, tag::ldgo),
                     last = md({1, 1, layer.batch, layer.units}, tag::ldnc), none;
  const auto inference = dnnl::prop_kind::forward_inference;
  const auto forward = dnnl::rnn_direction::unidirectional_left2right;
  const auto run = [&](const auto& pd, const dnnl::primitive& made) {
    Primitive primitive(state, pd, made);
    primitive.bind(DNNL_ARG_SRC_LAYER, x, layer.x.data());
    primitive.bind(DNNL_ARG_WEIGHTS_LAYER, weights, layer.weights.data());
    primitive.bind(DNNL_ARG_WEIGHTS_ITER, recurrent, layer.recurrent.data());
    primitive.bind(DNNL_ARG_BIAS, bias, layer.bias.data());
    primitive.bind(DNNL_ARG_DST_LAYER, y, layer.y.data());
    primitive.bind(DNNL_ARG_DST_ITER, last, layer.last.data());
    if (cell == RnnCell::kLstm) primitive.bind(DNNL_ARG_DST_ITER_C, last, layer.last_cell.data());
    for (auto _ : state) primitive.run();
    layer.report_to(state);
  };
  const dnnl::engine& engine = Primitive::engine();
  if (cell == RnnCell::kLstm) {
    const dnnl::lstm_forward::primitive_desc pd(engine, inference, forward, x, none, none, weights,
                                                recurrent, bias, y, last, last);
    run(pd, dnnl::lstm_forward(pd));
  } else if (cell == RnnCell::kGru) {
    const dnnl::gru_forward::primitive_desc pd(engine, inference, forward, x, none, weights,
                                               recurrent, bias, y, last);
    run(pd, dnnl::gru_forward(pd));
  } else if (cell == RnnCell::kTanh) {
    const dnnl::vanilla_rnn_forward::primitive_desc pd(engine, inference,
                                                       dnnl::algorithm::eltwise_tanh, forward, x,
                                                       none, weights, recurrent, bias, y, last);
    run(pd, dnnl::vanilla_rnn_forward(pd));
  } else {
    const dnnl::lbr_gru_forward::primitive_desc pd(engine, inference, forward, x, none, weights,
                                                   recurrent, bias, y, last);
    run(pd, dnnl::lbr_gru_forward(pd));
  }
}

void lstm_cell(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Floats i = numbers(n), f = numbers(n), g = numbers(n), o = numbers(n);
  Floats cell = numbers(n), out(cell.size());
  for (auto _ : state) {
    kernels::lstm_cell(n, {i.data(), f.data(), g.data(), o.data()}, cell.data(), cell.data(),
                       out.data());
    benchmark::ClobberMemory();
  }
  report(state, n, 28 * n);
}

void gru_cell(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Floats z = numbers(n), r = numbers(n), h = numbers(n), a = numbers(n), last = numbers(n);
  Floats out(last.size());
  for (auto _ : state) {
    kernels::linear_gru_cell(n, {z.data(), r.data(), h.data(), a.data()}, last.data(), out.data());
    benchmark::ClobberMemory();
  }
  report(state, n, 24 * n);
}

}  // namespace

void add_recurrent() {
  struct Cell {
    const char* name;
    RnnCell cell;
  };
  for (const Cell& each : {Cell{"lstm", RnnCell::kLstm}, Cell{"gru", RnnCell::kGru},
                           Cell{"linear_gru", RnnCell::kLinearGru}, Cell{"rnn", RnnCell::kTanh}}) {
    const auto add = [&](const char* side, auto run) {
      benchmark::RegisterBenchmark(
          std::string(each.name) + "/" + side,
          [run, cell = each.cell](benchmark::State& state) { run(state, cell); })
          ->Args({50, 1, 128, 256})
          ->Args({26, 1, 512, 256})
          ->Args({50, 2, 128, 256})
          ->Args({50, 4, 128, 256})
          ->Args({50, 16, 128, 256})
          ->Args({50, 64, 128, 256})
          ->Args({100, 1, 512, 512})
          ->Args({1, 1, 256, 256})
          ->Args({100, 1, 40, 64});
    };
    add("own", own_layer);
    add("onednn", onednn_layer);
  }
  benchmark::RegisterBenchmark("lstm_cell/own", lstm_cell)->Arg(512);
  benchmark::RegisterBenchmark("linear_gru_cell/own", gru_cell)->Arg(512);
}

}  // namespace ctxgen::bench
