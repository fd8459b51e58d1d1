#!/usr/bin/env python3
"""Installs the packages as users would, in fresh minimal root file systems without the environment of ./dev: `./dev package-test`.

Debian packages: compile, run and verify a model from nothing (timed), the Make sample, C programs over pkg-config and CMake, the CMake
sample with its C++ program, the plugin in Python. The wheel in a virtual environment, here and in an older suite, and its plugin in a C++
program over npm's ONNX Runtime. The archive, which brings its own loader, in older suites. Everything that was run is in test.log next to the packages.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

from fresh_root import Failed, FreshRoot, make_base
from shared_objects import version_key

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import fetch_ort  # noqa: E402

MOST_SECONDS = 60  # from a bare system to the first compiled model
COMPONENT = """\
cmake_minimum_required(VERSION 3.25)
project(consumer C)
set(CMAKE_C_STANDARD 99)
find_package(ctxgen 0.1 CONFIG REQUIRED COMPONENTS runtime)
add_executable(runner runner.c)
target_link_libraries(runner PRIVATE ctxgen::runtime_c)
"""
TESTS = {}


def installed_test(function):
    TESTS[function.__name__] = function
    return function


class Roots:
    """Fresh roots by suite, and what goes into them: packages and models."""

    def __init__(self, packages, models, scratch, log):
        self.packages, self.models, self.scratch, self.log = packages, models, scratch, log
        self.bases = {}
        self.digest = None  # of what the archive compiled in the first suite

    def fresh(self, suite):
        if suite not in self.bases:
            self.bases[suite] = make_base(suite, self.scratch / f"base-{suite}", self.log)
        root = FreshRoot(self.bases[suite], self.scratch / f"root-{suite}", self.log)
        root.put(self.packages, "/packages")
        root.put(self.models, "/models")
        return root

    def unpack_archive(self, root):
        """The archive of the command line, into a root; bare ones have no xz."""
        (path,) = self.packages.glob("*.tar.xz")
        subprocess.run(["tar", "-xf", path, "-C", root.folder / "opt"], check=True)
        root.shell(f"ln -s /opt/{path.name.removesuffix('.tar.xz')}/bin/ctxgen /usr/local/bin/ctxgen")

    def file(self, pattern):
        (path,) = self.packages.glob(pattern)
        return f"/packages/{path.name}"


def compile_and_verify(root, command="ctxgen"):
    root.run(command, "compile", "/models/classifier.onnx", "-o", "/tmp/classifier_ctx.onnx")
    root.run(command, "verify", "/tmp/classifier_ctx.onnx", "--against", "/models/classifier.onnx", "--dim", "batch=2")
    root.run(command, "check", "/tmp/classifier_ctx.onnx")
    return root.run(command, "run", "/tmp/classifier_ctx.onnx", "--dim", "batch=2")


@installed_test
def program(roots, suite):
    """The command line, from nothing, against the clock; then the Make sample."""
    with roots.fresh(suite) as root:
        started = time.monotonic()
        root.run("apt-get", "update", "-q")
        root.install(roots.file("ctxgen_*.deb"))
        root.run("ctxgen", "compile", "/models/squeezenet.onnx")
        seconds = time.monotonic() - started
        root.run("ctxgen", "verify", "/models/squeezenet_ctx.onnx", "--against", "/models/squeezenet.onnx")
        compile_and_verify(root)
        root.run("ctxgen", "doctor")
        root.shell("test -s /usr/share/man/man1/ctxgen-compile.1* && test -s /usr/share/bash-completion/completions/ctxgen && test -s /usr/share/doc/ctxgen/copyright")
        root.install("make")
        root.put(ROOT / "samples/make", "/make")
        root.run("make", "-C", "/make", "MODELS=/models", "OUT=/tmp/out")
        root.run("ctxgen", "check", "/tmp/out/group/decoder_ctx.onnx")
        root.run("apt-get", "purge", "-y", "-q", "ctxgen")
        root.shell("! command -v ctxgen")
    if seconds > MOST_SECONDS:
        raise Failed(f"{seconds:.0f} s from nothing to the first compiled model, at most {MOST_SECONDS}")
    return f"from nothing to the first compiled model: {seconds:.0f} s"


def commands_of(section):
    """The lines of the shell blocks of a section of README."""
    text = (ROOT / "README.md").read_text().split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


@installed_test
def readme(roots, suite):
    """What README tells a user to do, to the letter, where nothing is installed: `Install` and `Five minutes`."""
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install("sudo", "libonnx-testdata")
        commands = [*commands_of("Install"), *commands_of("Five minutes")]
        commands[0] = commands[0].replace("apt install", "apt install -y")  # nobody answers
        started = time.monotonic()
        for command in commands:
            root.shell(f"cd /packages && {command}")
        root.shell("cd /packages && test -s squeezenet_ctx.onnx && test -s squeezenet_dnnl.bin && test -s squeezenet_report.html")
    return f"{len(commands)} commands in {time.monotonic() - started:.0f} s"


@installed_test
def c_program(roots, suite):
    """A C program over the runtime: pkg-config and CMake, with nothing but its own -dev package."""
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install(roots.file("ctxgen_*.deb"), roots.file("libctxgen-runtime1_*.deb"), roots.file("libctxgen-runtime-dev_*.deb"), "gcc", "libc6-dev", "pkg-config", "cmake", "make")
        root.put(ROOT / "tests/build/runner.c", "/c/runner.c")
        (root.folder / "c/CMakeLists.txt").write_text(COMPONENT)
        compile_and_verify(root)
        root.shell("cc -std=c99 -Wall -Werror /c/runner.c $(pkg-config --cflags --libs ctxgen-runtime) -o /c/by-pkg-config")
        root.shell("cmake -S /c -B /c/build && cmake --build /c/build")
        root.run("/c/by-pkg-config", "/tmp/classifier_ctx.onnx", "/tmp/y1")
        root.run("/c/build/runner", "/tmp/classifier_ctx.onnx", "/tmp/y2")
        root.shell("test -s /tmp/y1 && cmp /tmp/y1 /tmp/y2")
        return root.run("stat", "-c", "%s bytes of output, the same from both", "/tmp/y1").strip()


@installed_test
def cxx_program(roots, suite):
    """The CMake sample: ctxgen_compile() and a C++ program that carries its model."""
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        names = ("ctxgen_*", "libctxgen-runtime1_*", "libctxgen-runtime-dev_*", "libctxgen-compiler1_*", "libctxgen-dev_*")
        root.install(*[roots.file(f"{name}.deb") for name in names], "g++", "cmake", "make")
        root.put(ROOT / "samples/cmake", "/cmake")
        root.shell("cmake -S /cmake -B /cmake/build -DMODELS=/models && cmake --build /cmake/build")
        return root.run("/cmake/build/classify").strip().splitlines()[-1]


@installed_test
def plugin(roots, suite):
    """The plugin in ONNX Runtime for Python, from the Debian package and from the wheel."""
    if suite == "trixie":
        return "skipped: its ONNX Runtime (1.21) takes no plugins"
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install(roots.file("ctxgen_*.deb"), roots.file("onnxruntime-ep-ctxgen_*.deb"), "python3-onnxruntime", "python3-numpy", "python3-venv", "python3-pip")
        root.put(ROOT / "samples/onnxruntime/run.py", "/run.py")
        compile_and_verify(root)
        says = root.shell("python3 /run.py /tmp/classifier_ctx.onnx 2>/dev/null").strip()
        root.run("apt-get", "purge", "-y", "-q", "onnxruntime-ep-ctxgen")
        root.shell("! python3 /run.py /tmp/classifier_ctx.onnx 2>/dev/null")
        root.shell(f"python3 -m venv --system-site-packages /venv && /venv/bin/pip install --no-index --no-deps {roots.file('*.whl')}")
        again = root.shell("/venv/bin/python /run.py /tmp/classifier_ctx.onnx 2>/dev/null").strip()
        if again != says:
            raise Failed(f"the wheel gives {again}, the Debian package {says}")
    return f"{says}, the same with the wheel"


@installed_test
def plugin_npm(roots, suite):
    """The wheel's plugin in a C++ program over the ONNX Runtime of the npm package, in an older suite, with a model that the archive compiled there."""
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install("g++", "libc6-dev")
        roots.unpack_archive(root)
        (wheel,) = roots.packages.glob("*.whl")
        shutil.unpack_archive(wheel, root.folder / "wheel", "zip")
        root.put(fetch_ort.newest(), "/ort/libonnxruntime.so.1")
        root.put("/usr/include/onnxruntime", "/ort/include")
        root.put(ROOT / "samples/onnxruntime/run.cpp", "/run.cpp")
        root.run("ctxgen", "compile", "/models/classifier.onnx", "-o", "/tmp/classifier_ctx.onnx")
        root.shell("g++ -std=c++20 -I/ort/include /run.cpp /ort/libonnxruntime.so.1 -Wl,-rpath,/ort -o /usr/local/bin/run-model")
        says = root.run("run-model", "/wheel/onnxruntime_ep_ctxgen/libctxgen_onnxruntime.so", "/tmp/classifier_ctx.onnx").strip().splitlines()[-1]
    return f"ONNX Runtime {fetch_ort.newest().parent.name.rsplit('-', 1)[1]} of npm: {says}"


