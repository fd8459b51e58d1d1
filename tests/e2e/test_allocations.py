"""A run allocates nothing by ctxgen's code once its context has run with these shapes (those inside oneDNN and OpenMP are counted apart)."""

import json
import os
import pathlib
import subprocess

import pytest
from cli_support import conv_model, done, make_model, save
from onnx import TensorProto, helper

COUNTER = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "allocation_counter"
if not COUNTER.exists():
    pytest.skip("a sanitizer's allocator cannot be counted", allow_module_level=True)

# Compiled whole; the weights of the second half may be overridden unless they are frozen.
COMPILED = ["fastestdet", "firered_vad_stream", "gtcrn_stream_simplified", "light_shufflenet", "micro_kws_qdq", "micro_kws_qoperator", "mnist_cntk", "mnist_convinteger",
            "mnist_external", "palm_detection_lite", "portrait_prisma", "ppocrv3_det", "squeezenet_fp16", "super_resolution", "wakeword_hey_snips"]
FROZEN = ["rfb320_face", "rfb320_face_nopost"]  # and as they are: their initializers are inputs with defaults
# Those that CPU kernels run in part or whole: int8, float16, sequences, Loop, Scan, If, trees. Inputs are zeros.
WITH_KERNELS = ["basic_pitch", "bert_mlm_small", "crop_and_resize_loop", "fused_gemm_contrib", "gtcrn_stream", "lstm_scan_cntk", "magika_v3_3",
                "qwen_like_fp16_gqa", "xgboost_regressor"]


def count(model, how):
    finished = subprocess.run([COUNTER, model, how], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout), finished.stderr


def compiled(name, folder, *options):
    if "CTXGEN_MODELS" not in os.environ:
        pytest.skip("CTXGEN_MODELS is not set (a folder of models, see ./dev help)")
    model = folder / "net_ctx.onnx"
    done("compile", "-q", pathlib.Path(os.environ["CTXGEN_MODELS"]) / name / "model.onnx", "-o", model, *options)
    return model


def none_of_ours(model, how):
    counted, callers = count(model, how)
    assert counted["ctxgen"] == 0, f"{counted}, addresses for addr2line -e {COUNTER}:\n{callers}"
    return counted


@pytest.mark.parametrize("how", ["ours", "mine"])
@pytest.mark.parametrize("name", COMPILED + FROZEN)
def test_none_for_compiled_networks(name, how, tmp_path):
    counted = none_of_ours(compiled(name, tmp_path, *(["--freeze-initializers"] if name in FROZEN else [])), how)
    assert counted["partitions"] == counted["nodes"] == 1


@pytest.mark.parametrize("how", ["ours", "mine"])
def test_those_inside_onednn_do_come_by(how, tmp_path):
    """Its depthwise convolutions are oneDNN's on all machines; some networks run by own kernels alone, which allocate nothing."""
    assert none_of_ours(compiled("light_shufflenet", tmp_path), how)["onednn"] > 0


@pytest.mark.parametrize("how", ["ours", "mine"])
@pytest.mark.parametrize("name", FROZEN)
def test_none_for_overridable_initializers(name, how, tmp_path):
    counted = none_of_ours(compiled(name, tmp_path), how)
    assert counted["partitions"] == counted["nodes"] == 1


@pytest.mark.parametrize("how", ["ours", "mine"])
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_none_for_cpu_kernels(name, how, tmp_path):
    counted = none_of_ours(compiled(name, tmp_path), how)
    assert counted["nodes"] > counted["partitions"]


@pytest.mark.parametrize("how", ["ours", "mine"])
def test_none_for_a_shape_that_was_planned_at_run_time(how, tmp_path):
    done("compile", "-q", save(conv_model(), tmp_path / "net.onnx"))
    none_of_ours(tmp_path / "net_ctx.onnx", how)


@pytest.mark.parametrize("how", ["ours", "mine"])
def test_none_for_a_plain_model(how, tmp_path):
    assert none_of_ours(save(conv_model(), tmp_path / "net.onnx"), how)["partitions"] == 0


def test_what_does_allocate_is_seen(tmp_path):
    """Strings have memory of their own."""
    long = helper.make_tensor("long", TensorProto.STRING, [1], [b"longer than what fits into the object itself"])
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["text"], to=TensorProto.STRING), helper.make_node("Concat", ["text", "long"], ["y"], axis=0)], "strings",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])], [helper.make_tensor_value_info("y", TensorProto.STRING, [4])], [long])
    counted, callers = count(save(make_model(graph), tmp_path / "strings.onnx"), "ours")
    assert counted["ctxgen"] >= 20
    assert callers
