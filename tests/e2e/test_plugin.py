"""The plugin EP in stock ONNX Runtime (the Python package of the environment)."""

import importlib
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnx.parser
import pytest
import test_overridable
from cli_support import conv_model, done, ep_nodes, save
from context_support import made_for, metadata_made_for
from onnx import helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")

EP = "CtxgenDnnlExecutionProvider"
PLUGIN = Path(os.environ["CTXGEN_BIN"]).parent.parent / "lib" / "libctxgen_onnxruntime.so"
MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))
DATA = Path("/usr/share/libonnx-testdata/data")

if not PLUGIN.exists():
    pytest.skip(f"the plugin was not built: {PLUGIN}", allow_module_level=True)
if b"__tsan_init" in PLUGIN.read_bytes():
    pytest.skip("a plugin with the thread sanitizer does not load into a Python without it", allow_module_level=True)
if b"__asan_init" in PLUGIN.read_bytes() and "libasan" not in os.environ.get("LD_PRELOAD", ""):
    pytest.skip("a plugin with the address sanitizer: run it with ./dev asan", allow_module_level=True)

onnxruntime.register_execution_provider_library("ctxgen", str(PLUGIN))
DEVICES = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP]


def session(model, ep_options=None, config=None):
    """`model`: a path or bytes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices(DEVICES, ep_options or {})
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options)


def refused(code, *texts, **arguments):
    with pytest.raises(Exception) as caught:  # noqa: PT011: its classes are many
        session(**arguments)
    assert f" : {code} : " in str(caught.value), caught.value
    for text in texts:
        assert text in str(caught.value), caught.value


def feeds(folder, inputs):
    """Of one data set, for the inputs that it has a file for."""
    values = {}
    for i, one in enumerate(inputs):
        file = folder / f"input_{i}.pb"
        if not file.exists():
            continue
        data = file.read_bytes()
        if one.type.startswith("seq"):
            values[one.name] = numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        else:
            values[one.name] = numpy_helper.to_array(onnx.TensorProto.FromString(data))
    return values


def test_overrides_of_initializers_that_are_inputs(tmp_path):
    """Each run may give some of them, in memory of its own or in the same again with other content."""
    source = save(test_overridable.network(), tmp_path / "net.onnx")
    done("compile", "-q", source)
    ours, theirs = session(tmp_path / "net_ctx.onnx"), onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])

    def check(given):
        np.testing.assert_allclose(ours.run(None, given)[0], theirs.run(None, given)[0], rtol=1e-4, atol=1e-5)

    for given in test_overridable.givens():
        check(given)
    weights = test_overridable.values(0)["cw"]
    for step in range(4):  # the default, then others in its place
        check({"x": test_overridable.pixels(), "cw": weights})
        weights[0, step % 3] += 1
    check({"x": test_overridable.pixels()})


def check_data(model, folder, rtol, atol):
    for data in sorted(folder.glob("test_data_set_*")):
        for i, found in enumerate(model.run(None, feeds(data, model.get_inputs()))):
            expected = data / f"output_{i}.pb"
            if not expected.exists() or not isinstance(found, np.ndarray):
                continue
            expected = numpy_helper.to_array(onnx.TensorProto.FromString(expected.read_bytes()))
            assert found.dtype == expected.dtype and found.shape == expected.shape
            if found.dtype.kind in "fc":
                np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(found, expected)


@pytest.fixture
def compiled(tmp_path):
    """net_ctx.onnx of a small convolutional network, and an input with what comes of it."""
    done("compile", save(conv_model(), tmp_path / "net.onnx"))
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8), dtype=np.float32)
    plain = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    return tmp_path / "net_ctx.onnx", x, plain.run(None, {"x": x})[0]


def check(model, x, expected):
    np.testing.assert_allclose(model.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)


def test_there_is_one_device_of_the_cpu():
    assert len(DEVICES) == 1
    assert DEVICES[0].ep_vendor == "ctxgen"


TRAINED = sorted(path.parent for path in MODELS.glob("*/test_data_set_0") if path.parent.name != "gpt2_tiny_beamsearch")


@pytest.mark.parametrize("folder", TRAINED, ids=lambda path: path.name)
def test_trained_models(folder, tmp_path):
    done("compile", "-q", folder / "model.onnx", "-o", tmp_path / "m_ctx.onnx")
    tolerance = json.loads((folder / "meta.json").read_text())["tolerance"]
    check_data(session(tmp_path / "m_ctx.onnx"), folder, tolerance["rtol"], tolerance["atol"])


@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
def test_backend_data_with_compiled_nodes(kind, tmp_path):
    ran = 0
    for folder in sorted(path.parent for path in (DATA / kind).glob("*/model.onnx")):
        context = tmp_path / f"{folder.name}_ctx.onnx"
        done("compile", "-q", folder / "model.onnx", "-o", context)
        if not ep_nodes(context):
            continue
        check_data(session(context), folder, 1e-3, 1e-5)
        ran += 1
    print(f"{kind}: {ran} context models")
    assert ran > 0


def test_everything_runs_in_the_context(compiled):
    path, x, expected = compiled
    check(session(path, config={"session.disable_cpu_ep_fallback": "1", "session.disable_model_compile": "1"}), x, expected)


def test_a_model_of_one_node_without_initializers(compiled):
    path, _, _ = compiled
    graph = onnx.load(path).graph
    assert [node.op_type for node in graph.node] == ["EPContext"] and not graph.initializer


def test_an_embedded_context(compiled, tmp_path):
    _, x, expected = compiled
    done("compile", tmp_path / "net.onnx", "--embed", "-o", tmp_path / "embedded.onnx")
    check(session((tmp_path / "embedded.onnx").read_bytes()), x, expected)


KINDS = [["--compress"], ["--portable"], ["--isa", "sse41"], ["--isa", "sse41,avx2"], ["--config", "ep.enable_weightless_mode=2"]]


@pytest.mark.parametrize("options", KINDS, ids=" ".join)
def test_binaries_of_every_kind(compiled, tmp_path, options):
    _, x, expected = compiled
    done("compile", tmp_path / "net.onnx", *options, "-o", tmp_path / "kind_ctx.onnx")
    check(session(tmp_path / "kind_ctx.onnx"), x, expected)


def test_weights_that_stay_in_another_file_are_refused(compiled, tmp_path):
    done("compile", tmp_path / "net.onnx", "--config", "ep.enable_weightless_mode=2", "-o", tmp_path / "less_ctx.onnx")
    (tmp_path / "net.onnx").write_bytes((tmp_path / "net.onnx").read_bytes() + b"\0")
    refused("INVALID_GRAPH", "net.onnx", "not the file that was compiled", model=tmp_path / "less_ctx.onnx")


def test_a_model_from_memory_needs_the_path(compiled, tmp_path):
    path, x, expected = compiled
    check(session(path.read_bytes(), config={"ep.context_file_path": str(tmp_path / "any.onnx")}), x, expected)
    refused(10, "ep.context_file_path", model=path.read_bytes())
    escaping = changed(path, ep_cache_context="../net_dnnl.bin")
    refused(10, model=escaping.read_bytes())
    refused(10, "..", model=escaping.read_bytes(), config={"ep.context_file_path": str(path)})


def merged(first, second, tmp_path):
    """Two context models in one graph: the second takes no part of the first."""
    a, b = onnx.load(first), onnx.load(second)
    b = onnx.compose.add_prefix(b, "other/")
    graph = onnx.compose.merge_graphs(a.graph, b.graph, io_map=[])
    model = helper.make_model(graph, opset_imports=a.opset_import, ir_version=a.ir_version)
    return save(model, tmp_path / "merged.onnx")


def test_two_context_models_in_one_graph(compiled, tmp_path):
    first, x, expected = compiled
    save(conv_model(seed=5), tmp_path / "second.onnx")
    done("compile", tmp_path / "second.onnx", "--node-prefix", "second_")
    model = session(merged(first, tmp_path / "second_ctx.onnx", tmp_path))
    plain = onnxruntime.InferenceSession(str(tmp_path / "second.onnx"), providers=["CPUExecutionProvider"])
    found = model.run(["y", "other/y"], {"x": x, "other/x": x})
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], plain.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_dynamic_shapes_and_empty_batches(compiled):
    path, _, _ = compiled
    model = session(path)
    plain = onnxruntime.InferenceSession(str(path.with_name("net.onnx")), providers=["CPUExecutionProvider"])
    for batch in [1, 5, 3, 0]:
        x = np.random.default_rng(batch).standard_normal((batch, 3, 8, 8), dtype=np.float32)
        check(model, x, plain.run(None, {"x": x})[0])


def test_bool_inputs_and_outputs(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
masked (float[n, 4] x, bool[n, 4] keep) => (float[n, 4] y, bool[4, n] turned) <float low = {-2}> {
  a = Abs(x)
  turned = Transpose(keep)
  back = Transpose(turned)
  b = Where(back, a, low)
  y = Neg(b)
}"""
    source = save(onnx.parser.parse_model(text), tmp_path / "masked.onnx")
    done("compile", source)
    (node,) = ep_nodes(tmp_path / "masked_ctx.onnx")
    assert sorted(node.input) == ["keep", "x"]
    assert sorted(node.output) == ["turned", "y"]
    done("verify", tmp_path / "masked_ctx.onnx", "--against", source)
    model, plain = session(tmp_path / "masked_ctx.onnx"), onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(2)
    for rows in (3, 0, 1):
        values = {"x": random.standard_normal((rows, 4), dtype=np.float32), "keep": random.integers(0, 2, (rows, 4)).astype(bool)}
        for found, expected in zip(model.run(None, values), plain.run(None, values), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_unaligned_inputs_and_preallocated_outputs(compiled):
    path, x, expected = compiled
    model = session(path)
    raw = np.zeros(x.nbytes + 4, np.uint8)
    shifted = raw[4 : 4 + x.nbytes].view(np.float32).reshape(x.shape)
    shifted[...] = x
    output = np.zeros(expected.shape, np.float32)
    binding = model.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, shifted.shape, shifted.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, output.shape, output.ctypes.data)
    model.run_with_iobinding(binding)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


