#!/usr/bin/env python3
"""Makes the bench models: real architectures with seeded weights, in the form in which exporters write them.

    python3 bench/models/make.py --list
    python3 bench/models/make.py resnet50 bert_base -o DIR

DIR/NAME holds NAME.onnx, input_K.npy and model.json (input names, files and the dims that they bind). Without -o models go
to the user's cache; one that is there and current is not made again.
"""

import argparse
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

import numpy as np

import branched
import classic
import crnn
import decoders
import diffusion
import dynamic_int8
import efficientnet
import encoders
import past_decoders
import pyramids
import speech
import static_int8
import t5
import transformers
import yolo

MODELS = {
    "resnet50": classic.resnet50,
    "resnet50_bn": functools.partial(classic.resnet50, fold_batch_norm=False),
    "vgg16": classic.vgg16,
    "mobilenetv2": classic.mobilenetv2,
    "densenet121": branched.densenet121,
    "inception_v3": branched.inception_v3,
    "efficientnet_b0": efficientnet.efficientnet_b0,
    "convnext_t": pyramids.convnext_t,
    "yolov8n": yolo.yolov8n,
    "unet_attention": diffusion.unet_attention,
    "crnn": crnn.crnn,
    "bert_base": transformers.bert_base,
    "bert_base_opset17": functools.partial(transformers.bert_base, opset=17),
    "bert_base_dynamic": functools.partial(transformers.bert_base, dynamic=True),
    "bert_base_512": functools.partial(transformers.bert_base, sequence=512),
    "minilm": transformers.minilm,
    "bert_base_int8": functools.partial(dynamic_int8.dynamic_int8, make=transformers.bert_base),
    "minilm_int8": functools.partial(dynamic_int8.dynamic_int8, make=transformers.minilm),
    "whisper_tiny_encoder_int8": functools.partial(dynamic_int8.dynamic_int8, make=speech.whisper_tiny_encoder),
    "resnet50_qdq": functools.partial(static_int8.static_int8, make=classic.resnet50, opset=17),
    "mobilenetv2_qdq": functools.partial(static_int8.static_int8, make=classic.mobilenetv2, opset=17),
    "t5_small_encoder": t5.t5_small_encoder,
    "vit_b_16": encoders.vit_b_16,
    "clip_vision": encoders.clip_vision,
    "dinov2_s": encoders.dinov2_s,
    "swin_t": pyramids.swin_t,
    "segformer_b0": pyramids.segformer_b0,
    "whisper_tiny_encoder": speech.whisper_tiny_encoder,
    "wav2vec2_base": speech.wav2vec2_base,
    "gpt2_prefill": transformers.gpt2_prefill,
    "gpt2_decode": transformers.gpt2_decode,
    "llama_past_symbolic": past_decoders.llama_past_symbolic,
    "llama_prefill_512": functools.partial(past_decoders.llama_past_symbolic, tokens=512, past=0),
    "int4_60m_decode": functools.partial(decoders.decoder, size="60m"),
    "int4_60m_decode_f32": functools.partial(decoders.decoder, size="60m", level=0),
    "int4_60m_decode_qdq": functools.partial(decoders.decoder, size="60m", qdq=True),
    "int4_60m_prefill": functools.partial(decoders.decoder, size="60m", tokens=64, past=0),
    "int4_60m_prefill_512": functools.partial(decoders.decoder, size="60m", tokens=512, past=0),
    "int8_60m_decode": functools.partial(decoders.decoder, size="60m", bits=8),
    "int4_1b_decode": functools.partial(decoders.decoder, size="1b"),
    "int4_1b_prefill": functools.partial(decoders.decoder, size="1b", tokens=64, past=0),
    "int4_1b_prefill_512": functools.partial(decoders.decoder, size="1b", tokens=512, past=0),
}


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "ctxgen" / "bench-models"


def sources_of(module):
    """The file of a module of this folder and those of what it imports from the folder, itself or through others."""
    folder, found, waiting = pathlib.Path(__file__).parent, set(), {module}
    while waiting:
        module = waiting.pop()
        file = pathlib.Path(sys.modules[module].__file__ or "")
        if file.parent == folder and file not in found:
            found.add(file)
            waiting |= {getattr(value, "__module__", None) for value in vars(sys.modules[module]).values()} & sys.modules.keys()
    return sorted(found)


def recipe(name):
    """Changes with the code that makes the model, and with its arguments."""
    make = MODELS[name]
    function, arguments = getattr(make, "func", make), getattr(make, "keywords", {})
    texts = [source.read_bytes() for source in sources_of(function.__module__)]
    texts.append(f"{function.__name__} {sorted(arguments.items())}".encode())
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def description(net):
    dims = {}
    for declared, sample in zip(net.inputs, net.sample_inputs.values(), strict=True):
        for dim, size in zip(declared.type.tensor_type.shape.dim, sample.shape, strict=True):
            if dim.dim_param:
                dims[dim.dim_param] = size
    names = list(net.sample_inputs)
    files = [f"input_{i}.npy" for i in range(len(names))]
    return {"name": net.name, "recipe": recipe(net.name), "inputs": dict(zip(names, files, strict=True)), "dims": dims}


def write(name, folder):
    """Writes the model into `folder`, which appears complete or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder.parent))
    try:
        net = MODELS[name](name)
        net.save(temporary / f"{name}.onnx")
        about = description(net)
        for file, sample in zip(about["inputs"].values(), net.sample_inputs.values(), strict=True):
            np.save(temporary / file, sample)
        (temporary / "model.json").write_text(json.dumps(about, indent=1) + "\n")
        temporary.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_current(folder):
    try:
        return json.loads((folder / "model.json").read_text())["recipe"] == recipe(folder.name)
    except (OSError, ValueError, KeyError):
        return False


def ensure(name, output=None):
    """The folder of the model, made now if it is missing or older than its recipe."""
    folder = pathlib.Path(output or cache_folder()) / name
    if not is_current(folder):
        print(f"making {name} ...", file=sys.stderr, flush=True)
        write(name, folder)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("-o", "--output", metavar="DIR", help="default: the user's cache")
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(MODELS))
        return 0
    unknown = [name for name in arguments.names if name not in MODELS]
    if unknown or not arguments.names:
        parser.error(f"no model {', '.join(unknown)}; see --list" if unknown else "name at least one model, or --list")
    for name in arguments.names:
        folder = ensure(name, arguments.output)
        print(folder / f"{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
