#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "contrib_families.h"
#include "kernel/attributes.h"
#include "kernel/stop.h"
#include "kernel/widen.h"
#include "numbers/gemm.h"
#include "ops/math/sigmoid.h"

// com.microsoft: MoE and QMoE, mixtures of experts. An expert is a network of two or three layers; each token
// goes through the k experts that its router scores highest, and gets the sum of what they give, by shares.

namespace ctxgen::cpu {
namespace {

enum class Unit { kRelu, kGelu, kSilu, kIdentity, kSwiglu };

struct MoeParams {
  std::int64_t k = 1;
  Unit unit = Unit::kRelu;
  std::int64_t fusion =
      0;  // of Unit::kSwiglu: how gate and value lie in what the first layer gives
  double alpha = 1, beta = 0, limit = std::numeric_limits<double>::infinity();
  bool normalized = false;
  std::int64_t bits = 0;   // of a weight; 0: floats
  std::int64_t block = 0;  // weights of one scale; 0: a row
  [[nodiscard]] bool fused() const { return unit == Unit::kSwiglu && fusion != 0; }
};

/// Where a layer's tensors are among the node's inputs.
struct LayerInputs {
  std::size_t weights, bias, scales, zeros;
};

/// [experts, outputs, inputs] and what belongs to it.
struct Layer {
  const Tensor* weights;
  const Tensor* bias;
  const Tensor* scales;  // nullptr: weights are floats
  const Tensor* zeros;
  std::int64_t experts, outputs, inputs;
  std::int64_t bits, blocks;

  [[nodiscard]] float weight(std::int64_t row, std::int64_t i) const;
  [[nodiscard]] double start(std::int64_t row) const {
    return bias == nullptr ? 0.0 : static_cast<double>(data_of<float>(*bias)[row]);
  }

