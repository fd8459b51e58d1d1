#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/onednn/param_codec.h"

// The parameters of the op kinds, one struct per kind (op_kinds.h says what they mean): what compile
// writes with encode() and exec reads with decode(). Names and order of the fields are bytes of the
// context binary.
namespace ctxgen::onednn {

using IntList = std::vector<std::int64_t>;

/// scale_shift, select, identity.
struct NoParams {
  static void fields(auto&, auto&) {}
  bool operator==(const NoParams&) const = default;
};

/// Part of convolutions and pools.
struct WindowParams {
  IntList strides = {}, dilations = {};  // empty: 1 each
  IntList pads = {};                     // begins, then ends; empty: 0 each, or what auto_pad says
  std::string auto_pad = {};  // "" (pads), SAME_UPPER, SAME_LOWER; also read: NOTSET, VALID
  static void fields(auto& p, auto& codec) {
    codec("strides", p.strides);
    codec("dilations", p.dilations);
    codec.unless_empty("pads", p.pads);
    codec.unless_empty("auto_pad", p.auto_pad);
  }
  bool operator==(const WindowParams&) const = default;
};

struct ConvParams {
  WindowParams window = {};
  std::int64_t group = 1;
  static void fields(auto& p, auto& codec) {
    WindowParams::fields(p.window, codec);
    codec("group", p.group);
  }
  bool operator==(const ConvParams&) const = default;
};

struct DeconvParams {
  ConvParams conv = {};  // without auto_pad
  IntList output_padding = {};
  static void fields(auto& p, auto& codec) {
    ConvParams::fields(p.conv, codec);
    codec("output_padding", p.output_padding);
  }
  bool operator==(const DeconvParams&) const = default;
};

struct MatmulParams {
  bool trans_a = false, trans_b = false;
  static void fields(auto& p, auto& codec) {
    codec("trans_a", p.trans_a);
    codec("trans_b", p.trans_b);
  }
  bool operator==(const MatmulParams&) const = default;
};

/// Part of products of 8-bit integers.
struct QuantisedParams {
  std::int64_t in_zero = 0;
  std::optional<double> out_scale = {};  // where the result is 8-bit
  std::optional<std::int64_t> out_zero = {};
  static void fields(auto& p, auto& codec) {
    codec("in_zero", p.in_zero);
    codec("out_scale", p.out_scale);
    codec("out_zero", p.out_zero);
  }
  bool operator==(const QuantisedParams&) const = default;
};

struct QConvParams {
  QuantisedParams steps = {};
  ConvParams conv = {};
  static void fields(auto& p, auto& codec) {
    QuantisedParams::fields(p.steps, codec);
    ConvParams::fields(p.conv, codec);
  }
  bool operator==(const QConvParams&) const = default;
};

struct QMatmulParams {
  QuantisedParams steps = {};
  bool trans_b = false;
  static void fields(auto& p, auto& codec) {
    QuantisedParams::fields(p.steps, codec);
    codec("trans_b", p.trans_b);
  }
  bool operator==(const QMatmulParams&) const = default;
};

struct PoolParams {
  std::string mode = {};
  IntList kernel = {};
  WindowParams window = {};
  bool ceil_mode = false;
  static void fields(auto& p, auto& codec) {
    codec("mode", p.mode);
    codec("kernel", p.kernel);
    WindowParams::fields(p.window, codec);
    codec("ceil_mode", p.ceil_mode);
  }
  bool operator==(const PoolParams&) const = default;
};

struct GlobalPoolParams {
  std::string mode = {};
  static void fields(auto& p, auto& codec) { codec("mode", p.mode); }
  bool operator==(const GlobalPoolParams&) const = default;
};

struct EltwiseParams {
  std::string alg = {};
  double alpha = 0, beta = 0;
  static void fields(auto& p, auto& codec) {
    codec("alg", p.alg);
    codec("alpha", p.alpha);
    codec("beta", p.beta);
  }
  bool operator==(const EltwiseParams&) const = default;
};

struct BinaryParams {
  std::string alg = {};
  static void fields(auto& p, auto& codec) { codec("alg", p.alg); }
  bool operator==(const BinaryParams&) const = default;
};

struct PointParams {
  std::optional<double> in_scale = {};  // where the source is of integers
  std::optional<std::int64_t> in_zero = {};
  std::optional<double> out_scale = {};  // where the result is
  std::optional<std::int64_t> out_zero = {};
  static void fields(auto& p, auto& codec) {
    codec("in_scale", p.in_scale);
    codec("in_zero", p.in_zero);
    codec("out_scale", p.out_scale);
    codec("out_zero", p.out_zero);
  }
  bool operator==(const PointParams&) const = default;
};

struct SoftmaxParams {
  std::int64_t axis = -1;
  bool log = false;
  static void fields(auto& p, auto& codec) {
    codec("axis", p.axis);
    codec("log", p.log);
  }
  bool operator==(const SoftmaxParams&) const = default;
};

/// layer_norm, rms_norm.
struct NormParams {
  std::int64_t axis = -1;
  double epsilon = 1e-5;
  static void fields(auto& p, auto& codec) {
    codec("axis", p.axis);
    codec("epsilon", p.epsilon);
  }
  bool operator==(const NormParams&) const = default;
};

struct GroupNormParams {
  std::int64_t groups = 1;
  double epsilon = 1e-5;
  static void fields(auto& p, auto& codec) {
    codec("groups", p.groups);
    codec("epsilon", p.epsilon);
  }
  bool operator==(const GroupNormParams&) const = default;
};

struct LrnParams {
  std::int64_t size = 0;
  double alpha = 1e-4, beta = 0.75, bias = 1;
  static void fields(auto& p, auto& codec) {
    codec("size", p.size);
    codec("alpha", p.alpha);
    codec("beta", p.beta);
    codec("bias", p.bias);
  }
  bool operator==(const LrnParams&) const = default;
};

struct ReduceParams {
  std::string mode = {};
  IntList axes = {};
  bool keepdims = true;
  static void fields(auto& p, auto& codec) {
    codec("mode", p.mode);
    codec("axes", p.axes);
    codec("keepdims", p.keepdims);
  }
  bool operator==(const ReduceParams&) const = default;
};

struct ConcatParams {
  std::int64_t axis = 0;
  static void fields(auto& p, auto& codec) { codec("axis", p.axis); }
  bool operator==(const ConcatParams&) const = default;
};

struct TransposeParams {
  IntList perm = {};  // empty: reversed
  static void fields(auto& p, auto& codec) { codec("perm", p.perm); }
  bool operator==(const TransposeParams&) const = default;
};

struct ReshapeParams {
  IntList shape = {};
  bool allowzero = false;
  static void fields(auto& p, auto& codec) {
    codec("shape", p.shape);
    codec("allowzero", p.allowzero);
  }
  bool operator==(const ReshapeParams&) const = default;
};

struct FlattenParams {
  std::int64_t axis = 1;
  static void fields(auto& p, auto& codec) { codec("axis", p.axis); }
  bool operator==(const FlattenParams&) const = default;
};

/// squeeze, unsqueeze.
struct AxesParams {
  IntList axes = {};
  static void fields(auto& p, auto& codec) { codec("axes", p.axes); }
  bool operator==(const AxesParams&) const = default;
};

struct SliceParams {
  IntList starts = {}, ends = {};
  IntList axes = {}, steps = {};  // empty: all in order; 1 each
  static void fields(auto& p, auto& codec) {
    codec("starts", p.starts);
    codec("ends", p.ends);
    codec("axes", p.axes);
    codec("steps", p.steps);
  }
  bool operator==(const SliceParams&) const = default;
};

struct SplitParams {
  std::int64_t axis = 0;
  IntList sizes = {};  // empty: equal parts
  static void fields(auto& p, auto& codec) {
    codec("axis", p.axis);
    codec("sizes", p.sizes);
  }
  bool operator==(const SplitParams&) const = default;
};

struct PadParams {
  IntList pads = {};  // empty: none
  std::string mode = "constant";
  double value = 0;
  static void fields(auto& p, auto& codec) {
    codec("pads", p.pads);
    codec("mode", p.mode);
    codec("value", p.value);
  }
  bool operator==(const PadParams&) const = default;
};

struct GatherParams {
  std::int64_t axis = 0;
  IntList indices = {}, index_dims = {};
  static void fields(auto& p, auto& codec) {
    codec("axis", p.axis);
    codec("indices", p.indices);
    codec("index_dims", p.index_dims);
  }
  bool operator==(const GatherParams&) const = default;
};

struct TileParams {
  IntList repeats = {};  // empty: 1 each
  static void fields(auto& p, auto& codec) { codec("repeats", p.repeats); }
  bool operator==(const TileParams&) const = default;
};

struct ExpandParams {
  IntList shape = {};
  static void fields(auto& p, auto& codec) { codec("shape", p.shape); }
  bool operator==(const ExpandParams&) const = default;
};

struct ResizeParams {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor";
  std::vector<double> scales = {};  // one per dim, or empty
  IntList sizes = {};               // one per dim (-1: by its scale), or empty
  static void fields(auto& p, auto& codec) {
    codec("mode", p.mode);
    codec("coordinates", p.coordinates);
    codec("nearest", p.nearest);
    codec.unless_empty("scales", p.scales);
    codec.unless_empty("sizes", p.sizes);
  }
  bool operator==(const ResizeParams&) const = default;
};

struct BlocksParams {
  std::string form = {};
  std::int64_t size = 0;
  static void fields(auto& p, auto& codec) {
    codec("form", p.form);
    codec("size", p.size);
  }
  bool operator==(const BlocksParams&) const = default;
};

struct LowBitMatmulParams {
  std::int64_t k = 0, n = 0, bits = 4, block = 32;
  std::string zeros = "middle", compute = "float";
  /// Of a matrix that a compile quantised: the root of the mean squared difference from what it was,
  /// over that of its elements.
  std::optional<double> weight_error = {};
  static void fields(auto& p, auto& codec) {
    codec("k", p.k);
    codec("n", p.n);
    codec("bits", p.bits);
    codec("block", p.block);
    codec("zeros", p.zeros);
    codec("compute", p.compute);
    codec("weight_error", p.weight_error);
  }
  bool operator==(const LowBitMatmulParams&) const = default;
};

/// The matrix is multiplied in f32; weight_error is not used.
struct LowBitConvParams {
  LowBitMatmulParams matrix = {};
  IntList kernel = {};
  WindowParams window = {};
  static void fields(auto& p, auto& codec) {
    LowBitMatmulParams::fields(p.matrix, codec);
    codec("kernel", p.kernel);
    WindowParams::fields(p.window, codec);
  }
  bool operator==(const LowBitConvParams&) const = default;
};

struct LowBitLookupParams {
  std::int64_t k = 0, n = 0, bits = 4, block = 32;
  std::string zeros = "middle";
  static void fields(auto& p, auto& codec) {
    codec("k", p.k);
    codec("n", p.n);
    codec("bits", p.bits);
    codec("block", p.block);
    codec("zeros", p.zeros);
  }
  bool operator==(const LowBitLookupParams&) const = default;
};

struct AttentionParams {
  std::int64_t heads = 0, kv_heads = 0, window = 0;
  double scale = 0, softcap = 0;
  bool causal = false, smooth = false, short_bias = false, long_bias = false, finite_causal = false;
  std::string lengths = "", rotary = "";
  IntList total = {};
  std::vector<double> sinks = {};
  std::optional<double> mask_value = {};  // the bias is a mask of keys
  std::vector<double> q_norm = {}, k_norm = {};
  std::optional<double> norm_epsilon = {};
  std::optional<std::int64_t> cache_bits =
      {};  // of the integers in pasts and presents; none: floats
  std::optional<std::int64_t> same_rows = {};  // 1: as many new keys as queries, or a run fails
  std::optional<std::int64_t> bottom_right =
      {};  // 1: causal, and the last query is at the last key
  std::vector<double> k_scales = {}, v_scales = {};  // one, or one for each element of each head
  std::optional<std::int64_t> cap_sum = {};          // 1: the cap is over product and bias
  std::string logits = "";  // the stage of the last output; empty: it is not one
  /// Of pasts and presents.
  [[nodiscard]] DataType cache_type() const {
    if (!cache_bits) return DataType::kFloat;
    return *cache_bits == 4 ? DataType::kUint8 : DataType::kInt8;
  }
  static void fields(auto& p, auto& codec) {
    codec("heads", p.heads);
    codec("kv_heads", p.kv_heads);
    codec("window", p.window);
    codec("scale", p.scale);
    codec("softcap", p.softcap);
    codec("causal", p.causal);
    codec("smooth", p.smooth);
    codec("short_bias", p.short_bias);
    codec("long_bias", p.long_bias);
    codec("finite_causal", p.finite_causal);
    codec("lengths", p.lengths);
    codec("rotary", p.rotary);
    codec("total", p.total);
    codec.unless_empty("sinks", p.sinks);
    codec("mask_value", p.mask_value);
    codec.unless_empty("q_norm", p.q_norm);
    codec.unless_empty("k_norm", p.k_norm);
    codec("norm_epsilon", p.norm_epsilon);
    codec("cache_bits", p.cache_bits);
    codec("same_rows", p.same_rows);
    codec("bottom_right", p.bottom_right);
    codec.unless_empty("k_scales", p.k_scales);
    codec.unless_empty("v_scales", p.v_scales);
    codec("cap_sum", p.cap_sum);
    codec.unless_empty("logits", p.logits);
  }
  bool operator==(const AttentionParams&) const = default;
};

struct ByteMatmulParams {
  std::int64_t k = 0, n = 0;
  bool zeros = false;
  std::optional<std::int64_t> limits = {};  // 1: the packed matrix has limits
  std::optional<double> out_scale = {};     // where the result is 8-bit
  std::optional<std::int64_t> out_zero = {};
  static void fields(auto& p, auto& codec) {
    codec("k", p.k);
    codec("n", p.n);
    codec("zeros", p.zeros);
    codec("limits", p.limits);
    codec("out_scale", p.out_scale);
    codec("out_zero", p.out_zero);
  }
  bool operator==(const ByteMatmulParams&) const = default;
};

struct ByteConvParams {
  ByteMatmulParams matrix = {};
  IntList kernel = {};
  WindowParams window = {};
  std::optional<std::int64_t> group = {};  // n: each result sees one channel
  static void fields(auto& p, auto& codec) {
    ByteMatmulParams::fields(p.matrix, codec);
    codec("kernel", p.kernel);
    WindowParams::fields(p.window, codec);
    codec("group", p.group);
  }
  bool operator==(const ByteConvParams&) const = default;
};

struct RnnParams {
  std::string cell = {};
  std::string direction = "forward";
  static void fields(auto& p, auto& codec) {
    codec("cell", p.cell);
    codec("direction", p.direction);
  }
  bool operator==(const RnnParams&) const = default;
};

struct ByteLstmParams {
  std::int64_t inputs = 0, units = 0;
  bool weight_zeros = false, recurrent_zeros = false;
  std::optional<std::int64_t> limits = {};  // 1: the packed weights have limits
  std::string direction = "forward";
  static void fields(auto& p, auto& codec) {
    codec("inputs", p.inputs);
    codec("units", p.units);
    codec("weight_zeros", p.weight_zeros);
    codec("recurrent_zeros", p.recurrent_zeros);
    codec("limits", p.limits);
    codec("direction", p.direction);
  }
  bool operator==(const ByteLstmParams&) const = default;
};

struct LinearAttentionParams {
  std::int64_t heads = 0, states = 0;
  double scale = 0;
  static void fields(auto& p, auto& codec) {
    codec("heads", p.heads);
    codec("states", p.states);
    codec("scale", p.scale);
  }
  bool operator==(const LinearAttentionParams&) const = default;
};

struct CausalConvParams {
  bool swish = false;
  static void fields(auto& p, auto& codec) { codec("swish", p.swish); }
  bool operator==(const CausalConvParams&) const = default;
};

struct DefaultsParams {
  IntList inputs = {}, high = {}, low = {};
  static void fields(auto& p, auto& codec) {
    codec("inputs", p.inputs);
    codec("high", p.high);
    codec("low", p.low);
  }
  bool operator==(const DefaultsParams&) const = default;
};

}  // namespace ctxgen::onednn
