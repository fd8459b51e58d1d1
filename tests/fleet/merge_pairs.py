#!/usr/bin/env python3
"""Merges bench models that were compiled apart, and takes them out again.

    ./dev python3 tests/fleet/merge_pairs.py [--pairs NAME+NAME,...] [--isa avx2] [--folder DIR]

Of each pair: `merge` of two compiles has to write the bytes of one batch of both, and `split` of that those of each alone. Without --pairs every bench model is in one, together
with what has weights in common with it where there is such a model. Makes the models first where the user's cache lacks them (bench/models). Exit status: 0 if all are equal.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CTXGEN = os.environ.get("CTXGEN_BIN") or str(ROOT / "build" / "dev" / "bin" / "ctxgen")
PAIRS = (
    # Weights in common.
    "gpt2_prefill+gpt2_decode", "int4_60m_prefill+int4_60m_decode", "int4_60m_decode+int4_60m_decode_f32", "int8_60m_decode+int4_60m_decode",
    "int4_1b_prefill+int4_1b_decode", "resnet50+resnet50_bn", "bert_base+bert_base_opset17", "bert_base+bert_base_dynamic", "bert_base+bert_base_int8",
    "minilm+minilm_int8", "whisper_tiny_encoder+whisper_tiny_encoder_int8",
    # Nothing in common.
    "vgg16+mobilenetv2", "densenet121+inception_v3", "efficientnet_b0+convnext_t", "yolov8n+unet_attention", "crnn+t5_small_encoder", "vit_b_16+clip_vision",
    "dinov2_s+swin_t", "segformer_b0+wav2vec2_base", "llama_past_symbolic+resnet50",
)  # fmt: skip


def run(*words):
    """Seconds."""
    started = time.monotonic()
    subprocess.run([CTXGEN, *map(str, words), "-q"], check=True)
    return time.monotonic() - started


def size_of(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def differences(found, expected):
    """Names of files that one folder lacks, or that have other bytes."""
    names = {path.name for folder in (found, expected) for path in folder.iterdir()}
    return sorted(name for name in names if subprocess.run(["cmp", "-s", found / name, expected / name], check=False).returncode)


def check(pair, models, folder, options):
    """Whether all bytes are equal."""
    names = pair.split("+")
    sources = [models[name] for name in names]
    apart = sum(run("compile", source, "-o", f"{folder}/{name}/", *options) for name, source in zip(names, sources, strict=True))
    batch = run("compile", ",".join(map(str, sources)), "-o", f"{folder}/batch/", *options)
    merge = run("merge", *(folder / name / f"{name}_ctx.onnx" for name in names), "-o", folder / "merged")
    wrong = differences(folder / "merged", folder / "batch")
    split = 0
    for name in names:
        split += run("split", folder / "merged" / f"{name}_ctx.onnx", "-o", f"{folder}/{name}_split/")
        wrong += differences(folder / f"{name}_split", folder / name)
    apart_bytes, bytes_ = sum(size_of(folder / name) for name in names), size_of(folder / "merged")
    print(f"{'different: ' + ', '.join(wrong) if wrong else 'equal':<10}{pair:<50}{apart_bytes / 1e6:9,.1f} MB apart {bytes_ / 1e6:9,.1f} MB merged"
          f"   compile {apart:6.1f} s, batch {batch:6.1f} s, merge {merge:5.2f} s, split {split:5.2f} s", flush=True)  # fmt: skip
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", help="instead of all: names of bench models with + between them, separated by commas")
    parser.add_argument("--isa", help="what all compile for (default: this machine)")
    parser.add_argument("--folder", type=pathlib.Path, help="where the files go (default: a temporary folder)")
    arguments = parser.parse_args()
    pairs = arguments.pairs.split(",") if arguments.pairs else PAIRS
    wrong = [pair for pair in pairs if len(set(pair.split("+"))) != 2]
    if wrong:
        parser.error(f"{wrong[0]} is no pair")
    names = sorted({name for pair in pairs for name in pair.split("+")})
    made = subprocess.run([sys.executable, ROOT / "bench" / "models" / "make.py", *names], check=True, stdout=subprocess.PIPE, text=True)
    models = dict(zip(names, map(pathlib.Path, made.stdout.splitlines()), strict=True))
    os.environ.pop("CTXGEN_CACHE_DIR", None)
    passed = 0
    for pair in pairs:
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="ctxgen-pairs-") as folder:
            passed += check(pair, models, pathlib.Path(folder), ["--isa", arguments.isa] if arguments.isa else [])
    print(f"{passed} of {len(pairs)} pairs equal")
    return passed != len(pairs)


if __name__ == "__main__":
    sys.exit(main())
