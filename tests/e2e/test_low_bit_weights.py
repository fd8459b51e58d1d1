"""--provider-option dnnl:weights=s8|s4[:BLOCK][:search]: f32 products get weights of a few bits."""

import re

import numpy as np

import pytest
from cli_support import ctxgen, done, into, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

ROWS, DEPTH, WIDTH = 5, 200, 96


def weights():
    random = np.random.default_rng(3)
    first = random.standard_normal((DEPTH, WIDTH)).astype(np.float32)
    first[:32, 0] = 0
    return first, random.standard_normal((64, WIDTH)).astype(np.float32), random.standard_normal(64).astype(np.float32)


def two_products(change=lambda first: first):
    """MatMul, Relu and a Gemm with a transposed matrix and a bias."""
    first, second, bias = weights()
    constants = [numpy_helper.from_array(change(first), "first"), numpy_helper.from_array(second, "second"),
                 numpy_helper.from_array(bias, "bias")]
    nodes = [helper.make_node("MatMul", ["x", "first"], ["h"], name="a"), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "second", "bias"], ["y"], name="b", transB=1)]
    info = helper.make_tensor_value_info
    return make_model(helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["rows", DEPTH])],
                                        [info("y", TensorProto.FLOAT, ["rows", 64])], constants))


def rounded(matrix, bits, block):
    """What the matrix [depth, width] becomes without a search."""
    half, result = 1 << (bits - 1), np.array(matrix)
    for start in range(0, len(matrix), block):
        part = matrix[start:start + block]
        farthest = np.take_along_axis(part, np.abs(part).argmax(0)[None], 0)
        scale = farthest / np.float32(-half)
        with np.errstate(invalid="ignore", divide="ignore"):
            integers = np.clip(np.rint(part / scale), -half, half - 1)
        result[start:start + block] = np.where(scale == 0, 0, integers * scale)
    return result


def compiled(tmp_path, option, model=None):
    source = save(model or two_products(), tmp_path / "net.onnx")
    folder = tmp_path / re.sub(r"\W", "_", option)
    report = json_of("compile", source, "-o", into(folder), "--provider-option", f"dnnl:weights={option}")
    return folder / "net_ctx.onnx", report


def run(context, tmp_path):
    x = np.random.default_rng(4).standard_normal((ROWS, DEPTH)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done("run", context, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    return x, np.load(tmp_path / "out" / "y.npy")


@pytest.mark.parametrize(("option", "bits", "block"), [("s4", 4, 32), ("s8", 8, 32), ("s4:64", 4, 64), ("s8:16", 8, 16), ("s4:256", 4, 256)])
def test_products_are_those_of_the_rounded_weights(tmp_path, option, bits, block):
    context, _ = compiled(tmp_path, option)
    x, y = run(context, tmp_path)
    first, second, bias = weights()
    hidden = np.maximum(x.astype(np.float64) @ rounded(first, bits, block), 0)
    expected = hidden @ rounded(second.T, bits, block) + bias
    assert np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()


def test_the_summary_says_how_far_weights_are_off(tmp_path):
    _, report = compiled(tmp_path, "s4")
    [note] = report["models"][0]["partitions"][0]["notes"]
    error = float(re.search(r"2 products with s4 weights in blocks of 32: their errors are at most (\S+) \(op ", note)[1])
    measured = []
    for matrix in (weights()[0], weights()[1].T):
        measured.append(np.sqrt(((rounded(matrix, 4, 32) - matrix) ** 2).sum() / (matrix ** 2).sum()))
    assert error == pytest.approx(max(measured), rel=0.06)
    text = done("compile", tmp_path / "net.onnx", "-o", into(tmp_path / "text"), "--provider-option", "dnnl:weights=s4").stdout
    assert note in text


def test_a_search_makes_errors_smaller(tmp_path):
    def error(option):
        note = compiled(tmp_path, option)[1]["models"][0]["partitions"][0]["notes"][0]
        return float(re.search(r"at most (\S+) ", note)[1])
    assert error("s4:32:search") < 0.97 * error("s4:32")
    assert error("s8") < error("s4") / 10


def test_bins_shrink(tmp_path):
    source = save(two_products(), tmp_path / "net.onnx")
    done("compile", source, "-o", into(tmp_path / "plain"))
    plain = (tmp_path / "plain" / "net_dnnl.bin").stat().st_size
    context, _ = compiled(tmp_path, "s4")
    assert (context.parent / "net_dnnl.bin").stat().st_size < plain / 3


def test_matrices_with_infinity_stay(tmp_path):
    def with_infinity(first):
        changed = np.array(first)
        changed[0, 0] = np.inf
        return changed
    _, report = compiled(tmp_path, "s4", two_products(with_infinity))
    assert "1 product with s4 weights" in report["models"][0]["partitions"][0]["notes"][0]
    assert "1 stays f32" in report["models"][0]["partitions"][0]["notes"][0]


def test_another_choice_is_another_compile(tmp_path):
    source, out = save(two_products(), tmp_path / "net.onnx"), tmp_path / "out"
    arguments = ["compile", source, "-o", into(out), "--if-needed", "--provider-option"]
    done(*arguments, "dnnl:weights=s4")
    first = (out / "net_dnnl.bin").read_bytes()
    done(*arguments, "dnnl:weights=s8")
    assert (out / "net_dnnl.bin").read_bytes() != first


@pytest.mark.parametrize("value", ["s5", "", "s4:", "s4:33", "s4:32:64", "s4:search:search", "s4:32:find", "S4", "4"])
def test_other_values_are_refused(tmp_path, value):
    source = save(two_products(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--provider-option", f"dnnl:weights={value}", names=["s4:64:search"])


def test_weightless_is_refused(tmp_path):
    source = save(two_products(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--provider-option", "dnnl:weights=s4", "--config", "ep.enable_weightless_mode=2",
            names=["dnnl:weights"])


def test_without_products_nothing_is_said(tmp_path):
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [info("x", TensorProto.FLOAT, [3])], [info("y", TensorProto.FLOAT, [3])])
    _, report = compiled(tmp_path, "s4", make_model(graph))
    assert report["models"][0]["partitions"][0]["notes"] == []
    assert "weights" in ctxgen("providers").stdout
