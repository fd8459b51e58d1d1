"""A small decoder with 4-bit weights, as GenAI's builder writes it."""

import pathlib
import sys

import onnx
from cli_support import done

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "models"))
import decoders


def tiny_decoder(**options):
    """A model; `options` are those of decoders.Decoder."""
    size = decoders.Size(layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, vocabulary=500)
    return decoders.Decoder("tiny", size, tokens=1, past=8, bits=4, level=0, **options).build().model()


def compiled_decoder(folder, **options):
    """net.onnx in `folder`, with net_ctx.onnx next to it."""
    path = folder / "net.onnx"
    onnx.save(tiny_decoder(**options), path)
    done("compile", "-q", path)
    return path
