#!/usr/bin/env python3
"""The five-minute tour of ctxgen: `./dev demo`.

Takes a ResNet-50 from libonnx-testdata, compiles it, runs source and context model against the expected output, does it again
with random weights against ONNX Runtime, and shows what that buys. Exit status 1 if any result is wrong.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import numpy_helper

import light_models

MODEL = "light_resnet50"
ITERATIONS = 20
HERE = pathlib.Path(__file__).resolve().parent


class DemoError(Exception):
    pass


# ---- the terminal -------------------------------------------------------------------------------------------------------


class Screen:
    def __init__(self, stream):
        self.stream = stream
        self.colours = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.step_number = 0

    def paint(self, code, text):
        return f"\033[{code}m{text}\033[0m" if self.colours else text

    def line(self, text=""):
        print(text, file=self.stream, flush=True)

    def step(self, title):
        self.step_number += 1
        self.line()
        self.line(self.paint("1", f"{self.step_number}. {title}"))

    def command(self, words):
        self.line(self.paint("36", "   $ " + " ".join(words)))

    def text(self, text, limit=None):
        lines = text.rstrip("\n").split("\n")
        for line in lines[:limit]:
            self.line("   " + line)
        if limit and len(lines) > limit:
            self.line(f"   ... ({len(lines) - limit} more lines)")

    def good(self, text):
        self.line("   " + self.paint("32", "ok") + "  " + text)


# ---- programs -----------------------------------------------------------------------------------------------------------


def run_program(command, folder):
    finished = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if finished.returncode != 0:
        # Debian's ONNX Runtime prints hundreds of harmless "Schema error" lines
        said = [line for line in finished.stderr.splitlines() if line.strip() and "Schema error" not in line]
        raise DemoError("\n".join([f"{command[0]} ended with status {finished.returncode}", finished.stdout, *said[-20:]]))
    return finished.stdout


class Ctxgen:
    """Runs ctxgen in the demo's folder and shows each command as one would type it."""

    def __init__(self, program, folder, screen):
        self.program = program
        self.folder = folder
        self.screen = screen

    def __call__(self, *arguments, show=True):
        if show:
            self.screen.command(["ctxgen", *arguments])
        return run_program([self.program, *arguments], self.folder)


def reference(folder, model, output, *flags):
    """What ONNX Runtime says, or None where it is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    name, _ = light_models.input_info(onnx.load(folder / model))
    program = [sys.executable, str(HERE / "reference.py"), model, f"{name}=input.npy", "-o", output, *flags]
    return json.loads(run_program(program, folder).splitlines()[-1])


# ---- the tour -----------------------------------------------------------------------------------------------------------


def write_test_data(folder, name, model, expected):
    """The layout of ONNX's backend tests, which `ctxgen run --test-data` takes."""
    data = folder / name
    data.mkdir()
    input_name, _ = light_models.input_info(model)
    onnx.save_tensor(numpy_helper.from_array(light_models.sample_input(model), input_name), data / "input_0.pb")
    onnx.save_tensor(numpy_helper.from_array(expected, model.graph.output[0].name), data / "output_0.pb")


def megabytes(path):
    return f"{path.stat().st_size / 1e6:.1f} MB"


def compile_and_check(ctxgen, screen, model, data, *flags):
    """Compiles, runs source and context model; a wrong result is an error of `ctxgen run`, thus of the demo."""
    started = time.perf_counter()
    screen.text(ctxgen("compile", f"{model}.onnx", *flags))
    screen.good(f"compiled in {time.perf_counter() - started:.1f} s")
    for name in (f"{model}.onnx", f"{model}_ctx.onnx"):
        ctxgen("run", name, "--test-data", data)
        screen.good(f"{name} gives the expected output")


