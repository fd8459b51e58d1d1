"""./dev lint: the checks refuse what they are for."""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
sys.path.insert(0, str(SOURCE / ".ci"))
lint, text_rules = importlib.import_module("lint"), importlib.import_module("text_rules")


@pytest.mark.parametrize("rule", text_rules.RULES, ids=lambda rule: rule.name)
def test_rules_have_a_name_and_say_what_to_write_instead(rule):
    assert rule.name and rule.instead and rule.where


def test_a_rule_refuses_new_hits_and_asks_for_a_smaller_limit():
    rule = text_rules.Rule("word", ("lib/",), text_rules.words("bad"), "good", most=1, but=("lib/old/",))
    files = {"lib/a.x": "bad\n", "lib/old/b.x": "bad", "docs/c.x": "bad"}
    assert text_rules.refused(files, (rule,)) == []
    files["lib/d.x"] = "\n// badly\n// bad\n"
    lines = text_rules.refused(files, (rule,))
    assert lines[0] == "lib/a.x:1: word: good" and lines[1] == "lib/d.x:3: word: good" and "1 at most" in lines[2]
    del files["lib/a.x"], files["lib/d.x"]
    assert "write 0 there" in text_rules.refused(files, (rule,))[0]


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("ctxfile: reject sections past end of file", ""),
        ("cpu, compiler, onnx_lite, cli: divide large folders into rooms", ""),
        ('Revert "cli: print sizes"', ""),
        ("ctxfile: " + "x" * 64, "72"),
        ("reject sections past end of file", "area"),
    ],
)
def test_subjects(subject, words):
    lines = lint.subject_errors([("abc1234", subject)])
    assert bool(lines) == bool(words) and all(words in line for line in lines)


def test_unknown_checks_are_refused_with_the_known_ones():
    done = subprocess.run([sys.executable, SOURCE / ".ci/lint.py", "--build", "none", "words"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "unknown check words" in done.stderr and all(name in done.stderr for name in lint.CHECKS)


def test_shell_of_the_project_is_clean():
    if subprocess.run(["which", "shellcheck"], capture_output=True, check=False).returncode:
        pytest.skip("this environment has no shellcheck")
    count, lines = lint.check_shell(None)
    assert not lines, "\n".join(lines)
    assert int(count.split()[0]) >= 4
