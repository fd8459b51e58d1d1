"""Small graphs that meet NaN, infinities and minus zero, for test_numerics.py and docs/numerics.md.

An element-wise case sees whole rows of one special value, alone (before a product that averages its columns) and behind a product or a
convolution, which it may be fused into. The other cases see rows of numbers with one special value in each.
"""

import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
SPECIALS = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf}
WIDTH = 16
PLACE = 3  # of the special value in a row of numbers

POINTS = {  # operator: attributes
    "Abs": {}, "Ceil": {}, "Celu": {"alpha": 0.5}, "Cos": {}, "Elu": {"alpha": 0.5}, "Erf": {}, "Exp": {}, "Floor": {}, "Gelu": {},
    "HardSigmoid": {}, "HardSwish": {}, "LeakyRelu": {"alpha": 0.25}, "Log": {}, "Mish": {}, "Neg": {}, "QuickGelu": {}, "Reciprocal": {},
    "Relu": {}, "Round": {}, "Selu": {}, "Sigmoid": {}, "Sign": {}, "Sin": {}, "Softplus": {}, "Softsign": {}, "Sqrt": {}, "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.5},
}
BINARIES = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"]
REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]


def rows_of_specials():
    """[rows, WIDTH]: the specials in turn, often enough for whole vectors and a rest, and for a product to be oneDNN's: those of up to 2^18
    multiplications are loops of ours."""
    return np.repeat(np.array(list(SPECIALS.values()) * 401, np.float32)[:, None], WIDTH, axis=1)


def rows_with_specials(*dims):
    """[specials, *dims] of numbers, each with one special value at flat index PLACE."""
    numbers = np.random.default_rng(7).uniform(0.5, 2, (len(SPECIALS), *dims)).astype(np.float32)
    for row, value in zip(numbers, SPECIALS.values(), strict=True):
        row.reshape(-1)[PLACE] = value
    return numbers


@dataclasses.dataclass
class Case:
    name: str
    x: np.ndarray
    nodes: list
    constants: dict
    pointwise: bool

    @property
    def output(self):
        return f"{self.name}_y"


class Maker:
    """Builds one case: values are named after it, so that all cases can share a model."""

    def __init__(self, name, x, pointwise=False):
        self.name, self.x, self.pointwise, self.nodes, self.constants = name, x, pointwise, [], {}

    def constant(self, array):
        name = f"{self.name}_c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, op_type, *inputs, outputs=1, domain="", **attributes):
        names = [f"{self.name}_v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, [self.input if one is None else one for one in inputs], names, name=f"{self.name}_{len(self.nodes)}",
                                           domain=domain, **attributes))
        return names[0]

    @property
    def input(self):
        return f"{self.name}_x"

    def product(self, value=None):
        """Each column of the result is the mean of the columns."""
        return self.add("MatMul", value, self.constant(np.full((WIDTH, WIDTH), 1 / WIDTH, np.float32)))

    def convolution(self, value=None):
        return self.add("Conv", value, self.constant(np.full((WIDTH, WIDTH, 1, 1), 1 / WIDTH, np.float32)))

    def done(self, value):
        self.add("Identity", value)
        self.nodes[-1].output[0] = f"{self.name}_y"
        return Case(self.name, self.x, self.nodes, self.constants, self.pointwise)


def settings():
    """Where an element-wise operator stands: (its name's ending, before it, behind it, x)."""
    points = rows_of_specials()
    return [
        ("alone", lambda m: m.input, lambda m, y: m.product(y), points),
        ("product", lambda m: m.product(), lambda m, y: y, points),
        ("convolution", lambda m: m.convolution(), lambda m, y: y, points.reshape(*points.shape, 1, 1)),
    ]


def point_cases():
    for ending, before, behind, x in settings():
        for op_type, attributes in POINTS.items():
            m = Maker(f"{op_type} {ending}", x, True)
            domain = MS if op_type == "QuickGelu" else ""
            yield m.done(behind(m, m.add(op_type, before(m), domain=domain, **attributes)))
        m = Maker(f"Clip {ending}", x, True)
        low, high = m.constant(np.float32(-1)), m.constant(np.float32(2))
        yield m.done(behind(m, m.add("Clip", before(m), low, high)))
        for op_type in BINARIES:
            m = Maker(f"{op_type} {ending}", x, True)
            other = m.constant(np.linspace(2, 3, WIDTH, dtype=np.float32).reshape(WIDTH, *[1] * (x.ndim - 2)))
            yield m.done(behind(m, m.add(op_type, before(m), other)))
            if op_type == "PRelu":
                continue
            m = Maker(f"{op_type} {ending} second", x, True)
            other = m.constant(np.linspace(2, 3, WIDTH, dtype=np.float32).reshape(WIDTH, *[1] * (x.ndim - 2)))
            yield m.done(behind(m, m.add(op_type, other, before(m))))


def scanned(op_type, gates):
    m = Maker(op_type, rows_with_specials(4, WIDTH).transpose(1, 0, 2).copy())
    random = np.random.default_rng(3)
    weights = [m.constant(random.uniform(-0.5, 0.5, (1, gates * 8, n)).astype(np.float32)) for n in (WIDTH, 8)]
    return m.done(m.add(op_type, m.input, *weights, hidden_size=8))


