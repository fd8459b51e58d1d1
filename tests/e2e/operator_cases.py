"""Small random graphs, at least one for every row of the dnnl provider's table, for test_operators.py.

A case is built for one opset and holds one node under test. Operators that only move data stand between two Neg, beside which dnnl takes them.
`exact` gives a case's outputs in double precision where onnx's reference evaluator cannot.
"""

import dataclasses
import math
import zlib

import numpy as np
import operator_references as references
from onnx import TensorProto, helper
from operator_references import erf, reals_of, requantized, rms, sigmoid

MS = "com.microsoft"


class Case:
    """Nodes with the values they start from. Names begin with the case's, so that cases can share a graph."""

    def __init__(self, name, opset, op_type, domain=""):
        self.name, self.opset, self.op_type, self.domain = name, opset, op_type, domain
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.inputs, self.constants, self.outputs = [], {}, {}, []
        self.exact = None  # of arrays in double precision in the order of `inputs`: the outputs, or the only one
        self.unknown_to_onnxruntime = False  # Debian's has no kernel for it
        self.quantum = 0  # by how much integers, and reals made of them, may differ

    def input(self, array):
        name = f"{self.name}_x{len(self.inputs)}"
        self.inputs[name] = array
        return name

    def real(self, *shape, low=-3.0, high=3.0):
        return self.input(self.reals(*shape, low=low, high=high))

    def reals(self, *shape, low=-1.0, high=1.0):
        return self.random.uniform(low, high, shape).astype(np.float32)

    def bytes(self, *shape, kind=np.uint8):
        limits = np.iinfo(kind)
        return self.random.integers(limits.min, limits.max, shape, kind, endpoint=True)

    def constant(self, array):
        name = f"{self.name}_c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def sizes(self, *values):
        return self.constant(np.array(values, np.int64))

    def node(self, op_type, inputs, outputs=1, domain="", **attributes):
        names = [f"{self.name}_v{len(self.nodes)}_{i}" for i in range(outputs)]
        name = f"{self.name}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, names, name=name, domain=domain, **attributes))
        return names

    def tested_node(self, inputs, outputs=1, **attributes):
        """The node under test; what follows it makes the case's outputs."""
        names = self.node(self.op_type, inputs, outputs, self.domain, **attributes)
        self.tested = self.nodes[-1].name
        return names

    def test(self, inputs, outputs=1, **attributes):
        """The node under test; its outputs are the case's."""
        self.outputs += self.tested_node(inputs, outputs, **attributes)

    def test_between(self, inputs, outputs=1, **attributes):
        """The first input negated before, the outputs behind."""
        negated = self.node("Neg", inputs[:1])
        for output in self.tested_node(negated + inputs[1:], outputs, **attributes):
            self.outputs += self.node("Neg", [output])


@dataclasses.dataclass(frozen=True)
class Family:
    """Builds the cases of one operator: `build(case, variant)` for each variant in each of its schema's versions up to `last`."""

    op_type: str
    build: object
    variants: int
    domain: str = ""
    last: int = 99


FAMILIES = []


def family(*op_types, variants=1, domain="", last=99):
    def add(build):
        FAMILIES.extend(Family(op_type, build, variants, domain, last) for op_type in op_types)
        return build

    return add


UNARY = {
    "Abs": {}, "Ceil": {}, "Celu": {"alpha": 1.5}, "Cos": {}, "Elu": {"alpha": 0.7}, "Erf": {}, "Exp": {}, "Floor": {}, "HardSigmoid": {"alpha": 0.3},
    "HardSwish": {}, "LeakyRelu": {"alpha": 0.1}, "Mish": {}, "Neg": {}, "Relu": {}, "Round": {}, "Selu": {"alpha": 1.2}, "Sigmoid": {}, "Sign": {},
    "Sin": {}, "Softplus": {}, "Softsign": {}, "Swish": {"alpha": 0.8}, "Tanh": {}, "ThresholdedRelu": {"alpha": 0.5},
}  # fmt: skip


@family(*UNARY, variants=2)
def unary(case, variant):
    case.test([case.real(*[(2, 3, 4, 5), (17,)][variant])], **UNARY[case.op_type])


@family("Log", "Sqrt", "Reciprocal")
def of_positive(case, _variant):
    case.test([case.real(3, 7, low=0.2, high=5.0)])


@family("Gelu", variants=2)
def gelu(case, variant):
    case.test([case.real(4, 9)], approximate=["none", "tanh"][variant])


@family("Clip", variants=2)
def clip(case, variant):
    limits = [{"min": -1.0, "max": 0.5}, {"min": -0.5}][variant]
    if case.opset < 11:
        case.test([case.real(5, 6)], **limits)
    else:
        case.test([case.real(5, 6)] + [case.constant(np.float32(limit)) for limit in limits.values()])


@family("PRelu", variants=3)
def prelu(case, variant):
    slopes = case.reals(*[(3, 1, 1), (1,), (2, 3, 4, 5)][variant])
    case.test([case.real(2, 3, 4, 5), case.input(slopes) if variant == 2 else case.constant(slopes)])


BROADCASTS = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4, 5), (3, 1, 5)), ((4, 1), (1, 6)), ((2, 3, 4, 5), ())]


@family("Add", "Sub", "Mul", "Div", variants=4)
def binary(case, variant):
    first, second = BROADCASTS[variant]
    divisor = case.reals(*second, low=0.5, high=2.0)
    case.test([case.real(*first), case.constant(divisor) if variant == 3 else case.input(divisor)])


@family("Pow", variants=3)
def pow_(case, variant):
    base = case.real(2, 3, 4, low=0.3, high=2.0)
    exponent = [case.constant(np.float32(1.7)), case.constant(np.float32(2)), case.real(3, 1)][variant]
    case.test([base, exponent])


@family("Max", "Min", "Sum", "Mean", variants=2)
def variadic(case, variant):
    shapes = [(2, 3, 4)] * 3 if variant == 0 or case.opset < 8 else [(2, 3, 4), (3, 1), (4,)]
    case.test([case.real(*shape) for shape in shapes])


@family("Where", variants=2)
def where(case, variant):
    shapes = [((2, 3, 4),) * 3, ((3, 1), (2, 1, 4), (1,))][variant]
    condition = case.input(case.random.random(shapes[0]) < 0.5)
    chosen = [case.node("Neg", [case.real(*shape)])[0] for shape in shapes[1:]]
    case.outputs += case.node("Neg", case.tested_node([condition, *chosen]))


