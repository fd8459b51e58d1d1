#!/usr/bin/env python3
"""ONNX Runtime on one model, in a process of its own: writes the first output and prints load time and latency as JSON.

    reference.py MODEL NAME=INPUT.npy... -o OUTPUT.npy [--iterations N] [--optimize]

One thread. Without --optimize the graph runs as it stands, which makes the better reference.
"""

import argparse
import json
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("inputs", nargs="+", metavar="NAME=FILE")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--optimize", action="store_true")
    arguments = parser.parse_args()

    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not arguments.optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    feed = {name: np.load(file) for name, file in (text.rsplit("=", 1) for text in arguments.inputs)}

    def milliseconds(action):
        start = time.perf_counter()
        result = action()
        return result, (time.perf_counter() - start) * 1e3

    providers = ["CPUExecutionProvider"]
    session, load_ms = milliseconds(lambda: onnxruntime.InferenceSession(arguments.model, options, providers=providers))
    outputs, first_run_ms = milliseconds(lambda: session.run(None, feed))
    np.save(arguments.output, outputs[0])
    runs_ms = sorted(milliseconds(lambda: session.run(None, feed))[1] for _ in range(arguments.iterations))
    result = {"version": onnxruntime.__version__, "load_ms": load_ms, "first_run_ms": first_run_ms}
    if runs_ms:
        result["latency_ms"] = {"min": runs_ms[0], "p50": runs_ms[len(runs_ms) // 2]}
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
