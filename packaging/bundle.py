"""Programs with the libraries that they need, to run on other systems: the relocatable archive, the container image, the wheel and the folder for npm."""

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tarfile
import time
import zipfile

from shared_objects import GLIBC, debian_package, highest_symbol_versions, interpreter, library_closure, version_key

# The dynamic loader of the archive starts the program, so that the system's own glibc, which may be older, takes no part.
STARTER = """\
#!/bin/sh
# Starts ctxgen with the libraries of this folder, whatever the system has.
here=$(dirname -- "$(readlink -f -- "$0")") || exit
CTXGEN_PROGRAM=$here/ctxgen
export CTXGEN_PROGRAM
exec "$here/../lib/ctxgen/{loader}" --argv0 "$0" --library-path "$here/../lib/ctxgen" "$here/../lib/ctxgen/ctxgen" "$@"
"""

WHEEL_PACKAGE = "onnxruntime_ep_ctxgen"
NODE_PACKAGE = "ctxgen-runtime"


def copy_library(source, target, search_path=None):
    """A stripped copy; with search_path it looks for what it needs there."""
    shutil.copyfile(source, target)
    target.chmod(0o755)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)
    if search_path is not None:
        subprocess.run(["patchelf", "--set-rpath", search_path, target], check=True)


def copy_copyrights(files, folder):
    """What Debian says about the copyright of the packages that these files are from."""
    for package in sorted({debian_package(str(file))[0] for file in files}):
        target = folder / package
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", target / "copyright")


def fill_archive(tree, folder):
    """`tree`: the installed component `program`. Gives {path in the archive: file of this system} of what was added."""
    program = tree / "bin" / "ctxgen"
    closure = library_closure(program)
    loader = pathlib.Path(interpreter(program))
    closure[loader.name] = loader.resolve()
    shutil.copytree(tree, folder)
    library = folder / "lib" / "ctxgen"
    library.mkdir(parents=True)
    (folder / "bin" / "ctxgen").rename(library / "ctxgen")
    subprocess.run(["strip", library / "ctxgen"], check=True)
    starter = folder / "bin" / "ctxgen"
    starter.write_text(STARTER.format(loader=loader.name))
    starter.chmod(0o755)
    added = {}
    for name, source in sorted(closure.items()):
        copy_library(source, library / name)
        added[f"lib/ctxgen/{name}"] = source
    copy_copyrights(added.values(), folder / "share" / "doc" / "ctxgen" / "libraries")
    return added


def fill_image(tree, folder):
    """`tree`: the installed component `program`. A root file system with nothing else; gives what was added as fill_archive() does."""
    shutil.copytree(tree, folder / "usr")
    program = folder / "usr" / "bin" / "ctxgen"
    subprocess.run(["strip", program], check=True)
    closure = library_closure(program)
    loader = pathlib.Path(interpreter(program))
    library = folder / "usr" / "lib" / "x86_64-linux-gnu"  # where the loader looks by itself
    added = {}
    for path, source in [(loader, loader.resolve()), *((pathlib.Path("/", library.relative_to(folder), name), file) for name, file in sorted(closure.items()))]:
        target = folder / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_library(source, target)
        added[str(path)] = source
    copy_copyrights(added.values(), folder / "usr" / "share" / "doc" / "ctxgen" / "libraries")
    certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")  # for the remote cache
    (folder / certificates.parent.relative_to("/")).mkdir(parents=True)
    shutil.copyfile(certificates, folder / certificates.relative_to("/"))
    for name in ("tmp", "work"):
        (folder / name).mkdir()
    return added


def write_image(folder, target, version, epoch):
    """An OCI image layout in a tar file, whose only layer is the folder: for `podman load`, `docker load`, `skopeo copy oci-archive:`."""
    blobs = {}

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def text(value):
        return json.dumps(value, sort_keys=True).encode()

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add_content(tar, folder, "", epoch)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    config = {
        "created": created, "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": ["/usr/bin/ctxgen"], "Env": ["PATH=/usr/bin"], "WorkingDir": "/work",
                   "Labels": {"org.opencontainers.image.title": "ctxgen", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
        "history": [{"created": created, "created_by": "packaging/make.py"}],
    }  # fmt: skip
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", text(config)),
        "layers": [blob("layer.v1.tar+gzip", gzip.compress(layer.getvalue(), 9, mtime=0))],
    }  # fmt: skip
    entry = blob("manifest.v1+json", text(manifest))
    entry["annotations"] = {"io.containerd.image.name": f"localhost/ctxgen:{version}", "org.opencontainers.image.ref.name": f"localhost/ctxgen:{version}"}
    files = {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text({"schemaVersion": 2, "manifests": [entry]}), **dict(sorted(blobs.items()))}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), epoch
            tar.addfile(info, io.BytesIO(data))


