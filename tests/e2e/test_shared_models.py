"""The trained models of $CTXGEN_MODELS: original and context model against their reference outputs, or one clear error.

The table is exact in both directions: a model that starts to work, or fails for another reason, fails here until its row says
so.
"""

import os
import pathlib
import re
import shutil

import pytest
from cli_support import ctxgen, done

if "CTXGEN_MODELS" not in os.environ:
    pytest.skip("CTXGEN_MODELS is not set (a folder of models, see ./dev help)", allow_module_level=True)
MODELS = pathlib.Path(os.environ["CTXGEN_MODELS"])

COMPILED = "matches, with at least one partition compiled"
PLAIN = "matches, but nothing in it is compiled"
# model: COMPILED, PLAIN, or what its error names (any of these: which one is met first is no promise)
EXPECTED = {
    "basic_pitch": COMPILED,
    "bert_mlm_small": COMPILED,
    "crop_and_resize_loop": PLAIN,
    "epcontext_qnn_embed": ["QNN"],
    "espcn_brevitas_quant": ["Quant", "onnx.brevitas"],
    "fastestdet": COMPILED,
    "firered_vad_stream": COMPILED,
    "firered_vad_stream_cache": COMPILED,
    "fused_gemm_contrib": COMPILED,
    "gpt2_tiny_beamsearch": ["BeamSearch"],
    "gpt2_tiny_past": COMPILED,
    "gtcrn_stream": COMPILED,
    "gtcrn_stream_simplified": COMPILED,
    "light_shufflenet": COMPILED,
    "lstm_scan_cntk": PLAIN,
    "magika_v3_3": COMPILED,
    "micro_kws_qdq": COMPILED,
    "micro_kws_qoperator": COMPILED,
    "mnist_cntk": COMPILED,
    "mnist_convinteger": COMPILED,
    "mnist_external": COMPILED,
    "palm_detection_lite": COMPILED,
    "portrait_prisma": COMPILED,
    "ppocrv3_det": COMPILED,
    "qwen_like_fp16_gqa": COMPILED,
    "rfb320_face": COMPILED,
    "rfb320_face_nopost": COMPILED,
    "silero_vad_v6": PLAIN,
    "squeezenet_fp16": COMPILED,
    "super_resolution": COMPILED,
    "wakeword_hey_snips": COMPILED,
    "xgboost_regressor": PLAIN,
}
RUNS = [name for name, expected in EXPECTED.items() if expected in (COMPILED, PLAIN)]
REFUSED = [name for name in EXPECTED if name not in RUNS]


def test_table_names_every_model():
    assert set(EXPECTED) == {path.parent.name for path in MODELS.glob("*/model.onnx")}


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_original_and_context_model_match(name, folder):
    """Within the tolerance that follows from the model, beside ONNX Runtime's outputs and beside the source on CPU kernels."""
    original = MODELS / name / "model.onnx"
    context = folder / "model_ctx.onnx"
    for arguments in (
        ["run", original, "--test-data", original.parent],
        ["compile", original, "-o", context],
        ["run", context, "--test-data", original.parent],
        ["verify", context, "--against", original, "--test-data", original.parent],
    ):
        done(*arguments)
    assert (folder / "model_dnnl.bin").exists() == (EXPECTED[name] == COMPILED)


def assert_refused(finished, names):
    errors = [line for line in finished.stderr.splitlines() if line.startswith("ctxgen: error: ")]
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert len(errors) == 1, finished.stderr
    assert any(re.search(rf"\b{re.escape(name)}", errors[0]) for name in names), errors[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_missing_is_named_once(name, folder):
    original = MODELS / name / "model.onnx"
    has_data = bool(list(original.parent.glob("test_data_set_*")))
    data = ["--test-data", original.parent] if has_data else []
    assert_refused(ctxgen("run", original, *data), EXPECTED[name])

    # compiling goes around what only another runtime can run; then it is running that stops
    context = folder / "model_ctx.onnx"
    compiled = ctxgen("compile", original, "-o", context)
    if compiled.returncode == 0:
        assert_refused(ctxgen("run", context, *data), EXPECTED[name])
    else:
        assert_refused(compiled, EXPECTED[name])
        assert list(folder.iterdir()) == []
