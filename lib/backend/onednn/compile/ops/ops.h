#pragma once

#include "../node_view.h"
#include "../program_builder.h"

/// The check and lower functions of all families; op_table.cpp makes rows of them.
namespace ctxgen::onednn {

using CheckFunction = Refusal(const NodeView& n);
using LowerFunction = Status(const NodeView& n, ProgramBuilder& builder);

// conv.cpp
CheckFunction check_conv;
LowerFunction lower_conv;
/// What lower_conv does, into `result`, which need not be the node's output.
Status emit_conv(const NodeView& n, ProgramBuilder& builder, std::uint32_t result);

// deconv.cpp
CheckFunction check_deconv;
LowerFunction lower_deconv;

// resize.cpp
CheckFunction check_resize;
LowerFunction lower_resize;

// index.cpp
CheckFunction check_pad, check_gather, check_tile, check_expand, check_blocks;
LowerFunction lower_pad, lower_gather, lower_tile, lower_expand, lower_blocks;

// reduce.cpp
CheckFunction check_reduce;
LowerFunction lower_reduce;

// group_norm.cpp
CheckFunction check_group_norm, check_rms_norm;
LowerFunction lower_group_norm, lower_rms_norm;

// rnn.cpp
CheckFunction check_rnn;
LowerFunction lower_rnn;

// matmul.cpp
CheckFunction check_gemm, check_matmul;
LowerFunction lower_gemm, lower_matmul;
/// What lower_gemm does, into `result`, which need not be the node's output.
Status emit_gemm(const NodeView& n, ProgramBuilder& builder, std::uint32_t result);

// contrib.cpp
CheckFunction check_fused_conv, check_fused_gemm, check_fused_matmul, check_bias_gelu;
CheckFunction check_skip_layer_norm, check_skip_rms_norm;
LowerFunction lower_fused_conv, lower_fused_gemm, lower_fused_matmul, lower_bias_gelu;
LowerFunction lower_skip_layer_norm, lower_skip_rms_norm;

// pool.cpp
CheckFunction check_max_pool, check_average_pool, check_global_pool;
LowerFunction lower_max_pool, lower_average_pool, lower_global_pool;

// norm.cpp
CheckFunction check_batch_norm, check_lrn, check_layer_norm;
LowerFunction lower_batch_norm, lower_lrn, lower_layer_norm;

// activation.cpp
CheckFunction check_activation, check_prelu;
LowerFunction lower_activation, lower_prelu;

// clip.cpp
CheckFunction check_clip_attributes, check_clip_inputs;
LowerFunction lower_clip_attributes, lower_clip_inputs;

// binary.cpp
CheckFunction check_binary, check_variadic, check_pow, check_where;
LowerFunction lower_binary, lower_variadic, lower_pow, lower_where;

// softmax.cpp
CheckFunction check_softmax, check_softmax_flattened;
LowerFunction lower_softmax, lower_softmax_flattened;

// reshape.cpp
CheckFunction check_reshape, check_flatten, check_squeeze, check_unsqueeze, check_identity;
CheckFunction check_dropout;
LowerFunction lower_reshape, lower_flatten, lower_squeeze, lower_unsqueeze, lower_identity;

// move.cpp
CheckFunction check_transpose, check_concat, check_slice, check_split;
LowerFunction lower_transpose, lower_concat, lower_slice, lower_split;

// scatter.cpp
CheckFunction check_scatter;
LowerFunction lower_scatter;

// sized_slice.cpp
CheckFunction check_sized_slice;
LowerFunction lower_sized_slice;

// attention.cpp
CheckFunction check_attention, check_multi_head;
LowerFunction lower_attention, lower_multi_head;

// projected_attention.cpp
CheckFunction check_projected_attention;
LowerFunction lower_projected_attention;

// group_query.cpp
CheckFunction check_group_query;
LowerFunction lower_group_query;

// recurrence.cpp
CheckFunction check_linear_attention, check_causal_conv;
LowerFunction lower_linear_attention, lower_causal_conv;

// low_bit.cpp
CheckFunction check_matmul_nbits, check_gather_blocks;
LowerFunction lower_matmul_nbits, lower_gather_blocks;

// bytes.cpp
CheckFunction check_dynamic_quantize, check_byte_matmul, check_byte_conv,
    check_matmul_integer_to_float, check_dynamic_quantize_matmul, check_qattention, check_qgemm;
LowerFunction lower_dynamic_quantize, lower_byte_matmul, lower_byte_conv,
    lower_matmul_integer_to_float, lower_dynamic_quantize_matmul, lower_qattention, lower_qgemm;

// quantize.cpp
CheckFunction check_quantize, check_dequantize, check_cast;
LowerFunction lower_quantize, lower_dequantize, lower_cast;

// qlinear.cpp
CheckFunction check_qlinear_conv, check_qlinear_matmul, check_conv_integer, check_matmul_integer;
LowerFunction lower_qlinear_conv, lower_qlinear_matmul, lower_conv_integer, lower_matmul_integer;
/// Whether oneDNN has a fast integer product for a MatMulInteger or ConvInteger of constant zero points.
[[nodiscard]] bool runs_matmul_on_onednn(const NodeView& n);
[[nodiscard]] bool runs_conv_on_onednn(const NodeView& n);

// qlinear_pointwise.cpp
CheckFunction check_qlinear_binary, check_qlinear_activation, check_qlinear_softmax;
CheckFunction check_qlinear_pool;
LowerFunction lower_qlinear_binary, lower_qlinear_activation, lower_qlinear_softmax;
LowerFunction lower_qlinear_pool;

}  // namespace ctxgen::onednn
