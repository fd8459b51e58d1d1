"""ViT-B/16 and the encoder of Whisper tiny, as torch.onnx.export leaves the usual PyTorch implementations: static sizes, norms first."""

import math

import numpy as np

from builder import normal
from transformers import Transformer


class PreNormEncoder(Transformer):
    """Blocks of x + attention(norm(x)) and x + mlp(norm(x)) over [1, tokens, width]."""

    tokens = 0
    layers = 12
    epsilon = 1e-12
    norm_names = ("layernorm_before", "layernorm_after")

    def _split_heads(self, x, perm):
        wide = self.node("Reshape", [x, self.ints(1, self.tokens, self.heads, self.head_size)])
        return self.node("Transpose", [wide], perm=perm)

    def _attention(self, x):
        # attention would be uniform with the usual standard deviation of 0.02
        key = self._split_heads(self.linear(x, self.width, self.width, "key", std=0.05), [0, 2, 3, 1])
        value = self._split_heads(self.linear(x, self.width, self.width, "value"), [0, 2, 1, 3])
        query = self._split_heads(self.linear(x, self.width, self.width, "query", std=0.05), [0, 2, 1, 3])
        scores = self.node("Div", [self.node("MatMul", [query, key]), self.constant(math.sqrt(self.head_size))])
        context = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), value])
        joined = self.node("Reshape", [self.node("Transpose", [context], perm=[0, 2, 1, 3]), self.ints(1, self.tokens, self.width)])
        return self.linear(joined, self.width, self.width, "output")

    def gelu(self, x):
        erf = self.node("Erf", [self.node("Div", [x, self.constant(math.sqrt(2.0))])])
        return self.node("Mul", [self.node("Mul", [x, self.node("Add", [erf, self.constant(1.0)])]), self.constant(0.5)])

    def block(self, x):
        y = self.layer_norm(x, self.norm_names[0], self.epsilon)
        with self.scope("attention"):
            x = self.node("Add", [self._attention(y), x])
        y = self.layer_norm(x, self.norm_names[1], self.epsilon)
        with self.scope("mlp"):
            y = self.gelu(self.linear(y, self.width, 4 * self.width, "fc1", std=0.05))
            y = self.linear(y, 4 * self.width, self.width, "fc2")
        return self.node("Add", [y, x])

    def blocks(self, x):
        for layer in range(self.layers):
            with self.scope("layers", f"layers.{layer}"):
                x = self.block(x)
        return x

    def conv(self, x, leaf, out, inputs, kernel, **attributes):
        shape = (out, inputs, *kernel)
        weight = self.weight(leaf + ".weight", normal(self.parameter_name(leaf + ".weight"), shape, 1 / math.sqrt(inputs * math.prod(kernel))))
        bias = self.weight(leaf + ".bias", normal(self.parameter_name(leaf + ".bias"), (out,), 0.01))
        ones = [1] * len(kernel)
        with self.scope(leaf):
            return self.node("Conv", [x, weight, bias], kernel_shape=list(kernel), dilations=ones, group=1, **attributes)


class Vit(PreNormEncoder):
    """google/vit-base-patch16-224: patches of 16 x 16 pixels and a class token."""

    tokens = 197

    def __init__(self, name, opset):
        super().__init__(name, opset, width=768, heads=12)
        self.input("pixel_values", normal("pixel_values", (1, 3, 224, 224), 1.0))

    def build(self):
        with self.scope("embeddings"):
            x = self.conv("pixel_values", "projection", self.width, 3, (16, 16), pads=[0, 0, 0, 0], strides=[16, 16])
            x = self.node("Reshape", [x, self.ints(1, self.width, self.tokens - 1)])
            x = self.node("Transpose", [x], perm=[0, 2, 1])
            token = self.weight("cls_token", normal("cls_token", (1, 1, self.width), 0.02))
            positions = self.weight("position_embeddings", normal("position_embeddings", (1, self.tokens, self.width), 0.02))
            x = self.node("Add", [self.node("Concat", [token, x], axis=1), positions])
        x = self.layer_norm(self.blocks(x), "layernorm", self.epsilon)
        first = self.node("Gather", [x, self.constant(0, np.int64)], axis=1)
        weight = self.weight("classifier.weight", normal("classifier.weight", (1000, self.width), 0.02))
        bias = self.weight("classifier.bias", normal("classifier.bias", (1000,), 0.01))
        self.output(self.node("Gemm", [first, weight, bias], alpha=1.0, beta=1.0, transB=1), "logits", [1, 1000])
        return self


class WhisperEncoder(PreNormEncoder):
    """openai/whisper-tiny: 30 s of sound as 3000 frames of 80 mel bands."""

    tokens = 1500
    layers = 4
    epsilon = 1e-5
    norm_names = ("self_attn_layer_norm", "final_layer_norm")

    def __init__(self, name, opset):
        super().__init__(name, opset, width=384, heads=6)
        self.input("input_features", normal("input_features", (1, 80, 3000), 1.0))

    def build(self):
        x = self.gelu(self.conv("input_features", "conv1", self.width, 80, (3,), pads=[1, 1], strides=[1]))
        x = self.gelu(self.conv(x, "conv2", self.width, self.width, (3,), pads=[1, 1], strides=[2]))
        positions = self.weight("embed_positions.weight", normal("embed_positions.weight", (self.tokens, self.width), 0.1))
        x = self.node("Add", [self.node("Transpose", [x], perm=[0, 2, 1]), positions])
        self.output(self.layer_norm(self.blocks(x), "layer_norm", self.epsilon), "last_hidden_state", [1, self.tokens, self.width])
        return self


def vit_b_16(name, opset=17):
    return Vit(name, opset).build()


def whisper_tiny_encoder(name, opset=17):
    return WhisperEncoder(name, opset).build()
