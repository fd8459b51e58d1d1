"""Checks for tests/plugin/ort_tests.py: context models made by the Compile API and by sessions.

They use ONNX Runtime through tests/plugin/host, so that they run in every release.
"""

import shutil

import application as app
import numpy as np
import onnx
from cli_support import attributes, done, ep_nodes, mixed_model, save
from onnx.parser import parse_model

EP = "CtxgenDnnlExecutionProvider"
config = app.config
COMPILED = config(session__disable_model_compile=1)  # nothing is compiled at load
ALL_OURS = config(session__disable_cpu_ep_fallback=1)

OUTER = """<ir_version: 8, opset_import: ["" : 17]>
outer (float[2, 3] x, bool c) => (float[2, 3] y) <float[2, 3] k = {1, 2, 3, 4, 5, 6}> {
  a = Relu(x)
  b = Exp(a)
  y = If(c) <then_branch = t () => (float[2, 3] p) { p = Add(b, k) }, else_branch = e () => (float[2, 3] q) { q = Round(b) }>
}"""
TWO_INPUTS = """<ir_version: 8, opset_import: ["" : 17]>
two (float[2, 3] second, float[2, 3] first) => (float[2, 3] y) {
  a = Exp(first)
  b = Sub(a, second)
  y = Tanh(b)
}"""
TWO_TYPES = """<ir_version: 8, opset_import: ["" : 17]>
types (float[2, 3] x, float16[2, 3] h) => (float[2, 3] y) {
  a = Exp(x)
  b = Cast <to = 1> (h)
  y = Mul(a, b)
}"""
PARTS = """<ir_version: 8, opset_import: ["" : 17]>
parts (float[2, 4] x) => (float[2, 4] y) <float[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}> {
  a = MatMul(x, w)
  b = Asinh(a)
  c = MatMul(b, w)
  d = Asinh(c)
  y = MatMul(d, w)
}"""


class NotApplicable(Exception):
    """The reason."""


def needs(application, minor, what):
    if application.minor_version < minor:
        raise NotApplicable(f"{what} is in 1.{minor} and later")


def folder_of(application, name):
    folder = application.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def answer(application, model, *flags, verb="outputs", **options):
    """What a run gives, as numbers."""
    target = application.folder / "answer.raw"
    target.unlink(missing_ok=True)
    application.ok(verb, model, flags=["--outputs", target, *flags], **options)
    return np.fromfile(target, np.float32)


