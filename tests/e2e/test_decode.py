"""A decoder with 4-bit weights, as GenAI's builder writes it, a token at a time: caches that stay, states, `ctxgen bench --decode`."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from cli_support import conv_model, ctxgen, done, save
from decoder_support import compiled_decoder

TOOL = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "decode_tokens"
PROMPT, STEPS = 64, 512


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return compiled_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.fixture(scope="module")
def compiled(model):
    return model.with_name("net_ctx.onnx")


def decode(path, how, prompt=PROMPT, steps=STEPS):
    finished = subprocess.run([TOOL, path, how, str(prompt), str(steps)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout), finished.stderr


def decode_with_onnxruntime(path, prompt, steps):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    pasts = {one.name: np.zeros([1, one.shape[1], 0, one.shape[3]], np.float32) for one in session.get_inputs() if one.name.startswith("past")}
    names = [one.name for one in session.get_outputs()]
    ids, tokens = (np.arange(prompt) * 37 + 11) % 97, []
    for length in range(prompt, prompt + steps + 1):
        outputs = session.run(None, {"input_ids": ids[None], "attention_mask": np.ones([1, length], np.int64), **pasts})
        tokens.append(int(outputs[0][0, -1].argmax()))
        ids = np.array(tokens[-1:])
        pasts = {name.replace("present", "past_key_values"): value for name, value in zip(names[1:], outputs[1:], strict=True)}
    return tokens


def test_a_state_gives_the_tokens_of_onnx_runtime(model, compiled):
    found, callers = decode(compiled, "state")
    assert found["tokens"] == decode_with_onnxruntime(model, PROMPT, STEPS)
    assert len(set(found["tokens"])) > 3
    assert found["plans"] == 0
    assert found["allocations"] == 0, callers  # ctxgen's own, from the third step on


def test_presents_given_back_as_pasts_plan_nothing_either(compiled):
    found, _ = decode(compiled, "feedback")
    assert found["tokens"] == decode(compiled, "state")[0]["tokens"]
    assert found["plans"] == 0


@pytest.mark.parametrize(("cache_bits", "norms"), [(0, True), (8, False), (8, True), (4, True)])
def test_caches_of_integers_and_norms_of_heads(tmp_path, cache_bits, norms):
    """The tokens of the `cpu` provider, whose kernels another test compares with ONNX Runtime and in double precision."""
    path = compiled_decoder(tmp_path, cache_bits=cache_bits, norms=norms)
    compiled = path.with_name("net_ctx.onnx")
    found, callers = decode(compiled, "state", 16, 100)
    assert found["tokens"] == decode(path, "state", 16, 100)[0]["tokens"]
    assert len(set(found["tokens"])) > 3
    assert (found["plans"], found["allocations"]) == (0, 0), callers
    decoded = json.loads(done("bench", compiled, "--decode", "16,20", "--threads", "1", "--json").stdout)["decode"]
    assert decoded["cache_bytes"] == 2 * 2 * 2 * 37 * 16 * (cache_bits or 32) // 8
    assert all(pair["grows"] and pair["in_place"] for pair in decoded["state"])


def test_the_cpu_provider_keeps_states_too(model, compiled):
    """Its kernels append to a copy."""
    assert decode(model, "state", 8, 40)[0]["tokens"] == decode(compiled, "state", 8, 40)[0]["tokens"]


@pytest.mark.parametrize("how", ["forks", "states"])
def test_forked_and_rewound_states_go_on_alike(compiled, how):
    found, _ = decode(compiled, how, 16, 24)
    assert found["agree"]
    assert found["tokens"] == decode(compiled, "state", 16, 24)[0]["tokens"][:24]
    assert found["growth"] <= 4096  # a state of the prompt has 8192 bytes of caches; freed chunks of an allocator's caches count as allocated


def test_bench_counts_what_steps_make(compiled):
    result = json.loads(done("bench", compiled, "--decode", "16,20", "--threads", "1", "--json").stdout)
    assert result["partitions"] == 1
    decoded = result["decode"]
    assert (decoded["prompt"], decoded["steps"]) == (16, 20)
    assert decoded["from_third_step"] == {"plans_made": 0, "primitives_made": 0, "bytes_allocated": 0}
    assert decoded["cache_bytes"] == 2 * 2 * 2 * 37 * 16 * 4  # layers, keys and values, heads, tokens, size, f32
    assert 0 < decoded["step_ms"]["min"] <= decoded["step_ms"]["p50"] <= decoded["step_ms"]["p99"] <= decoded["step_ms"]["max"]
    assert decoded["slow_steps"] <= 18 / 2  # of those from the third on; the median is not among them
    assert (decoded["slow_steps"] > 0) == (decoded["step_ms"]["max"] > 1.5 * decoded["step_ms"]["p50"])
    assert decoded["prefill_ms"] > 0
    assert decoded["step_bytes"] > decoded["cache_bytes"]
    names = [(pair["input"], pair["output"]) for pair in decoded["state"]]
    assert names == [(f"past_key_values.{layer}.{one}", f"present.{layer}.{one}") for layer in range(2) for one in ("key", "value")]
    assert all(pair["grows"] and pair["in_place"] for pair in decoded["state"])


def test_bench_lists_what_it_paired(compiled):
    printed = done("bench", compiled, "--decode", "4,3", "--state", "auto").stdout
    assert "state: past_key_values.0.key = present.0.key, in place" in printed
    assert "from the third step on: 0 plans, 0 primitives, 0 bytes allocated" in printed


def test_named_pairs_and_half_a_cache(compiled):
    """Keys without their values are not appended in place."""
    named = [f"past_key_values.{layer}.{one}=present.{layer}.{one}" for layer in range(2) for one in ("key", "value")]
    flags = [word for pair in named for word in ("--state", pair)]
    decoded = json.loads(done("bench", compiled, "--decode", "4,3", *flags, "--json").stdout)["decode"]
    assert [pair["in_place"] for pair in decoded["state"]] == [True] * 4


@pytest.mark.parametrize(
    "flags",
    [
        ["--decode", "4"], ["--decode", "0,4"], ["--decode", "4,-1"], ["--decode", "4,9999999999"], ["--decode", "a,b"],
        ["--decode", "4,4", "--contexts", "2"], ["--decode", "4,4", "-v"], ["--state", "auto"],
        ["--decode", "4,4", "--state", "past"], ["--decode", "4,4", "--state", "none=present.0.key"],
        ["--decode", "4,4", "--state", "past_key_values.0.key=none"],
        ["--decode", "4,4", "--state", "past_key_values.0.key=logits"],
        ["--decode", "4,4", "--state", "past_key_values.0.key=present.0.key", "--state", "past_key_values.0.key=present.1.key"],
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(compiled, flags):
    assert ctxgen("bench", compiled, *flags).returncode == 1


def test_a_model_without_tokens_is_refused(tmp_path):
    path = save(conv_model(), tmp_path / "net.onnx")
    assert ctxgen("bench", path, "--decode", "4,4").returncode == 1
