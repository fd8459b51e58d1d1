"""Decoders whose past has any length, as torch.onnx.export leaves them node by node: the past grows by Concat, masks are chains of nodes. Attention is one
op, a step with a new length plans nothing, and every logit is ONNX Runtime's."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from cli_support import ctxgen, done, ep_nodes, json_of, run_arrays

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "models"))
import past_decoders

TOOL = pathlib.Path(os.environ["CTXGEN_BUILD"]) / "bin" / "decode_tokens"
NAMES = ("tiny_llama", "tiny_llama_sdpa", "tiny_gpt2")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoders")
    for name in NAMES:
        onnx.save(getattr(past_decoders, name)().model(), folder / f"{name}.onnx")
        done("compile", "-q", folder / f"{name}.onnx")
    return folder


def onnx_runtime(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds(session, ids, mask, pasts):
    """`pasts`: by name, or the length of pasts of zeros."""
    length = mask.shape[1] - ids.shape[1]
    given = {"input_ids": ids, "attention_mask": mask, "position_ids": np.arange(length, mask.shape[1], dtype=np.int64)[None].repeat(len(ids), 0)}
    for one in session.get_inputs():
        if one.name.startswith("past"):
            given[one.name] = np.zeros([len(ids), one.shape[1], pasts, one.shape[3]], np.float32) if isinstance(pasts, int) else pasts[one.name]
    return {one.name: given[one.name] for one in session.get_inputs()}


def decode_with_onnx_runtime(path, prompt, steps):
    """The last logits of each run, the likeliest token going into the next."""
    session = onnx_runtime(path)
    names = [one.name for one in session.get_outputs()]
    ids, pasts, logits = ((np.arange(prompt) * 37 + 11) % 97)[None], 0, []
    for length in range(prompt, prompt + steps + 1):
        outputs = session.run(None, feeds(session, ids, np.ones([1, length], np.int64), pasts))
        logits.append(outputs[0][0, -1])
        ids = logits[-1].argmax()[None, None]
        pasts = {name.replace("present", "past_key_values"): value for name, value in zip(names[1:], outputs[1:], strict=True)}
    return np.array(logits)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["state", "feedback"])
def test_all_logits_are_those_of_onnx_runtime(models, tmp_path, name, how):
    prompt, steps = 24, 160
    finished = subprocess.run([TOOL, models / f"{name}_ctx.onnx", how, str(prompt), str(steps), tmp_path / "logits"], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    expected = decode_with_onnx_runtime(models / f"{name}.onnx", prompt, steps)
    logits = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())  # f32 sums in another order
    assert found["tokens"] == expected.argmax(1).tolist()
    assert len(set(found["tokens"])) > 3
    assert found["plans"] == 0
    if how == "state":
        assert found["allocations"] == 0, finished.stderr


@pytest.mark.parametrize("name", NAMES)
def test_one_partition_and_steps_that_make_nothing(models, name):
    compiled = models / f"{name}_ctx.onnx"
    assert len(ep_nodes(compiled)) == 1
    decoded = json.loads(done("bench", compiled, "--decode", "16,48", "--threads", "1", "--json").stdout)["decode"]
    made = decoded["from_third_step"]
    assert made == {"plans_made": 0, "primitives_made": 0, "bytes_allocated": 0}
    assert all(pair["in_place"] for pair in decoded["state"])


@pytest.mark.parametrize("name", NAMES)
def test_what_stays_outside_says_why(models, name):
    nodes = json_of("explain", models / f"{name}.onnx", "--json")["assignment"]
    assert any("it makes a mask, which grows in each run" in reason for node in nodes for reason in node["reasons"])
    inner = [node for node in nodes if node["op_type"] in ("Softmax", "MatMul", "Concat") and ("/layers/" in node["name"] or "/h." in node["name"])]
    assert len(inner) > 20
    assert {node["provider"] for node in inner if not node["folded"]} == {"dnnl"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("past", [0, 3])
def test_padded_batches_and_rows_that_see_no_key(models, tmp_path, name, past):
    """The second sequence is padded on the left, so its first queries see nothing: what graphs make of the lowest float added to all logits."""
    session = onnx_runtime(models / f"{name}.onnx")
    random = np.random.default_rng(3)
    ids = random.integers(0, 500, (3, 6))
    mask = np.ones([3, past + 6], np.int64)
    mask[1, : past + 2] = 0
    mask[2, past + 1 :: 2] = 0
    given = feeds(session, ids, mask, past)
    for key in given:
        if key.startswith("past"):
            given[key] = random.standard_normal(given[key].shape, np.float32)
    expected = dict(zip([one.name for one in session.get_outputs()], session.run(None, given), strict=True))
    found = run_arrays(models / f"{name}_ctx.onnx", given, tmp_path)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4 * np.abs(value).max(), err_msg=key)


def save_data_set(folder, inputs, outputs):
    folder.mkdir(parents=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for index, value in enumerate(values):
            (folder / f"{kind}_{index}.pb").write_bytes(onnx.numpy_helper.from_array(value).SerializeToString())


def test_run_from_a_state(models, tmp_path):
    """Data sets continue each other, whatever they say of pasts; without a state their pasts count."""
    session, compiled = onnx_runtime(models / "tiny_llama.onnx"), models / "tiny_llama_ctx.onnx"
    names = [one.name for one in session.get_outputs()]
    first = feeds(session, np.arange(5)[None] * 31, np.ones([1, 5], np.int64), 0)
    expected = session.run(None, first)
    given = {name: first[name] for name in ("input_ids", "attention_mask")}
    found = run_arrays(compiled, given, tmp_path / "run", "--state", "auto")
    for name, value in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4 * np.abs(value).max(), err_msg=name)

    pasts = {name.replace("present", "past_key_values"): value for name, value in zip(names[1:], expected[1:], strict=True)}
    second = feeds(session, np.array([[7]]), np.ones([1, 6], np.int64), pasts)
    save_data_set(tmp_path / "data" / "test_data_set_0", first.values(), expected)
    outputs = session.run(None, second)
    wrong = {name: value if name in given else value + 1 for name, value in second.items()}
    save_data_set(tmp_path / "data" / "test_data_set_1", wrong.values(), outputs)
    flags = ["--test-data", tmp_path / "data", "--rtol", "1e-3", "--atol", "1e-3"]
    done("run", compiled, "--state", "auto", *flags)
    assert ctxgen("run", compiled, *flags).returncode == 4

    np.save(tmp_path / "past.npy", second["past_key_values.0.key"])
    finished = ctxgen("run", compiled, "--state", "auto", "--input", f"past_key_values.0.key={tmp_path / 'past.npy'}")
    assert finished.returncode == 1 and "comes from the state" in finished.stderr
    assert ctxgen("run", compiled, "--state", "past_key_values.0.key").returncode == 1
