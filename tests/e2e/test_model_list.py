"""compile --list: many models, each on its own; shares of a list; what fails stops nothing and is tried again."""

import json
import os
import signal
import subprocess

import numpy as np
import onnx
import pytest
from cli_support import conv_model, ctxgen, done, into, refused, save, temporaries
from fault_support import run_faulty
from onnx import numpy_helper
from test_regroup import files_of


@pytest.fixture
def folder(tmp_path):
    for index in range(6):
        save(conv_model(seed=index), tmp_path / "in" / f"m{index}.onnx")
    return tmp_path


def write_list(folder, *lines):
    path = folder / "models.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def run_list(*arguments, status=0):
    """The lines for models by name, and the last one."""
    finished = ctxgen("compile", "--list", *arguments, "--json")
    assert finished.returncode == status, finished.stderr
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    models = {line["model"].rsplit("/", 1)[-1]: line for line in lines[:-1]}
    assert len(models) == len(lines) - 1
    return models, lines[-1]


def paths(folder, *indices):
    return [str(folder / "in" / f"m{index}.onnx") for index in indices]


def test_a_list_is_what_single_compiles_write(folder):
    lines = write_list(folder, "# comment", *paths(folder, 0, 1), "", f'"{folder}/in/m2.onnx" --dim batch=4', f"{folder}/in/m3.onnx -o {folder}/m3.onnx --embed")
    models, summary = run_list(lines, "-o", folder / "out", "-j", "2", "--dim", "batch=2", "--node-prefix=p_")
    assert summary["models"] == 4 and summary["compiled"] == 4 and summary["failed"] == 0
    assert [models[f"m{i}.onnx"]["line"] for i in range(4)] == [2, 3, 5, 6]
    assert models["m0.onnx"]["output"] == str(folder / "out" / "m0_ctx.onnx")
    assert {model["state"] for model in models.values()} == {"compiled"}
    assert models["m2.onnx"]["report"]["models"][0]["partitions"][0]["plans"] == 1
    for index, dims in ((0, "batch=2"), (1, "batch=2"), (2, "batch=4")):
        done("compile", folder / "in" / f"m{index}.onnx", "-o", into(folder / "alone"), "--dim", dims, "--node-prefix", "p_")
    assert files_of(folder / "out") == files_of(folder / "alone")
    done("compile", folder / "in" / "m3.onnx", "-o", folder / "one.onnx", "--embed", "--dim", "batch=2", "--node-prefix", "p_")
    assert (folder / "m3.onnx").read_bytes() == (folder / "one.onnx").read_bytes()


def test_what_fails_stops_nothing_and_a_rerun_tries_it_again(folder):
    whole = (folder / "in" / "m1.onnx").read_bytes()
    (folder / "in" / "m1.onnx").write_bytes(whole[:-100])
    lines = write_list(folder, *paths(folder, 0, 1, 2), str(folder / "in" / "none.onnx"))
    models, summary = run_list(lines, "-o", folder / "out", "-j1", status=4)
    assert (summary["compiled"], summary["current"], summary["failed"]) == (2, 0, 2)
    assert models["m1.onnx"]["state"] == "failed" and models["m1.onnx"]["error"]["code"] == "INVALID_GRAPH"
    assert models["none.onnx"]["error"]["status"] == 3
    assert sorted(files_of(folder / "out")) == ["m0_ctx.onnx", "m0_dnnl.bin", "m2_ctx.onnx", "m2_dnnl.bin"]
    (folder / "in" / "m1.onnx").write_bytes(whole)
    save(conv_model(seed=9), folder / "in" / "none.onnx")
    save(conv_model(seed=10), folder / "in" / "m2.onnx")
    models, summary = run_list(lines, "-o", folder / "out")
    assert {name: model["state"] for name, model in models.items()} == {"m0.onnx": "current", "m1.onnx": "compiled", "m2.onnx": "compiled", "none.onnx": "compiled"}
    finished = done("compile", "--list", lines, "-o", folder / "out")
    assert "4 models: 0 compiled, 4 current, 0 failed" in finished.stdout
    assert done("compile", "--list", lines, "-o", folder / "out", "-q").stdout == ""


@pytest.mark.parametrize("by", ["path", "weights"])
def test_shares_merged_are_one_batch(folder, by):
    inputs = paths(folder, *range(6))
    lines = write_list(folder, *inputs)
    seen = {}
    for shard in (1, 2, 3):
        models, summary = run_list(lines, "-o", folder / f"shard{shard}", "--shard", f"{shard}/3", "--shard-by", by)
        assert summary["models"] == len(models)
        seen.update({name: folder / f"shard{shard}" / f"{name.removesuffix('.onnx')}_ctx.onnx" for name in models})
    assert sorted(seen) == [f"m{index}.onnx" for index in range(6)]
    done("merge", *(seen[f"m{index}.onnx"] for index in range(6)), "-o", folder / "merged")
    done("compile", ",".join(inputs), "-o", folder / "batch")
    assert files_of(folder / "merged") == files_of(folder / "batch")


