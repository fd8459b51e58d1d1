"""tests/run.py: what it makes of --isa and --again-isa."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

BUILD, RUN = pathlib.Path(os.environ["CTXGEN_BUILD"]), pathlib.Path(os.environ["CTXGEN_SOURCE"]) / "tests" / "run.py"
spec = importlib.util.spec_from_file_location("run", RUN)
run = sys.modules["run"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

KNOWN = {"sse41": True, "avx": True, "avx2": True, "avx2_vnni": False, "avx512_core": True}


def test_a_limit_that_the_machine_has():
    assert run.limit_error("avx2", "avx512_core", KNOWN) is None
    assert run.limit_error("avx512_core", "avx512_core", KNOWN) is None


@pytest.mark.parametrize(("name", "words"), [("avx3", KNOWN), ("", KNOWN), ("avx2_vnni", ["lacks", "avx512_core"]), ("sse41", ["avx2"])])
def test_other_limits_are_errors(name, words):
    error = run.limit_error(name, "avx512_core", KNOWN)
    assert f'"{name}"' in error and all(word in error for word in words)


def test_the_second_run_takes_what_the_instruction_set_decides():
    units = run.find_units(BUILD, 600)
    again, reason = run.units_again(units, "avx2", "avx512_core", KNOWN)
    assert not reason and {unit.name for unit in again} == set(run.BY_ISA)
    assert all(unit.label() == f"{unit.name} [avx2]" for unit in again)
    assert {unit.label() for unit in units}.isdisjoint(unit.label() for unit in again)


@pytest.mark.parametrize(("name", "here"), [("avx2", "avx2"), ("avx2_vnni", "avx2")])
def test_without_anything_above_there_is_none_and_a_reason(name, here):
    again, reason = run.units_again(run.find_units(BUILD, 600), name, here, KNOWN)
    assert not again and name in reason


@pytest.mark.parametrize("option", ["--isa", "--again-isa"])
def test_unknown_names_end_the_run_with_the_known_ones(option):
    done = subprocess.run([sys.executable, RUN, "--build", BUILD, option, "avx3", "--list"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and '"avx3"' in done.stderr and "avx512_core_vnni" in done.stderr and not done.stdout


def test_the_limit_reaches_the_program():
    """A machine with this limit has no more, and so refuses more."""
    done = subprocess.run([sys.executable, RUN, "--build", BUILD, "--isa", "avx512_core", "--list"], env=os.environ | {"ONEDNN_MAX_CPU_ISA": "avx2"},
                          capture_output=True, text=True, check=False, timeout=60)  # fmt: skip
    assert done.returncode == 2 and "lacks" in done.stderr and "avx2" in done.stderr
