"""docs/import.md: what is taken beyond the ONNX standard, case by case, beside ONNX Runtime."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from cli_support import ctxgen, done, run_arrays
from import_cases import CASES

PAGE = pathlib.Path(os.environ["CTXGEN_SOURCE"]) / "docs" / "import.md"
# In a process of its own: with the onnx package beside it, some of these models end it.
RUNNER = """
import pathlib, sys
import numpy as np, onnxruntime
onnxruntime.set_default_logger_severity(4)
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(folder / "m.onnx"), options, providers=["CPUExecutionProvider"])
        found = session.run(None, dict(np.load(folder / "inputs.npz")))
        np.save(folder / "found.npy", found[0])
    except Exception as error:
        (folder / "error").write_text(str(error))
"""


def rows():
    """The names in the first column of the page's tables, and what the last one says."""
    table = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            table |= {name: cells[-1] for name in re.findall(r"`(\w+)`", cells[0])}
    return table


def test_the_page_lists_the_cases():
    table = rows()
    assert set(table) == set(CASES)
    for name, one in CASES.items():
        says = f"`{one.expected}`" if isinstance(one.expected, str) else "taken"
        assert table[name].startswith(says), name


@pytest.fixture(scope="module")
def in_onnxruntime(tmp_path_factory):
    """The folder of a case, with found.npy or error in it; None without ONNX Runtime."""
    if importlib.util.find_spec("onnxruntime") is None:
        return lambda name: None
    top = tmp_path_factory.mktemp("onnxruntime")
    for name, one in CASES.items():
        if not one.onnxruntime:
            continue
        (top / name).mkdir()
        (top / name / "m.onnx").write_bytes(one.model.SerializeToString())
        np.savez(top / name / "inputs.npz", **one.inputs)
    subprocess.run([sys.executable, "-c", RUNNER, str(top)], check=True, stderr=subprocess.DEVNULL)
    return lambda name: top / name


def assert_equal(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)  # sums of a few f32 in another order


@pytest.mark.parametrize("name", CASES)
def test_case(name, in_onnxruntime, tmp_path):
    one = CASES[name]
    source = tmp_path / "m.onnx"
    source.write_bytes(one.model.SerializeToString())  # not onnx.save: it asks for what some of these lack
    if isinstance(one.expected, str):
        assert_refused(source, one, tmp_path)
        return
    done("compile", source)
    found = [run_arrays(source, one.inputs, tmp_path / "cpu", "--provider", "cpu"), run_arrays(tmp_path / "m_ctx.onnx", one.inputs, tmp_path / "context")]
    first = one.model.graph.output[0].name
    folder = in_onnxruntime(name) if one.onnxruntime else None
    for outputs in found:
        if one.expected is not None:
            expected = np.asarray(one.expected)
            assert_equal(outputs[first], expected if expected.dtype != np.float64 else expected.astype(np.float32))
        if folder is not None:
            assert (folder / "found.npy").exists(), (folder / "error").read_text()
            there = np.load(folder / "found.npy")
            assert_equal(outputs[first].reshape(there.shape), there)  # it keeps [1] where a scalar was asked for


def assert_refused(source, one, folder):
    arguments = []
    for name, array in one.inputs.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    finished = ctxgen("run", source, *arguments)
    assert finished.returncode in (1, 2), finished.stdout
    assert f"ctxgen: error: {one.expected}: " in finished.stderr


def give_shapes(graph):
    """The cases leave them out, which onnx's checker does not take."""
    for value in [*graph.input, *graph.output, *graph.value_info]:
        value.type.tensor_type.shape.SetInParent()
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                give_shapes(attribute.g)


def test_what_is_written_is_sorted_and_imports_what_it_uses(tmp_path):
    for name in ["unsorted_nodes", "unsorted_body", "body_reads_later_node", "unsorted_function", "default_domain_not_imported", "ml_domain_not_imported"]:
        source = tmp_path / f"{name}.onnx"
        source.write_bytes(CASES[name].model.SerializeToString())
        done("compile", "--provider", "cpu", source)
        written = onnx.load(tmp_path / f"{name}_ctx.onnx")
        checked = onnx.ModelProto()
        checked.CopyFrom(written)
        give_shapes(checked.graph)
        onnx.checker.check_model(checked)
        assert [len(text) for text in texts(written)] == [len(text) for text in texts(CASES[name].model)], "the nodes' bytes stay"


def texts(model):
    """All nodes, in the order of their bytes."""
    return sorted((node.SerializeToString() for node in model.graph.node), key=lambda text: (len(text), text))