 private:
  [[nodiscard]] std::int64_t zero_point(std::int64_t row, std::int64_t block) const;
};

/// Element i of packed numbers, low bits first.
std::int64_t packed_number(const std::uint8_t* bytes, std::int64_t i, std::int64_t bits) {
  const std::int64_t per_byte = 8 / bits;
  return (bytes[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
}

std::int64_t packed_bytes(std::int64_t count, std::int64_t bits) { return (count * bits + 7) / 8; }

/// Points of blocks are packed along a row's blocks, those of rows along an expert's rows.
std::int64_t Layer::zero_point(std::int64_t row, std::int64_t block) const {
  if (zeros == nullptr) return std::int64_t{1} << (bits - 1);
  const auto* points = data_of<std::uint8_t>(*zeros);
  if (zeros->rank() == 3)
    return packed_number(points + row * packed_bytes(blocks, bits), block, bits);
  return packed_number(points + row / outputs * packed_bytes(outputs, bits), row % outputs, bits);
}

float Layer::weight(std::int64_t row, std::int64_t i) const {
  if (scales == nullptr) return data_of<float>(*weights)[row * inputs + i];
  const std::int64_t block = i / (inputs / blocks);
  const auto* packed = data_of<std::uint8_t>(*weights) + row * packed_bytes(inputs, bits);
  return static_cast<float>(packed_number(packed, i, bits) - zero_point(row, block)) *
         data_of<float>(*scales)[row * blocks + block];
}

Status check_numbers(const MoeParams& p, const Layer& layer) {
  if (layer.inputs < 1 || (p.block > 0 && layer.inputs % p.block != 0))
    return fail(ErrorCode::kInvalidGraph, "{} inputs of a layer in blocks of {}", layer.inputs,
                p.block);
  const std::int64_t rows = layer.experts * layer.outputs;
  if (layer.scales->type() != DataType::kFloat || layer.scales->rank() < 2 ||
      layer.scales->element_count() != rows * layer.blocks)
    return fail(ErrorCode::kInvalidGraph, "scales are {} {}, expected {} rows of {}",
                name_of(layer.scales->type()), to_string(layer.scales->dims()), rows, layer.blocks);
  if (layer.zeros == nullptr) return {};
  if (layer.zeros->type() != DataType::kUint8 || (layer.zeros->rank() == 2 && layer.blocks != 1))
    return fail(ErrorCode::kInvalidGraph, "zero points are {} {}", name_of(layer.zeros->type()),
                to_string(layer.zeros->dims()));
  const Dims by_rows{layer.experts, packed_bytes(layer.outputs, p.bits)};
  const Dims by_blocks{layer.experts, layer.outputs, packed_bytes(layer.blocks, p.bits)};
  return expect_dims(*layer.zeros, "zero points", layer.zeros->rank() == 2 ? by_rows : by_blocks);
}

Result<Layer> layer_of(const KernelContext& context, const MoeParams& p, const LayerInputs& at,
                       const Dims& dims) {
  const bool packed = p.bits != 0;
  const DataType type = packed ? DataType::kUint8 : DataType::kFloat;
  const Tensor* weights = CTXGEN_TRY(required(context, at.weights, type));
  if (packed) (void)CTXGEN_TRY(required(context, at.scales));
  const Layer layer{.weights = weights,
                    .bias = optional_input(context, at.bias),
                    .scales = optional_input(context, at.scales),
                    .zeros = optional_input(context, at.zeros),
                    .experts = dims[0],
                    .outputs = dims[1],
                    .inputs = dims[2],
                    .bits = p.bits,
                    .blocks = p.block > 0 ? dims[2] / p.block : 1};
  CTXGEN_CHECK(expect_dims(*layer.weights, "weights of a layer",
                           {dims[0], dims[1], packed ? packed_bytes(dims[2], p.bits) : dims[2]}));
  if (layer.bias != nullptr && layer.bias->type() != DataType::kFloat)
    return fail(ErrorCode::kInvalidGraph, "a bias is {}", name_of(layer.bias->type()));
  if (layer.bias != nullptr) CTXGEN_CHECK(expect_dims(*layer.bias, "a bias", {dims[0], dims[1]}));
  if (packed) CTXGEN_CHECK(check_numbers(p, layer));
  return layer;
}

/// rows [m, inputs] through one expert's part of the layer: [m, outputs].
void apply(const Layer& layer, std::int64_t expert, std::int64_t m,
           const ScratchVector<double>& rows, ScratchVector<double>& to) {
  const std::int64_t first_row = expert * layer.outputs;
  to.resize(static_cast<std::size_t>(m * layer.outputs));
  multiply<double>(
      {.m = m, .n = layer.outputs, .k = layer.inputs},
      {.data = rows.data(), .row_stride = layer.inputs, .column_stride = 1},
      [&](std::int64_t first, double* panel) {
        for (std::int64_t j = 0; j < kPanelColumns; ++j)
          for (std::int64_t i = 0; i < layer.inputs; ++i)
            panel[i * kPanelColumns + j] =
                first + j < layer.outputs ? layer.weight(first_row + first + j, i) : 0.0;
      },
      [&](std::int64_t row, std::int64_t n, const double* sums, std::int64_t count) {
        for (std::int64_t j = 0; j < count; ++j)
          to[static_cast<std::size_t>(row * layer.outputs + n + j)] =
              sums[j] + layer.start(first_row + n + j);
      });
}

double activated(Unit unit, double x) {
  switch (unit) {
    case Unit::kRelu: return x < 0 ? 0 : x;
    case Unit::kGelu: {
      constexpr double kRootOfTwoOverPi = 0.7978845608028654;
      return 0.5 * x * (1 + std::tanh(kRootOfTwoOverPi * (x + 0.044715 * x * x * x)));
    }
    case Unit::kSilu: return x * sigmoid(x);
    case Unit::kIdentity:
    case Unit::kSwiglu: break;
  }
  return x;
}

double swiglu(const MoeParams& p, double gate, double value) {
  const double g = std::min(gate, p.limit);
  const double v = std::max(std::min(value, p.limit), -p.limit);
  return g * sigmoid(p.alpha * g) * (v + p.beta);
}

/// `first`: what the first layer gave, [m, inner] or, where it is fused, [m, 2 inner]; `third`: what the third
/// one gave, empty if there is none. Writes [m, inner] to `first`.
void activate(const MoeParams& p, std::int64_t m, std::int64_t inner, ScratchVector<double>& first,
              const ScratchVector<double>& third) {
  for (std::int64_t row = 0; row < m; ++row) {
    const double* from = first.data() + row * inner * (p.fused() ? 2 : 1);
    ScratchVector<double> done(static_cast<std::size_t>(inner));
    for (std::int64_t i = 0; i < inner; ++i) {
      double& y = done[static_cast<std::size_t>(i)];
      const double other = third.empty() ? 1.0 : third[static_cast<std::size_t>(row * inner + i)];
      if (p.unit != Unit::kSwiglu)
        y = activated(p.unit, from[i]) * other;
      else if (p.fused())
        y = p.fusion == 1 ? swiglu(p, from[2 * i], from[2 * i + 1])
                          : swiglu(p, from[i], from[inner + i]);
      else
        y = swiglu(p, from[i], other);
    }
    std::ranges::copy(done, first.begin() + row * inner);  // not beyond what was read
  }
}

/// A token that goes through an expert, and its share.
struct Route {
  std::int64_t expert, token;
  double share;
};

/// Of a row of scores: softmax of all of them.
void shares_of(const float* scores, std::int64_t experts, ScratchVector<double>& shares) {
  const double most = *std::max_element(scores, scores + experts);
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e)
    sum += shares[static_cast<std::size_t>(e)] = std::exp(static_cast<double>(scores[e]) - most);
  for (double& share : shares) share /= sum;
}

/// By expert, then token. `mixing`: shares that are given, or nullptr.
ScratchVector<Route> routes_of(const MoeParams& p, const Tensor& router, const Tensor* mixing) {
  const std::int64_t tokens = router.dims()[0], experts = router.dims()[1];
  ScratchVector<Route> routes;
  ScratchVector<double> shares(static_cast<std::size_t>(experts));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float* scores = data_of<float>(router) + token * experts;
    if (mixing == nullptr)
      shares_of(scores, experts, shares);
    else
      std::copy_n(data_of<float>(*mixing) + token * experts, experts, shares.begin());
    ScratchVector<std::uint8_t> taken(static_cast<std::size_t>(experts));
    const std::size_t begin = routes.size();
    double total = 0;
    for (std::int64_t i = 0; i < p.k; ++i) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < experts; ++e)
        if (taken[static_cast<std::size_t>(e)] == 0 && (best < 0 || scores[e] >= scores[best]))
          best = e;  // of equal ones the last, as in ONNX Runtime
      taken[static_cast<std::size_t>(best)] = 1;
      routes.push_back({best, token, shares[static_cast<std::size_t>(best)]});
      total += routes.back().share;
    }
    if (p.normalized)
      for (Route& route : std::span(routes).subspan(begin)) route.share /= total;
  }
  std::ranges::stable_sort(routes, {}, &Route::expert);
  return routes;
}

