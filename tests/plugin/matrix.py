#!/usr/bin/env python3
"""./dev plugin-matrix: context models through the plugin EP in several ONNX Runtime libraries.

Every trained model with data (CTXGEN_MODELS) and every case of libonnx-testdata of which a node is compiled runs in each library, in a
process of its own, and is compared with its reference outputs; --bench adds models of the bench, compared with the source. Then an
application goes through what tests/plugin/application.py checks: registering and unregistering, ways to end, function tables, codes.
All that with each number of --threads. Libraries: Debian's, those of the npm package onnxruntime-node in the versions that are
given, and its newest one. Prints passed, failed and skipped per library; status 1 if anything failed. What ONNX Runtime's own tests check
(tests/plugin/ort_tests.py) is run with the first number of threads; --page writes docs/onnxruntime-tests.md.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "bench"), str(PROJECT / "bench" / "peers"), str(PROJECT / "bench" / "models")]

import application  # noqa: E402
import contestants  # noqa: E402
import fetch_ort  # noqa: E402
import flops  # noqa: E402
import generation  # noqa: E402
import make  # noqa: E402
import ort_tests  # noqa: E402
import run as bench_run  # noqa: E402
from cli_support import json_of  # noqa: E402

BUILD = application.BUILD
DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
DEBIAN = sorted(pathlib.Path("/usr/lib").glob("*/libonnxruntime.so.1.*"))
KINDS = ["simple", "pytorch-converted", "pytorch-operator", "node"]


@dataclasses.dataclass(frozen=True)
class DataCase:
    """A model with inputs and reference outputs in test_data_set_0."""

    folder: pathlib.Path
    rtol: float
    atol: float
    flags = ()  # of the compile

    @property
    def name(self):
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def model(self):
        return self.folder / "model.onnx"

    def input_files(self, context, work):
        """By name; None where there is one that the bench program cannot read."""
        names = [one.name for one in onnx.load(context, load_external_data=False).graph.input]
        values = self._arrays("input")
        if values is None or len(values) > len(names):
            return None
        files = {}
        for name, value in zip(names, values):
            files[name] = work / f"in_{len(files)}.npy"
            np.save(files[name], value)
        return files

    def expected(self, _run_source, _run_alone):
        return self._arrays("output")

    def agrees(self, found, wanted):
        if found.shape != wanted.shape:
            return False
        if wanted.dtype.kind != "f":
            return np.array_equal(found, wanted)
        return np.allclose(found, wanted, rtol=self.rtol, atol=self.atol, equal_nan=True)

    def _arrays(self, role):
        """In order; None where one is no tensor."""
        found = []
        while (path := self.folder / "test_data_set_0" / f"{role}_{len(found)}.pb").exists():
            tensor = onnx.TensorProto.FromString(path.read_bytes())
            if not tensor.data_type or tensor.data_type == onnx.TensorProto.STRING:
                return None
            found.append(numpy_helper.to_array(tensor))
        return found


class BenchCase:
    """A bench model, compared with what the library makes of the source; quantised ones, whose sums it rounds or saturates another way,
    with what our own runtime makes of the context model."""

    def __init__(self, name):
        self._model = contestants.Model.read(make.ensure(name))
        self.name, self.model, self.flags = f"bench/{name}", self._model.path, self._model.dim_flags()
        self._tolerance = bench_run.output_tolerance(self._model)

    def input_files(self, _context, _work):
        return self._model.inputs

    def expected(self, run_source, run_alone):
        quantised = self._tolerance == bench_run.QUANTISED_TOLERANCE or "MatMulNBits" in flops.op_types(self.model)
        return run_alone() if quantised else run_source()

    def agrees(self, found, wanted):
        """As ./dev bench."""
        return found.shape == wanted.shape and bool(np.all(np.abs(found - wanted) <= self._tolerance * np.abs(wanted).max(initial=1e-30)))


def data_cases():
    for meta in sorted(pathlib.Path(os.environ.get("CTXGEN_MODELS", "/nowhere")).glob("*/meta.json")):
        if (meta.parent / "test_data_set_0").is_dir() and meta.parent.name != "gpt2_tiny_beamsearch":
            tolerance = json.loads(meta.read_text())["tolerance"]
            yield DataCase(meta.parent, tolerance["rtol"], tolerance["atol"])
    for kind in KINDS:
        for model in sorted((DATA / kind).glob("*/model.onnx")):
            yield DataCase(model.parent, 1e-3, 1e-5)


def compile_case(case, target):
    """The context model, or None: nothing of it is compiled, or ctxgen refuses it."""
    target.mkdir(parents=True)
    command = [BUILD / "bin" / "ctxgen", "compile", "-q", case.model, "-o", target / "m_ctx.onnx", "--threads", "1", *case.flags]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return None
    return target / "m_ctx.onnx" if any(target.glob("*.bin")) else None


class Bench:
    """The bench program with one library, one set of inputs and a number of threads."""

    def __init__(self, program, library, files, threads):
        flags = [word for name, path in files.items() for word in ("--input", f"{name}={path}")]
        self.command = [program, "--library", library, "--iterations", "0", "--threads", threads, *flags]

    def run(self, model, outputs, *flags):
        command = [*self.command, "--model", model, "--outputs", outputs, *flags]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def loaded(folder):
    return [np.load(folder / f"output_{i}.npy") for i in range(len(list(folder.glob("output_*.npy"))))]


def run_case(library, program, threads, context, case, work):
    """"": passed; None: the library does not run the source, or the bench program cannot name its values; else what is wrong."""
    files = case.input_files(context, work)
    if files is None:
        return None
    bench = Bench(program, library, files, threads)

    def run_source():
        return loaded(work / "source") if bench.run(case.model, work / "source").returncode == 0 else None

    def run_alone():
        flags = [word for name, path in files.items() for word in ("--input", f"{name}={path}")]
        (work / "alone").mkdir()
        told = json_of("run", context, "--threads", threads, "--output-dir", work / "alone", *flags)
        return [np.load(work / "alone" / output["file"]) for output in told["outputs"]]

    expected = case.expected(run_source, run_alone)
    if expected is None:
        return None
    finished = bench.run(context, work / "out", "--plugin", BUILD / "lib" / "libctxgen_onnxruntime.so")
    if finished.returncode != 0:
        if run_source() is None:
            return None  # a release that does not run the source either
        text = next((line for line in finished.stderr.splitlines() if line.startswith("ort_bench:")), finished.stderr[-200:])
        return None if "does not know" in text else text
    for index, (found, wanted) in enumerate(zip(loaded(work / "out"), expected)):
        if not case.agrees(found, wanted):
            return f"output {index} differs"
    return ""


def libraries(versions):
    for path in DEBIAN[:1]:
        yield path
    for version in [*versions, None]:
        try:
            yield fetch_ort.newest(version=version)
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            print(f"onnxruntime-node {version or 'newest'}: not fetched: {error}", file=sys.stderr)


def run_models(pool, models, library, program, threads, work):
    """How many passed and were skipped, and what is wrong with the others."""

    def one(item):
        case, context = item
        with tempfile.TemporaryDirectory(dir=work) as scratch:
            return case, run_case(library, program, threads, context, case, pathlib.Path(scratch))

    results = list(pool.map(one, models))
    wrong = [f"{case.name}: {text}" for case, text in results if text]
    skipped = sum(text is None for _, text in results)
    return len(results) - len(wrong) - skipped, skipped, wrong


def run_checks(library, threads, work, repeats):
    """As run_models, for the checks of an application."""
    host = application.make_application(library, work / f"application_{threads}", threads, repeats)
    wrong = []
    for check in application.CHECKS:
        try:
            check(host)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            wrong.append(f"{check.__name__}: {error}")
    return len(application.CHECKS) - len(wrong), 0, wrong


def run_tests(library, threads, work):
    """As run_models, for what ONNX Runtime's own tests check; and the outcomes by row."""
    outcomes = ort_tests.run(application.make_application(library, work / "tests", threads))
    wrong = [f"{row.file} {row.name}: {text}" for row, text in outcomes.items() if text.startswith("failed")]
    passed = sum(text == "passed" for text in outcomes.values())
    return (passed, len(outcomes) - passed - len(wrong), wrong), outcomes


