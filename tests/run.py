#!/usr/bin/env python3
"""Runs every test of a build folder, several at a time, and ends with `N passed, N failed, N skipped`.

A unit is one GoogleTest program (tests/list.txt of the build folder: name|program[|seconds]) or one tests/**/test_*.py. Each runs
in a process group of its own with a time limit and a temporary folder that is removed afterwards. Tests find what they need in
the environment: CTXGEN_BIN (the ctxgen program), CTXGEN_BUILD (the build folder), CTXGEN_SOURCE (the project), CTXGEN_MODELS
(trained models; tests that need it skip when it is unset). Exit status: 0 if none failed and at least one passed.

--isa NAME makes a smaller machine of this one: ONEDNN_MAX_CPU_ISA in the environment of the tests limits oneDNN and ctxgen's own code
alike (lib/base/include/ctxgen/base/instruction_set.h). ONNX Runtime knows no such limit: it uses what the processor has.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed

TESTS = pathlib.Path(__file__).resolve().parent
SANITIZER_FACTOR = 5  # how much longer a unit may take with a sanitizer

# What a unit finds unless the caller has set it.
DEFAULTS = {
    # Two units share the cores: a spinning OpenMP team would take them from the other unit.
    "OMP_WAIT_POLICY": "passive",
    # Containers filled inside libraries that are not instrumented look overflowed; leaks and real overflows are still found.
    "ASAN_OPTIONS": "detect_container_overflow=0:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # libgomp and oneDNN are not instrumented: what they synchronise cannot be seen.
    "TSAN_OPTIONS": f"ignore_noninstrumented_modules=1:suppressions={TESTS / 'tsan.supp'}",
}

# Units whose outcome the instruction set decides: operators, exec, quantisation. --again-isa runs them a second time.
BY_ISA = ("base_test", "cpu_test", "dnnl_light_models_test", "dnnl_ops_test", "onednn_compile_test", "onednn_exec_test",
          "e2e/test_operators.py", "e2e/test_targets.py", "e2e/test_shared_models.py")  # fmt: skip

# Python programs into which they load our libraries: with the address sanitizer its run-time library has to be there first.
HOSTS = ("e2e/test_plugin.py",)


def host_environment() -> dict[str, str]:
    """What lets a Python load a library with the address sanitizer. Leaks are not looked for: Python leaks."""
    finds = [["gcc", f"-print-file-name={name}"] for name in ("libasan.so", "libstdc++.so")]
    names = [subprocess.run(find, capture_output=True, text=True, check=True).stdout.strip() for find in finds]
    options = os.environ.get("ASAN_OPTIONS", DEFAULTS["ASAN_OPTIONS"])
    return {"LD_PRELOAD": " ".join(names), "ASAN_OPTIONS": f"{options}:detect_leaks=0"}


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failures: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # test, everything it said
    skips: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # test, reason

    def counts(self) -> str:
        return f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped"


@dataclasses.dataclass
class Finished:
    output: str
    status: int  # as Popen.returncode: negative for a signal
    timed_out: bool

    def end(self, limit: float) -> str:
        if self.timed_out:
            return f"stopped at its time limit of {limit:.0f} s"
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        return f"exited with status {self.status}"


@dataclasses.dataclass
class Unit:
    name: str
    path: pathlib.Path
    limit: float
    isa: str = ""  # its own limit; "": that of all

    def label(self) -> str:
        return f"{self.name} [{self.isa}]" if self.isa else self.name

    def command(self, _options, _report) -> list[str]:
        raise NotImplementedError

    def listing(self) -> list[str]:
        raise NotImplementedError

    def outcome(self, finished: Finished, report: pathlib.Path) -> Outcome:
        raise NotImplementedError


class GoogleTest(Unit):
    def command(self, options, report):
        command = [str(self.path), f"--gtest_output=json:{report}", "--gtest_color=no"]
        if options.k and options.k not in self.name:
            command.append("--gtest_filter=" + (options.k if re.search(r"[*?:]", options.k) else f"*{options.k}*"))
        return command

    def listing(self):
        lines = subprocess.run([self.path, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
        names, suite = [], ""
        for line in lines.splitlines():
            name = line.split("#")[0].rstrip()
            if name.startswith("  "):
                names.append(suite + name.strip())
            elif name.endswith("."):
                suite = name
        return names

    def outcome(self, finished, report):
        try:
            suites = json.loads(report.read_text())["testsuites"]
        except (OSError, ValueError, KeyError):
            return self._unfinished(finished)
        outcome = Outcome()
        for suite in suites:
            for test in suite["testsuite"]:
                name = f"{suite['name']}.{test['name']}"
                if "failures" in test:
                    said = self._said(finished.output, name) or "\n".join(f["failure"] for f in test["failures"])
                    outcome.failures.append((name, said))
                elif test["result"] == "SKIPPED":
                    reasons = [s["message"].split("\n", 1)[-1].strip() for s in test.get("skipped", [])]
                    outcome.skips.append((name, "; ".join(filter(None, reasons)) or "no reason given"))
                elif test["result"] == "COMPLETED":
                    outcome.passed += 1
                elif "DISABLED_" in name:
                    outcome.skips.append((name, "disabled"))
        if finished.status != 0 and not outcome.failures:
            outcome.failures.append(("after the last test", f"{finished.output}\n{self.name} {finished.end(self.limit)}"))
        return outcome

    def _unfinished(self, finished):
        """Crashed or stopped: what the output tells."""
        outcome = Outcome(passed=len(re.findall(r"^\[       OK \] ", finished.output, re.M)))
        for name in re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", finished.output, re.M):
            outcome.failures.append((name, self._said(finished.output, name)))
        begun = re.findall(r"^\[ RUN      \] (.*)$", finished.output, re.M)
        ended = set(re.findall(r"^\[ (?: FAILED |      OK|SKIPPED ) ?\] ([^\s,]+)", finished.output, re.M))
        running = begun[-1] if begun and begun[-1] not in ended else ""
        said = self._said(finished.output, running) if running else finished.output
        outcome.failures.append((running or "outside of the tests", f"{said}\n{self.name} {finished.end(self.limit)}"))
        return outcome

    @staticmethod
    def _said(output, name):
        start = output.find(f"[ RUN      ] {name}\n")
        if start < 0:
            return ""
        end = re.compile(r"^\[  FAILED  \] .*\n", re.M).search(output, start)
        return output[start : end.end() if end else len(output)]


class Pytest(Unit):
    def command(self, options, report):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "--tb=short", f"--rootdir={TESTS}"]
        command += [f"--junitxml={report}", "-o", "junit_logging=all", "-o", "junit_family=xunit2", str(self.path)]
        if options.k and options.k not in self.name:
            command += ["-k", options.k]
        return command

    def listing(self):
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", str(self.path)]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        return [line.split("::", 1)[1] for line in lines if "::" in line]

    def outcome(self, finished, report):
        outcome = Outcome()
        try:
            cases = ElementTree.parse(report).iter("testcase")
        except (OSError, ElementTree.ParseError):
            outcome.failures.append(("the whole file", f"{finished.output}\npytest {finished.end(self.limit)}"))
            return outcome
        for case in cases:
            name = case.get("name", "")
            bad = [e for e in case if e.tag in ("failure", "error")]
            skipped = case.find("skipped")
            if bad:
                said = [e.text or e.get("message", "") for e in bad]
                for part in (e.text or "" for e in case if e.tag in ("system-out", "system-err")):
                    said.append(re.sub(r"^-+ Captured \w+ -+\n\s*(?=^-+ Captured|\Z)", "", part, flags=re.M).strip())
                outcome.failures.append((name, "\n".join(filter(None, said))))
            elif skipped is not None:
                expected = "expected to fail: " if skipped.get("type") == "pytest.xfail" else ""
                outcome.skips.append((name, expected + (skipped.get("message") or "no reason given")))
            else:
                outcome.passed += 1
        if finished.status not in (0, 1, 5) or (finished.status == 1 and not outcome.failures):  # 5: no tests
            outcome.failures.append(("the whole file", f"{finished.output}\npytest {finished.end(self.limit)}"))
        return outcome


class Runner:
    """Starts units, keeps their processes to end them all at once."""

    def __init__(self, options, results: pathlib.Path, scratch: pathlib.Path):
        self.options, self.results, self.scratch = options, results, scratch
        self.stopping = False
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()

    def run(self, unit: Unit) -> tuple[Outcome, float]:
        started = time.monotonic()
        report = self.results / f"{unit.label().replace('/', '.').replace(' ', '')}.{'json' if isinstance(unit, GoogleTest) else 'xml'}"
        report.unlink(missing_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        environment = {**DEFAULTS, **os.environ, "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = str(TESTS)
        if unit.isa:
            environment["ONEDNN_MAX_CPU_ISA"] = unit.isa
        if unit.name in HOSTS and os.environ.get("CTXGEN_PRESET") == "asan":
            environment |= host_environment()
        try:
            finished = self._process(unit.command(self.options, report), environment, unit.limit)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return unit.outcome(finished, report), time.monotonic() - started

    def _process(self, command, environment, limit) -> Finished:
        with tempfile.TemporaryFile(dir=self.scratch) as captured:
            with self._lock:
                if self.stopping:
                    return Finished("", -signal.SIGINT, False)
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=captured, stderr=subprocess.STDOUT, env=environment, start_new_session=True
                )
                self._running.add(process)
            timed_out = False
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                timed_out = True
            self._end(process)
            with self._lock:
                self._running.discard(process)
            captured.seek(0)
            return Finished(captured.read().decode(errors="replace"), process.returncode, timed_out)

    @staticmethod
    def _end(process):
        """Ends what is left of the process group, and reaps its leader."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def stop(self):
        with self._lock:
            self.stopping = True
            for process in self._running:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


