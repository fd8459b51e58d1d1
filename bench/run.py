#!/usr/bin/env python3
"""./dev bench: ctxgen and ONNX Runtime side by side, ratios first.

Each contestant compiles or prepares each model once; then rounds go through the contestants in turn, each measurement in a
process of its own with the same inputs and threads, so that what the machine does meets all of them. Reported are medians over
rounds.

Exit status: 0 done, 1 something could not be measured, an output was wrong, or (with --against) a ratio got worse by more than
5 %.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import contestants
import report

BENCH = pathlib.Path(__file__).resolve().parent
PROJECT = BENCH.parent
sys.path += [str(BENCH / "models"), str(BENCH / "peers")]
import fetch_ort  # noqa: E402
import make  # noqa: E402

DEFAULT_MODELS = (
    "resnet50", "vgg16", "mobilenetv2", "densenet121", "inception_v3", "bert_base", "gpt2_prefill", "gpt2_decode",
)  # fmt: skip
QUICK_MODELS = ("resnet50", "mobilenetv2")
QUICK_PEERS = ("ort", "ort-prepacked")
DEBIAN_LIBRARY = pathlib.Path("/usr/lib/x86_64-linux-gnu/libonnxruntime.so.1.23")
OUTPUT_TOLERANCE = 1e-3  # of an output's largest value: f32 sums in another order stay far below


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- who takes part -----------------------------------------------------------------------------------------------------


def build_peer_program():
    """The program that drives ONNX Runtime, built beside ctxgen's build; None without ONNX Runtime's headers."""
    build = pathlib.Path(os.environ.get("CTXGEN_BUILD") or PROJECT / "build" / "release") / "bench"
    steps = (
        ["cmake", "-S", BENCH, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", build, "--target", "ort_bench"],
    )
    for step in steps:
        finished = subprocess.run([str(word) for word in step], capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            say(finished.stdout + finished.stderr)
            return None
    return build / "ort_bench"


def newest_library(program):
    """Path and version of the newest ONNX Runtime, None if it is not cached and cannot be fetched."""
    try:
        library = fetch_ort.newest()
        return library, contestants.library_providers(program, library)["version"]
    except (OSError, subprocess.CalledProcessError, contestants.Failed) as error:
        say(f"bench: no newest ONNX Runtime: {error}")
        return None


def find_peers(program):
    """Every peer that this machine has, the reference first."""
    peers = []
    if newest := newest_library(program):
        library, version = newest
        peers.append(contestants.OnnxRuntime("ort", f"ONNX Runtime {version}", program, library))
        peers.append(
            contestants.PrepackedOnnxRuntime("ort-prepacked", f"ONNX Runtime {version}, prepacked offline", program, library)
        )
    if DEBIAN_LIBRARY.exists():
        about = contestants.library_providers(program, DEBIAN_LIBRARY)
        title = f"ONNX Runtime {about['version']} (Debian)"
        peers.append(contestants.OnnxRuntime("ort-debian", title, program, DEBIAN_LIBRARY))
        for provider in ("Dnnl", "Xnnpack"):
            if f"{provider}ExecutionProvider" in about["providers"]:
                name = provider.lower()
                peers.append(
                    contestants.OnnxRuntime(f"ort-{name}", f"{title}, {provider}", program, DEBIAN_LIBRARY, name)
                )
    return peers


def choose(parser, wanted, known, what):
    names = [name for text in wanted for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no {what} {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


# ---- measuring ----------------------------------------------------------------------------------------------------------


def prepare(model, everyone, settings):
    """Results so far by contestant: its files and compile time, or the error that keeps it out of the rounds."""
    results = {}
    for contestant in everyone:
        say(f"bench: {model.name}: preparing {contestant.title}")
        try:
            results[contestant.key] = contestant.prepare(model, settings)
        except contestants.Failed as error:
            results[contestant.key] = {"error": str(error)}
    return results


def measure(model, everyone, settings, rounds):
    results = prepare(model, everyone, settings)
    measurements = {contestant.key: [] for contestant in everyone}
    for index in range(rounds):
        turn = index % len(everyone)  # nobody always goes first
        for contestant in everyone[turn:] + everyone[:turn]:
            if "error" in results[contestant.key]:
                continue
            say(f"bench: {model.name}: round {index + 1} of {rounds}: {contestant.title}")
            try:
                measurements[contestant.key].append(contestant.measure(model, settings))
            except contestants.Failed as error:
                results[contestant.key] = {"error": str(error)}
    for key, taken in measurements.items():
        if "error" not in results[key]:
            results[key] |= report.medians(taken)
    return results


def largest_difference(model, mine, reference, settings):
    """Largest difference of any output, as a share of that output's largest value."""
    got_files, expected_files = (
        contestant.outputs(model, settings, settings.work / model.name / f"{contestant.key}-outputs")
        for contestant in (mine, reference)
    )
    difference = 0.0
    for got_file, expected_file in zip(got_files, expected_files, strict=True):
        got, expected = np.load(got_file), np.load(expected_file)
        if got.shape != expected.shape:
            return float("inf")
        peak = np.abs(expected).max(initial=1e-30)
        difference = max(difference, float(np.abs(got - expected).max(initial=0) / peak))
    return difference if np.isfinite(difference) else float("inf")