def run_generation(pool, cases, library, program, work):
    """Outcomes by level."""
    host = application.make_application(library, work / "generation", 1)

    def run_made(case, context, folder):
        return run_case(library, program, 1, context, case, folder)

    return {level: generation.run(pool, cases, host, level, work, run_made) for level in generation.LEVELS}


def release_of(library):
    """1.23.2 of Debian's libonnxruntime.so.1.23.2, 1.30.0 of npm's onnxruntime-node-1.30.0/libonnxruntime.so.1."""
    return re.search(r"\d+\.\d+\.\d+", library.resolve().name if library in DEBIAN else library.parent.name)[0]


def report(library, threads, what, passed, skipped, wrong):
    """Prints a line, and one for each failure; whether there was none."""
    print(f"{library.parent.name}/{library.name}, {threads} threads, {what}: {passed} passed, {len(wrong)} failed, {skipped} skipped", flush=True)
    for text in wrong:
        print(f"  {text}")
    return not wrong


def check_library(pool, arguments, models, library, program, work):
    """Whether all passed, and the outcomes of what ONNX Runtime's own tests check."""
    numbers = [int(number) for number in arguments.threads.split(",")]
    good = True
    for threads in numbers:
        good = report(library, threads, "application", *run_checks(library, threads, work, arguments.rounds)) and good
        if threads == numbers[0]:
            counts, outcomes = run_tests(library, threads, work)
            good = report(library, threads, "ONNX Runtime's tests", *counts) and good
        if models:
            good = report(library, threads, "models", *run_models(pool, models, library, program, threads, work)) and good
    return good, outcomes


