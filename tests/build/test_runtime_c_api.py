"""The installed C API of the runtime: a C99 program finds it by pkg-config and by CMake, gives what `ctxgen run` gives, and its library is small."""

import re

import numpy
import onnx
import pytest
from c_api_support import BUILD, HERE, SANITIZED, build_c99, declared_functions, expected, install, run, shown_functions
from e2e.cli_support import conv_model, done, save

LIBRARY = BUILD / "lib" / "libctxgen_runtime.so"

CONSUMER = """\
cmake_minimum_required(VERSION 3.28)
project(consumer C)
set(CMAKE_C_STANDARD 99)
find_package(ctxgen 0.1 CONFIG REQUIRED COMPONENTS runtime)
add_executable(runner "{source}")
target_link_libraries(runner PRIVATE ctxgen::runtime_c)
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    return install(tmp_path_factory.mktemp("prefix"), "runtime")


@pytest.fixture(scope="module")
def runner(prefix, tmp_path_factory):
    return build_c99(HERE / "runner.c", "ctxgen-runtime", prefix, tmp_path_factory.mktemp("runner") / "runner")


@pytest.fixture
def model(tmp_path):
    """A context model, and what `ctxgen run` gives for the runner's input."""
    path = save(conv_model(), tmp_path / "net.onnx")
    done("compile", path)
    return tmp_path / "net_ctx.onnx"


def test_a_cmake_project_finds_the_component(prefix, model, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.format(source=HERE / "runner.c"))
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert "done " in run(tmp_path / "build" / "runner", model, tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == expected(model, tmp_path)

def test_a_component_that_is_not_installed_is_not_found(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.format(source=HERE / "runner.c").replace("runtime)", "compiler)"))
    assert "compiler" in run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", code=1)


@pytest.mark.parametrize("how", [(), ("memory=1",), ("ep.share_ep_contexts=1",), ("session.disable_cpu_ep_fallback=1",)])
def test_a_file(runner, model, tmp_path, how):
    run(runner, model, tmp_path / "y", *how)
    assert (tmp_path / "y").read_bytes() == expected(model, tmp_path)


def test_from_memory(runner, model, tmp_path):
    wanted = expected(model, tmp_path)
    run(runner, model, tmp_path / "y", f"bin=net_dnnl.bin:{tmp_path / 'net_dnnl.bin'}")
    assert (tmp_path / "y").read_bytes() == wanted
    said = run(runner, model, tmp_path / "y", f"bin=other.bin:{tmp_path / 'net_dnnl.bin'}", code=1)
    assert "net_dnnl.bin" in said
    # The bin from the file beside where the model would be.
    (tmp_path / "z").write_bytes(b"")
    run(runner, model, tmp_path / "y", f"data=unused:{tmp_path / 'z'}", f"ep.context_file_path={model}")
    assert (tmp_path / "y").read_bytes() == wanted


def test_the_source_of_a_weightless_model_elsewhere(runner, tmp_path):
    (tmp_path / "sources").mkdir()
    onnx.save(conv_model(), tmp_path / "sources" / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=200)
    context = tmp_path / "net_ctx.onnx"
    done("compile", tmp_path / "sources" / "net.onnx", "-o", context, "--config", "ep.enable_weightless_mode=2")
    wanted = expected(context, tmp_path)
    (tmp_path / "sources").rename(tmp_path / "moved")
    assert run(runner, context, tmp_path / "y", code=1).startswith("4: ")  # CTXGEN_CORRUPT_CONTEXT
    run(runner, context, tmp_path / "y", f"ep.context_source_model_path={tmp_path / 'moved' / 'net.onnx'}")
    assert (tmp_path / "y").read_bytes() == wanted
    missing = tmp_path / "moved" / "other.onnx"
    assert "other.onnx" in run(runner, context, tmp_path / "y", f"ep.context_source_model_path={missing}", code=1)


def test_a_plain_model_and_external_data_from_memory(runner, tmp_path):
    plain = save(conv_model(), tmp_path / "plain.onnx")
    wanted = expected(plain, tmp_path)
    onnx.save(conv_model(), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    data = (tmp_path / "net.data").rename(tmp_path / "elsewhere")
    run(runner, tmp_path / "net.onnx", tmp_path / "y", f"data=net.data:{data}")
    got, want = (numpy.frombuffer(b, numpy.float32) for b in ((tmp_path / "y").read_bytes(), wanted))
    numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)  # kernels here, oneDNN there
    assert "net.data" in run(runner, tmp_path / "net.onnx", tmp_path / "y", code=1)


def test_warnings_reach_the_log_function_and_can_be_errors(runner, tmp_path):
    done("compile", save(conv_model(), tmp_path / "net.onnx"), "--portable")
    assert re.search(r"^log 3: .*portable", run(runner, tmp_path / "net_ctx.onnx", tmp_path / "y"), re.M)
    said = run(runner, tmp_path / "net_ctx.onnx", tmp_path / "y", "session.fail_on_suboptimal_compiled_model=1", code=1)
    assert said.startswith("8: ") and "portable" in said  # CTXGEN_NOT_SATISFIED


def test_errors_have_their_codes(runner, model, tmp_path):
    bin_ = tmp_path / "net_dnnl.bin"
    whole = bin_.read_bytes()
    bin_.write_bytes(whole[:-1])
    assert run(runner, model, tmp_path / "y", code=1).startswith("4: ")  # CTXGEN_CORRUPT_CONTEXT
    bin_.write_bytes(whole[:8] + b"\x63\0" + whole[10:])
    assert run(runner, model, tmp_path / "y", code=1).startswith("5: ")  # CTXGEN_VERSION_MISMATCH
    assert run(runner, tmp_path / "none.onnx", tmp_path / "y", code=1).startswith("2: ")  # CTXGEN_IO_ERROR


def test_files_have_to_be_signed(runner, model, tmp_path):
    for name in ("signer", "other"):
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tmp_path / f"{name}.pem")
        run("openssl", "pkey", "-in", tmp_path / f"{name}.pem", "-pubout", "-out", tmp_path / f"{name}.pub")
    done("sign", tmp_path, "--key", tmp_path / "signer.pem", "-o", tmp_path / "all.sig")
    in_memory = f"bin=net_dnnl.bin:{tmp_path / 'net_dnnl.bin'}"
    keys = [f"ctxgen.signature={tmp_path / 'all.sig'}", f"ctxgen.require_signed={tmp_path / 'signer.pub'}"]
    run(runner, model, tmp_path / "y", *keys)
    assert (tmp_path / "y").read_bytes() == expected(model, tmp_path)
    run(runner, model, tmp_path / "y", in_memory, f"ep.context_file_path={model}", *keys)
    for wrong in ([*keys, f"ctxgen.require_signed={tmp_path / 'other.pub'}"], [in_memory, f"ep.context_file_path={tmp_path / 'net.onnx'}", *keys]):
        assert run(runner, model, tmp_path / "y", *wrong, code=1).startswith("8: ")  # CTXGEN_NOT_SATISFIED
    for wrong in (keys[:1], [in_memory, *keys]):
        assert run(runner, model, tmp_path / "y", *wrong, code=1).startswith("1: ")  # CTXGEN_INVALID_ARGUMENT


