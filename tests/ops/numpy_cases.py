"""Cases of operators that are newer than Debian's onnx and ONNX Runtime, for make_contrib_cases.py; the outputs are computed here
with numpy, in double precision."""

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
BF16 = ml_dtypes.bfloat16


class Writer:
    def __init__(self, folder):
        self.folder = folder
        self.rng = np.random.default_rng(26)

    def normal(self, *shape, scale=1.0, dtype=np.float32):
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def uniform(self, low, high, *shape, dtype=np.float32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def case(self, name, op, inputs, outputs, domain="", version=None, **attributes):
        """inputs: arrays, None where absent."""
        version = version or (21 if domain else 27)
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
        given = [(n, np.asarray(x)) for n, x in zip(names, inputs) if n]
        wanted = [(f"y{i}", np.asarray(y)) for i, y in enumerate(outputs)]
        info = lambda n, x: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        graph = helper.make_graph(
            [helper.make_node(op, names, [n for n, _ in wanted], domain=domain, **attributes)], name,
            [info(*each) for each in given], [info(*each) for each in wanted])
        opsets = [helper.make_opsetid("", version)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        data = self.folder / name / "test_data_set_0"
        data.mkdir(parents=True)
        (self.folder / name / "model.onnx").write_bytes(model.SerializeToString())
        for kind, tensors in (("input", given), ("output", wanted)):
            for i, (_, x) in enumerate(tensors):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())


def opset_26_cases(w):
    x = w.normal(2, 3)
    w.case("bit_cast_float_int32", "BitCast", [x], [x.view(np.int32)], version=26, to=TensorProto.INT32)
    half = w.normal(5, dtype=np.float16)
    w.case("bit_cast_half_bfloat16", "BitCast", [half], [half.view(BF16)], version=26, to=TensorProto.BFLOAT16)
    flags = np.array([True, False, True])
    w.case("bit_cast_bool_uint8", "BitCast", [flags], [flags.view(np.uint8)], version=26, to=TensorProto.UINT8)
    small = np.arange(-4, 5).astype(ml_dtypes.int4)
    w.case("bit_cast_int4_uint4", "BitCast", [small], [(small.astype(np.int8) & 15).astype(ml_dtypes.uint4)], version=26,
           to=TensorProto.UINT4)
    x = w.normal(3, 4, dtype=np.float64)
    axis = lambda value, kind=np.int64: np.array(value, kind)
    w.case("cum_prod", "CumProd", [x, axis(1)], [np.cumprod(x, 1)], version=26)
    before = lambda y, axis: np.concatenate([np.ones_like(y.take([0], axis)), np.cumprod(y, axis).take(range(y.shape[axis] - 1), axis)], axis)
    w.case("cum_prod_exclusive", "CumProd", [x, axis(-2, np.int32)], [before(x, 0)], version=26, exclusive=1)
    w.case("cum_prod_reverse", "CumProd", [x, axis(0)], [np.cumprod(x[::-1], 0)[::-1]], version=26, reverse=1)
    ints = w.rng.integers(-9, 9, (2, 30)).astype(np.int32)
    w.case("cum_prod_wraps_exclusive_reverse", "CumProd", [ints, axis(1)], [before(ints[:, ::-1], 1)[:, ::-1].astype(np.int32)], version=26,
           exclusive=1, reverse=1)
    short = w.uniform(0.5, 1.5, 2, 8, dtype=BF16)
    w.case("cum_prod_bfloat16", "CumProd", [short, axis(1)], [np.cumprod(short.astype(np.float64), 1).astype(BF16)], version=26)


def range_cases(w):
    def one(name, start, limit, delta, dtype, **attributes):
        count = max(0, int(np.ceil((limit - start) / delta)))
        values = (start + np.arange(count) * delta).astype(dtype)
        w.case(name, "Range", [np.array(x, dtype) for x in (start, limit, delta)], [values], **attributes)

    one("range_27_int32", 10, 4, -2, np.int32)
    one("range_27_half", 2040, 2060, 1, np.float16)  # from 2048 on x + 1 is x
    one("range_27_bfloat16_double", 250, 262, 0.5, BF16, stash_type=TensorProto.DOUBLE)
    one("range_27_float_whatever_stash", 1, 2, 0.25, np.float32, stash_type=10)


def linear_attention(rule, q_heads, kv_heads, query, key, value, past=None, decay=None, beta=None, scale=0.0):
    batch, steps, _ = query.shape
    size, width = query.shape[2] // q_heads, value.shape[2] // kv_heads
    heads = lambda x, n: x.astype(np.float64).reshape(batch, steps, n, x.shape[2] // n)
    k_heads = key.shape[2] // size
    q, k, v = heads(query, q_heads), heads(key, k_heads), heads(value, kv_heads)
    state = np.zeros((batch, kv_heads, size, width)) if past is None else past.astype(np.float64)
    most = max(q_heads, kv_heads)
    k = np.repeat(k, kv_heads // k_heads, 2)
    output = np.zeros((batch, steps, most, width))
    for t in range(steps):
        if rule.startswith("gated"):
            state = state * np.exp(heads(decay, kv_heads)[:, t])[..., None]
        new = v[:, t]
        if rule.endswith("delta"):
            rate = beta[:, t].astype(np.float64)[..., None]
            new = rate * (new - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], new)
        output[:, t] = np.einsum("bhkv,bhk->bhv", np.repeat(state, most // kv_heads, 1), np.repeat(q[:, t], most // q_heads, 1))
    output = output.reshape(batch, steps, most * width) * (scale or 1 / np.sqrt(size))
    return [output.astype(query.dtype), state.astype(query.dtype if past is None else past.dtype)]


def linear_attention_cases(w):
    def one(name, rule, q_heads, kv_heads, steps=3, k_heads=None, past=None, per_key=False, one_rate=False, dtype=np.float32, scale=0.0,
            domain="", default_rule=False):
        batch, size, width = 2, 4, 6
        query = w.normal(batch, steps, q_heads * size, dtype=dtype)
        k_heads = k_heads or kv_heads
        key = w.normal(batch, steps, k_heads, size)
        key = (key / np.linalg.norm(key, axis=-1, keepdims=True)).reshape(batch, steps, k_heads * size).astype(dtype)
        value = w.normal(batch, steps, kv_heads * width, dtype=dtype)
        past = w.normal(batch, kv_heads, size, width, dtype=past) if past else None
        decay = w.uniform(-2, 0, batch, steps, kv_heads * (size if per_key else 1), dtype=dtype) if rule.startswith("gated") else None
        beta = w.uniform(0, 1, batch, steps, 1 if one_rate else kv_heads, dtype=dtype) if rule.endswith("delta") else None
        outputs = linear_attention(rule, q_heads, kv_heads, query, key, value, past, decay, beta, scale)
        attributes = {} if default_rule else {"update_rule": rule}
        if scale:
            attributes["scale"] = scale
        w.case(name, "LinearAttention", [query, key, value, past, decay, beta], outputs, domain, q_num_heads=q_heads,
               kv_num_heads=kv_heads, **attributes)

    one("linear_attention", "linear", 2, 2)
    one("linear_attention_gated", "gated", 2, 2, past=np.float32)
    one("linear_attention_gated_per_key", "gated", 2, 1, past=np.float32, per_key=True)
    one("linear_attention_delta", "delta", 4, 2, one_rate=True)
    one("linear_attention_gated_delta", "gated_delta", 2, 2, past=np.float32, default_rule=True)
    one("linear_attention_step", "gated_delta", 4, 2, steps=1, past=np.float32, scale=0.3)
    one("linear_attention_half", "gated_delta", 2, 2, past=np.float32, dtype=np.float16)
    one("linear_attention_bfloat16", "gated_delta", 2, 2, past=BF16, dtype=BF16)
    one("linear_attention_no_steps", "gated_delta", 2, 2, steps=0, past=np.float32)
    one("linear_attention_ms", "gated_delta", 2, 2, past=np.float32, domain=MS)
    one("linear_attention_ms_more_values", "gated_delta", 2, 4, past=np.float32, domain=MS)
    one("linear_attention_ms_shared_keys", "gated_delta", 4, 4, k_heads=2, past=np.float32, domain=MS)


def causal_conv(x, weights, bias=None, past=None, silu=False, dilation=1):
    """x: [batch, channels, length]."""
    taps = weights.shape[2]
    before = (taps - 1) * dilation
    past = np.zeros((*x.shape[:2], before), x.dtype) if past is None else past
    padded = np.concatenate([past, x], 2)
    wide, length = padded.astype(np.float64), x.shape[2]
    y = sum(weights[:, 0, k, None].astype(np.float64) * wide[:, :, k * dilation:k * dilation + length] for k in range(taps))
    if bias is not None:
        y = y + bias.astype(np.float64)[:, None]
    if silu:
        y = y / (1 + np.exp(-y))
    return [y.astype(x.dtype), padded[:, :, padded.shape[2] - before:]]


def causal_conv_cases(w):
    def one(name, length=5, taps=4, bias=True, past=True, activation=None, dtype=np.float32, domain="", dilation=None, last=None):
        batch, channels = 2, 6
        x = w.normal(batch, channels, length, dtype=dtype)
        weights, bias = w.normal(channels, 1, taps, dtype=dtype), w.normal(channels, dtype=dtype) if bias else None
        past = w.normal(batch, channels, (taps - 1) * (dilation or 1), dtype=dtype) if past else None
        y, present = causal_conv(x, weights, bias, past, activation in ("silu", "swish"), dilation or 1)
        attributes = {"activation": activation} if activation else {}
        if dilation:
            attributes["dilation"] = dilation
        if last:
            move = lambda a: None if a is None else np.ascontiguousarray(a.transpose(0, 2, 1)).reshape(a.shape[0], a.shape[2], *last)
            x, past, y, present = move(x), move(past), move(y), move(present)
            attributes["channels_last"] = 1
        w.case(name, "CausalConvWithState", [x, weights, bias, past], [y, present], domain, **attributes)

    one("causal_conv")
    one("causal_conv_silu", activation="silu", bias=False)
    one("causal_conv_start", past=False, activation="none")
    one("causal_conv_step", length=1, activation="swish")
    one("causal_conv_short", length=2, past=False)
    one("causal_conv_one_tap", taps=1, past=False)
    one("causal_conv_half", dtype=np.float16, activation="silu")
    one("causal_conv_bfloat16", dtype=BF16)
    one("causal_conv_ms", activation="silu", domain=MS)
    one("causal_conv_ms_dilation", dilation=3, domain=MS)
    one("causal_conv_ms_channels_last", last=[2, 3], domain=MS, activation="silu")


def write(folder):
    writer = Writer(folder)
    for cases in (opset_26_cases, range_cases, linear_attention_cases, causal_conv_cases):
        cases(writer)
