"""Small models that go beyond the ONNX standard, one for each name in docs/import.md."""

import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
F32, I64 = np.float32, np.int64
X = np.array([[-1.5, 0.25, 2], [3, -0.5, 1]], F32)
IMAGE = np.arange(24, dtype=F32).reshape(1, 2, 3, 4) - 7


@dataclasses.dataclass
class Case:
    """`expected`: the only output (None: any), or the code of the error."""

    model: object
    inputs: dict
    expected: object
    onnxruntime: bool = True  # whether ONNX Runtime 1.23 takes it, too


CASES = {}


def value(name, element=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, element, shape)


def model(nodes, inputs, outputs, constants=None, opset=18, ir=8, functions=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)) for name, array in inputs.items()],
        outputs,
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir, functions=list(functions))


def case(name, proto, inputs, expected, **more):
    assert name not in CASES
    CASES[name] = Case(proto, inputs, expected, **more)


def node(name, op, expected, constants=None, x=X, opset=18, element=FLOAT, inputs=None, more=None, runtime=False, **attributes):
    """One node over x and constants. `runtime`: the constants are inputs of unknown shape, where no shape inference sees them."""
    constants = {key: np.asarray(array) for key, array in (constants or {}).items()}
    inputs = inputs or ["x", *constants]
    given = {"x": x} if "x" in inputs else {}
    proto = model([helper.make_node(op, inputs, ["y"], **attributes)], given, [value("y", element)], {} if runtime else constants, opset)
    if runtime:
        for key, array in constants.items():
            proto.graph.input.append(value(key, helper.np_dtype_to_tensor_dtype(array.dtype)))
        given = given | constants
    case(name, proto, given, expected, **(more or {}))


def relu():
    """y = Relu(x)."""
    return model([helper.make_node("Relu", ["x"], ["y"], name="relu")], {"x": X}, [value("y", FLOAT, [2, 3])])


def changed(name, change, expected=None, proto=None, **more):
    proto = proto or relu()
    change(proto)
    case(name, proto, {"x": X}, np.maximum(X, 0) if expected is None else expected, **more)


def add(constant="w"):
    """y = x + w."""
    return model([helper.make_node("Add", ["x", constant], ["y"])], {"x": X}, [value("y")], {"w": np.array([1, 2, 3], F32)})


# ---- order of nodes ----

N = helper.make_node
NEG_RELU = [N("Relu", ["a"], ["y"]), N("Neg", ["x"], ["a"])]
case("unsorted_nodes", model(NEG_RELU, {"x": X}, [value("y")]), {"x": X}, np.maximum(-X, 0))


def branches(then_nodes, output="t", output_type=None):
    then_branch = helper.make_graph(then_nodes, "then", [], [output_type or value(output)])
    return {"then_branch": then_branch, "else_branch": helper.make_graph([N("Abs", ["x"], ["e"])], "else", [], [value("e")])}


CONDITION = np.array(True)


def if_case(name, graphs, expected, condition=CONDITION, before=(), after=(), **more):
    proto = model([*before, N("If", ["c"], ["y"], **graphs), *after], {"x": X}, [value("y")])
    proto.graph.input.append(value("c", BOOL))
    case(name, proto, {"x": X, "c": condition}, expected, **more)


if_case("unsorted_body", branches([N("Exp", ["n"], ["t"]), N("Neg", ["x"], ["n"])]), np.exp(-X), onnxruntime=False)
if_case("body_reads_later_node", branches([N("Exp", ["late"], ["t"])]), np.exp(-X), after=[N("Neg", ["x"], ["late"])])
UNSORTED_FUNCTION = helper.make_function(
    "local", "NegExp", ["a"], ["b"], [N("Exp", ["n"], ["b"]), N("Neg", ["a"], ["n"])], [helper.make_opsetid("", 18)]
)
FUNCTION_MODEL = model([N("NegExp", ["x"], ["y"], domain="local")], {"x": X}, [value("y")], functions=[UNSORTED_FUNCTION])
FUNCTION_MODEL.opset_import.append(helper.make_opsetid("local", 1))
case("unsorted_function", FUNCTION_MODEL, {"x": X}, np.exp(-X), onnxruntime=False)
case("cycle", model([N("Add", ["x", "b"], ["a"]), N("Relu", ["a"], ["b"])], {"x": X}, [value("b")]), {"x": X}, "INVALID_GRAPH", onnxruntime=False)

