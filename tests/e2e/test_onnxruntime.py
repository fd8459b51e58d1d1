"""Stock ONNX Runtime and the onnx checker on what ctxgen writes."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_support import ctxgen, done
from onnx import numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")

MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))
DATA = Path("/usr/share/libonnx-testdata/data")
TRAINED = sorted(path.parent for path in MODELS.glob("*/test_data_set_0"))
BACKEND = [path.parent for kind in ["simple", "pytorch-converted", "pytorch-operator"] for path in sorted((DATA / kind).glob("*/model.onnx"))]

# What the checker says of context models, and why it is not our doing.
CHECKER_EXCEPTIONS = {
    "epcontext_qnn_embed": "No opset import for domain 'com.microsoft'",  # as in the source
}


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds(folder, inputs):
    files = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    values = {}
    for path, one in zip(files, inputs):
        data = path.read_bytes()
        if one.type.startswith("seq"):
            values[one.name] = numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        elif one.type.startswith("optional"):
            values[one.name] = numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        else:
            values[one.name] = numpy_helper.to_array(onnx.TensorProto.FromString(data))
    return values


def equal(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(np.asarray(a[key]), np.asarray(b[key])) for key in a)
    if a.dtype.kind in "fc":
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    return a.dtype == b.dtype and np.array_equal(a, b)


def compare_with_source(folder, tmp_path, *options):
    """The same bits from the source and from the written model; skipped where ONNX Runtime refuses the source itself."""
    try:
        source = session(folder / "model.onnx")
        values = feeds(folder, source.get_inputs())
        expected = source.run(None, values)
    except Exception as error:  # noqa: BLE001: its classes are many
        pytest.skip(f"ONNX Runtime does not run the source: {str(error)[:150]}")
    done("compile", "-q", "--provider", "cpu", *options, folder / "model.onnx", "-o", tmp_path / "m_ctx.onnx")
    written = session(tmp_path / "m_ctx.onnx")
    found = written.run(None, values)
    assert [one.name for one in written.get_outputs()] == [one.name for one in source.get_outputs()]
    assert all(equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("folder", TRAINED + BACKEND, ids=lambda path: path.name)
def test_models_of_provider_cpu_run_and_give_the_sources_outputs(folder, tmp_path):
    compare_with_source(folder, tmp_path)


@pytest.mark.parametrize("folder", TRAINED, ids=lambda path: path.name)
def test_so_do_they_with_external_initializers(folder, tmp_path):
    compare_with_source(folder, tmp_path, "--external-initializers", "rest.data")


@pytest.mark.parametrize("folder", sorted(path.parent for path in MODELS.glob("*/model.onnx")) + BACKEND, ids=lambda path: path.name)
def test_the_checker_passes_context_models(folder, tmp_path):
    try:
        onnx.checker.check_model(str(folder / "model.onnx"))
    except Exception as error:
        pytest.skip(f"the checker refuses the source: {str(error)[:150]}")
    finished = ctxgen("compile", "-q", folder / "model.onnx", "-o", tmp_path / "m_ctx.onnx")
    assert finished.returncode == 0, finished.stderr
    if folder.name in CHECKER_EXCEPTIONS:
        with pytest.raises(onnx.checker.ValidationError, match=CHECKER_EXCEPTIONS[folder.name]):
            onnx.checker.check_model(str(tmp_path / "m_ctx.onnx"))
        return
    onnx.checker.check_model(str(tmp_path / "m_ctx.onnx"))
