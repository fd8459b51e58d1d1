"""--compress: weights that shrink are stored as zstd, and everything else stays as it was."""

import numpy as np

import pytest
from cli_support import conv_model, ctxgen, done, ep_nodes, into, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper


def sparse_model():
    """Two products, one with weights that shrink and one with noise."""
    random = np.random.default_rng(5)
    sparse = np.zeros((256, 256), np.float32)
    sparse[::16, ::16] = 1.5
    weights = [numpy_helper.from_array(sparse, "a"), numpy_helper.from_array(random.standard_normal((256, 64)).astype(np.float32), "b")]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], name="first"), helper.make_node("MatMul", ["h", "b"], ["y"], name="second")]
    info = helper.make_tensor_value_info
    return make_model(helper.make_graph(nodes, "sparse", [info("x", TensorProto.FLOAT, [4, 256])], [info("y", TensorProto.FLOAT, [4, 64])], weights))


def outputs(model, folder):
    done("run", model, "--output-dir", folder)
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}


def test_the_file_is_smaller_and_computes_the_same(tmp_path):
    source = save(sparse_model(), tmp_path / "net.onnx")
    for name, form in (("plain", []), ("small", ["--compress"]), ("level", ["--compress=1"]), ("embedded", ["--compress", "--embed"])):
        done("compile", source, "-o", into(tmp_path / name), *form)
    plain, small = (tmp_path / name / "net_dnnl.bin" for name in ("plain", "small"))
    assert small.stat().st_size < plain.stat().st_size - 200_000
    expected = outputs(tmp_path / "plain" / "net_ctx.onnx", tmp_path / "plain-out")
    for name in ("small", "level", "embedded"):
        assert outputs(tmp_path / name / "net_ctx.onnx", tmp_path / f"{name}-out") == expected
    # names of partitions and hashes do not depend on how blobs are stored
    assert ep_nodes(tmp_path / "small" / "net_ctx.onnx") == ep_nodes(tmp_path / "plain" / "net_ctx.onnx")
    done("check", tmp_path / "small" / "net_ctx.onnx")


def test_inspect_shows_both_sizes(tmp_path):
    done("compile", save(sparse_model(), tmp_path / "net.onnx"), "--compress=19")
    context = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]
    assert context["format"] == "1.1"
    assert context["stored_weight_bytes"] < context["weight_bytes"] == 256 * 256 * 4 + 256 * 64 * 4
    blobs = {blob["bytes"]: blob["stored_bytes"] for blob in context["blobs"]}
    assert blobs[256 * 256 * 4] < 10_000
    assert sum(blob["stored_bytes"] for blob in context["blobs"]) == context["stored_weight_bytes"]
    assert "compressed: the weights take" in done("inspect", tmp_path / "net_dnnl.bin").stdout


def test_what_does_not_shrink_leaves_format_1_0(tmp_path):
    weight = np.random.default_rng(6).standard_normal((4, 4)).astype(np.float32)  # 64 bytes of noise
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "noise", [info("x", TensorProto.FLOAT, [1, 4])], [info("y", TensorProto.FLOAT, [1, 4])], [numpy_helper.from_array(weight, "w")])
    source = save(make_model(graph), tmp_path / "net.onnx")
    for name, form in (("plain", []), ("compressed", ["--compress"])):
        done("compile", source, "-o", into(tmp_path / name), *form)
    assert json_of("inspect", tmp_path / "compressed" / "net_dnnl.bin")["context"]["format"] == "1.0"
    assert (tmp_path / "compressed" / "net_dnnl.bin").read_bytes() == (tmp_path / "plain" / "net_dnnl.bin").read_bytes()


def test_the_same_bytes_with_any_jobs(tmp_path):
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    for jobs in (1, 2, 4):
        done("compile", source, "-o", into(tmp_path / str(jobs)), "--compress", "-j", jobs)
    files = [{path.name: path.read_bytes() for path in (tmp_path / str(jobs)).iterdir()} for jobs in (1, 2, 4)]
    assert files[0] == files[1] == files[2]


def test_damage_is_refused(tmp_path):
    done("compile", save(sparse_model(), tmp_path / "net.onnx"), "--compress")
    context = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]
    blob = next(blob for blob in context["blobs"] if blob["stored_bytes"] < blob["bytes"])
    data = bytearray((tmp_path / "net_dnnl.bin").read_bytes())
    data[blob["offset"] + blob["stored_bytes"] // 2] ^= 0x10
    (tmp_path / "net_dnnl.bin").write_bytes(data)
    finished = ctxgen("run", tmp_path / "net_ctx.onnx")
    assert finished.returncode == 2 and "INVALID_GRAPH" in finished.stderr


@pytest.mark.parametrize("level", ["0", "20", "-1", "x"])
def test_levels_are_checked(tmp_path, level):
    source = save(conv_model(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, f"--compress={level}")
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
