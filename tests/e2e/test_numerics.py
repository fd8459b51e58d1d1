"""docs/numerics.md: what becomes of NaN and infinities, and how far outputs may be apart."""

import os
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_support import done, json_of, save
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from special_value_cases import SPECIALS, all_cases, model_of

PAGE = Path(os.environ["CTXGEN_SOURCE"]) / "docs" / "numerics.md"
MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))
CASES = all_cases()
# onnx's reference evaluator: has no such operator, reads beside a NaN, or multiplies infinities by weights of zero
UNLIKE_THE_REFERENCE = {"MaxPool", "MaxPool dilated", "AveragePool", "AveragePool dilated", "Resize nearest", "Resize linear", "SimplifiedLayerNormalization",
                        "MatMulNBits few rows", "MatMulNBits accuracy_level 4"}


def word(value):
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value + 0:g}" if value in (-1, 0, 1) else "a number"


def deviations(cases, found, expected):
    """{(case, special value): {(expected, found)}} of elements that differ and are not finite in both."""
    all_of = {}
    for case in cases:
        for i, special in enumerate(SPECIALS):
            moved = case.name in ("LSTM", "GRU", "RNN")
            of_expected, of_found = (np.moveaxis(arrays[case.output], 2, 0) if moved else arrays[case.output] for arrays in (expected, found))
            pairs = set()
            for want, got in zip(of_expected[i :: len(SPECIALS)].reshape(-1), of_found[i :: len(SPECIALS)].reshape(-1), strict=True):
                if not (np.isfinite(want) and np.isfinite(got)) and word(want) != word(got):
                    pairs.add((word(want), word(got)))
            if pairs:
                all_of[case.name, special] = pairs
    return all_of


def outputs_of(folder, name, *options, isa=None):
    source = save(model_of(CASES), folder / f"{name}.onnx")
    np.savez(folder / "x.npz", **{f"{case.name}_x": case.x for case in CASES})
    with pytest.MonkeyPatch.context() as patch:
        if isa:
            patch.setenv("ONEDNN_MAX_CPU_ISA", isa)
        done("run", source, "--input", folder / "x.npz", "--output-file", folder / f"{name}.npz", *options)
    return np.load(folder / f"{name}.npz")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What the CPU kernels give."""
    return outputs_of(tmp_path_factory.mktemp("cpu"), "cpu", "--provider", "cpu")


def page_rows():
    """(case, input): (ONNX's word, the words that dnnl may give)."""
    rows = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[2] in SPECIALS:
            for where in cells[1].split(", "):
                rows[f"{cells[0]} {where}".strip(), cells[2]] = (cells[3], cells[4].split(" or "))
    return rows


def test_cpu_kernels_keep_to_onnx(kept):
    cases = [case for case in CASES if case.name not in UNLIKE_THE_REFERENCE and not case.name.startswith("QuickGelu")]
    exact = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about NaN
        for case in cases:
            exact[case.output] = ReferenceEvaluator(model_of([case])).run(None, {f"{case.name}_x": case.x})[0]
    assert not deviations(cases, kept, exact)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in UNLIKE_THE_REFERENCE], ids=lambda case: case.name)
def test_a_nan_stays_where_the_reference_does_not_say(kept, case):
    y = kept[case.output]
    assert np.isnan(y[0]).any() and not np.isnan(y[1:]).all()


@pytest.mark.parametrize("isa", [None, "AVX2"])
def test_the_page_names_what_dnnl_does_otherwise_and_nothing_else(tmp_path, kept, isa):
    found = deviations(CASES, outputs_of(tmp_path, "dnnl", isa=isa), kept)
    rows = page_rows()
    assert len(rows) > 20
    for key, (want, gots) in rows.items():
        if key in found or len(gots) == 1:
            assert key in found and {pair[0] for pair in found[key]} == {want} and {pair[1] for pair in found[key]} <= set(gots), (key, found.get(key))
    assert set(found) <= set(rows)


def test_all_these_operators_are_compiled(tmp_path):
    explained = json_of("explain", save(model_of(CASES), tmp_path / "all.onnx"))
    elsewhere = [(node["name"], node["reasons"]) for node in explained["assignment"]
                 if node["provider"] != "dnnl" and not node["folded"] and "Quantize" not in node["name"]]  # they only move data here
    assert not elsewhere


@pytest.mark.parametrize(("op_type", "opset", "inputs", "attributes"), [
    ("Attention", 23, [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], {}),
    ("RoiAlign", 16, [(1, 1, 4, 4), np.array([[0, 0, 3, 3]], np.float32), np.array([0])], {"mode": "max", "output_height": 1, "output_width": 1}),
    ("MaxRoiPool", 1, [(1, 1, 4, 4), np.array([[0, 0, 0, 3, 3]], np.float32)], {"pooled_shape": [1, 1]}),
])
def test_a_nan_is_not_lost_by_cpu_kernels(tmp_path, op_type, opset, inputs, attributes):
    """A query of NaN is no row without keys, and a maximum beside a NaN is one."""
    x = np.ones(inputs[0], np.float32)
    x[0, 0, 1] = np.nan
    constants = {f"c{i}": one if isinstance(one, np.ndarray) else np.ones(one, np.float32) for i, one in enumerate(inputs[1:])}
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", *constants], ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 21 else 11)
    np.save(tmp_path / "x.npy", x)
    done("run", save(model, tmp_path / "m.onnx"), "--provider", "cpu", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    y = np.load(tmp_path / "y.npy")
    assert np.isnan(y[0, 0, 1] if op_type == "Attention" else y).all()


def sorted_nodes(graph):
    """The converter appends its casts at the end."""
    known, nodes = {""} | {one.name for one in [*graph.input, *graph.initializer]}, list(graph.node)
    del graph.node[:]
    while nodes:
        ready = [node for node in nodes if set(node.input) <= known]
        assert ready
        graph.node.extend(ready)
        known |= {name for node in ready for name in node.output}
        nodes = [node for node in nodes if node not in ready]


@pytest.mark.skipif(not MODELS.is_dir(), reason="CTXGEN_MODELS names no folder of trained models")
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", ["mnist_cntk", "super_resolution", "wakeword_hey_snips"])
def test_float16_copies_of_onnxruntimes_converter(tmp_path, name, keep):
    """With float inputs and outputs, or without: what is inside decides."""
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    model = float16.convert_float_to_float16(onnx.load(MODELS / name / "model.onnx"), keep_io_types=keep)
    sorted_nodes(model.graph)
    source = save(model, tmp_path / "half.onnx")
    done("compile", "-q", source)
    result = json_of("verify", tmp_path / "half_ctx.onnx", "--against", source)
    assert {value["row"] for run in result["runs"] for value in run["outputs"]} == {"f16"}
    if keep:
        json_of("run", tmp_path / "half_ctx.onnx", "--test-data", MODELS / name)
