"""Under `ulimit -v` a command ends with RESOURCE_LIMIT, not with a signal, wherever memory runs out: where libraries are
initialised, in oneDNN, where libgomp starts threads."""

import json
import os
import resource
import subprocess

import pytest
from cli_support import conv_model, done, save, temporaries

pytestmark = pytest.mark.skipif(os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz"),
                                reason="a sanitizer reserves the address space")
MIB = 1 << 20


def limited(mebibytes, *arguments, cwd=None):
    bound = int(mebibytes * MIB)
    return subprocess.run([os.environ["CTXGEN_BIN"], *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bound, bound)))


@pytest.fixture(scope="module")
def least():
    """MiB below which the dynamic loader (status 127) does not get as far as the program."""
    low, high = 1, 4096
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if limited(middle, "--version").returncode == 127 else (low, middle)
    return high


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    save(conv_model(), folder / "net.onnx")
    done("compile", folder / "net.onnx", "--threads", 2)
    return folder


COMMANDS = {
    "version": ["--version"],
    "help": ["compile", "--help"],
    "check": ["check", "net_ctx.onnx", "--threads", "1"],
    "compile": ["compile", "net.onnx", "-o", "other.onnx", "--dim", "batch=1", "-q"],
    "run": ["run", "net_ctx.onnx", "--threads", "2"],
    "verify": ["verify", "net_ctx.onnx", "--against", "net.onnx", "--runs", "1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_want_of_memory_is_an_error_and_no_signal(folder, least, name):
    statuses = set()
    for step in range(40):
        size = least - 1 + step / 2
        finished = limited(size, *COMMANDS[name], cwd=folder)
        context = f"{name} with {size} MiB: {finished.returncode}\n{finished.stderr}"
        assert finished.returncode in (0, 2, 127), context
        if finished.returncode == 2:
            assert finished.stderr.count("ctxgen: error: RESOURCE_LIMIT: ") == 1, context
        statuses.add(finished.returncode)
        assert temporaries(folder) == [], context
    assert 2 in statuses and (0 in statuses or name in ("compile", "verify", "run")), statuses


def test_with_json_the_error_is_an_object(folder, least):
    objects = 0
    for step in range(16):
        finished = limited(least + step / 4, "run", "net_ctx.onnx", "--json", cwd=folder)
        if finished.returncode == 2:
            error = json.loads(finished.stdout)["error"]
            assert error["code"] == "RESOURCE_LIMIT" and error["status"] == 2
            objects += 1
    assert objects > 0


def test_without_a_limit_nothing_is_different(folder):
    assert limited(1 << 20, "run", "net_ctx.onnx", cwd=folder).returncode == 0
