"""Runs the ctxgen program and makes small models for it."""

import functools
import json
import os
import subprocess

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper


def ctxgen(*arguments, cwd=None, data=None, text=True):
    """The finished process; `data` goes to stdin."""
    command = [os.environ["CTXGEN_BIN"], *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, input=data, capture_output=True, text=text, check=False)


def done(*arguments, **options):
    """As ctxgen(), for a command that must succeed."""
    finished = ctxgen(*arguments, **options)
    assert finished.returncode == 0, f"status {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    return finished


def json_of(*arguments, **options):
    return json.loads(done(*arguments, "--json", **options).stdout)


@functools.cache
def dnnl_provider():
    """What `ctxgen providers` says of dnnl on this machine, within the limit of ./dev test --isa."""
    return next(one for one in json_of("providers")["providers"] if one["name"] == "dnnl")


def isa_here():
    return dnnl_provider()["isa"]


def has_isa(*names):
    """Whether this machine has any of the instruction sets."""
    usable = {one["name"] for one in dnnl_provider()["instruction_sets"] if one["usable"]}
    return not usable.isdisjoint(names)


def has_vnni():
    return has_isa("avx2_vnni", "avx512_core_vnni")


def run_arrays(path, inputs, folder, *options):
    """The outputs of `ctxgen run` for arrays by input name, as arrays by output name. Files go into `folder`."""
    folder.mkdir(exist_ok=True)
    arguments = []
    for index, (name, array) in enumerate(inputs.items()):  # names may have slashes
        np.save(folder / f"input_{index}.npy", array)
        arguments += ["--input", f"{name}={folder / f'input_{index}.npy'}"]
    done("run", path, *arguments, "--output-dir", folder / "out", *options)
    return {file.stem: np.load(file) for file in (folder / "out").glob("*.npy")}


def refused(status, code, *arguments, names=(), **options):
    """The message of a command that must fail so: one line `ctxgen: error: CODE: ...` on stderr, nothing on stdout but the error
    itself where JSON is asked for."""
    finished = ctxgen(*arguments, **options)
    assert finished.returncode == status, f"status {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    if "--json" in arguments:
        assert json.loads(finished.stdout)["error"]["code"] == code
    else:
        assert finished.stdout == ""
    lines = [line for line in finished.stderr.splitlines() if line.startswith("ctxgen: error: ")]
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith(f"ctxgen: error: {code}: "), lines[0]
    for name in names:
        assert name in lines[0], lines[0]
    return lines[0]


def conv_model(batch="batch", seed=0, tail=None):
    """x [batch, 3, 8, 8] -> Conv -> Relu -> GlobalAveragePool -> Flatten -> Gemm -> y [batch, 10]."""
    random = np.random.default_rng(seed)

    def weight(name, *shape):
        return numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32) * 0.1, name)

    nodes = [
        helper.make_node("Conv", ["x", "cw", "cb"], ["c"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "gw", "gb"], ["y" if tail is None else "z"], name="gemm", transB=1),
    ]
    if tail is not None:
        nodes.append(tail)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 10])],
        [weight("cw", 16, 3, 3, 3), weight("cb", 16), weight("gw", 10, 16), weight("gb", 10)],
    )
    return make_model(graph)


def add_model(op="Add"):
    """y = x + w; nothing but glue and point-wise work."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "w"], ["y"], name="add")],
        "add",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(np.array([1, 10], np.float32), "w")],
    )
    return make_model(graph)


def unknown_model():
    """A node that nobody runs."""
    graph = helper.make_graph(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="odd", domain="test.unknown")],
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    model = make_model(graph)
    model.opset_import.append(helper.make_opsetid("test.unknown", 1))
    return model


def mixed_model():
    """What is compiled, and nodes that are not, with a large initializer of their own."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
mixed (float[2, 4] x) => (float[2, 4] y) <float[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}, float[1] k = {1}, int64[1] one = {1}> {
  a = MatMul(x, w)
  b = Relu(a)
  r = Round(b)
  i = ArgMax <axis = 1, keepdims = 0> (x)
  g = GatherElements(k, i)
  f = Unsqueeze(g, one)
  y = Add(r, f)
}""")
    (k,) = (one for one in model.graph.initializer if one.name == "k")
    k.CopyFrom(numpy_helper.from_array(np.arange(2000, dtype=np.float32), "k"))
    return model


def make_model(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="test")


def save(model, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def temporaries(folder):
    return [path.name for path in folder.rglob("*") if ".tmp" in path.name or path.name.startswith(".ctxgen")]


def into(folder):
    """The argument of -o for a folder that is to be made."""
    return f"{folder}/"


def ep_nodes(path):
    return [node for node in onnx.load(path).graph.node if node.op_type == "EPContext"]


def attributes(node):
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}