def test_one_session_from_four_threads(compiled):
    path, _, _ = compiled
    model = session(path)
    inputs = [np.random.default_rng(i).standard_normal((i + 1, 3, 8, 8), dtype=np.float32) for i in range(4)]
    expected = [model.run(None, {"x": x})[0] for x in inputs]
    wrong = []

    def work(which):
        for _ in range(1000):
            if not np.array_equal(model.run(None, {"x": inputs[which]})[0], expected[which]):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def mappings(path):
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]


@pytest.mark.parametrize("share", ["0", "1"])
def test_two_sessions_map_a_binary_once(compiled, share):
    path, x, expected = compiled
    sessions = [session(path, config={"ep.share_ep_contexts": share}) for _ in range(2)]
    assert len(mappings(path.with_name("net_dnnl.bin"))) == 1
    for model in sessions:
        check(model, x, expected)
    del sessions[0]
    check(sessions[0], x, expected)


def test_a_second_ep_in_the_session(compiled):
    path, x, expected = compiled
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_provider_for_devices(DEVICES, {})
    model = onnxruntime.InferenceSession(str(path), options)
    assert model.get_providers()[0] == EP and "CPUExecutionProvider" in model.get_providers()
    check(model, x, expected)


# ---- faults ------------------------------------------------------------------------------------------------------------


