"""Decoders of text with 4-bit weights, in the form in which ONNX Runtime GenAI's model builder writes them (int4, accuracy_level 4): MatMulNBits in
blocks of 32, GroupQueryAttention with rotary embedding, SkipSimplifiedLayerNormalization, key and value caches as inputs and outputs."""

import dataclasses

import builder
import numpy as np
from onnx import TensorProto, helper

MS = "com.microsoft"
BLOCK = 32


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int = 32000

    @property
    def head(self):
        return self.hidden // self.heads


SIZES = {
    "60m": Size(layers=12, hidden=576, heads=9, kv_heads=3, intermediate=1536),
    "1b": Size(layers=22, hidden=2048, heads=32, kv_heads=4, intermediate=5632),
}


class Decoder(builder.Builder):
    def __init__(self, name, size, tokens, past, bits, level, qdq=False, longest=2048, cache_bits=0, norms=False):
        """`cache_bits`: of integers in caches, 8 or 4, with a scale per element of a head; 0: floats. `norms`: of the heads of queries and keys (Qwen 3)."""
        super().__init__(name, opset=21 if qdq else 14)
        self.qdq, self.cache_bits, self.norms = qdq, cache_bits, norms
        self.size, self.tokens, self.past, self.bits, self.level, self.longest = size, tokens, past, bits, level, longest

    def model(self):
        model = super().model()
        model.opset_import.append(helper.make_opsetid(MS, 1))
        return model

    def linear(self, leaf, value, k, n):
        """Elements of the whole range of `bits` bits; scales that keep the variance of what is multiplied."""
        random = builder.random_for(self.parameter_name(leaf))
        blocks = k // BLOCK
        stored = random.integers(0, 256, (n, blocks, BLOCK * self.bits // 8), np.uint8)
        scale = np.sqrt(12 / k) / (1 << self.bits)
        scales = (scale * random.uniform(0.9, 1.1, (n, blocks))).astype(np.float32)
        if self.qdq:
            return self.dequantized_linear(leaf, value, stored.reshape(n, -1), scales)
        with self.scope(leaf):
            names = [self.initializer(f"model.{self.parameter_name('MatMulNBits.' + part)}", values) for part, values in (("qweight", stored), ("scales", scales))]
            return self.node("MatMulNBits", [value, *names], domain=MS, K=k, N=n, bits=self.bits, block_size=BLOCK, accuracy_level=self.level)

    def dequantized_linear(self, leaf, value, stored, scales):
        """The same weights, less 8, as int4 [k, n] in blocks along k, and a MatMul."""
        rows = np.stack([stored & 15, stored >> 4], axis=-1).reshape(len(stored), -1).T ^ 8
        packed = (rows[:, ::2] | rows[:, 1::2] << 4).astype(np.uint8)
        with self.scope(leaf):
            prefix = f"model.{self.parameter_name('MatMul')}"
            weight = self.initializer(f"{prefix}.weight_Q4", TensorProto(data_type=TensorProto.INT4, dims=rows.shape, raw_data=packed.tobytes()))
            scale = self.initializer(f"{prefix}.weight_scales", np.ascontiguousarray(scales.T))
            real = self.node("DequantizeLinear", [weight, scale], axis=0, block_size=BLOCK)
            return self.node("MatMul", [value, real])

    def gains(self, leaf):
        return self.weight(leaf, builder.normal(self.parameter_name(leaf), [self.size.hidden], 0.02, mean=1.0))

    def skip_norm(self, value, skip, leaf, last=False):
        """The normalised sum, and the sum."""
        inputs = [value, skip, self.gains(leaf)]
        if last:
            return self.node("SkipSimplifiedLayerNormalization", inputs, domain=MS, epsilon=1e-5), None
        outputs = self.node("SkipSimplifiedLayerNormalization", inputs, outputs=4, domain=MS, epsilon=1e-5)
        self.nodes[-1].output[1:3] = ["", ""]
        return outputs[0], outputs[3]

    def rotary_caches(self):
        angles = np.outer(np.arange(self.longest), 10000.0 ** (-np.arange(0, self.size.head, 2) / self.size.head)).astype(np.float32)
        return [self.initializer("cos_cache", np.cos(angles)), self.initializer("sin_cache", np.sin(angles))]

    def lengths(self, mask):
        """What GroupQueryAttention reads of the mask: the last position of each sequence, and the length of all."""
        with self.scope("model", "attn_mask_reformat"):
            last = self.node("Sub", [self.node("ReduceSum", [mask, self.ints(1)], keepdims=0), self.ints(1)])
            return [self.node("Cast", [last], to=TensorProto.INT32), self.node("Cast", [self.dim(mask, 1)], to=TensorProto.INT32)]

    def cache_sample(self, name):
        shape = [1, self.size.kv_heads, self.past, self.cache_width]
        if not self.cache_bits:
            return builder.normal(name, shape, 1.0)
        return builder.random_for(name).integers(0, 256, shape, np.uint8).view(np.uint8 if self.cache_bits == 4 else np.int8)

    @property
    def cache_width(self):
        """Two integers of 4 bits share a byte."""
        return (self.size.head + 1) // 2 if self.cache_bits == 4 else self.size.head

    def cache_type(self):
        return {0: TensorProto.FLOAT, 4: TensorProto.UINT8, 8: TensorProto.INT8}[self.cache_bits]

    def later_inputs(self):
        """Scales of caches of integers, which reach three times the deviation, and norms of heads."""
        size = self.size
        scales = np.full((2, size.kv_heads, 1, size.head), 3.0 / (1 << max(self.cache_bits - 1, 0)), np.float32)
        names = [self.weight(f"{one}_scale", scale) for one, scale in zip("kv", scales, strict=True)] if self.cache_bits else ["", ""]
        if self.norms:
            names += [self.weight(f"{one}_norm.weight", builder.normal(self.parameter_name(one), [size.head], 0.02, mean=1.0)) for one in "qk"]
        return ["", "", "", *names] if any(names) else []

    def attention(self, layer, value, lengths, caches):
        size = self.size
        kv = size.kv_heads * size.head
        dims = ["batch_size", size.kv_heads, "past_sequence_length", self.cache_width]
        past = [self.input(f"past_key_values.{layer}.{one}", self.cache_sample(f"past.{layer}.{one}"), dims) for one in ("key", "value")]
        integers = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": self.cache_bits} if self.cache_bits else {}
        with self.scope("attn"):
            query, key, values = (self.linear(leaf, value, size.hidden, n) for leaf, n in (("q_proj", size.hidden), ("k_proj", kv), ("v_proj", kv)))
            inputs = [query, key, values, *past, *lengths, *caches, *self.later_inputs()]
            outputs = self.node("GroupQueryAttention", inputs, outputs=3, domain=MS, num_heads=size.heads, kv_num_heads=size.kv_heads, do_rotary=1,
                                rotary_interleaved=0, scale=float(size.head**-0.5), **integers)  # fmt: skip
            result = self.linear("o_proj", outputs[0], size.hidden, size.hidden)
        return result, outputs[1:]

    def mlp(self, value):
        size = self.size
        with self.scope("mlp"):
            gate, up = (self.linear(leaf, value, size.hidden, size.intermediate) for leaf in ("gate_proj", "up_proj"))
            with self.scope("act_fn"):
                gate = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
            return self.linear("down_proj", self.node("Mul", [gate, up]), size.intermediate, size.hidden)

    def build(self):
        size = self.size
        tokens = builder.random_for("tokens").integers(0, size.vocabulary, (1, self.tokens))
        ids = self.input("input_ids", tokens, ["batch_size", "sequence_length"])
        mask = self.input("attention_mask", np.ones((1, self.past + self.tokens), np.int64), ["batch_size", "total_sequence_length"])
        lengths, caches = self.lengths(mask), self.rotary_caches()
        with self.scope("model", "embed_tokens"):
            table = self.initializer("model.embed_tokens.weight", builder.normal("embed", [size.vocabulary, size.hidden], 0.02))
            residual = self.node("Gather", [table, ids])
        presents = []
        with self.scope("model", "layers", "0"):
            value = self.node("SimplifiedLayerNormalization", [residual, self.gains("input_layernorm.weight")], axis=-1, epsilon=1e-5, stash_type=1)
        for layer in range(size.layers):
            with self.scope("model", "layers", str(layer)):
                attended, present = self.attention(layer, value, lengths, caches)
                presents.append(present)
                value, residual = self.skip_norm(residual, attended, "post_attention_layernorm.weight")
                made = self.mlp(value)
            last = layer == size.layers - 1
            with self.scope("model", "layers", str(layer + 1)):
                value, residual = self.skip_norm(residual, made, "final_norm_layernorm.weight" if last else "input_layernorm.weight", last)
        self.output(self.linear("lm_head", value, size.hidden, size.vocabulary), "logits", ["batch_size", "sequence_length", size.vocabulary])
        dims = ["batch_size", size.kv_heads, "total_sequence_length", self.cache_width]
        for layer, present in enumerate(presents):
            for one, name in zip(present, ("key", "value"), strict=True):
                self.output(one, f"present.{layer}.{name}", dims, self.cache_type())
        return self


def decoder(name, size, tokens=1, past=128, bits=4, level=4, qdq=False):
    """`tokens` new ones after `past`; `qdq`: DequantizeLinear and MatMul in place of MatMulNBits, computed in f32."""
    return Decoder(name, SIZES[size], tokens, past, bits, level, qdq).build()