# ---- header ----


def set_ir(version):
    return lambda proto: setattr(proto, "ir_version", version)


def import_again(domain, version):
    return lambda proto: proto.opset_import.append(helper.make_opsetid(domain, version))


def import_only(domain, version):
    def change(proto):
        del proto.opset_import[:]
        import_again(domain, version)(proto)

    return change


changed("ir_version_1", set_ir(1))
changed("ir_version_2", set_ir(2))
changed("no_ir_version", lambda proto: proto.ClearField("ir_version"), "INVALID_GRAPH", onnxruntime=False)
changed("domain_imported_twice", import_again("", 13))
changed("domain_imported_as_ai_onnx", import_only("ai.onnx", 18))
changed("default_domain_not_imported", import_only("ai.onnx.ml", 3))
changed("nothing_imported", lambda proto: proto.ClearField("opset_import"), "INVALID_GRAPH", onnxruntime=False)
changed("unknown_domain_imported", import_again("pkg.of.nobody", 99))
changed("node_domain_ai_onnx", lambda proto: setattr(proto.graph.node[0], "domain", "ai.onnx"))
case(
    "ml_domain_not_imported",
    model([N("ArrayFeatureExtractor", ["x", "i"], ["y"], domain="ai.onnx.ml")], {"x": X}, [value("y")], {"i": np.array([1], I64)}),
    {"x": X},
    X[:, 1:2],
)
case(
    "microsoft_domain_not_imported",
    model([N("QuickGelu", ["x"], ["y"], domain="com.microsoft", alpha=1.0)], {"x": X}, [value("y")]),
    {"x": X},
    X / (1 + np.exp(-X)),
)


def strip_names(proto):
    proto.ClearField("producer_name")
    proto.graph.ClearField("name")
    proto.graph.node[0].ClearField("name")


changed("no_producer_and_no_names", strip_names)
case(
    "node_names_twice",
    model([N("Neg", ["x"], ["a"], name="n"), N("Relu", ["a"], ["y"], name="n")], {"x": X}, [value("y")]),
    {"x": X},
    np.maximum(-X, 0),
    onnxruntime=False,
)

# ---- initializers ----


def more_initializer(array, name="w"):
    return lambda proto: proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array, F32), name))


def raw_and_typed(proto):
    tensor = proto.graph.initializer[0]
    tensor.float_data.extend([7, 8, 9])


changed("initializer_twice", more_initializer([10, 20, 30]), X + np.array([10, 20, 30], F32), add())
changed("initializer_without_name", more_initializer([5], ""))
changed("initializer_unused", more_initializer([5], "unused"))
changed("initializer_with_two_contents", raw_and_typed, X + np.array([1, 2, 3], F32), add())
changed("initializer_is_input", lambda proto: proto.graph.input.append(value("w", FLOAT, [3])), X + np.array([1, 2, 3], F32), add())
changed(
    "constant_and_initializer",
    lambda proto: proto.graph.node.insert(0, N("Constant", [], ["w"], value=numpy_helper.from_array(np.array([4, 5, 6], F32)))),
    "INVALID_GRAPH",
    add(),
)

# ---- declared types ----


def of_input(change):
    return lambda proto: change(proto.graph.input[0].type)


def of_output(change):
    return lambda proto: change(proto.graph.output[0].type)


def no_shape(kind):
    kind.tensor_type.ClearField("shape")


def set_dim(number):
    return lambda kind: setattr(kind.tensor_type.shape.dim[0], "dim_value", number)


def both(*changes):
    return lambda proto: [change(proto) for change in changes]


