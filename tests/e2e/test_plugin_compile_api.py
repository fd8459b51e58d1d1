"""ONNX Runtime's Compile API with the plugin EP: where the model goes, who places initializers, flags, what is left behind by errors.

After the cases of ONNX Runtime's own tests of that API (onnxruntime_test_python_compile_api.py), written anew.
"""

import numpy as np
import onnx
import onnx.parser
import pytest
from cli_support import conv_model, done, ep_nodes, mixed_model, save
from test_plugin import DEVICES, onnxruntime, session
from test_plugin_generation import generate
from test_plugin_sessions import agree, numbers

FLAGS = onnxruntime.OrtCompileApiFlags
X = numbers(2, 3, 8, 8)

OUTER = """<ir_version: 8, opset_import: ["" : 17]>
outer (float[2, 3] x, bool c) => (float[2, 3] y) <float[2, 3] k = {1, 2, 3, 4, 5, 6}> {
  a = Relu(x)
  b = Exp(a)
  y = If(c) <then_branch = t () => (float[2, 3] p) { p = Add(b, k) }, else_branch = e () => (float[2, 3] q) { q = Round(b) }>
}"""


@pytest.fixture
def net(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def compiler(model, **arguments):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices(DEVICES, {})
    return onnxruntime.ModelCompiler(options, model if isinstance(model, bytes) else str(model), **arguments)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_to_a_stream(net, tmp_path):
    parts = []
    compiler(net.read_bytes(), embed_compiled_data_into_model=True).compile_to_stream(lambda part: parts.append(bytes(part)))
    agree(net, {"x": X}, session(b"".join(parts)))
    assert names_in(tmp_path) == ["net.onnx"]


def test_a_stream_that_fails(net, tmp_path):
    """Its own error is the error, and nothing is left behind."""

    def full(_part):
        raise OSError("the tape is full")

    with pytest.raises(Exception, match="the tape is full"):
        compiler(net.read_bytes(), embed_compiled_data_into_model=True).compile_to_stream(full)
    assert names_in(tmp_path) == ["net.onnx"]


def test_a_callback_places_initializers(tmp_path):
    """Of nodes that are not compiled; it is not asked for those in the context binary."""
    source = save(mixed_model(), tmp_path / "mixed.onnx")
    weights = tmp_path / "own.data"
    asked = []
    with open(weights, "wb") as file:

        def place(name, value, _external):
            asked.append(name)
            start = file.tell()
            file.write(value.numpy().tobytes())
            return onnxruntime.OrtExternalInitializerInfo(weights.name, start, file.tell() - start)

        compiler(source, get_initializer_location_func=place, graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).compile_to_file(
            str(tmp_path / "made.onnx")
        )
    assert "w" not in asked
    outside = {one.name for one in onnx.load(tmp_path / "made.onnx", load_external_data=False).graph.initializer}
    assert outside == set(asked)
    agree(source, {"x": numbers(2, 4)}, session(tmp_path / "made.onnx", config={"session.disable_model_compile": "1"}))


def test_a_callback_that_reuses_external_data(tmp_path):
    """What the source has in a file stays there."""
    onnx.save(mixed_model(), tmp_path / "mixed.onnx", save_as_external_data=True, location="mixed.data", size_threshold=0)
    kept = []

    def keep(name, _value, external):
        if external is not None:
            kept.append(name)
        return external

    compiler(tmp_path / "mixed.onnx", get_initializer_location_func=keep).compile_to_file(str(tmp_path / "made.onnx"))
    made = onnx.load(tmp_path / "made.onnx", load_external_data=False)
    places = {one.name: {entry.key: entry.value for entry in one.external_data}.get("location") for one in made.graph.initializer}
    assert kept == ["k"]
    assert places == {"k": "mixed.data"}
    agree(tmp_path / "mixed.onnx", {"x": numbers(2, 4)}, session(tmp_path / "made.onnx"))


def test_an_error_if_nothing_is_compiled(tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 17]> none (float[2] x) => (int64[1, n] y) { y = NonZero(x) }'
    source = save(onnx.parser.parse_model(text), tmp_path / "none.onnx")
    output = tmp_path / "made.onnx"
    with pytest.raises(Exception, match="Unable to compile any nodes"):
        compiler(source, flags=FLAGS.ERROR_IF_NO_NODES_COMPILED).compile_to_file(str(output))
    assert names_in(tmp_path) == ["none.onnx"]
    compiler(source).compile_to_file(str(output))
    agree(source, {"x": numbers(2)}, session(output))


def test_an_error_if_the_output_exists(net, tmp_path):
    output = tmp_path / "made.onnx"
    output.write_text("a user's own")
    with pytest.raises(Exception, match="exist"):
        compiler(net, flags=FLAGS.ERROR_IF_OUTPUT_FILE_EXISTS).compile_to_file(str(output))
    assert output.read_text() == "a user's own"
    assert names_in(tmp_path) == ["made.onnx", "net.onnx"]


def test_a_session_does_not_replace_a_model(net, tmp_path):
    """Under the name that it takes by itself. ONNX Runtime looks after the context binary was written, which stays."""
    output = tmp_path / "net_ctx.onnx"
    output.write_text("a user's own")
    with pytest.raises(Exception, match="exist"):
        generate(net)
    assert output.read_text() == "a user's own"
    assert names_in(tmp_path) == ["net.onnx", "net_ctx.onnx", "net_dnnl.bin"]


def test_a_model_that_must_be_compiled_first(net, tmp_path):
    config = {"session.disable_model_compile": "1"}
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.ModelRequiresCompilation):
        session(net, config=config)
    compiler(net).compile_to_file(str(tmp_path / "made.onnx"))
    agree(net, {"x": X}, session(tmp_path / "made.onnx", config=config))


def test_an_initializer_that_only_a_body_reads(tmp_path):
    """In a session and a model of the command line; ONNX Runtime 1.23 loses it when it writes a model (microsoft/onnxruntime#32131)."""
    source = save(onnx.parser.parse_model(OUTER), tmp_path / "outer.onnx")
    done("compile", "-q", source)
    assert ep_nodes(tmp_path / "outer_ctx.onnx")
    for ours in (session(source), session(tmp_path / "outer_ctx.onnx", config={"session.disable_model_compile": "1"})):
        for condition in (True, False):
            agree(source, {"x": numbers(2, 3), "c": np.array(condition)}, ours)


def test_a_compiled_model_is_refused(net, tmp_path):
    compiler(net).compile_to_file(str(tmp_path / "made.onnx"))
    before = (tmp_path / "made.onnx").read_bytes()
    with pytest.raises(Exception, match="already compiled"):
        compiler(tmp_path / "made.onnx").compile_to_file(str(tmp_path / "again.onnx"))
    assert not (tmp_path / "again.onnx").exists()
    assert (tmp_path / "made.onnx").read_bytes() == before
