"""A network of any size with external data, written piece by piece: neither the model nor a tensor of it is ever whole in memory."""

import numpy as np
from onnx import TensorProto, helper

CHUNK = 4 << 20  # floats


class LargeModel:
    """Chains layers over rows of `width` values; every weight is different."""

    def __init__(self, folder, name, width, rows=8, seed=4):
        self.folder, self.name, self.width, self.rows = folder, name, width, rows
        self.nodes, self.initializers, self.value = [], [], "x"
        self.largest = self.bytes = 0
        self.random = np.random.default_rng(seed)
        self.data = (folder / f"{name}.data").open("wb")

    def weight(self, *dims):
        """An initializer of random values; its name."""
        count = int(np.prod(dims))
        self.data.write(bytes(-self.data.tell() % 4096))
        offset = self.data.tell()
        for begin in range(0, count, CHUNK):
            values = self.random.random(min(CHUNK, count - begin), dtype=np.float32)
            values -= 0.5
            self.data.write(values.tobytes())
        tensor = TensorProto(name=f"w{len(self.initializers)}", data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": f"{self.name}.data", "offset": offset, "length": 4 * count}.items():
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        self.largest = max(self.largest, 4 * count)
        self.bytes += 4 * count
        return tensor.name

    def node(self, op, *inputs, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=f"{op}_{len(self.nodes)}", **attributes))
        return output

    def wide(self, inner):
        """Two products around `inner` values; the second weight is the transpose of a constant, which is folded."""
        hidden = self.node("Relu", self.node("MatMul", self.value, self.weight(self.width, inner)))
        self.value = self.node("MatMul", hidden, self.node("Transpose", self.weight(self.width, inner), perm=[1, 0]))

    def product(self):
        """A product whose columns are scaled, which goes into the weights."""
        product = self.node("MatMul", self.value, self.weight(self.width, self.width))
        self.value = self.node("Mul", product, self.weight(self.width))

    def gemm(self):
        self.value = self.node("Gemm", self.value, self.weight(self.width, self.width), self.weight(self.width), transB=1)

    def convolution(self, channels, normalised):
        """Rows as images of `channels`, once through a convolution, and back."""
        side = int(np.sqrt(self.width // channels))
        assert channels * side * side == self.width
        image = self.node("Reshape", self.value, self.shape(self.rows, channels, side, side))
        image = self.node("Conv", image, self.weight(channels, channels, 3, 3), kernel_shape=[3, 3], pads=[1] * 4)
        if normalised:
            image = self.node("BatchNormalization", image, *(self.ones(channels) for _ in range(4)))
        self.value = self.node("Reshape", image, self.shape(self.rows, self.width))

    def shape(self, *dims):
        tensor = helper.make_tensor(f"s{len(self.initializers)}", TensorProto.INT64, [len(dims)], dims)
        self.initializers.append(tensor)
        return tensor.name

    def ones(self, count):
        tensor = helper.make_tensor(f"o{len(self.initializers)}", TensorProto.FLOAT, [count], np.ones(count, np.float32))
        self.initializers.append(tensor)
        return tensor.name

    def save(self):
        """The path of the finished model."""
        self.data.close()
        rows = [self.rows, self.width]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, rows) for name in ("x", "y")]
        self.nodes.append(helper.make_node("Identity", [self.value], ["y"]))
        graph = helper.make_graph(self.nodes, self.name, values[:1], values[1:], self.initializers)
        path = self.folder / f"{self.name}.onnx"
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path.write_bytes(model.SerializeToString())
        return path


def write_large_model(folder, total_bytes, width, inner, name="large", seed=4):
    """A model of about `total_bytes`, half of it in a few tensors of `width` x `inner`, the rest in many small ones."""
    model = LargeModel(folder, name, width, seed=seed)
    while model.bytes < total_bytes // 2:
        model.wide(inner)
    kinds = [model.product, model.gemm, lambda: model.convolution(width // 16, True), lambda: model.convolution(width // 64, False)]
    while model.bytes < total_bytes:
        for kind in kinds:
            kind()
    return model
