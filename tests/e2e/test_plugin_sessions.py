"""Ordinary models in stock ONNX Runtime with the plugin EP: compiled when the session is created, and taken from a cache the next time."""

import ctypes
import json
import mmap
import multiprocessing
import os
import resource
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import test_overridable
from cli_support import conv_model, make_model, save
from test_plugin import DEVICES, EP, TRAINED, check_data, onnxruntime, refused, session


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def plain(model):
    return onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])


def agree(model, given, ours, rtol=1e-4, atol=1e-5):
    for found, expected in zip(ours.run(None, given), plain(model).run(None, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


@pytest.fixture
def net(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def entries(folder, kinds=("output",)):
    return sorted(path for kind in kinds for path in (folder / kind).rglob("*") if path.is_file())


@pytest.mark.parametrize("folder", TRAINED, ids=lambda path: path.name)
def test_trained_models(folder, tmp_path):
    """First compiled, then from the cache."""
    tolerance = json.loads((folder / "meta.json").read_text())["tolerance"]
    for _ in range(2):
        check_data(session(folder / "model.onnx", {"cache_dir": str(tmp_path)}), folder, tolerance["rtol"], tolerance["atol"])


def test_every_node_is_compiled(net):
    x = numbers(2, 3, 8, 8)
    agree(net, {"x": x}, session(net, config={"session.disable_cpu_ep_fallback": "1"}))
    agree(net, {"x": x}, session(net.read_bytes(), config={"session.disable_cpu_ep_fallback": "1"}))


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC"])
@pytest.mark.parametrize("also", ["", "p = Asinh(e) q = Reshape(p, s2)", "u = Size(s2)"], ids=["one reader", "two readers", "one that nothing reads"])
def test_shapes_of_what_is_compiled(tmp_path, level, also):
    """They are computed at compile time: nodes that only a partition reads vanish with it, the others have what they read."""
    results = "float[4, 3] y" + (", float[4, 3] q" if "q" in also else "")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
shapes (float[3, 4] x) => ({results}) <float[4, 4] w = {{1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}}, int64[2] turned = {{1, 0}}> {{
  a = MatMul(x, w)
  c = Relu(a)
  d = Asinh(c)
  s = Shape(a)
  s2 = Gather(s, turned)
  e = Exp(d)
  {also}
  y = Reshape(e, s2)
}}"""
    model = save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.add_provider_for_devices(DEVICES, {})
    agree(model, {"x": numbers(3, 4)}, onnxruntime.InferenceSession(str(model), options))
    options.add_session_config_entry("ep.context_enable", "1")
    onnxruntime.InferenceSession(str(model), options)
    agree(model, {"x": numbers(3, 4)}, session(tmp_path / "net_ctx.onnx", config={"session.disable_model_compile": "1"}))


def test_nodes_that_are_not_compiled_stay(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
mixed (float[n, 4] x, int64[n] i) => (float[n, 4] y, int64[n] j) <float[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}> {
  a = MatMul(x, w)
  b = Relu(a)
  r = Round(b)
  y = MatMul(r, w)
  j = BitShift <direction = "LEFT"> (i, i)
}""".replace("int64[n] i", "uint64[n] i").replace("int64[n] j", "uint64[n] j")
    model = save(onnx.parser.parse_model(text), tmp_path / "mixed.onnx")
    ours = session(model)
    for rows in (1, 5, 2):  # any number of rows: shapes are not known ahead
        agree(model, {"x": numbers(rows, 4, seed=rows), "i": np.arange(rows, dtype=np.uint64)}, ours)


@pytest.mark.parametrize("optimized", [False, True])
def test_shapes_that_are_read_between_compiled_nodes(tmp_path, optimized):
    """ONNX Runtime's optimizers compute them; without those they stay nodes, and a claim around them would be refused as a whole."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
net (float[2, 4] x) => (float[8] y) <float[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}> {
  a = MatMul(x, w)
  s = Shape(a)
  m = ReduceProd<keepdims = 1>(s)
  b = Relu(a)
  r = Reshape(b, m)
  y = Exp(r)
}"""
    model = save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices(DEVICES, {})
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    ours = onnxruntime.InferenceSession(str(model), options)
    agree(model, {"x": numbers(2, 4)}, ours)
    assert EP in Path(ours.end_profiling()).read_text(), "nothing was compiled"


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC"])
def test_constants_of_the_type_of_a_value(tmp_path, level):
    """CastLike of a constant is one, wherever the value is whose type it reads."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
net (float[3, 4] x) => (float[3, 4] y) <float[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}, int64 two = {2}> {
  before = CastLike(two, x)
  a = MatMul(x, w)
  b = Add(a, before)
  inside = CastLike(two, a)
  c = Mul(b, inside)
  d = Asinh(c)
  between = CastLike(two, d)
  e = Exp(d)
  y = Div(e, between)
}"""
    model = save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.add_provider_for_devices(DEVICES, {})
    options.add_session_config_entry("ep.context_enable", "1")
    agree(model, {"x": numbers(3, 4)}, onnxruntime.InferenceSession(str(model), options))
    assert [node.op_type for node in onnx.load(tmp_path / "net_ctx.onnx").graph.node if node.op_type in ("Add", "Mul", "Div")] == []
    agree(model, {"x": numbers(3, 4)}, session(tmp_path / "net_ctx.onnx", config={"session.disable_model_compile": "1"}))


def test_scalars_that_follow_from_operators(tmp_path):
    """ONNX Runtime 1.23 gives them the rank of values of unknown rank."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 4] x) => (float[n, 4] y) <int8[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}, float s = {0.5}> {
  q, scale, zero = DynamicQuantizeLinear(x)
  p = MatMulInteger(q, w, zero)
  f = Cast <to = 1> (p)
  both = Mul(scale, s)
  y = Mul(f, both)
}"""
    model = save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    agree(model, {"x": numbers(2, 4)}, session(model, config={"session.disable_cpu_ep_fallback": "1"}))


def test_overrides_of_initializers_that_are_inputs(tmp_path):
    model = save(test_overridable.network(), tmp_path / "net.onnx")
    ours = session(model)
    for given in test_overridable.givens():
        agree(model, given, ours)


def test_threads_share_a_session(net):
    ours, x = session(net), numbers(2, 3, 8, 8)
    expected, wrong = plain(net).run(None, {"x": x})[0], []

    def work():
        for _ in range(50):
            if not np.allclose(ours.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_compiling_can_be_forbidden(net):
    refused(13, model=net, config={"session.disable_model_compile": "1"})


def test_options_of_the_provider(net):
    x = numbers(2, 3, 8, 8)
    exact, narrow = (session(net, options).run(None, {"x": x})[0] for options in ({}, {"weights": "bf16"}))
    assert not np.array_equal(exact, narrow)
    np.testing.assert_allclose(narrow, exact, rtol=0.1, atol=0.1)
    refused(2, "sideways", model=net, ep_options={"precision": "sideways"})
    refused(2, "precisionn", "did you mean", model=net, ep_options={"precisionn": "bf16"})
    refused(2, "verify_cache", "always", model=net, ep_options={"verify_cache": "never"})
    refused(2, "cache_max_bytes", model=net, ep_options={"cache_max_bytes": "-1"})


def test_a_second_session_takes_the_first_ones_programs(net, tmp_path):
    cache, x = tmp_path / "cache", numbers(2, 3, 8, 8)
    agree(net, {"x": x}, session(net, {"cache_dir": str(cache)}))
    (entry,) = entries(cache)
    written = entry.stat().st_mtime_ns, entry.stat().st_ino
    agree(net, {"x": x}, session(net, {"cache_dir": str(cache)}))
    assert entries(cache) == [entry]
    assert written[1] == entry.stat().st_ino
    # What decides the programs decides the entry; threads do not.
    session(net, {"cache_dir": str(cache), "threads": "1"})
    assert entries(cache) == [entry]
    session(net, {"cache_dir": str(cache), "weights": "bf16"})
    assert len(entries(cache)) == 2
    other = onnx.load(net)
    weight = max(other.graph.initializer, key=lambda one: len(one.raw_data))
    weight.raw_data = bytes(reversed(weight.raw_data))
    session(save(other, tmp_path / "other.onnx"), {"cache_dir": str(cache)})
    assert len(entries(cache)) == 3


def test_damaged_entries_are_made_again(net, tmp_path):
    cache, x = tmp_path / "cache", numbers(2, 3, 8, 8)
    session(net, {"cache_dir": str(cache)})
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        entry.write_bytes(damaged)
        agree(net, {"x": x}, session(net, {"cache_dir": str(cache)}))
        assert entry.read_bytes() == whole


def test_a_cache_that_cannot_be_opened(net, tmp_path):
    """What an application asks for is not left out in silence."""
    (tmp_path / "taken").write_text("a file")
    for place in ("taken", "taken/below"):
        refused(2, "cache_dir", place, model=net, ep_options={"cache_dir": str(tmp_path / place)})
    assert (tmp_path / "taken").read_text() == "a file"


def test_the_cache_stays_within_its_size(net, tmp_path):
    cache, x = tmp_path / "cache", numbers(2, 3, 8, 8)
    agree(net, {"x": x}, session(net, {"cache_dir": str(cache), "cache_max_bytes": "1"}))
    assert not entries(cache)


def square_model(size):
    """A row times the identity."""
    ends = [[onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])] for name in ("x", "y")]
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    return make_model(onnx.helper.make_graph([node], "square", *ends, [onnx.numpy_helper.from_array(np.eye(size, dtype=np.float32), "w")]))


def huge_kilobytes():
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return int(next(line.split()[1] for line in rollup.splitlines() if line.startswith("AnonHugePages")))


def kernel_makes_huge_pages():
    """MADV_COLLAPSE, of Linux 6.1."""
    size, collapse = 2 << 20, 25
    with mmap.mmap(-1, 2 * size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = bytes(2 * size)
        here = ctypes.c_char.from_buffer(memory)
        start = -(-ctypes.addressof(here) // size) * size
        del here
        return ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), collapse) == 0


needs_huge_pages = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", "") or not kernel_makes_huge_pages(),
    reason="the kernel makes no huge pages when it is asked to, or a sanitizer gives back some of its own",
)


@needs_huge_pages
def test_weights_of_four_bits_have_huge_pages(tmp_path):
    """A decoder's step reads all weights: with small pages it takes up to 1.4 times as long."""
    rows, columns, random = 2048, 8192, np.random.default_rng(1)
    tensors = {
        "b": random.integers(0, 256, (columns, rows // 32, 16), np.uint8),
        "s": random.random(columns * rows // 32, np.float32),
    }
    node = onnx.helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=rows, N=columns, bits=4, block_size=32)
    ends = [[onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])] for name, size in (("x", rows), ("y", columns))]
    model = make_model(onnx.helper.make_graph([node], "decoder", *ends, [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()]))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    before = huge_kilobytes()
    ours = session(save(model, tmp_path / "net.onnx"), config={"session.disable_cpu_ep_fallback": "1"})
    assert huge_kilobytes() - before >= 4 << 10
    agree(tmp_path / "net.onnx", {"x": numbers(1, rows)}, ours, rtol=1e-3, atol=1e-1)


@needs_huge_pages
def test_weights_of_byte_products_have_huge_pages(tmp_path):
    rows, columns = 2048, 4096
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    product (float[4, {rows}] x) => (float[4, {columns}] y) <float scale = {{0.01}}> {{
      q, s, z = DynamicQuantizeLinear(x)
      sums = MatMulInteger(q, w, z)
      values = Cast<to = 1>(sums)
      scales = Mul(s, scale)
      y = Mul(values, scales)
    }}"""
    model = onnx.parser.parse_model(text)
    weight = np.random.default_rng(1).integers(-64, 64, (rows, columns), np.int8)  # of 7 bits: without VNNI, ONNX Runtime saturates sums of two
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    before = huge_kilobytes()
    ours = session(save(model, tmp_path / "net.onnx"), config={"session.disable_cpu_ep_fallback": "1"})
    assert huge_kilobytes() - before >= 4 << 10
    agree(tmp_path / "net.onnx", {"x": numbers(4, rows)}, ours, rtol=1e-2, atol=1)


TICK_SECONDS = 2.1  # times of files that are older tell each change that follows
WIDE = 256


def with_weights_outside(folder, factor=1.0):
    """A product with a matrix in weights.data, next to the model; and the matrix."""
    folder.mkdir(exist_ok=True)
    matrix = (numbers(WIDE, WIDE) * np.float32(factor)).astype(np.float32)
    ends = [[onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, WIDE])] for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "product", *ends, [onnx.numpy_helper.from_array(matrix, "w")])
    (folder / "weights.data").unlink(missing_ok=True)
    onnx.save(make_model(graph), folder / "net.onnx", save_as_external_data=True, location="weights.data", size_threshold=0)
    return folder / "net.onnx", matrix


def product(model, matrix, options):
    x = numbers(1, WIDE, seed=2)
    np.testing.assert_allclose(session(model, options).run(None, {"x": x})[0], x @ matrix, rtol=1e-3, atol=1e-3)


def test_weights_in_files_that_do_not_change_are_read_once(tmp_path):
    model, matrix = with_weights_outside(tmp_path / "m")
    cache = tmp_path / "cache"
    options = {"cache_dir": str(cache)}
    product(model, matrix, {**options, "verify_cache": "always"})
    assert not entries(cache, ["hashes"])
    product(model, matrix, options)
    assert len(entries(cache)) == 1
    assert not entries(cache, ["hashes"]), "files that may change within the same tick"
    time.sleep(TICK_SECONDS)
    for _ in range(2):
        product(model, matrix, options)
        assert len(entries(cache, ["hashes"])) == 2, "of the weights and of the entry"


@pytest.mark.parametrize("how", ["in place", "by rename", "with a link"])
def test_weights_that_change_without_other_size_or_time(tmp_path, how):
    """The time of the last change of a file, which no program can set, tells."""
    model, matrix = with_weights_outside(tmp_path / "m")
    other, other_matrix = with_weights_outside(tmp_path / "other", factor=2.0)
    weights, options = model.with_name("weights.data"), {"cache_dir": str(tmp_path / "cache")}
    if how == "with a link":
        weights.rename(weights.with_name("first.data"))
        weights.symlink_to("first.data")
        other.with_name("weights.data").rename(weights.with_name("second.data"))
    before = weights.stat()
    product(model, matrix, options)
    time.sleep(TICK_SECONDS)
    product(model, matrix, options)
    if how == "in place":
        weights.write_bytes(other.with_name("weights.data").read_bytes())
    elif how == "by rename":
        other.with_name("weights.data").rename(weights)
    else:
        weights.unlink()
        weights.symlink_to("second.data")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        product(model, other_matrix, options)
        time.sleep(TICK_SECONDS)
    assert len(entries(tmp_path / "cache")) == 2


def test_entries_go_by_what_the_weights_are(tmp_path):
    """A hash of the folder that is wrong costs time: nothing is stored under it."""
    model, matrix = with_weights_outside(tmp_path / "m")
    first, second = tmp_path / "first", tmp_path / "second"
    time.sleep(TICK_SECONDS)
    for _ in range(2):
        product(model, matrix, {"cache_dir": str(first)})
        time.sleep(TICK_SECONDS)
    shutil.copytree(first / "hashes", second / "hashes")
    product(model, matrix, {"cache_dir": str(second)})
    assert [path.relative_to(second) for path in entries(second)] == [path.relative_to(first) for path in entries(first)]


def test_weights_that_the_application_gives(tmp_path):
    """ONNX Runtime takes them for those of the file, which is not read."""
    model, matrix = with_weights_outside(tmp_path / "m")
    options = {"cache_dir": str(tmp_path / "cache")}
    product(model, matrix, options)
    time.sleep(TICK_SECONDS)
    product(model, matrix, options)
    theirs = onnxruntime.SessionOptions()
    theirs.add_provider_for_devices(DEVICES, options)
    given = onnxruntime.OrtValue.ortvalue_from_numpy(matrix * 2)
    theirs.add_external_initializers(["w"], [given])
    x = numbers(1, WIDE, seed=2)
    ours = onnxruntime.InferenceSession(str(model), theirs)
    np.testing.assert_allclose(ours.run(None, {"x": x})[0], x @ (matrix * 2), rtol=1e-3, atol=1e-3)


LARGE = 4608  # a matrix beyond what a compile keeps in memory before it uses a file


def run_on_a_full_disk(model, cache, results):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    ours = session(model, {"cache_dir": str(cache)}, config={"session.disable_cpu_ep_fallback": "1"})
    results.put(ours.run(None, {"x": np.ones((1, LARGE), np.float32)})[0])


def test_a_full_disk_costs_the_entry_only(tmp_path):
    """What cannot be kept is compiled and run all the same."""
    model, spawn = save(square_model(LARGE), tmp_path / "large.onnx"), multiprocessing.get_context("spawn")
    results = spawn.Queue()
    worker = spawn.Process(target=run_on_a_full_disk, args=(model, tmp_path / "cache", results))
    worker.start()
    np.testing.assert_array_equal(results.get(timeout=300), np.ones((1, LARGE), np.float32))
    worker.join()
    assert not entries(tmp_path / "cache")


def create(model, cache, results):
    ours = session(model, {"cache_dir": str(cache)})
    results.put(float(np.abs(ours.run(None, {"x": numbers(2, 3, 8, 8)})[0]).sum()))


def test_processes_share_a_cache(net, tmp_path):
    cache, spawn = tmp_path / "cache", multiprocessing.get_context("spawn")
    results = spawn.Queue()
    workers = [spawn.Process(target=create, args=(net, cache, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert len(set(found)) == 1
    assert len(entries(cache)) == 1
