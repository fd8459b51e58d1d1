"""What the bench derives from its measurements: operations of a model, shares of the peak, scaling, pages from files of results."""

import copy
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import contestants  # noqa: E402
import decoding  # noqa: E402
import flops  # noqa: E402
import llama  # noqa: E402
import report  # noqa: E402
import trained  # noqa: E402


def save(path, nodes, inputs, output, **weights):
    """A model of f32 values; shapes may have symbolic dims."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(
    ("node", "shape", "weights", "expected"),
    [
        (helper.make_node("MatMul", ["x", "w"], ["y"]), [5, "n", 7], {"w": (7, 3)}, 2 * 5 * 4 * 7 * 3),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transA=1), [7, "n"], {"w": (7, 3)}, 2 * 4 * 7 * 3),
        (helper.make_node("Conv", ["x", "w"], ["y"], group=2), ["n", 6, 9, 9], {"w": (8, 3, 3, 3)}, 2 * 4 * 8 * 7 * 7 * 3 * 9),
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"]), ["n", 6, 5], {"w": (6, 2, 3)}, 2 * 4 * 6 * 5 * 2 * 3),
        (
            helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3, direction="bidirectional"),
            ["n", 2, 5], {"w": (2, 12, 5), "r": (2, 12, 3)}, 2 * 4 * 2 * 2 * 12 * (5 + 3),
        ),
        (helper.make_node("Relu", ["x"], ["y"]), ["n", 8], {}, 0),
    ],
)  # fmt: skip
def test_operations_of_a_node(tmp_path, node, shape, weights, expected):
    assert flops.model_flops(save(tmp_path / "m.onnx", [node], {"x": shape}, "y", **weights), {"n": 4}) == expected


def test_operations_are_unknown_where_sizes_are(tmp_path):
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": [6, 7]}, "y", w=(7, 3))
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]))
    onnx.save(model, path)
    assert flops.model_flops(path, {}) is None


def test_time_outside_of_products():
    assert contestants.share_outside_products([("FusedConv", 3.0), ("MatMulNBits", 3.0), ("Softmax", 2.0)]) == 0.25
    assert contestants.share_outside_products([]) is None
    steps = [{"kind": "matmul", "flops": 1}, {"kind": "matmul", "flops": 0}, {"kind": "rnn", "flops": 0}, {"kind": "LSTM", "flops": 0}]
    assert [contestants.step_name(step) for step in steps] == ["matmul", "pass", "rnn", "LSTM"]


def row(latency_ms, **more):
    return {"load_ms": 1.0, "first_run_ms": 9.0, "latency_min_ms": latency_ms, "latency_p50_ms": latency_ms, **more}


def some_results():
    """At 1 and 2 threads; the reference is near the peak on `near` only."""
    def model(flops_count, mine, theirs):
        return {
            "flops": flops_count,
            "tolerance": 1e-3,
            "threads": {
                str(threads): {
                    "ctxgen": row(mine / threads, outside_share=0.25, peak_gflops_per_second=100.0 * threads), "ort": row(theirs / 1.5 ** (threads - 1)),
                }
                for threads in (1, 2)
            },
        }  # fmt: skip

    return {
        "setup": {"cpu": "a CPU", "cores": 2, "isa": "avx2", "threads": [1, 2], "iterations": 20, "rounds": 5, "ctxgen": "ctxgen 0"},
        "contestants": {"ctxgen": "ctxgen", "ort": "Peer"},
        "reference_key": "ort",
        "reference": "Peer",
        "models": {"near": model(1e9, 11.0, 11.0), "far": model(1e9, 10.0, 40.0)},
    }


def test_rates_shares_and_scaling():
    results = some_results()
    assert report.rate(results, "far", 1, "ctxgen") == pytest.approx(100)
    assert report.share_of_peak(results, "far", 1, "ort") == pytest.approx(0.25)
    assert report.scaling(results, "far", "ctxgen") == pytest.approx(2)
    rows = {cells[0]: cells[1:] for cells in report.throughput_rows(results)[:3]}
    assert rows["near"] == ["1.00", "11.00", "90.9", "0.91", "0.25", "5.50", "181.8", "0.91", "0.25", "2.00"]
    assert rows["Peer"][-1] == "1.50"


def test_models_whose_peer_is_near_the_peak_have_a_mean_of_their_own():
    rows = {cells[0]: cells[1:] for cells in report.run_ratio_rows(some_results(), "ort")}
    assert rows["near"] == ["1.00", "0.75"]
    assert rows["geometric mean where Peer has at least 0.88 of the peak (models)"] == ["1.00 (1)", "-"]
    assert rows["geometric mean where Peer has below 0.88 of the peak (models)"] == ["0.25 (1)", "0.38 (2)"]


def test_what_got_slower_is_marked():
    results = some_results()
    results["contestants"]["before"] = "ctxgen before"
    for name, milliseconds in (("near", 10.7), ("far", 9.9)):
        results["models"][name]["threads"]["1"]["before"] = row(milliseconds)
    rows = {cells[0]: cells[1:] for cells in report.run_ratio_rows(results, "before")}
    assert (rows["near"], rows["far"]) == (["1.03!", "-"], ["1.01", "-"])


def test_one_file_with_other_numbers_of_threads():
    results = some_results()
    assert report.load_rows(results) is None
    loads = {"load_ms": 2.0, "private_bytes": 100, "repacked_weights": 0, "verdict": "optimal"}
    other = {"load_ms": 3.0, "private_bytes": 110, "repacked_weights": 4, "verdict": "prefer recompilation"}
    results["models"]["near"]["loads"] = {"1": loads, "8": other}
    results["models"]["far"]["loads"] = {"error": "no"}
    (_, row_of_near) = report.load_rows(results)
    assert row_of_near == ["near", "1.00", "1.00", "0", "optimal", "1.50", "1.10", "4", "prefer recompilation"]


def test_files_are_joined_by_instruction_set():
    first, second, third = (copy.deepcopy(some_results()) for _ in range(3))
    del first["models"]["far"], second["models"]["near"]
    third["setup"]["isa"] = "sse41"
    whole, other = report.joined([first, second, third])
    assert (list(whole["models"]), other["setup"]["isa"]) == (["near", "far"], "sse41")
    second["setup"]["threads"] = [4]
    with pytest.raises(ValueError, match="threads"):
        report.joined([first, second])


def test_a_page_comes_from_a_file_of_results(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(some_results()))
    command = [sys.executable, BENCH / "run.py", "--from", tmp_path / "results.json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "geometric mean where Peer has below 0.88" in told
    page = report.document(some_results())
    assert "100.0 GFLOP/s with 1 thread, 200.0 GFLOP/s with 2 threads" in page
    assert all(f"## {heading}" in page for heading, _ in report.sections(some_results()))


def test_trained_models_get_inputs_for_dims_of_one(tmp_path):
    folder = tmp_path / "net"
    folder.mkdir()
    save(folder / "model.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["batch", 7]}, "y", w=(7, 3))
    (name, path), = trained.models_in(tmp_path).items()
    model = trained.read(name, path, tmp_path)
    assert (model.name, model.dims) == ("net", {"batch": 1})
    assert np.load(model.inputs["x"]).shape == (1, 7)


def test_blocks_of_llama_hold_the_same_integers():
    random = np.random.default_rng(5)
    stored, scales = random.integers(0, 256, (3, 2, 16), np.uint8), random.uniform(0.1, 1, (3, 2)).astype(np.float16)
    rows = llama.q4_0(stored, scales.astype(np.float32)).reshape(3, 2, 18)
    assert np.array_equal(np.ascontiguousarray(rows[..., :2]).view(np.float16)[..., 0], scales)
    for i in range(32):
        mine = stored[..., i // 2] >> (4 * (i % 2)) & 15
        assert np.array_equal(rows[..., 2 + i % 16] >> (4 * (i // 16)) & 15, mine), i


def test_llama_is_given_decoders_only(tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, "y")
    with pytest.raises(contestants.Failed, match="decoders"):
        llama.Decoder(path)
    assert flops.low_bit_bytes(path) == 0


def test_weights_of_few_bits_are_compared_per_byte():
    rows = {
        "ctxgen": {"latency_min_ms": 3.0, "read_gbytes_per_second": 20.0}, "ort": {"latency_min_ms": 4.0},
        "llama": {"latency_min_ms": 2.0, "weight_bytes": 18e6},
    }  # fmt: skip
    results = {"models": {"d": {"threads": {"1": rows}, "weight_bytes": 20e6}}, "contestants": {key: key for key in rows}}
    cells = {row[0]: row[1:] for row in report.weight_rows(results)[1:]}
    assert cells["d: ctxgen"] == ["20.0", "3.00", "6.7", "0.33", "-", "-"]
    assert cells["d: ort"] == ["20.0", "4.00", "5.0", "0.25", "0.75", "0.75"]
    assert cells["d: llama"] == ["18.0", "2.00", "9.0", "0.45", "1.50", "1.35"]
    results["models"]["d"]["weight_bytes"] = 0
    del rows["llama"]
    assert report.weight_rows(results) is None


def test_steps_of_decoders():
    """The median over rounds, all slow steps; a contestant that gives means only has no spread."""
    times = [1.0] * 97 + [1.4, 1.6, 3.0]
    one = contestants.step_summary(times, prefill_ms=20.0)
    assert one["step_ms"] == {"min": 1.0, "p50": 1.0, "p99": 3.0, "max": 3.0}
    assert (one["slow_steps"], one["steps"]) == (2, 100)
    other = contestants.step_summary([2 * elapsed for elapsed in times], prefill_ms=30.0)
    merged = decoding.over_rounds([one, one, other])
    assert merged["step_ms"] == {"min": 1.0, "p50": 1.0, "p99": 3.0, "max": 6.0}
    assert (merged["slow_steps"], merged["steps"], merged["prefill_ms"]) == (6, 300, 20.0)
    means = decoding.over_rounds([contestants.step_summary([4.0, 4.0]) | {"slow_steps": None}])
    titles = {"ctxgen": "ctxgen", "llama": "llama.cpp", "ort": "ONNX Runtime", "spin": "spinning"}
    measured = {"ctxgen": merged, "llama": means, "ort": {"error": "no such decoder"}, "spin": one}
    results = {"decode": "64,512", "contestants": titles, "models": {"net": {"2": measured}}}
    head, mine, llama_row, spin = decoding.rows_of(results, "net", "2")
    assert mine == ["ctxgen", "20.0", "1.00", "1.00", "3.00", "6.00", "6.00", "6 of 300", "-"]
    assert llama_row == ["llama.cpp", "-", "4.00", "4.00", "-", "-", "-", "-", "0.25"]
    assert spin[-1] == "-"
    assert len(head) == len(mine)
    assert "ONNX Runtime: no such decoder" in decoding.terminal(results)


def test_what_decode_takes():
    assert decoding.Decode.parse("1000,64") == decoding.Decode(1000, 64)
    for text in ("1000", "0,64", "1000,2", "a,b", "1,2,3"):
        with pytest.raises(ValueError):
            decoding.Decode.parse(text)
