"""Installs a C API alone and builds programs against it."""

import os
import pathlib
import re
import subprocess

import numpy
import onnx
import pytest
from e2e.cli_support import done

BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])
SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
HERE = SOURCE / "tests" / "build"
SANITIZED = os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz")


def run(*command, code=0, **more):
    finished = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert finished.returncode == code, f"{command}\n{finished.stdout}"
    return finished.stdout


def install(prefix, *components):
    if SANITIZED:
        pytest.skip("libraries built with a sanitizer are not for others")
    for component in components:
        run("cmake", "--install", BUILD, "--prefix", prefix, "--component", component)
    return prefix


def build_c99(source, package, prefix, program):
    """A C99 program, built with what pkg-config says."""
    (config,) = prefix.glob(f"**/{package}.pc")
    flags = run("pkg-config", "--cflags", "--libs", package, env={**os.environ, "PKG_CONFIG_PATH": str(config.parent)}).split()
    run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", source, *flags, f"-Wl,-rpath,{config.parent.parent}", "-o", program)
    return program


def declared_functions(*headers):
    text = "".join((SOURCE / header).read_text() for header in headers)
    return set(re.findall(r"CTXGEN_(?:COMPILER_)?API[^;]*?\b(ctxgen_\w+)\(", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))


def shown_functions(library):
    """With their versions."""
    listing = run("nm", "-D", "--defined-only", "--with-symbol-versions", library)
    shown = {line.split()[-1] for line in listing.splitlines()}
    return {name for name in shown if not name.startswith("CTXGEN_1.0")}  # the version itself


def expected(model, folder):
    """The first output of a model for the input of runner.c and runner.cpp, as the command line gives it."""
    value = onnx.load(model, load_external_data=False).graph.input[0]
    shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
    x = (0.25 * (numpy.arange(numpy.prod(shape)) % 7)).astype(numpy.float32).reshape(shape)
    numpy.save(folder / "x.npy", x)
    done("run", model, "--input", f"{value.name}={folder / 'x.npy'}", "--output-dir", folder / "out")
    name = onnx.load(model, load_external_data=False).graph.output[0].name
    return numpy.load(folder / "out" / f"{name}.npy").tobytes()
