"""The bench makes real models: the smallest one through the checker and ONNX Runtime, all builders by their structure."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

MODELS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "models"
sys.path.insert(0, str(MODELS))
import make  # noqa: E402
import transformers  # noqa: E402


def write(folder):
    subprocess.run([sys.executable, MODELS / "make.py", "mobilenetv2", "-o", folder], check=True, capture_output=True)
    return folder / "mobilenetv2"


def test_smallest_model_is_valid_and_runs(tmp_path):
    folder = write(tmp_path)
    onnx.checker.check_model(str(folder / "mobilenetv2.onnx"), full_check=True)
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs = {
        name: np.load(folder / file) for name, file in json.loads((folder / "model.json").read_text())["inputs"].items()
    }
    session = onnxruntime.InferenceSession(str(folder / "mobilenetv2.onnx"), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, inputs)
    assert output.shape == (1, 1000)
    assert np.isfinite(output).all()
    assert 0.1 < output.std() < 100


def test_models_are_reproducible(tmp_path):
    first, second = write(tmp_path / "a"), write(tmp_path / "b")
    assert (first / "mobilenetv2.onnx").read_bytes() == (second / "mobilenetv2.onnx").read_bytes()


def test_a_current_model_is_not_made_again(tmp_path):
    folder = write(tmp_path)
    stamp = (folder / "mobilenetv2.onnx").stat().st_mtime_ns
    assert write(tmp_path) == folder
    assert (folder / "mobilenetv2.onnx").stat().st_mtime_ns == stamp


def test_unknown_names_are_refused(tmp_path):
    command = [sys.executable, MODELS / "make.py", "resnet5000", "-o", tmp_path]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    assert finished.returncode == 2
    assert "resnet5000" in finished.stderr
    assert list(tmp_path.iterdir()) == []


def op_counts(net):
    counts = {}
    for node in net.nodes:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


def test_batch_norm_is_folded_where_the_exporter_folds_it():
    assert "BatchNormalization" not in op_counts(make.MODELS["resnet50"]("resnet50"))
    assert op_counts(make.MODELS["resnet50_bn"]("resnet50_bn"))["BatchNormalization"] == 53
    # those that follow a Concat stay: one per dense layer, three transitions and the last one
    assert op_counts(make.MODELS["densenet121"]("densenet121"))["BatchNormalization"] == 58 + 3 + 1


def test_gpt2_pair_shares_its_weights(monkeypatch):
    monkeypatch.setattr(transformers.Gpt2, "layers", 1)
    prefill = make.MODELS["gpt2_prefill"]("gpt2_prefill").initializers
    decode = make.MODELS["gpt2_decode"]("gpt2_decode").initializers
    assert prefill.keys() == decode.keys()
    assert all(np.array_equal(prefill[name], decode[name]) for name in prefill)
