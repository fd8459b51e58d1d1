"""What two models over one context binary take: prefill and decode, of GPT-2's size and of a decoder with 4-bit weights.

Compiles each pair into one binary, then, in processes of the sharing probe: the memory of one that holds a session of each, what the load of
the second session does, and the pages of two processes that hold one model each. Fails where

- the binary of 4-bit weights has more than 1.03 times the weights of one model: both models' in one copy, as small as they came
- two sessions take more than 1.15 times the unique weights, beside arenas and outputs
- the second load lays a weight out again, or touches memory of more than 2 % of the weights: it makes primitives and plans, nothing else. Its
  time is shown, too; as a share of what its primitives take it says less the faster those are made, and kernels of ours need none
- more than 0.55 of the binary's pages are charged to each of two processes
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import onnx
from processes import mapped_pages, megabytes, status_bytes

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import make

MOST_MEMORY, MOST_TOUCHED, MOST_PROPORTION = 1.15, 0.02, 0.55
PROBE = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "sharing_probe"


@dataclasses.dataclass(frozen=True)
class Pair:
    prefill: str
    decode: str
    most_binary: float  # times the weights of the larger source; f32 weights may be laid out twice


PAIRS = (Pair("gpt2_prefill", "gpt2_decode", 2.0), Pair("int4_60m_prefill", "int4_60m_decode", 1.03))


def ctxgen(*arguments):
    finished = subprocess.run([os.environ["CTXGEN_BIN"], *map(str, arguments)], stdout=subprocess.PIPE, check=False)
    if finished.returncode != 0:
        sys.exit(f"memory-test: error: ctxgen {arguments[0]} ended with status {finished.returncode}")
    return finished.stdout


def with_sizes(name, folder):
    """The model with its inputs' sizes those of the sample inputs, and the bytes of its weights."""
    made = make.ensure(name)
    dims = json.loads((made / "model.json").read_text())["dims"]
    model = onnx.load(made / f"{name}.onnx")
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path, sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def compile_pair(pair, folder):
    """The two context models of one binary, and the bytes of the weights of the larger source. What the exporter left to compute from constants
    (some hundred nodes around the masks) is computed once, as it is where a model is shipped; reading those nodes would be a tenth of a load."""
    names = (pair.prefill, pair.decode)
    sources, weights = zip(*(with_sizes(name, folder) for name in names), strict=True)
    ctxgen("compile", "-q", ",".join(map(str, sources)), "-o", folder / "out", "--graph-optimization", "basic")
    for source in sources:
        source.unlink()
    return [folder / "out" / f"{name}_ctx.onnx" for name in names], max(weights)


def arena_bytes(model):
    """Of the partitions, which run one after the other in memory of their own."""
    nodes = [node for node in onnx.load(model).graph.node if node.op_type == "EPContext"]
    return sum(attribute.i for node in nodes for attribute in node.attribute if attribute.name == "max_size")


class Holder:
    """A process that holds sessions of models, each run once."""

    def __init__(self, *models):
        self.process = subprocess.Popen([PROBE, "hold", *models], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if not words:
            sys.exit("memory-test: error: the sharing probe failed")
        self.output_bytes = int(words[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate("")

    def status(self, key):
        return status_bytes(self.process.pid, key)

    def bin_pages(self):
        """The mapped context binaries' pages, and those charged to the process. Bytes."""
        return mapped_pages(self.process.pid, ".bin")[:2]


@dataclasses.dataclass(frozen=True)
class Load:
    """What the second session's load did; medians of some."""

    load_ms: float
    primitive_creation_ms: float
    primitives: int
    repacked_bytes: int
    touched_bytes: int

    @staticmethod
    def measure(models, rounds):
        loads = [json.loads(subprocess.run([PROBE, "pair", *models], stdout=subprocess.PIPE, check=True).stdout) for _ in range(rounds)]
        return Load(**{field.name: statistics.median(load[field.name] for load in loads) for field in dataclasses.fields(Load)})


def measure_pair(pair, parent, rounds):
    """Prints the figures; whether all are within their bounds."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="ctxgen-memory-") as name:
        models, source_weights = compile_pair(pair, pathlib.Path(name))
        (binary,) = models[0].parent.glob("*.bin")
        binary_share = binary.stat().st_size / source_weights
        unique = json.loads(ctxgen("inspect", binary, "--json"))["context"]["weight_bytes"]
        with Holder(*models) as both:
            resident, anonymous = both.status("VmRSS"), both.status("RssAnon")
            activations = both.output_bytes + sum(arena_bytes(model) for model in models)
        weights = resident - activations
        with Holder(models[1]) as one, Holder(models[1]) as other:
            pages = [one.bin_pages(), other.bin_pages()]
        load = Load.measure(models, rounds)
    share = max(charged / mapped for mapped, charged in pages)
    print(f"{pair.prefill} and {pair.decode}")
    print(f"  weights          {megabytes(unique)} in {binary.name}, each once; the binary has {binary_share:.3f} of the weights of one source")
    print(f"  two sessions     {megabytes(resident)} resident, {megabytes(anonymous)} of it anonymous")
    print(f"                   without arenas and outputs ({megabytes(activations)}) {weights / unique:.3f} of the weights")
    print(f"  second session   {load.load_ms:.2f} ms to load, {load.primitive_creation_ms:.2f} ms of it its {load.primitives:.0f} primitives; median of {rounds}")
    print(f"                   {megabytes(load.repacked_bytes)} of weights laid out again, {load.touched_bytes / unique:.4f} of the weights touched for the first time")
    print(f"  two processes    {sum(charged for _, charged in pages) / 1e6:,.1f} MB of the binary's pages in both, {share:.3f} charged to each", flush=True)
    return (binary_share <= pair.most_binary and weights <= MOST_MEMORY * unique and load.repacked_bytes == 0
            and load.touched_bytes <= MOST_TOUCHED * unique and share <= MOST_PROPORTION)  # fmt: skip


def measure(parent, rounds):
    """The exit status."""
    within = [measure_pair(pair, parent, rounds) for pair in PAIRS]
    return 0 if all(within) else 1
