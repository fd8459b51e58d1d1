"""Parts of models: --input-names, --output-names."""

import numpy as np
import onnx
import pytest
from cli_support import conv_model, done, json_of, make_model, refused, run_arrays, save
from onnx import TensorProto, helper, numpy_helper


def matrix(name, rows, columns, seed):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32), name)


def two_branches():
    """x -> MatMul a -> Relu b -> Split c, d; y = c @ w2, z = d + s; s is a second input."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Split", ["b", "halves"], ["c", "d"], name="split", axis=1),
        helper.make_node("MatMul", ["c", "w2"], ["y"], name="left"),
        helper.make_node("Add", ["d", "s"], ["z"], name="right"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8]), helper.make_tensor_value_info("s", TensorProto.FLOAT, ["batch", 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5]), helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 4])]
    constants = [matrix("w1", 8, 8, 1), matrix("w2", 4, 5, 2), numpy_helper.from_array(np.array([4, 4], np.int64), "halves")]
    return make_model(helper.make_graph(nodes, "branches", inputs, outputs, constants))


@pytest.fixture
def model(tmp_path):
    return save(two_branches(), tmp_path / "net.onnx")


def interface(path):
    graph = onnx.load(path).graph
    return [one.name for one in graph.input], [one.name for one in graph.output]


def test_a_part_computes_what_the_whole_does(model, tmp_path):
    done("compile", model, "--input-names", "b", "--output-names", "y", "-o", tmp_path / "part_ctx.onnx")
    assert interface(tmp_path / "part_ctx.onnx") == (["b"], ["y"])
    assert "EPContext" in {node.op_type for node in onnx.load(tmp_path / "part_ctx.onnx").graph.node}
    x = np.random.default_rng(3).standard_normal((2, 8), dtype=np.float32)
    b = np.maximum(x @ numpy_helper.to_array(matrix("w1", 8, 8, 1)), 0)
    whole = run_arrays(model, {"x": x, "s": np.zeros((2, 4), np.float32)}, tmp_path / "whole")
    part = run_arrays(tmp_path / "part_ctx.onnx", {"b": b}, tmp_path / "part")
    np.testing.assert_allclose(part["y"], whole["y"], rtol=1e-4, atol=1e-5)


def test_output_names_alone_take_the_inputs_that_they_need(model, tmp_path):
    done("compile", model, "--output-names", "y,a", "-o", tmp_path / "part_ctx.onnx")
    assert interface(tmp_path / "part_ctx.onnx") == (["x"], ["y", "a"])


def test_input_names_alone_give_the_models_outputs(model, tmp_path):
    done("compile", model, "--input-names", "b", "--input-names", "s", "-o", tmp_path / "part_ctx.onnx")
    assert interface(tmp_path / "part_ctx.onnx") == (["b", "s"], ["y", "z"])


def test_what_is_not_needed_is_gone(model, tmp_path):
    done("compile", model, "--provider", "cpu", "--output-names", "z", "--input-names", "d,s", "-o", tmp_path / "part.onnx")
    graph = onnx.load(tmp_path / "part.onnx").graph
    assert [node.name for node in graph.node] == ["right"] and not graph.initializer
    onnx.checker.check_model(onnx.load(tmp_path / "part.onnx"), full_check=True)


def test_a_part_is_compared_with_that_part_of_the_source(model, tmp_path):
    done("compile", model, "--input-names", "b", "--output-names", "y", "-o", tmp_path / "part_ctx.onnx", "--verify")
    compared = json_of("verify", tmp_path / "part_ctx.onnx", "--against", model, "--dim", "batch=3")
    assert compared["match"] and [one["name"] for one in compared["runs"][0]["outputs"]] == ["y"]


def test_a_value_inside_is_shown(model):
    (only,) = json_of("run", model, "--output-names", "a", "--dim", "batch=2")["outputs"]
    assert only["name"] == "a" and only["dims"] == [2, 8]


def test_the_part_is_in_the_key(model, tmp_path):
    out = tmp_path / "part_ctx.onnx"
    keys = set()
    for names in ((), ("--output-names", "y"), ("--output-names", "a"), ("--output-names", "y", "--input-names", "b")):
        keys.add(json_of("compile", model, *names, "-o", out)["key"])
        again = json_of("compile", model, *names, "-o", out, "--if-needed")
        assert again["up_to_date"]
    assert len(keys) == 4


def test_external_data_and_functions_come_along(tmp_path):
    (tmp_path / "in").mkdir()
    onnx.save(two_branches(), tmp_path / "in" / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    done("compile", tmp_path / "in" / "net.onnx", "--output-names", "y", "-o", tmp_path / "part_ctx.onnx")
    (tmp_path / "in" / "net.data").unlink()
    done("run", tmp_path / "part_ctx.onnx", "--dim", "batch=2")


@pytest.mark.parametrize(
    "names, says",
    [
        (["--output-names", "yy"], 'no value "yy"'),
        (["--output-names", "y,y"], "named twice"),
        (["--output-names", "y,"], "empty name"),
        (["--input-names", "w1"], "is a constant"),
        (["--input-names", "b", "--output-names", "z"], 'needs the input "s"'),
        (["--input-names", "b,s", "--output-names", "y"], 'nothing that is asked for needs "s"'),
        (["--input-names", "c,s", "--output-names", "y,z"], "needed for other values too"),
        (["--input-names", "b", "--output-names", "b"], "cannot be both"),
        (["--output-names", "x"], "leave no node"),
    ],
)
def test_what_cannot_be_cut(model, names, says):
    refused(1, "INVALID_ARGUMENT", "compile", model, *names, names=[says])


def test_a_batch_has_no_part(model, tmp_path):
    other = save(conv_model(), tmp_path / "other.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", model, other, "-o", tmp_path / "out/", "--output-names", "y", names=["--output-names", "batch"])
