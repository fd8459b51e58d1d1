"""One compiled program serves every shape: sizes that exporters compute with Shape, Gather, Concat... are known per plan."""

import re

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from cli_support import done, ep_nodes, json_of, run_arrays, save

WIDTH, HEADS = 12, 3

# How exporters write attention over symbolic sizes: reshapes whose targets are computed from other tensors, and a causal mask that is
# cut out of a constant.
ATTENTION = """
<ir_version: 8, opset_import: ["" : OPSET]>
attention (float[batch, length, 12] x, float[batch, past, 12] memory) => (float[batch, length, 12] y, float[batch, 1, 12] last)
<int64 zero = {0}, int64 one = {1}, int64[1] zeros = {0}, int64[1] ones = {1}, int64[1] minus = {-1}, int64[1] heads = {3},
 int64[1] each = {4}, int64[1] width = {12}, int64 three = {3}, int64[1] two = {2}, int64[1] three_1 = {3}, float low = {-10000}> {
  xs = Shape(x)
  batch_n = Gather(xs, zero)
  length_n = Gather(xs, one)
  batch_1 = UNSQUEEZE(batch_n)
  length_1 = UNSQUEEZE(length_n)
  flat_shape = Concat<axis = 0>(minus, width)
  flat = Reshape(x, flat_shape)
  projected = MatMul(flat, wq)
  split_shape = Concat<axis = 0>(batch_1, length_1, heads, each)
  q4 = Reshape(projected, split_shape)
  q = Transpose<perm = [0, 2, 1, 3]>(q4)
  ms = Shape(memory)
  past_n = Gather(ms, one)
  past_1 = UNSQUEEZE(past_n)
  key_shape = Concat<axis = 0>(batch_1, past_1, heads, each)
  k4 = Reshape(memory, key_shape)
  k = Transpose<perm = [0, 2, 3, 1]>(k4)
  v = Transpose<perm = [0, 2, 1, 3]>(k4)
  scores = MatMul(q, k)
  first = Sub(past_n, length_n)
  first_1 = UNSQUEEZE(first)
  rows = Slice(causal, first_1, past_1, two)
  mask = Slice(rows, zeros, past_1, three_1)
  masked = Where(mask, scores, low)
  attention = Softmax<axis = -1>(masked)
  mixed = MatMul(attention, v)
  back = Transpose<perm = [0, 2, 1, 3]>(mixed)
  merged_width = Mul(three, four)
  merged_1 = UNSQUEEZE(merged_width)
  merge_shape = Concat<axis = 0>(batch_1, length_1, merged_1)
  merged = Reshape(back, merge_shape)
  y = Add(merged, x)
  before = Sub(length_n, one)
  before_1 = UNSQUEEZE(before)
  last = Slice(y, before_1, length_1, ones)
}
"""


