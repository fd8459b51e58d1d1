#!/usr/bin/env python3
"""New weights into the programs of a context model: `compile --like` against `compile`, for bench models.

    ./dev python3 tests/fleet/new_weights.py [--models resnet50,int4_60m_decode] [--rounds 5] [--isa avx2] [--folder DIR]

Gives each model other numbers in every weight, compiles it with --like the context model of the first numbers and without, and compares the bytes. Says what both take, the one after
the other in each round, and what all takes that comes before programs are made (`explain`): the most that a verb which only packs could save. Exit status: 0 if all bytes are equal.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
CTXGEN = os.environ.get("CTXGEN_BIN") or str(ROOT / "build" / "dev" / "bin" / "ctxgen")
LEAST_ELEMENTS = 1024  # smaller tensors may be shapes or numbers that a program holds


def fine_tuned(model):
    """Other numbers in every weight: floats a little larger or smaller, bits of packed integers turned."""
    random = np.random.default_rng(7)
    changed = 0
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.size < LEAST_ELEMENTS:
            continue
        if tensor.data_type == TensorProto.FLOAT:
            values = values * random.uniform(0.95, 1.05, values.shape).astype(np.float32)
        elif tensor.data_type == TensorProto.UINT8:
            values = values ^ random.integers(0, 2, values.shape, dtype=np.uint8)
        else:
            continue
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        changed += values.nbytes
    return model, changed


def run(*words):
    """Seconds."""
    started = time.monotonic()
    subprocess.run([CTXGEN, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def equal(one, other):
    return sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir()) and all(
        subprocess.run(["cmp", "-s", path, other / path.name], check=False).returncode == 0 for path in one.iterdir())  # fmt: skip


def check(source, folder, options, rounds):
    """Whether the bytes are equal."""
    model, changed = fine_tuned(onnx.load(source))
    tuned = folder / "tuned" / source.name
    tuned.parent.mkdir()
    onnx.save(model, tuned, save_as_external_data=True, location=f"{source.stem}.data", size_threshold=LEAST_ELEMENTS)
    run("compile", "-q", source, "-o", f"{folder}/base/", *options)
    (base,) = (folder / "base").glob("*_ctx.onnx")
    seconds = {"compile": [], "like": [], "explain": []}
    for _ in range(rounds):
        seconds["compile"].append(run("compile", "-q", tuned, "-o", f"{folder}/compiled/", *options))
        seconds["like"].append(run("compile", "-q", tuned, "-o", f"{folder}/like/", "--like", base, *options))
        seconds["explain"].append(run("explain", tuned))
    same = equal(folder / "like", folder / "compiled")
    new = not equal(folder / "like", folder / "base")
    compiled, like, explain = (statistics.median(seconds[name]) for name in seconds)
    print(f"{'equal' if same and new else 'DIFFERENT':<10}{source.stem:<24}{changed / 1e6:8,.1f} MB of new weights   compile {compiled:.2f} s, --like {like:.2f} s "
          f"({like / compiled:.2f} times), explain {explain:.2f} s", flush=True)  # fmt: skip
    return same and new


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,int4_60m_decode", help="of the bench, separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is taken (default 5)")
    parser.add_argument("--isa", help="what to compile for (default: this machine)")
    parser.add_argument("--folder", type=pathlib.Path, help="where the files go (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds is at least 1")
    os.environ.pop("CTXGEN_CACHE_DIR", None)
    made = subprocess.run([sys.executable, ROOT / "bench" / "models" / "make.py", *arguments.models.split(",")], check=True, stdout=subprocess.PIPE, text=True)
    passed = True
    for source in made.stdout.splitlines():
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="ctxgen-weights-") as folder:
            passed &= check(pathlib.Path(source), pathlib.Path(folder), ["--isa", arguments.isa] if arguments.isa else [], arguments.rounds)
    return not passed


if __name__ == "__main__":
    sys.exit(main())
