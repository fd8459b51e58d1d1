"""Masks that nodes make become a flag of attention where they are causal. Here they are nearly that: every one gives ONNX Runtime's results, so none is taken
for what it is not."""

import pathlib
import sys

import numpy as np
import onnx
import pytest
from cli_support import ctxgen, json_of, run_arrays
from test_past_decoders import feeds, onnx_runtime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "models"))
import past_decoders

BATCH, TOKENS = 3, 6


def changed(base, op, change):
    """A decoder that makes its mask otherwise: `change` says what becomes of the inputs of `op` nodes."""

    class Changed(base):
        in_mask = False

        def _mask(self, x, places):
            self.in_mask = True
            mask = super()._mask(x, places)
            self.in_mask = False
            return mask

        def _expand(self, x, shape):
            in_mask, self.in_mask = self.in_mask, False  # what it makes are sizes
            made = super()._expand(x, shape)
            self.in_mask = in_mask
            return made

        def node(self, kind, inputs, outputs=1, **attributes):
            if not self.in_mask or kind != op:
                return super().node(kind, inputs, outputs, **attributes)
            self.in_mask = False
            kind, inputs, attributes = change(self, kind, inputs, attributes)
            made = super().node(kind, inputs, outputs, **attributes)
            self.in_mask = True
            return made

    return Changed("changed", past_decoders.TINY, 1, 8)


def whole(net, number):
    return net.constant(number, np.int64)


def as_op(name):
    return lambda net, _, inputs, attributes: (name, inputs, attributes)


def added(position, number):
    """The input is so much more."""

    def change(net, op, inputs, attributes):
        inputs = list(inputs)
        inputs[position] = net.node("Add", [inputs[position], whole(net, number)])
        return op, inputs, attributes

    return change


def given(position, number):
    """The input is that number."""

    def change(net, op, inputs, attributes):
        return op, [net.constant(number) if i == position else one for i, one in enumerate(inputs)], attributes

    return change


def swapped(net, op, inputs, attributes):
    return op, inputs[::-1], attributes


def whole_given(position, number):
    return lambda net, op, inputs, attributes: (op, [whole(net, number) if i == position else one for i, one in enumerate(inputs)], attributes)


def with_attributes(**more):
    return lambda net, op, inputs, attributes: (op, inputs, attributes | more)


def odd_rows_unpadded(net, op, inputs, attributes):
    """Padding differs from query to query."""
    ones = net.node("Mod", [net.node("Range", [whole(net, 0), net.dim("input_ids", 1), whole(net, 1)]), whole(net, 2)])
    rows = net.node("Cast", [net.node("Reshape", [ones, net.ints(1, 1, -1, 1)])], to=onnx.TensorProto.FLOAT)
    return op, [inputs[0], net.node("Add", [inputs[1], rows])], attributes


def odd_rows_visible(net, op, inputs, attributes):
    ones = net.node("Mod", [net.node("Range", [whole(net, 0), net.dim("input_ids", 1), whole(net, 1)]), whole(net, 2)])
    rows = net.node("Cast", [net.node("Reshape", [ones, net.ints(1, 1, -1, 1)])], to=onnx.TensorProto.BOOL)
    return op, [inputs[0], net.node("Or", [inputs[1], rows])], attributes


LLAMA = {
    "places": ("Greater", added(0, 1)),
    "places_of_queries": ("Greater", added(1, 1)),
    "own_key": ("Greater", as_op("GreaterOrEqual")),
    "earlier_keys": ("Greater", as_op("Less")),
    "smaller_triangle": ("Trilu", whole_given(1, 4)),
    "larger_triangle": ("Trilu", whole_given(1, 0)),
    "lower_triangle": ("Trilu", with_attributes(upper=0)),
    "another_number": ("Equal", given(1, 1.0)),
    "another_lowest": ("Where", given(1, -3e38)),
    "other_rows": ("Add", odd_rows_unpadded),
    "added": ("ScatterND", with_attributes(reduction="add")),
    "part_of_keys": ("Greater", lambda net, op, inputs, attributes: (op, [net.node("Mod", [inputs[0], whole(net, 5)]), inputs[1]], attributes)),
    "product": ("Mul", as_op("Add")),
}
SDPA = {
    "own_key": ("LessOrEqual", as_op("Less")),
    "later_keys": ("LessOrEqual", as_op("GreaterOrEqual")),
    "swapped": ("LessOrEqual", swapped),
    "places": ("LessOrEqual", added(0, 1)),
    "places_of_queries": ("LessOrEqual", added(1, 1)),
    "fewer": ("LessOrEqual", added(1, -1)),
    "either": ("And", as_op("Or")),
    "other_rows": ("And", odd_rows_visible),
}
CASES = [(past_decoders.LlamaPast, name) for name in LLAMA] + [(past_decoders.LlamaSdpa, name) for name in SDPA]