struct Network {
  Layer first, second;
  std::optional<Layer> third;
};

/// Adds what one expert gives its tokens to theirs in `sums` [tokens, hidden].
void run_expert(const MoeParams& p, const Network& network, std::span<const Route> routes,
                const Tensor& input, ScratchVector<double>& sums) {
  const std::int64_t hidden = network.first.inputs, inner = network.second.inputs;
  const auto m = static_cast<std::int64_t>(routes.size());
  const std::int64_t expert = routes[0].expert;
  ScratchVector<double> rows(static_cast<std::size_t>(m * hidden)), first, third;
  for (std::int64_t i = 0; i < m; ++i)
    std::copy_n(data_of<float>(input) + routes[static_cast<std::size_t>(i)].token * hidden, hidden,
                rows.begin() + i * hidden);
  apply(network.first, expert, m, rows, first);
  if (network.third) apply(*network.third, expert, m, rows, third);
  activate(p, m, inner, first, third);
  apply(network.second, expert, m, first, rows);
  for (std::int64_t i = 0; i < m; ++i) {
    const Route& route = routes[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < hidden; ++j)
      sums[static_cast<std::size_t>(route.token * hidden + j)] +=
          route.share * rows[static_cast<std::size_t>(i * hidden + j)];
  }
}

/// Inputs of one operator, by position.
struct MoeInputs {
  LayerInputs first, second, third;
  std::size_t mixing;
};
constexpr MoeInputs kFloatInputs{.first = {2, 3, kNoInput, kNoInput},
                                 .second = {4, 5, kNoInput, kNoInput},
                                 .third = {6, 7, kNoInput, kNoInput},
                                 .mixing = kNoInput};