@installed_test
def node_addon(roots, suite):
    """The Node.js addon: npm installs it without a network, the sample and the tests of ./dev languages-test run."""
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install(roots.file("ctxgen_*.deb") if suite == "forky" else "libgomp1", "nodejs", *(["npm"] if suite == "forky" else []))
        root.put(ROOT / "samples/languages/node/run.js", "/node/run.js")
        root.put(ROOT / "tests/languages/addon_test.js", "/node/addon_test.js")
        if suite != "forky":  # what forky's command line compiled
            root.put(roots.scratch / "compiled", "/models")
            root.shell(f"mkdir -p /node/node_modules/ctxgen-runtime && tar -xzf {roots.file('ctxgen-runtime-*.tgz')} --strip-components=1 -C /node/node_modules/ctxgen-runtime")
        else:
            root.run("ctxgen", "compile", "/models/classifier.onnx")
            shutil.copytree(root.folder / "models", roots.scratch / "compiled", dirs_exist_ok=True)
            root.shell(f"cd /node && npm install --offline --no-audit --no-fund {roots.file('ctxgen-runtime-*.tgz')}")
        says = root.shell("cd /node && node run.js /models/classifier_ctx.onnx").strip()
        root.shell("cd /node && node addon_test.js /models")
    return says


@installed_test
def symbol_versions(roots, suite):
    """The newest symbols that the files of the wheel and of the Node.js addon ask for are those of the releases that README names."""
    lines = json.loads((roots.packages / "symbol-versions.json").read_text())
    for suffix in (".whl", ".tgz"):
        files = [line for line in lines if line["package"].endswith(suffix)]
        glibc = max((line["glibc"] for line in files if "glibc" in line), key=version_key, default=None)
        said = re.search(rf"{re.escape(suffix)}` \| glibc ([\d.]+) and later", (ROOT / "README.md").read_text())[1]
        if glibc != said:
            raise Failed(f"the {suffix} needs glibc {glibc}, README says {said}")
        compiler = max((line.get("glibcxx", "0") for line in files), key=version_key)
        if version_key(compiler) > version_key("3.4.33"):  # Debian 13
            raise Failed(f"the {suffix} needs GLIBCXX_{compiler}")
    return f"glibc {glibc}, GLIBCXX_{compiler}"


