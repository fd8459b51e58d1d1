"""Packages: which file is in which, and what makes the same bytes of the same content. `./dev package-test` installs real ones."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])
sys.path.insert(0, str(SOURCE / "packaging"))
import bundle  # noqa: E402
import sbom  # noqa: E402
import shared_objects  # noqa: E402


def installed(prefix, *arguments):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, *arguments], check=True, capture_output=True)
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_symlink() or path.is_file()}


def test_packages_share_no_file_and_are_the_whole(tmp_path):
    whole = installed(tmp_path / "whole")
    config = (BUILD / "CPackConfig.cmake").read_text()
    components = re.search(r'set\(CPACK_COMPONENTS_ALL "(.*)"\)', config)[1].split(";")
    owner = {}
    for component in components:
        for file in installed(tmp_path / component, "--component", component):
            assert owner.setdefault(file, component) == component, file
    copyrights = {file for file in owner if file.endswith("/copyright")}
    assert len(copyrights) == len(components)
    documents = {file for file in whole if file.startswith("share/doc/")}
    assert set(owner) - copyrights == whole - documents
    assert owner["include/ctxgen_runtime.h"] == "runtime_development" and owner["include/ctxgen_status.h"] == "runtime_development"
    assert owner["lib/libctxgen_runtime.so.1"] == "runtime_library" and owner["lib/libctxgen_runtime.so"] == "runtime_development"


def fill(folder):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "bin" / "tool").chmod(0o755)
    (folder / "text").write_text("text")
    return folder


@pytest.mark.parametrize("suffix", ["tar.xz", "tgz"])
def test_an_archive_depends_on_content_alone(tmp_path, suffix):
    made = []
    for number in (1, 2):
        folder = fill(tmp_path / str(number) / "same")
        os.utime(folder / "text", (number, number))
        (folder / "text").chmod(0o600 if number == 1 else 0o644)
        bundle.write_tar(folder, tmp_path / f"{number}.{suffix}", 1_700_000_000)
        made.append((tmp_path / f"{number}.{suffix}").read_bytes())
    assert made[0] == made[1]


def test_an_image_depends_on_content_alone_and_its_digests_are_right(tmp_path):
    made = []
    for number in (1, 2):
        folder = fill(tmp_path / str(number))
        os.utime(folder / "text", (number, number))
        made.append(tmp_path / f"{number}.tar")
        bundle.write_image(folder, made[-1], "1.2.3", 1_700_000_000)
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as image:
        blobs = {name: image.extractfile(name).read() for name in image.getnames()}

    def told(descriptor):
        data = blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(data) == descriptor["size"] and f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
        return data

    (entry,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(told(entry))
    (layer,) = manifest["layers"]
    content = gzip.decompress(told(layer))
    assert json.loads(told(manifest["config"]))["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(content)) as layer_tar:
        assert {info.name: info.mode for info in layer_tar} == {"bin": 0o755, "bin/tool": 0o755, "text": 0o644}


def test_a_wheel_depends_on_content_alone(tmp_path):
    made = []
    for number in (1, 2):
        folder = fill(tmp_path / str(number))
        os.utime(folder / "text", (number, number))
        target = tmp_path / f"out{number}"
        target.mkdir()
        made.append(bundle.write_wheel(folder, target, "1.2.3", "2.38", 0, "Summary", SOURCE))
    assert made[0].read_bytes() == made[1].read_bytes()
    assert made[0].name == "onnxruntime_ep_ctxgen-1.2.3-py3-none-manylinux_2_38_x86_64.whl"
    with zipfile.ZipFile(made[0]) as wheel:
        record = wheel.read("onnxruntime_ep_ctxgen-1.2.3.dist-info/RECORD").decode().splitlines()
        assert sorted(line.split(",")[0] for line in record) == sorted(wheel.namelist())


def test_the_module_says_which_glibc_it_needs(tmp_path):
    package = tmp_path / "onnxruntime_ep_ctxgen"
    package.mkdir()
    (package / "__init__.py").write_text((SOURCE / "plugins/onnxruntime/python/onnxruntime_ep_ctxgen/__init__.py").read_text())
    (package / "libctxgen_onnxruntime.so").write_text("")
    code = "import onnxruntime_ep_ctxgen as e; print(e.get_library_path())"
    environment = {name: value for name, value in os.environ.items() if name != "CTXGEN_ONNXRUNTIME_PLUGIN"}

    def says(needed):
        (package / "_needs.py").write_text(f'GLIBC = "{needed}"\n')
        return subprocess.run([sys.executable, "-B", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert says("2.17").stdout.strip() == str(package / "libctxgen_onnxruntime.so")
    refused = says("9.99")
    assert refused.returncode == 1 and "needs glibc 9.99 or later, this system has glibc" in refused.stderr


def test_the_highest_symbol_version_is_by_number():
    assert max(["2.9", "2.38", "2.4"], key=shared_objects.version_key) == "2.38"
    versions = shared_objects.highest_symbol_versions(os.environ["CTXGEN_BIN"])
    assert shared_objects.version_key(versions["GLIBC"]) >= (2, 38)


@pytest.mark.parametrize("file, package", [("libctxgen_onnxruntime.so", ".whl"), ("node/ctxgen.node", ".tgz")])
def test_plugins_ask_for_the_glibc_that_readme_names(file, package):
    """A function of which a newer glibc has a new version raises the floor without a word."""
    path = BUILD / "lib" / file
    if not path.exists():
        pytest.skip(f"{file} was not built")
    if b"__asan_init" in path.read_bytes() or b"__tsan_init" in path.read_bytes():
        pytest.skip("sanitizers have a floor of their own")
    said = re.search(rf"{re.escape(package)}` \| glibc ([\d.]+) and later", (SOURCE / "README.md").read_text())[1]
    found = shared_objects.highest_symbol_versions(path)["GLIBC"]
    assert shared_objects.version_key(found) <= shared_objects.version_key(said), shared_objects.symbols_of_version(path, f"GLIBC_{found}")


@pytest.mark.parametrize("field, names", [("", []), ("libc6 (>= 2.43), libonnx1l", ["libc6", "libonnx1l"]), ("a | b (= 1), c", ["a", "c"])])
def test_names_of_dependencies(field, names):
    assert sbom.names_of(field) == names