constexpr MoeInputs kPackedInputs{
    .first = {2, 4, 3, 11}, .second = {5, 7, 6, 12}, .third = {8, 10, 9, 13}, .mixing = 14};

Result<Network> network_of(const KernelContext& context, const MoeParams& p, const MoeInputs& at,
                           std::int64_t experts, std::int64_t hidden) {
  const Tensor* first = CTXGEN_TRY(required(context, at.first.weights));
  CTXGEN_CHECK(expect_rank(*first, "weights of a layer", 3, 3));
  const std::int64_t outputs = first->dims()[1];
  if (p.fused() && outputs % 2 != 0)
    return fail(ErrorCode::kInvalidGraph, "{} outputs of gates and values", outputs);
  const std::int64_t inner = p.fused() ? outputs / 2 : outputs;
  const bool has_third = optional_input(context, at.third.weights) != nullptr;
  if (p.unit == Unit::kSwiglu && has_third == p.fused())
    return fail(ErrorCode::kInvalidGraph, "swiglu_fusion {} {} fc3", p.fusion,
                has_third ? "with" : "without");
  const Layer gate = CTXGEN_TRY(layer_of(context, p, at.first, {experts, outputs, hidden}));
  const Layer second = CTXGEN_TRY(layer_of(context, p, at.second, {experts, hidden, inner}));
  Network network{.first = gate, .second = second, .third = std::nullopt};
  if (has_third)
    network.third = CTXGEN_TRY(layer_of(context, p, at.third, {experts, inner, hidden}));
  return network;
}

Status run_moe(KernelContext& context, const MoeParams& p, const MoeInputs& at) {
  const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  const Tensor* router = CTXGEN_TRY(required(context, 1, DataType::kFloat));
  CTXGEN_CHECK(expect_rank(*input, "input", 2, 3));
  CTXGEN_CHECK(expect_rank(*router, "router_probs", 2, 2));
  const std::int64_t hidden = input->dims().back(), experts = router->dims()[1];
  const std::int64_t tokens = product(input->dims(), 0, input->rank() - 1);
  CTXGEN_CHECK(expect_dims(*router, "router_probs", {tokens, experts}));
  if (p.k > experts)
    return fail(ErrorCode::kInvalidGraph, "the {} best of {} experts", p.k, experts);
  const Tensor* mixing = optional_input(context, at.mixing);
  if (mixing != nullptr && mixing->type() != DataType::kFloat)
    return fail(ErrorCode::kInvalidGraph, "router_weights are {}", name_of(mixing->type()));
  if (mixing != nullptr) CTXGEN_CHECK(expect_dims(*mixing, "router_weights", {tokens, experts}));
  const Network network = CTXGEN_TRY(network_of(context, p, at, experts, hidden));
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, input->dims()));
  const ScratchVector<Route> routes = routes_of(p, *router, mixing);
  ScratchVector<double> sums(static_cast<std::size_t>(tokens * hidden));
  for (std::size_t begin = 0, end = 0; begin < routes.size() && !run_stopped(); begin = end) {
    while (end < routes.size() && routes[end].expert == routes[begin].expert) ++end;
    run_expert(p, network, std::span(routes).subspan(begin, end - begin), *input, sums);
  }
  std::ranges::transform(sums, mutable_data_of<float>(*output),
                         [](double x) { return static_cast<float>(x); });
  return {};
}

