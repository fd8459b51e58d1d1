"""The installed C API: a C99 program finds it by pkg-config and by CMake; what the library shows is what the header declares."""

import onnx
import pytest
from c_api_support import BUILD, HERE, build_c99, declared_functions, install, run, shown_functions
from e2e.cli_support import conv_model, done, ep_nodes, save

CONSUMER = """\
cmake_minimum_required(VERSION 3.28)
project(consumer C)
set(CMAKE_C_STANDARD 99)
find_package(ctxgen 0.1 CONFIG REQUIRED COMPONENTS compiler)
add_executable(consumer "{source}")
target_link_libraries(consumer PRIVATE ctxgen::compiler_c)
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    return install(tmp_path_factory.mktemp("prefix"), "compiler")


@pytest.fixture(scope="module")
def consumer(prefix, tmp_path_factory):
    return build_c99(HERE / "consumer.c", "ctxgen-compiler", prefix, tmp_path_factory.mktemp("consumer") / "consumer")


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
    declared = declared_functions("lib/compiler/capi/include/ctxgen_compiler.h", "lib/capi/include/ctxgen_status.h")
    shown = shown_functions(BUILD / "lib" / "libctxgen_compiler.so")
    assert shown == {f"{name}@@CTXGEN_1.0" for name in declared}
    assert len(shown) == 61  # a change of this number is a change of the ABI
