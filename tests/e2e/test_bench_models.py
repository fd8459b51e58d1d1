"""The bench makes real models: small ones through the checker and ONNX Runtime, others by their structure."""

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


def write(folder, name="mobilenetv2"):
    subprocess.run([sys.executable, MODELS / "make.py", name, "-o", folder], check=True, capture_output=True)
    return folder / name


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mobilenetv2", (1, 1000)),
        ("efficientnet_b0", (1, 1000)),
        ("yolov8n", (1, 84, 8400)),
        ("segformer_b0", (1, 150, 128, 128)),
        ("crnn", (81, 1, 37)),
    ],
)
def test_small_models_are_valid_and_run(tmp_path, name, shape):
    folder = write(tmp_path, name)
    onnx.checker.check_model(str(folder / f"{name}.onnx"), full_check=True)
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs = {
        name: np.load(folder / file) for name, file in json.loads((folder / "model.json").read_text())["inputs"].items()
    }
    session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, inputs)
    assert output.shape == shape
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


def test_a_recipe_follows_arguments_and_imports_only():
    assert make.recipe("resnet50") != make.recipe("resnet50_bn")
    assert {path.stem for path in make.sources_of("speech")} == {"builder", "layers", "transformers", "encoders", "speech"}
    assert {path.stem for path in make.sources_of("crnn")} == {"builder", "layers", "crnn"}


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


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # a Concat per axis there and back in each of 5 shifted blocks, one per merge, and those of 15 Pads
        ("swin_t", {"Softmax": 12, "Concat": 5 * 4 + 3 + 15, "Pad": 15, "LayerNormalization": 29}),
        ("convnext_t", {"Conv": 22, "MatMul": 36, "Erf": 18}),
        ("dinov2_s", {"Resize": 1, "Softmax": 12, "Sqrt": 24}),
        ("unet_attention", {"InstanceNormalization": 2 * 17 + 11 + 1, "Softmax": 2 * 11}),
        ("int4_60m_decode", {"MatMulNBits": 12 * 7 + 1, "GroupQueryAttention": 12, "SkipSimplifiedLayerNormalization": 24, "Gather": 2}),
        ("bert_base_int8", {"MatMulInteger": 12 * 6 + 1, "DynamicQuantizeLinear": 12 * 4 + 1, "MatMul": 24, "Gemm": 0, "DequantizeLinear": 3}),
        ("t5_small_encoder", {"LayerNormalization": 0, "ReduceMean": 13, "Log": 1}),
    ],
)
def test_structure(name, counts):
    made = op_counts(make.MODELS[name](name))
    assert {op: made.get(op, 0) for op in counts} == counts


def test_decoders_share_their_weights():
    decode, prefill = (make.MODELS[name](name) for name in ("int4_60m_decode", "int4_60m_prefill"))
    assert decode.initializers.keys() == prefill.initializers.keys()
    assert all(np.array_equal(decode.initializers[name], prefill.initializers[name]) for name in decode.initializers)
    assert decode.sample_inputs["input_ids"].shape == (1, 1) and prefill.sample_inputs["input_ids"].shape == (1, 64)


def test_gpt2_pair_shares_its_weights(monkeypatch):
    monkeypatch.setattr(transformers.Gpt2, "layers", 1)
    prefill = make.MODELS["gpt2_prefill"]("gpt2_prefill").initializers
    decode = make.MODELS["gpt2_decode"]("gpt2_decode").initializers
    assert prefill.keys() == decode.keys()
    assert all(np.array_equal(prefill[name], decode[name]) for name in prefill)
