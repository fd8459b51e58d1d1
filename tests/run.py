#!/usr/bin/env python3
"""Runs ctest over a build folder and counts single tests: ends with `N passed, N failed, N skipped`.

What ctest lacks: one count over GoogleTest and pytest, from the XML that both write; -k for the names of tests of both; limits of the
instruction set; the reasons of what was skipped. All else (what is run, time limits, environment) is CMake's (cmake/CtxgenTests.cmake).
Exit status: 0 if none failed and at least one passed.

--isa NAME makes a smaller machine of this one: ONEDNN_MAX_CPU_ISA in the environment of the tests limits oneDNN and ctxgen's own code
alike (lib/base/include/ctxgen/base/instruction_set.h). ONNX Runtime knows no such limit: it uses what the processor has.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

TESTS = pathlib.Path(__file__).resolve().parent
BY_ISA = "by_isa"  # the label of the units that --again-isa runs a second time


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failures: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # test, what it said
    skips: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # test, reason

    def add(self, other: "Outcome", unit: str):
        self.passed += other.passed
        self.failures += [(f"{unit}: {name}", said) for name, said in other.failures]
        self.skips += [(f"{unit}: {name}", reason) for name, reason in other.skips]

    def counts(self) -> str:
        return f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped"


@dataclasses.dataclass
class Pass:
    """One run of ctest."""

    select: list[str] = dataclasses.field(default_factory=list)  # ctest's options
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    label: str = ""  # " [avx2]", behind the names of units


# ---- what ctest knows ------------------------------------------------------------------------------------------------------------


def units_of(build: pathlib.Path) -> dict[str, list[str]]:
    """Name of each unit, a GoogleTest program or a Python file, with its command."""
    command = ["ctest", "--test-dir", build, "--show-only=json-v1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {test["name"]: test["command"] for test in json.loads(said)["tests"] if "command" in test}


def is_python(name: str) -> bool:
    return name.endswith(".py")


def report_of(build: pathlib.Path, unit: str) -> pathlib.Path:
    """Where the unit writes its XML (CtxgenTests.cmake)."""
    return build / "tests" / "results" / f"{unit.replace('/', '.')}.xml"


def exactly(names: list[str]) -> str:
    return "^(" + "|".join(re.escape(name) for name in names) + ")$"


# ---- instruction sets --------------------------------------------------------------------------------------------------------------


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


def again(name: str, here: str, known: dict[str, bool]) -> tuple[Pass | None, str]:
    """The second run, limited to `name`, or why there is none."""
    if name == here:
        return None, f"this machine has nothing above {name}: the tests ran with it"
    if error := limit_error(name, here, known):
        return None, error
    return Pass(["-L", f"^{BY_ISA}$"], {"ONEDNN_MAX_CPU_ISA": name}, f" [{name}]"), ""


# ---- running ---------------------------------------------------------------------------------------------------------------------


def filtered(one: Pass, pattern: str | None, names: list[str]) -> list[Pass]:
    """-k: units whose name contains the pattern run whole, of the others the tests whose name does."""
    if not pattern:
        return [one]
    whole = [name for name in names if pattern in name]
    google = pattern if re.search(r"[*?:]", pattern) else f"*{pattern}*"
    environment = one.environment | {"GTEST_FILTER": google, "PYTEST_ADDOPTS": f"-k '{pattern}'"}
    parts = [dataclasses.replace(one, select=[*one.select, "-R", exactly(whole)])] if whole else []
    return [*parts, dataclasses.replace(one, select=[*one.select, *(["-E", exactly(whole)] if whole else [])], environment=environment)]


@contextlib.contextmanager
def alone(build: pathlib.Path):
    """One run at a time in a build folder: each removes the results of the one before it."""
    results = build / "tests" / "results"
    results.mkdir(parents=True, exist_ok=True)
    with (results / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another test run in {build}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_pass(build: pathlib.Path, one: Pass, jobs: int) -> Outcome:
    results = build / "tests" / "results"
    for old in results.glob("*.xml"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="ctxgen-tests-") as scratch:
        command = ["ctest", "--test-dir", build, "-j", str(jobs), "--no-tests=ignore", "--output-junit", results / "ctest.xml", *one.select]
        subprocess.run(command, env={**os.environ, **one.environment, "TMPDIR": scratch}, stdin=subprocess.DEVNULL, check=False)
    total = Outcome()
    for case in ElementTree.parse(results / "ctest.xml").iter("testcase"):
        name = case.get("name")
        total.add(outcome_of(case, report_of(build, name)), name + one.label)
    return total


def outcome_of(case: ElementTree.Element, report: pathlib.Path) -> Outcome:
    """Of one unit: what its own XML says, and what ctest says about its end."""
    said = case.findtext("system-out") or ""
    failure = case.find("failure")
    try:
        outcome = outcome_of_report(report, said)
    except (OSError, ElementTree.ParseError):  # it crashed, or was stopped
        outcome = Outcome(passed=len(re.findall(r"^\[       OK \] ", said, re.M)))
        if failure is None:
            outcome.failures.append(("the whole", f"{said}\nit did not run, or wrote no {report.name}"))
    if failure is not None and not outcome.failures:
        begun = re.findall(r"^\[ RUN      \] (\S+)", said, re.M)
        outcome.failures.append((begun[-1] if begun else "outside of the tests", f"{said}\nended by: {failure.get('message') or 'failure'}"))
    return outcome


def outcome_of_report(report: pathlib.Path, said: str) -> Outcome:
    """GoogleTest and pytest write nearly the same XML."""
    outcome = Outcome()
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        if report.name.removesuffix(".xml").endswith("_test"):
            name = f"{case.get('classname')}.{name}"
        bad = [element for element in case if element.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if bad:
            texts = [said_by(said, name)] if said_by(said, name) else [element.text or element.get("message", "") for element in bad]
            outcome.failures.append((name, "\n".join([*texts, *captured(case)])))
        elif skipped is not None:
            expected = "expected to fail: " if skipped.get("type") == "pytest.xfail" else ""
            reason = skipped.get("message") or "no reason given"
            outcome.skips.append((name, expected + reason.split("\n", 1)[-1].strip()))
        elif case.get("status") == "notrun":  # GoogleTest: not selected by its filter, or disabled
            if "DISABLED_" in name:
                outcome.skips.append((name, "disabled"))
        else:
            outcome.passed += 1
    return outcome


def said_by(said: str, name: str) -> str:
    """The part of a GoogleTest program's output that a test wrote."""
    start = said.find(f"[ RUN      ] {name}\n")
    end = re.compile(r"^\[  FAILED  \] .*\n", re.M).search(said, start) if start >= 0 else None
    return said[start : end.end()] if end else ""


