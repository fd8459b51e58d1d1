#!/usr/bin/env python3
"""Exports small decoders of transformers with seeded random weights, for any batch, length and past:

    ./dev --packages exporters -- python3 bench/exporters/export_decoders.py DIR [NAME...]

DIR/NAME.onnx is what torch.onnx.export (dynamo=False) makes of it. Decoders of T5 and Whisper take the keys and values of their encoder as inputs, as
optimum's decoder_with_past_model.onnx does.
"""

import argparse
import pathlib
import sys

import torch
import transformers

OPSET = 17
PAST, TOKENS, ENCODED = 5, 3, 7


def gpt2():
    config = transformers.GPT2Config(vocab_size=97, n_positions=256, n_embd=32, n_layer=2, n_head=4)
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256
    )
    return transformers.LlamaForCausalLM(config)


def qwen3():
    config = transformers.Qwen3Config(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256
    )
    return transformers.Qwen3ForCausalLM(config)


def t5():
    config = transformers.T5Config(vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=97, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, max_target_positions=256, max_source_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


MODELS = {one.__name__: one for one in (gpt2, llama, qwen3, t5, whisper)}
CROSSED = ("t5", "whisper")


def cache_of(pairs):
    cache = transformers.DynamicCache()
    for layer, (key, value) in enumerate(pairs):
        cache.update(key, value, layer)
    return cache


def pairs_of(cache):
    layers = getattr(cache, "layers", None)
    if layers is not None:
        return [(one.keys, one.values) for one in layers]
    return list(zip(cache.key_cache, cache.value_cache, strict=True))


class Decoder(torch.nn.Module):
    """input_ids, attention_mask, keys and values of each layer; logits, keys and values."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, *pasts):
        cache = cache_of(list(zip(pasts[::2], pasts[1::2], strict=True)))
        result = self.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return (result.logits, *[one for pair in pairs_of(result.past_key_values) for one in pair])


class CrossedDecoder(torch.nn.Module):
    """input_ids, the encoder's attention_mask (T5), per layer keys and values of the decoder, then of the encoder."""

    def __init__(self, model, has_mask):
        super().__init__()
        self.model = model
        self.has_mask = has_mask

    def forward(self, ids, *rest):
        mask, pasts = (rest[0], rest[1:]) if self.has_mask else (None, rest)
        own = cache_of(list(zip(pasts[0::4], pasts[1::4], strict=True)))
        crossed = cache_of(list(zip(pasts[2::4], pasts[3::4], strict=True)))
        cache = transformers.EncoderDecoderCache(own, crossed)
        for layer in range(len(pasts) // 4):
            cache.is_updated[layer] = True
        # Nothing reads it but its sizes: all that is made of it is in the cache.
        width = self.model.config.d_model
        encoded = torch.zeros(1, 1, width).expand(ids.shape[0], pasts[2].shape[2], width)
        given = {"attention_mask": mask} if self.has_mask else {}
        result = self.model(
            encoder_outputs=transformers.modeling_outputs.BaseModelOutput(last_hidden_state=encoded), decoder_input_ids=ids, past_key_values=cache, use_cache=True, **given
        )
        return (result.logits, *[one for pair in pairs_of(result.past_key_values.self_attention_cache) for one in pair])


def sizes_of(model):
    """Layers, heads of keys, size of a head."""
    config = model.config
    if isinstance(config, transformers.GPT2Config):
        return config.n_layer, config.n_head, config.n_embd // config.n_head
    if isinstance(config, transformers.T5Config):
        return config.num_decoder_layers, config.num_heads, config.d_kv
    if isinstance(config, transformers.WhisperConfig):
        return config.decoder_layers, config.decoder_attention_heads, config.d_model // config.decoder_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, config.num_key_value_heads, head


def inputs_of(name, model):
    """Names, samples, dims that vary."""
    layers, heads, size = sizes_of(model)
    crossed = name in CROSSED
    inputs = {"input_ids": (torch.randint(3, 97, (2, TOKENS)), {0: "batch_size", 1: "sequence_length"})}
    if name == "t5":
        inputs["encoder_attention_mask"] = (torch.ones(2, ENCODED, dtype=torch.int64), {0: "batch_size", 1: "encoder_sequence_length"})
    elif not crossed:
        inputs["attention_mask"] = (torch.ones(2, PAST + TOKENS, dtype=torch.int64), {0: "batch_size", 1: "total_sequence_length"})
    for layer in range(layers):
        for part, rows, symbol in [("decoder.", PAST, "past_sequence_length"), ("encoder.", ENCODED, "encoder_sequence_length")]:
            if part == "encoder." and not crossed:
                continue
            for kind in ("key", "value"):
                whole = f"past_key_values.{layer}.{part if crossed else ''}{kind}"
                inputs[whole] = (torch.randn(2, heads, rows, size), {0: "batch_size", 2: symbol})
    return inputs


def export(name, folder):
    torch.manual_seed(1)
    model = MODELS[name]().eval()
    for parameter in model.parameters():  # initial weights are so small that attention would be uniform
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    layers = sizes_of(model)[0]
    inputs = inputs_of(name, model)
    part = "decoder." if name in CROSSED else ""
    presents = [f"present.{layer}.{part}{kind}" for layer in range(layers) for kind in ("key", "value")]
    axes = {key: dims for key, (_, dims) in inputs.items()} | {"logits": {0: "batch_size", 1: "sequence_length"}}
    axes |= {one: {0: "batch_size", 2: "past_sequence_length + sequence_length"} for one in presents}
    wrapped = CrossedDecoder(model, name == "t5") if name in CROSSED else Decoder(model)
    torch.onnx.export(
        wrapped, tuple(sample for sample, _ in inputs.values()), str(folder / f"{name}.onnx"), input_names=list(inputs), output_names=["logits", *presents],
        dynamic_axes=axes, opset_version=OPSET, dynamo=False,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MODELS])
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    with torch.no_grad():
        for name in arguments.names or MODELS:
            export(name, arguments.folder)
            print(arguments.folder / f"{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
