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
import decoding
import flops
import llama
import report
import trained

BENCH = pathlib.Path(__file__).resolve().parent
PROJECT = BENCH.parent
sys.path += [str(BENCH / "models"), str(BENCH / "peers")]
import fetch_ort  # noqa: E402
import hide_cpuid  # noqa: E402
import make  # noqa: E402

DEFAULT_MODELS = (
    "resnet50", "mobilenetv2", "densenet121", "inception_v3", "efficientnet_b0", "convnext_t", "yolov8n", "unet_attention", "crnn",
    "bert_base", "minilm", "t5_small_encoder", "vit_b_16", "clip_vision", "dinov2_s", "swin_t", "segformer_b0",
    "whisper_tiny_encoder", "wav2vec2_base", "gpt2_prefill", "gpt2_decode",
)  # fmt: skip
QUICK_MODELS = ("resnet50", "mobilenetv2")
QUICK_PEERS = ("ort", "ort-prepacked")
PEER_LIMITS = ("avx2", "avx512_core_vnni")  # that peers/limit_cpuid.cpp knows
DEBIAN_LIBRARY = pathlib.Path("/usr/lib/x86_64-linux-gnu/libonnxruntime.so.1.23")
OUTPUT_TOLERANCE = 1e-3  # f32 sums in another order stay far below
QUANTISED_TOLERANCE = 2 / 255


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- who takes part -----------------------------------------------------------------------------------------------------


def build_peer_program():
    """The program that drives ONNX Runtime, built beside ctxgen's build; None without ONNX Runtime's headers."""
    build = pathlib.Path(os.environ.get("CTXGEN_BUILD") or PROJECT / "build" / "release") / "bench"
    steps = (
        ["cmake", "-S", BENCH, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", build],
    )
    for step in steps:
        finished = subprocess.run([str(word) for word in step], capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            say(finished.stdout + finished.stderr)
            return None
    return build / "ort_bench"


def find_limiter(driver):
    """The library that hides what is beyond a limit from peers, and whether it does in copies of their libraries only (hide_cpuid.py)."""
    limiter = driver.parent / "liblimit_cpuid.so"
    environment = {**os.environ, "LD_PRELOAD": str(limiter)}
    probe = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=False)
    return limiter, probe.returncode != 0


def answer_in_copies(peers):
    """Gives each peer a copy of its library; drops those that none can be made of."""
    os.environ["LIMIT_CPUID_COPIES"] = "1"
    for key, peer in list(peers.items()):
        try:
            peer.library = hide_cpuid.copy_of(peer.library)
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"bench: {peer.title} is left out: {error}")
            del peers[key]


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
    if llama.is_here():
        peers.append(llama.LlamaCpp())
    return peers


