#!/usr/bin/env python3
"""Drives a fuzz target, or all: seeds, libFuzzer on several cores, what it found. Started by ./dev fuzz.

The corpus is kept in CTXGEN_BUILD/fuzz/corpus/TARGET, findings in CTXGEN_BUILD/fuzz/findings/TARGET. Exit status: 0 if the time
passed without a finding, 1 with one, 2 for wrong arguments.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Longest input in bytes; more is slow and shows nothing new.
MAX_LEN = {"kernels": 8192, "onnx_import": 8192, "onnx_lite": 8192, "program": 8192, "context_bin": 16384, "merged_bin": 32768,
           "tensor_files": 1024, "options": 512, "external_data": 512, "signature": 4096, "tuning_file": 4096}
TIMEOUT = 25  # seconds for one input: more is a finding
RSS_LIMIT_MB = 3000

# bounded_memory.cpp replaces operator new, libraries free what it gave with the sanitizer's: hence no mismatches.
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_container_overflow=0:detect_stack_use_after_return=0:alloc_dealloc_mismatch=0:quarantine_size_mb=64",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "OMP_NUM_THREADS": "1",
}


def targets():
    return sorted(MAX_LEN)


class Job:
    """One libFuzzer process; its output goes to a file."""

    def __init__(self, number, command, folder):
        self.log = folder / f"fuzz-{number}.log"
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                        env={**os.environ, **ENVIRONMENT})

    def executions(self):
        done = re.findall(r"^stat::number_of_executed_units:\s*(\d+)", self.text(), re.M) or re.findall(r"^#(\d+)", self.text(), re.M)
        return int(done[-1]) if done else 0

    def coverage(self):
        seen = re.findall(r"cov: (\d+)", self.text())
        return int(seen[-1]) if seen else 0

    def text(self):
        return self.log.read_text(errors="replace")


def make_seeds(target, corpus):
    """Once per corpus folder: they take a while."""
    folder = corpus.parent.parent / "seeds" / target
    if not folder.exists() or not any(folder.iterdir()):
        import seeds

        print(f"fuzz: making seeds for {target}", flush=True)
        seeds.make(target, folder, os.environ.get("CTXGEN_BIN"))
    return folder


class Run:
    """One target on some processes, until the time is over or one of them has a finding."""

    def __init__(self, target, seconds, jobs, folder):
        corpus, findings, logs = (folder / kind / target for kind in ("corpus", "findings", "logs"))
        for path in (corpus, findings, logs):
            path.mkdir(parents=True, exist_ok=True)
        command = [folder / f"fuzz_{target}", corpus, make_seeds(target, corpus), HERE / "corpus" / target, f"-max_total_time={seconds}",
                   f"-max_len={MAX_LEN[target]}", f"-timeout={TIMEOUT}", f"-rss_limit_mb={RSS_LIMIT_MB}", f"-artifact_prefix={findings}/",
                   "-print_final_stats=1", "-reload=10", "-use_value_profile=1"]
        self.target, self.started, self.bad = target, time.monotonic(), None
        self.jobs = [Job(number, command, logs) for number in range(jobs)]

    def is_over(self):
        self.bad = next((job for job in self.jobs if job.process.poll() not in (None, 0)), None)
        return self.bad is not None or all(job.process.poll() == 0 for job in self.jobs)

    def stop(self):
        for job in self.jobs:
            if job.process.poll() is None:
                job.process.terminate()
        for job in self.jobs:
            job.process.wait()

    def report(self):
        """Prints what came of it; whether there was a finding."""
        self.stop()
        seconds, done = time.monotonic() - self.started, sum(job.executions() for job in self.jobs)
        if self.bad:
            report_finding(self.target, self.bad)
        print(f"fuzz: {self.target}: {done} executions in {seconds:.0f} s, {done / seconds:.0f} per second on {len(self.jobs)} "
              f"process{'es' if len(self.jobs) > 1 else ''}, coverage {max(job.coverage() for job in self.jobs)}, "
              f"{'1 finding' if self.bad else 'no finding'}", flush=True)
        return self.bad is not None


def drive(waiting, at_once, make):
    """Runs the targets, `at_once` of them side by side; 1 if one of them had a finding."""
    running, findings = [], 0
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(make(waiting.pop(0)))
            for run in [run for run in running if run.is_over()]:
                running.remove(run)
                findings += run.report()
            time.sleep(0.2)
    except KeyboardInterrupt:
        for run in running:
            run.stop()
        return 130
    return int(findings > 0)


def with_names(text):
    """Stack frames with function and line: Debian's clang comes without its symbolizer."""
    frames = re.findall(r"\((/\S+/fuzz_\w+)\+(0x[0-9a-f]+)\)", text)[:64]
    if not frames:
        return text
    command = ["addr2line", "-C", "-f", "-p", "-s", "-e", frames[0][0], *(offset for _, offset in frames)]
    names = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    for (program, offset), name in zip(frames, names):
        text = re.sub(re.escape(f"({program}+{offset})") + r"( \(BuildId: \w+\))?", name[:200], text, count=1)
    return text


def report_finding(target, job):
    text = job.text()
    at = re.search(r"/c\+\+/\d+/.*Assertion|^==\d+== ?ERROR|^fuzz: broken|runtime error:|^terminate called", text, re.M)
    begin = at.start() if at else max(0, len(text) - 4000)
    print(with_names(text[text.rfind("\n", 0, begin) + 1 :][:8000]))
    print(f"fuzz: {target}: a finding; the whole log is {job.log}")
    found = re.findall(r"Test unit written to (\S+)", text)
    if found:
        print(f"fuzz: again with: ./dev fuzz {target} --replay {found[-1]}")
        print(f"fuzz: once it is fixed, put the file into tests/fuzz/corpus/{target}")


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", choices=[*targets(), "all"])
    parser.add_argument("seconds", nargs="?", type=int, default=60, help="default 60")
    parser.add_argument("-j", dest="jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes, or targets side by side if they are all (default: one per core)")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument("--replay", metavar="FILE", nargs="+", help="run the target on these inputs only")
    options = parser.parse_args()
    if options.list:
        print("\n".join(targets()))
        return 0
    if not options.target or options.seconds < 1 or options.jobs < 1:
        parser.error("needs a TARGET (--list) and at least one second and process")
    folder = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "fuzz"
    if options.replay:
        if options.target == "all":
            parser.error("--replay needs one target")
        done = subprocess.run([folder / f"fuzz_{options.target}", *options.replay], env={**os.environ, **ENVIRONMENT}, check=False,
                              stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
        print(with_names(done.stdout.decode(errors="replace")), end="")
        return int(done.returncode != 0)
    if options.target == "all":
        return drive(targets(), options.jobs, lambda target: Run(target, options.seconds, 1, folder))
    return drive([options.target], 1, lambda target: Run(target, options.seconds, options.jobs, folder))


if __name__ == "__main__":
    sys.exit(main())