def compare_made(pool, models, library, program, work):
    """Whether all contexts that sessions made run, and the outcomes by level."""
    made = run_generation(pool, [case for case, _ in models], library, program, work)
    for level, outcomes in made.items():
        print(f"{library.parent.name}/{library.name}, made in sessions, optimizers {level}: {outcomes.summary}, {outcomes.share_of_others:.3f} differ", flush=True)
        for text in outcomes.wrong:
            print(f"  {text}")
    return not any(outcomes.wrong for outcomes in made.values()), made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="of onnxruntime-node besides the newest")
    parser.add_argument("--bench", default="", metavar="NAME,...", help="bench models to add (bench/models; large)")
    parser.add_argument("--threads", default="1,4", metavar="N,...", help="numbers of threads (default: 1,4)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="processes and rounds of what crashes by chance (default: 3)")
    parser.add_argument("--generation", default="", metavar="VERSION,...", help="in these libraries also make the context of each model in a session and compare it with the command line's")
    parser.add_argument("--page", action="store_true", help="write docs/onnxruntime-tests.md")
    parser.add_argument("--no-models", action="store_true", help="only what an application checks")
    arguments = parser.parse_args()
    program = None if arguments.no_models else bench_run.build_peer_program()
    found = {release_of(library): library for library in libraries(arguments.versions)}
    compared = [release for release in arguments.generation.split(",") if release]
    for release in compared:
        if release not in found or arguments.no_models:
            parser.error(f"--generation {release}: no such library here, or no models; libraries are {', '.join(found)}")
    good = True
    with tempfile.TemporaryDirectory(prefix="ctxgen-matrix-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        work = pathlib.Path(folder)
        chosen = [] if arguments.no_models else [*map(BenchCase, filter(None, arguments.bench.split(","))), *data_cases()]
        compiled = list(pool.map(lambda item: compile_case(item[1], work / str(item[0])), enumerate(chosen)))
        models = [(case, context) for case, context in zip(chosen, compiled) if context is not None]
        if chosen:
            print(f"{len(models)} of {len(chosen)} models have a compiled node", flush=True)
        by_release, made_by_release = {}, {}
        for release, library in found.items():
            passed, by_release[release] = check_library(pool, arguments, models, library, program, work)
            good = good and passed
        for release in compared:
            passed, made_by_release[release] = compare_made(pool, models, found[release], program, work)
            good = good and passed
        if arguments.page:
            ort_tests.write_page(PROJECT / "docs" / "onnxruntime-tests.md", by_release, generation.page(made_by_release) if made_by_release else [])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
