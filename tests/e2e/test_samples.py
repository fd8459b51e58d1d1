"""The samples, run against an installed tree: what changed is built again, and nothing else runs."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import onnx
import pytest
from onnx import helper

SOURCE = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ["CTXGEN_BUILD"])

pytestmark = pytest.mark.skipif(os.environ.get("CTXGEN_PRESET") in ("asan", "tsan", "fuzz"),
                                reason="libraries built with a sanitizer are not for others")


def run(*command, **more):
    finished = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, **more)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}"
    return finished.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed") / "prefix"
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture
def models(tmp_path):
    run(sys.executable, SOURCE / "samples" / "models.py", tmp_path / "models")
    old = 1_000_000_000
    for path in (tmp_path / "models").iterdir():
        os.utime(path, (old, old))
    return tmp_path / "models"


def times(folder):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")
            if path.suffix in (".onnx", ".bin") and path.is_file()}


def changed(before, after):
    assert before.keys() == after.keys()
    return {name for name in after if after[name] != before[name]}


def touch(path, outputs):
    """Makes path newer than all that lies below outputs: the kernel's file times are as coarse as its tick (up to 10 ms), and a
    build tool that finds equal times finds nothing to do."""
    newest = max(made.stat().st_mtime_ns for made in outputs.rglob("*"))
    os.utime(path)
    while path.stat().st_mtime_ns <= newest:
        time.sleep(0.001)
        os.utime(path)


def test_installed_documents(prefix):
    for name in ("man/man1/ctxgen.1", "man/man1/ctxgen-compile.1", "bash-completion/completions/ctxgen",
                 "zsh/site-functions/_ctxgen", "fish/vendor_completions.d/ctxgen.fish"):
        assert (prefix / "share" / name).stat().st_size > 0


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make(prefix, models, tmp_path):
    shutil.copy(SOURCE / "samples" / "make" / "Makefile", tmp_path)
    out = tmp_path / "out"

    def make():
        return run("make", f"CTXGEN={prefix}/bin/ctxgen", cwd=tmp_path)

    assert make().count(" compile ") == 2
    first = times(out)
    assert set(first) == {"classifier_ctx.onnx", "classifier_dnnl.bin", "group/encoder_ctx.onnx", "group/decoder_ctx.onnx",
                          "group/encoder_dnnl.bin"}
    assert make().count(" compile ") == 0
    assert times(out) == first

    touch(models / "decoder.data", out)
    assert make().count(" compile ") == 1
    assert changed(first, times(out)) == {"group/encoder_ctx.onnx", "group/decoder_ctx.onnx", "group/encoder_dnnl.bin"}

    for path in [path for path in out.rglob("*") if path.suffix in (".onnx", ".bin")]:
        before = times(out)
        path.unlink()
        assert make().count(" compile ") == 1, path
        after = times(out)
        assert after.keys() == before.keys()
        assert {pathlib.Path(name).parent for name in changed(before, after)} == {path.parent.relative_to(out)}
        assert make().count(" compile ") == 0

    (models / "classifier.data").unlink()  # and a model without it: the empty rule lets make go on
    run(sys.executable, "-c", "import onnx, sys; onnx.save(onnx.load('encoder.onnx'), 'classifier.onnx')", cwd=models)
    assert make().count(" compile ") == 1
    assert make().count(" compile ") == 0


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake(prefix, models, tmp_path, generator):
    if shutil.which("make" if "Make" in generator else "ninja") is None:
        pytest.skip(f"no {generator} here")
    build = tmp_path / "build"
    run("cmake", "-G", generator, "-S", SOURCE / "samples" / "cmake", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DMODELS={models}")

    def outputs():
        return {name: time for name, time in times(build).items() if "CMakeFiles" not in name}

    run("cmake", "--build", build)
    first = outputs()
    group = {f"translator/{name}" for name in ("encoder_ctx.onnx", "decoder_ctx.onnx", "encoder_dnnl.bin")}
    assert set(first) == {"classifier_ctx.onnx"} | group
    program = build / "classify"
    zeros = run(program)
    assert len(zeros.split()) == 8
    assert run(program, *"1 2 3 4 5 6 7 8".split()) != zeros
    program_time = program.stat().st_mtime_ns

    run("cmake", "--build", build)
    assert outputs() == first and program.stat().st_mtime_ns == program_time

    touch(models / "encoder.data", build)
    run("cmake", "--build", build)
    second = outputs()
    assert changed(first, second) == group
    assert program.stat().st_mtime_ns == program_time

    for name in sorted(group):
        before = outputs()
        (build / name).unlink()
        run("cmake", "--build", build)
        assert changed(before, outputs()) == group
        assert program.stat().st_mtime_ns == program_time
    second = outputs()

    (build / "classifier_ctx.onnx").unlink()
    run("cmake", "--build", build)
    assert changed({name: time for name, time in second.items()}, outputs()) == {"classifier_ctx.onnx"}
    assert program.stat().st_mtime_ns != program_time


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake_knows_the_file_of_external_initializers(prefix, models, tmp_path, generator):
    """Also where nothing stays outside of partitions: nothing runs again, and a file that is gone is made again."""
    if shutil.which("make" if "Make" in generator else "ninja") is None:
        pytest.skip(f"no {generator} here")
    (tmp_path / "CMakeLists.txt").write_text(f"""\