def test_a_missing_binary(compiled):
    path, _, _ = compiled
    path.with_name("net_dnnl.bin").unlink()
    refused(10, "net_dnnl.bin", str(path.parent), model=path)


def test_files_have_to_be_signed(compiled, tmp_path):
    path, x, expected = compiled
    for name in ("signer", "other"):
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tmp_path / f"{name}.pem"], check=True)
        subprocess.run(["openssl", "pkey", "-in", tmp_path / f"{name}.pem", "-pubout", "-out", tmp_path / f"{name}.pub"], check=True)
    signed = {"require_signed": str(tmp_path / "signer.pub"), "signature": str(tmp_path / "all.sig")}
    done("sign", "-q", tmp_path, "--key", tmp_path / "signer.pem", "-o", tmp_path / "all.sig")
    check(session(path, signed), x, expected)
    refused(1, "another key", model=path, ep_options={**signed, "require_signed": str(tmp_path / "other.pub")})
    refused(2, "require_signed", model=path.read_bytes(), ep_options=signed, config={"ep.context_file_path": str(path)})
    refused(2, "require_signed", model=path, ep_options={"signature": signed["signature"]})
    refused(3, "model.sig", model=path, ep_options={"require_signed": signed["require_signed"]})
    source = save(conv_model(seed=3), tmp_path / "net2.onnx")  # compiled here, and not among the files
    refused(1, "net2.onnx", model=source, ep_options=signed)
    binary = path.with_name("net_dnnl.bin")
    data = bytearray(binary.read_bytes())
    data[-1] ^= 1
    binary.write_bytes(data)
    refused(1, "net_dnnl.bin", model=path, ep_options={**signed, "verify_blobs": "never"})


