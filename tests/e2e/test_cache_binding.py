"""Decoders in stock ONNX Runtime with the plugin EP and IO binding: one buffer is past and present of each layer."""

import numpy as np
import pytest
from decoder_support import compiled_decoder
from test_plugin import onnxruntime, session

CAPACITY, PROMPT, STEPS = 80, 8, 40
SENTINEL = 7.0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return compiled_decoder(tmp_path_factory.mktemp("decoder"))


def on_cpu(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


class Caches:
    """Buffers for so many tokens, each bound as past and as present."""

    def __init__(self, runner):
        self.runner = runner
        self.buffers = {
            one.name: np.full([1, one.shape[1], CAPACITY, one.shape[3]], SENTINEL, np.float32) for one in runner.get_inputs() if one.name.startswith("past")
        }

    def logits(self, ids, total):
        binding = self.runner.io_binding()
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", np.ones([1, total], np.int64))
        for name, buffer in self.buffers.items():
            place = ("cpu", 0, np.float32, buffer.shape, buffer.ctypes.data)
            binding.bind_input(name, *place)
            binding.bind_output(name.replace("past_key_values", "present"), *place)
        binding.bind_output("logits", "cpu")
        self.runner.run_with_iobinding(binding)
        return binding.get_outputs()[-1].numpy()[0, -1]


def decode(runner):
    caches = Caches(runner)
    ids, rows = (np.arange(PROMPT) * 37 + 11)[None] % 97, []
    for total in range(PROMPT, PROMPT + STEPS + 1):
        rows.append(caches.logits(ids, total))
        ids = rows[-1].argmax()[None, None]
        for name, buffer in caches.buffers.items():
            assert (buffer[:, :, total:] == SENTINEL).all(), f"{name}: written beyond {total} tokens"
            assert (buffer[:, :, :total] != SENTINEL).any(3).all(), f"{name}: not appended to at {total} tokens"
    return np.array(rows), caches.buffers


@pytest.mark.parametrize("kind", ["ordinary", "context"])
def test_one_buffer_is_past_and_present(model, kind):
    expected, expected_buffers = decode(on_cpu(model))
    found, buffers = decode(session(model if kind == "ordinary" else model.with_name("net_ctx.onnx")))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())  # f32 sums in another order
    assert found.argmax(1).tolist() == expected.argmax(1).tolist()
    for name, buffer in buffers.items():
        np.testing.assert_allclose(buffer, expected_buffers[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_lengths_beyond_the_buffer_are_refused(model):
    """Nothing is written."""
    caches = Caches(session(model.with_name("net_ctx.onnx")))
    for total in (CAPACITY + 1, 5000):
        with pytest.raises(Exception, match="Error in execution"):
            caches.logits(np.array([[3]]), total)
    for buffer in caches.buffers.values():
        assert (buffer == SENTINEL).all()
