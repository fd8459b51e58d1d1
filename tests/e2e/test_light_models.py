"""The nine light_* models of libonnx-testdata: as they are, and with random weights against ONNX Runtime."""

import hashlib
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from cli_support import done, json_of
from onnx import numpy_helper

DEMO = pathlib.Path(__file__).resolve().parents[2] / "samples" / "demo"
sys.path.insert(0, str(DEMO))
import light_models  # noqa: E402

NAMES = [
    "light_bvlc_alexnet",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "light_squeezenet",
    "light_vgg19",
    "light_zfnet512",
]
RTOL = 1e-3
ATOL_OF_PEAK = 1e-5  # for values near zero; a probability of 0.001 is still compared to three digits


@pytest.fixture
def folder(tmp_path):
    """Removed after each test, not with the session: some of these models are half a gigabyte."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def write_test_data(folder, model, expected):
    folder.mkdir()
    name, _ = light_models.input_info(model)
    onnx.save_tensor(numpy_helper.from_array(light_models.sample_input(model), name), folder / "input_0.pb")
    onnx.save_tensor(numpy_helper.from_array(expected, model.graph.output[0].name), folder / "output_0.pb")


def compile_and_run(folder, expected):
    """model.onnx and what it compiles to, both against the expected output in `data`."""
    atol = ATOL_OF_PEAK * float(np.abs(expected).max())
    tolerances = ["--rtol", f"{RTOL:g}", "--atol", f"{atol:g}"]
    done("run", "model.onnx", "--test-data", "data", *tolerances, cwd=folder)
    done("compile", "model.onnx", cwd=folder)
    (folder / "model.onnx").unlink()  # no output depends on a source file
    done("run", "model_ctx.onnx", "--test-data", "data", *tolerances, cwd=folder)


@pytest.mark.parametrize("name", NAMES)
def test_matches_the_expected_output(name, folder):
    shutil.copyfile(light_models.model_path(name), folder / "model.onnx")
    expected = light_models.expected_output(name)
    write_test_data(folder / "data", onnx.load(folder / "model.onnx"), expected)
    compile_and_run(folder, expected)


@pytest.mark.parametrize("name", NAMES)
def test_matches_onnxruntime_with_random_weights(name, folder):
    pytest.importorskip("onnxruntime")
    model = light_models.randomized(onnx.load(light_models.model_path(name)))
    onnx.save(model, folder / "model.onnx")
    input_name, _ = light_models.input_info(model)
    np.save(folder / "input.npy", light_models.sample_input(model))
    subprocess.run(
        [sys.executable, DEMO / "reference.py", "model.onnx", f"{input_name}=input.npy", "-o", "expected.npy"],
        cwd=folder, capture_output=True, check=True,
    )  # fmt: skip
    expected = np.load(folder / "expected.npy")
    assert np.isfinite(expected).all()
    assert expected.std() > 0.1 * np.abs(expected).mean(), "equal outputs would hide wrong ones"
    write_test_data(folder / "data", model, expected)
    compile_and_run(folder, expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_convolution_goes_to_dnnl(name, folder):
    shutil.copyfile(light_models.model_path(name), folder / "model.onnx")
    assignment = json_of("explain", "model.onnx", cwd=folder)["assignment"]
    convolutions = [node for node in assignment if node["op_type"] == "Conv"]
    in_model = sum(node.op_type == "Conv" for node in onnx.load(folder / "model.onnx").graph.node)
    assert len(convolutions) == in_model
    assert [node for node in convolutions if node["provider"] != "dnnl"] == []


def digests(folder):
    return {path.name: hashlib.file_digest(path.open("rb"), "sha256").hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_in_any_folder_at_any_j(name, folder):
    outputs = []
    for subfolder, jobs in (("one", "-j1"), ("elsewhere", "-j2")):
        (folder / subfolder).mkdir()
        shutil.copyfile(light_models.model_path(name), folder / subfolder / "model.onnx")
        done("compile", "model.onnx", jobs, cwd=folder / subfolder)
        outputs.append(digests(folder / subfolder))
    assert outputs[0] == outputs[1]
    assert set(outputs[0]) == {"model.onnx", "model_ctx.onnx", "model_dnnl.bin"}
