"""Values inside of partitions: ctxgen run --dump, and verify --per-node."""

import json

import numpy as np
import onnx
import pytest
from cli_support import ctxgen, done, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper


def weight(name, seed):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal((8, 8), dtype=np.float32), name)


def deep_model(second=2, type=TensorProto.FLOAT):
    """x -> MatMul, Relu -> MatMul, Relu -> MatMul, in one partition; then Mod on the CPU."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["xa"], name="first"),
        helper.make_node("Relu", ["xa"], ["ra"], name="relu_1"),
        helper.make_node("MatMul", ["ra", "b"], ["xb"], name="second"),
        helper.make_node("Relu", ["xb"], ["rb"], name="relu_2"),
        helper.make_node("MatMul", ["rb", "c"], ["xc"], name="third"),
        helper.make_node("Mod", ["xc", "three"], ["y"], name="rest", fmod=1),
    ]
    dtype = helper.tensor_dtype_to_np_dtype(type)
    weights = [weight("a", 1), weight("b", second), weight("c", 3), numpy_helper.from_array(np.full(8, 3, np.float32), "three")]
    weights = [numpy_helper.from_array(numpy_helper.to_array(one).astype(dtype), one.name) for one in weights]
    graph = helper.make_graph(
        nodes,
        "deep",
        [helper.make_tensor_value_info("x", type, ["n", 8])],
        [helper.make_tensor_value_info("y", type, ["n", 8])],
        weights,
    )
    return make_model(graph)


@pytest.fixture
def deep(tmp_path):
    source = save(deep_model(), tmp_path / "deep.onnx")
    done("compile", source)
    return source, tmp_path / "deep_ctx.onnx"


def expected(x):
    a, b, c = (numpy_helper.to_array(weight(name, seed)).astype(np.float64) for name, seed in (("a", 1), ("b", 2), ("c", 3)))
    ra = np.maximum(x.astype(np.float64) @ a, 0)
    rb = np.maximum(ra @ b, 0)
    return {"ra": ra, "rb": rb, "xc": rb @ c, "y": np.fmod(rb @ c, 3)}


def dumped(folder):
    listed = json.loads((folder / "values.json").read_text())["values"]
    assert sorted([one["file"] for one in listed] + ["values.json"]) == sorted(path.name for path in folder.iterdir())
    return listed


def test_a_dump_has_every_value_of_a_context_model(deep, tmp_path):
    _, context = deep
    x = np.random.default_rng(7).standard_normal((3, 8), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    text = done("run", context, "--input", f"x={tmp_path / 'x.npy'}", "--dump", tmp_path / "values").stdout
    assert "4 values in" in text
    listed = dumped(tmp_path / "values")
    assert [(one["name"], one["node"]) for one in listed[:2]] == [("ra", "relu_1"), ("rb", "relu_2")]
    assert [one["name"] for one in listed[2:]] == ["xc", "y"]
    assert [one.get("partition") == listed[0]["partition"] for one in listed] == [True, True, True, False]
    for one, wanted in zip(listed, expected(x).values(), strict=True):
        found = np.load(tmp_path / "values" / one["file"])
        assert one["dims"] == [3, 8] and one["type"] == "float32"
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert one["min"] == pytest.approx(found.min()) and one["max"] == pytest.approx(found.max())


def test_a_dump_of_the_source_names_every_node(deep, tmp_path):
    source, _ = deep
    done("run", source, "--provider", "cpu", "--dim", "n=2", "--dump", tmp_path / "values")
    listed = dumped(tmp_path / "values")
    assert [(one["name"], one["node"]) for one in listed] == [
        ("xa", "first"), ("ra", "relu_1"), ("xb", "second"), ("rb", "relu_2"), ("xc", "third"), ("y", "rest")]  # fmt: skip
    done("run", source, "--dim", "n=2", "--dump", tmp_path / "compiled", "--quiet")
    assert [one["name"] for one in dumped(tmp_path / "compiled")] == ["ra", "rb", "xc", "y"]


def test_values_of_other_kinds_are_listed(tmp_path):
    """A sequence has no file, a bfloat16 tensor is a .pb."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["pair"], name="both"),
        helper.make_node("SequenceAt", ["pair", "one"], ["y"], name="take"),
        helper.make_node("Cast", ["y"], ["z"], name="narrow", to=TensorProto.BFLOAT16),
    ]
    graph = helper.make_graph(
        nodes, "kinds", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("z", TensorProto.BFLOAT16, [2])], [numpy_helper.from_array(np.array(1), "one")])  # fmt: skip
    source = save(make_model(graph), tmp_path / "kinds.onnx")
    done("run", source, "--provider", "cpu", "--dump", tmp_path / "values")
    listed = json.loads((tmp_path / "values" / "values.json").read_text())["values"]
    assert [one["file"] for one in listed] == [None, "000001_y.npy", "000002_z.pb"]
    assert "sequence" in listed[0]["type"]
    tensor = onnx.TensorProto()
    tensor.ParseFromString((tmp_path / "values" / "000002_z.pb").read_bytes())
    assert tensor.data_type == TensorProto.BFLOAT16 and tensor.name == "z"


