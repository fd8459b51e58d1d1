"""Calls of model-local functions beside partitions."""

import numpy as np
import onnx.helper
import onnx.parser
import onnxruntime
import pytest
from cli_support import ctxgen, done, ep_nodes, run_arrays, save

WOVEN = """<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
woven (float[2, 3] x) => (float[2, 3] y, float[2, 3] p) {
  u = Relu(x)
  p, q = f.Both(u, x)
  y = Relu(q)
}
<domain: "f", opset_import: ["" : 17]>
Both (a, b) => (c, d) {
  c = Sinh(a)
  d = Sinh(b)
}"""


def test_a_call_before_and_behind_one_partition(tmp_path):
    """Both Relus are one partition, which gives what the call reads and reads what it gives: the call is taken apart."""
    source = save(onnx.parser.parse_model(WOVEN), tmp_path / "woven.onnx")
    done("compile", source)
    assert len(ep_nodes(tmp_path / "woven_ctx.onnx")) == 1
    x = np.array([[-1, 0.5, 2], [3, -4, 0]], np.float32)
    found = run_arrays(tmp_path / "woven_ctx.onnx", {"x": x}, tmp_path)
    expected = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for name, value in zip(("y", "p"), expected):
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_a_default_that_refers_to_itself(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
loop (float[2] x) => (float[2] y) { y = f.F(x) }
<domain: "f", opset_import: ["" : 17]>
F (a) => (b) { b = Elu(a) }""")
    function = model.functions[0]
    function.attribute_proto.append(onnx.AttributeProto(name="slope", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    function.node[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    result = ctxgen("compile", save(model, tmp_path / "loop.onnx"))
    assert result.returncode != 0
    assert "refers to an attribute" in result.stderr


def test_a_graph_of_the_call_in_a_body_inside_of_the_function(tmp_path):
    """It reads a value of the caller, through the graph between."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
graphs (bool c, float[2] x) => (float[2] y) {
  n = Neg(x)
  y = f.Choose(c, x)
}
<domain: "f", opset_import: ["" : 17]>
Choose <given> (c, a) => (b) {
  n = Abs(a)
  b = If (c) <then_branch = t () => (float[2] p) { p = If (c) <else_branch = e () => (float[2] q) { q = Abs(n) }> },
              else_branch = o () => (float[2] r) { r = Abs(n) }>
}""")
    outer = model.functions[0].node[1]
    inner = next(each.g for each in outer.attribute if each.name == "then_branch").node[0]
    inner.attribute.append(onnx.AttributeProto(name="then_branch", ref_attr_name="given", type=onnx.AttributeProto.GRAPH))
    given = onnx.parser.parse_graph("given () => (float[2] z) { z = Exp(n) }")
    model.graph.node[1].attribute.append(onnx.helper.make_attribute("given", given))
    source = save(model, tmp_path / "graphs.onnx")
    x = np.array([1, 2], np.float32)
    for condition, expected in ((True, np.exp(-x)), (False, x)):
        for provider in ("dnnl,cpu", "cpu"):
            found = run_arrays(source, {"c": np.array(condition), "x": x}, tmp_path, "--provider", provider)
            np.testing.assert_allclose(found["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("count", [3000])
def test_long_chains_of_constants(tmp_path, count):
    """What a program is made of is followed without a recursion per node."""
    lines = "\n".join(f"  c{i + 1} = Neg(c{i})" for i in range(count))
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
chain (float[2] x) => (float[2] y) <float[2] c0 = {{1, 2}}> {{
{lines}
  z = Add(x, c{count})
  y = Relu(z)
}}"""
    source = save(onnx.parser.parse_model(text), tmp_path / "chain.onnx")
    done("compile", source, "--cache-dir", tmp_path / "cache")
    done("compile", source, "--cache-dir", tmp_path / "cache")
