"""ctxgen compile as a step of a build: what is current, what depends on what, what stays, and what a report says."""

import json
import os
import pathlib
import shutil
import subprocess

import onnx
import pytest
from cli_support import conv_model, done, json_of, refused, save, temporaries, unknown_model
from json_schema import violations
from onnx import TensorProto, helper

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def save_external(model, path, location):
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def states(report):
    return {pathlib.Path(one["path"]).name: one["state"] for one in report["files"]}


def stamps(folder):
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.iterdir()}


# ---- --if-needed ----


def is_current(*arguments):
    return json_of("compile", *arguments, "--if-needed")["up_to_date"]


def test_what_is_current_is_left_alone(model, tmp_path):
    assert not is_current(model)
    before = stamps(tmp_path)
    report = json_of("compile", model, "--if-needed")
    assert report["up_to_date"] and report["models"] == []
    assert states(report) == {"net_ctx.onnx": "unchanged", "net_dnnl.bin": "unchanged"}
    assert [one["bytes"] for one in report["files"]] == [pathlib.Path(one["path"]).stat().st_size for one in report["files"]]
    assert stamps(tmp_path) == before
    assert "up to date" in done("compile", model, "--if-needed").stdout


def test_contents_count_and_not_times(model):
    assert not is_current(model)
    os.utime(model)
    assert is_current(model)
    model.write_bytes(save(conv_model(seed=1), model.parent / "other.onnx").read_bytes())
    assert not is_current(model)
    assert is_current(model)


@pytest.mark.parametrize("options", [
    ["--dim", "batch=2"], ["--node-prefix", "p_"], ["--strict"], ["--embed"], ["--provider", "cpu"],
    ["--external-initializers", "w.data"], ["--bin", "BIN"], ["--portable"], ["--isa", "sse41"], ["--isa", "sse41,avx2"],
])
def test_other_options_are_another_compile(model, options):
    options = [str(model.parent / "other.bin") if one == "BIN" else one for one in options]
    assert not is_current(model)
    assert not is_current(model, *options)
    assert is_current(model, *options)
    assert not is_current(model)


def test_jobs_and_threads_are_no_other_compile(model):
    done("compile", model, "-j", "1")
    assert is_current(model, "-j", "2")
    assert is_current(model, "--threads", "3")


@pytest.mark.parametrize("damage", ["missing bin", "missing model", "truncated bin", "other bin", "no context model"])
def test_damaged_outputs_are_made_again(model, tmp_path, damage):
    done("compile", model)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if damage == "missing bin":
        (tmp_path / "net_dnnl.bin").unlink()
    elif damage == "missing model":
        (tmp_path / "net_ctx.onnx").unlink()
    elif damage == "truncated bin":
        (tmp_path / "net_dnnl.bin").write_bytes(whole["net_dnnl.bin"][:-1])
    elif damage == "other bin":
        other = save(conv_model(seed=5), tmp_path / "other" / "net.onnx")
        done("compile", other)
        shutil.copy(other.parent / "net_dnnl.bin", tmp_path)
        shutil.rmtree(other.parent)
    else:
        (tmp_path / "net_ctx.onnx").write_text("no model")
    assert not is_current(model)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole


def test_external_data_belongs_to_the_compile(tmp_path):
    path = save_external(conv_model(), tmp_path / "net.onnx", "net.data")
    assert not is_current(path)
    assert is_current(path)
    data = bytearray((tmp_path / "net.data").read_bytes())
    data[5] ^= 1
    (tmp_path / "net.data").write_bytes(data)
    assert not is_current(path)
    assert is_current(path)


def test_external_initializers_belong_to_the_outputs(model, tmp_path):
    options = [model, "--provider", "cpu", "--external-initializers", "w.data"]
    done("compile", *options)
    report = json_of("compile", *options, "--if-needed")
    assert report["up_to_date"]
    assert states(report) == {"w.data": "unchanged", "net_ctx.onnx": "unchanged"}
    (tmp_path / "w.data").unlink()
    assert not is_current(*options)
    (tmp_path / "w.data").write_bytes(bytes(4096))
    assert not is_current(*options)
    assert is_current(*options)


def test_a_batch_is_current_as_a_whole(tmp_path):
    for i, name in enumerate("ab"):
        save(conv_model(seed=i), tmp_path / f"{name}.onnx")
    both = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    assert not is_current(*both)
    assert is_current(*both)
    (tmp_path / "b_ctx.onnx").unlink()
    report = json_of("compile", *both, "--if-needed")
    assert states(report) == {"a_dnnl.bin": "written", "a_ctx.onnx": "written", "b_ctx.onnx": "written"}
    assert is_current(both[0])  # what b has in the binary is no part of it
    refused(4, "NOT_SATISFIED", "compile", both[0], "--if-needed", "--strict")  # another compile, which b would not survive