@installed_test
def wheel_loads(roots, suite):
    """The wheel's libraries load in a Python that has nothing else."""
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install("python3", "python3-venv", "libstdc++6")
        code = "import ctypes, onnxruntime_ep_ctxgen as e; ctypes.CDLL(e.get_library_path()); print(e.get_library_path())"
        venv = f"python3 -m venv /venv && /venv/bin/pip install --no-index --no-deps {roots.file('*.whl')}"
        if suite == "bookworm":  # its glibc is older than the wheel's floor
            text = root.shell(f"{venv} && exit 1 || true")
            if "is not a supported wheel on this platform" not in text:
                raise Failed(f"pip took a wheel for a newer glibc\n{text}")
            return "refused by pip: glibc 2.36"
        return root.shell(f"{venv} && /venv/bin/python -c '{code}'").strip().splitlines()[-1]


@installed_test
def archive(roots, suite):
    """The archive of the command line, with nothing installed."""
    with roots.fresh(suite) as root:
        roots.unpack_archive(root)
        compile_and_verify(root)
        root.run("ctxgen", "compile", "/models/squeezenet.onnx", "-o", "/tmp/squeezenet_ctx.onnx")
        root.shell("printf '/models/encoder.onnx\\n/models/decoder.onnx\\n' > /tmp/list && ctxgen compile --list /tmp/list -o /tmp/listed -j 2 && test -s /tmp/listed/encoder_ctx.onnx")
        data = (root.folder / "tmp/squeezenet_dnnl.bin").read_bytes()
        glibc = root.shell("ldd --version | head -1").strip().split()[-1]
        digest = hashlib.sha256(data).hexdigest()[:16]
        if roots.digest not in (None, digest):
            raise Failed(f"the context binary differs from that of another suite: {digest}, {roots.digest}")
        roots.digest = digest
        return f"glibc {glibc}, context binary {digest}"


