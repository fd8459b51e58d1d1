"""Convolutional networks of torchvision, as torch.onnx.export leaves them in evaluation mode.

By default the exporter folds each BatchNormalization that directly follows a Conv into its weights and drops Dropout;
`fold_batch_norm=False` writes what training-preserving or folding-free exports hold.
"""

import math

import numpy as np

from builder import Builder, normal, uniform


def image(shape):
    """A smooth image-like input in [-2, 2]: noise alone would average out in the first layers."""
    _, channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = [np.sin(x / (7 + 3 * c)) + np.cos(y / (11 + 2 * c)) for c in range(channels)]
    noise = normal("image", shape, 0.1)
    return (np.stack(planes)[None] + noise).astype(np.float32)


class ConvNet(Builder):
    def __init__(self, name, opset, size=224, fold_batch_norm=True, bn_epsilon=1e-5):
        super().__init__(name, opset)
        self.fold_batch_norm = fold_batch_norm
        self.bn_epsilon = bn_epsilon
        self.channels = {self.input("input", image((1, 3, size, size))): 3}

    def _like(self, source, value):
        self.channels[value] = self.channels[source]
        return value

    # ---- layers ---------------------------------------------------------------------------------------------------

    def conv(self, x, out, kernel, leaf, *, stride=1, pad=0, group=1, bn=None, bias=False, gain=2.0):
        """A convolution, and the batch normalization `bn` after it. `gain` is He's 2 before a Relu."""
        kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        pad = pad if isinstance(pad, tuple) else (pad, pad)
        fan_in = self.channels[x] // group * math.prod(kernel)
        weight_name = self.parameter_name(leaf + ".weight")
        weight = normal(weight_name, (out, self.channels[x] // group, *kernel), math.sqrt(gain / fan_in))
        offset = normal(self.parameter_name(leaf + ".bias"), (out,), 0.05) if bias else None
        if bn and self.fold_batch_norm:
            weight, offset = self._folded(weight, self._bn_statistics(bn, out))
            parameters = [self.made_weight("Conv", weight), self.made_weight("Conv", offset)]
        else:
            parameters = [self.initializer(weight_name, weight)]
            if bias:
                parameters.append(self.weight(leaf + ".bias", offset))
        with self.scope(*leaf.split(".")):
            y = self.node(
                "Conv", [x, *parameters], dilations=[1, 1], group=group, kernel_shape=list(kernel),
                pads=[*pad, *pad], strides=[stride, stride],
            )
        self.channels[y] = out
        return self.batch_norm(y, bn) if bn and not self.fold_batch_norm else y

    def _bn_statistics(self, leaf, channels):
        def named(kind):
            return self.parameter_name(f"{leaf}.{kind}")

        return {
            "weight": normal(named("weight"), (channels,), 0.1, 1.0),
            "bias": normal(named("bias"), (channels,), 0.1),
            "running_mean": normal(named("running_mean"), (channels,), 0.1),
            "running_var": uniform(named("running_var"), (channels,), 0.7, 1.4),
        }

    def _folded(self, weight, statistics):
        scale = statistics["weight"] / np.sqrt(statistics["running_var"] + np.float32(self.bn_epsilon))
        return weight * scale[:, None, None, None], statistics["bias"] - statistics["running_mean"] * scale

    def batch_norm(self, x, leaf):
        statistics = self._bn_statistics(leaf, self.channels[x])
        parameters = [self.weight(f"{leaf}.{kind}", values) for kind, values in statistics.items()]
        attributes = {"training_mode": 0} if self.opset >= 14 else {}
        with self.scope(*leaf.split(".")):
            y = self.node("BatchNormalization", [x, *parameters], epsilon=self.bn_epsilon, momentum=0.9, **attributes)
        return self._like(x, y)

    def relu(self, x, *leaf):
        with self.scope(*leaf):
            return self._like(x, self.node("Relu", [x]))

    def relu6(self, x, *leaf):
        with self.scope(*leaf):
            return self._like(x, self.node("Clip", [x, self.constant(0.0), self.constant(6.0)]))

    def silu(self, x, *leaf):
        with self.scope(*leaf):
            return self.mul(x, self.node("Sigmoid", [x]))

    def add(self, a, b):
        return self._like(a, self.node("Add", [a, b]))

    def mul(self, a, b):
        return self._like(a, self.node("Mul", [a, b]))

    def concat(self, values):
        y = self.node("Concat", values, axis=1)
        self.channels[y] = sum(self.channels[v] for v in values)
        return y

    def max_pool(self, x, *leaf, kernel, stride, pad=0):
        attributes = {"dilations": [1, 1]} if self.opset >= 12 else {}
        with self.scope(*leaf):
            y = self.node(
                "MaxPool", [x], ceil_mode=0, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2, **attributes
            )
        return self._like(x, y)

    def average_pool(self, x, *leaf, kernel, stride, pad=0):
        with self.scope(*leaf):
            y = self.node(
                "AveragePool", [x], ceil_mode=0, count_include_pad=1, kernel_shape=[kernel] * 2, pads=[pad] * 4,
                strides=[stride] * 2,
            )
        return self._like(x, y)

    def global_pool(self, x, *leaf):
        with self.scope(*leaf):
            return self._like(x, self.node("GlobalAveragePool", [x]))

    def flatten(self, x, features):
        y = self.node("Flatten", [x], axis=1)
        self.channels[y] = features
        return y

    def linear(self, x, out, *path, gain=1.0):
        features = self.channels[x]
        with self.scope(*path):
            weight_name = self.parameter_name("weight")
            weight = self.initializer(weight_name, normal(weight_name, (out, features), math.sqrt(gain / features)))
            bias = self.weight("bias", normal(self.parameter_name("bias"), (out,), 0.05))
            y = self.node("Gemm", [x, weight, bias], alpha=1.0, beta=1.0, transB=1)
        self.channels[y] = out
        return y

    def finish(self, x):
        self.output(x, "output", [1, self.channels[x]])
        return self