Result<MoeParams> moe_params(const Node& node) {
  const std::string unit = CTXGEN_TRY(
      one_of(node, "activation_type", "relu", {"relu", "gelu", "silu", "identity", "swiglu"}));
  MoeParams params{.k = node.int_or("k", 1),
                   .unit = unit == "relu"     ? Unit::kRelu
                           : unit == "gelu"   ? Unit::kGelu
                           : unit == "silu"   ? Unit::kSilu
                           : unit == "swiglu" ? Unit::kSwiglu
                                              : Unit::kIdentity,
                   .fusion = node.int_or("swiglu_fusion", 0),
                   .alpha = node.float_or("activation_alpha", 1.0F),
                   .beta = node.float_or("activation_beta", 0.0F),
                   .normalized = node.int_or("normalize_routing_weights", 0) != 0};
  if (node.attribute("swiglu_limit") != nullptr) params.limit = node.float_or("swiglu_limit", 0);
  if (params.k < 1 || params.fusion < 0 || params.fusion > 2)
    return fail(ErrorCode::kInvalidGraph, "{}: the {} best experts, swiglu_fusion {}",
                node.describe(), params.k, params.fusion);
  if (node.int_or("use_sparse_mixer", 0) != 0)
    return fail(ErrorCode::kUnsupported, "{}: attribute use_sparse_mixer", node.describe());
  return params;
}

KernelResult make_moe(const Node& node) {
  const MoeParams params = CTXGEN_TRY(moe_params(node));
  return widened_kernel(
      [params](KernelContext& context) { return run_moe(context, params, kFloatInputs); });
}

KernelResult make_qmoe(const Node& node) {
  MoeParams params = CTXGEN_TRY(moe_params(node));
  (void)CTXGEN_TRY(one_of(node, "quant_type", "int", {"int"}));
  params.bits = node.int_or("expert_weight_bits", 4);
  params.block = node.int_or("block_size", 0);
  if (params.bits != 2 && params.bits != 4 && params.bits != 8)
    return fail(ErrorCode::kUnsupported, "{}: {} bits", node.describe(), params.bits);
  if (params.block < 0 || (params.block > 0 && params.block < 16) ||
      (params.block & (params.block - 1)) != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: blocks of {}", node.describe(), params.block);
  if (node.int_or("weights_prepacked", -1) > 0)
    return fail(ErrorCode::kUnsupported, "{}: attribute weights_prepacked", node.describe());
  for (std::size_t i = kPackedInputs.mixing + 1; i < node.inputs.size(); ++i)
    if (node.inputs[i].valid())
      return fail(ErrorCode::kUnsupported, "{}: input {}", node.describe(), i);
  return widened_kernel(
      [params](KernelContext& context) { return run_moe(context, params, kPackedInputs); });
}

constexpr OpRow kContribMoeRows[] = {
    {kMicrosoft, "MoE", 1, 1, make_moe, "float, float16, bfloat16; no sparse mixer"},
    {kMicrosoft, "QMoE", 1, 1, make_qmoe,
     "float, float16, bfloat16; weights of 2, 4 or 8 bits; no sparse mixer"},
};

}  // namespace

constinit const std::span<const OpRow> kContribMoeOps = kContribMoeRows;

}  // namespace ctxgen::cpu
