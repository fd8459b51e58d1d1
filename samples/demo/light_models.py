"""The light_* models of libonnx-testdata: real networks whose float weights ConstantOfShape nodes make.

The package holds each model with one expected output; its input is arange(n).reshape(shape) / n. `randomized` gives the same
networks weights that tell a right result from a wrong one, which equal weights cannot: a swapped pair of channels, say.
"""

import math
import pathlib
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

FOLDER = pathlib.Path("/usr/share/libonnx-testdata/data/light")


def model_path(name):
    return FOLDER / f"{name}.onnx"


def input_info(model):
    """Name and shape of the one graph input that no initializer fills."""
    filled = {tensor.name for tensor in model.graph.initializer}
    (value,) = [value for value in model.graph.input if value.name not in filled]
    return value.name, [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def sample_input(model):
    _, shape = input_info(model)
    count = math.prod(shape)
    return (np.arange(count, dtype=np.float32).reshape(shape) / np.float32(count)).astype(np.float32)


def expected_output(name):
    return numpy_helper.to_array(onnx.load_tensor(FOLDER / f"{name}_output_0.pb"))


def randomized(model, seed=0):
    """A copy in which every ConstantOfShape weight is a seeded random initializer that suits its use."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    roles = _roles(graph)
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        name = node.output[0]
        shape = [int(dim) for dim in numpy_helper.to_array(constants[node.input[0]])]
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        values = _values(rng, roles.get(name, "bias"), shape)
        graph.initializer.append(numpy_helper.from_array(values, name))
        # models of IR version 3, like these, list every initializer among the inputs
        graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(kept)
    return copy


_INPUT_ROLES = {
    "Conv": ("", "weight", "bias"),
    "Gemm": ("", "matrix", "bias"),
    "BatchNormalization": ("", "scale", "bias", "mean", "variance"),
    "Mul": ("scale", "scale"),
    "Add": ("bias", "bias"),
}


def _roles(graph):
    """What each value is used as; through Unsqueeze, which some models put before Mul and Add."""
    roles = {}
    producers = {name: node for node in graph.node for name in node.output}
    summands = {name for node in graph.node if node.op_type == "Sum" for name in node.input}
    for node in reversed(graph.node):
        for name, role in zip(node.input, _INPUT_ROLES.get(node.op_type, ()), strict=False):
            if role == "scale" and node.output[0] in summands:
                role = "residual scale"  # else every residual sum would double the variance
            if role == "weight" and _is_rectified(node.input[0], producers):
                role = "weight after relu"
            roles[name] = role
        if node.op_type == "Unsqueeze" and node.output[0] in roles:
            roles[node.input[0]] = roles[node.output[0]]
    return roles


def _is_rectified(value, producers):
    node = producers.get(value)
    while node and node.op_type in ("AveragePool", "Concat", "LRN", "Reshape", "Transpose"):
        node = producers.get(node.input[0])
    return node is not None and node.op_type == "Relu"


def _values(rng, role, shape):
    normal = rng.standard_normal(shape, dtype=np.float32)
    if role.startswith("weight"):  # He: a gain of 2 makes up for what Relu takes away
        return normal * np.float32(math.sqrt((2.0 if role.endswith("relu") else 1.0) / math.prod(shape[1:])))
    if role == "matrix":
        return normal * np.float32(math.sqrt(1.0 / shape[-1]))
    if role == "variance":
        return rng.uniform(0.7, 1.4, shape).astype(np.float32)
    mean, deviation = {"scale": (1.0, 0.1), "residual scale": (0.4, 0.05)}.get(role, (0.0, 0.1))
    return normal * np.float32(deviation) + np.float32(mean)
