"""Flipped bytes in context models, context binaries and files of external initializers: none that changes an output passes `ctxgen verify`."""

import collections
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from cli_support import done, make_model, save
from onnx import TensorProto, helper, numpy_helper
from test_functions import WOVEN
from test_integrity import lookup_model
from test_verify import chain_model, looping_model

FLIPS = int(os.environ.get("CTXGEN_FLIPS", "64"))  # over all sets
MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))


def product_model():
    """Its context binary has 18 MiB: more than `--verify-blobs auto` reads."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((2048, 2304), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2048])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2304])], [weight])
    return make_model(graph)


def trained(name):
    return lambda: next((MODELS / name).glob("*.onnx"))


# name: (models, options)
SETS = {
    "initializers inside": ([lookup_model], []),
    "external initializers": ([lookup_model], ["--external-initializers", "all.weights"]),
    "embedded": ([chain_model], ["--embed"]),
    "a batch": ([lookup_model, chain_model, lambda: lookup_model(rows=80)], ["--external-initializers", "all.weights"]),
    "bodies": ([looping_model], ["--subgraphs"]),
    "functions": ([lambda: onnx.parser.parse_model(WOVEN)], []),
    "a large binary": ([product_model], []),
}
if MODELS.is_dir():
    SETS |= {
        "trained, inside": ([trained("rfb320_face")], []),
        "trained, external": ([trained("rfb320_face")], ["--external-initializers", "all.weights"]),
        "trained, embedded": ([trained("palm_detection_lite")], ["--embed"]),
        "trained, compressed": ([trained("micro_kws_qdq")], ["--compress"]),
    }


def compile_set(folder, models, options):
    """The context models, and all files of the set."""
    sources = []
    for number, make in enumerate(models):
        made = make()
        path = folder / f"m{number}.onnx"
        sources.append(save(made, path) if not isinstance(made, Path) else Path(path.write_bytes(made.read_bytes()) and path))
    (folder / "out").mkdir()
    done("compile", "-q", "--threads", 1, *sources, "-o", folder / "out", *options)
    return sorted((folder / "out").glob("*_ctx.onnx")), sorted((folder / "out").iterdir())


def status_of(*arguments):
    command = [os.environ["CTXGEN_BIN"], *map(str, arguments)]
    try:
        finished = subprocess.run(command, capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return None
    assert finished.returncode >= 0, (command, finished.stderr)  # no signal
    return finished.returncode


def outputs_of(context, folder, *options):
    """All outputs of a run, or None where it is refused."""
    for file in folder.glob("*"):
        file.unlink()
    if status_of("run", context, "--threads", 1, "--output-dir", folder, *options) != 0:
        return None
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def place_in(generator, size):
    """Half of them anywhere, the others where the structure is: at either end."""
    kind = generator.randrange(4)
    if kind == 0:
        return generator.randrange(min(size, 8192))
    if kind == 1:
        return size - 1 - generator.randrange(min(size, 4096))
    return generator.randrange(size)


class Flipped:
    """A file with one byte changed, until the end of the block."""

    def __init__(self, path, at, mask):
        self.path, self.at, self.mask = path, at, mask

    def flip(self):
        with open(self.path, "r+b") as file:
            file.seek(self.at)
            (byte,) = file.read(1)
            file.seek(self.at)
            file.write(bytes([byte ^ self.mask]))

    def __enter__(self):
        self.flip()

    def __exit__(self, *_):
        self.flip()


def kind_of(path):
    return "model" if path.suffix == ".onnx" else "binary" if path.suffix == ".bin" else "external"


def try_flip(contexts, expected, scratch, flipped):
    """(refused by run, an output changes where nothing is verified, found by verify)"""
    refused = changed = found = False
    with flipped:
        for context in contexts:
            if kind_of(flipped.path) == "model" and context != flipped.path:
                continue
            status = status_of("verify", context)
            outputs = outputs_of(context, scratch, "--verify-blobs", "never")
            is_changed = outputs is not None and outputs != expected[context]
            assert status != 0 or not is_changed, f"{flipped.path.name}: byte {flipped.at} ^ {flipped.mask:#x} passes verify"
            assert status in (0, 2, 3), (status, flipped.path.name, flipped.at, flipped.mask)  # 3: another name of a file
            refused |= outputs is None or outputs_of(context, scratch) is None
            changed |= is_changed
            found |= status != 0
    return refused, changed, found


@pytest.mark.parametrize("name", SETS)
def test_no_flip_that_changes_an_output_passes_verify(name, tmp_path):
    contexts, files = compile_set(tmp_path, *SETS[name])
    (tmp_path / "y").mkdir()
    expected = {context: outputs_of(context, tmp_path / "y") for context in contexts}
    assert None not in expected.values()
    assert [status_of("verify", context) for context in contexts] == [0] * len(contexts)
    seed = f"2026 {name}"
    generator = random.Random(seed)
    counts = collections.Counter()
    for number in range(-(-FLIPS // len(SETS))):
        path = files[number % len(files)]
        flipped = Flipped(path, place_in(generator, path.stat().st_size), generator.randrange(1, 256))
        refused, changed, found = try_flip(contexts, expected, tmp_path / "y", flipped)
        counts.update({kind_of(path): 1, "refused by run": refused, "output changes unless verified": changed, "found by verify": found,
                       "not found, no output changes": not found})
    print(f"{name} (seed {seed!r}): {dict(counts)}")
    assert [outputs_of(context, tmp_path / "y") for context in contexts] == list(expected.values())
