"""What two models over one context binary take: a GPT-2-size prefill and decode pair.

Compiles both into one binary, then, in processes of the sharing probe: the memory of one that holds a session of each, the load of the
second session beside the making of its own primitives, and the pages of two processes that hold one model each. Fails above 1.15
times the unique weights plus the arenas, above 1.5 times the primitives, or where two processes do not share.
"""

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

PAIR = ("gpt2_prefill", "gpt2_decode")
MOST_MEMORY, MOST_LOAD, MOST_PROPORTION = 1.15, 1.5, 0.55
PROBE = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "sharing_probe"


def ctxgen(*arguments):
    finished = subprocess.run([os.environ["CTXGEN_BIN"], *map(str, arguments)], stdout=subprocess.PIPE, check=False)
    if finished.returncode != 0:
        sys.exit(f"memory-test: error: ctxgen {arguments[0]} ended with status {finished.returncode}")
    return finished.stdout


def with_sizes(name, folder):
    """The model with its inputs' sizes those of the sample inputs."""
    made = make.ensure(name)
    dims = json.loads((made / "model.json").read_text())["dims"]
    model = onnx.load(made / f"{name}.onnx")
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


def compile_pair(folder):
    """The two context models of one binary. What the exporter left to compute from constants (some hundred nodes around the masks) is
    computed once, as it is where a model is shipped; reading those nodes would be a tenth of a load."""
    sources = [with_sizes(name, folder) for name in PAIR]
    ctxgen("compile", "-q", ",".join(map(str, sources)), "-o", folder / "out", "--graph-optimization", "basic")
    for source in sources:
        source.unlink()
    return [folder / "out" / f"{name}_ctx.onnx" for name in PAIR]


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

    def share_of_bins(self):
        """The part of the mapped context binaries' pages that is charged to the process."""
        resident, proportional, _ = mapped_pages(self.process.pid, ".bin")
        return proportional / resident


def second_load(models, rounds):
    """Median of load / primitive creation of the second session, and of both in milliseconds."""
    loads = [json.loads(subprocess.run([PROBE, "pair", *models], stdout=subprocess.PIPE, check=True).stdout) for _ in range(rounds)]
    return [statistics.median(value(one) for one in loads) for value in (
        lambda one: one["load_ms"] / one["primitive_creation_ms"], lambda one: one["load_ms"], lambda one: one["primitive_creation_ms"])]


def measure(parent, rounds):
    """Prints the figures; the exit status."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="ctxgen-memory-") as name:
        models = compile_pair(pathlib.Path(name))
        (binary,) = models[0].parent.glob("*.bin")
        context = json.loads(ctxgen("inspect", binary, "--json"))["context"]
        unique = context["weight_bytes"]
        with Holder(*models) as both:
            resident, anonymous = both.status("VmRSS"), both.status("RssAnon")
            activations = both.output_bytes + sum(arena_bytes(model) for model in models)
        weights = resident - activations
        with Holder(models[1]) as one, Holder(models[1]) as other:
            shares = [one.share_of_bins(), other.share_of_bins()]
        ratio, load, primitives = second_load(models, rounds)
    print(f"weights          {megabytes(unique)} in {binary.name}, each once")
    print(f"two sessions     {megabytes(resident)} resident, {megabytes(anonymous)} of it anonymous")
    print(f"                 without arenas and outputs ({megabytes(activations)}) {weights / unique:.3f} of the weights")
    print(f"second session   {load:.2f} ms to load, {ratio:.2f} of the making of its primitives ({primitives:.2f} ms); median of {rounds}")
    print(f"two processes    {max(shares):.3f} of the binary's pages charged to each")
    return 0 if weights <= MOST_MEMORY * unique and ratio <= MOST_LOAD and max(shares) <= MOST_PROPORTION else 1

