"""Manual pages and completions, made from the program's own declarations."""

import os
import re
import shutil
import subprocess

import pytest
from cli_support import ctxgen, done, json_of


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    done("documents", folder)
    return folder


def verbs():
    """The verbs of `ctxgen --help`."""
    listed = done("--help").stdout.split("SUBCOMMANDS:")[1].split("\n\n")[0]
    return re.findall(r"^  ([\w-]+)", listed, re.MULTILINE)


def providers():
    return {one["name"] for one in json_of("providers")["providers"]}


def options(verb):
    """Every long option of `ctxgen VERB --help`, as it is typed."""
    text = done(verb, "--help").stdout.split("OPTIONS:")[1]
    names = set(re.findall(r"^ +(?:-\w, *)?(--[\w-]+)", text, re.MULTILINE))
    return {"-" + name.lstrip("-") if name in ("--MD", "--MF", "--MT") else name for name in names}


def test_every_verb_has_a_page_and_every_option_stands_there(documents):
    assert "compile" in verbs() and "documents" not in verbs()
    program = (documents / "ctxgen.1").read_text().replace("\\-", "-")
    for verb in verbs():
        page = (documents / f"ctxgen-{verb}.1").read_text().replace("\\-", "-")
        assert f"ctxgen-{verb}" in program
        found = options(verb)
        assert "--help" in found
        for name in found:
            assert f"\\fB{name}\\fR" in page, f"{verb}: {name}"
    assert sorted(path.name for path in documents.glob("*.1")) == sorted(
        ["ctxgen.1"] + [f"ctxgen-{verb}.1" for verb in verbs()])


def test_pages_are_sound(documents):
    for page in documents.glob("*.1"):
        lines = page.read_text().splitlines()
        assert lines[0].startswith(".TH ")
        assert [line for line in lines if line.startswith(".SH")][0] == ".SH NAME"
        for line in lines:
            if line.startswith((".", "'")):
                assert re.match(r"\.(TH|SH|TP|nf|fi)\b", line), line
            assert re.fullmatch(r"(?:[^\\]|\\-|\\e|\\&|\\f[BIR])*", line), line
        assert lines.count(".nf") == lines.count(".fi")


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
def test_mandoc_finds_no_error(documents):
    for page in documents.glob("*.1"):
        finished = subprocess.run(["mandoc", "-T", "lint", "-W", "error", page], capture_output=True, text=True)
        assert finished.returncode == 0, finished.stdout
        shown = subprocess.run(["mandoc", "-T", "ascii", page], capture_output=True, text=True, check=True).stdout
        assert "NAME" in shown.replace("\b", "") or "N\bNA" in shown


def bash_completes(documents, *words):
    script = f"source '{documents}/ctxgen.bash'; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _ctxgen; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    finished = subprocess.run(["bash", "--norc", "-euc", script, "bash", *words], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return set(finished.stdout.split())


def test_bash_completes(documents):
    assert bash_completes(documents, "ctxgen", "") >= set(verbs()) | {"--help", "--version"}
    assert bash_completes(documents, "ctxgen", "comp") == {"compile"}
    assert bash_completes(documents, "ctxgen", "compile", "--if") == {"--if-needed"}
    assert bash_completes(documents, "ctxgen", "compile", "-M") == {"-MD", "-MF", "-MT"}
    for verb in verbs():
        assert bash_completes(documents, "ctxgen", verb, "--") == {name for name in options(verb) if name.startswith("--")}
    assert bash_completes(documents, "ctxgen", "compile", "--bin", "") == set()  # file names, by -o default
    assert bash_completes(documents, "ctxgen", "compile", "net") == set()
    assert bash_completes(documents, "ctxgen", "compile", "--graph-optimization", "b") == {"basic"}


def test_bash_completes_values_and_commands_of_commands(documents):
    assert bash_completes(documents, "ctxgen", "hel") == {"help"}
    assert bash_completes(documents, "ctxgen", "help", "comp") == {"compile"}
    assert bash_completes(documents, "ctxgen", "cache", "") >= {"stats", "clear", "trim"}
    assert bash_completes(documents, "ctxgen", "cache", "cl") == {"clear"}
    assert bash_completes(documents, "ctxgen", "cache", "trim", "--cache-s") == {"--cache-size"}
    assert bash_completes(documents, "ctxgen", "cache", "stats", "--cache-s") == set()
    assert bash_completes(documents, "ctxgen", "compile", "--isa", "avx512_core_v") == {"avx512_core_vnni"}
    assert bash_completes(documents, "ctxgen", "compile", "--isa", "avx2,avx512_core_v") == {"avx2,avx512_core_vnni"}
    assert bash_completes(documents, "ctxgen", "run", "--provider", "") == providers()
    assert bash_completes(documents, "ctxgen", "compile", "--config", "ep.context_em") == {"ep.context_embed_mode="}
    assert "session.compile_only=" not in bash_completes(documents, "ctxgen", "compile", "--config", "session.")


def test_the_page_of_cache_has_its_commands(documents):
    page = (documents / "ctxgen-cache.1").read_text().replace("\\-", "-")
    assert ".SH COMMANDS" in page
    for word in ("stats", "clear", "trim", "--cache-size", "--cache-dir"):
        assert f"\\fB{word}\\fR" in page, word


@pytest.mark.parametrize("shell, name", [("bash", "ctxgen.bash"), ("zsh", "_ctxgen"), ("fish", "ctxgen.fish")])
def test_shells_take_their_completions(documents, shell, name):
    text = (documents / name).read_text()
    for verb in verbs():
        assert verb in text
        for option in options(verb):
            assert option.lstrip("-") in text, option
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    finished = subprocess.run([shell, "-n", documents / name], capture_output=True, text=True)
    assert finished.returncode == 0 and finished.stderr == "", finished.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes(documents):
    script = f"source '{documents}/ctxgen.fish'; complete -C 'ctxgen compile --if'; complete -C 'ctxgen comp'"
    shown = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True,
                           env=os.environ | {"HOME": str(documents)}).stdout
    assert "--if-needed" in shown and "compile" in shown


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes_values_and_commands_of_commands(documents):
    def completes(line):
        script = f"source '{documents}/ctxgen.fish'; complete -C '{line}'"
        shown = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True,
                               env=os.environ | {"HOME": str(documents)}).stdout
        return {text.split("\t")[0] for text in shown.splitlines()}

    assert completes("ctxgen cache ") >= {"stats", "clear", "trim"}
    assert "--cache-size" in completes("ctxgen cache trim --cache")
    assert "avx512_core_vnni" in completes("ctxgen compile --isa avx512_core_v")
    assert any(text.endswith("avx512_core_vnni") for text in completes("ctxgen compile --isa avx2,avx512_core_v"))
    assert completes("ctxgen run --provider ") >= providers()
    assert completes("ctxgen compile --graph-optimization b") == {"basic"}
    assert "ep.context_embed_mode=" in completes("ctxgen compile --config ep.context_em")
    assert "compile" in completes("ctxgen help comp")


def test_a_folder_that_is_not_there(tmp_path):
    assert ctxgen("documents", tmp_path / "none").returncode == 3