def find_units(build: pathlib.Path, limit: float) -> list[Unit]:
    units: list[Unit] = []
    listed = build / "tests" / "list.txt"
    for line in listed.read_text().splitlines() if listed.exists() else []:
        name, path, *own = line.split("|")
        units.append(GoogleTest(name, pathlib.Path(path), float(own[0]) if own else limit))
    for path in sorted(TESTS.glob("**/test_*.py")):
        units.append(Pytest(str(path.relative_to(TESTS)), path, 2 * limit))
    factor = SANITIZER_FACTOR if os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz") else 1
    return [dataclasses.replace(unit, limit=unit.limit * factor) for unit in units]


def instruction_sets(build: pathlib.Path) -> tuple[str, dict[str, bool]]:
    """The machine's, and all that oneDNN names with whether the machine has them."""
    program = os.environ.get("CTXGEN_BIN", build / "bin" / "ctxgen")
    said = subprocess.run([program, "providers", "--json"], capture_output=True, text=True, check=True).stdout
    (dnnl,) = (one for one in json.loads(said)["providers"] if one["name"] == "dnnl")
    return dnnl["isa"], {one["name"]: one["usable"] for one in dnnl["instruction_sets"]}


def limit_error(name: str, here: str, known: dict[str, bool]) -> str | None:
    """Why tests cannot be limited to `name`."""
    if name not in known:
        return f'unknown instruction set "{name}", expected one of {", ".join(known)}'
    if list(known).index(name) < list(known).index("avx2"):
        return f'the tests need "avx2", which is beyond "{name}"'
    if not known[name]:
        return f'this machine lacks "{name}": it has "{here}" and what that includes ({", ".join(one for one, has in known.items() if has)})'
    return None


