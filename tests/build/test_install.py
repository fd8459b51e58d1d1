"""A consumer builds against the installed tree, found by its CMake package."""

import os
import pathlib
import subprocess

import pytest
from c_api_support import expected
from e2e.cli_support import conv_model, done, save

BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])
HERE = pathlib.Path(__file__).parent

CONSUMER = """\
cmake_minimum_required(VERSION 3.28)
project(consumer CXX)
find_package(ctxgen 0.1 CONFIG REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE {targets})
add_executable(compile_models "{source}")
target_link_libraries(compile_models PRIVATE ctxgen::compiler)
add_executable(runner "{runner}")
target_link_libraries(runner PRIVATE ctxgen::runtime)
"""


def run(*command, **more):
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}"
    return finished.stdout


def test_consumer_builds_against_the_installed_tree(tmp_path):
    if os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz"):
        pytest.skip("libraries built with a sanitizer are not for others")
    prefix, consumer = tmp_path / "prefix", tmp_path / "consumer"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    assert list(prefix.glob("**/LICENSE")) and list(prefix.glob("**/NOTICE"))

    libraries = [line.split("|")[0].removeprefix("ctxgen_") for line in (BUILD / "layers.txt").read_text().splitlines() if line]
    headers = sorted(str(header.relative_to(prefix / "include")) for header in prefix.glob("include/ctxgen/**/*.h"))
    assert libraries and headers
    consumer.mkdir()
    (consumer / "CMakeLists.txt").write_text(CONSUMER.format(targets=" ".join(f"ctxgen::{name}" for name in libraries), source=HERE / "consumer.cpp", runner=HERE / "runner.cpp"))
    (consumer / "main.cpp").write_text("".join(f'#include "{header}"\n' for header in headers) + "int main() { return 0; }\n")
    run("cmake", "-G", "Ninja", "-S", consumer, "-B", consumer / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", consumer / "build")
    run(consumer / "build" / "consumer")
    models = [save(conv_model(seed=seed), tmp_path / f"{seed}.onnx") for seed in (0, 1)]
    assert run(consumer / "build" / "compile_models", *models) == "2 models, 1 bins\n"
    done("compile", "-q", models[0], "-o", tmp_path / "net_ctx.onnx")
    run(consumer / "build" / "runner", tmp_path / "net_ctx.onnx", tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == expected(tmp_path / "net_ctx.onnx", tmp_path)
