"""`ctxgen doctor`, and `ctxgen` without a word."""

import os
import subprocess

import pytest
from cli_support import add_model, done, dnnl_provider, json_of
from report_support import save


def doctor(**environment):
    """What it finds with these variables set; None unsets one."""
    all_ = {**os.environ, **environment}
    command = [os.environ["CTXGEN_BIN"], "doctor"]
    said = subprocess.run(command, env={k: v for k, v in all_.items() if v is not None}, capture_output=True, text=True, check=True)
    return said.stdout


def test_it_says_what_the_machine_has():
    found = json_of("doctor")
    machine = found["machine"]
    assert machine["processors"] == len(os.sched_getaffinity(0))
    assert 1 <= machine["cores"] <= machine["processors"] <= machine["online"]
    assert machine["memory_bytes"] > 1 << 28
    assert found["peaks"]["gflops_per_second"] > 0 and found["peaks"]["gbytes_per_second"] > 0
    provider = dnnl_provider()
    assert (found["isa"], found["instruction_sets"], found["versions"]["library"]) == (provider["isa"], provider["instruction_sets"], provider["version"])
    usable = {one["name"] for one in found["instruction_sets"] if one["usable"]}
    assert any(line.startswith("AMX") for line in found["faster_elsewhere"]) == (not any("amx" in name for name in usable))


def test_the_text_fits_a_screen():
    lines = done("doctor").stdout.splitlines()
    assert len(lines) < 40 and lines[0].startswith("ctxgen ")


@pytest.mark.parametrize(
    ("name", "value"),
    [("ONEDNN_DEFAULT_FPMATH_MODE", "BF16"), ("OMP_PROC_BIND", "true"), ("OMP_NUM_THREADS", "4096"), ("OMP_NUM_THREADS", "many"), ("ONEDNN_MAX_CPU_ISA", "AVX2")],
)
def test_traps_are_named(name, value):
    assert f"trap: {name}={value}\n" in doctor(**{name: value})


def test_no_trap_where_nothing_is_set():
    assert "trap: OMP_" not in doctor(OMP_NUM_THREADS=None, OMP_PROC_BIND=None, OMP_DYNAMIC=None)


def test_the_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CTXGEN_CACHE_DIR", str(folder))
    assert json_of("doctor")["cache"] == {"folder": str(folder), "there": False, "writable": False, "entries": 0, "bytes": 0}
    assert not folder.exists(), "looking does not make it"
    done("compile", save(add_model(), tmp_path / "net.onnx"))
    state = json_of("doctor")["cache"]
    assert state["there"] and state["writable"] and state["entries"] > 0 and state["bytes"] > 0


def test_ctxgen_alone_says_what_to_do(tmp_path):
    assert "ctxgen report MODEL.onnx" in done(cwd=tmp_path).stdout
    for name in ("b.onnx", "a b.onnx", "$(x).onnx", "a_ctx.onnx"):
        save(add_model(), tmp_path / name)
    said = done(cwd=tmp_path).stdout
    assert "ctxgen compile b.onnx " in said and "b_ctx.onnx and b_dnnl.bin" in said
    for verb in ("doctor", "report", "compile", "bench"):
        assert f"  ctxgen {verb} " in said
