"""Installs a C API alone and builds programs against it."""

import os
import pathlib
import re
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])
SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
HERE = SOURCE / "tests" / "build"
SANITIZED = os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz")


def run(*command, code=0, **more):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert done.returncode == code, f"{command}\n{done.stdout}"
    return done.stdout


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
