"""ELF files: what they need, where Debian has it, and which release of glibc they run with."""

import functools
import os
import pathlib
import re
import subprocess

# What belongs to glibc comes as a whole or not at all.
GLIBC = re.compile(r"^(?:ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libmvec|libutil|libanl|libBrokenLocale|libnss_\w+)\.so\b")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def version_key(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))


def highest_symbol_versions(path):
    """{"GLIBC": "2.38", "GLIBCXX": "3.4.32", ...}: the highest version of each kind that the file asks others for."""
    highest = {}
    for kind, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)\b", needed_versions(path)):
        if version_key(version) > version_key(highest.get(kind, "0")):
            highest[kind] = version
    return highest


def needed_versions(path):
    text = output("readelf", "--version-info", "--wide", path)
    return text.partition("Version needs section")[2] + ""


def symbols_of_version(path, version):
    """Names of the undefined symbols of one version: what to avoid for a lower one."""
    text = output("readelf", "--dyn-syms", "--wide", path)
    return sorted(set(re.findall(rf"UND (\S+?)@{re.escape(version)}\b", text)))


def interpreter(path):
    return re.search(r"program interpreter: (\S+?)\]", output("readelf", "--program-headers", "--wide", path))[1]


def library_closure(*paths):
    """{name: file} of every shared library that the files need, as this system's loader finds them, those of glibc too."""
    found = {}
    for path in paths:
        for name, file in re.findall(r"^\s*(\S+) => (\S+)", output("ldd", path), re.M):
            if file == "not":
                raise FileNotFoundError(f"{path} needs {name}, which is not installed")
            found[name] = pathlib.Path(file).resolve()
    return found


@functools.cache
def debian_package(file):
    """(binary package, version, source package, source version) that a file of this system belongs to."""
    for form in {file, file.removeprefix("/usr")}:  # a package may list a file by its name before the merge of /lib into /usr
        finished = subprocess.run(["dpkg-query", "--search", form], capture_output=True, text=True, check=False)
        if finished.returncode == 0:
            name = finished.stdout.split(": ")[0].split(",")[0]
            return tuple(output("dpkg-query", "-W", "-f", "${Package}|${Version}|${source:Package}|${source:Version}", name).split("|"))
    raise FileNotFoundError(f"no Debian package has {file}")