cmake_minimum_required(VERSION 3.28)
project(x CXX)
find_package(ctxgen CONFIG REQUIRED)
ctxgen_compile(TARGET m MODELS "{models}/encoder.onnx" OPTIONS --external-initializers ext.data)
""")
    build = tmp_path / "build"
    run("cmake", "-G", generator, "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    files = [build / name for name in ("encoder_ctx.onnx", "encoder_dnnl.bin", "ext.data")]

    def build_and_look():
        run("cmake", "--build", build)
        return [file.stat().st_mtime_ns for file in files]

    first = build_and_look()
    assert build_and_look() == first
    for file in files:
        file.unlink()
        second = build_and_look()
        assert all(new != old for new, old in zip(second, first, strict=True)), file
        assert build_and_look() == second
        first = second


def test_cmake_refuses_what_it_sets_itself(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("""\
cmake_minimum_required(VERSION 3.28)
project(x CXX)
find_package(ctxgen CONFIG REQUIRED)
ctxgen_compile(TARGET m MODELS m.onnx OPTIONS --bin=x.bin)
""")
    finished = subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                              capture_output=True, text=True)
    assert finished.returncode != 0 and "--bin=x.bin cannot stand in OPTIONS" in finished.stderr


CHAIN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,2] x, float[2,2] z) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
  a = Neg(x)
  b = Add(a, w)
  c = Mul(b, z)
  y = Abs(c)
}"""