@installed_test
def other_suite(roots, suite):
    """Contexts of the other suite's oneDNN: check says which one made them, and they run. The other one is forky's archive, next to these packages."""
    others = list((roots.packages.parent / "forky").glob("*.tar.xz"))
    if not others:
        return "skipped: no archive of forky (./dev package)"
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install(roots.file("ctxgen_*.deb"))
        subprocess.run(["tar", "-xf", others[0], "-C", root.folder / "opt"], check=True)
        programs = {"here": "/usr/bin/ctxgen", "there": f"/opt/{others[0].name.removesuffix('.tar.xz')}/bin/ctxgen"}
        version = {name: re.search(r"oneDNN (\S+)", root.run(program, "--version"))[1] for name, program in programs.items()}
        said = []
        for model in ("squeezenet", "classifier"):
            for maker, reader in (("there", "here"), ("here", "there")):
                context = f"/tmp/{maker}/{model}_ctx.onnx"
                root.shell(f"mkdir -p /tmp/{maker} && {programs[maker]} compile /models/{model}.onnx -o {context}")
                text = root.shell(f"{programs[reader]} check {context} || test $? = 4")
                if not all(f"onednn={one}" in text for one in version.values()):
                    raise Failed(f"check does not say which oneDNN made {context}\n{text}")
                said.append(text.split(":")[0])
                root.run(programs[reader], "verify", context, "--against", f"/models/{model}.onnx", *(["--dim", "batch=2"] if model == "classifier" else []))
    return f"oneDNN {version['here']} and {version['there']}: {', '.join(sorted(set(said)))}; all verified"


@installed_test
def newer_opsets(roots, suite):
    """Operators of opsets 23 and 24, which the onnx package of an older suite lacks."""
    names = sorted(path.name for path in (roots.models / "newer").iterdir())
    with roots.fresh(suite) as root:
        root.run("apt-get", "update", "-q")
        root.install(roots.file("ctxgen_*.deb"))
        version = re.search(r"onnx (\S+)", root.run("ctxgen", "--version"))[1]
        for name in names:
            root.run("ctxgen", "compile", f"/models/newer/{name}", "-o", f"/tmp/{name}")
            root.run("ctxgen", "verify", f"/tmp/{name}", "--against", f"/models/newer/{name}")
    return f"{len(names)} operators with onnx {version}"


@installed_test
def image(roots, suite):
    """The container image: skopeo reads it, and its entry point runs in a root that has nothing but its layer. No container engine: they need rights that a test may lack."""
    (path,) = roots.packages.glob("*-image.tar")
    told = subprocess.run(["skopeo", "inspect", "--config", f"oci-archive:{path}"], capture_output=True, text=True, check=True).stdout
    config = json.loads(told)["config"]
    with tempfile.TemporaryDirectory(dir=roots.scratch) as name:
        root = pathlib.Path(name)
        subprocess.run(["skopeo", "copy", "--quiet", f"oci-archive:{path}", f"dir:{root / 'blobs'}"], check=True, capture_output=True)
        (layer,) = json.loads((root / "blobs/manifest.json").read_text())["layers"]
        with tarfile.open(root / "blobs" / layer["digest"].removeprefix("sha256:")) as tar:
            tar.extractall(root / "root", filter="tar")
        shutil.copytree(roots.models, root / "root/work", dirs_exist_ok=True)
        # What an engine mounts, and no more.
        enter = f"mkdir -p proc dev && mount -t proc proc proc && mount --rbind /dev dev && exec chroot . {' '.join(config['Entrypoint'])} \"$@\""

        def run(*arguments):
            command = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", f"cd {root / 'root'} && {enter}", "enter", *arguments]
            finished = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
            roots.log.write(f"$ {' '.join(arguments)}\n{finished.stdout}{finished.stderr}[{finished.returncode}]\n\n")
            if finished.returncode != 0:
                raise Failed(f"ctxgen {' '.join(arguments)}: status {finished.returncode}\n{finished.stdout}{finished.stderr}")

        run("compile", "/work/squeezenet.onnx")
        run("verify", "/work/squeezenet_ctx.onnx", "--against", "/work/squeezenet.onnx")
        run("compile", "/work/classifier.onnx", "--isa", "sse41,avx2")
    return f"{' '.join(config['Entrypoint'])} in {config['WorkingDir']}, {path.stat().st_size / 1e6:.1f} MB"


