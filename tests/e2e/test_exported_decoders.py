"""GPT-2, Llama, Qwen 3, T5 and Whisper as torch.onnx.export leaves them, with symbolic batch, length and past: few partitions, logits of ONNX Runtime, steps
that plan nothing. bench/exporters/export_decoders.py made the models, small ones with random weights (torch 2.14.1, transformers 5.12.1)."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from cli_support import done, ep_nodes, json_of, run_arrays

MODELS = Path(__file__).resolve().parent / "exported_decoders"
# GPT-2 looks its tokens up before it needs their size.
PARTITIONS = {"gpt2": 2, "llama": 1, "qwen3": 1, "t5": 1, "whisper": 1}
ENCODED = 7


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoders")
    for name in PARTITIONS:
        done("compile", "-q", MODELS / f"{name}.onnx", "-o", folder / f"{name}_ctx.onnx")
    return folder


def on_onnxruntime(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(MODELS / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])


def feeds(session, batch, tokens, past):
    """The second sequence is padded, and sees less of what is encoded."""
    random = np.random.default_rng(batch * 100 + tokens * 10 + past)
    sizes = {"batch_size": batch, "sequence_length": tokens, "past_sequence_length": past, "total_sequence_length": past + tokens, "encoder_sequence_length": ENCODED}
    given = {}
    for one in session.get_inputs():
        dims = [sizes.get(dim, dim) for dim in one.shape]
        if one.name == "input_ids":
            given[one.name] = random.integers(3, 97, dims)
        elif one.name.endswith("mask"):
            given[one.name] = np.ones(dims, np.int64)
            if batch > 1:
                given[one.name][1, :2] = 0
        else:
            given[one.name] = random.standard_normal(dims, np.float32)
    return given


@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_and_what_stays_says_why(compiled, name):
    assert len(ep_nodes(compiled / f"{name}_ctx.onnx")) == PARTITIONS[name]
    nodes = json_of("explain", MODELS / f"{name}.onnx", "--json")["assignment"]
    compared = [node["provider"] for node in nodes if node["op_type"] == "LessOrEqual"]
    assert compared == ["dnnl"]  # the masks of all are flags of attention
    for node in nodes:
        assert node["folded"] or node["provider"] == "dnnl" or node["reasons"] or node["op_type"] == "Constant", node


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize(("batch", "tokens", "past"), [(1, 6, 0), (1, 1, 6), (2, 1, 9), (2, 4, 3), (3, 2, 40), (1, 1, 200), (2, 70, 140)])
def test_results_are_those_of_onnx_runtime(compiled, tmp_path, name, batch, tokens, past):
    session = on_onnxruntime(name)
    given = feeds(session, batch, tokens, past)
    expected = dict(zip([one.name for one in session.get_outputs()], session.run(None, given), strict=True))
    found = run_arrays(compiled / f"{name}_ctx.onnx", given, tmp_path)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4 * np.abs(value).max(), err_msg=key)  # f32 sums in another order


@pytest.mark.parametrize("name", PARTITIONS)
def test_steps_plan_nothing(compiled, name):
    decoded = json.loads(done("bench", compiled / f"{name}_ctx.onnx", "--decode", "8,24", "--threads", "1", "--json").stdout)["decode"]
    made = decoded["from_third_step"]
    assert (made["plans_made"], made["primitives_made"]) == (0, 0)
