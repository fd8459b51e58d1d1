#!/usr/bin/env python3
"""./dev plugin-matrix: context models through the plugin EP in several ONNX Runtime libraries.

Every trained model with data (CTXGEN_MODELS) and every case of libonnx-testdata of which a node is compiled runs in each library, in a
process of its own, and is compared with its reference outputs. Libraries: Debian's, those of the npm package onnxruntime-node in the
versions that are given, and its newest one. Prints passed, failed and skipped per library; status 1 if anything failed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "bench"), str(PROJECT / "bench" / "peers")]

import fetch_ort  # noqa: E402
import run as bench_run  # noqa: E402

BUILD = pathlib.Path(os.environ["CTXGEN_BIN"]).parent.parent
DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
DEBIAN = sorted(pathlib.Path("/usr/lib").glob("*/libonnxruntime.so.1.*"))
KINDS = ["simple", "pytorch-converted", "pytorch-operator", "node"]


def cases():
    """(folder, rtol, atol) of every model with data."""
    for meta in sorted(pathlib.Path(os.environ.get("CTXGEN_MODELS", "/nowhere")).glob("*/meta.json")):
        if (meta.parent / "test_data_set_0").is_dir() and meta.parent.name != "gpt2_tiny_beamsearch":
            tolerance = json.loads(meta.read_text())["tolerance"]
            yield meta.parent, tolerance["rtol"], tolerance["atol"]
    for kind in KINDS:
        for model in sorted((DATA / kind).glob("*/model.onnx")):
            yield model.parent, 1e-3, 1e-5


def compile_case(folder, target):
    """The context model, or None: nothing of it is compiled, or ctxgen refuses it."""
    target.mkdir(parents=True)
    command = [BUILD / "bin" / "ctxgen", "compile", "-q", folder / "model.onnx", "-o", target / "m_ctx.onnx", "--threads", "1"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return None
    return target / "m_ctx.onnx" if any(target.glob("*.bin")) else None


def arrays(folder, role):
    """Of the first data set, in order; None where one is no tensor."""
    found = []
    while (path := folder / "test_data_set_0" / f"{role}_{len(found)}.pb").exists():
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        if not tensor.data_type or tensor.data_type == onnx.TensorProto.STRING:
            return None
        found.append(numpy_helper.to_array(tensor))
    return found


def run_case(library, program, context, folder, rtol, atol, work):
    """"": passed; None: the library does not run the source, or the bench program cannot name its values; else what is wrong."""
    names = [one.name for one in onnx.load(context, load_external_data=False).graph.input]
    inputs, expected = arrays(folder, "input"), arrays(folder, "output")
    if inputs is None or expected is None or len(inputs) > len(names):
        return None
    flags = []
    for name, value in zip(names, inputs):
        path = work / f"in_{len(flags)}.npy"
        np.save(path, value)
        flags += ["--input", f"{name}={path}"]
    command = [program, "--library", library, "--plugin", BUILD / "lib" / "libctxgen_onnxruntime.so", "--model", context,
               "--iterations", "0", "--outputs", work / "out", *flags]
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        plain = [program, "--library", library, "--model", folder / "model.onnx", "--iterations", "0", *flags]
        if subprocess.run([str(word) for word in plain], capture_output=True, check=False).returncode != 0:
            return None  # a release that does not run the source either
        text = next((line for line in finished.stderr.splitlines() if line.startswith("ort_bench:")), finished.stderr[-200:])
        return None if "does not know" in text else text
    for index, wanted in enumerate(expected):
        found = np.load(work / "out" / f"output_{index}.npy")
        same = found.shape == wanted.shape and (
            np.allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True) if wanted.dtype.kind == "f" else np.array_equal(found, wanted))
        if not same:
            return f"output {index} differs"
    return ""


def libraries(versions):
    for path in DEBIAN[:1]:
        yield path
    for version in [*versions, None]:
        try:
            yield fetch_ort.newest(version=version)
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            print(f"onnxruntime-node {version or 'newest'}: not fetched: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="of onnxruntime-node besides the newest")
    arguments = parser.parse_args()
    program = bench_run.build_peer_program()
    failed = False
    with tempfile.TemporaryDirectory(prefix="ctxgen-matrix-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        work = pathlib.Path(folder)
        chosen = list(cases())
        compiled = list(pool.map(lambda item: compile_case(item[1][0], work / str(item[0])), enumerate(chosen)))
        models = [(case, context) for case, context in zip(chosen, compiled) if context is not None]
        print(f"{len(models)} of {len(chosen)} models have a compiled node")
        for library in libraries(arguments.versions):
            def one(item, library=library):
                (source, rtol, atol), context = item
                with tempfile.TemporaryDirectory(dir=work) as scratch:
                    return source, run_case(library, program, context, source, rtol, atol, pathlib.Path(scratch))

            results = list(pool.map(one, models))
            wrong = [(source, text) for source, text in results if text]
            skipped = sum(text is None for _, text in results)
            print(f"{library.parent.name}/{library.name}: {len(results) - len(wrong) - skipped} passed, {len(wrong)} failed, {skipped} skipped")
            for source, text in wrong:
                print(f"  {source.parent.name}/{source.name}: {text}")
            failed = failed or bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
