"""A killed compile leaves a whole set, old or new, or one that is refused; the next compile repairs it."""

import os
import random
import signal
import subprocess
import time

import pytest
from cli_support import done
from fault_support import SETS, calls, make_work, run_faulty

KILLS = int(os.environ.get("CTXGEN_KILLS", "30"))  # random moments, in all


@pytest.fixture(params=SETS)
def work(request, tmp_path):
    return make_work(tmp_path, request.param)


def test_killed_at_every_system_call(work):
    seen = set()
    total = sum(calls(work).values())
    for number in range(1, total + 1):
        work.start_from("old")
        finished = run_faulty(work.folder, *work.command(), FAULT=f"*:{number}:KILL")
        assert finished.returncode == -signal.SIGKILL, number
        seen.update(work.check_whole())
        work.check_repaired()
    assert {"old", "new"} <= seen  # before the first rename, and after the last


def test_killed_at_random_moments(tmp_path):
    generator = random.Random(2026)
    seen = set()
    for name in SETS:
        folder = tmp_path / name
        folder.mkdir()
        work = make_work(folder, name)
        started = time.monotonic()
        work.start_from("old")
        done(*work.command())
        duration = time.monotonic() - started
        for version in ("old", None):
            work.start_from(version)
            for _ in range(KILLS // (2 * len(SETS)) + 1):
                process = subprocess.Popen([os.environ["CTXGEN_BIN"], *map(str, work.command())], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                time.sleep(generator.uniform(0, duration * 1.1))
                process.kill()
                process.wait()
                states = work.check_whole()
                seen.update(states)
                if "new" in states:
                    work.check_repaired()
                    work.start_from(version)
            work.check_repaired()
    assert {"old", "new"} <= seen
