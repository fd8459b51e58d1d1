"""CRNN, which reads a line of text: a VGG-like stack, columns as a sequence, two bidirectional LSTMs."""

import numpy as np

from builder import normal, uniform
from layers import Layers

# channels, kernel, padding, and the pool after it as (kernel, strides, padding)
_CONVOLUTIONS = (
    (64, 3, 1, ((2, 2), (2, 2), (0, 0))), (128, 3, 1, ((2, 2), (2, 2), (0, 0))), (256, 3, 1, None),
    (256, 3, 1, ((2, 2), (2, 1), (0, 1))), (512, 3, 1, None), (512, 3, 1, ((2, 2), (2, 1), (0, 1))), (512, 2, 0, None),
)  # fmt: skip
_HIDDEN, _SYMBOLS = 256, 37


class Crnn(Layers):
    def __init__(self, name, opset, width):
        super().__init__(name, opset)
        self.columns = width // 4 + 1
        self.input("input", normal("input", (1, 1, 32, width), 1.0))

    def build(self):
        x, channels = "input", 1
        with self.scope("cnn"):
            for index, (out, kernel, pad, pool) in enumerate(_CONVOLUTIONS):
                x = self.node("Relu", [self.conv(x, f"conv{index}", out, channels, (kernel, kernel), pad=pad, gain=2.0)])
                if pool:
                    sizes, strides, pads = pool
                    x = self.node("MaxPool", [x], ceil_mode=0, dilations=[1, 1], kernel_shape=sizes, pads=[*pads, *pads], strides=strides)
                channels = out
        x = self.transpose(self.node("Squeeze", [x, self.ints(2)]), 2, 0, 1)
        for index, (inputs, out) in enumerate(((512, _HIDDEN), (_HIDDEN, _SYMBOLS))):
            with self.scope("rnn", str(index)):
                x = self.bidirectional(x, inputs, out)
        self.output(x, "output", [self.columns, 1, _SYMBOLS])
        return self

    def bidirectional(self, x, inputs, out):
        """An LSTM in both directions and a linear layer over [columns, 1, inputs]."""
        bound = _HIDDEN**-0.5

        def parameters(leaf, shape):
            return self.made_weight("LSTM", uniform(self.parameter_name(leaf), shape, -bound, bound))

        weights = [parameters("weight_ih", (2, 4 * _HIDDEN, inputs)), parameters("weight_hh", (2, 4 * _HIDDEN, _HIDDEN))]
        bias = parameters("bias", (2, 8 * _HIDDEN))
        with self.scope("rnn"):
            state = self.node("Expand", [self.constant(np.zeros((1, 1, 1))), self.ints(2, 1, _HIDDEN)])
            y = self.node("LSTM", [x, *weights, bias, "", state, state], 3, direction="bidirectional", hidden_size=_HIDDEN)[0]
            y = self.reshape(self.transpose(y, 0, 2, 1, 3), 0, 0, -1)
        y = self.gemm(self.reshape(y, self.columns, 2 * _HIDDEN), 2 * _HIDDEN, out, "embedding", std=0.05)
        return self.reshape(y, self.columns, 1, -1)


def crnn(name, opset=17, width=320):
    return Crnn(name, opset, width).build()
