#!/usr/bin/env python3
"""What compiling and running take of memory.

    ./dev memory-test [--gigabytes 6] [--folder DIR]
    ./dev memory-test --pair [--rounds 7] [--folder DIR]
    ./dev memory-test --merge [--gigabytes 4] [--folder DIR]
    ./dev memory-test --pod [--models 240] [--processes 8] [--folder DIR]

The first writes a model with external data, compiles it with -j 1 while looking at RssAnon in /proc/PID/status, prints the figures
and fails where the peak is above three times the largest tensor plus 300 MB. Needs three times the model's size of free disk.
The second compiles prefill and decode into one binary, of GPT-2's size and with 4-bit weights (pair.py).
The third compiles three models with so many gigabytes of context binaries, two of them with the same weights, and merges them; it fails where
merging takes more than 500 MB of anonymous memory, or stores more than two of them. Needs 2.5 times as much disk.
The fourth starts many models in one process and in several, and in ONNX Runtime (pod.py).
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pair
import pod
from large_model import write_large_model
from processes import megabytes, status_bytes

EXTRA_BYTES = 300_000_000
MERGE_BYTES = 500_000_000


def peak_of(command, interval=0.01):
    """Runs the command; its peak of anonymous memory, and seconds."""
    started, peak = time.monotonic(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, status_bytes(process.pid, "RssAnon"))
            time.sleep(interval)
    if process.returncode != 0:
        sys.exit(f"memory-test: error: {command[0]} ended with status {process.returncode}")
    return peak, time.monotonic() - started


def merge(folder, total):
    """Three models of a third each, the last with the weights of the first; merged, then one is taken out."""
    contexts, in_bytes = [], 0
    for name, seed in (("one", 4), ("two", 5), ("again", 4)):
        model = write_large_model(folder, total // 3, width=2048, inner=8192, name=name, seed=seed)
        source = model.save()
        subprocess.run([os.environ["CTXGEN_BIN"], "compile", source, "-o", f"{folder}/alone/", "-q"], check=True)
        source.unlink()
        (folder / f"{name}.data").unlink()
        contexts.append(folder / "alone" / f"{name}_ctx.onnx")
        in_bytes += (folder / "alone" / f"{name}_dnnl.bin").stat().st_size
    os.sync()
    peak, seconds = peak_of([os.environ["CTXGEN_BIN"], "merge", *contexts, "-o", folder / "merged", "-q"])
    out_bytes = (folder / "merged" / "one_dnnl.bin").stat().st_size
    print(f"context binaries {megabytes(in_bytes)} in 3 files, {megabytes(out_bytes)} merged in {seconds:.1f} s")
    print(f"peak of RssAnon  {megabytes(peak)}, bound {megabytes(MERGE_BYTES)}")
    shutil.rmtree(folder / "alone")
    split, seconds = peak_of([os.environ["CTXGEN_BIN"], "split", folder / "merged" / "two_ctx.onnx", "-o", f"{folder}/two/", "-q"])
    print(f"split            {megabytes((folder / 'two' / 'two_dnnl.bin').stat().st_size)} in {seconds:.1f} s, peak of RssAnon {megabytes(split)}")
    return 0 if max(peak, split) <= MERGE_BYTES and out_bytes < 0.7 * in_bytes else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, help="size of the model (default 6), of the binaries (4); not with --pair")
    parser.add_argument("--merge", action="store_true", help="merge three models")
    parser.add_argument("--folder", type=pathlib.Path, help="where the files go (default: a temporary folder)")
    parser.add_argument("--pair", action="store_true", help="two sessions over one binary")
    parser.add_argument("--pod", action="store_true", help="start many models in one process and in several")
    parser.add_argument("--models", type=int, help="with --pod: how many (default 240)")
    parser.add_argument("--processes", type=int, help="with --pod: how many (default 8)")
    parser.add_argument("--rounds", type=int, help="with --pair: loads of the second session (default 7)")
    arguments = parser.parse_args()
    if arguments.pod:
        if arguments.pair or arguments.merge or arguments.gigabytes is not None or arguments.rounds is not None:
            parser.error("--pod takes --models, --processes and --folder only")
        return pod.measure(arguments.folder, arguments.models or 240, arguments.processes or 8)
    if arguments.models is not None or arguments.processes is not None:
        parser.error("--models and --processes are for --pod only")
    if arguments.pair and arguments.gigabytes is not None:
        parser.error("--gigabytes is not for --pair: its models have one size")
    if arguments.pair and arguments.merge:
        parser.error("--pair and --merge are two tests")
    if not arguments.pair and arguments.rounds is not None:
        parser.error("--rounds is for --pair only")
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("--rounds is at least 1")
    if arguments.pair:
        return pair.measure(arguments.folder, arguments.rounds or 7)
    default = 4 if arguments.merge else 6
    total = int((default if arguments.gigabytes is None else arguments.gigabytes) * 1e9)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="ctxgen-memory-") as name:
        folder = pathlib.Path(name)
        if shutil.disk_usage(folder).free < 3.2 * total:
            sys.exit(f"memory-test: error: {folder} has {megabytes(shutil.disk_usage(folder).free)} free, needs {megabytes(3.2 * total)}")
        if arguments.merge:
            return merge(folder, total)
        model = write_large_model(folder, total, width=4096, inner=24576 if total > 4e9 else 4096)
        source = model.save()
        os.sync()
        bound = 3 * model.largest + EXTRA_BYTES
        peak, seconds = peak_of([os.environ["CTXGEN_BIN"], "compile", source, "-o", folder / "out_ctx.onnx", "-j", "1", "-q"])
        bin_bytes = (folder / "out_dnnl.bin").stat().st_size
    print(f"model            {megabytes(model.bytes)} in {len(model.initializers)} tensors, the largest {megabytes(model.largest)}")
    print(f"context binary   {megabytes(bin_bytes)}, compiled in {seconds:.1f} s with -j 1")
    print(f"peak of RssAnon  {megabytes(peak)}, bound {megabytes(bound)} (3 x largest + {megabytes(EXTRA_BYTES)})")
    return 0 if peak <= bound else 1


if __name__ == "__main__":
    sys.exit(main())
