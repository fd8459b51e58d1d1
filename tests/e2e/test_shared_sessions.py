"""Sessions of one group and processes share a context binary: what they open, what memory they take, and eight threads at once."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from cli_support import conv_model, done, save
from test_compile_cache import LAYER_BYTES, layers_model
from test_sharing import fixed_rows

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "memory"))
from processes import mapped_pages

PROBE = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "sharing_probe"
SANITIZED = os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz")


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """Two models over the same weights, and their bin."""
    folder = tmp_path_factory.mktemp("group")
    for name, rows in (("prefill", 32), ("decode", 1)):
        save(fixed_rows(layers_model(scale=0.1), rows), folder / f"{name}.onnx")
    done("compile", "-q", f"{folder / 'prefill.onnx'},{folder / 'decode.onnx'}", "-o", folder / "out")
    return folder / "out"


def probe(*arguments, prefix=()):
    finished = subprocess.run([*prefix, PROBE, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.skipif(SANITIZED, reason="a sanitizer opens files of its own")
def test_the_second_session_opens_no_file_but_its_model(group, tmp_path):
    trace = tmp_path / "trace"
    try:
        probe("pair", group / "prefill_ctx.onnx", group / "decode_ctx.onnx",
              prefix=("strace", "-f", "-e", "trace=open,openat,openat2,creat,access,faccessat,faccessat2", "-o", trace))
    except AssertionError as error:
        if "ptrace" in str(error).lower() or "PTRACE" in str(error):
            pytest.skip(f"strace is not allowed here: {error}")
        raise
    before, after = trace.read_text().split('"/second-session"', 1)
    opened = [re.search(r'"([^"]*)"', line)[1] for line in after.splitlines() if re.search(r"\bopen(at2?)?\(", line) and " = -1 " not in line]
    regular = [name for name in opened if not pathlib.Path(name).is_dir()]  # the folder is opened to look the bin up in it
    assert [pathlib.Path(name).name for name in regular] == ["decode_ctx.onnx"], opened
    (bin_name,) = (path.name for path in group.glob("*.bin"))
    assert bin_name in before  # that is how it would look


def test_two_processes_share_the_pages(group):
    holders = [subprocess.Popen([PROBE, "hold", group / "prefill_ctx.onnx"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for holder in holders:
            assert holder.stdout.readline().startswith("ready ")
        for holder in holders:
            resident, proportional, count = mapped_pages(holder.pid, ".bin")
            assert count == 1  # one mapping per file
            assert resident >= 4 * LAYER_BYTES  # every weight was read
            assert proportional <= 0.55 * resident  # of two
    finally:
        for holder in holders:
            holder.communicate("")
    assert [holder.returncode for holder in holders] == [0, 0]


def test_eight_threads_create_share_and_destroy_sessions(group):
    assert probe("stress", 20 if SANITIZED else 100, group / "prefill_ctx.onnx", group / "decode_ctx.onnx") == "done\n"


def test_eight_threads_run_one_session_with_changing_shapes(tmp_path):
    """More shapes than plans are kept: plans come and go while others run. Outputs have the bits of a run alone."""
    done("compile", "-q", save(conv_model(), tmp_path / "net.onnx"))
    result = json.loads(probe("shapes", 1000, tmp_path / "net_ctx.onnx"))
    assert result["made"] > 12 and result["dropped"] > 0


def test_the_second_session_reads_no_manifest(group):
    """What is left of a load is making primitives."""
    loads = [json.loads(probe("pair", group / "prefill_ctx.onnx", group / "decode_ctx.onnx")) for _ in range(5)]
    assert min(load["context_read_ms"] for load in loads) < 1


def test_the_second_load_lays_no_weight_out_again(group):
    load = json.loads(probe("pair", group / "prefill_ctx.onnx", group / "decode_ctx.onnx"))
    assert load["repacked_bytes"] == 0
    if not SANITIZED:
        assert load["touched_bytes"] < 1 << 20, load
