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


def activated(kind, fusion, alpha, beta, limit, first, third):
    """`first`: what fc1 gives; `third`: fc3, or None."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    if kind == "swiglu":
        gate, linear = (first[:, ::2], first[:, 1::2]) if fusion == 1 else np.split(first, 2, 1) if fusion == 2 else (first, third)
        gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
        return gate * sigmoid(alpha * gate) * (linear + beta)
    gelu = lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    y = {"relu": lambda x: np.maximum(x, 0), "gelu": gelu, "silu": lambda x: x * sigmoid(x), "identity": lambda x: x}[kind](first)
    return y if third is None else y * third


def through(row, layer, expert):
    weights, bias = layer
    return row @ weights[expert].astype(np.float64).T + (0 if bias is None else bias[expert].astype(np.float64))


def mixture(x, router, layers, k, kind="relu", normalize=0, fusion=0, alpha=1.0, beta=0.0, limit=np.inf, mixing=None):
    """x: [tokens, hidden]; layers: three of (weights [experts, out, in], bias or None), the last one may be None."""
    x, router = x.astype(np.float64), router.astype(np.float64)
    shares = np.exp(router - router.max(1, keepdims=True))
    shares = shares / shares.sum(1, keepdims=True)
    if mixing is not None:
        shares = mixing.astype(np.float64)
    chosen = np.argsort(-router, 1, kind="stable")[:, :k]
    output = np.zeros_like(x)
    for token, experts in enumerate(chosen):
        total = shares[token, experts].sum() if normalize else 1.0
        for e in experts:
            row = x[token:token + 1]
            third = through(row, layers[2], e) if layers[2] else None
            hidden = activated(kind, fusion, alpha, beta, limit, through(row, layers[0], e), third)
            output[token] += shares[token, e] / total * through(hidden, layers[1], e)[0]
    return output


def moe_cases(w):
    def one(name, kind="relu", k=2, fusion=0, gated=False, bias=True, dtype=np.float32, batch=None, inner=6, **attributes):
        tokens, hidden, experts = 5, 8, 4
        x, router = w.normal(tokens, hidden, dtype=dtype), w.normal(tokens, experts, scale=2.0, dtype=dtype)

        def layer(out, size):
            return w.normal(experts, out, size, scale=0.5, dtype=dtype), w.normal(experts, out, dtype=dtype) if bias else None

        first, second = layer(inner * (2 if fusion else 1), hidden), layer(hidden, inner)
        third = layer(inner, hidden) if gated else None
        y = mixture(x, router, (first, second, third), k, kind, attributes.get("normalize_routing_weights", 0), fusion,
                    attributes.get("activation_alpha", 1.0), attributes.get("activation_beta", 0.0), attributes.get("swiglu_limit", np.inf))
        if batch:
            x = x.reshape(batch, tokens // batch, hidden)
        if fusion:
            attributes["swiglu_fusion"] = fusion
        w.case(name, "MoE", [x, router, *first, *second, *(third or (None, None))], [y.reshape(x.shape).astype(dtype)], MS,
               activation_type=kind, k=k, **attributes)

    one("moe_relu")
    one("moe_gelu_one", "gelu", k=1, bias=False)
    one("moe_silu_normalized", "silu", normalize_routing_weights=1)
    one("moe_identity_all", "identity", k=4, batch=5)
    one("moe_swiglu", "swiglu", fusion=1)
    one("moe_swiglu_limits", "swiglu", fusion=1, normalize_routing_weights=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.7)
    one("moe_swiglu_halves", "swiglu", fusion=2)
    one("moe_swiglu_apart", "swiglu", gated=True)
    one("moe_silu_gated", "silu", gated=True, normalize_routing_weights=1)
    one("moe_half", "silu", dtype=np.float16)
    one("moe_bfloat16", dtype=BF16)


def quantized_layer(w, bits, experts, out, size, block, zeros):
    """Weights packed low bits first, scales, zero points or None; and the weights."""
    most = 1 << bits
    values = w.rng.integers(0, most, (experts, out, size))
    blocks = size // block if block else 1
    scales = w.uniform(0.02, 0.1, experts, out, blocks) * (1 if bits == 4 else 4 if bits == 2 else 0.06)
    points = w.rng.integers(most // 4, most, (experts, out, blocks)) if zeros else np.full((experts, out, blocks), most // 2)
    spread = lambda x: np.repeat(x, size // blocks, 2)
    weights = (values - spread(points)) * spread(scales.astype(np.float64))

    def packed(x):
        per_byte = 8 // bits
        x = np.concatenate([x, np.zeros((*x.shape[:-1], -x.shape[-1] % per_byte), x.dtype)], -1)
        x = x.reshape(*x.shape[:-1], -1, per_byte) << (np.arange(per_byte) * bits)
        return x.sum(-1).astype(np.uint8)

    points = (packed(points) if block else packed(points[:, :, 0])) if zeros else None
    return packed(values), scales if block else scales[:, :, 0], points, weights


def qmoe_cases(w):
    def one(name, kind="silu", bits=4, block=0, zeros=False, k=2, fusion=0, gated=False, bias=True, dtype=np.float32, mixing=False, hidden=32,
            inner=32, normalize=1, **attributes):
        tokens, experts = 3, 3
        x, router = w.normal(tokens, hidden, dtype=dtype), w.normal(tokens, experts, scale=2.0, dtype=dtype)
        layers = [quantized_layer(w, bits, experts, inner * (2 if fusion else 1), hidden, block, zeros),
                  quantized_layer(w, bits, experts, hidden, inner, block, zeros),
                  quantized_layer(w, bits, experts, inner, hidden, block, zeros) if gated else None]
        biases = [w.normal(experts, layer[3].shape[1], dtype=dtype) if bias and layer else None for layer in layers]
        mixing = w.uniform(0.1, 1, tokens, experts, dtype=dtype) if mixing else None
        y = mixture(x, router, [layer and (layer[3], each) for layer, each in zip(layers, biases)], k, kind,
                    normalize, fusion, attributes.get("activation_alpha", 1.0),
                    attributes.get("activation_beta", 0.0), attributes.get("swiglu_limit", np.inf), mixing)
        given = [x, router]
        for layer, each in zip(layers, biases):
            given += [layer[0], layer[1].astype(dtype), each] if layer else [None, None, None]
        given += [layer and layer[2] for layer in layers] + [mixing]
        attributes |= {"swiglu_fusion": fusion} if fusion else {}
        attributes |= {"block_size": block} if block else {}
        w.case(name, "QMoE", given, [y.astype(dtype)], MS, activation_type=kind, k=k, expert_weight_bits=bits,
               normalize_routing_weights=normalize, **attributes)

    # Without it, which ONNX Runtime's CPU kernel does not look at (1.30), shares are those of all experts.
    one("qmoe_not_normalized", block=16, normalize=0)
    one("qmoe_rows")
    one("qmoe_blocks", block=16)
    one("qmoe_blocks_zeros", block=16, zeros=True)
    one("qmoe_rows_zeros", "relu", zeros=True, bias=False)
    one("qmoe_8_bits", "identity", bits=8)
    one("qmoe_8_bits_zeros", "gelu", bits=8, block=16, zeros=True)
    one("qmoe_8_bits_one_block", bits=8, block=32, zeros=True)
    one("qmoe_2_bits", bits=2, block=16)
    one("qmoe_2_bits_zeros", bits=2, block=16, zeros=True, hidden=64, inner=64)
    one("qmoe_swiglu", "swiglu", fusion=1, block=32, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)
    one("qmoe_swiglu_halves", "swiglu", fusion=2)
    one("qmoe_swiglu_apart", "swiglu", gated=True, block=16, zeros=True)
    one("qmoe_mixing", k=1, mixing=True, normalize=0)
    one("qmoe_mixing_normalized", mixing=True)
    one("qmoe_half", dtype=np.float16)


def write(folder):
    writer = Writer(folder)
    for cases in (opset_26_cases, range_cases, linear_attention_cases, causal_conv_cases, moe_cases, qmoe_cases):
        cases(writer)