class LlamaLowest(past_decoders.LlamaSdpa):
    """Hidden keys get the lowest float: a query that sees none takes a mean of all values."""

    def _mask(self, x, places):
        return self.node("Where", [super()._mask(x, places), self.constant(0.0), self.constant(past_decoders.LOWEST)])

    def _weights(self, query, keys, mask):
        scores = self.node("MatMul", [query, self.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        return self.node("Softmax", [self.node("Add", [self.node("Mul", [scores, self.constant(0.25)]), mask])], axis=-1)


class LlamaCut(past_decoders.LlamaSdpa):
    """Nothing says how many rows the second layer has."""

    def _layer(self, x, mask, turns, layer):
        if layer == 1:
            rows = self.node("Mod", [self.dim(x, 1), whole(self, 1 << 20)])
            x = self.node("Reshape", [x, self.shape_of(self.dim(x, 0), rows, self.size.hidden)])
        return super()._layer(x, mask, turns, layer)


def expect_results_of_onnx_runtime(model, tmp_path):
    """Of padded batches, some of whose queries see no key, with and without a past."""
    session = onnx_runtime(model)
    assert ctxgen("compile", "-q", model).returncode == 0
    for past in (0, 3):
        mask = np.ones([BATCH, past + TOKENS], np.int64)
        mask[1, : past + 2] = 0
        mask[2, past + 1 :: 2] = 0
        fed = feeds(session, np.random.default_rng(3).integers(0, 500, (BATCH, TOKENS)), mask, past)
        for key in fed:
            if key.startswith("past"):
                fed[key] = np.random.default_rng(4).standard_normal(fed[key].shape, np.float32)
        expected = dict(zip([one.name for one in session.get_outputs()], session.run(None, fed), strict=True))
        found = run_arrays(tmp_path / "model_ctx.onnx", fed, tmp_path)
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4 * np.abs(value).max(), err_msg=key)


@pytest.mark.parametrize(("base", "name"), CASES)
def test_other_masks_are_values(tmp_path, base, name):
    op, change = (LLAMA if base is past_decoders.LlamaPast else SDPA)[name]
    model = tmp_path / "model.onnx"
    onnx.save(changed(base, op, change).build().model(), model)
    taken = [node for node in json_of("explain", model, "--json")["assignment"] if node["provider"] == "dnnl"]
    assert not [node for node in taken if node["op_type"] in ("Greater", "LessOrEqual", "ScatterND")]
    assert sum(node["op_type"] == "Softmax" for node in taken) == 2
    expect_results_of_onnx_runtime(model, tmp_path)


@pytest.mark.parametrize(("base", "node"), [(past_decoders.LlamaPast, "ScatterND"), (past_decoders.LlamaSdpa, "LessOrEqual"), (LlamaLowest, "LessOrEqual")])
def test_causal_masks_are_flags(tmp_path, base, node):
    onnx.save(base("causal", past_decoders.TINY, 1, 8).build().model(), tmp_path / "model.onnx")
    nodes = json_of("explain", tmp_path / "model.onnx", "--json")["assignment"]
    assert [one["provider"] for one in nodes if one["op_type"] == node] == ["dnnl"]
    expect_results_of_onnx_runtime(tmp_path / "model.onnx", tmp_path)


def test_a_mask_that_one_layer_cannot_make_is_a_value(tmp_path):
    onnx.save(LlamaCut("cut", past_decoders.TINY, 1, 8).build().model(), tmp_path / "model.onnx")
    nodes = json_of("explain", tmp_path / "model.onnx", "--json")["assignment"]
    assert [one["provider"] for one in nodes if one["op_type"] == "LessOrEqual"] == ["cpu"]
    assert [one["provider"] for one in nodes if one["op_type"] == "Softmax"] == ["dnnl", "dnnl"]
    expect_results_of_onnx_runtime(tmp_path / "model.onnx", tmp_path)
