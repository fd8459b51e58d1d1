"""docs/adding.md: its lists of files are what the tree has for operators, providers and verbs that are there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding.md").read_text()
CODE = ("apps", "cmake", "lib", "plugins")


def files_of(heading, **names):
    """The files of a section's tables, placeholders (<room>) replaced."""
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    paths = re.findall(r"^\| `([^`]+)` \|", section, re.M)
    assert paths
    for placeholder, name in names.items():
        paths = [path.replace(f"<{placeholder}>", name) for path in paths]
    # A * stands for files of this folder and its rooms.
    missing = [path for path in paths if not any(ROOT.glob(path.replace("*", "**/*")))]
    assert not missing, f"{heading}, {names}"
    return set(paths)


def mentions(pattern, *folders):
    """Files of code in which the pattern is found outside of comments."""
    found = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".h", ".cpp", ".in", ".cmake") and path.name != "CMakeLists.txt":
                continue
            text = path.read_text()
            text = re.sub(r"//[^\n]*", "", text) if path.suffix in (".h", ".cpp", ".in") else re.sub(r"#[^\n]*", "", text)
            if re.search(pattern, text):
                found.add(str(path.relative_to(ROOT)))
    return found


def in_code(paths):
    return {path for path in paths if path.split("/")[0] in CODE}


@pytest.mark.parametrize("room, family", [("math", "einsum"), ("values", "text_feature"), ("nn", "roi")])
def test_a_family_of_cpu_kernels(room, family):
    table = "k" + "".join(word.capitalize() for word in family.split("_")) + "Ops"
    listed = files_of("An operator on the CPU", room=room, family=family)
    assert mentions(rf"\b{table}\b|\b{family}_ops\.cpp", "lib") == in_code(listed)


def test_an_operator_of_dnnl():
    listed = files_of("An operator in dnnl", family="softmax")
    assert mentions(r"\b(?:check|lower)_softmax\b(?!\.cpp)", "lib") == in_code(listed)


def test_an_op_kind_of_dnnl():
    listed = files_of("An op kind of dnnl", kind="lrn")
    assert mentions(r"\bkLrn(?:Row)?\b|\blrn_kind\.cpp", "lib/backend/onednn/exec") == in_code(listed)


def test_the_provider_dnnl():
    """Outside of its folder only the row names it."""
    listed = files_of("A provider", x="onednn")
    found = mentions(r"ctxgen/onednn/|onednn::|\bonednn_\w+", *CODE)
    assert {path for path in found if not path.startswith("lib/backend/onednn/")} == \
        {path for path in in_code(listed) if not path.startswith("lib/backend/onednn/")} == {"lib/backend/CMakeLists.txt"}


def verbs():
    return re.findall(r"^void add_(\w+)\(Cli& cli\);", (ROOT / "apps/ctxgen/cli.h").read_text(), re.M)


@pytest.mark.parametrize("verb", verbs())
def test_a_verb(verb):
    listed = files_of("A verb", verb=verb)
    assert mentions(rf"(?<![.\w])add_{verb}\(|\b{verb}_verb\.cpp", "apps") == in_code(listed)
    word = verb.replace("_", "-")  # on the command line
    assert re.search(rf"^## {word}$", (ROOT / "docs" / "cli.md").read_text(), re.M)
    tests = (ROOT / "tests" / "e2e" / "test_cli_verbs.py").read_text()
    assert f'"{word}"' in re.search(r"^VERBS = \[(.*?)\]", tests, re.M | re.S)[1]


def test_the_sample_has_both_sides_of_a_provider():
    folder = ROOT / "samples" / "provider"
    loader = "".join(path.read_text() for path in folder.glob("*_loader.*"))
    headers = set(re.findall(r"#include <(ctxgen/\w+/)", loader))
    assert headers and headers <= {"ctxgen/base/", "ctxgen/weights/", "ctxgen/ctxfile/"}, "the load side links no compiler"
    assert "make_provider()" in (folder / "chain_provider.h").read_text()
