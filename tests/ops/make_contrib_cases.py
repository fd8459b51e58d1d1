"""Writes tests/ops/data: single-node models of com.microsoft and ai.onnx.ml operators with the outputs
that ONNX Runtime gives (numpy, in numpy_cases.py), in the layout of ONNX's backend test data. Run by hand when a case is added:

    ./dev python3 tests/ops/make_contrib_cases.py
"""
import pathlib
import shutil

import numpy as np
import numpy_cases
import onnxruntime
import value_cases
from onnx import helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "data"
MS, ML = "com.microsoft", "ai.onnx.ml"
rng = np.random.default_rng(7)


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def case(name, domain, op, inputs, outputs=1, version=17, **attributes):
    """inputs: arrays, None where absent; outputs: a count, or a list with "" for absent ones."""
    outputs = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    given = [(n, np.asarray(x)) for n, x in zip(names, inputs) if n]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given]
    wanted = [o for o in outputs if o]
    results = [helper.make_empty_tensor_value_info(o) for o in wanted]
    opsets = [helper.make_opsetid("", version)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 3 if domain == ML else 1))
    graph = helper.make_graph([node], name, infos, results)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(wanted, dict(given))
    for info, value in zip(graph.output, values):
        info.CopyFrom(helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    data = FOLDER / name / "test_data_set_0"
    data.mkdir(parents=True)
    (FOLDER / name / "model.onnx").write_bytes(model.SerializeToString())
    for kind, tensors in (("input", [x for _, x in given]), ("output", values)):
        for i, x in enumerate(tensors):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(x)).SerializeToString())


def fused_cases():
    x, w, b = f32(1, 3, 5, 5), f32(4, 3, 3, 3), f32(4)
    case("fused_conv_relu", MS, "FusedConv", [x, w, b], activation="Relu", pads=[1, 1, 1, 1])
    case("fused_conv_clip", MS, "FusedConv", [x, w, b], activation="Clip", activation_params=[-0.5, 0.5])
    case("fused_conv_sum", MS, "FusedConv", [x, w, b, f32(1, 4, 3, 3)], activation="Relu")
    a, b, c = f32(3, 4), f32(5, 4), f32(5)
    case("fused_gemm_leaky", MS, "FusedGemm", [a, b, c], transB=1, activation="LeakyRelu", activation_alpha=0.2)
    case("fused_gemm_relu", MS, "FusedGemm", [a, b, c], transB=1, alpha=0.5, beta=2.0, activation="Relu")


def gelu_cases():
    x, b = f32(2, 3, 8), f32(8)
    case("gelu", MS, "Gelu", [x])
    case("bias_gelu", MS, "BiasGelu", [x, b])
    case("fast_gelu", MS, "FastGelu", [x])
    case("fast_gelu_bias", MS, "FastGelu", [x, b])
    case("quick_gelu", MS, "QuickGelu", [x], alpha=1.3)