def choose(parser, wanted, known, what):
    names = [name for text in wanted for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no {what} {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


# ---- measuring ----------------------------------------------------------------------------------------------------------


class Lane:
    """One contestant with one number of threads on one model."""

    def __init__(self, model, contestant, settings):
        self.model, self.contestant, self.settings = model, contestant, settings
        self.taken, self.row = [], {}

    def title(self):
        threads = self.settings.threads
        return f"{self.model.name}: {self.contestant.title}, {threads} thread{'s' if threads > 1 else ''}"

    def attempt(self, what, call):
        """What `call` gives; an error keeps the lane out of what follows."""
        if "error" in self.row:
            return None
        say(f"bench: {self.title()}: {what}")
        try:
            return call(self.model, self.settings)
        except contestants.Failed as error:
            self.row = {"error": str(error)}
            return None

    def prepare(self):
        self.row |= self.attempt("preparing", self.contestant.prepare) or {}

    def measure(self, index):
        if measurement := self.attempt(f"round {index + 1}", self.contestant.measure):
            self.taken.append(measurement)

    def finish(self):
        self.row |= self.attempt("profile", self.contestant.profile) or {}
        if "error" not in self.row:
            self.row |= report.medians(self.taken)


def measure(model, everyone, all_settings, rounds):
    """{threads: {contestant: row}}, all lanes in turn in every round."""
    lanes = [Lane(model, contestant, settings) for settings in all_settings for contestant in everyone]
    for lane in lanes:
        lane.prepare()
    for index in range(rounds):
        turn = index % len(lanes)  # nobody always goes first
        for lane in lanes[turn:] + lanes[:turn]:
            lane.measure(index)
    rows = {str(settings.threads): {} for settings in all_settings}
    for lane in lanes:
        lane.finish()
        rows[str(lane.settings.threads)][lane.contestant.key] = lane.row
    return rows


def measure_loads(model, mine, settings, counts, rounds):
    """Of one file, {threads: the fastest of some loads}; an error in place of what could not be measured."""
    rows = {}
    for _ in range(rounds):
        for count in counts:
            try:
                row = mine.load_with(model, settings, count)
            except contestants.Failed as error:
                return {"error": str(error)}
            rows[str(count)] = min(rows.get(str(count), row), row, key=lambda taken: taken["load_ms"])
    return rows


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
        if got.dtype.kind in "fiu" and got.size:
            got, expected = got.astype(np.float64), expected.astype(np.float64)
            peak = max(np.abs(expected).max(), 1e-30)
            difference = max(difference, float(np.abs(got - expected).max() / peak))
    return difference if np.isfinite(difference) else float("inf")


def compare_outputs(model, rows, mine, reference, settings):
    row = rows[str(settings.threads)]
    if "error" in row[mine.key] or "error" in row[reference.key]:
        return
    try:
        row[mine.key]["difference"] = largest_difference(model, mine, reference, settings)
    except contestants.Failed as error:
        row[mine.key] = {"error": str(error)}


def output_tolerance(model):
    """What outputs may differ by, as a share of their largest value: sums in another order may round a quantised value to its neighbour."""
    quantised = any("Quant" in op_type or "QLinear" in op_type for op_type in flops.op_types(model.path))
    return QUANTISED_TOLERANCE if quantised else OUTPUT_TOLERANCE


def operations(model, rows):
    """Of the model as its graph says, or else as ctxgen counts its products."""
    mine = next(iter(rows.values()))["ctxgen"]
    return flops.model_flops(model.path, model.dims) or mine.get("flops") or None


def bench(models, everyone, all_settings, arguments):
    """All results; those so far are kept in the file of --json after each model, so that an interrupted bench loses one model."""
    mine, reference, rounds = everyone[0], everyone[1] if len(everyone) > 1 else None, arguments.rounds
    results = {
        "setup": report.setup(all_settings, rounds, mine),
        "contestants": {contestant.key: contestant.title for contestant in everyone},
        "reference_key": reference.key if reference else None,
        "reference": reference.title if reference else None,
        "models": {},
    }
    for model in models:
        rows = measure(model, everyone, all_settings, rounds)
        if reference and reference.gives_outputs:
            compare_outputs(model, rows, mine, reference, all_settings[0])
        results["models"][model.name] = {
            "flops": operations(model, rows),
            "weight_bytes": flops.low_bit_bytes(model.path),
            "tolerance": output_tolerance(model),
            "threads": rows,
            "loads": measure_loads(model, mine, all_settings[0], arguments.load_threads, rounds),
        }
        write_json(arguments.json, results)
        shutil.rmtree(all_settings[0].work / model.name, ignore_errors=True)  # half a gigabyte and more per contestant
    return results


def write_json(path, results):
    if path:
        path.write_text(json.dumps(results, indent=1) + "\n")


def failures(results):
    """What makes the exit status 1: ctxgen did not run a model, or gave something else than the reference."""
    for name, threads, row in report.rows_of(results):
        mine = row["ctxgen"]
        if "error" in mine:
            yield f"{name}, threads {threads}: {mine['error']}"
        elif mine.get("difference", 0.0) > results["models"][name].get("tolerance", OUTPUT_TOLERANCE):
            yield f"{name}: outputs differ from {results['reference']} by {mine['difference']:.1e} of the peak"


# ---- command line -------------------------------------------------------------------------------------------------------


def counts_of(parser, text):
    words = text.split(",") if text else []
    if not all(word.isdigit() and int(word) > 0 for word in words):
        parser.error(f"numbers of threads: {text}")
    return list(dict.fromkeys(int(word) for word in words))


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="./dev bench", description="ctxgen and ONNX Runtime side by side.")
    parser.add_argument("--models", action="append", metavar="A,B", help=f"names of make.py or ONNX files; default: {','.join(DEFAULT_MODELS)}")
    parser.add_argument("--trained", type=pathlib.Path, metavar="DIR", help="the models DIR/NAME/model.onnx; --models chooses among them")
    parser.add_argument("--peers", action="append", metavar="A,B", help="ort,ort-prepacked,... (default: all that are here); llama: with ./dev --packages bench")
    parser.add_argument("--threads", default="1", metavar="N,N", help="numbers of threads, the first of which the ratios are for; default 1")
    parser.add_argument("--isa", metavar="NAME", help="limit ctxgen and oneDNN to an instruction set; with avx2 and avx512_core_vnni peers too")
    parser.add_argument("--load-threads", default="", metavar="N,N", help="also load the file of the first number of threads with each of these")
    parser.add_argument("--before", type=pathlib.Path, metavar="PROGRAM", help="a ctxgen program to take part too: ratios above 1.02 are marked")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 5")
    parser.add_argument("--iterations", type=int, metavar="N", help="timed runs per round and contestant (default 20)")
    parser.add_argument("--decode", metavar="PROMPT,STEPS", help="measure steps of decoders with a past instead, whose caches stay; more rounds find more of the slow ones")
    parser.add_argument("--quick", action="store_true", help=f"1 round of 5 runs, {' and '.join(QUICK_MODELS)}, 2 peers")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--from", dest="earlier", action="append", type=pathlib.Path, metavar="FILE", help="measure nothing: report an earlier --json; several are joined by instruction set")
    parser.add_argument("--against", type=pathlib.Path, metavar="FILE", help="compare the ratios with an earlier --json")
    parser.add_argument("--write-docs", action="store_true", help="write a page of docs/benchmarks per instruction set")
    arguments = parser.parse_args(argv)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    arguments.iterations = arguments.iterations or (5 if arguments.quick else 20)
    arguments.threads, arguments.load_threads = (counts_of(parser, text) for text in (arguments.threads, arguments.load_threads))
    if not arguments.threads or min(arguments.rounds, arguments.iterations) < 1:
        parser.error("--rounds, --iterations and --threads take positive numbers")
    if arguments.before and not os.access(arguments.before, os.X_OK):
        parser.error(f"--before: no program {arguments.before}")
    if arguments.decode:
        try:
            arguments.decode = decoding.Decode.parse(arguments.decode)
        except ValueError:
            parser.error("--decode takes PROMPT,STEPS, of 3 steps or more")
        if not arguments.models or arguments.write_docs or arguments.against:
            parser.error("--decode needs --models, and writes no pages")
    if arguments.isa and arguments.isa.lower() not in PEER_LIMITS and arguments.peers:
        parser.error(f"--isa limits peers to {' and '.join(PEER_LIMITS)} only: no --peers with another one")
    arguments.baseline = json.loads(arguments.against.read_text()) if arguments.against else None
    return parser, arguments


def choose_models(parser, arguments):
    """Name -> file, or None for a model that make.py makes."""
    wanted = [name for text in arguments.models or [] for name in text.split(",")]
    paths = {pathlib.Path(name).stem: pathlib.Path(name) for name in wanted if trained.is_path(name)}
    names = [name for name in wanted if not trained.is_path(name)]
    there = trained.models_in(arguments.trained) if arguments.trained else dict.fromkeys(make.MODELS)
    if not wanted:
        names = list(there) if arguments.trained else list(QUICK_MODELS if arguments.quick else DEFAULT_MODELS)
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing or not (names or paths):
        parser.error(f"no model {', '.join(missing)}" if missing else f"{arguments.trained} has no NAME/model.onnx")
    return {name: there[name] for name in choose(parser, names, there, "model")} | paths


def read_models(chosen, work):
    for name, path in chosen.items():
        try:
            yield trained.read(name, path, work) if path else contestants.Model.read(make.ensure(name))
        except contestants.Failed as error:
            say(f"bench: {name}: left out: {error}")


def gather(parser, arguments):
    """ctxgen first, then the reference, then the other peers; and what limits peers, if that is asked."""
    program = os.environ.get("CTXGEN_BIN")
    if not program or not os.access(program, os.X_OK):
        parser.error("CTXGEN_BIN names no ctxgen program; run ./dev bench")
    before = [contestants.Ctxgen(arguments.before, "before", "ctxgen before")] if arguments.before else []
    limited = arguments.isa is not None
    driver = build_peer_program() if not limited or arguments.isa.lower() in PEER_LIMITS else None
    if limited and not driver:
        if arguments.peers:
            parser.error("--peers: ONNX Runtime's driver could not be built")
        return [contestants.Ctxgen(program), *before], None
    limiter, in_copies = find_limiter(driver) if limited else (None, False)
    peers = {peer.key: peer for peer in (find_peers(driver) if driver else [])}
    if limiter:
        peers.pop("llama", None)  # a program of its own, which this does not reach
    if in_copies:
        answer_in_copies(peers)
    if arguments.peers:
        wanted = choose(parser, arguments.peers, peers, "peer")
    else:
        wanted = [key for key in peers if not arguments.quick or key in QUICK_PEERS]
    return [contestants.Ctxgen(program), *(peers[key] for key in wanted), *before], limiter


def measured(parser, arguments):
    chosen = choose_models(parser, arguments)
    everyone, limiter = gather(parser, arguments)
    with tempfile.TemporaryDirectory(prefix="ctxgen-bench.") as folder:
        work = pathlib.Path(folder)
        all_settings = [contestants.Settings(threads, arguments.iterations, work, arguments.isa, limiter) for threads in arguments.threads]
        return [bench(read_models(chosen, work), everyone, all_settings, arguments)]


def decoded(parser, arguments):
    """The results of --decode; those so far are kept in the file of --json after each model."""
    chosen = choose_models(parser, arguments)
    everyone, limiter = gather(parser, arguments)
    driver = pathlib.Path(os.environ.get("CTXGEN_BUILD") or PROJECT / "build" / "release") / "bench" / "spin_steps"
    spin = decoding.SpinningThreads(driver) if driver.exists() and max(arguments.threads) > 1 else None
    titles = {one.key: one.title for one in [*everyone, *([spin] if spin else [])]}
    results = {"decode": str(arguments.decode), "contestants": titles, "models": {}}
    with tempfile.TemporaryDirectory(prefix="ctxgen-bench.") as folder:
        work = pathlib.Path(folder)
        all_settings = [contestants.Settings(threads, arguments.iterations, work, arguments.isa, limiter) for threads in arguments.threads]
        for model in read_models(chosen, work):
            results["models"][model.name] = decoding.measure(model, everyone, spin, all_settings, arguments.rounds, arguments.decode, say)
            write_json(arguments.json, results)
            shutil.rmtree(work / model.name, ignore_errors=True)
    return results


def write_docs(all_results):
    folder = PROJECT / "docs" / "benchmarks"
    folder.mkdir(exist_ok=True)
    for results in all_results:
        (folder / f"{results['setup']['isa']}.md").write_text(report.document(results))


def main(argv=None):
    parser, arguments = parse_arguments(argv)
    if arguments.decode:
        results = decoded(parser, arguments)
        print(decoding.terminal(results))
        broken = list(decoding.failures(results))
        for failure in broken:
            say(f"bench: {failure}")
        return 1 if broken else 0
    if arguments.earlier:
        all_results = report.joined([json.loads(path.read_text()) for path in arguments.earlier])
    else:
        all_results = measured(parser, arguments)
    status = 0
    for results in all_results:
        print(report.terminal(results))
        for failure in failures(results):
            say(f"bench: {failure}")
            status = 1
    if arguments.earlier:
        write_json(arguments.json, all_results[0])
    if arguments.write_docs:
        write_docs(all_results)
    if arguments.baseline:
        table, worse = report.against(all_results[0], arguments.baseline)
        print(f"\nagainst {arguments.against}: ratio of ratios, ! is worse by more than 5 %\n\n{table}")
        status = 1 if worse else status
    return status


if __name__ == "__main__":
    sys.exit(main())
