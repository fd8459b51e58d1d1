"""The installed C API: a C99 program finds it by pkg-config and by CMake; what the library shows is what the header declares."""

import os
import pathlib
import re
import subprocess

import onnx
import pytest
from e2e.cli_support import conv_model, done, ep_nodes, save

BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])
SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
HERE = SOURCE / "tests" / "build"
SANITIZED = os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz")

CONSUMER = """\
cmake_minimum_required(VERSION 3.28)
project(consumer C)
set(CMAKE_C_STANDARD 99)
find_package(ctxgen 0.1 CONFIG REQUIRED COMPONENTS compiler)
add_executable(consumer "{source}")
target_link_libraries(consumer PRIVATE ctxgen::compiler_c)
"""


def run(*command, **more):
    done_ = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert done_.returncode == 0, f"{command}\n{done_.stdout}"
    return done_.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if SANITIZED:
        pytest.skip("libraries built with a sanitizer are not for others")
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder, "--component", "compiler")
    return folder


@pytest.fixture(scope="module")
def consumer(prefix, tmp_path_factory):
    """The C99 program, built with what pkg-config says."""
    program = tmp_path_factory.mktemp("consumer") / "consumer"
    (config,) = prefix.glob("**/ctxgen-compiler.pc")
    flags = run("pkg-config", "--cflags", "--libs", "ctxgen-compiler", env={**os.environ, "PKG_CONFIG_PATH": str(config.parent)}).split()
    library = config.parent.parent
    run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", HERE / "consumer.c", *flags, f"-Wl,-rpath,{library}", "-o", program)
    return program


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def test_a_cmake_project_finds_the_component(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.format(source=HERE / "consumer.c"))
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert "unknown key" in run(tmp_path / "build" / "consumer", "fail", "x")


def test_file_to_file(consumer, model, tmp_path):
    said = run(consumer, "files", model, tmp_path / "out_ctx.onnx")
    assert "net.onnx -> out_ctx.onnx: 5 of 5 nodes" in said
    (tmp_path / "cli").mkdir()
    done("compile", model, "-o", tmp_path / "cli" / "out_ctx.onnx")
    for name in ("out_ctx.onnx", "out_dnnl.bin"):  # the same bytes as the command line's
        assert (tmp_path / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()


def test_memory_to_memory(consumer, tmp_path):
    onnx.save(conv_model(), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    (tmp_path / "out").mkdir()
    run(consumer, "memory", tmp_path / "net.onnx", tmp_path / "net.data", tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["net_ctx.onnx", "net_dnnl.bin"]
    done("run", tmp_path / "out" / "net_ctx.onnx")


def test_model_through_a_function_and_the_bin_to_a_file(consumer, model, tmp_path):
    (tmp_path / "out").mkdir()
    run(consumer, "stream", model, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["streamed.onnx", "streamed_dnnl.bin"]
    assert ep_nodes(tmp_path / "out" / "streamed.onnx")
    done("run", tmp_path / "out" / "streamed.onnx")


def test_a_group(consumer, model, tmp_path):
    other = save(conv_model(seed=1), tmp_path / "other.onnx")
    (tmp_path / "out").mkdir()
    run(consumer, "group", tmp_path / "out", model, other)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["0_ctx.onnx", "0_dnnl.bin", "1_ctx.onnx"]


def test_the_library_shows_what_the_header_declares():
    header = re.sub(r"/\*.*?\*/", "", (SOURCE / "lib/compiler/capi/include/ctxgen_compiler.h").read_text(), flags=re.S)
    declared = set(re.findall(r"CTXGEN_COMPILER_API[^;]*?\b(ctxgen_\w+)\(", header))
    listing = run("nm", "-D", "--defined-only", "--with-symbol-versions", BUILD / "lib" / "libctxgen_compiler.so")
    shown = {line.split()[-1] for line in listing.splitlines()}
    shown = {name for name in shown if not name.startswith("CTXGEN_1.0")}  # the version itself
    assert shown == {f"{name}@@CTXGEN_1.0" for name in declared}
    assert len(shown) == 52  # a change of this number is a change of the ABI
