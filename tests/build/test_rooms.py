"""The house: folders of at most about 25 files, each of which says what it is for, and names that are there once."""

import collections
import os
import pathlib

SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
TOPS = ("apps", "lib", "plugins")
CODE = (".h", ".cpp")
MOST_FILES = 27


def folders():
    """Those that hold code of a library or program, not its public headers."""
    found = {path.parent for top in TOPS for path in (SOURCE / top).rglob("*") if path.suffix in CODE}
    return sorted(folder.relative_to(SOURCE) for folder in found if "include" not in folder.parts)


def code_in(folder):
    return [path for path in (SOURCE / folder).iterdir() if path.suffix in CODE]


def test_folders_are_small():
    large = [str(folder) for folder in folders() if len(code_in(folder)) > MOST_FILES]
    assert not large, "divide it into rooms (docs/architecture.md)"


def test_rooms_say_what_they_are_for():
    """The first line of a room's CMakeLists.txt."""
    silent = []
    for folder in folders():
        cmake = SOURCE / folder / "CMakeLists.txt"
        text = cmake.read_text() if cmake.exists() else ""
        if "target_sources(" in text and "ctxgen_add_library(" not in text and not text.startswith("# "):
            silent.append(str(folder))
    assert not silent


def test_names_are_there_once():
    places = collections.defaultdict(set)
    for folder in folders():
        for path in code_in(folder):
            places[path.stem].add(str(folder))
    twice = {stem: sorted(where) for stem, where in places.items() if len(where) > 1}
    assert not twice
