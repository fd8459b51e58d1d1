#!/usr/bin/env python3
"""Runs samples/languages: `./dev languages-test`.

The runtime is installed into a folder, a model compiled, and the program of each language built against that and run; all must print what
the command line computes. The Node.js addon is tried further: types, errors, workers. Exit status: 0 if everything passed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples" / "languages"


class Failed(Exception):
    """A command that did not end as it should."""


def run(*command, **more):
    words = [str(word) for word in command]
    finished = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **more)
    if finished.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {finished.returncode}\n{finished.stdout}{finished.stderr}")
    return finished.stdout


def c(folder, environment):
    flags = run("pkg-config", "--cflags", "--libs", "ctxgen-runtime", env=environment).split()
    run("cc", "-std=c99", "-Wall", "-Werror", SAMPLES / "c" / "run.c", *flags, "-o", folder / "c")
    return [folder / "c"]


def go(folder, environment):
    run("go", "build", "-o", folder / "go", ".", cwd=SAMPLES / "go", env=environment)
    return [folder / "go"]


def rust(folder, environment):
    run("rustc", "-O", "-D", "warnings", SAMPLES / "rust" / "main.rs", "-L", environment["LD_LIBRARY_PATH"], "-l", "ctxgen_runtime", "-o", folder / "rust", env=environment)
    return [folder / "rust"]


def java(_folder, _environment):
    return ["java", "--enable-native-access=ALL-UNNAMED", SAMPLES / "java" / "Run.java"]


def node(_folder, _environment):
    return ["node", SAMPLES / "node" / "run.js"]


LANGUAGES = {"C": c, "Go": go, "Rust": rust, "Java": java, "Node.js": node}


def prepare(folder, build):
    """The runtime as installed, a model, and the environment that finds both."""
    prefix = folder / "prefix"
    run("cmake", "--install", build, "--prefix", prefix, "--component", "runtime")
    run("cmake", "--install", build, "--prefix", folder / "node_modules", "--component", "node")
    run(sys.executable, ROOT / "samples" / "models.py", folder / "models")
    model = folder / "models" / "classifier_ctx.onnx"
    run(build / "bin" / "ctxgen", "compile", folder / "models" / "classifier.onnx", "-o", model)
    run(sys.executable, ROOT / "tests" / "languages" / "mixed_model.py", folder / "models" / "mixed.onnx")
    environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"), LD_LIBRARY_PATH=str(prefix / "lib"), NODE_PATH=str(folder / "node_modules"),
                       GOCACHE=str(folder / "go-cache"), GOPROXY="off", GOFLAGS="-mod=mod", GOTOOLCHAIN="local")  # fmt: skip
    return model, environment


def expected(model, folder, build):
    np.save(folder / "x.npy", np.ones((1, 8), np.float32))
    run(build / "bin" / "ctxgen", "run", model, "--input", f"x={folder / 'x.npy'}", "--output-dir", folder / "out")
    return np.load(folder / "out" / "y.npy").ravel()


def main():
    argparse.ArgumentParser(prog="./dev languages-test", description=__doc__.split("\n\n")[0]).parse_args()
    build = pathlib.Path(os.environ["CTXGEN_BUILD"])
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model, environment = prepare(folder, build)
        wanted = [f"{value:.4f}" for value in expected(model, folder, build)]
        programs = {name: (lambda make=make: run(*make(folder, environment), model, env=environment).split()) for name, make in LANGUAGES.items()}
        for name, program in programs.items():
            try:
                printed = program()
                if printed != wanted:
                    raise Failed(f"printed {printed}, expected {wanted}")
                print(f"ok      {name}: {' '.join(printed)}", flush=True)
            except (Failed, OSError) as error:
                failed += 1
                print(f"FAILED  {name}: {error}", flush=True)
        try:
            print(f"ok      the addon: {run('node', ROOT / 'tests' / 'languages' / 'addon_test.js', folder / 'models', env=environment).strip()}")
        except (Failed, json.JSONDecodeError) as error:
            failed += 1
            print(f"FAILED  the addon: {error}")
    print(f"{len(LANGUAGES) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