def captured(case: ElementTree.Element) -> list[str]:
    texts = [element.text or "" for element in case if element.tag in ("system-out", "system-err")]
    return [text for text in (re.sub(r"^-+ Captured \w+ -+\n\s*(?=^-+ Captured|\Z)", "", text, flags=re.M).strip() for text in texts) if text]


# ---- the command line ------------------------------------------------------------------------------------------------------------


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


def tests_of_program(command: list[str]) -> list[str]:
    lines = subprocess.run([command[0], "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in lines.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names


def show_list(units: dict[str, list[str]]):
    for name, command in units.items():
        if not is_python(name):
            for test in tests_of_program(command):
                print(f"{name}: {test}")
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", str(TESTS)]
    for line in subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines():
        if "::" in line:
            path, test = line.split("::", 1)
            print(f"{path.removeprefix('tests/')}: {test}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test", description="Builds and runs the tests (--preset PRESET for another build).")
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("-k", metavar="PATTERN", help="only units whose name, or tests whose name, contains PATTERN (wildcards as in --gtest_filter, and/or/not as in pytest -k)")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="units at a time (default 2)")
    parser.add_argument("--list", action="store_true", help="list the tests, run nothing")
    parser.add_argument("--unit", action="append", metavar="NAME", help="build and run this unit only, a GoogleTest program or a Python file below tests/ (may be repeated)")
    parser.add_argument("--isa", metavar="NAME", help="limit oneDNN and ctxgen's own code to an instruction set that this machine has (avx2, avx512_core_vnni, ...: see ctxgen providers); ONNX Runtime uses all the same what the processor has")
    parser.add_argument("--again-isa", metavar="NAME", help="run the units of operators, exec and quantisation a second time, limited to NAME; where the machine has no more than that this is said and skipped")
    options = parser.parse_args()

    options.build = options.build.resolve()  # ctest takes paths from there
    units, passes, total = units_of(options.build), [Pass()], Outcome()
    if options.unit:
        if missing := [name for name in options.unit if name not in units]:
            parser.error(f"no unit {', '.join(missing)}; ./dev test --list shows them before the colon")
        units = {name: units[name] for name in options.unit}
        passes = [Pass(["-R", exactly(options.unit)])]
    if options.isa:
        if error := limit_error(options.isa, *instruction_sets(options.build)):
            parser.error(error)
        os.environ["ONEDNN_MAX_CPU_ISA"] = options.isa
    if options.again_isa:
        here, known = instruction_sets(options.build)
        if options.again_isa not in known:
            parser.error(limit_error(options.again_isa, here, known))
        second, reason = again(options.again_isa, here, known)
        if second:
            passes.append(second)
        else:
            print(f"no second run with {options.again_isa}: {reason}", flush=True)
            total.skips.append((f"second run with {options.again_isa}", reason))
    if options.list:
        show_list(units)
        return 0

    try:
        with alone(options.build):
            for part in [part for one in passes for part in filtered(one, options.k, list(units))]:
                outcome = run_pass(options.build, part, options.j)
                total = Outcome(total.passed + outcome.passed, total.failures + outcome.failures, total.skips + outcome.skips)
    except KeyboardInterrupt:  # ctest has ended its tests
        print("interrupted", file=sys.stderr)
        return 130
    show(total)
    return 0 if total.passed and not total.failures else 1


if __name__ == "__main__":
    sys.exit(main())
