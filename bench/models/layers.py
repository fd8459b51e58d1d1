"""Layers that transformers and modern convolutional networks have in common, as torch.onnx.export leaves them."""

import math

import numpy as np

from builder import Builder, normal

INIT_STD = 0.02
LAST = 2**63 - 1  # what the exporter writes for the end of an open slice


class Layers(Builder):
    # ---- parameters -----------------------------------------------------------------------------------------------

    def normal_weight(self, leaf, shape, std, mean=0.0):
        """A parameter under its own name with seeded values."""
        return self.weight(leaf, normal(self.parameter_name(leaf), shape, std, mean))

    def vector(self, leaf, size, std=0.01, mean=0.0):
        return self.normal_weight(leaf, (size,), std, mean)

    # ---- linear layers --------------------------------------------------------------------------------------------

    def linear(self, x, inputs, out, leaf, std=INIT_STD, bias=True):
        """nn.Linear on more than two axes: the exporter transposes the weight, and the bias comes first."""
        weight = normal(self.parameter_name(leaf + ".weight"), (out, inputs), std)
        offset = self.vector(leaf + ".bias", out) if bias else None
        made = self.made_weight("MatMul", np.ascontiguousarray(weight.T))
        with self.scope(leaf):
            product = self.node("MatMul", [x, made])
            return self.node("Add", [offset, product]) if bias else product

    def gemm(self, x, inputs, out, leaf, std=INIT_STD):
        """nn.Linear on two axes."""
        parameters = [self.normal_weight(leaf + ".weight", (out, inputs), std), self.vector(leaf + ".bias", out)]
        with self.scope(leaf):
            return self.node("Gemm", [x, *parameters], alpha=1.0, beta=1.0, transB=1)

    def conv(self, x, leaf, out, inputs, kernel, *, stride=1, pad=0, group=1, bias=True, gain=1.0):
        """`kernel` has an entry per spatial axis; stride and padding are the same on all of them and on both sides."""
        rank = len(kernel)
        shape = (out, inputs // group, *kernel)
        parameters = [self.normal_weight(leaf + ".weight", shape, math.sqrt(gain / math.prod(shape[1:])))]
        if bias:
            parameters.append(self.vector(leaf + ".bias", out))
        with self.scope(leaf):
            return self.node(
                "Conv", [x, *parameters], dilations=[1] * rank, group=group, kernel_shape=list(kernel),
                pads=[pad] * (2 * rank), strides=[stride] * rank,
            )  # fmt: skip

    # ---- norms ----------------------------------------------------------------------------------------------------

    def layer_norm(self, x, leaf, epsilon, width):
        """One operator from opset 17 on, before that the arithmetic."""
        gamma, beta = self.vector(leaf + ".weight", width, 0.05, 1.0), self.vector(leaf + ".bias", width, 0.02)
        with self.scope(leaf):
            if self.opset >= 17:
                return self.node("LayerNormalization", [x, gamma, beta], axis=-1, epsilon=epsilon)
            centred = self.node("Sub", [x, self.node("ReduceMean", [x], axes=[-1])])
            squares = self.node("Pow", [centred, self.constant(2.0)])
            variance = self.node("ReduceMean", [squares], axes=[-1])
            deviation = self.node("Sqrt", [self.node("Add", [variance, self.constant(epsilon)])])
            scaled = self.node("Mul", [self.node("Div", [centred, deviation]), gamma])
            return self.node("Add", [scaled, beta])

    def group_norm(self, x, leaf, groups, channels, spatial_axes=2, epsilon=1e-5):
        """InstanceNormalization of the groups, then the affine part, whose parameters the exporter unsqueezes ahead."""
        shape = (channels, *[1] * spatial_axes)
        scale = self.made_weight("Mul", normal(self.parameter_name(leaf + ".weight"), shape, 0.05, 1.0))
        offset = self.made_weight("Add", normal(self.parameter_name(leaf + ".bias"), shape, 0.05))
        with self.scope(leaf):
            grouped = self.node("Reshape", [x, self.ints(0, groups, -1)])
            ones, zeros = self.constant(np.ones(groups)), self.constant(np.zeros(groups))
            normed = self.node("InstanceNormalization", [grouped, ones, zeros], epsilon=epsilon)
            normed = self.node("Reshape", [normed, self.node("Shape", [x])])
            return self.node("Add", [self.node("Mul", [normed, scale]), offset])

    # ---- activations ----------------------------------------------------------------------------------------------

    def gelu(self, x):
        erf = self.node("Erf", [self.node("Div", [x, self.constant(math.sqrt(2.0))])])
        return self.node("Mul", [self.node("Mul", [x, self.node("Add", [erf, self.constant(1.0)])]), self.constant(0.5)])

    def silu(self, x):
        return self.node("Mul", [x, self.node("Sigmoid", [x])])

    # ---- movement -------------------------------------------------------------------------------------------------

    def transpose(self, x, *perm):
        return self.node("Transpose", [x], perm=list(perm))

    def reshape(self, x, *dims):
        return self.node("Reshape", [x, self.ints(*dims)])

    def slice(self, x, axis, start=0, end=LAST, step=1):
        return self.node("Slice", [x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step)])

    def first(self, x):
        """x[:, 0]"""
        return self.node("Gather", [x, self.constant(0, np.int64)], axis=1)

    # ---- attention ------------------------------------------------------------------------------------------------

    def split_heads(self, x, tokens, heads, head_size, perm=(0, 2, 1, 3)):
        return self.transpose(self.reshape(x, 1, tokens, heads, head_size), *perm)

    def join_heads(self, x, tokens, width):
        return self.reshape(self.transpose(x, 0, 2, 1, 3), 1, tokens, width)

    def eager_attention(self, query, key, value, head_size, mask=None):
        """softmax(q @ k / sqrt(size) + mask) @ v; `key` is [..., head_size, tokens]."""
        scores = self.node("Div", [self.node("MatMul", [query, key]), self.constant(math.sqrt(head_size))])
        if mask is not None:
            scores = self.node("Add", [scores, mask])
        return self.node("MatMul", [self.node("Softmax", [scores], axis=-1), value])

    def scaled_dot_product_attention(self, query, key, value, head_size):
        """F.scaled_dot_product_attention with its `scale` given: both operands get its root; `key` is [..., tokens, head_size]."""
        scale = self.constant(1 / math.sqrt(head_size))
        query = self.node("Mul", [query, self.node("Sqrt", [scale])])
        key = self.node("Mul", [self.transpose(key, 0, 1, 3, 2), self.node("Sqrt", [scale])])
        return self.node("MatMul", [self.node("Softmax", [self.node("MatMul", [query, key])], axis=-1), value])
