#!/usr/bin/env python3
"""Writes a build.ninja with a context model for each model of a folder: ninja.py MODELS OUT [OPTIONS OF ctxgen compile...]."""

import os
import pathlib
import shlex
import sys


def path_text(path):
    """As Ninja reads it in a build line."""
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def main():
    models, out, *options = sys.argv[1:]
    program = shlex.quote(os.environ.get("CTXGEN", "ctxgen"))
    option_text = shlex.join(options).replace("$", "$$")
    print("rule compile")
    print(f"  command = {program} compile $in -o $out_model -j 1 -MD -MF $depfile -q --keep-unchanged {option_text}")
    print("  depfile = $out_model.d\n  deps = gcc\n  restat = 1\n  description = ctxgen $in")
    for model in sorted(pathlib.Path(models).glob("*.onnx")):
        context, binary = (pathlib.Path(out) / f"{model.stem}{ending}" for ending in ("_ctx.onnx", "_dnnl.bin"))
        print(f"build {path_text(context)} | {path_text(binary)}: compile {path_text(model)}\n  out_model = {path_text(context)}")


main()