def test_models_with_weights_in_common_stay_together(tmp_path):
    """Three bases, each with two heads; larger weights tell them apart, equal small ones do not join them."""
    for base in range(3):
        big = numpy_helper.from_array(np.random.default_rng(base).standard_normal((256, 256), dtype=np.float32), "big")
        for head in range(2):
            model = conv_model(seed=head)
            model.graph.initializer.append(big)
            save(model, tmp_path / "in" / f"b{base}h{head}.onnx")
    names = [f"b{base}h{head}" for head in range(2) for base in range(3)]
    lines = write_list(tmp_path, *(str(tmp_path / "in" / f"{name}.onnx") for name in names))
    shards = {}
    for shard in (1, 2, 3):
        models, _ = run_list(lines, "-o", tmp_path / "out", "--shard", f"{shard}/3", "--shard-by", "weights", "--dry-run")
        shards[shard] = {name[:2] for name in models}
        assert len(models) == 2
    assert sorted(map(tuple, shards.values())) == [("b0",), ("b1",), ("b2",)]


@pytest.mark.parametrize("line, named", [
    ("{m} --frobnicate", "unknown option"), ("{m} other.onnx", "unknown option"), ("{m} --json", "not an option of one model"),
    ("{m} --dim", "needs a value"), ("--embed {m}", "begins with a model"), ("{m} -o {out}/m0_ctx.onnx", "written here and for line 1"),
    ("{m} -o {out}/m0.onnx", "m0_dnnl.bin"), ('{m} "', "is not closed"),
])
def test_a_wrong_list_compiles_nothing(folder, line, named):
    lines = write_list(folder, str(folder / "in" / "m0.onnx"), line.format(m=folder / "in" / "m1.onnx", out=folder / "out"))
    refused(1, "INVALID_ARGUMENT", "compile", "--list", lines, "-o", folder / "out", names=[f"{lines}:2: ", named])
    assert not (folder / "out").exists()


@pytest.mark.parametrize("arguments, named", [
    (["--bin", "x"], "--bin"), (["--report", "r"], "--report"), (["--no-clobber"], "--no-clobber"), (["--depfile", "d"], "--depfile"),
    (["--shard", "0/2"], "--shard"), (["--shard", "3/2"], "--shard"), (["--shard", "1"], "--shard"), (["--shard", "1/2x"], "--shard"), (["in/m0.onnx"], "a model"),
])
def test_what_a_list_cannot_have(folder, arguments, named):
    lines = write_list(folder, *paths(folder, 0))
    refused(1, "INVALID_ARGUMENT", "compile", "--list", lines, *arguments, names=[named])


def test_wrong_without_a_list(folder):
    refused(1, "INVALID_ARGUMENT", "compile", names=["--list"])
    refused(1, "INVALID_ARGUMENT", "compile", paths(folder, 0)[0], "--shard", "1/2", names=["--list"])
    refused(1, "INVALID_ARGUMENT", "compile", "--list", write_list(folder, "# nothing"), names=["lists no model"])
    refused(3, "IO_ERROR", "compile", "--list", folder / "none.txt")


def test_a_process_that_is_killed_is_one_failure(folder):
    """A signal ends one of the processes: the others are compiled, and the line says so."""
    (folder / "odd").mkdir()
    lines = write_list(folder, *paths(folder, 0), f"{folder}/in/m1.onnx -o {folder}/odd/m1_ctx.onnx", *paths(folder, 2))
    finished = run_faulty(folder / "odd", "compile", "--list", lines, "-o", folder / "out", "-j", "2", "--json", FAULT="*:1:KILL")
    assert finished.returncode == 4, finished.stderr
    models = [json.loads(line) for line in finished.stdout.splitlines()][:-1]
    assert sorted(model["state"] for model in models) == ["compiled", "compiled", "failed"]
    (failed,) = [model for model in models if model["state"] == "failed"]
    assert failed["line"] == 2 and failed["error"]["code"] == "INTERNAL" and "signal 9" in failed["error"]["message"]


def test_interrupted(folder):
    lines = write_list(folder, *paths(folder, *range(6)))
    process = subprocess.Popen([os.environ["CTXGEN_BIN"], "compile", "--list", lines, "-o", folder / "out", "-j", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "CANCELLED" in errors
    assert temporaries(folder) == []
    _, summary = run_list(lines, "-o", folder / "out")
    assert summary["current"] >= 1 and summary["failed"] == 0
    assert onnx.load(folder / "out" / "m5_ctx.onnx").graph.node[0].op_type == "EPContext"
