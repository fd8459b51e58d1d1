"""A pod: many models in one process, and in several that hold all of them each, in ctxgen and in ONNX Runtime.

Makes seeded models of three kinds (convolutions, encoder layers, wide products), fine-tunes of a few bases that differ in their last layers, compiles them into one context
binary and starts processes that open a session of each model and run it once. Says when the last one is ready, what memory is private, and what all processes take
together, each shared page counted once. Fails where the binary's pages are there more than 1.1 times.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from processes import mapped_pages, megabytes

PROBE = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "sharing_probe"
MOST_PAGES = 1.1
BASES = 20  # of each kind
HOLDER = """
import sys
import numpy as np
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4
held = []
for path in sys.argv[1:]:
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    held.append((session, session.run(None, {x.name: np.zeros(x.shape, np.float32) for x in session.get_inputs()})))
print("ready", flush=True)
sys.stdin.read()
"""


class Network:
    """Builds a chain; `base` draws what fine-tunes have in common, `own` what differs."""

    def __init__(self, base, own, dims):
        self.base, self.own, self.dims = base, own, dims
        self.nodes, self.initializers, self.value = [], [], "x"

    def weight(self, random, *shape):
        scale = np.float32(1 / np.sqrt(np.prod(shape[1:]) if len(shape) == 4 else shape[0]))
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32) * scale, name))
        return name

    def add(self, op, *further, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.value, *further], [name], name=f"n{len(self.nodes)}", **attributes))
        self.value = name
        return name

    def save(self, path):
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.dims)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], self.initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def convolutions(base, own):
    network, channels = Network(base, own, [1, 3, 32, 32]), 3
    for index, wanted in enumerate((32, 64, 64, 128, 128)):
        network.add("Conv", network.weight(base, wanted, channels, 3, 3), pads=[1] * 4, strides=[1 + index % 2] * 2)
        network.add("Relu")
        channels = wanted
    network.add("GlobalAveragePool")
    network.add("Flatten")
    network.add("MatMul", network.weight(own, channels, 100))
    return network


def encoder(base, own):
    network, width = Network(base, own, [1, 16, 128]), 128
    for layer in range(2):
        source = base if layer == 0 else own
        before = network.value
        network.add("MatMul", network.weight(source, width, 4 * width))
        network.add("Relu")
        network.add("MatMul", network.weight(source, 4 * width, width))
        network.add("Add", before)
        network.initializers.append(numpy_helper.from_array(np.ones(width, np.float32), f"scale{layer}"))
        network.add("LayerNormalization", f"scale{layer}")
    return network


def products(base, own):
    network, width = Network(base, own, [1, 512]), 512
    for layer in range(3):
        network.add("MatMul", network.weight(own if layer == 2 else base, width, width))
        network.add("Relu")
    return network


def write_models(folder, count):
    kinds = (convolutions, encoder, products)
    paths = []
    for index in range(count):
        kind = index % len(kinds)
        base = np.random.default_rng([kind, index // len(kinds) % BASES])
        paths.append(folder / f"model_{index:03}.onnx")
        kinds[kind](base, np.random.default_rng([9, index])).save(paths[-1])
    return paths


def rollup(pid):
    """Bytes of a process: (private, proportional)."""
    sums = {key: int(value) * 1024 for key, value in re.findall(r"^(\w+): +(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)}
    return sums["Private_Clean"] + sums["Private_Dirty"], sums["Pss"]


def start(command, count):
    """`count` processes at once that hold models. (seconds until the last is ready, private bytes of each, proportional bytes of all, those of .bin files)"""
    started = time.monotonic()
    processes = [subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(count)]
    ready = [process.stdout.readline().startswith("ready") for process in processes]
    seconds = time.monotonic() - started
    try:
        if not all(ready):
            sys.exit(f"memory-test: error: {pathlib.Path(str(command[0])).name} failed")
        memory = [rollup(process.pid) for process in processes]
        pages = sum(mapped_pages(process.pid, ".bin")[1] for process in processes)
    finally:
        for process in processes:
            process.communicate("")
    return seconds, sum(private for private, _ in memory) / count, sum(proportional for _, proportional in memory), pages


def measure(parent, count, process_count):
    """Prints the figures; the exit status."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="ctxgen-memory-") as name:
        folder = pathlib.Path(name)
        models = write_models(folder, count)
        subprocess.run([os.environ["CTXGEN_BIN"], "compile", "-q", *models, "-o", folder / "out"], check=True)
        contexts = [folder / "out" / f"{model.stem}_ctx.onnx" for model in models]
        (binary,) = (folder / "out").glob("*.bin")
        unique = binary.stat().st_size
        print(f"{count} models, {megabytes(sum(model.stat().st_size for model in models))}; {binary.name} has {megabytes(unique)}")
        print(f"{'':<34}{'ready':>9}{'private, each':>16}{'all, shared once':>18}{'pages of the binary':>21}")
        worst = 0
        for what, command in (("ctxgen", [PROBE, "hold", *contexts]), ("ONNX Runtime", [sys.executable, "-c", HOLDER, *models])):
            for processes in (1, process_count):
                seconds, private, proportional, pages = start(command, processes)
                share = f"{pages / unique:.3f} times" if what == "ctxgen" else ""
                worst = max(worst, pages / unique)
                print(f"{f'{what}, {processes} process' + ('es' if processes > 1 else ''):<34}{seconds:>7.2f} s{megabytes(private):>16}{megabytes(proportional):>18}{share:>21}", flush=True)
    return 0 if worst <= MOST_PAGES else 1