changed("input_without_shape", of_input(no_shape))
changed("input_dim_negative", both(of_input(set_dim(-1)), of_output(no_shape)))
changed("input_dim_name_empty", both(of_input(lambda kind: setattr(kind.tensor_type.shape.dim[0], "dim_param", "")), of_output(no_shape)))
changed("output_without_type", lambda proto: proto.graph.output[0].ClearField("type"))
changed("output_without_shape", of_output(no_shape))
changed("output_wrong_dim", of_output(set_dim(7)))
changed("output_wrong_rank", lambda proto: proto.graph.output[0].CopyFrom(value("y", FLOAT, [6])))
changed("output_twice", lambda proto: proto.graph.output.append(proto.graph.output[0]))
changed("output_is_input", lambda proto: proto.graph.output.append(value("x", FLOAT, [2, 3])))
changed("input_twice", lambda proto: proto.graph.input.append(proto.graph.input[0]), "INVALID_GRAPH", onnxruntime=False)
case(
    "output_symbol_wrong",
    helper.make_model(
        helper.make_graph([N("Concat", ["x", "x"], ["y"], axis=0)], "g", [value("x", FLOAT, ["n", 3])], [value("y", FLOAT, ["n", 3])]),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    ),
    {"x": X},
    np.concatenate([X, X]),
)


def value_info(*infos):
    return lambda proto: proto.graph.value_info.extend(infos)


def neg_relu():
    return model([N("Neg", ["x"], ["a"]), N("Relu", ["a"], ["y"])], {"x": X}, [value("y")])


for name, infos in {
    "value_info_wrong_dim": [value("a", FLOAT, [9, 9])],
    "value_info_wrong_rank": [value("a", FLOAT, [9])],
    "value_info_of_nothing": [value("nobody", FLOAT, [2])],
    "value_info_twice": [value("a", FLOAT, [2, 3]), value("a", FLOAT, [2, 3])],
    "value_info_without_name": [value("", FLOAT, [2, 3])],
}.items():
    changed(name, value_info(*infos), np.maximum(-X, 0), neg_relu())

# ---- nodes ----


def untyped_attribute(proto):
    proto.graph.node[0].attribute[0].ClearField("type")


def softmax():
    return model([N("Softmax", ["x"], ["y"], axis=1)], {"x": X}, [value("y")])


SOFTMAX = np.exp(X) / np.exp(X).sum(1, keepdims=True)
changed("attribute_without_type", untyped_attribute, SOFTMAX, softmax(), onnxruntime=False)
changed("attribute_of_a_tool", lambda proto: proto.graph.node[0].attribute.append(helper.make_attribute("__note", 1)))
changed("attribute_unknown", lambda proto: proto.graph.node[0].attribute.append(helper.make_attribute("note", 1)), "INVALID_GRAPH", onnxruntime=False)
changed("dead_node", lambda proto: proto.graph.node.append(N("Neg", ["x"], ["nobody"])))
case("output_name_empty", model([N("Dropout", ["x"], ["y", ""])], {"x": X}, [value("y")]), {"x": X}, X)
node("input_names_empty", "Clip", X, inputs=["x", "", ""])
node("auto_pad_empty", "Conv", IMAGE.sum(1, keepdims=True), {"w": np.ones((1, 2, 1, 1), F32)}, x=IMAGE, auto_pad="")
node("conv_bias_of_rank_2", "Conv", IMAGE.sum(1, keepdims=True) + 4, {"w": np.ones((1, 2, 1, 1), F32), "b": np.array([[4]], F32)}, x=IMAGE)
node("activation_in_small_letters", "LSTM", None, {"w": np.ones((1, 8, 3), F32), "r": np.ones((1, 8, 2), F32)}, x=X[None], opset=14, hidden_size=2, activations=["sigmoid", "tanh", "TANH"])
node("onehot_of_floats", "OneHot", np.eye(3, dtype=F32)[[0, 2]], {"d": F32(3), "v": np.array([0, 1], F32)}, x=np.array([0, 2], F32))

# ---- operators that ONNX dropped, or has later ----

