"""`--profile` of run and bench, and the figures of bench beyond latency."""

import json

import pytest
from cli_support import conv_model, done, json_of, refused, save
from onnx import helper


@pytest.fixture
def mixed(tmp_path):
    """A context model with a partition and a node (Mod) that a CPU kernel runs."""
    tail = helper.make_node("Mod", ["z", "gb"], ["y"], name="rest", fmod=1)
    done("compile", "-q", save(conv_model(tail=tail), tmp_path / "net.onnx"))
    return tmp_path / "net_ctx.onnx"


def events(path):
    """The complete events of a trace, and the names of its rows."""
    trace = json.loads(path.read_text())
    assert set(trace) == {"displayTimeUnit", "traceEvents"}
    rows = [event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"]
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(rows) + len(complete) == len(trace["traceEvents"])
    for event in complete:
        assert {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"} <= set(event)
        assert event["ts"] >= 0 and event["dur"] >= 0
    return complete, rows


def test_a_run_has_one_event_per_primitive_and_kernel(mixed, tmp_path):
    done("run", mixed, "--profile", tmp_path / "p.json")
    complete, rows = events(tmp_path / "p.json")
    runs = [event for event in complete if event["cat"] == "run"]
    ops = [event for event in complete if event["cat"] != "run"]
    assert [run["name"] for run in runs] == ["run 0"] and rows == ["context 1"]
    table = json_of("bench", mixed, "--iterations", "1", "-v")["ops"]
    assert [(op["name"], op["args"]["implementation"]) for op in ops] == [(op["name"], op["implementation"]) for op in table]
    assert any(op["name"] == "rest" and op["args"]["implementation"] == "cpu" for op in ops)
    conv = next(op for op in ops if "conv" in op["cat"] and "flops" in op["args"])  # reorders of it have none
    assert conv["args"]["flops"] > 0 and conv["args"]["bytes"] > 0 and conv["args"]["gflops_per_second"] > 0
    for op in ops:  # inside of its run
        assert runs[0]["ts"] <= op["ts"] and op["ts"] + op["dur"] <= runs[0]["ts"] + runs[0]["dur"] + 0.01
    for one, next_ in zip(ops, ops[1:]):
        assert one["ts"] + one["dur"] <= next_["ts"] + 0.01


def test_a_bench_records_its_profiled_runs(mixed, tmp_path):
    done("bench", mixed, "--iterations", "1", "--profile", tmp_path / "p.json")
    complete, _ = events(tmp_path / "p.json")
    assert [event["name"] for event in complete if event["cat"] == "run"] == [f"run {i}" for i in range(10)]


def test_a_profile_that_cannot_be_written(mixed, tmp_path):
    refused(3, "IO_ERROR", "run", mixed, "--profile", tmp_path / "none" / "p.json")
    refused(1, "INVALID_ARGUMENT", "bench", mixed, "--compare", mixed, "--profile", tmp_path / "p.json", names=["--profile"])


def test_ops_have_rates_and_the_machine_has_peaks(mixed):
    result = json_of("bench", mixed, "--iterations", "2", "-v")
    assert result["peaks"]["gflops_per_second"] > 0.1 and result["peaks"]["gbytes_per_second"] > 0.1
    conv = next(op for op in result["ops"] if "conv" in op["kind"] and op["flops"] > 0)
    assert conv["gflops_per_second"] == pytest.approx(conv["flops"] / conv["us"] / 1e3)
    assert conv["gbytes_per_second"] == pytest.approx(conv["bytes"] / conv["us"] / 1e3)
    text = done("bench", mixed, "--iterations", "2", "-v").stdout
    assert "GB/s" in text and "peaks, measured" in text and "%)" in text


def test_int8_and_bf16_peaks_only_with_instructions(mixed, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    done("compile", "-q", mixed.with_name("net.onnx"))  # again, for what the limit leaves
    peaks = json_of("bench", mixed, "--iterations", "1", "-v")["peaks"]
    assert peaks["int8_gops_per_second"] == 0 and peaks["bf16_gflops_per_second"] == 0
    assert peaks["gflops_per_second"] > 0.1


def test_throughput_of_several_contexts(mixed):
    result = json_of("bench", mixed, "--iterations", "5", "--contexts", "3", "--threads", "1")
    throughput = result["throughput"]
    assert throughput["contexts"] == 3 and throughput["runs_per_second"] > 0
    assert throughput["resident_bytes"] >= throughput["private_bytes"] > 0
    assert result["shared_bytes"] == result["resident_bytes"] - result["private_bytes"]
    assert "throughput" not in json_of("bench", mixed, "--iterations", "1")
    both = json_of("bench", mixed, "--iterations", "2", "--contexts", "2", "--compare", mixed)
    assert both["compare"]["throughput"]["contexts"] == 2 and both["ratio"]["runs_per_second"] > 0
    assert "throughput" in done("bench", mixed, "--iterations", "2", "--contexts", "2").stdout
