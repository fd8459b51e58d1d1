"""The compile cache: what is taken from it, that it never changes a byte, and that nothing in it can do harm."""

import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from cli_support import ctxgen, done, json_of, make_model, refused, save
from fault_support import run_faulty
from onnx import TensorProto, helper, numpy_helper

LAYER_BYTES = 256 * 256 * 4


def layers_model(changed=None, layers=4, scale=1.0):
    """x [n, 256] through `layers` products; the weights of layer `changed` differ."""
    nodes, weights, value = [], [], "x"
    for layer in range(layers):
        random = np.random.default_rng(layer + (100 if layer == changed else 0))
        weights.append(numpy_helper.from_array(random.standard_normal((256, 256), dtype=np.float32) * scale, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"m{layer}"], name=f"product_{layer}"))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"], name=f"relu_{layer}"))
        value = f"r{layer}"
    nodes.append(helper.make_node("Identity", [value], ["y"], name="end"))
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 256]) for name in ("x", "y")]
    return make_model(helper.make_graph(nodes, "layers", shapes[:1], shapes[1:], weights))


class Project:
    """A model that is compiled again and again, with a cache."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.source = save(layers_model(), folder / "net.onnx")

    def compile(self, *options, cache=True):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        if cache:
            options += ("--cache-dir", self.cache)
        report = json_of("compile", self.source, "-o", out / "net_ctx.onnx", *options)
        return report, {path.name: path.read_bytes() for path in out.iterdir()}

    def entries(self, kind):
        return sorted(path for path in (self.cache / kind).rglob("*") if path.is_file())


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_a_second_compile_makes_nothing_and_writes_the_same_bytes(project):
    plain, expected = project.compile(cache=False)
    assert plain["programs_compiled"] == 1 and plain["bytes_packed"] == 4 * LAYER_BYTES
    assert plain["programs_cached"] == plain["bytes_cached"] == 0
    cold, files = project.compile()
    assert files == expected
    assert (cold["programs_compiled"], cold["bytes_packed"]) == (1, 4 * LAYER_BYTES)
    warm, files = project.compile()
    assert files == expected
    assert (warm["programs_compiled"], warm["bytes_packed"]) == (0, 0)


def test_only_a_changed_layer_is_packed_again(project):
    project.compile()
    save(layers_model(changed=2), project.source)
    report, files = project.compile()
    assert report["programs_compiled"] == 1
    assert report["bytes_packed"] == LAYER_BYTES
    assert report["bytes_cached"] == 3 * LAYER_BYTES
    assert files == project.compile(cache=False)[1]


def test_other_options_are_other_programs_of_the_same_weights(project):
    project.compile()
    options = ["--dim", "n=2,8"]
    report, files = project.compile(*options)
    assert report["programs_compiled"] == 1
    assert report["bytes_packed"] == 0
    assert files == project.compile(*options, cache=False)[1]
    assert project.compile(*options)[0]["programs_compiled"] == 0


def test_threads_make_no_other_program(project):
    _, files = project.compile()
    report, again = project.compile("--threads", "3")
    assert report["programs_compiled"] == 0
    assert again == files == project.compile("--threads", "7", cache=False)[1]


def test_a_new_name_or_type_is_another_program(project):
    project.compile()
    model = onnx.load(project.source)
    model.graph.node[0].name = "renamed"
    save(model, project.source)
    report, files = project.compile()
    assert report["programs_compiled"] == 1 and report["bytes_packed"] == 0
    assert files == project.compile(cache=False)[1]


@pytest.mark.parametrize("damage", ["truncate", "flip", "foreign", "empty", "missing"])
@pytest.mark.parametrize("kind", ["blob", "packed", "program", "output"])
def test_a_damaged_entry_is_a_miss_and_is_replaced(project, kind, damage):
    _, expected = project.compile()
    if kind != "output":
        shutil.rmtree(project.cache / "output", ignore_errors=True)
    entries = project.entries(kind)
    if kind == "output" and not entries:
        pytest.skip("no whole compiles are kept")
    before = [path.read_bytes() for path in entries]
    for number, path in enumerate(entries):
        data = bytearray(before[number])
        path.unlink()
        if damage == "truncate":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "flip":
            data[len(data) // 3] ^= 0x40
            path.write_bytes(data)
        elif damage == "foreign":
            path.write_bytes(before[number - 1] if len(entries) > 1 else b"not an entry of the cache" * 10)
        elif damage == "empty":
            path.write_bytes(b"")
    _, files = project.compile()
    assert files == expected
    _, files = project.compile()
    assert files == expected
    if kind == "blob":
        assert [path.read_bytes() for path in project.entries(kind)] == before


def test_compiles_at_the_same_time_share_one_cache(project):
    _, expected = project.compile(cache=False)
    command = [os.environ["CTXGEN_BIN"], "compile", project.source, "--cache-dir", project.cache, "-q", "-o"]
    running = []
    for number in range(6):
        (project.folder / f"p{number}").mkdir()
        running.append(subprocess.Popen([*map(str, command), str(project.folder / f"p{number}" / "net_ctx.onnx")]))
    assert [process.wait() for process in running] == [0] * 6
    for number in range(6):
        assert {path.name: path.read_bytes() for path in (project.folder / f"p{number}").iterdir()} == expected
    assert project.compile()[0]["programs_compiled"] == 0


def test_the_environment_names_the_cache(project):
    environment = {**os.environ, "CTXGEN_CACHE_DIR": str(project.cache)}
    command = [os.environ["CTXGEN_BIN"], "compile", str(project.source), "-q"]
    subprocess.run(command, env=environment, check=True)
    assert project.entries("program")
    shutil.rmtree(project.cache)
    subprocess.run([*command, "--cache-dir", ""], env=environment, check=True)
    assert not project.cache.exists(), "an empty name is no cache"


def test_a_cache_that_takes_nothing_is_used_as_it_is(project):
    """As on a full disk or a read-only file system."""
    _, expected = project.compile()
    shutil.rmtree(project.cache / "output", ignore_errors=True)
    save(layers_model(changed=1), project.source)
    _, changed = project.compile(cache=False)
    for fault in ("write:*:ENOSPC", "open:*:EROFS"):
        before = {kind: len(project.entries(kind)) for kind in ("blob", "packed", "program")}
        out = project.folder / "faulty"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        # With open:EROFS the cache cannot be read either: the shim knows no modes.
        finished = run_faulty(project.cache, "compile", project.source, "-o", out / "net_ctx.onnx", "--cache-dir", project.cache, FAULT=fault)
        assert finished.returncode == 0, finished.stderr
        assert finished.stderr.count("ctxgen: warning: compile cache") == 1, finished.stderr
        assert {path.name: path.read_bytes() for path in out.iterdir()} == changed
        assert {kind: len(project.entries(kind)) for kind in before} == before
    assert expected != changed


def test_the_cache_stays_within_its_size(project):
    bound = 3 * LAYER_BYTES
    for changed in range(4):
        save(layers_model(changed=changed), project.source)
        project.compile("--cache-size", bound)
        assert json_of("cache", "stats", "--cache-dir", project.cache)["bytes"] <= bound
    assert project.compile(cache=False)[1] == project.compile("--cache-size", bound)[1]


def test_the_verb_counts_trims_and_clears(project):
    project.compile()
    stats = json_of("cache", "stats", "--cache-dir", project.cache)
    assert stats["kinds"]["blob"]["entries"] == stats["kinds"]["packed"]["entries"] == 4
    assert stats["kinds"]["program"]["entries"] == 1
    assert stats["bytes"] == sum(path.stat().st_size for path in project.cache.rglob("??????????????????????????????"))
    trimmed = json_of("cache", "trim", "--cache-dir", project.cache, "--cache-size", 2 * LAYER_BYTES)
    assert trimmed["bytes"] <= 2 * LAYER_BYTES and trimmed["removed"]["bytes"] + trimmed["bytes"] == stats["bytes"]
    cleared = json_of("cache", "clear", "--cache-dir", project.cache)
    assert cleared["entries"] == 0
    assert done("cache", "clear", "--cache-dir", project.cache, "-q").stdout == ""
    assert "0 entries" in done("cache", "stats", "--cache-dir", project.cache).stdout
    assert "Examples:" in done("cache", "trim", "--help").stdout


def test_contradictions_are_refused(project):
    refused(1, "INVALID_ARGUMENT", "cache", "stats", names=["CTXGEN_CACHE_DIR"])
    refused(1, "INVALID_ARGUMENT", "compile", project.source, "--cache-size", 100, names=["--cache-dir"])
    file = project.folder / "file"
    file.write_text("x")
    refused(3, "IO_ERROR", "compile", project.source, "--cache-dir", file, names=["file"])
    assert ctxgen("cache").returncode == 1


def test_a_plain_model_is_run_from_the_cache(project):
    environment = {**os.environ, "CTXGEN_CACHE_DIR": str(project.cache)}
    for _ in range(2):
        subprocess.run([os.environ["CTXGEN_BIN"], "run", str(project.source)], env=environment, check=True, stdout=sys.stderr)
    assert len(project.entries("program")) == 1
