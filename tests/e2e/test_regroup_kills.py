"""A killed merge leaves a whole set, old or new, or models that are refused; the next one repairs it. So for one that runs out of disk."""

import os
import random
import signal
import subprocess
import time

import pytest
from cli_support import conv_model, done, into, save, temporaries
from fault_support import outputs_of, run_faulty

KILLS = int(os.environ.get("CTXGEN_KILLS", "30"))  # random moments
NAMES = ("a", "b")


class Merge:
    """Old and new versions of two models, merged in `out` one over the other."""

    def __init__(self, tmp_path):
        self.root, self.out, self.scratch = tmp_path, tmp_path / "out", tmp_path / "scratch"
        self.scratch.mkdir()
        self.states, self.expected = {}, {}
        for version, seed in (("old", 0), ("new", 10)):
            for index, name in enumerate(NAMES):
                save(conv_model(seed=seed + index), tmp_path / version / f"{name}.onnx")
                done("compile", tmp_path / version / f"{name}.onnx", "-o", into(tmp_path / version / f"{name}_alone"))
            done(*self.command(version))
            self.states[version] = self.files()
            self.expected[version] = [outputs_of(self.out / f"{name}_ctx.onnx", self.scratch) for name in NAMES]
        assert self.states["old"].keys() == self.states["new"].keys() == {"a_ctx.onnx", "b_ctx.onnx", "a_dnnl.bin"}

    def command(self, version):
        return ["merge", *(self.root / version / f"{name}_alone" / f"{name}_ctx.onnx" for name in NAMES), "-o", self.out]

    def files(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir() if path.suffix != ".tmp"}

    def start_from(self, version):
        for path in self.out.iterdir():
            path.unlink()
        for name, data in (self.states[version] if version else {}).items():
            (self.out / name).write_bytes(data)

    def check_whole(self):
        states = []
        for index, name in enumerate(NAMES):
            context = self.out / f"{name}_ctx.onnx"
            found = outputs_of(context, self.scratch) if context.exists() else "absent"
            known = {self.expected["old"][index]: "old", self.expected["new"][index]: "new", None: "refused", "absent": "absent"}
            assert found in known, "wrong outputs"
            states.append(known[found])
        return states

    def check_repaired(self):
        done(*self.command("new"))
        assert temporaries(self.out) == []
        assert self.files() == self.states["new"]


@pytest.fixture
def work(tmp_path):
    return Merge(tmp_path)


def calls(work):
    """How often a merge makes system calls on files of the folder."""
    work.start_from("old")
    count = work.scratch / "count"
    assert run_faulty(work.out, *work.command("new"), FAULT_COUNT=str(count)).returncode == 0
    return sum(int(line.split()[1]) for line in count.read_text().splitlines())


def test_killed_at_every_system_call(work):
    seen = set()
    for number in range(1, calls(work) + 1):
        work.start_from("old")
        finished = run_faulty(work.out, *work.command("new"), FAULT=f"*:{number}:KILL")
        assert finished.returncode == -signal.SIGKILL, number
        seen.update(work.check_whole())
        work.check_repaired()
    assert {"old", "new"} <= seen


def test_killed_at_random_moments(work):
    generator = random.Random(2026)
    seen = set()
    started = time.monotonic()
    done(*work.command("new"))
    duration = time.monotonic() - started
    for number in range(KILLS):
        work.start_from("old" if number % 2 else None)
        process = subprocess.Popen([os.environ["CTXGEN_BIN"], *map(str, work.command("new"))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0, duration * 1.1))
        process.kill()
        process.wait()
        seen.update(work.check_whole())
    work.check_repaired()
    assert seen & {"old", "absent"} and "new" in seen


@pytest.mark.parametrize("call", ["write", "rename", "fsync"])
def test_a_failed_system_call_leaves_the_old_set(work, call):
    work.start_from("old")
    finished = run_faulty(work.out, *work.command("new"), FAULT=f"{call}:1:ENOSPC")
    assert finished.returncode == 3, finished.stderr
    assert "IO_ERROR" in finished.stderr
    assert work.files() == work.states["old"]
    assert temporaries(work.out) == []
    work.check_repaired()
