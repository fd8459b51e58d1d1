"""--external-initializers: what stays outside of partitions lies in one file beside the models."""

import struct

import numpy as np
import onnx
import pytest
from cli_support import ctxgen, done, json_of, make_model, refused, save, temporaries
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

ROWS = 40_000  # of 4 floats: 640 kB, so a place of 4096 bytes


def lookup_model(seed=0, rows=ROWS):
    """ids -> GatherND (stays: it reads a table by values) -> MatMul (compiled) -> y."""
    random = np.random.default_rng(seed)
    table = np.random.default_rng(7).standard_normal((rows, 4), dtype=np.float32)  # the same for every seed
    graph = helper.make_graph(
        [
            helper.make_node("GatherND", ["table", "ids"], ["rows"], name="gather"),
            helper.make_node("MatMul", ["rows", "w"], ["m"], name="product"),
            helper.make_node("Mod", ["m", "small"], ["y"], name="rest", fmod=1),
        ],
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(random.standard_normal((4, 8), dtype=np.float32), "w"),
            numpy_helper.from_array(np.full((1, 8), 3, np.float32), "small"),
        ],
    )
    return make_model(graph)


def y_of(path, folder):
    np.save(folder / "ids.npy", np.array([[0], [3], [ROWS - 1]]))
    done("run", path, "--input", f"ids={folder / 'ids.npy'}", "--output-dir", folder / "out")
    return np.load(folder / "out" / "y.npy")


def places(path):
    """name: (location, offset, length) of the external initializers; only keys that ONNX defines."""
    found = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        if uses_external_data(tensor):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            assert set(entries) == {"location", "offset", "length"}
            found[tensor.name] = (entries["location"], int(entries["offset"]), int(entries["length"]))
    return found


def test_what_stays_lies_aligned_in_one_file(tmp_path):
    source = save(lookup_model(), tmp_path / "net.onnx")
    (tmp_path / "inline").mkdir()
    done("compile", source, "-o", tmp_path / "inline")
    report = json_of("compile", source, "--external-initializers", "net.weights")
    assert report["external_initializers"]["name"] == "net.weights"
    assert report["external_initializers"]["tensors"] == 2
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["net.onnx", "net.weights", "net_ctx.onnx", "net_dnnl.bin"]
    found = places(tmp_path / "net_ctx.onnx")
    assert found["table"][0] == "net.weights" and found["table"][1] % 4096 == 0 and found["table"][2] == ROWS * 16
    assert found["small"][1] % 64 == 0
    assert set(found) == {"table", "small"}  # w is compiled: gone
    assert (tmp_path / "net_ctx.onnx").stat().st_size < 10_000
    onnx.checker.check_model(str(tmp_path / "net_ctx.onnx"))
    loaded = onnx.load(tmp_path / "net_ctx.onnx")
    original = {tensor.name: numpy_helper.to_array(tensor) for tensor in lookup_model().graph.initializer}
    for tensor in loaded.graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), original[tensor.name])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    np.testing.assert_array_equal(y_of(tmp_path / "net_ctx.onnx", tmp_path / "a"), y_of(tmp_path / "inline" / "net_ctx.onnx", tmp_path / "b"))


def test_the_threshold_keeps_small_ones_in_the_model(tmp_path):
    source = save(lookup_model(), tmp_path / "net.onnx")
    done("compile", source, "--external-initializers", "net.weights", "--external-threshold", 1024)
    assert set(places(tmp_path / "net_ctx.onnx")) == {"table"}
    y_of(tmp_path / "net_ctx.onnx", tmp_path)


def test_a_batch_shares_the_file_and_equal_tensors(tmp_path):
    for index, name in enumerate(("a", "b")):
        save(lookup_model(seed=index), tmp_path / f"{name}.onnx")
    report = json_of("compile", tmp_path / "a.onnx", tmp_path / "b.onnx", "-o", tmp_path / "out", "--external-initializers", "shared")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a_ctx.onnx", "a_dnnl.bin", "b_ctx.onnx", "shared"]
    assert places(tmp_path / "out" / "a_ctx.onnx") == places(tmp_path / "out" / "b_ctx.onnx")
    assert report["external_initializers"]["bytes"] < 2 * ROWS * 16
    for name in ("a", "b"):
        y_of(tmp_path / "out" / f"{name}_ctx.onnx", tmp_path)


def test_the_file_of_another_compile_is_refused(tmp_path):
    source = save(lookup_model(), tmp_path / "net.onnx")
    done("compile", source, "--external-initializers", "net.weights")
    first = (tmp_path / "net.weights").read_bytes()
    done("compile", save(lookup_model(rows=ROWS + 8), tmp_path / "other.onnx"), "--external-initializers", "net.weights")
    assert (tmp_path / "net.weights").read_bytes() != first
    message = refused(2, "INVALID_GRAPH", "run", tmp_path / "net_ctx.onnx", names=["net.weights"])
    assert "interrupted" in message
    finished = ctxgen("check", tmp_path / "net_ctx.onnx")
    assert finished.returncode == 2


@pytest.mark.parametrize("damage", ["missing", "short", "foreign"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    source = save(lookup_model(), tmp_path / "net.onnx")
    done("compile", source, "--external-initializers", "net.weights")
    path = tmp_path / "net.weights"
    data = path.read_bytes()
    assert data[:8] == b"CTXGENEX" and struct.unpack_from("<Q", data, 8) == (1,)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if damage == "short" else b"x" + data[1:])
    finished = ctxgen("run", tmp_path / "net_ctx.onnx")
    assert finished.returncode == (3 if damage == "missing" else 2)
    assert "net.weights" in finished.stderr


@pytest.mark.parametrize("name", ["../net.weights", "sub/net.weights", "/net.weights", "..", ""])
def test_the_name_is_bare(tmp_path, name):
    source = save(lookup_model(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--external-initializers", name, names=[name])
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_the_name_is_no_other_output(tmp_path):
    source = save(lookup_model(), tmp_path / "net.onnx")
    for name in ("net_ctx.onnx", "net_dnnl.bin"):
        refused(1, "INVALID_ARGUMENT", "compile", source, "--external-initializers", name, names=[name])
    refused(1, "INVALID_ARGUMENT", "compile", source, "--external-threshold", 5)
    refused(1, "INVALID_ARGUMENT", "compile", source, "-o", "-", "--embed", "--external-initializers", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]
    assert temporaries(tmp_path) == []


def test_an_input_is_not_overwritten(tmp_path):
    source = save(lookup_model(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--external-initializers", "net.onnx", names=["net.onnx"])


def test_the_file_is_there_if_nothing_moves(tmp_path):
    """A build has to know its outputs before it runs: the file is its header alone, and no model names it."""
    source = save(lookup_model(), tmp_path / "net.onnx")
    options = [source, "--external-initializers", "net.weights", "--external-threshold", 1 << 30]
    report = json_of("compile", *options)
    assert report["external_initializers"] == {"name": "net.weights", "bytes": 64, "tensors": 0}
    assert (tmp_path / "net.weights").stat().st_size == 64
    assert places(tmp_path / "net_ctx.onnx") == {}
    assert json_of("compile", *options, "--if-needed")["up_to_date"]
    (tmp_path / "net.weights").unlink()
    assert not json_of("compile", *options, "--if-needed")["up_to_date"]
    done("run", tmp_path / "net_ctx.onnx")


def test_the_same_bytes_each_time(tmp_path):
    source = save(lookup_model(), tmp_path / "net.onnx")
    done("compile", source, "-j", 1, "--external-initializers", "net.weights")
    first = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    done("compile", source, "-j", 2, "--external-initializers", "net.weights")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == first
