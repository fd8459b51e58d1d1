"""--graph-optimization: what is simplified in nodes outside of partitions, and what never is."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_support import done, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))


def info(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model():
    """Mod has no place in dnnl, so all of this stays; x is [2, 4]."""
    node = helper.make_node
    nodes = [
        node("Identity", ["x"], ["same"], name="identity"),
        node("Add", ["one", "two"], ["three"], name="sum"),  # constant
        node("Mod", ["same", "three"], ["m1"], name="mod_1", fmod=1, doc_string="kept"),
        node("Mod", ["x", "three"], ["m2"], name="mod_2", fmod=1),  # the same as mod_1
        node("Reshape", ["m1", "shape"], ["r"], name="reshape"),  # changes nothing
        node("Mod", ["r", "m2"], ["y"], name="mod_3", fmod=1),
        node("Mod", ["x", "two"], ["unread"], name="dead", fmod=1),
        node("If", ["which"], ["z"], name="choice",
             then_branch=helper.make_graph([node("Mod", ["copy", "three"], ["t"], fmod=1)], "t", [], [info("t", 2, 4)]),
             else_branch=helper.make_graph([node("Identity", ["x"], ["e"])], "e", [], [info("e", 2, 4)])),
    ]
    nodes.insert(1, node("Identity", ["x"], ["copy"], name="captured"))  # a body reads it by name
    weights = [numpy_helper.from_array(np.full(4, v, np.float32), n) for n, v in [("one", 1), ("two", 2)]]
    graph = helper.make_graph(nodes, "net", [info("x", 2, 4), info("which", kind=TensorProto.BOOL)],
                              [info("y", 2, 4), info("z", 2, 4)],
                              [*weights, numpy_helper.from_array(np.array([2, 4]), "shape")])
    return make_model(graph)


def compiled(tmp_path, level):
    source = save(model(), tmp_path / "net.onnx")
    report = json_of("compile", source, "--graph-optimization", level, "-o", tmp_path / f"{level}.onnx", "--verify")
    assert report["models"][0]["verification"]["match"]
    return report["models"][0], onnx.load(tmp_path / f"{level}.onnx")


@pytest.mark.parametrize(("level", "names", "initializers"), [
    ("none", ["identity", "captured", "sum", "mod_1", "mod_2", "reshape", "mod_3", "dead", "choice"], ["one", "two", "shape"]),
    ("basic", ["captured", "mod_1", "mod_2", "mod_3", "choice"], ["three"]),
    ("extended", ["captured", "mod_1", "mod_3", "choice"], ["three"]),
    ("all", ["captured", "mod_1", "mod_3", "choice"], ["three"]),
])
def test_levels(tmp_path, level, names, initializers):
    report, written = compiled(tmp_path, level)
    assert [node.name for node in written.graph.node] == names
    assert [one.name for one in written.graph.initializer] == initializers
    assert report["removed_nodes"] == 9 - len(names)
    onnx.checker.check_model(written, full_check=True)
    mod = next(node for node in written.graph.node if node.name == "mod_1")
    assert mod.doc_string == "kept" and list(mod.input) == ["x" if level != "none" else "same", "three"]


def test_none_is_the_default_and_changes_nothing(tmp_path):
    source = save(model(), tmp_path / "net.onnx")
    done("compile", source)
    written = onnx.load(tmp_path / "net_ctx.onnx")
    keys = [entry.key for entry in written.metadata_props]
    assert keys == ["ctxgen.compile_key", "ctxgen.compile_key_parts", "ctxgen.content_hash"]
    del written.metadata_props[:]
    assert written == onnx.load(source)


def test_a_constant_that_would_grow_the_model_stays_a_node(tmp_path):
    node = helper.make_node
    graph = helper.make_graph(
        [node("Expand", ["one", "shape"], ["wide"], name="expand"), node("Mod", ["x", "wide"], ["y"], name="mod", fmod=1)],
        "net", [info("x", 1000, 1000)], [info("y", 1000, 1000)],
        [numpy_helper.from_array(np.float32(3), "one"), numpy_helper.from_array(np.array([1000, 1000]), "shape")])
    source = save(make_model(graph), tmp_path / "net.onnx")
    done("compile", source, "--graph-optimization", "all")
    assert [n.name for n in onnx.load(tmp_path / "net_ctx.onnx").graph.node] == ["expand", "mod"]


def test_a_call_whose_function_ignores_an_input(tmp_path):
    """The text of the call names the value, though nothing in the body reads it."""
    function = helper.make_function("test", "First", ["a", "b"], ["c"], [helper.make_node("Mod", ["a", "a"], ["c"], fmod=1)],
                                    [helper.make_opsetid("", 17)])
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["copy"], name="copy"),
         helper.make_node("First", ["x", "copy"], ["y"], domain="test", name="call")],
        "net", [info("x", 2)], [info("y", 2)])
    made = make_model(graph)
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("test", 1))
    source = save(made, tmp_path / "net.onnx")
    done("compile", source, "--graph-optimization", "all", "--verify")
    assert [n.name for n in onnx.load(tmp_path / "net_ctx.onnx").graph.node] == ["copy", "call"]


def test_unknown_levels_are_refused(tmp_path):
    refused(1, "INVALID_ARGUMENT", "compile", save(model(), tmp_path / "m.onnx"), "--graph-optimization", "best", names=["best"])


TRAINED = sorted(path.parent.name for path in MODELS.glob("*/test_data_set_0")) if MODELS.is_dir() else []


@pytest.mark.parametrize("name", sorted(set(TRAINED) - {"gpt2_tiny_beamsearch"}))
def test_trained_models(name, tmp_path):
    folder = MODELS / name
    done("compile", "-q", folder / "model.onnx", "--graph-optimization", "all", "-o", tmp_path / "m_ctx.onnx")

    tolerance = json.loads((folder / "meta.json").read_text())["tolerance"]
    done("run", tmp_path / "m_ctx.onnx", "--test-data", folder, "--rtol", tolerance["rtol"], "--atol", tolerance["atol"])