@pytest.mark.parametrize("at", [0, 8, 100, 200, -1])
def test_a_flipped_byte(compiled, at):
    path, _, _ = compiled
    binary = path.with_name("net_dnnl.bin")
    data = bytearray(binary.read_bytes())
    data[at] ^= 1
    binary.write_bytes(data)
    refused(10, "net_dnnl.bin", model=path, ep_options={"verify_blobs": "always"})


def changed(path, **values):
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in values:
                attribute.CopyFrom(helper.make_attribute(attribute.name, values[attribute.name]))
    return save(model, path.with_name("changed_ctx.onnx"))


@pytest.mark.parametrize(("values", "text"), [
    ({"partition_name": "dnnl_0_0"}, "dnnl_0_0"),
    ({"notes": "hash=00000000000000000000000000000000"}, "interrupted compile"),
    ({"ep_cache_context": "../net_dnnl.bin"}, ".."),
    ({"ep_cache_context": "/etc/passwd"}, "absolute"),
    ({"ep_cache_context": ""}, "names no context binary"),
    ({"main_context": 0}, "main_context"),
    ({"embed_mode": 1, "ep_cache_context": b"\x00\xff no payload"}, "EPContext"),
])
def test_wrong_attributes(compiled, values, text):
    refused(10, text, model=changed(compiled[0], **values))


def test_a_foreign_source_is_left_alone(compiled):
    with pytest.raises(Exception, match="EPContext"):
        session(changed(compiled[0], source="OtherExecutionProvider"))


@pytest.mark.parametrize(("key", "value"), [("onednn", "2.1.0"), ("isa", "quantum")])
def test_made_for_something_else(compiled, key, value):
    """Another major version of the library; an instruction set that the machine lacks. Found and expected are both named."""
    path, _, _ = compiled
    binary = path.with_name("net_dnnl.bin")
    value = made_for(binary, key, value)
    words = {"onednn": ("onednn is", "expected"), "isa": ("instruction set is", "this machine has")}[key]
    refused(10, "net_dnnl.bin", value, *words, model=path)


def test_made_for_another_minor_version(compiled):
    path, x, expected = compiled
    made_for(path.with_name("net_dnnl.bin"), "onednn", "3.0.0")
    metadata_made_for(path, "onednn", "3.0.0")
    check(session(path), x, expected)


@pytest.mark.parametrize(("options", "texts"), [
    ({"threadz": "2"}, ["threadz", "threads, kept_plans, verify_blobs"]), ({"threads": "many"}, ["threads", "many"]),
    ({"verify_blobs": "often"}, ["often"]), ({"kept_plans": "0"}, ["kept_plans"]),
])
def test_unknown_options_and_values(compiled, options, texts):
    refused(2, *texts, model=compiled[0], ep_options=options)