def row_cases():
    random = np.random.default_rng(5)
    for op_type in ["Softmax", "LogSoftmax"]:
        for ending, axis in [(" over rows", -1), (" over columns", 1)]:
            m = Maker(op_type + ending, rows_with_specials(WIDTH, 9) if axis == 1 else rows_with_specials(WIDTH))
            yield m.done(m.add(op_type, m.input, axis=axis))
    m = Maker("LayerNormalization", rows_with_specials(WIDTH))
    yield m.done(m.add("LayerNormalization", m.input, m.constant(np.ones(WIDTH, np.float32)), m.constant(np.zeros(WIDTH, np.float32))))
    m = Maker("SimplifiedLayerNormalization", rows_with_specials(WIDTH))
    yield m.done(m.add("SimplifiedLayerNormalization", m.input, m.constant(np.ones(WIDTH, np.float32))))
    m = Maker("InstanceNormalization", rows_with_specials(4, 5, 5))
    yield m.done(m.add("InstanceNormalization", m.input, m.constant(np.ones(4, np.float32)), m.constant(np.zeros(4, np.float32))))
    m = Maker("LRN", rows_with_specials(8, 3, 3))
    yield m.done(m.add("LRN", m.input, size=3))
    m = Maker("BatchNormalization", rows_with_specials(8, 3, 3))
    yield m.done(m.add("BatchNormalization", m.input, *[m.constant(np.full(8, v, np.float32)) for v in (2, 1, 0.5, 4)]))
    for op_type in ["MaxPool", "AveragePool"]:
        for ending, attributes in [("", {}), (" dilated", {"dilations": [2, 2]})]:
            m = Maker(op_type + ending, rows_with_specials(WIDTH, 7, 7))
            yield m.done(m.add(op_type, m.input, kernel_shape=[2, 2], **attributes))
    for op_type in ["GlobalMaxPool", "GlobalAveragePool"]:
        m = Maker(op_type, rows_with_specials(WIDTH, 5, 5))
        yield m.done(m.add(op_type, m.input))
    for op_type in REDUCTIONS:
        for ending, axes, dims in [(" over rows", [-1], (WIDTH + 3,)), (" over columns", [1], (WIDTH, 9))]:
            m = Maker(op_type + ending, rows_with_specials(*dims))
            yield m.done(m.add(op_type, m.input, m.constant(np.array(axes)), keepdims=1))
    m = Maker("MatMul", rows_with_specials(5, WIDTH))
    yield m.done(m.add("MatMul", m.input, m.constant(random.uniform(0.5, 2, (WIDTH, 24)).astype(np.float32))))
    for name, level in [("few rows", 0), ("accuracy_level 4", 4)]:  # the bytes: elements of 10, 2 above the zero point
        m = Maker(f"MatMulNBits {name}", rows_with_specials(2, WIDTH))
        constants = [m.constant(np.full((24, 1, WIDTH // 2), 0xAA, np.uint8)), m.constant(random.uniform(0.5, 2, 24).astype(np.float32))]
        yield m.done(m.add("MatMulNBits", m.input, *constants, domain=MS, K=WIDTH, N=24, bits=4, block_size=16, accuracy_level=level))
    m = Maker("Conv", rows_with_specials(WIDTH, 6, 6))
    yield m.done(m.add("Conv", m.input, m.constant(random.uniform(0.5, 2, (WIDTH, WIDTH, 3, 3)).astype(np.float32)), pads=[1, 1, 1, 1]))
    m = Maker("Conv depthwise", rows_with_specials(WIDTH, 6, 6))
    yield m.done(m.add("Conv", m.input, m.constant(random.uniform(0.5, 2, (WIDTH, 1, 3, 3)).astype(np.float32)), pads=[1, 1, 1, 1], group=WIDTH))
    m = Maker("ConvTranspose", rows_with_specials(4, 5, 5))
    yield m.done(m.add("ConvTranspose", m.input, m.constant(random.uniform(0.5, 2, (4, 4, 2, 2)).astype(np.float32)), strides=[2, 2]))
    for mode in ["nearest", "linear"]:
        m = Maker(f"Resize {mode}", rows_with_specials(4, 5, 5))
        yield m.done(m.add("Resize", m.input, "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode=mode))
    for op_type, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
        yield scanned(op_type, gates)
    m = Maker("QuantizeLinear", rows_with_specials(WIDTH))
    scale, zero = m.constant(np.float32(0.05)), m.constant(np.uint8(100))
    yield m.done(m.add("DequantizeLinear", m.add("QuantizeLinear", m.input, scale, zero), scale, zero))


def all_cases():
    return [*point_cases(), *row_cases()]


def model_of(cases, opset=20):
    def info(name, dims):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    graph = helper.make_graph(
        [node for case in cases for node in case.nodes], "specials",
        [info(f"{case.name}_x", case.x.shape) for case in cases],
        [info(case.output, None) for case in cases],
        [numpy_helper.from_array(array, name) for case in cases for name, array in case.constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)], ir_version=9)
