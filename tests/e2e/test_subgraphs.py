"""--subgraphs: EPContext nodes in bodies of If, Loop and Scan."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_support import attributes, ctxgen, done, json_of, make_model, refused, run_arrays, save
from onnx import TensorProto, helper, numpy_helper

MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))
DATA = Path("/usr/share/libonnx-testdata/data")
CONTROL_FLOW = [path for path in sorted(DATA.glob("*/test_*")) if path.name.startswith(("test_if", "test_loop", "test_scan"))]


def graphs(graph):
    """The graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from graphs(body)


def contexts(path):
    """Per graph that has any: its EPContext nodes, in order."""
    found = [[n for n in g.node if n.op_type == "EPContext"] for g in graphs(onnx.load(path).graph)]
    return [nodes for nodes in found if nodes]


def plain_nodes(graph):
    """Each node that is no EPContext node, without its bodies: these are judged by their own nodes."""
    for one in graphs(graph):
        for node in one.node:
            if node.op_type == "EPContext":
                continue
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for attribute in copy.attribute:
                attribute.ClearField("g")
                del attribute.graphs[:]
            yield copy.SerializeToString(deterministic=True)


def weight(name, seed, rows=8):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal((rows, 8), dtype=np.float32), name)


def info(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def branch(name, own_weight, output, tail):
    """captured x -> MatMul with a captured weight -> MatMul with one of its own -> Relu -> tail."""
    nodes = [
        helper.make_node("MatMul", ["x", "shared"], [f"{name}_1"], name=f"{name}_first"),
        helper.make_node("MatMul", [f"{name}_1", f"{name}_w"], [f"{name}_2"], name=f"{name}_second"),
        helper.make_node("Relu", [f"{name}_2"], [f"{name}_3"], name=f"{name}_relu"),
        tail(f"{name}_3", output),
    ]
    return helper.make_graph(nodes, name, [], [info(output, "n", 8)], [weight(f"{name}_w", own_weight)])


def if_model(shared_outside=False):
    """`shared` is read by both branches as a weight, and outside if asked for; `mod` by a node that stays."""

    def tail(value, output):
        return helper.make_node("Mod", [value, "mod"], [output], name=f"{output}_mod", fmod=1)

    nodes = [helper.make_node("If", ["which"], ["chosen"], name="choice",
                              then_branch=branch("yes", 2, "yes_out", tail), else_branch=branch("no", 3, "no_out", tail))]
    last = "Mod" if shared_outside else "Abs"
    nodes.append(helper.make_node(last, ["chosen", "shared"] if shared_outside else ["chosen"], ["y"], name="last",
                                  **({"fmod": 1} if shared_outside else {})))
    graph = helper.make_graph(
        nodes, "net", [info("x", "n", 8), info("which", kind=TensorProto.BOOL)], [info("y", "n", 8)],
        [weight("shared", 1), numpy_helper.from_array(np.full(8, 3, np.float32), "mod")],
    )
    return make_model(graph)


def outputs(path, folder, which):
    inputs = {"x": np.random.default_rng(5).standard_normal((8, 8), dtype=np.float32), "which": np.array(which)}
    options = [] if path.name.endswith("_ctx.onnx") else ["--provider", "cpu"]
    return run_arrays(path, inputs, folder, *options)["y"]


@pytest.mark.parametrize("shared_outside", [False, True])
def test_both_branches_are_compiled(tmp_path, shared_outside):
    source = save(if_model(shared_outside), tmp_path / "net.onnx")
    report = json_of("compile", source, "--subgraphs", "--verify")
    context = tmp_path / "net_ctx.onnx"
    found = contexts(context)
    assert [[attributes(n)["main_context"] for n in nodes] for nodes in found if nodes[0].output[0] != "y"] == [[1], [1]]
    assert {attributes(n)["ep_cache_context"] for nodes in found for n in nodes} == {b"net_dnnl.bin"}
    assert len({n.name for nodes in found for n in nodes}) == sum(map(len, found))
    kept = {one.name for one in onnx.load(context).graph.initializer}
    assert kept == {"mod", "shared"} if shared_outside else {"mod"}  # a weight that only partitions read is gone
    bodies = {one.get("graph") for one in report["models"][0]["fallbacks"]}
    assert bodies == {None, "choice/then_branch", "choice/else_branch"}
    for which in [True, False]:
        np.testing.assert_allclose(outputs(context, tmp_path, which), outputs(source, tmp_path, which), rtol=1e-4, atol=1e-5)
    assert set(plain_nodes(onnx.load(context).graph)) <= set(plain_nodes(onnx.load(source).graph))
    # The weight that both branches read lies in the binary once, with one for each branch.
    binary = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]
    assert len(binary["blobs"]) == 3 and binary["shared_blobs"] == 1
    assert json_of("check", context)["partitions"] == sum(map(len, found))


def test_without_the_option_bodies_stay_as_they_are(tmp_path):
    done("compile", save(if_model(), tmp_path / "net.onnx"))
    source, context = onnx.load(tmp_path / "net.onnx"), onnx.load(tmp_path / "net_ctx.onnx")
    assert context.graph.node[0].SerializeToString() == source.graph.node[0].SerializeToString()


