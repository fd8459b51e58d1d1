#!/usr/bin/env python3
"""./dev conformance: runs ONNX's backend tests (package libonnx-testdata) through ctxgen.

Worker processes run the cases, many each; a case that ends its worker is a crash and does not end the run. Exit status: 0 if at
least one case passed and none failed or crashed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
KINDS = ["simple", "pytorch-converted", "pytorch-operator", "node"]
OUTCOMES = ["passed", "failed", "crashed", "skipped"]


@dataclasses.dataclass
class Result:
    kind: str
    name: str
    outcome: str
    partitions: int = 0
    reason: str = ""


class Worker:
    """One process that answers a line for each folder it is given."""

    def __init__(self, command, limit):
        self.command, self.limit = command, limit
        self.process = None

    def run(self, folder):
        """outcome, partitions, reason"""
        if self.process is None:
            self.said = tempfile.TemporaryFile()
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True, errors="replace"
            )
        late = threading.Event()
        process = self.process
        timer = threading.Timer(self.limit, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            process.stdin.write(f"{folder}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if answer.endswith("\n"):
            outcome, partitions, reason = answer.rstrip("\n").split("\t", 2)
            return outcome, int(partitions), reason
        return "crashed", 0, self._end(late.is_set())

    def _end(self, late):
        """Reaps the process; how it ended."""
        status = self.process.wait()
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines()
        self.close()
        if late:
            return f"no answer within {self.limit:g} s"
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return f"{how}{': ' + lines[-1] if lines else ''}"

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.said.close()
            self.process = None


def read_known(path):
    """Cases whose stored outputs are wrong: {name: reason}."""
    known = {}
    for line in path.read_text().splitlines():
        name, _, reason = line.partition(":")
        if line and not line.startswith("#"):
            known[name.strip()] = reason.strip()
    return known


def find_cases(data, kinds, pattern):
    for kind in kinds:
        folder = data / kind
        if not folder.is_dir():
            raise SystemExit(f"conformance: no folder \"{folder}\": is libonnx-testdata installed?")
        for case in sorted(folder.iterdir()):
            if (case / "model.onnx").exists() and pattern in case.name:
                yield kind, case


def judge(kind, case, answer, known):
    outcome, partitions, reason = answer
    if case.name in known and outcome == "failed":
        outcome, reason = "skipped", f"known: {known[case.name]}"
    elif case.name in known and outcome == "passed":
        outcome, reason = "failed", "passes, but stands in the list of known cases"
    return Result(kind, case.name, outcome, partitions, reason)


def run_cases(cases, options, known):
    """Results in the order of the cases."""
    workers = queue.SimpleQueue()
    for _ in range(options.j):
        workers.put(Worker([options.worker, options.via], options.time_limit))

    def run(item):
        kind, case = item
        worker = workers.get()
        try:
            return judge(kind, case, worker.run(case), known)
        finally:
            workers.put(worker)

    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        results = list(pool.map(run, cases))
    while not workers.empty():
        workers.get().close()
    return results


def show(results, options):
    for kind in options.kind:
        mine = [result for result in results if result.kind == kind]
        for result in mine:
            if result.outcome in ("failed", "crashed") or options.v:
                print(f"{result.outcome:8} {kind}/{result.name}{': ' if result.reason else ''}{result.reason}")
        counts = collections.Counter(result.outcome for result in mine)
        compiled = sum(result.partitions > 0 for result in mine)
        text = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        print(f"{kind:17} {text}{f'; {compiled} with partitions' if options.via == 'compile' else ''}")
    reasons = collections.defaultdict(list)
    for result in results:
        if result.outcome == "skipped":
            reasons[result.reason].append(result.name)
    if reasons and not options.v:
        print("skipped (-v: each case):")
        for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
            print(f"  {len(names):4} {reason}")


def main():
    parser = argparse.ArgumentParser(prog="./dev conformance", description="Runs ONNX's backend tests through ctxgen.")
    parser.add_argument("--via", choices=["cpu", "compile"], required=True, help="cpu: the model as it stands, on the CPU kernels; compile: compiled in memory for dnnl and cpu")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind; may be repeated (default: all)")
    parser.add_argument("-k", metavar="PATTERN", default="", help="only cases whose name contains PATTERN")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write all results to FILE")
    parser.add_argument("-v", action="store_true", help="print every case and its reason")
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="worker processes (default: one per core)")
    parser.add_argument("--time-limit", type=float, default=120, metavar="SECONDS", help="per case (default 120)")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help=f"folder of the kinds (default {DATA})")
    parser.add_argument("--known", type=pathlib.Path, default=HERE / "known.txt", help=argparse.SUPPRESS)
    parser.add_argument("--worker", default=os.path.join(os.environ.get("CTXGEN_BUILD", "."), "tests", "conformance_worker"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.kind = options.kind or KINDS

    cases = list(find_cases(options.data, options.kind, options.k))
    results = run_cases(cases, options, read_known(options.known))
    show(results, options)
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(result) for result in results], indent=1) + "\n")
    outcomes = collections.Counter(result.outcome for result in results)
    return 0 if outcomes["passed"] and not outcomes["failed"] and not outcomes["crashed"] else 1


if __name__ == "__main__":
    sys.exit(main())
