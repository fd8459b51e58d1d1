"""BERT-base, MiniLM and a GPT-2-size pair (prefill and decode), as torch.onnx.export leaves the usual PyTorch implementations."""

import math

import numpy as np
from onnx import TensorProto

from builder import normal, random_for
from layers import INIT_STD, Layers

LOWEST = np.finfo(np.float32).min


class Transformer(Layers):
    def __init__(self, name, opset, width, heads):
        super().__init__(name, opset)
        self.width = width
        self.heads = heads
        self.head_size = width // heads

    def table(self, leaf, rows):
        return self.normal_weight(leaf + ".weight", (rows, self.width), INIT_STD)

    def layer_norm(self, x, leaf, epsilon, width=None):
        return super().layer_norm(x, leaf, epsilon, width or self.width)


def token_ids(name, shape, vocabulary):
    return random_for(name).integers(0, vocabulary, shape, dtype=np.int64)


# ---- BERT -------------------------------------------------------------------------------------------------------------


class Bert(Transformer):
    vocabulary = 30522

    def __init__(self, name, opset, sequence, dynamic, width=768, layers=12):
        super().__init__(name, opset, width, heads=12)
        self.layers = layers
        self.dynamic = dynamic
        self.sequence = sequence
        self.dims = ["batch_size", "sequence_length"] if dynamic else [1, sequence]
        mask = np.ones((1, sequence), dtype=np.int64)
        mask[:, sequence * 3 // 4 :] = 0  # a padded sentence
        segments = np.zeros((1, sequence), dtype=np.int64)
        segments[:, sequence // 2 :] = 1
        self.input("input_ids", token_ids("input_ids", (1, sequence), self.vocabulary), self.dims)
        self.input("attention_mask", mask, self.dims)
        self.input("token_type_ids", segments, self.dims)

    def build(self):
        mask = self._mask()
        x = self._embeddings()
        for layer in range(self.layers):
            with self.scope("encoder", f"layer.{layer}"):
                x = self._layer(x, mask)
        self.output(x, "last_hidden_state", [*self.dims, self.width])
        self.output(self._pooler("last_hidden_state"), "pooler_output", [self.dims[0], self.width])
        return self

    def _mask(self):
        wide = self.unsqueeze(self.unsqueeze("attention_mask", 1), 2)
        kept = self.node("Cast", [wide], to=TensorProto.FLOAT)
        return self.node("Mul", [self.node("Sub", [self.constant(1.0), kept]), self.constant(LOWEST)])

    def _embeddings(self):
        with self.scope("embeddings"):
            words, segments, positions = (
                self.table("word_embeddings", self.vocabulary),
                self.table("token_type_embeddings", 2),
                self.table("position_embeddings", 512),
            )
            with self.scope("word_embeddings"):
                word = self.node("Gather", [words, "input_ids"])
            with self.scope("token_type_embeddings"):
                segment = self.node("Gather", [segments, "token_type_ids"])
            x = self.node("Add", [word, segment])
            with self.scope("position_embeddings"):
                position = self.node("Gather", [positions, self._position_ids()])
            return self.layer_norm(self.node("Add", [x, position]), "LayerNorm", 1e-12)

    def _position_ids(self):
        if not self.dynamic:
            return self.constant(np.arange(self.sequence)[None], np.int64)
        buffer = self.constant(np.arange(512)[None], np.int64)
        end = self.unsqueeze(self.dim("input_ids", 1), 0)
        return self.node("Slice", [buffer, self.ints(0), end, self.ints(1), self.ints(1)])

    def _reshape(self, x, *tail):
        """view(batch, sequence, *tail): constants if the export was static, a chain of Shape and Concat if not."""
        if self.dynamic:
            return self.node("Reshape", [x, self.shape_of(self.dim(x, 0), self.dim(x, 1), *tail)])
        return self.node("Reshape", [x, self.ints(1, self.sequence, *tail)])

    def _layer(self, x, mask):
        with self.scope("attention"):
            with self.scope("self"):
                context = self._attention(x, mask)
            with self.scope("output"):
                y = self.linear(context, self.width, self.width, "dense")
                x = self.layer_norm(self.node("Add", [y, x]), "LayerNorm", 1e-12)
        with self.scope("intermediate"):
            y = self.linear(x, self.width, 4 * self.width, "dense", std=0.05)
            with self.scope("intermediate_act_fn"):
                y = self.gelu(y)
        with self.scope("output"):
            y = self.linear(y, 4 * self.width, self.width, "dense")
            return self.layer_norm(self.node("Add", [y, x]), "LayerNorm", 1e-12)

    def _attention(self, x, mask):
        # attention would be uniform with the usual standard deviation of 0.02
        query = self.linear(x, self.width, self.width, "query", std=0.05)
        key = self._reshape(self.linear(x, self.width, self.width, "key", std=0.05), self.heads, self.head_size)
        value = self._reshape(self.linear(x, self.width, self.width, "value"), self.heads, self.head_size)
        value = self.node("Transpose", [value], perm=[0, 2, 1, 3])
        query = self.node("Transpose", [self._reshape(query, self.heads, self.head_size)], perm=[0, 2, 1, 3])
        key = self.node("Transpose", [key], perm=[0, 2, 3, 1])  # permute and transpose, joined by the exporter
        context = self.eager_attention(query, key, value, self.head_size, mask)
        return self._reshape(self.transpose(context, 0, 2, 1, 3), self.width)

    def _pooler(self, x):
        with self.scope("pooler"):
            y = self.gemm(self.first(x), self.width, self.width, "dense")
            with self.scope("activation"):
                return self.node("Tanh", [y])


def bert_base(name, opset=14, sequence=128, dynamic=False):
    return Bert(name, opset, sequence, dynamic).build()


def minilm(name, opset=17, sequence=64):
    """all-MiniLM-L6: batch and sequence are symbolic, as sentence encoders are exported."""
    return Bert(name, opset, sequence, dynamic=True, width=384, layers=6).build()


# ---- GPT-2 ------------------------------------------------------------------------------------------------------------


class Gpt2(Transformer):
    vocabulary = 50257
    layers = 12
    context = 1024

    def __init__(self, name, opset, tokens, past, width=768, heads=12):
        super().__init__(name, opset, width, heads)
        self.past = past
        tokens_dim, past_dim = "sequence_length", "past_sequence_length"
        self.total_dim = f"{past_dim} + {tokens_dim}" if past else tokens_dim
        self.tokens_dim = tokens_dim
        self.input("input_ids", token_ids(f"input_ids{past}", (1, tokens), self.vocabulary), ["batch_size", tokens_dim])
        if past:
            for layer in range(self.layers):
                for kind in ("key", "value"):
                    self._past_input(f"past_key_values.{layer}.{kind}", past_dim)
        mask = np.ones((1, past + tokens), dtype=np.int64)
        self.input("attention_mask", mask, ["batch_size", self.total_dim])
        positions = np.arange(past, past + tokens, dtype=np.int64)[None]
        self.input("position_ids", positions, ["batch_size", tokens_dim])

    def _past_input(self, name, past_dim):
        sample = normal(name, (1, self.heads, self.past, self.head_size), 0.5)
        self.input(name, sample, ["batch_size", self.heads, past_dim, self.head_size])

    def build(self):
        presents = []
        with self.scope("transformer"):
            mask = self._mask()
            words, positions = self.table("wte", self.vocabulary), self.table("wpe", self.context)
            with self.scope("wte"):
                word = self.node("Gather", [words, "input_ids"])
            with self.scope("wpe"):
                position = self.node("Gather", [positions, "position_ids"])
            x = self.node("Add", [word, position])
            for layer in range(self.layers):
                with self.scope(f"h.{layer}"):
                    x, *present = self._layer(x, mask, layer)
                presents.extend(zip((f"present.{layer}.key", f"present.{layer}.value"), present, strict=True))
            x = self.layer_norm(x, "ln_f", 1e-5)
        # tied to the embedding in PyTorch; the exporter writes a transposed copy
        head = self.made_weight("MatMul", np.ascontiguousarray(self.initializers["transformer.wte.weight"].T))
        with self.scope("lm_head"):
            logits = self.node("MatMul", [x, head])
        self.output(logits, "logits", ["batch_size", self.tokens_dim, self.vocabulary])
        for name, value in presents:
            self.output(value, name, ["batch_size", self.heads, self.total_dim, self.head_size])
        return self

    def _mask(self):
        shape = self.shape_of(self.dim("input_ids", 0), -1)
        mask = self.unsqueeze(self.unsqueeze(self.node("Reshape", ["attention_mask", shape]), 1), 2)
        kept = self.node("Cast", [mask], to=TensorProto.FLOAT)
        return self.node("Mul", [self.node("Sub", [self.constant(1.0), kept]), self.constant(LOWEST)])

    def _projection(self, x, inputs, out, leaf, std=INIT_STD):
        """Conv1D of GPT-2: addmm on the flattened tokens, so Gemm between two Reshapes."""
        weight = self.weight(leaf + ".weight", normal(self.parameter_name(leaf + ".weight"), (inputs, out), std))
        bias = self.weight(leaf + ".bias", normal(self.parameter_name(leaf + ".bias"), (out,), 0.01))
        with self.scope(leaf):
            batch, tokens = self.dim(x, 0), self.dim(x, 1)
            flat = self.node("Reshape", [x, self.ints(-1, inputs)])
            y = self.node("Gemm", [flat, weight, bias], alpha=1.0, beta=1.0)
            return self.node("Reshape", [y, self.shape_of(batch, tokens, out)])

    def _layer(self, x, mask, layer):
        y = self.layer_norm(x, "ln_1", 1e-5)
        with self.scope("attn"):
            y, key, value = self._attention(y, mask, layer)
        x = self.node("Add", [y, x])
        y = self.layer_norm(x, "ln_2", 1e-5)
        with self.scope("mlp"):
            y = self._projection(y, self.width, 4 * self.width, "c_fc", std=0.05)
            with self.scope("act"):
                y = self._gelu_tanh(y)
            y = self._projection(y, 4 * self.width, self.width, "c_proj", std=INIT_STD / math.sqrt(2 * self.layers))
        return self.node("Add", [x, y]), key, value

    def _heads(self, x):
        shape = self.shape_of(self.dim(x, 0), self.dim(x, 1), self.heads, self.head_size)
        return self.node("Transpose", [self.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def _attention(self, x, mask, layer):
        joined = self._projection(x, self.width, 3 * self.width, "c_attn", std=0.05)
        sizes = self.ints(self.width, self.width, self.width)
        query, key, value = (self._heads(part) for part in self.node("Split", [joined, sizes], 3, axis=2))
        if self.past:
            key = self.node("Concat", [f"past_key_values.{layer}.key", key], axis=2)
            value = self.node("Concat", [f"past_key_values.{layer}.value", value], axis=2)
        scores = self.node("MatMul", [query, self.node("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = self.node("Div", [scores, self.constant(math.sqrt(self.head_size))])
        scores = self.node("Where", [self._causal(query, key), scores, self.constant(LOWEST)])
        weights = self.node("Softmax", [self.node("Add", [scores, mask])], axis=-1)
        y = self.node("Transpose", [self.node("MatMul", [weights, value])], perm=[0, 2, 1, 3])
        y = self.node("Reshape", [y, self.shape_of(self.dim(y, 0), self.dim(y, 1), self.width)])
        return self._projection(y, self.width, self.width, "c_proj", std=INIT_STD / math.sqrt(2 * self.layers)), key, value

    def _causal(self, query, key):
        """bias[:, :, total - tokens : total, :total] of the triangular buffer."""
        if "transformer.causal" not in self.initializers:
            triangle = np.tril(np.ones((self.context, self.context), dtype=bool))
            self.initializer("transformer.causal", triangle[None, None])
        tokens, total = self.dim(query, 2), self.dim(key, 2)
        start, end = self.unsqueeze(self.node("Sub", [total, tokens]), 0), self.unsqueeze(total, 0)
        rows = self.node("Slice", ["transformer.causal", start, end, self.ints(2), self.ints(1)])
        return self.node("Slice", [rows, self.ints(0), end, self.ints(3), self.ints(1)])

    def _gelu_tanh(self, x):
        inner = self.node("Mul", [self.node("Pow", [x, self.constant(3.0)]), self.constant(0.044715)])
        inner = self.node("Mul", [self.node("Add", [x, inner]), self.constant(math.sqrt(2.0 / math.pi))])
        tanh = self.node("Add", [self.node("Tanh", [inner]), self.constant(1.0)])
        return self.node("Mul", [self.node("Mul", [x, self.constant(0.5)]), tanh])


def gpt2_prefill(name, opset=13, tokens=128):
    return Gpt2(name, opset, tokens, past=0).build()


def gpt2_decode(name, opset=13, past=128):
    return Gpt2(name, opset, tokens=1, past=past).build()