def add_content(tar, folder, prefix, epoch):
    """All below a folder, in the same order and with the same owners, times and modes each time."""

    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = epoch
        info.mode = 0o1777 if info.name == "tmp" else 0o755 if info.isdir() or info.mode & stat.S_IXUSR else 0o644
        return info

    if prefix:
        tar.add(folder, prefix, recursive=False, filter=plain)
    for path in sorted(folder.rglob("*")):
        tar.add(path, str(pathlib.Path(prefix) / path.relative_to(folder)), recursive=False, filter=plain)


def write_tar(folder, target, epoch):
    """A .tar.xz or .tgz of one folder whose bytes depend on its content only."""
    with contextlib.ExitStack() as stack:
        if target.suffix == ".tgz":
            packed = stack.enter_context(gzip.GzipFile("", "wb", 9, stack.enter_context(target.open("wb")), epoch))
            tar = stack.enter_context(tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT))
        else:
            tar = stack.enter_context(tarfile.open(target, "w:xz", preset=6, format=tarfile.GNU_FORMAT))
        add_content(tar, folder, folder.name, epoch)


def fill_with_libraries(plugin, package):
    """A copy of a plugin with its libraries, except glibc's and the C++ library: the program that loads it has the system's already.

    Gives {name: file of this system} of what was added.
    """
    copy_library(plugin, package / plugin.name, "$ORIGIN")
    added = {}
    for name, source in sorted(library_closure(plugin).items()):
        if GLIBC.match(name) or name.startswith(("libstdc++.so", "libgcc_s.so")):
            continue
        copy_library(source, package / name, "$ORIGIN")
        added[name] = source
    copy_copyrights(added.values(), package / "licenses")
    return added


def fill_node(tree, folder, project):
    """`tree`: the installed component `node`. Gives {path in the package: file of this system} of what was added."""
    shutil.copytree(tree / NODE_PACKAGE, folder)
    added = fill_with_libraries(tree / NODE_PACKAGE / "ctxgen.node", folder)
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(project / name, folder / name)
    return {f"package/{name}": source for name, source in added.items()}


def fill_wheel(plugin, python, folder):
    """Gives {path in the wheel: file of this system} of what was added, and the lowest glibc that all of it runs with."""
    package = folder / WHEEL_PACKAGE
    shutil.copytree(python, package, ignore=shutil.ignore_patterns("__pycache__"))
    added = {f"{WHEEL_PACKAGE}/{name}": source for name, source in fill_with_libraries(plugin, package).items()}
    needs = {kind: "0" for kind in ("GLIBC", "GLIBCXX", "CXXABI")}
    for file in package.glob("*.so*"):
        for kind, version in highest_symbol_versions(file).items():
            if version_key(version) > version_key(needs.get(kind, "0")):
                needs[kind] = version
    glibc = ".".join(str(part) for part in version_key(needs["GLIBC"])[:2])
    (package / "_needs.py").write_text(f'"""Written by packaging/bundle.py: what the libraries of this wheel ask the system for."""\n\nGLIBC = "{glibc}"\nGLIBCXX = "{needs["GLIBCXX"]}"\n')
    return added, glibc


def write_wheel(folder, target_folder, version, glibc, epoch, summary, project):
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    info = folder / f"{WHEEL_PACKAGE}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: onnxruntime-ep-ctxgen\nVersion: {version}\nSummary: {summary}\n"
        f"License: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: onnxruntime>=1.23\n"
    )
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: ctxgen\nRoot-Is-Purelib: false\nTag: {tag}\n")
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(project / name, info / name)
    record = info / "RECORD"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with record.open("w") as lines:
        for path in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            lines.write(f"{path.relative_to(folder)},sha256={digest},{path.stat().st_size}\n")
        lines.write(f"{record.relative_to(folder)},,\n")
    target = target_folder / f"{WHEEL_PACKAGE}-{version}-{tag}.whl"
    when = time.gmtime(max(epoch, 315532800))[:6]  # a zip file knows no time before 1980
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in [*files, record]:
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
            archive.writestr(entry, path.read_bytes(), compresslevel=9)
    return target
