"""What the demo is made of, and that it notices a wrong result."""

import os
import pathlib
import re
import stat
import subprocess
import sys

import numpy as np
import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "samples" / "demo"
sys.path.insert(0, str(DEMO))
import light_models  # noqa: E402


@pytest.fixture(scope="module")
def squeezenet():
    return onnx.load(light_models.model_path("light_squeezenet"))


def weights(model):
    return {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    }


def test_randomized_replaces_every_constant_of_shape(squeezenet):
    random_model = light_models.randomized(squeezenet)
    onnx.checker.check_model(random_model, full_check=True)
    kinds = {node.op_type for node in random_model.graph.node}
    assert "ConstantOfShape" not in kinds
    made = sum(node.op_type == "ConstantOfShape" for node in squeezenet.graph.node)
    assert len(weights(random_model)) == len(weights(squeezenet)) + made
    assert all(values.std() > 0 for values in weights(random_model).values())


def test_randomized_depends_on_the_seed_only(squeezenet):
    once = light_models.randomized(squeezenet, seed=1).SerializeToString(deterministic=True)
    assert once == light_models.randomized(squeezenet, seed=1).SerializeToString(deterministic=True)
    assert once != light_models.randomized(squeezenet, seed=2).SerializeToString(deterministic=True)


def test_randomized_variances_are_positive():
    model = light_models.randomized(onnx.load(light_models.model_path("light_resnet50")))
    values = weights(model)
    variances = [values[node.input[4]] for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert len(variances) == 53
    assert min(variance.min() for variance in variances) > 0


def test_sample_input_is_arange_over_n(squeezenet):
    sample = light_models.sample_input(squeezenet)
    assert sample.shape == (1, 3, 224, 224)
    assert sample.flat[0] == 0
    assert np.isclose(sample.flat[-1], 1 - 1 / sample.size)


def fake_ctxgen(folder, text):
    program = folder / "ctxgen"
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def run_demo(program, temporary):
    environment = {**os.environ, "CTXGEN_BIN": str(program), "TMPDIR": str(temporary)}
    return subprocess.run(
        [sys.executable, DEMO / "demo.py"], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_demo_fails_on_a_mismatch_and_leaves_nothing(tmp_path):
    program = fake_ctxgen(tmp_path, '[ "$1" = run ] || exit 0\necho "output 0 differs" >&2\nexit 4\n')
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    finished = run_demo(program, temporary)
    assert finished.returncode == 1
    assert "status 4" in finished.stderr
    assert "output 0 differs" in finished.stderr
    assert "everything matched" not in finished.stdout
    assert list(temporary.iterdir()) == []


def test_demo_without_a_program_says_how_to_run_it(tmp_path):
    finished = run_demo(tmp_path / "missing", tmp_path)
    assert finished.returncode == 1
    assert "./dev demo" in finished.stderr


def test_demo_runs_and_leaves_nothing(tmp_path):
    finished = run_demo(os.environ["CTXGEN_BIN"], tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "everything matched" in finished.stdout
    assert "\033" not in finished.stdout, "colours belong to a terminal"
    assert list(tmp_path.iterdir()) == []


def readme_commands():
    part = (ROOT / "README.md").read_text().split("\n## Five minutes", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.M | re.S)
    return [line.split("#")[0].split() for block in blocks for line in block.splitlines()]


def test_five_minute_example_of_the_readme_works(tmp_path):
    commands = readme_commands()
    assert [words[1] for words in commands if words[0] == "ctxgen"] == [
        "doctor", "explain", "compile", "run", "inspect", "check", "verify", "bench", "report",
    ]  # fmt: skip
    for words in commands:
        program = os.environ["CTXGEN_BIN"] if words[0] == "ctxgen" else words[0]
        finished = subprocess.run([program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, f"{' '.join(words)}: {finished.stdout}{finished.stderr}"
    assert {path.name for path in tmp_path.iterdir()} == {
        "squeezenet.onnx", "squeezenet_ctx.onnx", "squeezenet_dnnl.bin", "squeezenet_report.html",
    }  # fmt: skip


def shape_of(text):
    """Words without what depends on machine and version: numbers, hashes, instruction sets, column widths."""
    text = re.sub(r"isa=\S+", "isa", text)
    text = re.sub(r"^seed \d+, (nan|infinity): .*\n(  .*\n)*", "", text, flags=re.M)  # what kernels do with them
    text = re.sub(r"\b[0-9a-f]{16,}\b|(?<=dnnl_)[0-9a-f]{16}", "#", text)
    text = re.sub(r"\d+(?:\.\d+)?(?:e[+-]\d+)?", "#", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_readme_shows_what_its_three_commands_print(tmp_path):
    (block,) = re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    make = [sys.executable, ROOT / "bench" / "models" / "make.py", "mobilenetv2", "-o", tmp_path]
    subprocess.run(make, check=True, capture_output=True)
    shown = [part.split("\n", 1) for part in block.split("$ ctxgen ")[1:]]
    assert [command.split()[0] for command, _ in shown] == ["compile", "check", "verify"]
    for command, output in shown:
        words = [os.environ["CTXGEN_BIN"], *command.split()]
        finished = subprocess.run(words, cwd=tmp_path / "mobilenetv2", capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        assert shape_of(finished.stdout) == shape_of(output)