def test_the_library_shows_what_the_header_declares():
    declared = declared_functions("lib/runtime/capi/include/ctxgen_runtime.h", "lib/capi/include/ctxgen_status.h")
    shown = shown_functions(LIBRARY)
    assert shown == {f"{name}@@CTXGEN_1.0" for name in declared}
    assert len(shown) == 62  # a change of this number is a change of the ABI


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's library is among them")
def test_the_library_holds_neither_onnx_nor_protobuf_nor_the_compiler():
    needed = set(re.findall(r"^\s*(lib[\w+-]+)\.so", run("ldd", LIBRARY), re.M))
    assert needed <= {"libdnnl", "libgomp", "libstdc++", "libgcc_s", "libm", "libc", "libzstd", "libxxhash", "libspdlog", "libfmt", "libcrypto", "libz"}, needed
    symbols = run("nm", "-C", LIBRARY)
    assert "ctxgen::Session::open" in symbols  # they are not stripped
    for name in ("onnx::", "google::protobuf", "ctxgen::compile_models", "ctxgen::plan_and_pack", "onnx_torch::"):
        assert name not in symbols


def test_both_libraries_in_one_program(tmp_path):
    """They share the functions of a status: either releases what the other gave."""
    prefix = install(tmp_path / "prefix", "compiler", "runtime")
    (tmp_path / "both.c").write_text("""\
#include <ctxgen_compiler.h>
#include <ctxgen_runtime.h>
#include <stdio.h>
int main(void) {
  ctxgen_status* a = ctxgen_compile_options_create(NULL);
  ctxgen_status* b = ctxgen_session_options_create(NULL);
  printf("%s, %s\\n", ctxgen_status_message(a), ctxgen_status_message(b));
  ctxgen_status_release(a);
  ctxgen_status_release(b);
  return 0;
}
""")
    (tmp_path / "CMakeLists.txt").write_text("""\
cmake_minimum_required(VERSION 3.28)
project(both C)
find_package(ctxgen 0.1 CONFIG REQUIRED COMPONENTS compiler runtime)
add_executable(both both.c)
target_link_libraries(both PRIVATE ctxgen::compiler_c ctxgen::runtime_c)
""")
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "both") == "options is NULL, options is NULL\n"
