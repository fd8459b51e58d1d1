"""./dev conformance: what it says of good, wrong, refused and crashing cases; and the cases that take seconds."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RUN = pathlib.Path(__file__).resolve().parent / "run.py"
DATA = pathlib.Path("/usr/share/libonnx-testdata/data")

# Stands in for the worker: crashes, hangs and leaves where the name of the case says so.
FAKE_WORKER = """
import os, signal, sys, time
for line in sys.stdin:
    name = os.path.basename(line.strip())
    if name == "test_segv": os.kill(os.getpid(), signal.SIGSEGV)
    if name == "test_exit": sys.exit("out of ideas")
    if name == "test_hang": time.sleep(60)
    print("passed\\t1\\t", flush=True)
"""


def conformance(tmp_path, *arguments):
    """The finished process and its results by name."""
    file = tmp_path / "results.json"
    command = [sys.executable, str(RUN), "--json", str(file), *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert file.exists(), finished.stdout + finished.stderr
    return finished, {result["name"]: result for result in json.loads(file.read_text())}


def add_case(folder, name, op, domain="", wrong=False):
    """y = op(x) for x = [-1, 2], with y = [0, 2] stored, or [0, 3]."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain=domain)], "g", [x], [y])
    opsets = [helper.make_opsetid("", 20)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / name / "model.onnx")
    for file, values in ("input_0.pb", [-1, 2]), ("output_0.pb", [0, 3 if wrong else 2]):
        (data / file).write_bytes(numpy_helper.from_array(np.array(values, np.float32)).SerializeToString())


@pytest.fixture
def cases(tmp_path):
    folder = tmp_path / "data" / "node"
    add_case(folder, "test_right", "Relu")
    return folder


@pytest.mark.parametrize("via", ["cpu", "compile"])
def test_wrong_expectation_is_failed(tmp_path, cases, via):
    add_case(cases, "test_wrong", "Relu", wrong=True)
    finished, results = conformance(tmp_path, "--via", via, "--kind", "node", "--data", cases.parent)
    assert finished.returncode == 1
    assert "1 passed, 1 failed, 0 crashed, 0 skipped" in finished.stdout
    assert "failed   node/test_wrong: test_data_set_0: output 0 \"y\" element 1 is 2, expected 3" in finished.stdout
    assert results["test_right"]["outcome"] == "passed" and results["test_wrong"]["outcome"] == "failed"


@pytest.mark.parametrize("via", ["cpu", "compile"])
def test_refusal_is_skipped_and_names_the_operator(tmp_path, cases, via):
    add_case(cases, "test_foreign", "Zwirbel", domain="org.example")
    finished, results = conformance(tmp_path, "--via", via, "--kind", "node", "--data", cases.parent)
    assert finished.returncode == 0
    assert results["test_foreign"]["outcome"] == "skipped" and "Zwirbel" in results["test_foreign"]["reason"]
    assert "Zwirbel" in finished.stdout


def test_damaged_case_is_failed(tmp_path, cases):
    add_case(cases, "test_cut", "Relu")
    model = cases / "test_cut" / "model.onnx"
    model.write_bytes(model.read_bytes()[:-20])
    add_case(cases, "test_without_data", "Relu")
    shutil.rmtree(cases / "test_without_data" / "test_data_set_0")
    finished, results = conformance(tmp_path, "--via", "cpu", "--kind", "node", "--data", cases.parent)
    assert finished.returncode == 1
    assert results["test_cut"]["outcome"] == results["test_without_data"]["outcome"] == "failed"


def test_crash_does_not_end_the_run(tmp_path, cases):
    for name in "test_segv", "test_exit", "test_hang", "test_zz_last":
        add_case(cases, name, "Relu")
    worker = tmp_path / "worker"
    worker.write_text(f"#!{sys.executable}\n{FAKE_WORKER}")
    worker.chmod(0o755)
    options = ["--kind", "node", "--data", cases.parent, "--worker", worker, "--time-limit", 2]
    finished, results = conformance(tmp_path, "--via", "cpu", *options)
    assert finished.returncode == 1
    assert "2 passed, 0 failed, 3 crashed, 0 skipped" in finished.stdout
    assert results["test_segv"]["reason"] == "killed by SIGSEGV"
    assert results["test_exit"]["reason"] == "exited with status 1: out of ideas"
    assert results["test_hang"]["reason"] == "no answer within 2 s"


def test_known_case_that_passes_is_failed(tmp_path, cases):
    add_case(cases, "test_wrong", "Relu", wrong=True)
    known = tmp_path / "known.txt"
    known.write_text("# a comment\ntest_wrong: made so\ntest_right: not so\n")
    finished, results = conformance(tmp_path, "--via", "cpu", "--kind", "node", "--data", cases.parent, "--known", known)
    assert finished.returncode == 1
    assert results["test_wrong"] == dict(kind="node", name="test_wrong", outcome="skipped", partitions=0, reason="known: made so")
    assert results["test_right"]["outcome"] == "failed"


def test_nothing_run_is_no_success(tmp_path, cases):
    finished, results = conformance(tmp_path, "--via", "cpu", "--kind", "node", "--data", cases.parent, "-k", "nothing")
    assert finished.returncode == 1 and not results


@pytest.mark.skipif(not DATA.is_dir(), reason="libonnx-testdata is not installed")
@pytest.mark.parametrize("via", ["cpu", "compile"])
def test_kinds_of_trained_layers_and_of_the_checker(tmp_path, via):
    finished, results = conformance(tmp_path, "--via", via, *(f"--kind={kind}" for kind in ("simple", "pytorch-converted", "pytorch-operator")))
    assert finished.returncode == 0, finished.stdout
    assert sum(result["outcome"] == "passed" for result in results.values()) >= 124
    assert sum(result["partitions"] > 0 for result in results.values()) >= (85 if via == "compile" else 0)