def agree(application, source, model, *flags, fill=0, **options):
    """The model gives what ONNX Runtime's CPU provider makes of the source."""
    wanted = answer(application, source, "--plain", "--fill", fill)
    found = answer(application, model, *flags, "--fill", fill, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def compiled(application, source, *flags, name="made.onnx"):
    """The context model of a source in a folder of its own."""
    target = folder_of(application, "made") / name
    application.ok("compile", source, flags=["--output", target, *flags])
    return target


# Compile API


def file_to_file(application):
    made = compiled(application, "net.onnx")
    agree(application, "net.onnx", made, *COMPILED, *ALL_OURS)


def buffer_to_file(application):
    made = compiled(application, "net.onnx", "--memory", "--embed")
    agree(application, "net.onnx", made, *COMPILED)


def to_buffer(application):
    made = compiled(application, "net.onnx", "--embed", "--stream", "buffer")
    assert names_in(made.parent) == ["made.onnx"]
    agree(application, "net.onnx", made, "--memory", *COMPILED)


def buffer_to_buffer(application):
    made = compiled(application, "net.onnx", "--memory", "--embed", "--stream", "buffer")
    agree(application, "net.onnx", made, "--memory", *COMPILED)


def buffer_and_initializers_file(application):
    flags = config(ep__context_model_external_initializers_file_name="outside.data")
    made = compiled(application, "mixed.onnx", "--embed", "--optimization", "0", *flags)
    assert "outside.data" in names_in(made.parent)
    agree(application, "mixed.onnx", made, *COMPILED)


def to_stream(application):
    made = compiled(application, "net.onnx", "--memory", "--embed", "--stream", "writes")
    assert names_in(made.parent) == ["made.onnx"]
    agree(application, "net.onnx", made, "--memory", *COMPILED)


def stream_that_fails(application):
    folder = folder_of(application, "made")
    flags = ["--memory", "--embed", "--stream", "fails", "--output", folder / "made.onnx"]
    assert "the tape is full" in application.refused(1, "compile", "net.onnx", flags=flags)
    assert names_in(folder) == []


def optimization_level(application):
    for level in (0, 1, 2, 99):
        made = compiled(application, "net.onnx", "--optimization", level)
        agree(application, "net.onnx", made, *COMPILED)


def error_if_nothing_is_compiled(application):
    folder = folder_of(application, "made")
    flags = ["--output", folder / "made.onnx"]
    assert "compile any nodes" in application.refused(1, "compile", "none.onnx", flags=[*flags, "--flags", 1])
    assert names_in(folder) == []
    application.ok("compile", "none.onnx", flags=flags)


def error_if_the_output_exists(application):
    target = folder_of(application, "made") / "made.onnx"
    target.write_text("a user's own")
    assert "exist" in application.refused(1, "compile", "net.onnx", flags=["--output", target, "--flags", 2])
    assert target.read_text() == "a user's own"
    assert names_in(target.parent) == ["made.onnx"]


def must_be_compiled_first(application):
    application.refused(13, "load", "net.onnx", flags=COMPILED)
    made = compiled(application, "net.onnx")
    agree(application, "net.onnx", made, *COMPILED)


def initializers_by_a_function(application):
    folder = folder_of(application, "made")
    application.ok("compile", "mixed.onnx", flags=["--output", folder / "made.onnx", "--weights", folder / "made.data", "--optimization", "0"])
    assert (folder / "made.data").stat().st_size >= 4 * 2000
    if application.minor_version in (24, 25):
        raise NotApplicable("1.24 and 1.25 write such an initializer a second time, as an address of their process, and refuse it")
    agree(application, "mixed.onnx", folder / "made.onnx", *COMPILED)


def initializers_stay_where_they_are(application):
    folder = folder_of(application, "made")
    onnx.save(mixed_model(), folder / "source.onnx", save_as_external_data=True, location="source.data", size_threshold=0)
    application.ok("compile", "made/source.onnx", flags=["--output", folder / "made.onnx", "--reuse", "--optimization", "0"])
    model = onnx.load(folder / "made.onnx", load_external_data=False)
    places = {one.name: {entry.key: entry.value for entry in one.external_data}.get("location") for one in model.graph.initializer}
    assert places == {"k": "source.data"}, places
    if application.minor_version in (24, 25):
        raise NotApplicable("1.24 and 1.25 write such an initializer a second time, as an address of their process, and refuse it")
    agree(application, "mixed.onnx", folder / "made.onnx", *COMPILED)


def group(application, folder):
    """Two models of one context: N + 1 files."""
    changed = onnx.load(application.folder / "net.onnx")
    changed.graph.node.append(onnx.helper.make_node("Neg", [changed.graph.output[0].name], ["negative"]))
    changed.graph.output.append(onnx.helper.make_tensor_value_info("negative", onnx.TensorProto.FLOAT, None))
    save(changed, application.folder / "second.onnx")
    flags = ["--second", application.folder / "second.onnx", "--output", folder / "a_ctx.onnx", "--second-output", folder / "b_ctx.onnx"]
    application.ok("compile-group", "net.onnx", flags=flags)


def a_shared_context(application):
    folder = folder_of(application, "made")
    group(application, folder)
    assert names_in(folder) == ["a_ctx.onnx", "a_dnnl.bin", "b_ctx.onnx"]
    agree(application, "net.onnx", folder / "a_ctx.onnx", *COMPILED)
    agree(application, "second.onnx", folder / "b_ctx.onnx", *COMPILED)


def sessions_that_share(application):
    folder = folder_of(application, "made")
    group(application, folder)
    flags = ["--second", folder / "b_ctx.onnx", *COMPILED]
    first = answer(application, folder / "a_ctx.onnx", *flags, verb="run-group")
    np.testing.assert_allclose(first, answer(application, "net.onnx", "--plain"), rtol=1e-4, atol=1e-5)
    second = np.fromfile(application.folder / "answer.raw.second", np.float32)
    np.testing.assert_allclose(second, answer(application, "second.onnx", "--plain"), rtol=1e-4, atol=1e-5)


def an_initializer_of_a_body(application):
    save(parse_model(OUTER), application.folder / "outer.onnx")
    folder = folder_of(application, "made")
    done("compile", "-q", application.folder / "outer.onnx", "-o", folder / "by_hand.onnx")
    for fill in (0, 1):
        agree(application, "outer.onnx", "outer.onnx", fill=fill)  # compiled in memory
        agree(application, "outer.onnx", folder / "by_hand.onnx", *COMPILED, fill=fill)
    finished = application.host("compile", "outer.onnx", flags=["--output", folder / "made.onnx"])
    if "topologically sorted" in finished.stdout:
        raise NotApplicable("ONNX Runtime loses such an initializer when it writes a model (microsoft/onnxruntime#32131); the command line and sessions keep it")
    for fill in (0, 1):
        agree(application, "outer.onnx", folder / "made.onnx", *COMPILED, fill=fill)


def a_compiled_model(application):
    made = compiled(application, "net.onnx")
    before = made.read_bytes()
    again = made.with_name("again.onnx")
    assert "already compiled" in application.refused(2, "compile", made, flags=["--output", again])
    assert not again.exists() and made.read_bytes() == before


# Sessions that make context models


def generated(application, source, *flags, name="made.onnx", **options):
    target = folder_of(application, "made") / name
    application.ok("load", source, flags=[*config(ep__context_enable=1, ep__context_file_path=target), *flags], **options)
    return target


def embedded(application):
    made = generated(application, "net.onnx", *config(ep__context_embed_mode=1))
    assert names_in(made.parent) == ["made.onnx"]
    agree(application, "net.onnx", made, *COMPILED)


def not_embedded(application):
    made = generated(application, "net.onnx")
    assert names_in(made.parent) == ["made.onnx", "made_dnnl.bin"]
    agree(application, "net.onnx", made, *COMPILED)


def no_file_without_compiled_nodes(application):
    folder = folder_of(application, "made")
    application.ok("load", "none.onnx", flags=config(ep__context_enable=1, ep__context_file_path=folder / "made.onnx"))
    assert names_in(folder) == []


def a_compiled_model_again(application):
    """Theirs allows it in silence; refused here, as by the Compile API."""
    made = generated(application, "net.onnx")
    flags = config(ep__context_enable=1, ep__context_file_path=made.with_name("again.onnx"))
    assert "already compiled" in application.refused(2, "load", made, flags=flags)
    assert not made.with_name("again.onnx").exists()


def several_partitions(application):
    save(parse_model(PARTS), application.folder / "parts.onnx")
    made = generated(application, "parts.onnx", "--optimization", "0")
    nodes = ep_nodes(made)
    assert len(nodes) == 3, nodes
    assert sorted(attributes(node)["main_context"] for node in nodes) == [0, 0, 1]
    agree(application, "parts.onnx", made, *COMPILED)


def a_folder_is_no_file(application):
    folder = folder_of(application, "made")
    for path in (folder, f"{folder}/"):
        application.refusal("load", "net.onnx", flags=config(ep__context_enable=1, ep__context_file_path=path))
    assert names_in(folder) == []


def an_existing_model_stays(application):
    made = generated(application, "net.onnx")
    before = {path.name: path.read_bytes() for path in made.parent.iterdir()}
    flags = config(ep__context_enable=1, ep__context_file_path=made)
    assert "exist" in application.refused(1, "load", "net.onnx", flags=flags)
    assert {path.name: path.read_bytes() for path in made.parent.iterdir()} == before


def an_existing_model_of_the_default_name_stays(application):
    folder = folder_of(application, "made")
    shutil.copy(application.folder / "net.onnx", folder / "net.onnx")
    (folder / "net_ctx.onnx").write_text("a user's own")
    assert "exist" in application.refused(1, "load", "made/net.onnx", flags=config(ep__context_enable=1))
    assert (folder / "net_ctx.onnx").read_text() == "a user's own"


def inputs_of_two_types(application):
    save(parse_model(TWO_TYPES), application.folder / "types.onnx")
    made = generated(application, "types.onnx")
    agree(application, "types.onnx", made, *COMPILED)


def the_order_of_inputs(application):
    save(parse_model(TWO_INPUTS), application.folder / "two.onnx")
    made = generated(application, "two.onnx")
    assert [one.name for one in onnx.load(made).graph.input] == ["second", "first"]
    agree(application, "two.onnx", made, *COMPILED)


def a_prefix(application):
    made = generated(application, "net.onnx", *config(ep__context_node_name_prefix="own_"))
    assert attributes(ep_nodes(made)[0])["partition_name"].startswith(b"own_dnnl_")


def a_model_from_memory_needs_a_path(application):
    assert "ep.context_file_path" in application.refusal("load", "net.onnx", flags=["--memory", *config(ep__context_enable=1)])


def initializers_outside(application):
    made = generated(application, "mixed.onnx", "--optimization", "0", *config(ep__context_model_external_initializers_file_name="outside.data"))
    assert names_in(made.parent) == ["made.onnx", "made_dnnl.bin", "outside.data"]
    agree(application, "mixed.onnx", made, *COMPILED)


def initializers_inside(application, *flags):
    made = generated(application, "mixed.onnx", "--optimization", "0", *flags)
    assert names_in(made.parent) == ["made.onnx", "made_dnnl.bin"]
    agree(application, "mixed.onnx", made, *COMPILED)


def initializers_inside_from_memory(application):
    initializers_inside(application, "--memory")