def bench(names, everyone, settings, rounds):
    mine, reference = everyone[0], everyone[1] if len(everyone) > 1 else None
    results = {
        "setup": report.setup(settings, rounds, mine.version()),
        "contestants": {contestant.key: contestant.title for contestant in everyone},
        "reference_key": reference.key if reference else None,
        "reference": reference.title if reference else None,
        "models": {},
    }
    for name in names:
        model = contestants.Model.read(make.ensure(name))
        row = results["models"][name] = measure(model, everyone, settings, rounds)
        if reference and "error" not in row[mine.key] and "error" not in row[reference.key]:
            try:
                row[mine.key]["difference"] = largest_difference(model, mine, reference, settings)
            except contestants.Failed as error:
                row[mine.key] = {"error": str(error)}
        shutil.rmtree(settings.work / name, ignore_errors=True)  # half a gigabyte and more per contestant
    return results


def failures(results):
    """What makes the exit status 1: ctxgen did not run a model, or gave something else than the reference."""
    for name, row in results["models"].items():
        mine = row["ctxgen"]
        if "error" in mine:
            yield f"{name}: {mine['error']}"
        elif mine.get("difference", 0.0) > OUTPUT_TOLERANCE:
            yield f"{name}: outputs differ from {results['reference']} by {mine['difference']:.1e} of the peak"


# ---- command line -------------------------------------------------------------------------------------------------------


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="./dev bench", description="ctxgen and ONNX Runtime side by side.")
    parser.add_argument("--models", action="append", metavar="A,B", help=f"default: {','.join(DEFAULT_MODELS)}")
    parser.add_argument("--peers", action="append", metavar="A,B", help="ort,ort-prepacked,... (default: all that are here)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 5")
    parser.add_argument("--iterations", type=int, metavar="N", help="timed runs per round and contestant (default 20)")
    parser.add_argument("--quick", action="store_true", help=f"1 round of 5 runs, {' and '.join(QUICK_MODELS)}, 2 peers")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE", help="compare the ratios with an earlier --json")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args(argv)
    arguments.names = choose(parser, arguments.models, make.MODELS, "model") if arguments.models else list(
        QUICK_MODELS if arguments.quick else DEFAULT_MODELS
    )
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    arguments.iterations = arguments.iterations or (5 if arguments.quick else 20)
    if min(arguments.rounds, arguments.iterations, arguments.threads) < 1:
        parser.error("--rounds, --iterations and --threads take positive numbers")
    arguments.baseline = json.loads(arguments.against.read_text()) if arguments.against else None
    return parser, arguments


def gather(parser, arguments):
    """ctxgen first, then the reference, then the other peers."""
    program = os.environ.get("CTXGEN_BIN")
    if not program or not os.access(program, os.X_OK):
        parser.error("CTXGEN_BIN names no ctxgen program; run ./dev bench")
    driver = build_peer_program()
    peers = {peer.key: peer for peer in (find_peers(driver) if driver else [])}
    if arguments.peers:
        wanted = choose(parser, arguments.peers, peers, "peer")
    else:
        wanted = [key for key in peers if not arguments.quick or key in QUICK_PEERS]
    return [contestants.Ctxgen(program), *(peers[key] for key in wanted)]


def main(argv=None):
    parser, arguments = parse_arguments(argv)
    everyone = gather(parser, arguments)
    with tempfile.TemporaryDirectory(prefix="ctxgen-bench.") as work:
        settings = contestants.Settings(arguments.threads, arguments.iterations, pathlib.Path(work))
        results = bench(arguments.names, everyone, settings, arguments.rounds)
    print(report.terminal(results))
    status = 0
    for failure in failures(results):
        say(f"bench: {failure}")
        status = 1
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.write_docs:
        (PROJECT / "docs").mkdir(exist_ok=True)
        (PROJECT / "docs" / "benchmarks.md").write_text(report.document(results))
    if arguments.baseline:
        table, worse = report.against(results, arguments.baseline)
        print(f"\nagainst {arguments.against}: ratio of ratios, ! is worse by more than 5 %\n\n{table}")
        status = 1 if worse else status
    return status


if __name__ == "__main__":
    sys.exit(main())
