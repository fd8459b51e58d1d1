"""Runs a context model in ONNX Runtime: python3 run.py model_ctx.onnx (needs onnxruntime 1.23 or later)."""

import sys

import numpy as np
import onnxruntime
import onnxruntime_ep_ctxgen as ctxgen

onnxruntime.register_execution_provider_library("ctxgen", ctxgen.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == ctxgen.get_ep_name()]

options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {})  # "threads", ...: docs/onnxruntime.md
session = onnxruntime.InferenceSession(sys.argv[1], options)

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}
feeds = {}
for one in session.get_inputs():
    shape = [size if isinstance(size, int) else 1 for size in one.shape]
    feeds[one.name] = np.zeros(shape, TYPES[one.type])
for one, value in zip(session.get_outputs(), session.run(None, feeds)):
    print(one.name, value.dtype, value.shape)