def test_where_a_dump_may_be_written(deep, tmp_path):
    _, context = deep
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refused(1, "INVALID_ARGUMENT", "run", context, "--dump", tmp_path / "full", names=["has files in it"])
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    refused(3, "IO_ERROR", "run", context, "--dump", context, names=["Not a directory"])
    refused(1, "INVALID_ARGUMENT", "run", context, "--dump", tmp_path / "d", "--test-data", tmp_path, names=["--dump cannot be combined with --test-data"])
    refused(1, "INVALID_ARGUMENT", "run", context, "--dump", tmp_path / "d", "--state", "auto", names=["--dump cannot be combined with --state"])
    assert not (tmp_path / "d").exists()


def test_errors_of_nodes_inside_of_a_partition(deep):
    source, context = deep
    result = json_of("verify", context, "--against", source, "--dim", "n=3", "--runs", "2", "--per-node", "--special-values", "none")
    for run in result["runs"]:
        assert [(one["node"], one["name"], one["match"]) for one in run["nodes"]] == [("relu_1", "ra", True), ("relu_2", "rb", True)]
    text = done("verify", context, "--against", source, "--per-node", "-v").stdout
    assert "relu_2 rb" in text and "2 values of nodes inside of partitions compared; 0 beyond the tolerance" in text
    assert json_of("verify", context, "--against", source)["runs"][0]["nodes"] == []


def test_the_node_where_an_error_begins_is_the_first_one(deep, tmp_path):
    _, context = deep
    other = save(deep_model(second=9), tmp_path / "other.onnx")
    finished = ctxgen("verify", context, "--against", other, "--runs", "1", "--per-node", "--json")
    assert finished.returncode == 4, finished.stderr
    assert [(one["node"], one["match"]) for one in json.loads(finished.stdout)["runs"][0]["nodes"]] == [("relu_1", True), ("relu_2", False)]
    assert "relu_2 rb" in ctxgen("verify", context, "--against", other, "--runs", "1", "--per-node").stdout


def test_narrow_values_are_compared_as_floats(tmp_path):
    """The source rounds to float16 after each node, the partition does not."""
    source = save(deep_model(type=TensorProto.FLOAT16), tmp_path / "half.onnx")
    done("compile", source)
    result = json_of("verify", tmp_path / "half_ctx.onnx", "--against", source, "--runs", "1", "--per-node", "--special-values", "none")
    nodes = result["runs"][0]["nodes"]
    assert [one["name"] for one in nodes] == ["ra", "rb"] and all(one["match"] for one in nodes)


def test_per_node_needs_a_source(deep):
    _, context = deep
    refused(1, "INVALID_ARGUMENT", "verify", context, "--per-node", names=["--per-node needs --against"])


def test_programs_with_replaceable_weights_show_their_outputs(tmp_path):
    """They are made of two programs, of which a run takes one."""
    model = deep_model()
    for name in ("a", "b", "c"):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]))
    source = save(model, tmp_path / "replaceable.onnx")
    done("compile", source)
    finished = ctxgen("run", tmp_path / "replaceable_ctx.onnx", "--dump", tmp_path / "values")
    assert finished.returncode == 0 and "the values inside of it cannot be shown" in finished.stderr
    assert [one["name"] for one in dumped(tmp_path / "values")] == ["xc", "y"]
