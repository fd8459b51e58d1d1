#!/usr/bin/env python3
"""Fetches the newest ONNX Runtime library from the npm package `onnxruntime-node` into the user's cache and prints its path.

Only the shared library of the package is kept. The version in the cache is used without asking the registry again, unless
--update is given.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "onnxruntime-node"
LIBRARY = "libonnxruntime.so.1"


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "ctxgen" / "peers"


def cached(version=None):
    """The newest library in the cache, or that of `version`; None if there is none."""
    found = cache_folder().glob(f"{PACKAGE}-{version or '*'}/{LIBRARY}")
    return max(found, key=lambda path: [int(n) for n in path.parent.name.rsplit("-", 1)[1].split(".")], default=None)


def fetch(version=None):
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch.", dir=folder) as temporary:
        wanted = f"{PACKAGE}@{version or 'latest'}"
        packed = subprocess.run(
            ["npm", "pack", "--silent", wanted], cwd=temporary, stdout=subprocess.PIPE, text=True, check=True
        )
        archive = pathlib.Path(temporary) / packed.stdout.split()[-1]
        with tarfile.open(archive) as package:
            member = next(
                m for m in package if m.isfile() and m.name.endswith(f"/linux/x64/{LIBRARY}")
            )
            unpacked = pathlib.Path(temporary) / "unpacked"
            unpacked.mkdir()
            with open(unpacked / LIBRARY, "wb") as library:
                shutil.copyfileobj(package.extractfile(member), library)
        target = folder / archive.name.removesuffix(".tgz")
        shutil.rmtree(target, ignore_errors=True)
        unpacked.rename(target)
    return target / LIBRARY


def newest(update=False, version=None):
    """Path of the library. Raises OSError or CalledProcessError if it is not cached and cannot be fetched."""
    return (None if update else cached(version)) or fetch(version)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help="ask the registry even if a version is cached")
    parser.add_argument("--version", help="this version instead of the newest")
    arguments = parser.parse_args()
    try:
        print(newest(arguments.update, arguments.version))
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        print(f"fetch_ort: {PACKAGE} could not be fetched: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
