"""`run` and `bench` take --verify-blobs: damage in a large context binary."""

import numpy as np
import pytest
from cli_support import conv_model, ctxgen, done, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture
def product(tmp_path):
    """A context model and its binary, which is larger than what `auto` reads."""
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.standard_normal((2048, 2304), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2048])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2304])], [weight])
    done("compile", save(make_model(graph), tmp_path / "net.onnx"), "-q")
    context, binary = tmp_path / "net_ctx.onnx", tmp_path / "net_dnnl.bin"
    assert binary.stat().st_size > 16 << 20
    return context, binary


def test_of_run_and_bench(tmp_path, product):
    context, binary = product
    for verb in (["run"], ["bench", "--iterations", 1], ["bench", "--iterations", 1, "--compare", tmp_path / "net.onnx"]):
        done(*verb, context, "--verify-blobs", "always")
        flip(binary, 10 << 20)
        done(*verb, context)
        done(*verb, context, "--verify-blobs", "auto")
        refused(2, "INVALID_GRAPH", *verb, context, "--verify-blobs", "always")
        flip(binary, 10 << 20)


def test_where_it_has_no_effect(tmp_path, product):
    plain = save(conv_model(), tmp_path / "plain.onnx")
    refused(1, "INVALID_ARGUMENT", "run", plain, "--verify-blobs", "always", names=["--verify-blobs"])
    refused(1, "INVALID_ARGUMENT", "bench", plain, "--verify-blobs", "never", names=["--verify-blobs"])
    refused(1, "INVALID_ARGUMENT", "bench", plain, "--compare", plain, "--verify-blobs", "auto", names=["--verify-blobs"])
    assert ctxgen("run", product[0], "--verify-blobs", "often").returncode == 1
    assert ctxgen("run", product[0], "--verify-blobs", "").returncode == 1
