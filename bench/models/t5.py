"""The encoder of T5-small, as exporters write it for any batch and length: root mean square norms, biases of relative positions."""

import math

import numpy as np
from onnx import TensorProto

from transformers import LOWEST, Transformer, token_ids

_BUCKETS, _FURTHEST = 32, 128


class T5Encoder(Transformer):
    vocabulary, layers, hidden = 32128, 6, 2048
    dims = ("batch_size", "sequence_length")

    def __init__(self, name, opset, sequence):
        super().__init__(name, opset, width=512, heads=8)
        mask = np.ones((1, sequence), dtype=np.int64)
        mask[:, sequence * 3 // 4 :] = 0  # a padded sentence
        self.input("input_ids", token_ids("input_ids", (1, sequence), self.vocabulary), self.dims)
        self.input("attention_mask", mask, self.dims)

    def build(self):
        with self.scope("shared"):
            x = self.node("Gather", [self.normal_weight("weight", (self.vocabulary, self.width), 1.0), "input_ids"])
        bias = None
        for layer in range(self.layers):
            with self.scope("encoder", f"block.{layer}"):
                if bias is None:
                    bias = self.node("Add", [self.position_bias(), self.mask()])
                x = self.block(x, bias)
        self.output(self.rms_norm(x, "final_layer_norm"), "last_hidden_state", [*self.dims, self.width])
        return self

    def mask(self):
        kept = self.node("Cast", [self.unsqueeze(self.unsqueeze("attention_mask", 1), 2)], to=TensorProto.FLOAT)
        return self.node("Mul", [self.node("Sub", [self.constant(1.0), kept]), self.constant(LOWEST)])

    def rms_norm(self, x, leaf):
        scale = self.vector(leaf + ".weight", self.width, 0.05, 1.0)
        with self.scope(leaf):
            mean = self.node("ReduceMean", [self.node("Pow", [x, self.constant(2.0)])], axes=[-1])
            root = self.node("Sqrt", [self.node("Add", [mean, self.constant(1e-6)])])
            return self.node("Mul", [scale, self.node("Mul", [x, self.node("Div", [self.constant(1.0), root])])])

    def position_bias(self):
        """[1, heads, length, length], from a table by the bucket of each distance."""
        length = self.dim("input_ids", 1)
        positions = self.node("Range", [self.constant(0, np.int64), length, self.constant(1, np.int64)])
        distance = self.node("Sub", [self.unsqueeze(positions, 0), self.unsqueeze(positions, 1)])
        table = self.normal_weight("relative_attention_bias.weight", (_BUCKETS, self.heads), 0.5)
        values = self.node("Gather", [table, self.buckets(distance)])
        return self.unsqueeze(self.transpose(values, 2, 0, 1), 0)

    def buckets(self, distance):
        """Half of the buckets are for each direction; half of these for a distance each, the others for logarithmic ranges."""
        half, exact = _BUCKETS // 2, _BUCKETS // 4
        later = self.node("Cast", [self.node("Greater", [distance, self.constant(0, np.int64)])], to=TensorProto.INT64)
        later = self.node("Mul", [later, self.constant(half, np.int64)])
        far = self.node("Abs", [distance])
        small = self.node("Less", [far, self.constant(exact, np.int64)])
        logarithm = self.node("Log", [self.node("Div", [self.node("Cast", [far], to=TensorProto.FLOAT), self.constant(exact)])])
        share = self.node("Div", [logarithm, self.constant(math.log(_FURTHEST / exact))])
        large = self.node("Cast", [self.node("Mul", [share, self.constant(half - exact)])], to=TensorProto.INT64)
        large = self.node("Add", [large, self.constant(exact, np.int64)])
        most = self.node("Expand", [self.constant(half - 1, np.int64), self.node("Shape", [large])])
        return self.node("Add", [later, self.node("Where", [small, far, self.node("Min", [large, most])])])

    def block(self, x, bias):
        with self.scope("layer.0"):
            x = self.node("Add", [x, self.attention(self.rms_norm(x, "layer_norm"), bias)])
        with self.scope("layer.1"):
            y = self.linear(self.rms_norm(x, "layer_norm"), self.width, self.hidden, "DenseReluDense.wi", 0.05, bias=False)
            y = self.linear(self.node("Relu", [y]), self.hidden, self.width, "DenseReluDense.wo", 0.02, bias=False)
            return self.node("Add", [x, y])

    def attention(self, x, bias):
        """Without a scale: T5 has it in its weights."""
        batch = self.dim(x, 0)

        def heads(leaf, std, perm=(0, 2, 1, 3)):
            y = self.linear(x, self.width, self.width, leaf, std, bias=False)
            return self.transpose(self.node("Reshape", [y, self.shape_of(batch, -1, self.heads, self.head_size)]), *perm)

        with self.scope("SelfAttention"):
            query, key, value = heads("q", 0.02), heads("k", 0.02, (0, 2, 3, 1)), heads("v", 0.05)
            scores = self.node("Add", [self.node("MatMul", [query, key]), bias])
            y = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), value])
            y = self.node("Reshape", [self.transpose(y, 0, 2, 1, 3), self.shape_of(batch, -1, self.width)])
            return self.linear(y, self.width, self.width, "o", 0.05, bias=False)


def t5_small_encoder(name, opset=17, sequence=128):
    return T5Encoder(name, opset, sequence).build()
