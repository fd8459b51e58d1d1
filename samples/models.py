#!/usr/bin/env python3
"""Writes the models of the samples: classifier.onnx, and encoder.onnx and decoder.onnx that share a weight. Weights lie in *.data."""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def dense(name, weights):
    """x [batch, 8] -> one dense layer with Relu per matrix -> y."""
    nodes, value = [], "x"
    for i, _ in enumerate(weights):
        last = i + 1 == len(weights)
        nodes.append(helper.make_node("Gemm", [value, f"w{i}"], [f"h{i}"], name=f"dense{i}"))
        value = "y" if last else f"a{i}"
        nodes.append(helper.make_node("Relu", [f"h{i}"], [value], name=f"relu{i}"))
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", weights[-1].shape[1]])],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    shared, second, third = (random.standard_normal((8, 8), dtype=np.float32) for _ in range(3))
    for name, weights in {"classifier": [third], "encoder": [shared, second], "decoder": [shared, third]}.items():
        (folder / f"{name}.data").unlink(missing_ok=True)
        onnx.save(dense(name, weights), folder / f"{name}.onnx", save_as_external_data=True, location=f"{name}.data",
                  size_threshold=0)


main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