def test_the_same_bytes_in_another_folder_and_with_other_jobs(tmp_path):
    for folder, jobs in [("a", 1), ("b", 2)]:
        done("compile", save(if_model(), tmp_path / folder / "net.onnx"), "--subgraphs", "-j", jobs)
    for name in ["net_ctx.onnx", "net_dnnl.bin"]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_nested_bodies_and_a_loop(tmp_path):
    """Loop { if { MatMul with a weight of the main graph } }."""

    def body(name, w):
        return helper.make_graph(
            [helper.make_node("MatMul", ["state", w], [f"{name}_m"]), helper.make_node("Tanh", [f"{name}_m"], [f"{name}_y"])],
            name, [], [info(f"{name}_y", 2, 8)])

    loop = helper.make_graph(
        [helper.make_node("If", ["go_in"], ["next"], name="inner", then_branch=body("t", "w1"), else_branch=body("e", "w2")),
         helper.make_node("Identity", ["go_in"], ["go_out"])],
        "loop", [info("i", kind=TensorProto.INT64), info("go_in", kind=TensorProto.BOOL), info("state", 2, 8)],
        [info("go_out", kind=TensorProto.BOOL), info("next", 2, 8)])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "go", "x"], ["y"], name="outer", body=loop)], "net",
        [info("x", 2, 8)], [info("y", 2, 8)],
        [weight("w1", 1), weight("w2", 2), numpy_helper.from_array(np.array(3), "count"), numpy_helper.from_array(np.array(True), "go")])
    source = save(make_model(graph), tmp_path / "net.onnx")
    report = json_of("compile", source, "--subgraphs", "--verify")
    assert report["models"][0]["compiled_nodes"] == 4 and report["models"][0]["verification"]["match"]
    context = onnx.load(tmp_path / "net_ctx.onnx")
    assert {one.name for one in context.graph.initializer} == {"count", "go"}
    assert [n.op_type for g in graphs(context.graph) for n in g.node] == ["Loop", "If", "Identity", "EPContext", "EPContext"]


def test_refusals(tmp_path):
    source = save(if_model(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--subgraphs", "--embed", names=["--embed", "--subgraphs"])
    done("compile", source, "--subgraphs")
    context = tmp_path / "net_ctx.onnx"
    refused(2, "INVALID_GRAPH", "compile", context, "-o", tmp_path / "again.onnx", names=["already compiled"])
    refused(1, "INVALID_ARGUMENT", "run", context, "--subgraphs", names=["--subgraphs"])
    (tmp_path / "net_dnnl.bin").unlink()
    refused(2, "INVALID_GRAPH", "run", context, names=["net_dnnl.bin"])
    assert ctxgen("check", context).returncode == 2


def test_a_foreign_node_in_a_body_passes_with_its_binary(tmp_path):
    model = if_model()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    theirs = model.graph.node[0].attribute[0].g.node[3]
    theirs.CopyFrom(helper.make_node("EPContext", [theirs.input[0]], [theirs.output[0]], name="theirs", domain="com.microsoft",
                                     source="OtherEP", embed_mode=0, main_context=1, ep_cache_context="theirs.bin"))
    source = save(model, tmp_path / "in" / "net.onnx")
    (tmp_path / "in" / "theirs.bin").write_bytes(b"their context")
    done("compile", source, "--subgraphs", "-o", f"{tmp_path}/out/")
    assert (tmp_path / "out" / "theirs.bin").read_bytes() == b"their context"
    refused(2, "NOT_IMPLEMENTED", "run", tmp_path / "out" / "net_ctx.onnx", names=["OtherEP"])


def check_data(source, data, tmp_path):
    done("compile", "-q", source, "--subgraphs", "-o", tmp_path / "m_ctx.onnx")
    done("run", tmp_path / "m_ctx.onnx", "--test-data", data)
    written = onnx.load(tmp_path / "m_ctx.onnx")
    assert set(plain_nodes(written.graph)) <= set(plain_nodes(onnx.load(source).graph))


@pytest.mark.skipif(not DATA.is_dir(), reason="libonnx-testdata is not installed")
@pytest.mark.parametrize("folder", CONTROL_FLOW, ids=lambda path: path.name)
def test_onnx_backend_data(folder, tmp_path):
    check_data(folder / "model.onnx", folder, tmp_path)


@pytest.mark.skipif(not MODELS.is_dir(), reason="CTXGEN_MODELS names no folder of trained models")
@pytest.mark.parametrize(("name", "options", "compiled"), [
    ("silero_vad_v6", [], 40), ("lstm_scan_cntk", [], 80), ("lstm_scan_cntk", ["--freeze-initializers"], 80),
    ("crop_and_resize_loop", [], 0),
])
def test_trained_models(name, options, compiled, tmp_path):
    report = json_of("compile", MODELS / name / "model.onnx", "--subgraphs", *options, "-o", tmp_path / "m_ctx.onnx")
    assert report["models"][0]["compiled_nodes"] >= compiled
    done("run", tmp_path / "m_ctx.onnx", "--test-data", MODELS / name)
