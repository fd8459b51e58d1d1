"""Bad input to every verb that reads models: exit status, a message that names the culprit, nothing written."""

import os

import numpy as np
import onnx
import pytest
from cli_support import add_model, conv_model, ctxgen, done, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

VERBS = ["compile", "run", "explain", "inspect"]


def cyclic():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second"),
             helper.make_node("Relu", ["b"], ["y"], name="third")]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    return make_model(helper.make_graph(nodes, "g", info[:1], info[1:]))


def of_opset(version):
    model = add_model()
    model.opset_import[0].version = version
    return model


def external(location, length=8):
    model = add_model()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        weight.external_data.add(key=key, value=value)
    return model


CASES = {
    "empty": (b"", 2, "INVALID_GRAPH", ["bad.onnx", "empty"]),
    "truncated": (conv_model().SerializeToString()[:-5], 2, "INVALID_GRAPH", ["bad.onnx"]),
    "text": (b"hello, this is text\n", 2, "INVALID_GRAPH", ["bad.onnx"]),
    "cycle": (cyclic(), 2, "INVALID_GRAPH", ["first", "second"]),
    "opset": (of_opset(28), 2, "NOT_IMPLEMENTED", ["opset 28", "27"]),
    "data missing": (external("none.bin"), 3, "IO_ERROR", ['"w"', "none.bin"]),
    "data short": (external("short.bin"), 2, "INVALID_GRAPH", ['"w"', "short.bin", "8 bytes", "7"]),
    "data of another size": (external("good.bin", 4), 2, "INVALID_GRAPH", ['"w"', "4", "8"]),
    "data absolute": (external("/etc/passwd"), 2, "INVALID_GRAPH", ['"w"', "/etc/passwd", "absolute"]),
    "data above": (external("../outside.bin"), 2, "INVALID_GRAPH", ['"w"', "../outside.bin", '".."']),
    "data behind a link": (external("link.bin"), 2, "INVALID_GRAPH", ['"w"', "link.bin", "link"]),
    "data behind a linked folder": (external("up/outside.bin"), 2, "INVALID_GRAPH", ['"w"', "up/outside.bin", "link"]),
}


def make_folder(tmp_path, model):
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(8))
    (folder / "good.bin").write_bytes(bytes(8))
    (folder / "short.bin").write_bytes(bytes(7))
    (folder / "link.bin").symlink_to("../outside.bin")
    (folder / "up").symlink_to("..")
    path = folder / "bad.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", CASES)
def test_bad_models(tmp_path, case, verb):
    model, status, code, names = CASES[case]
    path = make_folder(tmp_path, model)
    before = sorted(tmp_path.rglob("*"))
    refused(status, code, verb, path, names=names)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_good_one_of_the_kind(tmp_path):
    path = make_folder(tmp_path, external("good.bin"))
    for verb in VERBS:
        done(verb, path)


def test_an_output_that_is_declared_wrongly_is_put_right(tmp_path):
    model = conv_model(batch=2)
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 3
    done("compile", save(model, tmp_path / "net.onnx"))
    written = onnx.load(tmp_path / "net_ctx.onnx").graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in written.dim] == [2, 10]
    done("run", tmp_path / "net_ctx.onnx")


def test_names_of_the_terminal_are_not_obeyed(tmp_path):
    """What a model calls itself goes to the terminal: no control characters come through."""
    model = add_model("Frob\x1b[31m\x07nicate")
    path = save(model, tmp_path / "net.onnx")
    for verb in VERBS:
        finished = ctxgen(verb, path)
        assert "\x1b" not in finished.stderr + finished.stdout and "\x07" not in finished.stderr + finished.stdout, verb


@pytest.mark.parametrize("name", ["../escaped", "a/b", "/tmp/escaped", ".hidden", "con\0nul", "x" * 5000])
def test_outputs_are_written_into_the_folder_whatever_their_names(tmp_path, name):
    model = add_model()
    model.graph.output[0].name = name
    model.graph.node[0].output[0] = name
    path = save(model, tmp_path / "net.onnx")
    done("run", path, "--output-dir", tmp_path / "out" / "here")
    assert [file.parent for file in (tmp_path / "out").rglob("*.npy")] == [tmp_path / "out" / "here"]
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "out"]


def test_a_foreign_context_stays_below_the_folder(tmp_path):
    """The bin of a foreign EPContext node is copied to the output's folder: not from or to anywhere else."""
    for place in ("../outside.bin", "/etc/passwd", "link.bin"):
        node = helper.make_node("EPContext", ["x"], ["y"], name="foreign", domain="com.microsoft", embed_mode=0, main_context=1,
                                ep_cache_context=place, source="OtherExecutionProvider")
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
        model = make_model(helper.make_graph([node], "g", info[:1], info[1:]))
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        folder = tmp_path / place.replace("/", "_")
        folder.mkdir()
        path = make_folder(folder, model)
        before = sorted(folder.rglob("*"))
        refused(2, "INVALID_GRAPH", "compile", path, names=["foreign", place])
        assert sorted(folder.rglob("*")) == before


def test_deep_and_wide_models_are_refused_or_run(tmp_path):
    """A chain of ten thousand nodes, and a tensor of a size that nobody has."""
    nodes = [helper.make_node("Neg", [f"v{n}"], [f"v{n + 1}"]) for n in range(10000)]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", "v10000")]
    done("run", save(make_model(helper.make_graph(nodes, "g", info[:1], info[1:])), tmp_path / "deep.onnx"))
    shape = numpy_helper.from_array(np.array([1 << 40, 1 << 20], np.int64), "s")
    node = helper.make_node("ConstantOfShape", ["s"], ["y"], name="huge")
    info = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    refused(2, "RESOURCE_LIMIT", "run", save(make_model(helper.make_graph([node], "g", [], info, [shape])), tmp_path / "wide.onnx"),
            names=["huge"])