def test_options_are_checked_for_models_without_compiled_nodes(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
branches (bool c, float[n, 4] x) => (float[n, 4] y) {
  y = If (c) <then_branch = then () => (t) { t = Neg(x) }, else_branch = other () => (e) { e = Abs(x) }>
}"""
    bodies = save(onnx.parser.parse_model(text), tmp_path / "branches.onnx")
    for model in (save(conv_model(), tmp_path / "net.onnx"), bodies):
        refused(2, "threadz", model=model, ep_options={"threadz": "2"})
        session(model)


def test_stopping_needs_a_group(compiled):
    refused(2, "ep.stop_share_ep_contexts", model=compiled[0], config={"ep.stop_share_ep_contexts": "1"})


def test_wrong_input_type(compiled):
    path, x, _ = compiled
    with pytest.raises(Exception, match="Unexpected input data type"):
        session(path).run(None, {"x": x.astype(np.float64)})


def test_an_output_declared_with_another_type(compiled):
    """ONNX Runtime allocates what the model declares: a byte per element where the program writes four."""
    path, x, _ = compiled
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    onnx.save(model, path)
    with pytest.raises(Exception, match="is declared as uint8, the program gives float32"):
        session(path).run(None, {"x": x})


def test_no_sessions_share_a_damaged_state(compiled):
    """A failed load leaves nothing behind for the next one."""
    path, x, expected = compiled
    binary = path.with_name("net_dnnl.bin")
    good = binary.read_bytes()
    binary.write_bytes(good[:100])
    refused(10, model=path, config={"ep.share_ep_contexts": "1"})
    binary.write_bytes(good)
    check(session(path, config={"ep.share_ep_contexts": "1"}), x, expected)


# ---- package and samples -----------------------------------------------------------------------------------------------

PROJECT = Path(os.environ["CTXGEN_SOURCE"])
PACKAGE = PROJECT / "plugins" / "onnxruntime" / "python"


def test_the_package_finds_the_library(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(PACKAGE)
    package = importlib.import_module("onnxruntime_ep_ctxgen")
    assert package.get_ep_names() == [package.get_ep_name()] == [EP]
    monkeypatch.setenv("CTXGEN_ONNXRUNTIME_PLUGIN", str(PLUGIN))
    assert package.get_library_path() == str(PLUGIN)
    monkeypatch.setenv("CTXGEN_ONNXRUNTIME_PLUGIN", str(tmp_path / "none.so"))
    with pytest.raises(FileNotFoundError, match="none.so"):
        package.get_library_path()


def test_the_installed_package_finds_the_library(tmp_path):
    packages = tmp_path / "lib" / "python3" / "dist-packages"
    shutil.copytree(PACKAGE / "onnxruntime_ep_ctxgen", packages / "onnxruntime_ep_ctxgen")
    (tmp_path / "lib" / PLUGIN.name).write_bytes(b"")
    program = "import onnxruntime_ep_ctxgen as p; print(p.get_library_path())"
    found = subprocess.run(["python3", "-c", program], env={"PYTHONPATH": str(packages)}, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(tmp_path / "lib" / PLUGIN.name)


def test_the_python_sample(compiled):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "CTXGEN_ONNXRUNTIME_PLUGIN": str(PLUGIN)}
    finished = subprocess.run(["python3", PROJECT / "samples" / "onnxruntime" / "run.py", compiled[0]], env=environment,
                              capture_output=True, text=True, check=False)
    assert finished.stdout == "y float32 (1, 10)\n", finished.stderr[-500:]


def test_the_cpp_sample(compiled, tmp_path):
    source = PROJECT / "samples" / "onnxruntime" / "run.cpp"
    subprocess.run(["g++", "-std=c++20", "-I/usr/include/onnxruntime", source, "-o", tmp_path / "run", "-lonnxruntime"], check=True)
    finished = subprocess.run([tmp_path / "run", PLUGIN, compiled[0]], capture_output=True, text=True, check=False)
    assert finished.stdout == "y: 10 elements\n", finished.stderr[-500:]


def test_the_c_sample(compiled, tmp_path):
    source = PROJECT / "samples" / "onnxruntime" / "run.c"
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-isystem", "/usr/include/onnxruntime", source, "-o", tmp_path / "run", "-lonnxruntime"], check=True)
    finished = subprocess.run([tmp_path / "run", PLUGIN, compiled[0]], capture_output=True, text=True, check=False)
    assert finished.stdout == "y: 10 elements\n", finished.stderr[-500:]


def test_only_two_symbols_are_visible():
    listed = subprocess.run(["nm", "-D", "--defined-only", PLUGIN], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in listed.splitlines()] == ["CreateEpFactories", "ReleaseEpFactory"]
    needed = subprocess.run(["readelf", "-d", PLUGIN], capture_output=True, text=True, check=True).stdout
    assert "NODELETE" in needed
    assert not any(name in needed for name in ["onnx", "protobuf"])
