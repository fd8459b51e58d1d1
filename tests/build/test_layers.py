"""The layers: a wrong-way include does not compile, packages stay in their folders, public headers are listed."""

import itertools
import os
import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])

# What each library may include besides itself (docs/architecture.md). A new library needs a row.
BELOW_GRAPH = {"base", "weights", "ctxfile"}  # not cache: it is for those who compile
BELOW_PARTITION = BELOW_GRAPH | {"graph", "onnx_lite"}
BELOW_BACKEND = BELOW_PARTITION | {"partition"}
BACKEND = {"onednn_exec", "onednn_compile", "cpu", "loaders", "registry"}
MAY_INCLUDE = {
    "base": set(),
    "cache": {"base"},
    "trust": {"base"},
    "remote": {"base", "cache", "trust"},
    "kernels": {"base"},
    "weights": {"base", "cache"},
    "ctxfile": {"base", "weights"},
    "graph": BELOW_GRAPH,
    "onnx_lite": BELOW_GRAPH | {"graph"},
    "onnx_tools": BELOW_PARTITION,
    "partition": BELOW_PARTITION,
    "onednn_exec": BELOW_GRAPH | {"kernels"},
    "onednn_compile": BELOW_BACKEND | {"onednn_exec", "kernels"},
    "cpu": BELOW_BACKEND,
    "loaders": BELOW_BACKEND | {"onednn_exec", "cpu"},
    "registry": BELOW_BACKEND | BACKEND,
    "compiler_core": BELOW_BACKEND | BACKEND | {"cache"},  # no onnx: the plugin uses it
    "compiler": BELOW_BACKEND | BACKEND | {"onnx_tools", "compiler_core", "cache", "remote", "trust"},
    "runtime": BELOW_BACKEND | BACKEND | {"trust"},  # no onnx: it loads context models
    # Headers of compiler show those of cache and remote; registry and loaders share a folder.
    "tuning": BELOW_BACKEND | {"compiler_core", "compiler", "cache", "remote", "trust", "runtime", "loaders", "registry"},
}

# Packages, and the folders that may include their headers.
CONFINED = {
    r"oneapi/dnnl/|dnnl\.": ["lib/backend/onednn/"],
    r"hwy/": ["lib/kernels/"],
    r"onnx/": ["lib/graph/onnx/"],
    r"google/protobuf/": ["lib/graph/onnx/"],
    r"zstd": ["lib/weights/"],
    r"spdlog/|fmt/": ["lib/base/"],
    r"xxhash": ["lib/base/"],
    r"nlohmann/": ["lib/base/"],
    r"CLI/": ["apps/"],
    r"curl/": ["lib/remote/"],
    r"openssl/": ["lib/trust/"],
    r"onnxruntime": ["plugins/onnxruntime/"],
}


class Library:
    def __init__(self, line):
        name, folder, headers, _, own = line.split("|")
        self.name = name.removeprefix("ctxgen_")
        self.folder = SOURCE / folder
        self.headers = [pathlib.Path(header) for header in headers.split(";") if header]
        self.include_dirs = list(dict.fromkeys(filter(None, own.split(";"))))  # what its own sources see

    def public_names(self):
        """As an #include spells them."""
        return [str(header).split("/include/", 1)[1] for header in self.headers]


LIBRARIES = [Library(line) for line in (BUILD / "layers.txt").read_text().splitlines() if line]


def forbidden():
    for user, used in itertools.permutations(LIBRARIES, 2):
        same_folder = user.folder == used.folder  # compiler and compiler_core share theirs
        if used.name not in MAY_INCLUDE.get(user.name, {used.name}) and not same_folder and used.headers:
            yield pytest.param(user, used, id=f"{user.name}-{used.name}")


def compiler():
    cache = (BUILD / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]


def include(library, name, mode):
    command = [compiler(), mode, "-x", "c++", "-std=c++23", *(f"-I{folder}" for folder in library.include_dirs), "-"]
    return subprocess.run(command, input=f'#include "{name}"\n', capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})


@pytest.mark.parametrize("user, used", list(forbidden()))
def test_wrong_way_include_does_not_compile(user, used):
    found = [folder for folder in user.include_dirs for name in used.public_names() if pathlib.Path(folder, name).exists()]
    assert not found, f"{user.name} sees headers of {used.name} through {found[0]}"
    name = used.public_names()[0]
    attempt = include(user, name, "-fsyntax-only")
    assert attempt.returncode != 0 and f"{name}: No such file" in attempt.stderr


@pytest.mark.parametrize("library", [pytest.param(x, id=x.name) for x in LIBRARIES if x.headers])
def test_own_headers_are_found(library):
    """The control of the test above: the same command succeeds where it should."""
    attempt = include(library, library.public_names()[0], "-E")
    assert attempt.returncode == 0, attempt.stderr


@pytest.mark.parametrize("library", [pytest.param(x, id=x.name) for x in LIBRARIES])
def test_library_has_a_place(library):
    assert library.name in MAY_INCLUDE, f"{library.name} ({library.folder}) has no row in MAY_INCLUDE"


def test_public_headers_are_listed():
    """What is not in HEADERS is neither installed nor compiled alone."""
    listed = {header for library in LIBRARIES for header in library.headers}
    folders = {library.folder for library in LIBRARIES}
    unlisted = [h.relative_to(SOURCE) for folder in folders for h in (folder / "include").glob("**/*.h") if h not in listed]
    assert not unlisted


def sources():
    for top in ("lib", "apps", "plugins"):
        for path in sorted((SOURCE / top).glob("**/*")):
            if path.suffix in (".h", ".cpp", ".cc", ".c", ".in"):
                yield path.relative_to(SOURCE), path.read_text()


def test_packages_stay_in_their_folders():
    strays = []
    for path, text in sources():
        for header in re.findall(r"^\s*#\s*include\s*<([^>]+)>", text, re.M):
            for pattern, folders in CONFINED.items():
                if re.match(pattern, header) and not str(path).startswith(tuple(folders)):
                    strays.append(f"{path}: <{header}>")
    assert not strays


def test_no_include_climbs_out_of_its_library():
    homes = {library.folder for library in LIBRARIES} | {SOURCE / "apps/ctxgen", SOURCE / "plugins/onnxruntime"}
    climbers = []
    for path, text in sources():
        home = next((folder for folder in (SOURCE / path).parents if folder in homes), None)
        for header in re.findall(r'^\s*#\s*include\s*"([^"]*\.\./[^"]*)"', text, re.M):
            if home is None or not (SOURCE / path.parent / header).resolve().is_relative_to(home):
                climbers.append(f"{path}: {header}")
    assert not climbers
