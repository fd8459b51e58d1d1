"""Models compiled over older ones while system calls on their files fail or the process is killed (tests/faults/fault_shim.cpp)."""

import os
import pathlib
import subprocess

import numpy as np
from cli_support import conv_model, done, save, temporaries

X = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)


def shim_environment(folder, **variables):
    shim = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "lib" / "libfault_shim.so"
    assert shim.exists()
    # The address sanitizer does not mind to come second: the shim allocates nothing. The thread sanitizer does.
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    libraries = [str(shim)]
    if os.environ.get("CTXGEN_PRESET") == "tsan":
        find = ["gcc", "-print-file-name=libtsan.so"]
        libraries.insert(0, subprocess.run(find, capture_output=True, text=True, check=True).stdout.strip())
    return {**os.environ, "LD_PRELOAD": " ".join(libraries), "FAULT_FOLDER": str(folder), "ASAN_OPTIONS": asan, **variables}


def run_faulty(folder, *arguments, **variables):
    command = [os.environ["CTXGEN_BIN"], *map(str, arguments)]
    return subprocess.run(command, env=shim_environment(folder, **variables), capture_output=True, text=True, check=False)


def outputs_of(context, scratch):
    """The model's output for X, or the message with which it is refused as an interrupted or foreign set."""
    np.save(scratch / "x.npy", X)
    command = [os.environ["CTXGEN_BIN"], "run", context, "--input", f"x={scratch / 'x.npy'}", "--output-dir", scratch / "y"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return (scratch / "y" / "y.npy").read_bytes()
    assert finished.returncode == 2, finished.stderr
    assert "INVALID_GRAPH" in finished.stderr, finished.stderr
    assert "compile" in finished.stderr and "interrupted" in finished.stderr, finished.stderr
    return None


class Work:
    """Old and new versions of some models, compiled in `folder` one over the other."""

    def __init__(self, tmp_path, names, *options):
        self.scratch, self.folder = tmp_path / "scratch", tmp_path / "work"
        self.scratch.mkdir()
        self.folder.mkdir()
        self.names, self.options = names, options
        self.contexts = [self.folder / f"{name}_ctx.onnx" for name in names]
        self.expected = {}  # outputs by version
        self.states = {}  # files by version
        for version in ("old", "new"):
            self.set_sources(version)
            done(*self.command())
            self.expected[version] = [outputs_of(context, self.scratch) for context in self.contexts]
            self.states[version] = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        assert self.expected["old"] != self.expected["new"]
        self.files = sorted(path.name for path in self.folder.iterdir())

    def set_sources(self, version):
        for index, name in enumerate(self.names):
            save(conv_model(seed=index + (10 if version == "new" else 0)), self.folder / f"{name}.onnx")

    def command(self):
        return ["compile", ",".join(str(self.folder / f"{name}.onnx") for name in self.names), *self.options]

    def start_from(self, version):
        """Outputs of that version (None: no outputs), sources of the new one."""
        for path in self.folder.iterdir():
            path.unlink()
        for name, data in self.states[version or "new"].items():
            if version or pathlib.Path(name).stem in self.names:
                (self.folder / name).write_bytes(data)
        self.set_sources("new")

    def snapshot(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.suffix != ".tmp"}

    def check_whole(self):
        """Every context model that is there is wholly old, wholly new, or refused. Returns what they are."""
        states = []
        for index, context in enumerate(self.contexts):
            found = outputs_of(context, self.scratch) if context.exists() else "absent"
            known = {self.expected["old"][index]: "old", self.expected["new"][index]: "new", None: "refused", "absent": "absent"}
            assert found in known, "wrong outputs"
            states.append(known[found])
        return states

    def check_repaired(self):
        done(*self.command())
        assert temporaries(self.folder) == []
        assert sorted(path.name for path in self.folder.iterdir()) == self.files
        assert self.check_whole() == ["new"] * len(self.names)


# name: models of the set, options
SETS = {"single": (["net"],), "batch": (["a", "b"],), "embedded": (["net"], "--embed"), "spilled": (["a", "b"], "--weight-memory", "0")}


def make_work(tmp_path, name):
    names, *options = SETS[name]
    return Work(tmp_path, names, *options)


def calls(work):
    """How often a compile makes each system call on files of the folder."""
    work.start_from("old")
    count = work.scratch / "count"
    finished = run_faulty(work.folder, *work.command(), FAULT_COUNT=str(count))
    assert finished.returncode == 0, finished.stderr
    counted = {name: int(number) for name, number in (line.split() for line in count.read_text().splitlines())}
    assert counted["write"] > 0 and counted["rename"] > 0 and counted["open"] > 1
    return counted