# What is run in which suite: packages are for one, the wheel and the archive for older ones too.
PLAN = {
    "forky": [("program", "forky"), ("readme", "forky"), ("c_program", "forky"), ("cxx_program", "forky"), ("plugin", "forky"), ("node_addon", "forky"), ("node_addon", "trixie"), ("plugin_npm", "trixie"), ("symbol_versions", "forky"), ("wheel_loads", "trixie"), ("wheel_loads", "bookworm"), ("image", "forky"),
              ("archive", "forky"), ("archive", "trixie"), ("archive", "bookworm")],
    "trixie": [("program", "trixie"), ("c_program", "trixie"), ("cxx_program", "trixie"), ("newer_opsets", "trixie"), ("other_suite", "trixie")],
}  # fmt: skip


NEWER = ("attention_4d", "attention_3d_gqa", "rms_normalization_2d_axis0", "rotary_embedding", "swish", "tensorscatter")


def write_models(folder):
    (folder / "newer").mkdir(parents=True)
    for name in NEWER:
        shutil.copy(f"/usr/share/libonnx-testdata/data/node/test_{name}/model.onnx", folder / "newer" / f"{name}.onnx")
    subprocess.run([sys.executable, ROOT / "samples/models.py", folder], check=True)
    subprocess.run([sys.executable, ROOT / "tests/languages/mixed_model.py", folder / "mixed.onnx"], check=True)
    shutil.copy("/usr/share/libonnx-testdata/data/light/light_squeezenet.onnx", folder / "squeezenet.onnx")


def main():
    parser = argparse.ArgumentParser(prog="./dev package-test", description=__doc__.split("\n\n")[0])
    parser.add_argument("--for", dest="suite", choices=sorted(PLAN), default="forky", help="packages of this suite (default: forky)")
    parser.add_argument("--packages", type=pathlib.Path, metavar="DIR", help="where they are (default: build/packages/SUITE)")
    parser.add_argument("-k", metavar="WORD", default="", help=f"only tests whose name has WORD: {', '.join(TESTS)}")
    arguments = parser.parse_args()
    packages = (arguments.packages or ROOT / "build/packages" / arguments.suite).resolve()
    if not list(packages.glob("*.deb")):
        sys.exit(f"package-test: no packages in {packages}; ./dev package makes them")
    plan = [step for step in PLAN[arguments.suite] if arguments.k in step[0]]
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch_name, (packages / "test.log").open("w") as log:
        scratch = pathlib.Path(scratch_name)
        write_models(scratch / "models")
        roots = Roots(packages, scratch / "models", scratch, log)
        for file in sorted(packages.iterdir()):
            line = f"{file.name}: {file.stat().st_size / 1e6:.2f} MB"
            log.write(line + "\n")
        for name, suite in plan:
            log.write(f"==== {name} in {suite}\n")
            started = time.monotonic()
            try:
                says = TESTS[name](roots, suite)
                passed += 1
                line = f"ok      {name} in {suite} ({time.monotonic() - started:.0f} s): {says}"
            except (Failed, subprocess.SubprocessError, OSError, ValueError) as error:
                failed += 1
                line = f"FAILED  {name} in {suite}: {error}"
            log.write(line + "\n")
            print(line, flush=True)
    print(f"{passed} passed, {failed} failed; {packages / 'test.log'} has all that was run")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"
    sys.exit(main())
