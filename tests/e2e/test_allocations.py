"""A run of a static convolutional network allocates nothing by ctxgen's code once its context has run (those inside oneDNN and OpenMP are counted apart)."""

import json
import os
import pathlib
import subprocess

import pytest
from cli_support import conv_model, done, save

COUNTER = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "allocation_counter"
if not COUNTER.exists():
    pytest.skip("a sanitizer's allocator cannot be counted", allow_module_level=True)

# Static shapes, and compiled whole. The weights of the second half may be overridden unless they are frozen.
STATIC = ["fastestdet", "light_shufflenet", "micro_kws_qdq", "mnist_cntk", "mnist_external", "palm_detection_lite", "portrait_prisma", "squeezenet_fp16"]
FROZEN = ["rfb320_face", "rfb320_face_nopost"]


def count(model, how):
    finished = subprocess.run([COUNTER, model, how], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout), finished.stderr


@pytest.mark.parametrize("how", ["ours", "mine"])
@pytest.mark.parametrize("name", STATIC + FROZEN)
def test_none_for_trained_networks(name, how, tmp_path):
    if "CTXGEN_MODELS" not in os.environ:
        pytest.skip("CTXGEN_MODELS is not set (a folder of models, see ./dev help)")
    model = tmp_path / "net_ctx.onnx"
    freeze = ["--freeze-initializers"] if name in FROZEN else []
    done("compile", "-q", pathlib.Path(os.environ["CTXGEN_MODELS"]) / name / "model.onnx", "-o", model, *freeze)
    counted, callers = count(model, how)
    assert counted["partitions"] == counted["nodes"] == 1
    assert counted["ctxgen"] == 0, f"{counted}, addresses for addr2line -e {COUNTER}:\n{callers}"
    assert counted["onednn"] > 0  # its allocations do come by


@pytest.mark.parametrize("how", ["ours", "mine"])
def test_none_for_a_shape_that_was_planned_at_run_time(how, tmp_path):
    done("compile", "-q", save(conv_model(), tmp_path / "net.onnx"))
    counted, callers = count(tmp_path / "net_ctx.onnx", how)
    assert counted["ctxgen"] == 0, callers


def test_kernels_that_do_allocate_are_seen(tmp_path):
    counted, _ = count(save(conv_model(), tmp_path / "net.onnx"), "ours")
    assert counted["partitions"] == 0 and counted["ctxgen"] > 20