WINDOWS = [
    ((2, 4, 11), (6, 4, 3), {"pads": [1, 2], "strides": [2]}),
    ((1, 4, 9, 8), (8, 2, 3, 2), {"group": 2, "dilations": [2, 1], "pads": [1, 0, 2, 1]}),
    ((1, 3, 5, 6, 4), (5, 3, 2, 3, 1), {"strides": [1, 2, 1], "pads": [0, 1, 0, 1, 1, 0]}),
    ((2, 6, 7, 7), (6, 1, 3, 3), {"group": 6, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
]


@family("Conv", variants=5)
def conv(case, variant):
    shape, weights, attributes = WINDOWS[variant % 4]
    parameter = case.input if variant == 4 else case.constant
    case.test([case.real(*shape), parameter(case.reals(*weights)), parameter(case.reals(weights[0]))], **attributes)


@family("FusedConv", variants=2, domain=MS)
def fused_conv(case, variant):
    attributes = [{"activation": "Relu"}, {"activation": "LeakyRelu", "activation_params": [0.2]}][variant]
    weights = case.reals(5, 4, 1, 1)
    case.test([case.real(2, 4, 3, 5), case.constant(weights)], kernel_shape=[1, 1], **attributes)
    slope = [0.0, float(np.float32(0.2))][variant]

    def exact(x):
        sums = np.einsum("nchw,kc->nkhw", x, weights[:, :, 0, 0].astype(np.float64))
        return np.where(sums < 0, slope * sums, sums)

    case.exact = exact


TRANSPOSED = [
    ((1, 4, 6), (4, 3, 3), {"strides": [2], "output_padding": [1]}),
    ((2, 4, 5, 4), (4, 2, 3, 3), {"group": 2, "pads": [1, 0, 0, 1], "strides": [2, 1]}),
    ((1, 3, 3, 2, 3), (3, 2, 2, 2, 2), {"strides": [1, 2, 2]}),
]


@family("ConvTranspose", variants=3)
def conv_transpose(case, variant):
    shape, weights, attributes = TRANSPOSED[variant]
    filters, bias = case.reals(*weights), case.reals(weights[1] * attributes.get("group", 1))
    case.test([case.real(*shape), case.constant(filters), case.constant(bias)], kernel_shape=weights[2:], **attributes)
    case.exact = lambda x: references.conv_transpose(x, filters, bias, **attributes)


POOLS = [
    ((2, 3, 11), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((1, 4, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),  # ONNX Runtime's AveragePool of opset 19 mixes unequal pads up
    ((1, 2, 5, 6, 4), {"kernel_shape": [2, 3, 2]}),
]


@family("MaxPool", "AveragePool", variants=3)
def pool(case, variant):
    shape, attributes = POOLS[variant]
    if case.op_type == "AveragePool" and variant == 1:
        attributes = {**attributes, "count_include_pad": 1}
        case.exact = lambda x: references.average_pool(x, [3, 2], [2, 2], [1, 1, 1, 1])
    case.test([case.real(*shape)], **attributes)


@family("GlobalAveragePool", "GlobalMaxPool", variants=2)
def global_pool(case, variant):
    shape, axes = [((2, 5, 7), 2), ((1, 3, 4, 6), (2, 3))][variant]
    case.test([case.real(*shape)])
    work = np.max if case.op_type == "GlobalMaxPool" else np.mean
    case.exact = lambda x: work(x, axes, keepdims=True)


@family("LRN")
def lrn(case, _variant):
    attributes = {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 1.5}
    case.test([case.real(2, 7, 4, 5)], **attributes)
    case.exact = lambda x: references.local_response(x, **attributes)


@family("BatchNormalization", variants=2)
def batch_normalization(case, variant):
    scale, bias, mean = (case.reals(5, 1, 1) for _ in range(3))
    variance = case.reals(5, 1, 1, low=0.5, high=2.0)
    parameter = case.input if variant == 1 else case.constant
    case.test([case.real(2, 5, 4, 3)] + [parameter(one.ravel()) for one in (scale, bias, mean, variance)], epsilon=1e-3)
    case.exact = lambda x, *_: (x - mean) / np.sqrt(variance.astype(np.float64) + 1e-3) * scale + bias


@family("InstanceNormalization")
def instance_normalization(case, _variant):
    case.test([case.real(2, 5, 4, 3), case.constant(case.reals(5)), case.constant(case.reals(5))])


@family("GroupNormalization")
def group_normalization(case, _variant):
    parameters = 3 if case.opset < 21 else 6  # one each group, later one each channel
    case.test([case.real(2, 6, 4, 3), case.constant(case.reals(parameters)), case.constant(case.reals(parameters))], num_groups=3)


@family("LayerNormalization", variants=2)
def layer_normalization(case, variant):
    axis, shape = [(-1, (8,)), (1, (5, 8))][variant]
    case.test([case.real(3, 5, 8), case.constant(case.reals(*shape)), case.constant(case.reals(*shape))], axis=axis)


@family("RMSNormalization")
def rms_normalization(case, _variant):
    case.test([case.real(3, 5, 8), case.constant(case.reals(8))], axis=-1)


@family("SimplifiedLayerNormalization")
def simplified_layer_normalization(case, _variant):
    scale = case.reals(8)
    case.test([case.real(3, 5, 8), case.constant(scale)], axis=-1, epsilon=1e-5)
    case.exact = lambda x: rms(x) * scale


@family("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MS)
def skip_normalization(case, _variant):
    gamma, shift = case.reals(8), case.reals(8)
    given = [case.real(2, 5, 8), case.real(2, 5, 8), case.constant(gamma)]
    if case.op_type == "SkipSimplifiedLayerNormalization":
        case.test(given, epsilon=1e-5)
        case.exact = lambda x, skip: rms(x + skip) * gamma
        return
    case.test([*given, case.constant(shift)], epsilon=1e-5)

    def exact(x, skip):
        both = x + skip
        centred = both - both.mean(-1, keepdims=True)
        return rms(centred) * gamma + shift

    case.exact = exact


@family("Softmax", "LogSoftmax", variants=2)
def softmax(case, variant):
    axis = [1, 2][variant]
    case.test([case.real(3, 4, 5)], axis=axis if case.opset < 11 else axis - 3)
    if case.opset < 13:
        case.exact = lambda x: references.flattened_softmax(x, axis, case.op_type == "LogSoftmax")


@family("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", variants=3)
def reduce(case, variant):
    reduce_over(case, variant, case.real(3, 4, 5))


@family("ReduceLogSum", "ReduceLogSumExp", variants=3)
def reduce_positive(case, variant):
    reduce_over(case, variant, case.real(3, 4, 5, low=0.2))


def reduce_over(case, variant, value):
    axes, keepdims = [([1], 0), ([0, 2], 1), ([2], 1)][variant]
    if case.opset >= (13 if case.op_type == "ReduceSum" else 18):
        case.test([value, case.sizes(*axes)], keepdims=keepdims)
    else:
        case.test([value], axes=axes, keepdims=keepdims)


@family("MatMul", variants=5)
def matmul(case, variant):
    first, second = [((4, 6), (6, 5)), ((2, 3, 4, 6), (6, 5)), ((2, 1, 4, 6), (3, 6, 5)), ((6,), (2, 6, 5)), ((2, 4, 6), (6,))][variant]
    case.test([case.real(*first), case.constant(case.reals(*second)) if variant == 1 else case.real(*second)])


@family("FusedMatMul", variants=2, domain=MS)
def fused_matmul(case, variant):
    first = case.real(2, 6, 4) if variant else case.real(2, 4, 6)
    case.test([first, case.real(2, 5, 6)], transA=variant, transB=1, alpha=0.5)
    case.exact = lambda a, b: 0.5 * (np.swapaxes(a, 1, 2) if variant else a) @ np.swapaxes(b, 1, 2)


@family("MatMulNBits", variants=7, domain=MS)
def matmul_nbits(case, variant):
    bits, block, k, n, zeros, level = [
        (4, 32, 96, 40, None, 0), (4, 32, 70, 33, "packed", 1), (8, 16, 40, 24, "packed", 0), (4, 64, 128, 17, None, 4),
        (4, 16, 48, 20, "real", 4), (2, 32, 64, 36, "packed", 0), (8, 128, 200, 19, "packed", 4),
    ][variant]  # fmt: skip
    blocks = -(-k // block)
    stored, scales = case.bytes(n, blocks, block * bits // 8), case.reals(n, blocks, low=0.01, high=0.1)
    points = {None: None, "packed": case.bytes(n, -(-blocks * bits // 8)), "real": case.reals(n, blocks, low=3.0, high=12.0)}[zeros]
    bias = case.reals(n) if variant in (1, 3) else None
    x = case.reals(2, 3, k, low=-3.0, high=3.0)
    if level == 4:  # integers of which each block has one of 127: rounding to 8 bits changes none
        x = np.rint(40 * x).astype(np.float32)
        x[..., ::block] = 127
    case.test([case.input(x), *["" if array is None else case.constant(array) for array in (stored, scales.reshape(-1), points)], "",
               "" if bias is None else case.constant(bias)],
              K=k, N=n, bits=bits, block_size=block, accuracy_level=level)  # fmt: skip
    case.unknown_to_onnxruntime = bits == 2  # before 1.24
    case.exact = lambda a: a @ references.unpacked_blocks(stored, scales, points, bits)[:, :k].T + (0 if bias is None else bias)


@family("GatherBlockQuantized", variants=4, domain=MS)
def gather_block_quantized(case, variant):
    bits, block, width, points = [(4, 32, 96, False), (4, 16, 80, True), (8, 128, 200, True), (2, 64, 128, True)][variant]
    rows, blocks = 40, -(-width // block)
    stored, scales = case.bytes(rows, width * bits // 8), case.reals(rows, blocks, low=0.01, high=0.1)
    zeros = case.bytes(rows, -(-blocks * bits // 8)) if points else None
    ids = np.array([[3, 0, 39], [-1, 7, -40]])
    case.test([case.constant(stored), case.input(ids), case.constant(scales), *([case.constant(zeros)] if points else [])],
              bits=bits, block_size=block)  # fmt: skip
    case.unknown_to_onnxruntime = bits == 2 or variant == 1  # before 1.24, which fills rows of zero points, too
    filled = np.zeros((rows, blocks, block * bits // 8), np.uint8)
    filled.reshape(rows, -1)[:, : stored.shape[1]] = stored
    case.exact = lambda places: references.unpacked_blocks(filled, scales, zeros, bits)[:, :width][places.astype(int)]


@family("Attention", variants=5)
def attention(case, variant):
    batch, heads, kv_heads, size, rows, keys, past = [(2, 4, 2, 16, 5, 9, 0), (1, 3, 3, 8, 20, 33, 0), (2, 6, 2, 8, 3, 3, 7), (2, 2, 2, 32, 40, 40, 0), (1, 4, 1, 8, 1, 1, 140)][variant]
    attributes = [{"is_causal": 1}, {}, {"is_causal": 1, "scale": 0.3}, {"softcap": 2.0}, {}][variant]
    flat = variant in (1, 3)
    if flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    shapes = [(batch, r, n * size) if flat else (batch, n, r, size) for n, r in ((heads, rows), (kv_heads, keys), (kv_heads, keys))]
    names = [case.real(*shape, low=-2.0, high=2.0) for shape in shapes]
    mask = None
    if variant == 1:
        mask = case.reals(rows, keys)
    elif variant == 2:
        mask = case.random.integers(0, 2, (1, 1, rows, past + keys)).astype(bool)
        mask[..., 0] = True
    if mask is not None:
        names.append(case.constant(mask) if variant == 2 else case.input(mask))
    if past:
        names += [""] * (4 - len(names)) + [case.real(batch, kv_heads, past, size) for _ in range(2)]
    case.test(names, 3 if past else 1, **attributes)

    def exact(q, k, v, *more):
        q, k, v = (np.moveaxis(x.reshape(batch, x.shape[1], -1, size), 2, 1) if flat else x for x in (q, k, v))
        if past:
            k, v = (np.concatenate([old, new], 2) for old, new in zip(more[-2:], (k, v), strict=True))
        total = past + keys
        added = np.zeros((rows, total)) if variant != 1 else more[0]
        hidden = np.arange(total) > past + np.arange(rows)[:, None] if "is_causal" in attributes else np.zeros((rows, total), bool)
        if variant == 2:
            hidden = hidden | ~mask
        k_all, v_all = (np.repeat(x, heads // kv_heads, 1) for x in (k, v))
        y = references.attended(q, k_all, v_all, hidden, attributes.get("scale", size**-0.5), attributes.get("softcap", 0), added=added)
        return [np.moveaxis(y, 1, 2).reshape(batch, rows, -1) if flat else y, *((k, v) if past else ())]

    case.exact = exact


@family("Attention", variants=3, domain=MS)
def projected_attention(case, variant):
    batch, heads, size, rows = [(2, 4, 16, 9), (1, 3, 8, 33), (2, 2, 8, 5)][variant]
    weights, bias = case.reals(20, 3 * heads * size), case.reals(3 * heads * size)
    mask = np.ones((batch, rows), np.int32)
    mask[-1, 2:4] = 0
    names = [case.real(batch, rows, 20), case.constant(weights), case.constant(bias)]
    names += [[case.input(mask)], ["", "", case.real(1, heads, rows, rows)], []][variant]
    attributes = [{}, {}, {"unidirectional": 1, "scale": 0.3}][variant]
    case.test(names, num_heads=heads, **attributes)

    def exact(x, *more):
        q, k, v = (np.moveaxis(part.reshape(batch, rows, heads, size), 2, 1) for part in np.split(x @ weights.astype(np.float64) + bias, 3, -1))
        hidden = (np.arange(rows) > np.arange(rows)[:, None]) & (variant == 2)
        added = [(mask[:, None, None, :] - 1.0) * 10000, more[-1] if more else 0, 0][variant]
        y = references.attended(q, k, v, hidden, attributes.get("scale", size**-0.5), added=added)
        return np.moveaxis(y, 1, 2).reshape(batch, rows, -1)

    case.exact = exact


@family("MultiHeadAttention", variants=5, domain=MS)
def multi_head_attention(case, variant):
    batch, heads, size, rows, keys, past = [(2, 4, 16, 5, 9, 0), (1, 3, 8, 20, 20, 4), (2, 2, 32, 1, 6, 0), (2, 4, 16, 3, 3, 0), (2, 4, 16, 3, 8, 0)][variant]
    crossed = variant == 2  # keys and values as they are in a cache
    names = [case.real(batch, rows, heads * size)]
    names += [case.real(*((batch, heads, keys, size) if crossed else (batch, keys, heads * size))) for _ in range(2)]
    if variant < 2:
        names += ["", "", case.real(*[(batch, 1, rows, keys), (1, heads, rows, past + keys)][variant])]
    bias = case.reals(3 * heads * size) if variant == 3 else None
    if variant == 3:
        names.append(case.constant(bias))
    mask = np.array([[1, 1, 0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1]], np.int32)
    if variant == 4:
        names += ["", case.input(mask)]
    if past:
        names += [case.real(batch, heads, past, size) for _ in range(2)]
    attributes = {"unidirectional": 1} if variant == 1 else {}
    case.test(names, 3 if past else 1, num_heads=heads, **attributes)

    def exact(q, k, v, added=0, *pasts):
        if bias is not None:
            q, k, v = (x + part for x, part in zip((q, k, v), np.split(bias, 3), strict=True))
        q = np.moveaxis(q.reshape(batch, rows, heads, size), 2, 1)
        if not crossed:
            k, v = (np.moveaxis(x.reshape(batch, keys, heads, size), 2, 1) for x in (k, v))
        if past:
            k, v = (np.concatenate([old, new], 2) for old, new in zip(pasts, (k, v), strict=True))
        if variant == 4:
            added = (mask[:, None, None, :] - 1.0) * 10000
        hidden = (np.arange(past + keys) > past + np.arange(rows)[:, None]) & bool(attributes)
        y = references.attended(q, k, v, hidden, size**-0.5, added=added)
        return [np.moveaxis(y, 1, 2).reshape(batch, rows, -1), *((k, v) if past else ())]

    case.exact = exact


@family("GroupQueryAttention", variants=9, domain=MS)
def group_query_attention(case, variant):
    heads, kv_heads, size, rows, past, total, last, packed, rotary, options = [
        (4, 2, 16, 1, 7, 8, (7, 4), False, None, {}),
        (6, 2, 16, 5, 6, 12, (10,), False, "halves", {}),
        (4, 4, 16, 3, 9, 8, (7,), True, "neighbours", {"local_window_size": 4}),
        (6, 3, 16, 20, 4, 20, (19, 19), True, "halves", {"softcap": 3.0, "scale": 0.5}),
        (8, 1, 32, 1, 150, 151, (150, 90), False, None, {"smooth_softmax": 1}),
        (4, 2, 16, 1, 20, 21, (20, 9), False, None, {}),
        (4, 2, 16, 3, 6, 9, (8,), True, "halves", {"local_window_size": 5}),
        (4, 2, 16, 3, 6, 9, (8,), True, "halves", {"qk_norm_epsilon": 0.01}),
        (4, 2, 16, 5, 6, 12, (10,), False, "halves", {"causal": 0}),
    ][variant]  # fmt: skip
    batch = len(last)
    shapes = [(batch, rows, n * size) for n in (heads, kv_heads, kv_heads)]
    given = [case.reals(*shape, low=-2.0, high=2.0) for shape in shapes]
    names = [case.input(np.concatenate(given, -1)), "", ""] if packed else [case.input(array) for array in given]
    names += [case.real(batch, kv_heads, past, size) for _ in range(2)]
    names.append(case.input(np.array(last, np.int32)))
    length = case.node("Gather", [*case.node("Shape", [case.input(np.ones((batch, total), np.int64))]), case.constant(np.array(1))])
    names += case.node("Cast", length, to=TensorProto.INT32)
    caches = None
    if rotary:
        angles = np.outer(np.arange(16 + total), 100.0 ** (-np.arange(size // 2) / size)).astype(np.float32)
        caches = (np.cos(angles), np.sin(angles))
        names += [case.constant(cache) for cache in caches]
    sinks, added, norms = None, 0, None
    if variant == 7:
        norms = [case.reals(size) for _ in range(2)]
        names += [""] * (14 - len(names)) + [case.constant(norm) for norm in norms]
    case.unknown_to_onnxruntime = variant > 6
    if variant in (5, 6):
        sinks = case.reals(heads, low=-2.0, high=2.0)
        added = case.reals(1, heads, rows, total) if variant == 6 else 0
        names += [""] * (10 - len(names)) + ["" if variant == 5 else case.input(added), case.constant(sinks)]
    case.test(names, 3, num_heads=heads, kv_num_heads=kv_heads, do_rotary=int(bool(rotary)), rotary_interleaved=int(rotary == "neighbours"), **options)

    def exact(*arrays):
        parts = np.split(arrays[0], np.cumsum([shape[-1] for shape in shapes])[:2], -1) if packed else arrays[:3]
        q, k, v = (np.moveaxis(part.reshape(batch, rows, -1, size), 2, 1) for part in parts)
        past_key, past_value = arrays[1 if packed else 3 :][:2]
        if norms:
            q, k = (references.rms(x, options["qk_norm_epsilon"]) * norm for x, norm in zip((q, k), norms, strict=True))
        return references.group_query(
            q, k, v, past_key, past_value, last, total, caches, rotary == "neighbours", options.get("local_window_size", 0),
            scale=options.get("scale", size**-0.5), softcap=options.get("softcap", 0), zero="smooth_softmax" in options, sinks=sinks, added=added,
            causal="causal" not in options)  # fmt: skip

    case.exact = exact


@family("LinearAttention", variants=3)
@family("LinearAttention", variants=4, domain=MS)
def linear_attention(case, variant):
    rule, heads, states, size, width, steps = [
        ("gated_delta", 4, 2, 16, 24, 5), ("linear", 2, 2, 8, 40, 1), ("gated", 3, 3, 5, 9, 70), ("gated_delta", 2, 6, 16, 16, 1)][variant]  # fmt: skip
    batch, most = 2, max(heads, states)
    names = [case.real(batch, steps, n, low=-1.0, high=1.0) for n in (heads * size, states * size, states * width)]
    names.append(case.real(batch, states, size, width) if variant != 2 else "")
    decays, corrects = rule.startswith("gated"), rule.endswith("delta")
    names += [case.real(batch, steps, states * (size if variant == 2 else 1), low=-1.0, high=0.0) if decays else ""]
    names += [case.real(batch, steps, states, low=0.0, high=0.3)] if corrects else []
    case.test(names[:4] if rule == "linear" else names, 2, update_rule=rule, q_num_heads=heads, kv_num_heads=states, **({"scale": 0.4} if variant == 1 else {}))
    case.unknown_to_onnxruntime = True

    def exact(q, k, v, *more):
        more = list(more)
        split = lambda x, n: x.reshape(batch, steps, n, -1)
        state = more.pop(0) if variant != 2 else np.zeros((batch, states, size, width))
        q, k, v = split(q, heads), split(k, states), split(v, states)
        factors = np.exp(split(more.pop(0), states)) if decays else None
        each = lambda x: x if x is None else np.repeat(x, most // states, 2)
        rates = more.pop(0) if corrects else None
        y, _ = references.recurrence(
            np.repeat(q, most // heads, 2), each(k), each(v), np.repeat(state, most // states, 1), each(factors), each(rates), 0.4 if variant == 1 else size**-0.5)
        _, state = references.recurrence(k, k, v, state, factors, rates, 1)
        return [y.reshape(batch, steps, -1), state]

    case.exact = exact


@family("CausalConvWithState", variants=3)
@family("CausalConvWithState", variants=3, domain=MS)
def causal_conv(case, variant):
    batch, channels, length, taps = [(2, 6, 5, 4), (1, 40, 1, 4), (2, 3, 30, 3)][variant]
    x = case.real(batch, channels, length)
    weights, bias = case.reals(channels, 1, taps), case.reals(channels)
    past = [case.real(batch, channels, taps - 1)] if variant < 2 else []
    case.test([x, case.constant(weights), case.constant(bias), *past], 2, **({} if variant == 0 else {"activation": "silu"}))
    case.unknown_to_onnxruntime = True

    def exact(x, before=np.zeros((batch, channels, taps - 1))):
        whole = np.concatenate([before, x], 2)
        y = bias[:, None] + sum(weights[:, 0, i : i + 1] * whole[:, :, i : i + length] for i in range(taps))
        return [y if variant == 0 else y * sigmoid(y), whole[:, :, length:]]

    case.exact = exact


@family("Gemm", variants=3)
def gemm(case, variant):
    attributes = [{}, {"transB": 1, "alpha": 0.5, "beta": 2.0}, {"transA": 1}][variant]
    a = case.real(6, 4) if "transA" in attributes else case.real(4, 6)
    b = case.reals(5, 6) if "transB" in attributes else case.reals(6, 5)
    case.test([a, case.input(b) if variant == 2 else case.constant(b), case.constant(case.reals(*[(5,), (4, 1), (4, 5)][variant]))], **attributes)


@family("FusedGemm", domain=MS)
def fused_gemm(case, _variant):
    b, c = case.reals(6, 5), case.reals(5)
    case.test([case.real(4, 6), case.constant(b), case.constant(c)], activation="Sigmoid")
    case.exact = lambda a: sigmoid(a @ b.astype(np.float64) + c)


@family("Gelu", "BiasGelu", "FastGelu", "QuickGelu", domain=MS)
def contrib_gelu(case, _variant):
    bias = case.reals(8)
    given = [case.real(3, 8)] + ([case.constant(bias)] if case.op_type in {"BiasGelu", "FastGelu"} else [])
    case.test(given, **({"alpha": 1.5} if case.op_type == "QuickGelu" else {}))
    case.exact = {
        "Gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
        "BiasGelu": lambda x: (x + bias) * (1 + erf((x + bias) / math.sqrt(2))) / 2,
        "FastGelu": lambda x: (x + bias) * (1 + np.tanh(math.sqrt(2 / math.pi) * ((x + bias) + 0.044715 * (x + bias) ** 3))) / 2,
        "QuickGelu": lambda x: x * sigmoid(1.5 * x),
    }[case.op_type]


@family("LSTM", "GRU", "RNN", variants=3)
def recurrent(case, variant):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[case.op_type]
    direction, count = [("forward", 1), ("reverse", 1), ("bidirectional", 2)][variant]
    steps, batch, width, hidden = 5, 2, 3, 4
    attributes = {"direction": direction}
    if case.op_type == "GRU":
        attributes["linear_before_reset"] = int(variant == 1)
    weights = [case.reals(count, *shape) for shape in ((gates * hidden, width), (gates * hidden, hidden), (2 * gates * hidden,))]
    given = [case.real(steps, batch, width), *[case.constant(one) for one in weights]]
    if variant != 1:  # from a state
        given += ["", *[case.real(count, batch, hidden) for _ in range(2 if case.op_type == "LSTM" else 1)]]
    case.test(given, 2, hidden_size=hidden, **attributes)
    zero = np.zeros((count, batch, hidden))
    case.exact = lambda x, h=zero, c=zero: references.recurrent(case.op_type, x, *weights, h, c, **attributes)


# What only moves data.


@family("Identity")
def identity(case, _variant):
    case.test_between([case.real(3, 4)])


@family("Dropout")
def dropout(case, _variant):
    case.test_between([case.real(3, 4)])


@family("Cast")
def cast(case, _variant):
    half = case.node("Cast", case.node("Neg", [case.real(3, 4)]), to=TensorProto.FLOAT16)
    case.outputs += case.node("Neg", case.tested_node(half, to=TensorProto.FLOAT))


@family("Concat", variants=2)
def concat(case, variant):
    case.test_between([case.real(2, 3, 4), case.real(*[(2, 5, 4), (2, 3, 1)][variant])], axis=variant + 1)


@family("Flatten")
def flatten(case, _variant):
    case.test_between([case.real(2, 3, 4)], axis=2)


@family("Transpose", variants=2)
def transpose(case, variant):
    case.test_between([case.real(2, 3, 4, 5)], **[{}, {"perm": [0, 2, 3, 1]}][variant])


@family("Reshape")
def reshape(case, _variant):
    case.test_between([case.real(2, 3, 4), case.sizes(0, -1, 2)])


@family("Squeeze", "Unsqueeze")
def squeeze(case, _variant):
    value = case.real(2, 1, 4)
    axes = [1] if case.op_type == "Squeeze" else [0, 2]
    if case.opset < 13:
        case.test_between([value], axes=axes)
    else:
        case.test_between([value, case.sizes(*axes)])


@family("Expand")
def expand(case, _variant):
    case.test_between([case.real(3, 1), case.sizes(2, 1, 4)])


@family("Tile")
def tile(case, _variant):
    case.test_between([case.real(2, 3), case.sizes(2, 3)])


@family("Gather", variants=3)
def gather(case, variant):
    if variant == 2:  # an embedding
        rows = np.array([[6, 0, 2], [3, 3, 5]] if case.opset < 11 else [[6, 0, -7], [3, 3, -1]])
        (found,) = case.tested_node([case.constant(case.reals(7, 5)), case.input(rows)])
        case.outputs += case.node("Neg", [found])
        return
    case.test_between([case.real(5, 4), case.constant(np.array([[3, 0], [1, 1]]) if variant else np.array([2, 0, 3]))], axis=variant)


@family("Slice", variants=2)
def slice_(case, variant):
    value = case.real(6, 7)
    if case.opset < 10:
        case.test_between([value], starts=[1, -5], ends=[5, 100], axes=[0, 1])
    else:
        limits = [([1, -5], [5, 100], [0, 1], [2, 1]), ([-1], [-100], [1], [-2])][variant]
        case.test_between([value] + [case.sizes(*one) for one in limits])


@family("Split")
def split(case, _variant):
    value, parts = case.real(2, 6), [1, 3, 2]
    if case.opset < 13:
        case.test_between([value], 3, axis=1, split=parts)
    else:
        case.test_between([value, case.sizes(*parts)], 3, axis=1)


@family("Pad", variants=3)
def pad(case, variant):
    mode, pads = ["constant", "reflect", "edge"][variant], [0, 1, 2, 1, 0, 2]
    if case.opset < 11:
        case.test_between([case.real(2, 3, 4)], mode=mode, pads=pads)
    else:
        case.test_between([case.real(2, 3, 4), case.sizes(*pads)], mode=mode)


@family("ScatterND", variants=3)
def scatter_nd(case, variant):
    if variant == 0:  # whole rows
        case.test_between([case.real(5, 4), case.constant(np.array([[1], [2]])), case.real(2, 4)])
    elif variant == 1:  # a box inside, which nothing but its first axis fills
        grid = np.stack(np.meshgrid([0, 1], [1, 2, 3], [-2, 3], indexing="ij"), axis=-1)
        case.test_between([case.real(2, 5, 4, 3), case.constant(grid), case.real(2, 3, 2, 3)])
    else:  # everything
        case.test_between([case.real(2, 3), case.constant(np.array([[0], [-1]])), case.real(2, 3)])


@family("ScatterElements", variants=2)
def scatter_elements(case, variant):
    rows = np.array([[1, 1, 1], [2, 2, 2]])
    indices, updates = [(rows, (2, 3)), (rows.T, (3, 2))][variant]
    case.test_between([case.real(4, 5), case.constant(indices), case.real(*updates)], axis=variant)


@family("DepthToSpace", "SpaceToDepth")
def depth_and_space(case, _variant):
    case.test_between([case.real(1, 8, 4, 6)], blocksize=2)


@family("Resize", variants=2)
def resize(case, variant):
    mode, scales = [("nearest", [1, 1, 2, 3]), ("linear", [1, 1, 1.5, 2])][variant]
    value, scale = case.real(1, 3, 4, 6), case.constant(np.array(scales, np.float32))
    half_pixel = variant == 1 and case.opset >= 11
    case.exact = lambda x: references.resized(x, scales, mode, half_pixel)
    if case.opset < 11:
        case.test([value, scale], mode=mode)
    else:
        empty = case.constant(np.array([], np.float32)) if case.opset < 13 else ""
        rounding = {"nearest_mode": "floor"} if mode == "nearest" else {}
        case.test([value, empty, scale], mode=mode, coordinate_transformation_mode="half_pixel" if half_pixel else "asymmetric", **rounding)


@family("Upsample", variants=2, last=9)
def upsample(case, variant):
    mode, scales = [("nearest", [1.0, 1.0, 2.0, 3.0]), ("linear", [1.0, 1.0, 2.0, 2.0])][variant]
    case.exact = lambda x: references.resized(x, scales, mode, False)
    if case.opset < 9:
        case.test([case.real(1, 3, 4, 6)], mode=mode, scales=scales)
    else:
        case.test([case.real(1, 3, 4, 6), case.constant(np.array(scales, np.float32))], mode=mode)


# Integers.


@family("QuantizeLinear", "DequantizeLinear")
def conversions(case, _variant):
    scale, zero = np.float32(0.0311), np.uint8(120)
    value = case.node("Neg", [case.real(3, 7)])
    for op_type in ("QuantizeLinear", "DequantizeLinear"):
        inputs = [*value, case.constant(scale), case.constant(zero)]
        value = case.tested_node(inputs) if op_type == case.op_type else case.node(op_type, inputs)
    case.outputs += case.node("Neg", value)
    case.quantum = scale
    case.exact = lambda x: -reals_of(requantized(-x, scale, zero), scale, float(zero))


X, Y = (0.0213, 118), (0.0311, 125)  # scale and zero point


def quantized(case, scale, zero):
    """A scale and a zero point of u8, as constants."""
    return [case.constant(np.float32(scale)), case.constant(np.uint8(zero))]


@family("QLinearConv", variants=2)
def qlinear_conv(case, variant):
    channels = 6
    scales = case.reals(channels, low=0.005, high=0.02) if variant else np.float32(0.01)
    zeros = np.zeros(channels, np.int8) if variant else np.int8(0)
    weights = [case.constant(case.bytes(channels, 4, 3, 3, kind=np.int8)), case.constant(scales), case.constant(zeros)]
    bias = case.constant(case.random.integers(-1000, 1000, channels, np.int32))
    given = [case.input(case.bytes(1, 4, 7, 6)), *quantized(case, *X), *weights, *quantized(case, 0.0513, 130), bias]
    case.test(given, pads=[1, 1, 1, 1])
    case.quantum = 1


@family("QLinearMatMul")
def qlinear_matmul(case, _variant):
    weights = case.bytes(8, 5, kind=np.int8)
    second = [case.constant(weights), case.constant(np.float32(0.02)), case.constant(np.int8(0))]
    case.test([case.input(case.bytes(4, 8)), *quantized(case, *X), *second, *quantized(case, *Y)])
    case.exact = lambda x: requantized(reals_of(x, *X) @ reals_of(weights, 0.02, 0), *Y)
    case.quantum = 1


@family("ConvInteger")
def conv_integer(case, _variant):
    given = [case.input(case.bytes(1, 4, 7, 6)), case.constant(case.bytes(6, 4, 3, 3)), case.constant(np.uint8(118))]
    case.test([*given, case.constant(np.uint8(128))], pads=[1, 1, 1, 1])


@family("MatMulInteger", variants=3)
def matmul_integer(case, variant):
    kind, zeros = [(np.int8, np.int8(0)), (np.uint8, np.uint8(131)), (np.int8, case.bytes(5, kind=np.int8))][variant]
    point = case.input(np.array(118, np.uint8)) if variant else case.constant(np.uint8(118))
    case.test([case.input(case.bytes(4, 8)), case.constant(case.bytes(8, 5, kind=kind)), point, case.constant(zeros)])


@family("MatMulIntegerToFloat", variants=2, domain=MS)
def matmul_integer_to_float(case, variant):
    weights, zeros = case.bytes(9, 5, kind=np.int8), case.bytes(5, kind=np.int8) if variant else np.int8(0)
    scales, bias = case.reals(5, low=0.01, high=0.1), case.reals(5) if variant else np.float32(0)
    scale, zero = case.input(np.array(0.03, np.float32)), case.input(np.array(118, np.uint8))
    inputs = [case.input(case.bytes(2, 3, 9)), case.constant(weights), scale, case.constant(scales), zero]
    case.test([*inputs, case.constant(zeros), case.constant(bias)] if variant else inputs)
    case.exact = lambda step, point, x: (x - point) * step @ ((weights.astype(np.float64) - zeros) * scales) + bias


@family("DynamicQuantizeMatMul", variants=2, domain=MS)
def dynamic_quantize_matmul(case, variant):
    """Integers over a range of 255: their scale is 1."""
    weights, zeros = case.bytes(9, 5, kind=np.uint8 if variant else np.int8), np.uint8(120) if variant else np.int8(0)
    scales, bias = case.reals(5, low=0.01, high=0.1) if variant else np.float32(0.03), case.reals(5) if variant else np.float32(0)
    x = case.bytes(3, 9).astype(np.float32) - 90
    x[0, :2] = -90, 165
    constants = [case.constant(weights), case.constant(scales)]
    case.test([case.input(x), *constants, *([case.constant(zeros), case.constant(bias)] if variant else [])])
    case.exact = lambda a: a @ ((weights.astype(np.float64) - zeros) * scales) + bias


@family("DynamicQuantizeLSTM", variants=3, domain=MS)
def dynamic_quantize_lstm(case, variant):
    """uint8 weights by column; int8 ones; both directions, from a state. One sequence: threads of ONNX Runtime round those of a batch apart."""
    direction, count = [("forward", 1), ("reverse", 1), ("bidirectional", 2)][variant]
    steps, batch, width, hidden = 5, 1, 3, 4
    kind, zero = (np.int8, 0) if variant == 1 else (np.uint8, 128)
    dims = (count, 4 * hidden) if variant == 0 else (count,)
    weights = [case.bytes(count, depth, 4 * hidden, kind=kind) for depth in (width, hidden)]
    scales = [case.reals(*dims, low=0.002, high=0.01) for _ in weights]
    bias = case.reals(count, 8 * hidden)
    given = [case.real(steps, batch, width), *map(case.constant, weights), case.constant(bias), ""]
    given += [case.real(count, batch, hidden), case.real(count, batch, hidden)] if variant == 2 else ["", ""]
    points = [case.constant(np.full(dims, zero, kind)) for _ in scales]
    case.test([*given, "", case.constant(scales[0]), points[0], case.constant(scales[1]), points[1]], 2, hidden_size=hidden, direction=direction)
    zeros = np.zeros((count, batch, hidden))
    case.exact = lambda x, h=zeros, c=zeros: references.dynamic_lstm(
        x, [(w.astype(np.float64) - zero) for w in weights], [s.reshape(count, -1) for s in scales], bias, h, c, direction)


@family("QGemm", variants=3, domain=MS)
def qgemm(case, variant):
    """Bytes, by columns; real numbers of a transposed A; one number as C."""
    weights, zeros = case.bytes(9, 5, kind=np.uint8 if variant == 2 else np.int8), np.uint8(131) if variant == 2 else np.int8(0)
    scales = case.reals(5, low=0.005, high=0.02) if variant else np.float32(0.01)
    zeros = zeros if scales.ndim == 0 else np.full(5, zeros)
    counts = [case.random.integers(-2000, 2000, (1, 5)), None, np.array(700)][variant]
    x, alpha = case.bytes(*((9, 3) if variant == 1 else (3, 9))), 0.5 if variant == 1 else 1.0
    inputs = [case.input(x), *quantized(case, *X), case.constant(weights.T.copy() if variant else weights), case.constant(scales), case.constant(zeros)]
    inputs.append("" if counts is None else case.constant(counts.astype(np.int32)))
    result = None if variant == 1 else (0.0513, 130)
    case.test(inputs + (quantized(case, *result) if result else []), alpha=alpha, transA=int(variant == 1), transB=int(variant > 0))

    def exact(a):
        a = a.T if variant == 1 else a
        real = ((a - X[1]) @ (weights.astype(np.float64) - zeros) + (0 if counts is None else counts)) * (alpha * X[0] * scales.astype(np.float64))
        return requantized(real, *result) if result else real

    case.exact, case.quantum = exact, 1 if result else 0


@family("QAttention", variants=3, domain=MS)
def qattention(case, variant):
    """Without a mask; with one; causal, with one and steps of each column."""
    heads, size, rows, depth = 2, 4, 5, 12
    weights, zeros = case.bytes(depth, 3 * heads * size, kind=np.int8), np.int8(0)
    scales = case.reals(3 * heads * size, low=0.001, high=0.002) if variant == 2 else np.float32(0.0015)
    bias, x = case.reals(3 * heads * size), case.bytes(2, rows, depth)
    mask = case.random.integers(0, 2, (2, rows)).astype(np.int32)
    mask[:, 0] = 1
    given = case.input(x)
    steps = [case.constant(np.float32(X[0])), case.constant(scales)]
    masks = [case.input(mask)] if variant else [""]
    zero = [case.constant(np.uint8(X[1])), case.constant(np.full(scales.shape, zeros))]
    case.test([given, case.constant(weights), case.constant(bias), *steps, *masks, *zero], num_heads=heads, unidirectional=int(variant == 2))

    def exact(*arrays):
        arrays = sorted(arrays, key=lambda array: -array.ndim)
        projected = (arrays[0] - X[1]) @ weights.astype(np.float64) * (X[0] * scales.astype(np.float64)) + bias
        q, k, v = (part.reshape(2, rows, heads, size).transpose(0, 2, 1, 3) for part in np.split(projected, 3, axis=-1))
        logits = q @ k.transpose(0, 1, 3, 2) / math.sqrt(size)
        if variant:
            logits = logits + np.where(arrays[1] > 0, 0, -10000.0)[:, None, None]
        if variant == 2:
            logits = np.where(np.tril(np.ones((rows, rows))), logits, -np.inf)
        weighted = np.exp(logits - logits.max(-1, keepdims=True))
        result = weighted / weighted.sum(-1, keepdims=True) @ v
        return result.transpose(0, 2, 1, 3).reshape(2, rows, heads * size)

    case.exact = exact


@family("DynamicQuantizeLinear")
def dynamic_quantize_linear(case, _variant):
    x = case.reals(4, 7, low=-2.0, high=3.0)
    x[0, :2] = -2, 3
    case.outputs += case.node("DequantizeLinear", case.tested_node([case.input(x)], 3))
    case.exact = lambda a: a
    case.quantum = 5 / 255


@family("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(case, _variant):
    other = (0.0257, 100)
    a, b = case.input(case.bytes(2, 3, 4)), case.input(case.bytes(3, 1))
    case.test([a, *quantized(case, *X), b, *quantized(case, *other), *quantized(case, *Y)])
    work = np.add if case.op_type == "QLinearAdd" else np.multiply
    case.exact = lambda first, second: requantized(work(reals_of(first, *X), reals_of(second, *other)), *Y)
    case.quantum = 1


@family("QLinearAveragePool", domain=MS)
def qlinear_average_pool(case, _variant):
    case.test([case.input(case.bytes(1, 3, 6, 6)), *quantized(case, *X), *quantized(case, *Y)], kernel_shape=[2, 2], strides=[2, 2])
    case.exact = lambda x: requantized(reals_of(x, *X).reshape(1, 3, 3, 2, 3, 2).mean((3, 5)), *Y)
    case.quantum = 1


@family("QLinearGlobalAveragePool", domain=MS)
def qlinear_global_average_pool(case, _variant):
    case.test([case.input(case.bytes(1, 3, 6, 6)), *quantized(case, *X), *quantized(case, *Y)], channels_last=0)
    case.exact = lambda x: requantized(reals_of(x, *X).mean((2, 3), keepdims=True), *Y)
    case.quantum = 1


@family("QLinearLeakyRelu", "QLinearSigmoid", domain=MS)
def qlinear_unary(case, _variant):
    alpha = {"alpha": 0.1} if case.op_type == "QLinearLeakyRelu" else {}
    scale, zero = Y if alpha else (1 / 256, 0)
    case.test([case.input(case.bytes(5, 9)), *quantized(case, *X), *quantized(case, scale, zero)], **alpha)

    def exact(x):
        real = reals_of(x, *X)
        return requantized(np.where(real < 0, 0.1 * real, real) if alpha else sigmoid(real), scale, zero)

    case.exact = exact
    case.quantum = 1


@family("QLinearSoftmax", domain=MS)
def qlinear_softmax(case, _variant):
    case.test([case.input(case.bytes(5, 9)), *quantized(case, *X), *quantized(case, 1 / 256, 0)], axis=-1, opset=13)

    def exact(x):
        powers = np.exp(reals_of(x, *X))
        return requantized(powers / powers.sum(-1, keepdims=True), 1 / 256, 0)

    case.exact = exact
    case.quantum = 1
