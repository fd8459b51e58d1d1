"""llama.cpp as a contestant: decoders with 4-bit weights, as bench/models/decoders.py makes them, as GGUF files in Q4_0.

Debian's llama.cpp and python3-gguf are in the environment of `./dev --packages bench` only: nothing else of ctxgen needs them. A step is measured
after as many tokens as the model's past has, so that both read equally long caches (llama.cpp's are of float16, half as many bytes).
"""

import importlib.util
import json
import shutil

import numpy as np
import onnx

import contestants
import flops

PROGRAM = "llama-bench"
STEPS = 16  # of one measurement of decoding, whose mean counts as one run
# A prompt of llama-bench ends with the logits of its last token, for which the last layer multiplies one row only; an ONNX model gives those of all
# tokens. So does llama.cpp where embeddings are asked for (1.2 to 1.3 times the time with 60 M parameters).
ALL_LOGITS = ("-embd", 1)
BLOCK = 32
HALF = BLOCK // 2


def is_here():
    return shutil.which(PROGRAM) is not None and importlib.util.find_spec("gguf") is not None


def q4_0(values, scales):
    """Rows of blocks as GGUF has them: a float16 scale, then 32 elements of which byte i holds i and i + 16; their zero point is 8, as that of
    MatMulNBits without zero points, whose byte i holds 2 i and 2 i + 1."""
    elements = np.stack([values & 15, values >> 4], axis=-1).reshape(*values.shape[:2], BLOCK)
    stored = elements[..., :HALF] | elements[..., HALF:] << 4
    return np.concatenate([scales.astype("<f2")[..., None].view(np.uint8), stored], axis=-1).reshape(values.shape[0], -1)


class Decoder:
    """What the ONNX graph says of its architecture, and its weights under the names of GGUF's "llama".

    Errors: contestants.Failed if it is no decoder of that form.
    """

    def __init__(self, path):
        graph = onnx.load(str(path)).graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.products = [node for node in graph.node if node.op_type == "MatMulNBits"]
        self.norms = [node for node in graph.node if node.op_type in ("SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization")]
        attention = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
        tables = [node for node in graph.node if node.op_type == "Gather" and node.input[0] in self.constants]
        self.layers = len(attention)
        whole = attention and len(tables) == 1 and len(self.products) == 7 * self.layers + 1 and len(self.norms) == 2 * self.layers + 1
        options = [flops.attributes(node) for node in self.products]
        plain = all(len(node.input) == 3 and option["bits"] == 4 and option["block_size"] == BLOCK for node, option in zip(self.products, options, strict=True))
        if not whole or not plain:
            raise contestants.Failed("llama.cpp runs decoders of products in Q4_0 only")
        heads = flops.attributes(attention[0])
        self.heads, self.kv_heads = heads["num_heads"], heads["kv_num_heads"]
        self.epsilon = flops.attributes(self.norms[0])["epsilon"]
        self.table = self.array(tables[0].input[0])
        self.intermediate = options[4]["N"]  # of a layer's gate, after q, k, v and o

    def array(self, name):
        return onnx.numpy_helper.to_array(self.constants[name])

    def matrices(self):
        """(name, rows in Q4_0)"""
        leaves = [f"blk.{layer}.{leaf}" for layer in range(self.layers) for leaf in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
        for leaf, node in zip([*leaves, "output"], self.products, strict=True):
            rows = q4_0(self.array(node.input[1]), self.array(node.input[2]).reshape(-1, flops.attributes(node)["K"] // BLOCK))
            kind = leaf.rpartition(".")[2]
            if kind in ("attn_q", "attn_k"):  # llama.cpp turns neighbours, the ONNX model the halves of a head
                heads = self.heads if kind == "attn_q" else self.kv_heads
                rows = np.ascontiguousarray(rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2)).reshape(rows.shape)
            yield f"{leaf}.weight", rows

    def gains(self):
        """(name, vector) of the norms; the last one is the model's."""
        leaves = [f"blk.{layer}.{leaf}" for layer in range(self.layers) for leaf in ("attn_norm", "ffn_norm")]
        for leaf, node in zip([*leaves, "output_norm"], self.norms, strict=True):
            yield f"{leaf}.weight", self.array(next(name for name in node.input if name in self.constants))


def write_gguf(decoder, path, longest=2048):
    """Bytes of the matrices that a token multiplies."""
    import gguf  # in the environment of --packages bench

    vocabulary, hidden = decoder.table.shape
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(longest)
    writer.add_embedding_length(hidden)
    writer.add_block_count(decoder.layers)
    writer.add_feed_forward_length(decoder.intermediate)
    writer.add_head_count(decoder.heads)
    writer.add_head_count_kv(decoder.kv_heads)
    writer.add_layer_norm_rms_eps(decoder.epsilon)
    writer.add_rope_dimension_count(hidden // decoder.heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("none")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_tensor("token_embd.weight", decoder.table)
    for name, vector in decoder.gains():
        writer.add_tensor(name, vector)
    total = 0
    for name, rows in decoder.matrices():
        total += rows.nbytes
        writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return total


def lengths(model):
    """Tokens of a run and of the past before it."""
    tokens = np.load(model.inputs["input_ids"]).shape[1]
    return tokens, np.load(model.inputs["attention_mask"]).shape[1] - tokens


class LlamaCpp(contestants.Contestant):
    key, title, gives_outputs = "llama", "llama.cpp, Q4_0", False

    def _file(self, model, settings):
        return settings.folder(model, self) / f"{model.name}.gguf"

    def prepare(self, model, settings):
        decoder, path = Decoder(model.path), self._file(model, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        weight_bytes = write_gguf(decoder, path)
        return {"file_bytes": path.stat().st_size, "weight_bytes": weight_bytes}

    def measure(self, model, settings):
        tokens, past = lengths(model)
        steps = tokens == 1
        what, runs = (["-p", 0, "-n", STEPS], max(settings.iterations // STEPS, 3)) if steps else (["-p", tokens, "-n", 0, *ALL_LOGITS], settings.iterations)
        command = [PROGRAM, "-m", self._file(model, settings), *what, "-d", past, "-t", settings.threads, "-r", runs, "-o", "json"]
        (result,) = json.loads(contestants.run_program(command, settings.threads)[0])
        times = sorted(ns / 1e6 / (STEPS if steps else 1) for ns in result["samples_ns"])
        return {"latency_ms": {"min": times[0], "p50": contestants.percentile(times, 0.5), "p99": contestants.percentile(times, 0.99)}}

    def decode(self, model, settings, decode):
        """llama-bench tells the mean of all steps only."""
        command = [PROGRAM, "-m", self._file(model, settings), "-p", 0, "-n", decode.steps, "-d", decode.prompt, "-t", settings.threads, "-r", 3, "-o", "json"]
        (result,) = contestants.json_of(command, settings.threads)
        means = [ns / 1e6 / decode.steps for ns in result["samples_ns"]]
        return contestants.step_summary(means) | {"slow_steps": None}

    def profile(self, _model, _settings):
        return {}