node("layer_normalization_before_17", "LayerNormalization", (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5), {"s": np.ones(3, F32)}, opset=14)
node("simplified_layer_normalization", "SimplifiedLayerNormalization", X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-5), {"s": np.ones(3, F32)}, opset=14, epsilon=1e-5)
node("affine", "Affine", 2 * X + 1, opset=8, alpha=2.0, beta=1.0)
node("crop", "Crop", IMAGE[:, :, 1:3, 1:2], x=IMAGE, opset=8, border=[1, 1, 2, 0])
node("crop_with_scale", "Crop", IMAGE[:, :, 1:2, 1:4], x=IMAGE, opset=8, border=[1, 1, 0, 0], scale=[1, 3])
node("image_scaler", "ImageScaler", IMAGE * 2 + np.array([1, -3], F32).reshape(1, 2, 1, 1), x=IMAGE, opset=8, scale=2.0, bias=[1.0, -3.0])
node("parametric_softplus", "ParametricSoftplus", 2 * np.log1p(np.exp(0.5 * X)), opset=8, alpha=2.0, beta=0.5)
node("scale", "Scale", 3 * X, opset=8, scale=3.0)
node("scaled_tanh", "ScaledTanh", 2 * np.tanh(0.5 * X), opset=8, alpha=2.0, beta=0.5)
node("thresholded_relu_before_10", "ThresholdedRelu", np.where(X > 0.5, X, 0), opset=8, alpha=0.5)
MVN = (IMAGE - IMAGE.mean((0, 2, 3), keepdims=True)) / IMAGE.std((0, 2, 3), keepdims=True)
node("mean_variance_normalization_before_9", "MeanVarianceNormalization", MVN, x=IMAGE, opset=8)

# ---- scalars and ranks ----


def loop(name, trip_shape, condition_shape, trips, condition, **more):
    squeeze = "Squeeze" if trip_shape else "Identity"
    body = helper.make_graph(
        [
            N("Identity", ["c"], ["again"]),
            N(squeeze, ["i", "axes"] if trip_shape else ["i"], ["s"]),
            N("Cast", ["s"], ["f"], to=FLOAT),
            N("Add", ["v", "f"], ["next"]),
        ],
        "body",
        [value("i", INT64, trip_shape), value("c", BOOL, condition_shape), value("v")],
        [value("again", BOOL, condition_shape), value("next")],
        [numpy_helper.from_array(np.arange(len(trip_shape or []), dtype=I64), "axes")],
    )
    constants = {"m": np.array(trips, I64), "go": np.array(condition)}
    case(name, model([N("Loop", ["m", "go", "x"], ["y"], body=body)], {"x": X}, [value("y")], constants, 13), {"x": X}, X + 3, **more)


loop("loop_iteration_of_rank_1", [1], [], 3, True)
loop("loop_iteration_of_named_rank_1", ["one"], [], 3, True)
loop("loop_condition_of_rank_1", [], [1], 3, [True])
loop("loop_all_of_rank_1", [1], [1], [3], [True])
if_case("if_condition_of_rank_1", branches([N("Neg", ["x"], ["t"])]), -X, np.array([True]))
if_case("if_branch_without_type", branches([N("Neg", ["x"], ["t"])], output_type=helper.make_empty_tensor_value_info("t")), -X)
if_case("if_branch_wrong_shape", branches([N("Neg", ["x"], ["t"])], output_type=value("t", FLOAT, [9, 9])), -X)

ONE = np.array([1], I64)
WAVE = np.cos(np.arange(8, dtype=F32))[None]


def spectrum(signal, length, step):
    frames = [signal[:, i : i + length] for i in range(0, signal.shape[1] - length + 1, step)]
    bins = np.fft.rfft(np.stack(frames, 1).astype(np.float64))
    return np.stack([bins.real, bins.imag], -1).astype(F32)