def attention_model(opset):
    text = ATTENTION.replace("OPSET", str(opset))
    text = re.sub(r"UNSQUEEZE\((\w+)\)", r"Unsqueeze(\1, zeros)" if opset >= 13 else r"Unsqueeze<axes = [0]>(\1)", text)
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal((WIDTH, WIDTH), dtype=np.float32), "wq"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(WIDTH // HEADS, np.int64), "four"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.tril(np.ones((1, 1, 32, 32), bool)), "causal"))
    return model


def inputs_of(batch, length, past):
    random = np.random.default_rng(batch * 100 + length * 10 + past)
    return {
        "x": random.standard_normal((batch, length, WIDTH), dtype=np.float32),
        "memory": random.standard_normal((batch, past, WIDTH), dtype=np.float32),
    }


def run(path, inputs, folder):
    found = run_arrays(path, inputs, folder)
    return [found[name] for name in ("y", "last")]


@pytest.mark.parametrize("opset", [11, 12, 13, 18])
@pytest.mark.parametrize("planned", [False, True])
def test_sizes_of_other_tensors_are_followed(tmp_path, opset, planned):
    source = save(attention_model(opset), tmp_path / "attention.onnx")
    options = ["--dim", "batch=2", "--dim", "length=5", "--dim", "past=7"] if planned else []
    report = json_of("compile", source, *options)
    (model,) = report["models"]
    assert len(ep_nodes(tmp_path / "attention_ctx.onnx")) == 1, model
    assert model["nodes"] == model["compiled_nodes"] + model["folded_nodes"]
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    for shape in ((2, 5, 7), (1, 1, 1), (3, 2, 9), (2, 5, 7)):
        inputs = inputs_of(*shape)
        for found, expected in zip(run(tmp_path / "attention_ctx.onnx", inputs, tmp_path / "run"), session.run(None, inputs)):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_sizes_that_somebody_else_reads_stay_with_them(tmp_path):
    """The shape leaves the graph too: whoever computes it is not compiled, and all still fits."""
    model = attention_model(13)
    model.graph.output.append(onnx.helper.make_tensor_value_info("split_shape", onnx.TensorProto.INT64, [4]))
    source = save(model, tmp_path / "attention.onnx")
    done("compile", source)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    inputs = inputs_of(2, 3, 4)
    found = run(tmp_path / "attention_ctx.onnx", inputs, tmp_path / "run")
    for one, expected in zip(found, session.run(None, inputs)):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "out" / "split_shape.npy"), [2, 3, HEADS, WIDTH // HEADS])


def test_sizes_in_columns_are_not_taken_for_a_list(tmp_path):
    """[a, b] and [c, d] side by side are a, c, b, d when they are read as a list."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
columns (float[a, b] x, float[c, d] w, float[n] z) => (float[p, q, r, s] y) <int64[1] one = {1}, int64[1] all = {-1}> {
  sx = Shape(x)
  sw = Shape(w)
  ux = Unsqueeze(sx, one)
  uw = Unsqueeze(sw, one)
  both = Concat<axis = 1>(ux, uw)
  sizes = Reshape(both, all)
  shaped = Reshape(z, sizes)
  y = Neg(shaped)
}"""
    source = save(onnx.parser.parse_model(text), tmp_path / "columns.onnx")
    done("compile", source)
    inputs = {"x": np.zeros((2, 3), np.float32), "w": np.zeros((4, 5), np.float32), "z": np.arange(120, dtype=np.float32)}
    expected = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    assert expected.shape == (2, 4, 3, 5)
    found = run_arrays(tmp_path / "columns_ctx.onnx", inputs, tmp_path)
    np.testing.assert_array_equal(found["y"], expected)


def test_sizes_of_a_deep_static_model_are_all_folded(tmp_path):
    """In every layer a mask is cut to a size of the layer before: one round of inference and folding resolves one layer."""
    layers = 20
    lines = []
    for i in range(layers):
        lines.append(f"""  s{i} = Shape(v{i})
  n{i} = Gather(s{i}, zero)
  from{i} = Sub(n{i}, n{i})
  begin{i} = Unsqueeze(from{i}, zeros)
  end{i} = Unsqueeze(n{i}, zeros)
  m{i} = Slice(mask, begin{i}, end{i}, zeros)
  v{i + 1} = Add(v{i}, m{i})
""")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
deep (float[1, 6] v0) => (float[rows, 6] v{layers}) <int64 zero = {{0}}, int64[1] zeros = {{0}}, float[2, 6] mask = {{{", ".join("0.5" for _ in range(12))}}}> {{
{"".join(lines)}}}"""
    report = json_of("compile", save(onnx.parser.parse_model(text), tmp_path / "deep.onnx"))["models"][0]
    assert (report["nodes"], report["folded_nodes"], report["compiled_nodes"]) == (7 * layers, 6 * layers, layers)
    (program,) = json_of("inspect", tmp_path / "deep_dnnl.bin")["context"]["programs"]
    assert len(program["plans"]) == 1  # for the only shape that there is
    assert program["outputs"] == [f"v{layers} float32[1, 6]"]