def test_why_a_compile_runs_is_said(model):
    done("compile", model)
    (model.parent / "net_dnnl.bin").unlink()
    assert "net_dnnl.bin" in done("compile", model, "--if-needed", "-v").stderr


# ---- --depfile ----


def external_batch(folder):
    for i, name in enumerate("ab"):
        save_external(conv_model(seed=i), folder / f"{name}.onnx", f"{name}.data")


def rule(path):
    """Targets, prerequisites and optional ones of a dependency file without escapes."""
    head, *others = path.read_text().replace("\\\n", " ").strip().split("\n\n")
    targets, prerequisites = head.split(":")
    return targets.split(), prerequisites.split(), [one.rstrip(":") for one in others]


def test_outputs_depend_on_all_that_was_read(tmp_path):
    external_batch(tmp_path)
    done("compile", "a.onnx", "b.onnx", "-o", "out", "--depfile", "all.d", cwd=tmp_path)
    targets, prerequisites, optional = rule(tmp_path / "all.d")
    assert targets == ["out/a_ctx.onnx", "out/b_ctx.onnx", "out/a_dnnl.bin"]
    assert prerequisites == ["a.onnx", "b.onnx", "a.data", "b.data"]
    assert optional == ["a.data", "b.data"]
    assert temporaries(tmp_path) == []


def test_gcc_spells_it_so(model, tmp_path):
    done("compile", "net.onnx", "-MD", cwd=tmp_path)
    assert rule(tmp_path / "net_ctx.d") == (["net_ctx.onnx", "net_dnnl.bin"], ["net.onnx"], [])
    done("compile", "net.onnx", "-MD", "-MF", "x.d", cwd=tmp_path)
    assert (tmp_path / "x.d").read_bytes() == (tmp_path / "net_ctx.d").read_bytes()


def test_a_stamp_can_stand_for_the_outputs(model, tmp_path):
    done("compile", "net.onnx", "-MD", "-MT", "all.stamp", "-MT", "x", cwd=tmp_path)
    assert rule(tmp_path / "net_ctx.d") == (["all.stamp", "x"], ["net.onnx"], [])


def test_a_current_compile_has_the_same_rule(tmp_path):
    save_external(conv_model(), tmp_path / "net.onnx", "net.data")
    for options in ([], ["--external-initializers", "w.data", "--provider", "cpu"], ["--embed"]):
        done("compile", "net.onnx", "--depfile", "first.d", *options, cwd=tmp_path)
        done("compile", "net.onnx", "--depfile", "second.d", "--if-needed", *options, cwd=tmp_path)
        assert sorted(rule(tmp_path / "first.d")[0]) == sorted(rule(tmp_path / "second.d")[0])
        assert rule(tmp_path / "first.d")[1:] == rule(tmp_path / "second.d")[1:]


def test_a_name_that_would_run_a_command_is_refused(tmp_path):
    save_external(conv_model(), tmp_path / "net.onnx", "x;touch owned")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "net.onnx", "--depfile", tmp_path / "d", names=["x;touch owned"])
    assert not (tmp_path / "d").exists()


NINJA = """\
rule compile
  command = {ctxgen} compile $in -o '{output}' --depfile $out.d -q && echo ran >> log
  depfile = $out.d
build {escaped}: compile {source}
"""


@pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja here")
@pytest.mark.parametrize("name", ["plain", "my net", "a$b", "a#b", "a b#c$d"])
def test_ninja_follows_the_rule(tmp_path, name):
    save_external(conv_model(), tmp_path / "net.onnx", f"{name}.data")
    output = f"{name}.onnx"
    escaped = output.replace("$", "$$").replace(" ", "$ ")
    (tmp_path / "build.ninja").write_text(
        NINJA.format(ctxgen=os.environ["CTXGEN_BIN"], output=output.replace("$", "$$"), escaped=escaped, source="net.onnx")
        .replace("--depfile $out.d", "--depfile deps.d --embed").replace("depfile = $out.d", "depfile = deps.d"))

    def runs():
        subprocess.run(["ninja"], cwd=tmp_path, check=True, capture_output=True)
        log = tmp_path / "log"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

    assert runs() == 1
    assert runs() == 0
    later = (tmp_path / output).stat().st_mtime + 10
    os.utime(tmp_path / f"{name}.data", (later, later))
    assert runs() == 1
    assert "deps.d" in os.listdir(tmp_path)


