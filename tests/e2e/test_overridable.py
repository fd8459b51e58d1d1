"""Initializers that are graph inputs: packed ahead like constants, and still the caller's to override in each run."""

import numpy as np
import onnx
import pytest
from cli_support import done, ep_nodes, json_of, run_arrays, save
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

NAMES = {"cw": (8, 3, 3, 3), "cb": (8,), "scale": (8,), "bias": (8,), "mean": (8,), "variance": (8,), "gw": (8, 5), "gb": (5,)}


def values(seed):
    random = np.random.default_rng(seed)
    return {name: random.uniform(0.1, 1, shape).astype(np.float32) for name, shape in NAMES.items()}


def network(seed=0, batch=1):
    """x [batch, 3, 8, 8] -> Conv -> BatchNormalization -> Relu -> GlobalAveragePool -> Flatten -> Gemm (transposed by a node) -> y."""
    nodes = [
        helper.make_node("Conv", ["x", "cw", "cb"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Transpose", ["gw"], ["gt"], name="transpose"),
        helper.make_node("Gemm", ["f", "gt", "gb"], ["y"], name="gemm", transB=1),
    ]

    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", [batch, 3, 8, 8]), *(info(name, shape) for name, shape in NAMES.items())],
        [info("y", [batch, 5])],
        [numpy_helper.from_array(value, name) for name, value in values(seed).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def pixels(batch=1):
    return np.random.default_rng(9).uniform(-1, 1, (batch, 3, 8, 8)).astype(np.float32)


def expected(given, seed=0, batch=1):
    """In double precision."""
    model = onnx.version_converter.convert_version(network(seed, batch), 17)
    for one in (*model.graph.input, *model.graph.output):
        one.type.tensor_type.elem_type = TensorProto.DOUBLE
    for one in model.graph.initializer:
        one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one).astype(np.float64), one.name))
    return ReferenceEvaluator(model).run(None, {name: value.astype(np.float64) for name, value in given.items()})[0]


OVERRIDES = [(), ("cw",), ("variance",), ("gw",), ("cb", "gb"), tuple(NAMES)]


def givens():
    other = values(1)
    for names in OVERRIDES:
        yield {"x": pixels(), **{name: other[name] for name in names}}


def compiled(tmp_path, *options, batch=1, seed=0):
    source = save(network(seed, batch), tmp_path / "net.onnx")
    done("compile", "-q", source, *options)
    return tmp_path / "net_ctx.onnx"


@pytest.mark.parametrize("options", [(), ("--embed",), ("--portable",), ("--external-initializers", "data.bin"), ("--compress",)], ids=str)
def test_every_override_is_computed_with(tmp_path, options):
    context = compiled(tmp_path, *options)
    (node,) = ep_nodes(context)
    assert set(node.input) == {"x", *NAMES}
    assert {one.name for one in onnx.load(context).graph.initializer} == set(NAMES)
    for i, given in enumerate(givens()):
        found = run_arrays(context, given, tmp_path / f"run{i}")["y"]
        np.testing.assert_allclose(found, expected(given), rtol=1e-4, atol=1e-5)


def test_sizes_that_are_not_known(tmp_path):
    context = compiled(tmp_path, batch="batch")
    for i, given in enumerate(givens()):
        given["x"] = pixels(3)
        found = run_arrays(context, given, tmp_path / f"run{i}")["y"]
        np.testing.assert_allclose(found, expected(given, batch=3), rtol=1e-4, atol=1e-5)


def test_what_a_program_is_made_of(tmp_path):
    compiled(tmp_path)
    context = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]
    (program,) = context["programs"]
    counts = program["ops"]
    assert {kind: counts[kind] for kind in ("conv", "computed_conv", "matmul", "transpose", "defaults")} == {
        "conv": 1, "computed_conv": 1, "matmul": 2, "transpose": 1, "defaults": 1}  # the transpose of a default is folded
    assert "scale_shift" not in counts  # so is batch normalization
    assert [plan["input_dims"][0] for plan in program["plans"]] == [[1, 3, 8, 8]]


def test_the_cache_knows_defaults(tmp_path):
    """Two models that differ in a default alone, one of a few bytes or of more, do not share a program."""
    cache = tmp_path / "cache"
    for name in ("gb", "cw"):
        for seed in (0, 1):
            folder = tmp_path / f"{name}{seed}"
            folder.mkdir()
            model = network()
            for one in model.graph.initializer:
                if one.name == name:
                    one.CopyFrom(numpy_helper.from_array(values(seed)[name], name))
            source = save(model, folder / "net.onnx")
            done("compile", "-q", source, "--cache-dir", cache)
            given = {"x": pixels()}
            found = run_arrays(folder / "net_ctx.onnx", given, folder / "run")["y"]
            wanted = expected({**given, name: values(seed)[name]})
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_defaults_that_a_tool_changed_count(tmp_path):
    """The context model's own defaults are what a run without overrides takes, whatever is packed."""
    context = compiled(tmp_path)
    model = onnx.load(context)
    for one in model.graph.initializer:
        one.CopyFrom(numpy_helper.from_array(values(1)[one.name], one.name))
    save(model, context)
    found = run_arrays(context, {"x": pixels()}, tmp_path / "run")["y"]
    np.testing.assert_allclose(found, expected({"x": pixels(), **values(1)}), rtol=1e-4, atol=1e-5)
    found = run_arrays(context, {"x": pixels(), **values(0)}, tmp_path / "again")["y"]
    np.testing.assert_allclose(found, expected({"x": pixels()}), rtol=1e-4, atol=1e-5)


def test_freezing_leaves_one_way(tmp_path):
    compiled(tmp_path, "--freeze-initializers")
    (program,) = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]["programs"]
    assert "defaults" not in program["ops"]


def test_verify_takes_the_way_of_the_defaults(tmp_path):
    context = compiled(tmp_path)
    report = json_of("verify", context, "--against", tmp_path / "net.onnx")
    assert report["match"]
