#!/usr/bin/env python3
"""Writes a plain model that hands its values through, of types that are in different arrays in JavaScript; for addon_test.js."""

import sys

import onnx
from onnx import TensorProto, helper

TYPES = {"s": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL, "h": TensorProto.FLOAT16}

inputs = [helper.make_tensor_value_info(name, kind, ["n"]) for name, kind in TYPES.items()]
outputs = [helper.make_tensor_value_info(f"{name}_out", kind, ["n"]) for name, kind in TYPES.items()]
nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in TYPES]
graph = helper.make_graph(nodes, "mixed", inputs, outputs)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