MAKE = """\
.PHONY: all
all: net_ctx.onnx
net_ctx.onnx: net.onnx
\t{ctxgen} compile $< -o $@ -MD -MF deps.d -q
\techo ran >> log
-include deps.d
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize("name", ["net.data", "my net.data", "a$b", "a#b", "a:b", "a%b", "a\\b", "a=b", "a\\ b"])
def test_make_follows_the_rule(tmp_path, name):
    save_external(conv_model(), tmp_path / "net.onnx", name)
    (tmp_path / "Makefile").write_text(MAKE.format(ctxgen=os.environ["CTXGEN_BIN"]))

    def runs():
        subprocess.run(["make"], cwd=tmp_path, check=True, capture_output=True)
        log = tmp_path / "log"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

    assert runs() == 1
    assert runs() == 0
    later = (tmp_path / "net_ctx.onnx").stat().st_mtime + 10
    os.utime(tmp_path / name, (later, later))
    assert runs() == 1


# ---- --keep-unchanged, --dry-run ----


def test_equal_outputs_are_kept(model, tmp_path):
    done("compile", model)
    before = stamps(tmp_path)
    report = json_of("compile", model, "--keep-unchanged")
    assert states(report) == {"net_ctx.onnx": "unchanged", "net_dnnl.bin": "unchanged"}
    assert stamps(tmp_path) == before
    assert done("compile", model, "--keep-unchanged").stdout.count("unchanged: ") == 2


def test_only_what_differs_is_written(model, tmp_path):
    done("compile", model)
    for name, changed in (("net_dnnl.bin", {"net_dnnl.bin"}), ("net_ctx.onnx", {"net_ctx.onnx"})):
        whole = (tmp_path / name).read_bytes()
        for damaged in (whole[:-1], whole + b"x", whole[:-1] + bytes([whole[-1] ^ 1]), b""):
            (tmp_path / name).write_bytes(damaged)
            report = json_of("compile", model, "--keep-unchanged")
            assert {one for one, state in states(report).items() if state == "written"} == changed
            assert (tmp_path / name).read_bytes() == whole


def test_a_dry_run_predicts_and_writes_nothing(tmp_path):
    external_batch(tmp_path)
    arguments = [tmp_path / "a.onnx", tmp_path / "b.onnx", "-o", tmp_path / "out", "--external-initializers", "w.data",
                 "--provider", "dnnl"]
    before = stamps(tmp_path)
    predicted = json_of("compile", *arguments, "--dry-run")
    assert predicted["dry_run"] and set(states(predicted).values()) == {"planned"}
    assert stamps(tmp_path) == before
    written = json_of("compile", *arguments)
    assert [(one["path"], one["bytes"]) for one in predicted["files"]] == [
        (one["path"], os.path.getsize(one["path"])) for one in written["files"]]
    kept = json_of("compile", *arguments, "--dry-run", "--keep-unchanged")
    assert set(states(kept).values()) == {"unchanged"}


def test_a_dry_run_meets_what_a_compile_would(model, tmp_path):
    refused(3, "IO_ERROR", "compile", model, "-o", tmp_path / "none" / "x_ctx.onnx", "--dry-run")
    (tmp_path / "net_dnnl.bin").mkdir()
    refused(3, "IO_ERROR", "compile", model, "--dry-run", names=["net_dnnl.bin"])
    (tmp_path / "net_dnnl.bin").rmdir()
    (tmp_path / "net_ctx.onnx").write_text("mine")
    refused(1, "INVALID_ARGUMENT", "compile", model, "--dry-run", "--no-clobber", names=["net_ctx.onnx"])
    assert done("compile", model, "--dry-run").stdout.count("would be written: ") == 2
    assert (tmp_path / "net_ctx.onnx").read_text() == "mine"


@pytest.mark.parametrize("arguments", [
    ["--if-needed", "--no-clobber"], ["--keep-unchanged", "--no-clobber"], ["--dry-run", "--verify"], ["--dry-run", "--depfile", "d"],
    ["--dry-run", "-MD"], ["--if-needed", "-o", "-", "--embed"], ["--dry-run", "-o", "-", "--embed"],
    ["--depfile", "d", "-o", "-", "--embed"], ["--keep-unchanged", "-o", "-", "--embed"], ["-MF", "d"], ["-MT", "t"], ["-MD", "-MF", "d", "--depfile", "e"],
    ["--depfile", "net.onnx"], ["--depfile", "net_ctx.onnx"], ["--bin", "x.bin", "--depfile", "x.bin"],
])
def test_contradictions_are_refused(model, tmp_path, arguments):
    refused(1, "INVALID_ARGUMENT", "compile", "net.onnx", *arguments, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


# ---- --options ----


def test_options_come_from_a_file(model, tmp_path):
    (tmp_path / "opts").write_text("# how we compile\n--dim batch=1,4   --threads 1\n-v --node-prefix='my net' # a name\n\n--bin "
                                   + str(tmp_path) + "/w\\ x.bin\n")
    report = json_of("compile", model, "--options", tmp_path / "opts", "--depfile", tmp_path / "d")
    assert (tmp_path / "w x.bin").exists()
    assert report["models"][0]["partitions"][0]["name"].startswith("my net")
    assert report["files_read"] == [str(model), str(tmp_path / "opts")]
    (context,) = json_of("inspect", tmp_path / "net_ctx.onnx")["contexts"]
    assert sorted(plan["input_dims"][0][0] for plan in context["programs"][0]["plans"]) == [1, 4]
    assert str(tmp_path / "opts") in (tmp_path / "d").read_text()


def test_the_command_line_wins(model, tmp_path):
    (tmp_path / "opts").write_text("--dim batch=1 --dim batch=9 --node-prefix file_")
    report = json_of("compile", model, "--options", tmp_path / "opts", "--node-prefix", "line_", "--dim", "batch=2")
    assert report["models"][0]["partitions"][0]["name"].startswith("line_")


@pytest.mark.parametrize("verb", [["run"], ["bench", "--iterations", "1"], ["explain"]])
def test_other_verbs_take_a_file_too(model, tmp_path, verb):
    (tmp_path / "opts").write_text("--provider cpu\n--json\n")
    json.loads(done(*verb, model, "--options", tmp_path / "opts").stdout)
    (tmp_path / "opts").write_text("\n--no-such")
    refused(1, "INVALID_ARGUMENT", *verb, model, "--options", tmp_path / "opts", names=["opts:2: ", "--no-such"])


@pytest.mark.parametrize("text, line", [
    ("--no-such", 1), ("--strict\n--threads", 2), ("--threads -3", 1), ("\n\n--threads many", 3), ("net.onnx", 1), ("--strict=1", 1),
    ("--options x", 1), ("--help", 1), ("'--strict", 1), ("--strict\n\"\n", 2), ("--strict \\", 1), ("--strict\0", 1),
    ("--threads 1 --threads 2", 1), ("--tune 3", 1), ("--", 1), ("-", 1),
])
def test_a_wrong_file_names_the_line(model, tmp_path, text, line):
    (tmp_path / "opts").write_text(text)
    refused(1, "INVALID_ARGUMENT", "compile", model, "--options", tmp_path / "opts", names=[f"opts:{line}: "])
    assert not (tmp_path / "net_ctx.onnx").exists()


def test_files_that_cannot_be_options(model, tmp_path):
    refused(3, "IO_ERROR", "compile", model, "--options", tmp_path / "none")
    refused(3, "IO_ERROR", "compile", model, "--options", tmp_path)
    (tmp_path / "big").write_bytes(b" " * ((1 << 20) + 1))
    refused(2, "RESOURCE_LIMIT", "compile", model, "--options", tmp_path / "big")


# ---- the report ----


def test_reports_are_as_the_schema_says(model, tmp_path):
    odd = save(unknown_model(), tmp_path / "odd.onnx")
    data = save_external(conv_model(), tmp_path / "ext.onnx", "ext.data")
    reports = [
        json_of("compile", model, "--dry-run"),
        json_of("compile", model),
        json_of("compile", model, "--keep-unchanged"),
        json_of("compile", model, "--if-needed"),
        json_of("compile", model, "--verify"),
        json_of("compile", odd),
        json_of("compile", data, "--provider", "cpu", "--external-initializers", "w.data"),
    ]
    done("compile", model, "-o", "-", "--embed", "--report", tmp_path / "r.json", text=False)
    reports.append(json.loads((tmp_path / "r.json").read_text()))
    for report in reports:
        assert violations(report, SCHEMA) == []


def test_the_schema_can_fail(model):
    report = json_of("compile", model)
    for change in ({"key": "x"}, {"seconds": -1}, {"dry_run": 1}, {"new": 1}, {"files": [{}]}, {"bins": None}):
        assert violations(report | change, SCHEMA) != []
    del report["files"]
    assert violations(report, SCHEMA) != []


def test_bins_of_others_are_read_and_written(tmp_path):
    node = helper.make_node("EPContext", ["x"], ["y"], name="other", domain="com.microsoft", main_context=1, embed_mode=0,
                            ep_cache_context="npu.bin", source="OtherExecutionProvider")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    (tmp_path / "npu.bin").write_bytes(b"12345")
    out = tmp_path / "out"
    report = json_of("compile", path, "-o", f"{out}/")
    assert report["files_read"] == [str(path), str(tmp_path / "npu.bin")]
    assert states(report)["npu.bin"] == "written"
    assert (out / "npu.bin").read_bytes() == b"12345"
    assert not is_current(path, "-o", f"{out}/")  # it does not load here
    # In one folder there is nothing to copy.
    assert [one["kind"] for one in json_of("compile", path)["files"]] == ["model"]
