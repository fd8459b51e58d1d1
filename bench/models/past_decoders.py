"""Decoders with a past of any length, as torch.onnx.export (dynamo=False, opset 17) leaves transformers' implementations: caches grow by Concat, sizes are
made of Shape and Gather, attention is MatMul, Softmax, MatMul. LlamaPast is the eager one of transformers 4, whose masks are made of Range, Greater, Where and
ScatterND; LlamaSdpa what transformers 5 and torch 2.14 make of scaled_dot_product_attention."""

import numpy as np
from onnx import TensorProto, helper

import transformers
from builder import normal
from decoders import SIZES, Size
from layers import LAST, Layers

LOWEST = np.finfo(np.float32).min


class LlamaPast(Layers):
    """LlamaForCausalLM: rotary embedding by halves, keys and values shared by groups of heads, RMS norms written out."""

    def __init__(self, name, size, tokens=1, past=128, opset=17):
        super().__init__(name, opset)
        self.size, self.past = size, past
        self.input("input_ids", transformers.token_ids("input_ids", (1, tokens), size.vocabulary), ["batch_size", "sequence_length"])
        self.input("attention_mask", np.ones((1, past + tokens), np.int64), ["batch_size", "total_sequence_length"])
        dims = ["batch_size", size.kv_heads, "past_sequence_length", size.head]
        for layer in range(size.layers):
            for kind in ("key", "value"):
                sample = normal(f"past.{layer}.{kind}", (1, size.kv_heads, past, size.head), 0.5)
                self.input(f"past_key_values.{layer}.{kind}", sample, dims)

    def build(self):
        size = self.size
        presents = []
        with self.scope("model"):
            with self.scope("embed_tokens"):
                x = self.node("Gather", [self.normal_weight("weight", (size.vocabulary, size.hidden), 0.05), "input_ids"])
            places = self._cache_position(x)
            mask = self._mask(x, places)
            with self.scope("rotary_emb"):
                turns = self._turns(x, self.unsqueeze(places, 0))
            for layer in range(size.layers):
                with self.scope("layers", str(layer)):
                    x, *present = self._layer(x, mask, turns, layer)
                presents.extend(zip((f"present.{layer}.key", f"present.{layer}.value"), present, strict=True))
            x = self._rms_norm(x, "norm")
        logits = self.linear(x, size.hidden, size.vocabulary, "lm_head", std=0.05, bias=False)
        self.output(logits, "logits", ["batch_size", "sequence_length", size.vocabulary])
        for name, value in presents:
            self.output(value, name, ["batch_size", size.kv_heads, "past_sequence_length + sequence_length", size.head])
        return self

    def _cache_position(self, x):
        seen = self.dim("past_key_values.0.key", 2)
        end = self.node("Add", [seen, self.dim(x, 1)])
        return self.node("Range", [seen, end, self.constant(1, np.int64)])

    def _expand(self, x, shape):
        """expand(): sizes of -1 are those of x, which exporters write out."""
        ones = self.node("ConstantOfShape", [self.node("Shape", [shape])], value=helper.make_tensor("value", TensorProto.INT64, [1], [1]))
        minus = self.node("Mul", [ones, self.constant(-1, np.int64)])
        return self.node("Expand", [x, self.node("Where", [self.node("Equal", [shape, minus]), ones, shape])])

    def _mask(self, x, places):
        tokens, total = self.dim(x, 1), self.dim("attention_mask", 1)
        full = self.node("Expand", [self.constant(LOWEST), self.shape_of(tokens, total)])
        full = self.node("Trilu", [full, self.constant(1, np.int64)], upper=1)
        keys = self.node("Range", [self.constant(0, np.int64), total, self.constant(1, np.int64)])
        later = self.node("Greater", [keys, self.node("Reshape", [places, self.ints(-1, 1)])])
        full = self.node("Mul", [full, self.node("Cast", [later], to=TensorProto.FLOAT)])
        causal = self._expand(self.unsqueeze(full, 0, 1), self.shape_of(self.dim(x, 0), 1, -1, -1))
        length = self.unsqueeze(self.dim("attention_mask", 1), 0)
        part = self.node("Slice", [causal, self.ints(0), length, self.ints(3), self.ints(1)])
        kept = self.node("Cast", [self.unsqueeze("attention_mask", 1, 2)], to=TensorProto.FLOAT)
        padded = self.node("Equal", [self.node("Add", [part, kept]), self.constant(0.0)])
        return self._set_slice(causal, self.node("Where", [padded, self.constant(LOWEST), part]))

    def _set_slice(self, whole, part):
        """whole[:, :, :, :n] = part: the indices of all elements."""
        grids = []
        for axis in range(4):
            places = self.node("Range", [self.constant(0, np.int64), self.dim(part, axis), self.constant(1, np.int64)])
            places = self.node("Reshape", [places, self.ints(*[-1 if one == axis else 1 for one in range(4)])])
            grids.append(self.unsqueeze(self.node("Expand", [places, self.node("Shape", [part])]), -1))
        return self.node("ScatterND", [whole, self.node("Concat", grids, axis=-1), part])

    def _turns(self, x, positions):
        frequencies = 10000.0 ** (-np.arange(0, self.size.head, 2, dtype=np.float32) / self.size.head)
        rates = self.constant(frequencies[None, :, None])
        rates = self._expand(rates, self.shape_of(self.dim(positions, 0), -1, 1))
        places = self.node("Cast", [self.unsqueeze(positions, 1)], to=TensorProto.FLOAT)
        angles = self.node("Transpose", [self.node("MatMul", [rates, places])], perm=[0, 2, 1])
        angles = self.node("Concat", [angles, angles], axis=-1)
        return [self.unsqueeze(self.node("Mul", [self.node(op, [angles]), self.constant(1.0)]), 1) for op in ("Cos", "Sin")]

    def _rms_norm(self, x, leaf):
        gains = self.normal_weight(leaf + ".weight", (self.size.hidden,), 0.02, 1.0)
        with self.scope(leaf):
            mean = self.node("ReduceMean", [self.node("Pow", [x, self.constant(2.0)])], axes=[-1])
            root = self.node("Sqrt", [self.node("Add", [mean, self.constant(1e-5)])])
            return self.node("Mul", [gains, self.node("Mul", [x, self.node("Div", [self.constant(1.0), root])])])

    def _layer(self, x, mask, turns, layer):
        y = self._rms_norm(x, "input_layernorm")
        with self.scope("self_attn"):
            y, key, value = self._attention(y, mask, turns, layer)
        x = self.node("Add", [x, y])
        y = self._rms_norm(x, "post_attention_layernorm")
        size = self.size
        with self.scope("mlp"):
            gate = self.linear(y, size.hidden, size.intermediate, "gate_proj", std=0.05, bias=False)
            with self.scope("act_fn"):
                gate = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
            up = self.linear(y, size.hidden, size.intermediate, "up_proj", std=0.05, bias=False)
            y = self.linear(self.node("Mul", [gate, up]), size.intermediate, size.hidden, "down_proj", std=0.02, bias=False)
        return self.node("Add", [x, y]), key, value

    def _heads(self, x, heads):
        shape = self.shape_of(self.dim(x, 0), self.dim(x, 1), heads, self.size.head)
        return self.node("Transpose", [self.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def _turned(self, x, turns):
        half = self.size.head // 2
        low = self.node("Slice", [x, self.ints(0), self.ints(half), self.ints(3), self.ints(1)])
        high = self.node("Slice", [x, self.ints(half), self.ints(LAST), self.ints(3), self.ints(1)])
        swapped = self.node("Concat", [self.node("Neg", [high]), low], axis=-1)
        return self.node("Add", [self.node("Mul", [x, turns[0]]), self.node("Mul", [swapped, turns[1]])])

    def _repeated(self, x):
        size = self.size
        batch, length = self.dim(x, 0), self.dim(x, 2)
        copies = size.heads // size.kv_heads
        wide = self._expand(self.unsqueeze(x, 2), self.shape_of(batch, size.kv_heads, copies, length, size.head))
        return self.node("Reshape", [wide, self.shape_of(batch, size.heads, length, size.head)])

    def _past(self, layer, kind):
        return f"past_key_values.{layer}.{kind}"

    def _weights(self, query, keys, mask):
        scores = self.node("MatMul", [query, self.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        scores = self.node("Mul", [scores, self.constant(self.size.head**-0.5)])
        end = self.unsqueeze(self.dim(keys, 2), 0)
        visible = self.node("Slice", [mask, self.ints(0), end, self.ints(3), self.ints(1)])
        return self.node("Softmax", [self.node("Add", [scores, visible])], axis=-1)

    def _attention(self, x, mask, turns, layer):
        size = self.size
        wide = size.kv_heads * size.head
        query = self._heads(self.linear(x, size.hidden, size.hidden, "q_proj", std=0.08, bias=False), size.heads)
        key = self._heads(self.linear(x, size.hidden, wide, "k_proj", std=0.08, bias=False), size.kv_heads)
        value = self._heads(self.linear(x, size.hidden, wide, "v_proj", std=0.05, bias=False), size.kv_heads)
        query, key = self._turned(query, turns), self._turned(key, turns)
        key = self.node("Concat", [self._past(layer, "key"), key], axis=-2)
        value = self.node("Concat", [self._past(layer, "value"), value], axis=-2)
        keys, values = (self._repeated(one) if size.heads != size.kv_heads else one for one in (key, value))
        weights = self._weights(query, keys, mask)
        y = self.node("Transpose", [self.node("MatMul", [weights, values])], perm=[0, 2, 1, 3])
        y = self.node("Reshape", [y, self.shape_of(self.dim(x, 0), self.dim(x, 1), -1)])
        return self.linear(y, size.hidden, size.hidden, "o_proj", std=0.05, bias=False), key, value


class LlamaSdpa(LlamaPast):
    """Masks are booleans, looked up in the flat attention_mask; heads are -1 in shapes; queries and keys take a root of the scale each; rows that see no key
    become zeros; the first past goes through a Concat of its own, whose size is the past's length."""

    def _cache_position(self, x):
        self.first_past = self.node("Concat", ["past_key_values.0.key"], axis=-2)
        self.seen = self.dim(self.first_past, 2)
        tokens = self.node("Range", [self.constant(0, np.int64), self.dim(x, 1), self.constant(1, np.int64)])
        return self.node("Add", [tokens, self.seen])

    def _mask(self, x, places):
        one = self.constant(1, np.int64)
        total = self.node("Add", [self.seen, self.dim(x, 1)])
        keys = self.unsqueeze(self.node("Range", [self.constant(0, np.int64), total, one]), 0, 1, 2)
        rows = self.unsqueeze(self.node("Range", [self.constant(0, np.int64), self.dim(x, 0), one]), 1, 2, 3)
        causal = self.node("LessOrEqual", [keys, self.unsqueeze(places, 0, 1, 3)])
        kept = self.node("Cast", ["attention_mask"], to=TensorProto.BOOL)
        width = self.node("Gather", [self.node("Shape", [kept]), self.ints(1)], axis=0)
        flat = self.node("Flatten", [kept], axis=2)
        at = self.node("Add", [keys, self.node("Mul", [rows, width])])
        seen = self.node("Reshape", [self.node("Gather", [flat, at], axis=0), self.ints(-1)])
        seen = self.node("Reshape", [seen, self.node("Shape", [at])])
        both = self.node("And", [causal, self.node("Cast", [seen], to=TensorProto.BOOL)])
        return self._expand(both, self.shape_of(self.dim(x, 0), -1, self.dim(x, 1), total))

    def _heads(self, x, heads):
        shape = self.shape_of(self.dim(x, 0), self.dim(x, 1), -1, self.size.head)
        return self.node("Transpose", [self.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def _past(self, layer, kind):
        return self.first_past if (layer, kind) == (0, "key") else super()._past(layer, kind)

    def _weights(self, query, keys, mask):
        root = self.constant(self.size.head**-0.25)
        turned = self.node("Mul", [self.node("Transpose", [keys], perm=[0, 1, 3, 2]), root])
        scores = self.node("MatMul", [self.node("Mul", [query, root]), turned])
        bias = self.node("Where", [mask, self.constant(np.zeros(1, np.float32)), self.constant(np.full(1, -np.inf, np.float32))])
        weights = self.node("Softmax", [self.node("Add", [scores, bias])], axis=-1)
        return self.node("Where", [self.node("IsNaN", [weights]), self.constant(np.zeros(1, np.float32)), weights])


TINY = Size(layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, vocabulary=500)


def llama_past_symbolic(name, tokens=1, past=128):
    return LlamaPast(name, SIZES["60m"], tokens, past).build()


def tiny_llama(name="tiny", tokens=1, past=8):
    return LlamaPast(name, TINY, tokens, past).build()


def tiny_llama_sdpa(name="tiny", tokens=1, past=8):
    return LlamaSdpa(name, TINY, tokens, past).build()


class TinyGpt2(transformers.Gpt2):
    """gpt2_decode is such a model of full size."""

    vocabulary, layers = 500, 2


def tiny_gpt2(name="tiny", tokens=1, past=8):
    return TinyGpt2(name, 17, tokens, past, width=64, heads=4).build()