node("stft_signal_of_rank_2", "STFT", spectrum(WAVE, 4, 2), {"st": I64(2), "w": np.ones(4, F32)}, x=WAVE, opset=17)
node("stft_parameters_of_rank_1", "STFT", spectrum(WAVE, 4, 2), {"st": np.array([2]), "n": np.array([4])}, x=WAVE[..., None], opset=17, inputs=["x", "st", "", "n"], runtime=True)
DFT = np.stack([np.fft.fft(WAVE).real, np.fft.fft(WAVE).imag], -1).astype(F32)
node("dft_length_of_rank_1", "DFT", DFT, {"n": np.array([8])}, x=WAVE[..., None], runtime=True, axis=1)
node("dft_axis_of_rank_1", "DFT", DFT, {"a": ONE}, x=WAVE[..., None], opset=20, inputs=["x", "", "a"], runtime=True)
node("window_size_of_rank_1", "HannWindow", None, {"n": np.array([5])}, opset=17, inputs=["n"], runtime=True)
node("clip_bound_of_rank_1", "Clip", np.maximum(X, 0.5), {"lo": np.array([0.5], F32)})
node("cumsum_axis_of_rank_1", "CumSum", np.cumsum(X, 1), {"a": ONE})
node("trilu_diagonal_of_rank_1", "Trilu", np.triu(X, 1), {"k": ONE})
node("pad_value_of_rank_1", "Pad", np.pad(X, ((0, 0), (0, 1)), constant_values=5), {"p": np.array([0, 0, 0, 1]), "v": np.array([5], F32)})
node("pads_of_rank_2", "Pad", np.pad(X, ((0, 0), (0, 1))), {"p": np.array([[0, 0, 0, 1]])}, runtime=True)
node("onehot_depth_of_rank_1", "OneHot", np.eye(3, dtype=F32)[[0, 2]], {"d": np.array([3]), "v": np.array([0, 1], F32)}, x=np.array([0, 2], I64))
node("range_of_rank_1", "Range", np.arange(1, 7, 2), {"a": ONE, "b": np.array([7]), "d": np.array([2])}, inputs=["a", "b", "d"], element=INT64, runtime=True)
node("dropout_ratio_of_rank_1", "Dropout", X, {"r": np.array([0.5], F32)}, runtime=True)
node("quantize_scale_of_rank_1", "QuantizeLinear", np.clip(np.rint(X / F32(0.5)) + 3, 0, 255).astype(np.uint8), {"s": np.array([0.5], F32), "z": np.array([3], np.uint8)}, element=TensorProto.UINT8)
node("unsqueeze_axis_scalar", "Unsqueeze", X[:, None], {"a": I64(1)})
node("expand_shape_scalar", "Expand", np.broadcast_to(X, (2, 3)), {"s": I64(3)})
node("constant_of_shape_of_rank_2", "ConstantOfShape", np.zeros(4, F32), {"s": np.array([[4]])}, inputs=["s"])
node("reduce_axis_of_scalar", "ReduceSum", np.array(3, F32), {"a": np.array([0])}, x=np.array(3, F32), opset=13, runtime=True)
ARG = model([N("ArgMax", ["x"], ["y"], axis=0)], {}, [value("y", INT64)])
ARG.graph.input.append(value("x"))
case("argmax_axis_of_scalar", ARG, {"x": np.array(3, F32)}, np.array(0))
node("concat_of_nothing", "Concat", X, {"e": np.zeros((0, 5), F32)}, runtime=True, axis=0)
node("concat_of_empty_list", "Concat", X, {"e": np.zeros(0, F32)}, runtime=True, axis=0, more={"onnxruntime": False})
case("input_of_rank_1_for_scalar", model([N("Relu", ["x"], ["y"])], {"x": np.array(2, F32)}, [value("y")]), {"x": np.array([2], F32)}, np.array(2, F32))
TWO_SIZES = helper.make_graph(
    [N("Relu", ["x"], ["y"]), N("Relu", ["z"], ["y2"])],
    "g",
    [value("x", FLOAT, ["n", 3]), value("z", FLOAT, ["n", 3])],
    [value("y", FLOAT, ["n", 3]), value("y2", FLOAT, ["n", 3])],
)
case(
    "one_symbol_two_sizes",
    helper.make_model(TWO_SIZES, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
    {"x": X, "z": X[:1]},
    "INVALID_ARGUMENT",
)