def norm_cases():
    x, skip, g, b, bias = f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)
    case("skip_layer_norm", MS, "SkipLayerNormalization", [x, skip, g, b], epsilon=1e-5)
    case("skip_layer_norm_sum", MS, "SkipLayerNormalization", [x, skip, g, b, bias], ["y", "", "", "s"], epsilon=1e-5)
    case("skip_layer_norm_repeat", MS, "SkipLayerNormalization", [x, f32(1, 3, 8), g, b], epsilon=1e-5)
    case("skip_simplified_layer_norm", MS, "SkipSimplifiedLayerNormalization", [x, skip, g], ["y", "", "", "s"], epsilon=1e-5)
    case("simplified_layer_norm", "", "SimplifiedLayerNormalization", [x, g], axis=-1, epsilon=1e-5)
    ids = rng.integers(0, 10, (2, 4)).astype(np.int32)
    segments = rng.integers(0, 2, (2, 4)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    tables = [f32(10, 8), f32(6, 8), f32(2, 8)]
    case("embed_layer_norm", MS, "EmbedLayerNormalization", [ids, segments, *tables, g, b, mask], 2)
    case("embed_layer_norm_positions", MS, "EmbedLayerNormalization",
         [ids, None, tables[0], tables[1], None, g, b, None, np.array([[1, 0, 3, 2]], np.int32)], 2)


def attention_cases():
    x, w, b = f32(2, 3, 8), f32(8, 24, scale=0.5), f32(24)
    case("attention", MS, "Attention", [x, w, b], num_heads=2)
    case("attention_causal", MS, "Attention", [x, w, b], num_heads=2, unidirectional=1)
    case("attention_lengths", MS, "Attention", [x, w, b, np.array([3, 2], np.int32)], num_heads=2)
    case("attention_mask", MS, "Attention", [x, w, b, np.array([[1, 1, 0], [0, 1, 1]], np.int32)], num_heads=2)
    past = f32(2, 2, 2, 4, 4)
    case("attention_past", MS, "Attention", [x, w, b, np.ones((2, 7), np.int32), past], 2, num_heads=2, unidirectional=1)
    case("attention_dummy_mask", MS, "Attention", [x, w, b, np.zeros((2, 1), np.int32), past], 2, num_heads=2)
    cos, sin = np.cos(f32(16, 8)), np.sin(f32(16, 8))
    q, k, v = f32(1, 5, 64), f32(1, 5, 32), f32(1, 5, 32)
    empty = np.zeros((1, 2, 0, 16), np.float32)
    heads = dict(num_heads=4, kv_num_heads=2)
    n = lambda value: np.array([value], np.int32)
    case("gqa_prompt", MS, "GroupQueryAttention", [q, k, v, empty, empty, n(4), n(5)], 3, **heads)
    case("gqa_rotary", MS, "GroupQueryAttention", [q, k, v, empty, empty, n(4), n(5), cos, sin], 3, do_rotary=1, **heads)
    past = f32(1, 2, 6, 16), f32(1, 2, 6, 16)
    one = f32(1, 1, 64), f32(1, 1, 32), f32(1, 1, 32)
    case("gqa_step", MS, "GroupQueryAttention", [*one, *past, n(6), n(7), cos, sin], 3, do_rotary=1, rotary_interleaved=1, **heads)
    case("gqa_packed_window", MS, "GroupQueryAttention", [f32(1, 5, 128), None, None, empty, empty, n(4), n(5)], 3,
         local_window_size=2, softcap=5.0, **heads)


def quantized_cases():
    scale = lambda x: np.array(x, np.float32)
    zero = lambda x: np.array(x, np.uint8)
    a = [u8(2, 3, 4, 4), scale(0.02), zero(120)]
    out = [scale(0.03), zero(110)]
    case("qlinear_add", MS, "QLinearAdd", a + [u8(3, 1, 1), scale(0.04), zero(90)] + out)
    case("qlinear_mul", MS, "QLinearMul", a + [u8(2, 3, 4, 4), scale(0.04), zero(90)] + out)
    case("qlinear_sigmoid", MS, "QLinearSigmoid", a + [scale(1 / 256), zero(0)])
    case("qlinear_leaky_relu", MS, "QLinearLeakyRelu", a + out, alpha=0.1)
    case("qlinear_average_pool", MS, "QLinearAveragePool", a + out, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("qlinear_average_pool_pad", MS, "QLinearAveragePool", a + out, kernel_shape=[2, 2], pads=[1, 1, 0, 0],
         count_include_pad=1)
    case("qlinear_average_pool_last", MS, "QLinearAveragePool", a + out, kernel_shape=[2, 2], channels_last=1)
    case("qlinear_global_average_pool", MS, "QLinearGlobalAveragePool", a + out)
    case("qlinear_softmax", MS, "QLinearSoftmax", [i8(3, 10), scale(0.1), np.array(3, np.int8), scale(1 / 256), np.array(-128, np.int8)],
         opset=13)
    case("quantize_linear_ms", MS, "QuantizeLinear", [f32(3, 4), scale(0.02), zero(128)])
    case("dequantize_linear_ms", MS, "DequantizeLinear", [u8(3, 4), scale(0.02), zero(128)])


def tree_cases():
    trees = dict(
        nodes_treeids=[0] * 5 + [1] * 3, nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[0, 1, 0, 0, 0, 2, 0, 0], nodes_values=[0.1, -0.2, 0, 0, 0, 0.0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 3, 0, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 0, 0])
    x = f32(6, 3)
    target = dict(target_treeids=[0, 0, 0, 1, 1], target_nodeids=[2, 3, 4, 1, 2], target_ids=[0] * 5,
                  target_weights=[1.0, -2.0, 3.0, 0.5, 0.25], n_targets=1)
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        case(f"tree_regressor_{aggregate.lower()}", ML, "TreeEnsembleRegressor", [x], aggregate_function=aggregate,
             **(dict(base_values=[0.5]) if aggregate == "SUM" else {}), **trees, **target)
    votes = dict(class_treeids=[0, 0, 0, 1, 1], class_nodeids=[2, 3, 4, 1, 2], class_weights=[1.0, -2.0, 3.0, 0.5, 0.25])
    case("tree_classifier_three", ML, "TreeEnsembleClassifier", [x], 2, class_ids=[0, 1, 2, 1, 0], classlabels_int64s=[5, 6, 7],
         post_transform="SOFTMAX", **trees, **votes)
    case("tree_classifier_binary", ML, "TreeEnsembleClassifier", [x], 2, class_ids=[0] * 5, classlabels_strings=["no", "yes"],
         post_transform="LOGISTIC", **trees, **votes)


def old_opset_cases():
    x = f32(1, 2, 6, 6)
    case("average_pool_ceil_old", "", "AveragePool", [x], version=10, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1,
         pads=[1, 1, 1, 1], count_include_pad=1)
    case("global_lp_pool", "", "GlobalLpPool", [x], p=3)
    case("resize_10", "", "Resize", [x, np.array([1, 1, 1.5, 2], np.float32)], version=10, mode="linear")
    case("resize_11_cubic", "", "Resize", [x, np.zeros(0, np.float32), np.array([1, 1, 0.7, 2], np.float32)], version=11, mode="cubic")
    case("upsample_9", "", "Upsample", [x, np.array([1, 1, 2, 3], np.float32)], version=9, mode="nearest")
    case("batch_norm_9", "", "BatchNormalization", [x, f32(2), f32(2), f32(2), np.abs(f32(2))], version=9)
    case("scatter_10", "", "Scatter", [f32(3, 3), np.array([[0, 2, 1]], np.int64), f32(1, 3)], version=10, axis=0)
    case("conv_transpose_same", "", "ConvTranspose", [x, f32(2, 3, 3, 3)], auto_pad="SAME_UPPER", strides=[2, 2])
    case("conv_transpose_groups", "", "ConvTranspose", [x, f32(2, 2, 3, 2), f32(4)], group=2, strides=[2, 1], output_padding=[1, 0])
    case("conv_same_lower", "", "Conv", [x, f32(4, 1, 4, 4), f32(4)], group=2, auto_pad="SAME_LOWER", dilations=[1, 1], strides=[2, 2])
    lstm = [f32(5, 2, 3), f32(2, 16, 3), f32(2, 16, 4), f32(2, 32), np.array([5, 3], np.int32), f32(2, 2, 4), f32(2, 2, 4), f32(2, 12)]
    case("lstm_bidirectional", "", "LSTM", lstm, 3, hidden_size=4, direction="bidirectional")
    gru = [f32(5, 2, 3), f32(1, 12, 3), f32(1, 12, 4), f32(1, 24)]
    case("gru_linear_reverse", "", "GRU", gru, 2, hidden_size=4, linear_before_reset=1, direction="reverse", clip=0.8)
    case("gru_plain", "", "GRU", gru, 2, hidden_size=4)


def image_cases():
    x = f32(2, 3, 9, 8)
    rois = np.array([[0, 0, 0, 7, 8], [1, 2, 3, 5, 4], [0, -3, -3, 20, 20], [1, 6, 6, 2, 2]], np.float32)
    case("max_roi_pool", "", "MaxRoiPool", [x, rois], pooled_shape=[3, 2])
    case("max_roi_pool_scaled", "", "MaxRoiPool", [x, rois], pooled_shape=[2, 2], spatial_scale=0.5)
    case("roi_align_10", "", "RoiAlign", [x, rois[:, 1:], rois[:, 0].astype(np.int64)], version=10, output_height=2, output_width=3,
         sampling_ratio=2, spatial_scale=0.8)
    grid = f32(2, 4, 5, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            case(f"grid_sample_{mode}_{padding}", "", "GridSample", [x, grid], mode=mode, padding_mode=padding)
    case("dft_17", "", "DFT", [f32(2, 3, 7, 1)], axis=2, onesided=1)


def random_cases():
    """Only type and shape of their outputs are compared."""
    case("random_uniform", "", "RandomUniform", [], shape=[2, 3], low=-1.0, high=2.0, seed=3.0)
    case("random_normal", "", "RandomNormal", [], shape=[4], dtype=11)
    case("random_uniform_like", "", "RandomUniformLike", [np.zeros((2, 2), np.int32)], dtype=1)
    case("random_normal_like", "", "RandomNormalLike", [f32(3)])
    case("multinomial", "", "Multinomial", [f32(2, 5)], sample_size=7, dtype=7)


def feature_cases():
    x = f32(4, 3)
    case("scaler", ML, "Scaler", [x], offset=[0.5, -1.0, 0.0], scale=[2.0, 1.0, 0.25])
    case("scaler_ints", ML, "Scaler", [np.array([[1, 5], [7, 2]], np.int64)], offset=[1.0], scale=[0.5])
    for norm in ("MAX", "L1", "L2"):
        case(f"normalizer_{norm.lower()}", ML, "Normalizer", [np.abs(x) + 0.1], norm=norm)
    holes = x.copy()
    holes[1, 1] = holes[2, 0] = np.nan
    case("imputer_nan", ML, "Imputer", [holes], imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    case("imputer_ints", ML, "Imputer", [np.array([[1, -1, 3]], np.int64)], imputed_value_int64s=[9], replaced_value_int64=-1)
    case("array_feature_extractor", ML, "ArrayFeatureExtractor", [x, np.array([2, 0], np.int64)])
    case("array_feature_extractor_row", ML, "ArrayFeatureExtractor", [x[0], np.array([1], np.int64)])
    case("feature_vectorizer", ML, "FeatureVectorizer", [x, f32(4, 2)], inputdimensions=[3, 2])
    case("one_hot_encoder", ML, "OneHotEncoder", [np.array([[3, 1], [7, 2]], np.int64)], cats_int64s=[1, 2, 3])
    case("one_hot_encoder_text", ML, "OneHotEncoder", [np.array(["b", "x", "a"])], cats_strings=["a", "b"])


def linear_cases():
    x = f32(5, 3)
    weights = [float(w) for w in f32(9)]
    case("linear_regressor", ML, "LinearRegressor", [x], coefficients=weights[:6], intercepts=[0.5, -1.0], targets=2)
    case("linear_regressor_softmax", ML, "LinearRegressor", [x], coefficients=weights, targets=3, post_transform="SOFTMAX")
    case("linear_classifier_three", ML, "LinearClassifier", [x], 2, coefficients=weights, intercepts=[0.1, 0.2, -0.3],
         classlabels_ints=[4, 5, 6], post_transform="SOFTMAX")
    case("linear_classifier_none", ML, "LinearClassifier", [x], 2, coefficients=weights, intercepts=[0.1, 0.2, -0.3],
         classlabels_strings=["a", "b", "c"])
    case("linear_classifier_two", ML, "LinearClassifier", [x], 2, coefficients=weights[:6], intercepts=[0.3, -0.3],
         classlabels_ints=[0, 1], post_transform="LOGISTIC")
    for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
        case(f"linear_classifier_one_row_{transform.lower()}", ML, "LinearClassifier", [x], 2, coefficients=weights[:3], intercepts=[0.3],
             classlabels_strings=["no", "yes"], post_transform=transform)
    vectors = dict(support_vectors=[float(v) for v in f32(12)], coefficients=[0.5, -1.0, 0.25, 2.0], n_supports=4, rho=[0.1])
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        case(f"svm_regressor_{kind.lower()}", ML, "SVMRegressor", [x], kernel_type=kind, kernel_params=[0.5, 0.25, 3.0], **vectors)
    case("svm_regressor_one_class", ML, "SVMRegressor", [x], one_class=1, kernel_type="RBF", kernel_params=[0.5, 0.0, 0.0], **vectors)


def product_cases():
    a, b = f32(2, 3, 4), f32(2, 5, 4)
    case("fused_matmul", MS, "FusedMatMul", [a, b], transB=1, alpha=0.5)
    case("fused_matmul_a", MS, "FusedMatMul", [f32(4, 3), f32(4, 2)], transA=1)
    bits = lambda k, n, zeros: dict(K=k, N=n, bits=4, block_size=16)
    packed, scales = u8(6, 2, 8), np.abs(f32(6, 2, scale=0.1)) + 0.01
    case("matmul_nbits", MS, "MatMulNBits", [f32(3, 32), packed, scales.reshape(-1)], **bits(32, 6, False))
    case("matmul_nbits_zeros", MS, "MatMulNBits", [f32(2, 3, 24), packed, scales.reshape(-1), u8(6)], **bits(24, 6, True))
    w, wide = i8(4, 5), f32(3, 4)
    scale, zero = np.array([0.02], np.float32), np.array([3], np.int8)
    case("dynamic_quantize_matmul", MS, "DynamicQuantizeMatMul", [wide, w, scale, zero, f32(5)])
    case("matmul_integer_to_float", MS, "MatMulIntegerToFloat",
         [u8(3, 4), w, np.float32(0.1), np.abs(f32(5, scale=0.05)) + 0.01, np.uint8(120), i8(5), f32(5)])
    one = lambda x, t: np.array(x, t)
    case("qattention", MS, "QAttention",
         [u8(1, 3, 8), i8(8, 24), f32(24), one(0.02, np.float32), one(0.01, np.float32), None, one(128, np.uint8), one(2, np.int8)],
         num_heads=2)
    case("qlinear_concat", MS, "QLinearConcat",
         [one(0.05, np.float32), one(100, np.uint8), u8(2, 3), one(0.02, np.float32), one(120, np.uint8), u8(2, 2),
          one(0.04, np.float32), one(0, np.uint8)], axis=1)


def multi_head_cases():
    q, k, v = f32(2, 3, 8), f32(2, 4, 8), f32(2, 4, 8)
    case("multi_head", MS, "MultiHeadAttention", [q, k, v], num_heads=2)
    case("multi_head_bias", MS, "MultiHeadAttention", [q, k, v, f32(24)], num_heads=2, scale=0.3)
    case("multi_head_mask", MS, "MultiHeadAttention",
         [q, k, v, None, np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32), f32(1, 2, 3, 4)], num_heads=2)
    past = f32(2, 2, 5, 4), f32(2, 2, 5, 4)
    case("multi_head_past", MS, "MultiHeadAttention", [q, f32(2, 3, 8), f32(2, 3, 8), None, None, None, *past], 3, num_heads=2,
         unidirectional=1)
    case("multi_head_cross", MS, "MultiHeadAttention", [q, f32(2, 2, 4, 4), f32(2, 2, 4, 4)], num_heads=2)
    cos, sin = np.cos(f32(10, 4)), np.sin(f32(10, 4))
    case("rotary_ms", MS, "RotaryEmbedding", [f32(2, 3, 16), np.array([2], np.int64), cos, sin])
    case("rotary_ms_positions", MS, "RotaryEmbedding", [f32(2, 2, 3, 8), np.array([[0, 5, 9], [1, 1, 2]], np.int64), cos, sin],
         interleaved=1)
    case("rotary_ms_partial", MS, "RotaryEmbedding", [f32(1, 3, 24), np.array([0], np.int64), cos, sin], num_heads=2,
         rotary_embedding_dim=8)


def dropped_cases():
    """Experimental operators that ONNX dropped; ONNX Runtime still takes them."""
    x = np.linspace(-1.5, 2, 6, dtype=np.float32).reshape(2, 3)
    image = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) - 7
    case("affine", "", "Affine", [x], version=8, alpha=2.0, beta=1.0)
    case("crop", "", "Crop", [image], version=8, border=[1, 1, 2, 0])
    case("crop_with_scale", "", "Crop", [image], version=8, border=[1, 1, 0, 0], scale=[1, 3])
    case("image_scaler", "", "ImageScaler", [image], version=8, scale=2.0, bias=[1.0, -3.0])
    case("parametric_softplus", "", "ParametricSoftplus", [x], version=8, alpha=2.0, beta=0.5)
    case("scale", "", "Scale", [x], version=8, scale=3.0)
    case("scaled_tanh", "", "ScaledTanh", [x], version=8, alpha=2.0, beta=0.5)


def table_cases():
    """Tables that are quantised in blocks of their rows: an even number, for which rows of zero points need no filling (before 1.24)."""
    ids = np.array([[0, 6, -1], [3, 3, -7]], np.int64)
    for bits in (4, 8):
        width, blocks = 56, 4
        table, scales = u8(7, width * bits // 8), np.abs(f32(7, blocks, scale=0.1)) + 0.01
        case(f"gather_block_quantized_{bits}", MS, "GatherBlockQuantized", [table, ids, scales], bits=bits, block_size=16)
        case(f"gather_block_quantized_{bits}_zeros", MS, "GatherBlockQuantized", [table, ids, scales, u8(7, (blocks * bits + 7) // 8)],
             bits=bits, block_size=16)


def lstm_cases():
    """One sequence, as several threads of ONNX Runtime round the states of a batch apart; uint8 weights, as it saturates products of int8 ones on
    processors without VNNI."""
    states = [f32(1, 1, 4, scale=0.3), f32(1, 1, 4, scale=0.3)]
    steps = [np.full(1, 0.01, np.float32), np.full(1, 128, np.uint8)] * 2
    case("dynamic_quantize_lstm", MS, "DynamicQuantizeLSTM",
         [f32(5, 1, 3), u8(1, 3, 16), u8(1, 4, 16), f32(1, 32), None, *states, None, *steps], 3, hidden_size=4)
    scales = np.abs(f32(2, 16, scale=0.01)) + 0.001, np.full((2, 16), 121, np.uint8)
    case("dynamic_quantize_lstm_bidirectional", MS, "DynamicQuantizeLSTM",
         [f32(4, 1, 3), u8(2, 3, 16), u8(2, 4, 16), *[None] * 5, *scales, *scales], 3, hidden_size=4, direction="bidirectional")


def byte_cases():
    one = lambda x, t: np.array(x, t)
    mask = np.array([[1, 1, 0], [0, 1, 1]], np.int32)
    case("qattention_mask", MS, "QAttention",
         [u8(2, 3, 8), i8(8, 24), f32(24), one(0.02, np.float32), np.abs(f32(24, scale=0.01)) + 0.001, mask, one(128, np.uint8), i8(24) * 0],
         num_heads=4, unidirectional=1)
    steps = [one(0.02, np.float32), one(128, np.uint8)], [one(0.01, np.float32), one(3, np.int8)]
    counts = rng.integers(-2000, 2000, 5).astype(np.int32)
    case("qgemm", MS, "QGemm", [u8(3, 8), *steps[0], i8(8, 5), *steps[1], counts, one(0.3, np.float32), one(120, np.uint8)])
    case("qgemm_transposed", MS, "QGemm",
         [u8(8, 3), *steps[0], i8(5, 8), np.abs(f32(5, scale=0.01)) + 0.001, i8(5) * 0, None], alpha=0.5, transA=1, transB=1)


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for cases in (fused_cases, gelu_cases, norm_cases, attention_cases, quantized_cases, tree_cases, old_opset_cases, image_cases,
                  random_cases, feature_cases, linear_cases, product_cases, multi_head_cases, dropped_cases, table_cases,
                  byte_cases, lstm_cases):
        cases()
    value_cases.write(FOLDER)
    numpy_cases.write(FOLDER)
    print(len(list(FOLDER.iterdir())), "cases")