def units_again(units: list[Unit], name: str, here: str, known: dict[str, bool]) -> tuple[list[Unit], str]:
    """Those of BY_ISA limited to `name`, or none and why."""
    if name == here:
        return [], f"this machine has nothing above {name}: the tests ran with it"
    if error := limit_error(name, here, known):
        return [], error
    return [dataclasses.replace(unit, isa=name) for unit in units if unit.name in BY_ISA], ""


def show(total: Outcome):
    for name, said in total.failures:
        print(f"\n======== FAILED {name}\n{said.rstrip()}")
    reasons: dict[str, list[str]] = {}
    for name, reason in total.skips:
        reasons.setdefault(reason, []).append(name)
    if reasons:
        print("\nskipped:")
    for reason, names in sorted(reasons.items()):
        print(f"  {reason}: {', '.join(names)}")
    print(f"\n{total.counts()}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test", description="Builds and runs the tests (--preset PRESET for another build).")
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("-k", metavar="PATTERN", help="only units whose name, or tests whose name, contains PATTERN (wildcards as in --gtest_filter, and/or/not as in pytest -k)")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="units at a time (default 2)")
    parser.add_argument("--list", action="store_true", help="list the tests, run nothing")
    parser.add_argument("--isa", metavar="NAME", help="limit oneDNN and ctxgen's own code to an instruction set that this machine has (avx2, avx512_core_vnni, ...: see ctxgen providers); ONNX Runtime uses all the same what the processor has")
    parser.add_argument("--again-isa", metavar="NAME", help="run the units of operators, exec and quantisation a second time, limited to NAME; where the machine has no more than that this is said and skipped")
    parser.add_argument("--time-limit", type=float, default=600, metavar="SECONDS", help="per test program; twice that per Python file (default 600)")
    options = parser.parse_args()

    units, total = find_units(options.build, options.time_limit), Outcome()
    if options.isa:
        if error := limit_error(options.isa, *instruction_sets(options.build)):
            parser.error(error)
        os.environ["ONEDNN_MAX_CPU_ISA"] = options.isa
    if options.again_isa:
        here, known = instruction_sets(options.build)
        if options.again_isa not in known:
            parser.error(limit_error(options.again_isa, here, known))
        more, reason = units_again(units, options.again_isa, here, known)
        units += more
        if reason:
            print(f"no second run with {options.again_isa}: {reason}", flush=True)
            total.skips.append((f"second run with {options.again_isa}", reason))
    if options.list:
        for unit in units:
            for test in unit.listing():
                print(f"{unit.label()}: {test}")
        return 0

    results = options.build / "tests" / "results"
    results.mkdir(parents=True, exist_ok=True)
    durations_file = results / "durations.json"
    try:
        durations = json.loads(durations_file.read_text())
    except (OSError, ValueError):
        durations = {}
    units.sort(key=lambda unit: -durations.get(unit.label(), 1e6))  # the longest first, so that none runs alone at the end

    done = 0
    with tempfile.TemporaryDirectory(prefix="ctxgen-tests-") as scratch:
        runner = Runner(options, results, pathlib.Path(scratch))
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with ThreadPoolExecutor(options.j) as pool:
            futures = {pool.submit(runner.run, unit): unit for unit in units}
            try:
                for future in as_completed(futures):
                    unit, (outcome, seconds) = futures[future], future.result()
                    durations[unit.label()] = round(seconds, 2)
                    done += 1
                    total.passed += outcome.passed
                    total.failures += [(f"{unit.label()}: {name}", said) for name, said in outcome.failures]
                    total.skips += [(f"{unit.label()}: {name}", reason) for name, reason in outcome.skips]
                    mark = "FAILED" if outcome.failures else "ok    "
                    if outcome.passed or outcome.failures or outcome.skips:
                        print(f"[{done:3}/{len(units)}] {mark} {unit.label()}: {outcome.counts()}, {seconds:.1f} s", flush=True)
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
                runner.stop()
                pool.shutdown(cancel_futures=True)
                print("interrupted", file=sys.stderr)
                return 130
    if not options.k and not options.isa:
        durations_file.write_text(json.dumps(durations, indent=1))
    show(total)
    return 0 if total.passed and not total.failures else 1


if __name__ == "__main__":
    sys.exit(main())
