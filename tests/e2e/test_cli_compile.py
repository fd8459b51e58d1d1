"""ctxgen compile: names of outputs, options, refusals, and what stays behind."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import numpy as np
import onnx
import onnx.compose
import pytest
from cli_support import (
    add_model, attributes, conv_model, ctxgen, done, ep_nodes, json_of, make_model, refused, save, temporaries,
    unknown_model,
)
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def test_outputs_lie_beside_the_model(model, tmp_path):
    finished = done("compile", model, "--dim", "batch=1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "net_ctx.onnx", "net_dnnl.bin"]
    assert "net_ctx.onnx" in finished.stdout
    assert finished.stderr == ""
    node = attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])
    assert node["ep_cache_context"] == b"net_dnnl.bin"
    assert node["main_context"] == 1
    assert node["embed_mode"] == 0
    assert node["source"] == b"CtxgenDnnlExecutionProvider"
    assert node["onnx_model_filename"] == b"net.onnx"


def test_output_names_follow_o(model, tmp_path):
    (tmp_path / "out").mkdir()
    done("compile", model, "-o", tmp_path / "out" / "small_ctx.onnx")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["small_ctx.onnx", "small_dnnl.bin"]


@pytest.mark.parametrize("exists", [True, False])
def test_o_may_name_a_folder(model, tmp_path, exists):
    if exists:
        (tmp_path / "out").mkdir()
    done("compile", model, "-o", f"{tmp_path}/out/")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["net_ctx.onnx", "net_dnnl.bin"]


def test_relative_names_work_in_the_current_folder(model, tmp_path):
    done("compile", "net.onnx", cwd=tmp_path)
    assert (tmp_path / "net_ctx.onnx").exists()
    done("run", "net_ctx.onnx", cwd=tmp_path)


def test_a_batch_shares_one_bin(tmp_path):
    for name in ("a", "b"):
        save(conv_model(), tmp_path / f"{name}.onnx")
    report = json_of("compile", f"{tmp_path}/a.onnx,{tmp_path}/b.onnx", "-o", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a_ctx.onnx", "a_dnnl.bin", "b_ctx.onnx"]
    assert [one["input"] for one in report["models"]] == ["a.onnx", "b.onnx"]
    assert report["weight_bytes_stored"] * 2 == report["weight_bytes_added"]
    for name in ("a", "b"):
        done("run", tmp_path / "out" / f"{name}_ctx.onnx")


def test_equal_models_with_other_names_share_and_run(tmp_path):
    """The same network, its values called something else: weights are shared, and each model finds its own values."""
    model = conv_model()
    save(model, tmp_path / "a.onnx")
    save(onnx.compose.add_prefix(model, "other_", rename_initializers=False), tmp_path / "b.onnx")
    done("compile", tmp_path / "a.onnx", tmp_path / "b.onnx")
    results = []
    for name in ("a", "b"):
        done("run", tmp_path / f"{name}_ctx.onnx", "--output-dir", tmp_path / name)
        (output,) = (tmp_path / name).iterdir()
        results.append(output.read_bytes())
    assert results[0] == results[1]


def test_an_argument_that_names_a_file_is_not_split(tmp_path):
    save(conv_model(), tmp_path / "a,b.onnx")
    done("compile", tmp_path / "a,b.onnx")
    assert (tmp_path / "a,b_ctx.onnx").exists()


def test_equal_stems_are_a_usage_error(tmp_path):
    for folder in ("p", "q"):
        save(conv_model(), tmp_path / folder / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "p/net.onnx", tmp_path / "q/net.onnx", "-o", tmp_path / "out",
            names=["same stem"])
    assert not (tmp_path / "out").exists()


def test_embedding_makes_one_file(model, tmp_path):
    done("compile", model, "--embed")
    assert not (tmp_path / "net_dnnl.bin").exists()
    node = attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])
    assert node["embed_mode"] == 1
    assert len(node["ep_cache_context"]) > 100
    done("run", tmp_path / "net_ctx.onnx")


def test_bin_takes_the_given_name(model, tmp_path):
    done("compile", model, "--bin", tmp_path / "weights.bin")
    assert attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])["ep_cache_context"] == b"weights.bin"
    done("run", tmp_path / "net_ctx.onnx")


def test_stdin_and_stdout(model, tmp_path):
    finished = done("compile", "-", "--embed", "-o", "-", data=model.read_bytes(), text=False)
    onnx.load_from_string(finished.stdout)
    (tmp_path / "piped.onnx").write_bytes(finished.stdout)
    done("run", tmp_path / "piped.onnx")


def test_stdout_with_a_bin_file(model, tmp_path):
    (tmp_path / "out").mkdir()
    finished = done("compile", model, "-o", "-", "--bin", tmp_path / "out" / "w.bin", text=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["w.bin"]
    (tmp_path / "out" / "piped.onnx").write_bytes(finished.stdout)
    done("run", tmp_path / "out" / "piped.onnx")


@pytest.mark.parametrize("arguments", [
    ["-o", "-"],
    ["--embed", "--bin", "x.bin"],
    ["-o", "-", "--embed", "--json"],
    ["--dim", "batch"],
    ["--dim", "batch=two"],
    ["--dim", "batch=-1"],
    ["--dim", "batch=1", "--dim", "batch=2"],
    ["--shape", "x=1xx8"],
    ["--fix-dim", "=1"],
    ["--provider", "dnnl,,cpu"],
    ["--provider", "nobody"],
    ["--provider-option", "dnnl"],
    ["--provider-option", "dnnl:nonsense=1"],
    ["--threads", "-3"],
    ["-j", "many"],
    ["--no-such-option"],
])
def test_wrong_usage_writes_nothing(model, tmp_path, arguments):
    refused(1, "INVALID_ARGUMENT", "compile", model, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_a_batch_cannot_be_embedded(tmp_path):
    for name in ("a", "b"):
        save(conv_model(), tmp_path / f"{name}.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "a.onnx", tmp_path / "b.onnx", "--embed", names=["--embed"])


def test_the_model_is_not_overwritten(model):
    before = model.read_bytes()
    refused(1, "INVALID_ARGUMENT", "compile", model, "-o", model, names=["net.onnx"])
    assert model.read_bytes() == before


def test_no_clobber(model, tmp_path):
    (tmp_path / "net_dnnl.bin").write_text("mine")
    refused(1, "INVALID_ARGUMENT", "compile", model, "--no-clobber", names=["net_dnnl.bin"])
    assert (tmp_path / "net_dnnl.bin").read_text() == "mine"
    assert not (tmp_path / "net_ctx.onnx").exists()


def test_missing_model(tmp_path):
    refused(3, "IO_ERROR", "compile", tmp_path / "none.onnx", names=["none.onnx"])


def test_missing_output_folder(model, tmp_path):
    refused(3, "IO_ERROR", "compile", model, "-o", tmp_path / "none" / "x_ctx.onnx")


@pytest.mark.parametrize("content", [b"", b"hello, this is text\n"])
def test_what_is_no_model(tmp_path, content):
    (tmp_path / "bad.onnx").write_bytes(content)
    refused(2, "INVALID_GRAPH", "compile", tmp_path / "bad.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.onnx"]


def test_every_truncation_is_refused_or_valid(model, tmp_path):
    whole = model.read_bytes()
    cut = tmp_path / "cut" / "cut.onnx"
    cut.parent.mkdir()
    for size in range(0, len(whole), max(1, len(whole) // 20)):
        cut.write_bytes(whole[:size])
        finished = ctxgen("compile", cut)
        assert finished.returncode == 2, f"{size} bytes: {finished.returncode} {finished.stderr}"
        assert [path.name for path in cut.parent.iterdir()] == ["cut.onnx"]


def test_strict_names_the_fallback(tmp_path):
    tail = helper.make_node("CumSum", ["z", "axis"], ["y"], name="tail")
    model = conv_model(tail=tail)
    model.graph.initializer.append(helper.make_tensor("axis", onnx.TensorProto.INT64, [], [1]))
    path = save(model, tmp_path / "net.onnx")
    refused(4, "NOT_SATISFIED", "compile", path, "--strict", names=["CumSum"])
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_require_compiled(tmp_path):
    path = save(unknown_model(), tmp_path / "odd.onnx")
    refused(4, "NOT_SATISFIED", "compile", path, "--require-compiled")
    assert [path.name for path in tmp_path.iterdir()] == ["odd.onnx"]


def test_require_runnable(tmp_path):
    path = save(unknown_model(), tmp_path / "odd.onnx")
    refused(4, "NOT_SATISFIED", "compile", path, "--require-runnable", names=["Frobnicate"])


def test_nothing_compiled_is_a_plain_model_and_a_warning(tmp_path):
    path = save(unknown_model(), tmp_path / "odd.onnx")
    finished = done("compile", path)
    assert "ctxgen: warning:" in finished.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd.onnx", "odd_ctx.onnx"]
    assert [node.op_type for node in onnx.load(tmp_path / "odd_ctx.onnx").graph.node] == ["Frobnicate"]


def test_node_prefix(model, tmp_path):
    done("compile", model, "--node-prefix", "left_")
    node = ep_nodes(tmp_path / "net_ctx.onnx")[0]
    assert node.name.startswith("left_")
    assert attributes(node)["partition_name"].startswith(b"left_")


def test_report_and_json_agree(model, tmp_path):
    printed = json_of("compile", model, "--report", tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())
    assert written == printed
    (one,) = printed["models"]
    assert (one["input"], one["output"]) == ("net.onnx", "net_ctx.onnx")
    assert one["nodes"] == 5
    assert one["compiled_nodes"] + one["folded_nodes"] + len(one["fallbacks"]) >= 5
    assert one["partitions"][0]["provider"] == "dnnl"
    assert [one["name"] for one in printed["bins"]] == ["net_dnnl.bin"]
    assert printed["bins"][0]["bytes"] == (tmp_path / "net_dnnl.bin").stat().st_size
    assert one["model_bytes"] == (tmp_path / "net_ctx.onnx").stat().st_size


def test_profiles_are_planned_ahead(model, tmp_path):
    done("compile", model, "--dim", "batch=1,4", "--threads", "1")
    (context,) = json_of("inspect", tmp_path / "net_ctx.onnx")["contexts"]
    assert sorted(plan["input_dims"][0][0] for plan in context["programs"][0]["plans"]) == [1, 4]


def test_fix_dim_freezes_the_model(model, tmp_path):
    done("compile", model, "--fix-dim", "batch=3")
    (only,) = onnx.load(tmp_path / "net_ctx.onnx").graph.input
    assert only.type.tensor_type.shape.dim[0].dim_value == 3


def test_same_bytes_anywhere_and_at_any_j(tmp_path):
    results = []
    for folder, jobs in (("one", 1), ("two/deep", 2)):
        path = save(conv_model(), tmp_path / folder / "net.onnx")
        done("compile", path, "-j", jobs)
        results.append([(path.parent / name).read_bytes() for name in ("net_ctx.onnx", "net_dnnl.bin")])
    assert results[0] == results[1]


def test_quiet_prints_nothing(model):
    finished = done("compile", model, "-q")
    assert (finished.stdout, finished.stderr) == ("", "")


def test_verbose_in_a_pipe_gives_plain_lines(model):
    finished = done("compile", model, "-v")
    assert "ctxgen: compile\n" in finished.stderr
    assert "\r" not in finished.stderr
    assert "\x1b" not in finished.stderr


def test_a_terminal_gets_a_bar_that_goes_again(model):
    leader, follower = pty.openpty()
    command = [os.environ["CTXGEN_BIN"], "compile", model, "--dim", "batch=1"]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, check=False)
    os.close(follower)
    shown = os.read(leader, 1 << 16)
    os.close(leader)
    assert finished.returncode == 0
    assert b"\r\x1b[K[" in shown and b"] compile" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_stdout_that_cannot_be_written(model):
    with open("/dev/full", "w") as full:
        finished = subprocess.run([os.environ["CTXGEN_BIN"], "compile", model], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False)
    assert finished.returncode == 3
    assert "IO_ERROR" in finished.stderr


def test_external_data_folder(tmp_path):
    path = tmp_path / "m" / "net.onnx"
    path.parent.mkdir()
    onnx.save(conv_model(), path, save_as_external_data=True, location="net.data", size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    (path.parent / "net.data").rename(tmp_path / "elsewhere" / "net.data")
    refused(3, "IO_ERROR", "compile", path, names=["net.data"])
    done("compile", path, "--external-data-dir", tmp_path / "elsewhere")
    done("run", path.parent / "net_ctx.onnx")


def test_a_context_model_is_not_compiled_again(model, tmp_path):
    done("compile", model)
    finished = ctxgen("compile", tmp_path / "net_ctx.onnx")
    assert finished.returncode == 2
    assert not (tmp_path / "net_ctx_ctx.onnx").exists()


def catches_sigint(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    caught = int(re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)[1], 16)
    return bool(caught >> (signal.SIGINT - 1) & 1)


def test_sigint_cleans_up_and_exits_with_130(tmp_path):
    """stdin stays open, so the program surely is still reading when the signal comes."""
    process = subprocess.Popen([os.environ["CTXGEN_BIN"], "compile", "-", "-o", tmp_path / "x_ctx.onnx"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not catches_sigint(process.pid):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.startswith(b"ctxgen: error: CANCELLED: ")
    assert list(tmp_path.iterdir()) == []


def test_sigint_while_compiling_leaves_a_whole_set(tmp_path):
    """Wherever the signal hits: nothing half-made, no temporary, and either status."""
    path = save(conv_model(), tmp_path / "net.onnx")
    for delay in (0, 0.01, 0.03, 0.1):
        process = subprocess.Popen([os.environ["CTXGEN_BIN"], "compile", path], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        while not catches_sigint(process.pid):
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode in (0, 130)
        assert temporaries(tmp_path) == []
        if (tmp_path / "net_ctx.onnx").exists():
            done("run", tmp_path / "net_ctx.onnx")


def test_add_alone_is_compiled_or_explained(tmp_path):
    path = save(add_model(), tmp_path / "add.onnx")
    report = json_of("compile", path)
    (one,) = report["models"]
    assert one["compiled_nodes"] == 1 or one["fallbacks"][0]["reasons"]


def test_a_foreign_binary_lies_beside_the_model_wherever_external_data_is(tmp_path):
    """--external-data-dir never moves where context binaries are looked for."""
    foreign = helper.make_node("EPContext", ["r"], ["y"], name="theirs", domain="com.microsoft", source="OtherEP",
                               embed_mode=0, main_context=1, ep_cache_context="theirs.bin")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["r"]), foreign],
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 16])],
        [numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")],
    )
    model = make_model(graph)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    (tmp_path / "in").mkdir()
    (tmp_path / "data").mkdir()
    onnx.save(model, tmp_path / "in" / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    (tmp_path / "in" / "w.data").rename(tmp_path / "data" / "w.data")
    (tmp_path / "in" / "theirs.bin").write_bytes(b"their context")
    done("compile", tmp_path / "in" / "m.onnx", "-o", f"{tmp_path}/out/", "--external-data-dir", tmp_path / "data")
    assert (tmp_path / "out" / "theirs.bin").read_bytes() == b"their context"
