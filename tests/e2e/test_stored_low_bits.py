"""Weights that DequantizeLinear makes real of integers of a few bits: products read them as they are."""

import numpy as np
import pytest
from cli_support import done, into, json_of, save
from onnx import TensorProto, helper, numpy_helper

DEPTH, WIDTH, ROWS = 512, 384, 5
KINDS = {"int4": (TensorProto.INT4, -8, 7, 0.5), "uint4": (TensorProto.UINT4, 0, 15, 0.5), "int8": (TensorProto.INT8, -128, 127, 1),
         "uint8": (TensorProto.UINT8, 0, 255, 1)}


def stored(name, kind, shape):
    """An initializer of random integers, and the integers."""
    number, low, high, _ = KINDS[kind]
    values = np.random.default_rng(len(name) + shape[0]).integers(low, high, shape, endpoint=True)
    return helper.make_tensor(name, number, shape, values.reshape(-1)), values


def net(kind, block):
    """As exporters write it: blocks of rows of the matrix; then rows of a transposed one, with zero points and a bias."""
    random = np.random.default_rng(7)
    first, first_values = stored("first", kind, (DEPTH, WIDTH))
    second, second_values = stored("second", kind, (DEPTH, WIDTH))
    zeros, zero_values = stored("zeros", kind, (DEPTH, WIDTH // block))
    scales = [random.uniform(0.01, 0.02, shape).astype(np.float32) for shape in ((DEPTH // block, WIDTH), (DEPTH, WIDTH // block))]
    bias = random.standard_normal(DEPTH).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["first", "s1"], ["w1"], axis=0, block_size=block),
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("DequantizeLinear", ["second", "s2", "zeros"], ["w2"], axis=-1, block_size=block),
        helper.make_node("Transpose", ["w2"], ["w2t"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "w2t"], ["p"]),
        helper.make_node("Add", ["p", "bias"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    constants = [first, second, zeros, *(numpy_helper.from_array(s, f"s{i + 1}") for i, s in enumerate(scales)), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["rows", DEPTH])], [info("y", TensorProto.FLOAT, ["rows", DEPTH])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    matrices = [first_values * np.repeat(scales[0].astype(np.float64), block, 0),
                (second_values - np.repeat(zero_values, block, 1)) * np.repeat(scales[1].astype(np.float64), block, 1)]
    return model, lambda x: x @ matrices[0] @ matrices[1].T + bias


@pytest.mark.parametrize("form", [[], ["--portable"]])
@pytest.mark.parametrize(("kind", "block"), [("int4", 32), ("uint4", 128), ("int8", 32), ("uint8", 64)])
def test_weights_stay_as_small_as_they_are(tmp_path, kind, block, form):
    model, exact = net(kind, block)
    report = json_of("compile", save(model, tmp_path / "net.onnx"), "-o", into(tmp_path / "out"), *form)["models"][0]
    assert (report["compiled_nodes"], report["fallbacks"], len(report["partitions"])) == (6, [], 1)
    context = tmp_path / "out" / "net_ctx.onnx"
    weights = 2 * DEPTH * WIDTH * KINDS[kind][3] + 2 * 4 * DEPTH * WIDTH / block
    assert (context.parent / "net_dnnl.bin").stat().st_size < 1.05 * weights + 16384
    x = np.random.default_rng(4).standard_normal((ROWS, DEPTH)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done("run", context, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "results")
    y, expected = np.load(tmp_path / "results" / "y.npy"), exact(x.astype(np.float64))
    assert np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()
    done("verify", context, "--against", tmp_path / "net.onnx")


def test_defaults_that_callers_may_override(tmp_path):
    """The bias is a graph input with a default: both ways give what they should."""
    model, exact = net("int4", 32)
    model.graph.input.append(helper.make_tensor_value_info("bias", TensorProto.FLOAT, [DEPTH]))
    source = save(model, tmp_path / "net.onnx")
    done("compile", source, "-o", into(tmp_path / "out"))
    x = np.random.default_rng(4).standard_normal((ROWS, DEPTH)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    bias = next(numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name == "bias")
    np.save(tmp_path / "bias.npy", bias + 1)
    for given, added in (([], 0), (["--input", f"bias={tmp_path / 'bias.npy'}"], 1)):
        done("run", tmp_path / "out" / "net_ctx.onnx", "--input", f"x={tmp_path / 'x.npy'}", *given, "--output-dir", tmp_path / "results")
        expected = exact(x.astype(np.float64)) + added
        assert np.abs(np.load(tmp_path / "results" / "y.npy") - expected).max() < 1e-5 * np.abs(expected).max()


def result_of(context, tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    done("run", context, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "results")
    return np.load(tmp_path / "results" / "y.npy")


@pytest.mark.parametrize("kind", list(KINDS))
def test_several_readers_share_one_small_matrix(tmp_path, kind):
    """Three products, one of which takes the matrix transposed and one with a bias."""
    random, block = np.random.default_rng(7), 32
    tensor, values = stored("matrix", kind, (DEPTH, DEPTH))
    scales, bias = random.uniform(0.0001, 0.0002, (DEPTH // block, DEPTH)).astype(np.float32), random.standard_normal(DEPTH).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["matrix", "s"], ["w"], axis=0, block_size=block),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("Gemm", ["c", "w"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    constants = [tensor, numpy_helper.from_array(scales, "s"), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, [ROWS, DEPTH])], [info("y", TensorProto.FLOAT, [ROWS, DEPTH])], constants)
    source = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    report = json_of("compile", source, "-o", into(tmp_path / "out"))["models"][0]
    assert (report["fallbacks"], len(report["partitions"])) == ([], 1)
    context = tmp_path / "out" / "net_ctx.onnx"
    weights = DEPTH * DEPTH * KINDS[kind][3] + 4 * DEPTH * DEPTH / block
    assert (context.parent / "net_dnnl.bin").stat().st_size < 1.05 * weights + 16384
    x, matrix = random.standard_normal((ROWS, DEPTH)).astype(np.float32), values * np.repeat(scales.astype(np.float64), block, 0)
    expected = (x @ matrix + bias) @ matrix @ matrix
    assert np.abs(result_of(context, tmp_path, x) - expected).max() < 1e-5 * np.abs(expected).max()
    done("verify", context, "--against", source)


def test_a_reader_of_another_kind_gets_real_numbers(tmp_path):
    """A product reads the matrix as it is stored, an addition what DequantizeLinear makes of it."""
    random = np.random.default_rng(7)
    tensor, values = stored("matrix", "int8", (DEPTH, DEPTH))
    scales = random.uniform(0.01, 0.02, DEPTH).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["matrix", "s"], ["w"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Add", ["a", "w"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    constants = [tensor, numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, [DEPTH, DEPTH])], [info("y", TensorProto.FLOAT, [DEPTH, DEPTH])], constants)
    source = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    done("compile", source, "-o", into(tmp_path / "out"))
    x, matrix = random.standard_normal((DEPTH, DEPTH)).astype(np.float32), values * scales.astype(np.float64)
    expected = x @ matrix + matrix
    assert np.abs(result_of(tmp_path / "out" / "net_ctx.onnx", tmp_path, x) - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("form", [[], ["--portable"]])
@pytest.mark.parametrize(("kind", "block"), [("int4", 32), ("uint4", 0), ("int8", 0), ("uint8", 64)])
def test_weights_of_convolutions_stay_as_small_as_they_are(tmp_path, kind, block, form):
    """Blocks of channels, or a scale for each result."""
    random, channels = np.random.default_rng(7), 128
    tensor, values = stored("kernel", kind, (channels, channels, 3, 3))
    shape = (channels, channels // block, 3, 3) if block else (channels,)
    scales, bias = random.uniform(0.001, 0.002, shape).astype(np.float32), random.standard_normal(channels).astype(np.float32)
    attributes = {"axis": 1, "block_size": block} if block else {"axis": 0}
    nodes = [
        helper.make_node("DequantizeLinear", ["kernel", "s"], ["w"], **attributes),
        helper.make_node("Conv", ["x", "w", "bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    image = [1, channels, 6, 5]
    info = helper.make_tensor_value_info
    constants = [tensor, numpy_helper.from_array(scales, "s"), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, image)], [info("y", TensorProto.FLOAT, image)], constants)
    source = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    report = json_of("compile", source, "-o", into(tmp_path / "out"), *form)["models"][0]
    assert (report["compiled_nodes"], report["fallbacks"], len(report["partitions"])) == (3, [], 1)
    context = tmp_path / "out" / "net_ctx.onnx"
    weights = values.size * KINDS[kind][3] + 4 * values.size / (block or 128)
    assert (context.parent / "net_dnnl.bin").stat().st_size < 1.05 * weights + 16384
    x = random.standard_normal(image).astype(np.float32)
    matrix = values * (np.repeat(scales, block, 1) if block else scales.reshape(-1, 1, 1, 1)).astype(np.float64)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.maximum(np.einsum("ncyxij,mcij->nmyx", windows, matrix) + bias.reshape(1, -1, 1, 1), 0)
    assert np.abs(result_of(context, tmp_path, x) - expected).max() < 1e-5 * np.abs(expected).max()
    done("verify", context, "--against", source)
