#!/usr/bin/env python3
"""Makes the packages of one build: `./dev package`.

Debian packages by CPack (cmake/CtxgenPackages.cmake), the relocatable archive and the container image of the command line, the Python wheel with the
plugin, the Node.js addon for npm, a bill of materials (CycloneDX) and SHA256SUMS. Times in them are SOURCE_DATE_EPOCH, by default that of the commit. `--twice` makes everything a second
time and compares.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import bundle
import sbom
from shared_objects import highest_symbol_versions, is_elf, version_key

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUMMARY = "The ctxgen execution provider for ONNX Runtime: runs models that ctxgen compiled for CPUs"


def run(*command, **more):
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if finished.returncode != 0:
        sys.exit(f"package: {' '.join(map(str, command))} ended with {finished.returncode}\n{finished.stdout}")
    return finished.stdout


def source_date():
    """SOURCE_DATE_EPOCH, else the time of the commit, else 0 where git is not to be had."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    finished = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return int(finished.stdout or 0)


def install(build, prefix, *components):
    for component in components:
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    return prefix


def make_debian(build, scratch, target):
    run("cpack", "-G", "DEB", "--config", build / "CPackConfig.cmake", "-B", scratch / "cpack")
    made = []
    for file in sorted((scratch / "cpack").glob("*.deb")):
        made.append(pathlib.Path(shutil.copy(file, target)))
    return made


def fields(package):
    text = run("dpkg-deb", "--field", package)
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", text, re.M))


def glibc_lines(folders, names):
    """A line for each ELF file of ours: the newest symbols that it wants."""
    lines = []
    for folder, name in zip(folders, names):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and is_elf(path):
                versions = highest_symbol_versions(path)
                lines.append({"package": name, "file": str(path.relative_to(folder)), **{kind.lower(): version for kind, version in sorted(versions.items())}})
    return lines


def make_all(build, target, version, suite, epoch):
    """Fills the folder `target`; gives what it holds."""
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        made = make_debian(build, scratch, target)
        depends = {file: fields(file).get("Depends", "") for file in made}
        unpacked = []
        for file in made:
            unpacked.append(scratch / "unpacked" / file.stem)
            unpacked[-1].parent.mkdir(exist_ok=True)
            run("dpkg-deb", "--extract", file, unpacked[-1])
        names = [file.name for file in made]
        bundled = {}

        def add(file, folder, added):
            made.append(file)
            bundled[file] = added
            unpacked.append(folder)
            names.append(file.name)

        folder = scratch / f"ctxgen-{version}-linux-x86_64"
        added = bundle.fill_archive(install(build, scratch / "program", "program", "documents"), folder)
        archive = target / f"{folder.name}.tar.xz"
        bundle.write_tar(folder, archive, epoch)
        add(archive, folder, added)

        root = scratch / "image"
        added = bundle.fill_image(install(build, scratch / "program_of_image", "program"), root)
        image = target / f"ctxgen-{version}-image.tar"
        bundle.write_image(root, image, version, epoch)
        add(image, root, added)

        plugin = next(install(build, scratch / "plugin", "plugin").rglob("libctxgen_onnxruntime.so"), None) if has_plugin(build) else None
        if plugin is not None:
            wheel_folder = scratch / "wheel"
            added, glibc = bundle.fill_wheel(plugin, ROOT / "plugins" / "onnxruntime" / "python" / bundle.WHEEL_PACKAGE, wheel_folder)
            wheel = bundle.write_wheel(wheel_folder, target, version, glibc, epoch, SUMMARY, ROOT)
            add(wheel, wheel_folder, added)

        if (build / "lib" / "node" / "ctxgen.node").exists():
            package = scratch / "npm" / "package"  # the name that npm wants
            package.parent.mkdir()
            added = bundle.fill_node(install(build, scratch / "node", "node"), package, ROOT)
            npm = target / f"{bundle.NODE_PACKAGE}-{version}.tgz"
            bundle.write_tar(package, npm, epoch)
            add(npm, package, added)

        (target / "symbol-versions.json").write_text(json.dumps(glibc_lines(unpacked, names), indent=1) + "\n")
        bom = target / f"ctxgen-{version}.cdx.json"
        bom.write_text(sbom.document(version, suite, made, bundled, depends))
        made += [bom, target / "symbol-versions.json"]
        (target / "SHA256SUMS").write_text("".join(f"{sbom.sha256(file)}  {file.name}\n" for file in sorted(made)))
    return [*made, target / "SHA256SUMS"]


def has_plugin(build):
    return (build / "lib" / "libctxgen_onnxruntime.so").exists()


def floors(lines):
    """{package: the lowest glibc that its files run with}"""
    lowest = {}
    for line in lines:
        if "glibc" in line and version_key(line["glibc"]) > version_key(lowest.get(line["package"], "0")):
            lowest[line["package"]] = line["glibc"]
    return lowest


def main():
    parser = argparse.ArgumentParser(prog="./dev package", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="where the packages go; what is there is replaced (default: build/packages/SUITE)")
    parser.add_argument("--twice", action="store_true", help="make them twice and compare the bytes")
    arguments = parser.parse_args()
    suite = os.environ.get("CTXGEN_ENV_SUITE", "forky")
    version = re.search(r"^project\(ctxgen VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    target = (arguments.output or ROOT / "build" / "packages" / suite).resolve()
    build = arguments.build.resolve()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    epoch = source_date()  # once: a commit may be made meanwhile
    made = make_all(build, target, version, suite, epoch)
    lowest = floors(json.loads((target / "symbol-versions.json").read_text()))
    for file in made:
        needs = ", with glibc of its own" if file.suffix in (".xz", ".tar") else f", glibc {lowest[file.name]} or later" if file.name in lowest else ""
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB{needs}")
    if arguments.twice:
        with tempfile.TemporaryDirectory() as second:
            again = make_all(build, pathlib.Path(second), version, suite, epoch)
            different = [file.name for file, other in zip(made, again) if file.read_bytes() != other.read_bytes()]
        if different:
            sys.exit(f"package: made twice, these differ: {', '.join(different)}")
        print(f"made twice: {len(made)} files are equal")


if __name__ == "__main__":
    main()
