#!/usr/bin/env python3
"""Measures the plugin EP next to ONNX Runtime's CPU provider, in processes of tests/plugin/host, interleaved; prints ratios and medians.

create MODEL...       a session on an ordinary model: made, made with an empty cache, made with a filled one, run, private memory; how
                      much of making it is the plugin's part, by its log, the rest being ONNX Runtime's
contention MODEL...   two sessions of --threads at the same time on the processors --cpus, or in a control group of --quota processors: p50 and p99
sessions MODEL...     private memory of each of --count sessions over one context model, in a group or not; of a tenth as many on the model itself, with
                      the plugin and without
MODEL: a file, or the name of a bench model (bench/models). Run in the environment: `CTXGEN_PRESET=release ./dev python3 tests/plugin/measure.py create resnet50`;
ort_host is that of the preset dev.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "bench"), str(PROJECT / "bench" / "peers"), str(PROJECT / "bench" / "models")]

import contestants  # noqa: E402
import fetch_ort  # noqa: E402
import make  # noqa: E402

BUILD = pathlib.Path(os.environ["CTXGEN_BIN"]).parent.parent
HOST = next((path for path in (BUILD / "tests" / "ort_host", BUILD.parent / "dev" / "tests" / "ort_host") if path.exists()), None)  # release builds have no tests
TICK_SECONDS = 2.5  # see FileIdentity::is_settled
PLUGIN = BUILD / "lib" / "libctxgen_onnxruntime.so"


@contextlib.contextmanager
def control_group(processors):
    """A control group of that quota; gives the command that enters it. Needs the right to make one."""
    if not processors:
        yield []
        return
    period_us = 100_000
    quota_us = int(processors * period_us)
    own = dict(line.split(":", 2)[1:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    limits = {"cpu.cfs_period_us": period_us, "cpu.cfs_quota_us": quota_us}
    parent = next((pathlib.Path("/sys/fs/cgroup", names, own[names].lstrip("/")) for names in own if "cpu" in names.split(",")), None)  # version 1
    if parent is None:
        parent, limits = pathlib.Path("/sys/fs/cgroup", own[""].lstrip("/")), {"cpu.max": f"{quota_us} {period_us}"}
    group = parent / f"ctxgen-measure-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        sys.exit(f"--quota: {error}")
    try:
        for name, value in limits.items():
            (group / name).write_text(str(value))
        yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group)]
    except OSError as error:
        sys.exit(f"--quota: {error}")
    finally:
        group.rmdir()


def run_host(arguments, verb, model, *flags, **environment):
    command = [HOST, verb, "--library", arguments.library, "--plugin", PLUGIN, "--model", model, "--threads", arguments.threads, "--fill", arguments.fill, *flags]
    if arguments.cpus:
        command = ["taskset", "--cpu-list", arguments.cpus, *command]
    with control_group(arguments.quota) as enter:
        words = [*enter, *(str(word) for word in command)]
        finished = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if finished.returncode != 0:
        sys.exit(f"{verb} {model}: status {finished.returncode}\n{finished.stdout}{finished.stderr[-1000:]}")
    return finished


def host(*arguments, **environment):
    """The JSON object that the program prints."""
    return json.loads(run_host(*arguments, **environment).stdout.splitlines()[-1])


def own_ms(arguments, model, *flags):
    """How much of making a session is spent in the plugin."""
    said = run_host(arguments, "creation", model, "--log", 1, *flags).stderr
    return round(sum(float(number) for number in re.findall(r"(?:nodes in|partitions loaded)\b.*?([\d.]+) ms", said)), 1)


def interleaved(arguments, ways, measure):
    """Medians by way of what `measure(flags)` gives."""
    found = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, flags in ways.items():
            found[name].append(measure(flags))
    return {name: {key: round(statistics.median(one[key] for one in all_of), 3) for key in all_of[0]} for name, all_of in found.items()}


def report(title, medians, base="plain"):
    print(title)
    for name, values in medians.items():
        ratios = {key: round(value / medians[base][key], 3) for key, value in values.items() if base in medians and medians[base][key] > 0}
        print(f"  {name:<28}", json.dumps(values), "of", base, json.dumps(ratios), flush=True)


def create(arguments, name, model):
    with tempfile.TemporaryDirectory() as folder:
        filled, verified = pathlib.Path(folder) / "filled", pathlib.Path(folder) / "verified"
        options = [word for option in arguments.ep for word in ("--ep", option)]

        def measure(flags):
            if flags == "first":
                with tempfile.TemporaryDirectory(dir=folder) as empty:
                    return host(arguments, "creation", model, "--rounds", arguments.runs, "--ep", f"cache_dir={empty}/c", *options)
            return host(arguments, "creation", model, "--rounds", arguments.runs, *flags, *options)

        time.sleep(TICK_SECONDS)  # weights that are younger would be hashed again
        for cache in (filled, verified):
            host(arguments, "creation", model, "--ep", f"cache_dir={cache}", *options)
        subprocess.run([os.environ["CTXGEN_BIN"], "compile", "-q", model, "-o", f"{folder}/m_ctx.onnx"], check=True)
        with_cache = ["--ep", f"cache_dir={filled}"]
        reads_all = ["--ep", f"cache_dir={verified}", "--ep", "verify_cache=always"]
        ways = {"plain": ["--plain"], "plain, not optimised": ["--plain", "--optimization", 0], "plugin": [], "cache, first": "first", "cache, second": with_cache, "cache, verified": reads_all}
        medians = interleaved(arguments, ways, measure)
        own = statistics.median(own_ms(arguments, model, *with_cache, *options) for _ in range(arguments.rounds))
        medians["context model"] = host(arguments, "creation", f"{folder}/m_ctx.onnx", "--rounds", arguments.runs)
        report(name, medians)
        print(f"  of the second start in the plugin: {own} ms, {own / medians['plain']['create_ms']:.3f} of plain", flush=True)


def contention(arguments, name, model):
    """Ours with each way to wait and to divide the processors; "plain" is ONNX Runtime alone."""
    flags = ["--count", 2, "--rounds", arguments.runs]
    passive = {"OMP_WAIT_POLICY": "passive"}
    quiet = ["--config", "session.intra_op.allow_spinning=0"]
    share = ["--ep", "threads=1"]
    ways = {
        "plain": ({}, ["--plain"]),
        "plain, no spinning": ({}, ["--plain", *quiet]),
        "openmp": ({}, []),
        "openmp, passive": (passive, []),
        "openmp, no spinning": ({}, quiet),
        "openmp, passive, no spinning": (passive, quiet),
        "openmp, threads=1": ({}, share),
        "session": ({}, ["--ep", "workers=session"]),
        "session, no spinning": ({}, ["--ep", "workers=session", *quiet]),
        "session, threads=1": ({}, ["--ep", "workers=session", *share]),
    }
    report(name, interleaved(arguments, ways, lambda way: host(arguments, "latency", model, *flags, *way[1], **way[0])))


def sessions(arguments, name, model):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.environ["CTXGEN_BIN"], "compile", "-q", model, "-o", f"{folder}/m_ctx.onnx"], check=True)
        context, few = f"{folder}/m_ctx.onnx", max(arguments.count // 10, 1)
        for way, given, count, flags in (
            ("context model", context, arguments.count, []),
            ("context model, ep.share_ep_contexts", context, arguments.count, ["--config", "ep.share_ep_contexts=1"]),
            ("ordinary", model, few, []),
            ("ONNX Runtime alone", model, few, ["--plain"]),
        ):
            print(f"{name}  {way:<36}", json.dumps(host(arguments, "sessions", given, "--count", count, *flags)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["create", "contention", "sessions"])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--library", type=pathlib.Path, help="ONNX Runtime; default: the newest that was fetched")
    parser.add_argument("--threads", type=int, default=1, help="of a session (default 1)")
    parser.add_argument("--cpus", default="", metavar="LIST", help="processors, as of taskset: 0,1")
    parser.add_argument("--quota", type=float, default=0, metavar="N", help="a control group that gives N processors' time (as root)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each way (default 5)")
    parser.add_argument("--runs", type=int, default=10, help="runs in each process (default 10)")
    parser.add_argument("--count", type=int, default=500, help="sessions (default 500)")
    parser.add_argument("--fill", type=int, default=0, help="of all inputs that are not floats (default 0)")
    parser.add_argument("--ep", action="append", default=[], metavar="KEY=VALUE", help="an option of the EP")
    arguments = parser.parse_args()
    arguments.library = arguments.library or fetch_ort.newest()
    for name in arguments.models:
        model = pathlib.Path(name) if pathlib.Path(name).exists() else contestants.Model.read(make.ensure(name)).path
        {"create": create, "contention": contention, "sessions": sessions}[arguments.what](arguments, name, model)


if __name__ == "__main__":
    main()