def test_provider(prefix, tmp_path):
    """A provider from outside: it claims, compiles and runs; what it writes is checked when it is loaded."""
    build = tmp_path / "build"
    run("cmake", "-G", "Ninja", "-S", SOURCE / "samples" / "provider", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    onnx.save(onnx.parser.parse_model(CHAIN), tmp_path / "net.onnx")
    context = tmp_path / "net_ctx.onnx"
    lines = run(build / "chain", tmp_path / "net.onnx", context).splitlines()
    assert lines[:4] == ["Neg: chain", "Add: chain", "Mul: cpu (chain: operator is not in the table)", "Abs: chain"]
    assert [float(line) for line in lines[4:]] == [0, 1, 2, 3]
    nodes = [node for node in onnx.load(context).graph.node if node.op_type == "EPContext"]
    assert len(nodes) == 2
    assert {helper.get_attribute_value(a) for node in nodes for a in node.attribute if a.name == "source"} == {b"ChainExecutionProvider"}
    assert (tmp_path / "net_chain.bin").exists()
    finished = subprocess.run([build / "chain", context, tmp_path / "again_ctx.onnx"], capture_output=True, text=True, check=False)
    assert finished.returncode != 0 and finished.stderr.startswith("chain: ")


def test_encrypted(prefix, models, tmp_path):
    """What is sealed runs as it did before, from files that hold none of its bytes; nothing else opens."""
    build, out = tmp_path / "build", tmp_path / "out"
    run("cmake", "-G", "Ninja", "-S", SOURCE / "samples" / "encrypted", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    run(prefix / "bin" / "ctxgen", "compile", models / "classifier.onnx", "-o", f"{out}/", "--dim", "batch=1", "-q")
    plain = {path.name: path.read_bytes() for path in out.iterdir()}
    for name in ("key", "other"):
        (tmp_path / name).write_bytes(os.urandom(32))
    run(build / "sealed", "seal", tmp_path / "key", *out.iterdir())
    for name in plain:
        (out / name).unlink()
    values = run(build / "sealed", "run", tmp_path / "key", out / "classifier_ctx.onnx").split()
    assert len(values) == 8 and all(float(value) == float(value) for value in values)
    sealed = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(sealed) == {f"{name}.sealed" for name in plain}
    weights = (models / "classifier.data").read_bytes()
    assert weights[:32] in plain["classifier_dnnl.bin"] and not any(weights[:32] in data for data in sealed.values())

    def refused(key="key"):
        done = subprocess.run([build / "sealed", "run", tmp_path / key, out / "classifier_ctx.onnx"], capture_output=True, text=True, check=False)
        return done.returncode == 1 and "damaged" in done.stderr

    assert refused("other")
    for name, data in sealed.items():
        (out / name).write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
        assert refused(), name
        (out / name).write_bytes(data)
    (out / "classifier_ctx.onnx.sealed").write_bytes(sealed["classifier_dnnl.bin.sealed"])
    assert refused()


def test_generate(prefix, tmp_path):
    """Greedily the tokens of ONNX Runtime, among the likeliest the same for the same seed, and what is wrong is named."""
    sys.path.insert(0, str(SOURCE / "bench" / "models"))
    import past_decoders

    folder = SOURCE / "samples" / "generate"
    run("cmake", "-G", "Ninja", "-S", folder, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    program = tmp_path / "build" / "generate"
    for make in (past_decoders.tiny_llama, past_decoders.tiny_gpt2):
        model = tmp_path / f"{make.__name__}.onnx"
        onnx.save(make().model(), model)
        run(prefix / "bin" / "ctxgen", "compile", "-q", model)
        context = model.with_name(model.stem + "_ctx.onnx")
        tokens = run(program, context, "--steps", 24, 5, 7, 11).split()
        assert len(tokens) == 24 and len(set(tokens)) > 1
        expected = subprocess.run([sys.executable, folder / "onnxruntime_loop.py", model, "24", "5", "7", "11"], capture_output=True, text=True, check=True)
        assert tokens == expected.stdout.split()
    assert run(program, context, "--steps", 24, "--stop", tokens[8], 5, 7, 11).split() == tokens[: tokens.index(tokens[8])]

    def chosen(*options):
        return run(program, context, "--steps", 24, "--top-k", 40, *options, 5, 7, 11).split()

    assert chosen("--seed", 1) == chosen("--seed", 1)
    assert len({tuple(chosen("--seed", seed)) for seed in range(4)}) == 4
    assert chosen("--temperature", 1e-6) == tokens
    for wrong in (["--top-k", 0], ["--steps", -1], ["--seed"], ["--none", 1], ["x"], ["--temperature", "nan"], []):
        finished = subprocess.run([str(part) for part in [program, context, *wrong]], capture_output=True, text=True, check=False)
        assert finished.returncode == 1 and finished.stderr, wrong
    finished = subprocess.run([program, tmp_path / "none.onnx", "1"], capture_output=True, text=True, check=False)
    assert finished.returncode == 1 and "none.onnx" in finished.stderr


def test_ci(prefix, models, tmp_path):
    def step():
        return run(SOURCE / "samples" / "ci" / "compile-models.sh", models, tmp_path / "out", "--require-compiled",
                   env=os.environ | {"CTXGEN": str(prefix / "bin" / "ctxgen")})

    step()
    first = times(tmp_path / "out")
    assert len(first) == 6
    assert step().count("up to date: ") == 6
    assert times(tmp_path / "out") == first
    data = bytearray((models / "encoder.data").read_bytes())
    data[0] ^= 1
    (models / "encoder.data").write_bytes(data)
    step()
    assert changed(first, times(tmp_path / "out")) == {"encoder_ctx.onnx", "encoder_dnnl.bin"}