def show_timings(ctxgen, screen, folder):
    mine = json.loads(ctxgen("bench", "random_ctx.onnx", "--threads", "1", "--iterations", str(ITERATIONS), "--json"))
    peer = reference(folder, "random.onnx", "peer.npy", "--optimize", "--iterations", str(ITERATIONS))
    rows = [
        ("load", mine["load_ms"], peer and peer["load_ms"]),
        ("first run", mine["first_run_ms"], peer and peer["first_run_ms"]),
        ("run, median", mine["latency_ms"]["p50"], peer and peer["latency_ms"]["p50"]),
        ("run, fastest", mine["latency_ms"]["min"], peer and peer["latency_ms"]["min"]),
    ]
    title = f"ONNX Runtime {peer['version']}" if peer else "(ONNX Runtime is not installed)"
    screen.line(f"   {'one thread':<14}{'ctxgen':>12}{title:>24}{'ratio':>9}")
    for name, ours, theirs in rows:
        versus = f"{theirs:>21.1f} ms{ours / theirs:>9.2f}" if peer else ""
        screen.line(f"   {name:<14}{ours:>9.1f} ms{versus}")


def tour(ctxgen, screen, folder):
    source = light_models.model_path(MODEL)
    if not source.exists():
        raise DemoError(f"{source} is missing: install libonnx-testdata, or run ./dev demo")
    model = onnx.load(source)
    shutil.copyfile(source, folder / "resnet50.onnx")
    write_test_data(folder, "expected", model, light_models.expected_output(MODEL))
    np.save(folder / "input.npy", light_models.sample_input(model))

    screen.step("Compile a ResNet-50, then run source and context model against the expected output")
    screen.text(f"resnet50.onnx is {source}: {len(model.graph.node)} nodes, {megabytes(source)},")
    screen.text("its weights made by ConstantOfShape, so that compiling has something to fold.")
    compile_and_check(ctxgen, screen, "resnet50", "expected")

    screen.step("The same with seeded random weights, against ONNX Runtime")
    random_model = light_models.randomized(model)
    onnx.save(random_model, folder / "random.onnx")
    peer = reference(folder, "random.onnx", "reference.npy")
    if peer:
        screen.text(f"random.onnx ({megabytes(folder / 'random.onnx')}); reference: ONNX Runtime {peer['version']}, not optimised")
        write_test_data(folder, "reference", random_model, np.load(folder / "reference.npy"))
        compile_and_check(ctxgen, screen, "random", "reference", "--threads", "1")
    else:
        screen.text("ONNX Runtime is not installed here: nothing to compare with")
        ctxgen("compile", "random.onnx", "--threads", "1")

    screen.step("What it buys: loading maps packed weights instead of packing them")
    show_timings(ctxgen, screen, folder)

    screen.step("What is in the files")
    screen.text(ctxgen("inspect", "random_ctx.onnx"), limit=24)

    screen.step("What to try next")
    for command, purpose in (
        ("./dev ctxgen compile YOUR_MODEL.onnx", "your model; the summary says what was left and why"),
        ("./dev ctxgen explain YOUR_MODEL.onnx", "node by node, without compiling"),
        ("./dev ctxgen run YOUR_MODEL_ctx.onnx", "run it on random input, or on --input NAME=FILE.npy"),
        ("./dev ctxgen inspect YOUR_MODEL_dnnl.bin", "what the context binary holds"),
        ("./dev bench --models resnet50", "the comparison with ONNX Runtime, done properly"),
        ("./dev test", "every test"),
    ):
        screen.line(f"   {screen.paint('36', f'{command:<44}')}{purpose}")


def main():
    screen = Screen(sys.stdout)
    program = os.environ.get("CTXGEN_BIN")
    if not program or not os.access(program, os.X_OK):
        print("demo: CTXGEN_BIN names no ctxgen program; run ./dev demo", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folder below goes even then
    started = time.perf_counter()
    try:
        screen.line(screen.paint("1", "ctxgen: ONNX models, compiled ahead of time"))
        with tempfile.TemporaryDirectory(prefix="ctxgen-demo.") as folder:
            tour(Ctxgen(program, folder, screen), screen, pathlib.Path(folder))
    except DemoError as error:
        screen.line()
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `./dev demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    screen.line()
    screen.good(f"everything matched; {time.perf_counter() - started:.0f} s, and nothing is left behind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
