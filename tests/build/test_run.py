"""tests/run.py: what it makes of --isa, --again-isa and -k, and how it counts."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

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
    second, reason = run.again("avx2", "avx512_core", KNOWN)
    assert not reason and second.environment == {"ONEDNN_MAX_CPU_ISA": "avx2"} and second.label == " [avx2]"
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "-N", *second.select], capture_output=True, text=True, check=True).stdout
    assert "dnnl_ops_test" in listed and "e2e/test_operators.py" in listed and "ctxfile_test" not in listed


@pytest.mark.parametrize(("name", "here"), [("avx2", "avx2"), ("avx2_vnni", "avx2")])
def test_without_anything_above_there_is_none_and_a_reason(name, here):
    second, reason = run.again(name, here, KNOWN)
    assert second is None and name in reason


@pytest.mark.parametrize("option", ["--isa", "--again-isa"])
def test_unknown_names_end_the_run_with_the_known_ones(option):
    done = subprocess.run([sys.executable, RUN, "--build", BUILD, option, "avx3", "--list"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and '"avx3"' in done.stderr and "avx512_core_vnni" in done.stderr and not done.stdout


def test_the_limit_reaches_the_program():
    """A machine with this limit has no more, and so refuses more."""
    done = subprocess.run([sys.executable, RUN, "--build", BUILD, "--isa", "avx512_core", "--list"], env=os.environ | {"ONEDNN_MAX_CPU_ISA": "avx2"},
                          capture_output=True, text=True, check=False, timeout=60)  # fmt: skip
    assert done.returncode == 2 and "lacks" in done.stderr and "avx2" in done.stderr


def test_a_pattern_takes_whole_units_and_tests_of_the_others():
    units = run.units_of(BUILD)
    assert {"base_test", "e2e/test_operators.py", "build/test_run.py"} <= set(units)
    whole, others = run.filtered(run.Pass(), "base_t", list(units))
    assert whole.select == ["-R", "^(base_test)$"] and not whole.environment
    assert others.select == ["-E", "^(base_test)$"] and others.environment["GTEST_FILTER"] == "*base_t*"
    (only,) = run.filtered(run.Pass(), "NoUnitHasThisInItsName.*", list(units))
    assert only.environment["GTEST_FILTER"] == "NoUnitHasThisInItsName.*"


GOOGLE = """<testsuites><testsuite name="A">
<testcase name="Good" classname="A" status="run" result="completed" time="0"/>
<testcase name="Bad" classname="A" status="run" result="completed" time="0"><failure message="f.cpp:1&#x0A;wrong" type=""/></testcase>
<testcase name="Left" classname="A" status="run" result="skipped" time="0"><skipped message="f.cpp:2&#x0A;no such file"/></testcase>
<testcase name="DISABLED_Off" classname="A" status="notrun" result="suppressed" time="0"/>
<testcase name="Filtered" classname="A" status="notrun" result="suppressed" time="0"/>
</testsuite></testsuites>"""
PYTEST = """<testsuites><testsuite name="pytest">
<testcase classname="a" name="test_good" time="0"/>
<testcase classname="a" name="test_bad[x]" time="0"><failure message="m">assert 1 == 2</failure><system-out>--- Captured Out ---
said
</system-out></testcase>
<testcase classname="a" name="test_left" time="0"><skipped type="pytest.skip" message="not here">f.py:1: not here</skipped></testcase>
<testcase classname="a" name="test_known" time="0"><skipped type="pytest.xfail" message="later"/></testcase>
</testsuite></testsuites>"""


def outcome(tmp_path, name, report, status="run", failure="", said=""):
    path = tmp_path / name
    if report:
        path.write_text(report)
    case = ElementTree.fromstring(f'<testcase name="x" status="{status}">{failure}<system-out>{said}</system-out></testcase>')
    return run.outcome_of(case, path)


def test_two_runs_in_one_build_take_turns(tmp_path):
    """A run removes the results of the one before it, so it waits for its end."""
    script = f"""
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("run", {str(RUN)!r})
run = sys.modules["run"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)
with run.alone(pathlib.Path(sys.argv[1])):
    print("alone", flush=True)
"""
    with run.alone(tmp_path):
        waiting = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "waiting for another test run" in waiting.stderr.readline()
        assert waiting.poll() is None
    assert waiting.communicate(timeout=60)[0] == "alone\n"
    with run.alone(tmp_path):
        pass


def test_both_kinds_of_reports_are_counted_by_single_tests(tmp_path):
    failed = '<failure message="Failed"/>'
    found = outcome(tmp_path, "a_test.xml", GOOGLE, "fail", failed, "[ RUN      ] A.Bad\nf.cpp:1: wrong\n[  FAILED  ] A.Bad (0 ms)\n")
    assert found.counts() == "1 passed, 1 failed, 2 skipped"
    assert found.failures[0][0] == "A.Bad" and "f.cpp:1: wrong" in found.failures[0][1]
    assert found.skips == [("A.Left", "no such file"), ("A.DISABLED_Off", "disabled")]
    found = outcome(tmp_path, "e2e.test_a.py.xml", PYTEST, "fail", failed)
    assert found.counts() == "1 passed, 1 failed, 2 skipped"
    assert found.failures == [("test_bad[x]", "assert 1 == 2\n--- Captured Out ---\nsaid")]
    assert found.skips == [("test_left", "not here"), ("test_known", "expected to fail: later")]


def test_a_unit_without_a_report_has_failed(tmp_path):
    said = "[ RUN      ] A.Good\n[       OK ] A.Good (0 ms)\n[ RUN      ] A.Crash\n"
    found = outcome(tmp_path, "a_test.xml", "", "fail", '<failure message="SEGFAULT"/>', said)
    assert found.passed == 1 and found.failures[0][0] == "A.Crash" and "SEGFAULT" in found.failures[0][1]
    for status in ("run", "notrun"):  # ended well, or its program is missing
        assert outcome(tmp_path, "a_test.xml", "", status).counts() == "0 passed, 1 failed, 0 skipped"


def test_a_bad_end_after_good_tests_is_a_failure(tmp_path):
    good = GOOGLE.replace('<failure message="f.cpp:1&#x0A;wrong" type=""/>', "")
    found = outcome(tmp_path, "a_test.xml", good, "fail", '<failure message="Failed"/>', "leaks")
    assert found.counts() == "2 passed, 1 failed, 2 skipped" and "leaks" in found.failures[0][1]
