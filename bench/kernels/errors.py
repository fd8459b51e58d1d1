#!/usr/bin/env python3
"""Writes docs/kernels.md: worst errors of own kernels against double precision, and their times next to oneDNN's.

    ./dev build dev kernels_test && ./dev build release kernels_bench
    ./dev env python3 bench/kernels/errors.py --machine "a Xeon with AMX" [--isa AVX2,AVX512_CORE] [--rounds 3]

Errors are what kernels_test records of its tests; times are least ones of kernels_bench, one thread, instruction sets in turn."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = ROOT / "docs" / "kernels.md"
UNITS = {"ulp": "ulp", "layer_norm_ulp": "ulp", "rms_norm_ulp": "ulp", "ulp_of_terms": "ulp of terms", "units": "2^-24 of the deviation"}
ABSOLUTE_FROM = 100  # ulp: where a function is near 0, its header bounds the absolute error
HEAD = """# Own kernels: errors and times

Written by `bench/kernels/errors.py` (its docstring has the commands) on {machine}. `kernels_test` bounds these errors and those at NaN and infinity on each run, for whichever instruction set it runs with (`./dev test --isa`).

- [Worst errors against double precision](#worst-errors-against-double-precision)
- [Times next to oneDNN's](#times-next-to-onednns)

## Worst errors against double precision

*ulp*: units in the last place of the exact result, over floats of all magnitudes where the function is defined. *ulp of terms*: units in the last place of the sum of the absolute values of what is added up; a softmax's and an attention's
grow by what a rounded exponent is worth. Results of products do not depend on the instruction set.

{errors}

## Times next to oneDNN's

One thread, tensors in cache where they fit, least time of {rounds} in microseconds, and own / oneDNN.

{times}
"""


def run(program, isa, *arguments):
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"errors: {program} failed with {isa}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def errors_of(program, isa):
    """{(kernel, test, unit): worst} of one instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "tests.json"
        run(program, isa, f"--gtest_output=json:{result}")
        suites = json.loads(result.read_text())["testsuites"]
    found = {}
    for suite in suites:
        for test in suite["testsuite"]:
            for name, unit in UNITS.items():
                if name not in test:
                    continue
                worst = float(test[name])
                if "absolute" in test and worst > ABSOLUTE_FROM:
                    worst, unit = float(test["absolute"].removesuffix("e-9")) * 1e-9, "absolute"
                what = name.removesuffix("_ulp") if name.endswith("norm_ulp") else test["name"].removeprefix("AreAsExactAsTheirHeaderSays/")
                found[suite["name"].split("/")[-1], what, unit] = worst
    return found


def times_of(program, isa):
    """{benchmark: microseconds} of one instruction set."""
    text = run(program, isa, "--benchmark_format=json", "--benchmark_min_time=0.02s")
    return {entry["name"]: entry["real_time"] / 1e3 for entry in json.loads(text)["benchmarks"]}


def row(cells):
    return "| " + " | ".join(cells) + " |"


def error_table(by_isa):
    isas = list(by_isa)
    lines = [row(["Kernel", "Test", *isas, "in"]), row(["---", "---", *["---:"] * len(isas), "---"])]
    for key in {key: None for errors in by_isa.values() for key in errors}:
        cells = [f"{by_isa[isa][key]:.2g}" if key in by_isa[isa] else "" for isa in isas]
        lines.append(row([key[0], key[1], *cells, key[2]]))
    return "\n".join(lines)


def time_table(by_isa):
    isas = list(by_isa)
    lines = [row(["Kernel", *(f"{isa}: {side}" for isa in isas for side in ("own", "oneDNN", "ratio"))]), row(["---", *["---:"] * (3 * len(isas))])]
    names = [name for name in by_isa[isas[0]] if re.search("own", name)]
    for name in names:
        cells = []
        for isa in isas:
            own, other = by_isa[isa].get(name), by_isa[isa].get(name.replace("own", "onednn"))
            cells += [f"{own:.2f}" if own else "", f"{other:.2f}" if other else "", f"{own / other:.2f}" if own and other else ""]
        lines.append(row([name.replace("/own", "").replace("_own", ""), *cells]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default="AVX2,AVX512_CORE", metavar="A,B", help="oneDNN's names of instruction sets (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of times (default: %(default)s)")
    parser.add_argument("--machine", required=True, help="what the page calls this machine")
    parser.add_argument("--tests", default=ROOT / "build/dev/tests/kernels_test", type=pathlib.Path)
    parser.add_argument("--bench", default=ROOT / "build/release/bench/kernels_bench", type=pathlib.Path)
    options = parser.parse_args()
    isas = options.isa.split(",")
    errors = {isa: errors_of(options.tests, isa) for isa in isas}
    times = {isa: {} for isa in isas}
    for _ in range(options.rounds):
        for isa in isas:
            for name, time in times_of(options.bench, isa).items():
                times[isa][name] = min(time, times[isa].get(name, time))
    DOC.write_text(HEAD.format(machine=options.machine, rounds=f"{options.rounds} round{'s' if options.rounds > 1 else ''}", errors=error_table(errors), times=time_table(times)))
    print(f"errors: wrote {DOC}")


if __name__ == "__main__":
    main()
