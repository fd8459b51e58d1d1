"""compile --tuning FILE and --tune: constants in packings that were measured to be the fastest."""

import json
import os
import signal
import subprocess

import numpy as np
import pytest
from cli_support import done, has_isa, into, isa_here, json_of, make_model, refused, run_arrays, save
from onnx import TensorProto, helper, numpy_helper

info = helper.make_tensor_value_info
# Kernels that read every packing.
panels = pytest.mark.skipif(not has_isa("avx2"), reason="needs avx2 for kernels that read all packings")
PRODUCT = {"op": "matmul", "weight": "float32", "dims": "96x200"}
WINDOWS = {"op": "conv", "weight": "float32", "dims": "24x16x3x3", "rows": 64}


def network():
    """A convolution of 64 pixels, and a product of a row."""
    random = np.random.default_rng(3)
    weights = {"cw": random.standard_normal((24, 16, 3, 3)), "pw": random.standard_normal((96, 200))}
    nodes = [helper.make_node("Conv", ["x", "cw"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("MaxPool", ["c"], ["m"], name="pool", kernel_shape=[4, 4], strides=[4, 4]),
             helper.make_node("Flatten", ["m"], ["f"], name="flat"),
             helper.make_node("MatMul", ["f", "pw"], ["y"], name="product")]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, [1, 16, 8, 8])], [info("y", TensorProto.FLOAT, [1, 200])],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()])
    return make_model(graph)


def library():
    return next(one for one in json_of("providers")["providers"] if one["name"] == "dnnl")["version"]


def tuning(path, *rows, **fields):
    document = {"ctxgen_tuning": 1, "library": library(), "instruction_set": isa_here(), "rows": list(rows)}
    path.write_text(json.dumps({**document, **fields}))
    return path


@pytest.fixture
def source(tmp_path):
    return save(network(), tmp_path / "net.onnx")


def compiled(source, name, *options):
    folder = source.parent / name
    report = json_of("compile", source, "-o", into(folder), *options)
    return folder / "net_ctx.onnx", report


def bytes_of(context):
    return context.read_bytes(), (context.parent / "net_dnnl.bin").read_bytes()


@panels
def test_constants_are_stored_in_the_form_of_the_file(tmp_path, source):
    sizes = {}
    x = np.random.default_rng(4).standard_normal((1, 16, 8, 8)).astype(np.float32)
    plain, _ = compiled(source, "plain")
    expected = run_arrays(plain, {"x": x}, tmp_path / "r")["y"]
    for columns in (16, 32, 48, 64):
        rows = [{**PRODUCT, "form": f"BA16a{columns}b"}, {**WINDOWS, "form": f"Acdb{columns}a"}]
        context, _ = compiled(source, f"out{columns}", "--tuning", tuning(tmp_path / "t.json", *rows))
        sizes[columns] = len(bytes_of(context)[1])
        np.testing.assert_allclose(run_arrays(context, {"x": x}, tmp_path / f"r{columns}")["y"], expected, rtol=2e-4, atol=2e-4)
        done("verify", context, "--against", source)
        assert json_of("check", context)["verdict"] == "optimal"
    # 200 columns in panels of so many, and 24 results.
    assert sizes[64] > sizes[48] > sizes[32]
    assert len(set(sizes.values())) == 4


@panels
def test_the_file_chooses_kernels(tmp_path, source):
    keys = set()
    for word in ("own", "onednn"):
        context, report = compiled(source, word, "--tuning", tuning(tmp_path / "t.json", {**PRODUCT, "form": f"BA16a32b:{word}"}))
        keys.add(report["key"])
        ops = json_of("bench", context, "--iterations", "1", "-v")["ops"]
        assert [op["implementation"] == "loop:product" for op in ops if op["name"] == "product"] == [word == "own"]
        done("verify", context, "--against", source)
        assert json_of("check", context)["verdict"] == "optimal"
    assert len(keys) == 2


@panels
def test_the_same_file_gives_the_same_bytes(tmp_path, source):
    file = tuning(tmp_path / "t.json", {**PRODUCT, "form": "BA16a16b"})
    first, one = compiled(source, "first", "--tuning", file)
    second, two = compiled(source, "second", "--tuning", file, "-j", "2", "--threads", "2")
    plain, none = compiled(source, "plain")
    assert bytes_of(first) == bytes_of(second)
    assert bytes_of(first)[1] != bytes_of(plain)[1]
    assert one["key"] == two["key"] != none["key"]


@panels
def test_rows_are_for_their_shapes_alone(tmp_path, source):
    plain, _ = compiled(source, "plain")
    others = [{**PRODUCT, "dims": "96x208"}, {**PRODUCT, "rows": 64}, {**PRODUCT, "weight": "bfloat16", "source": "float32"},
              {**WINDOWS, "strides": "2x2"}, {**WINDOWS, "rows": 128}, {**WINDOWS, "dilations": "2x2"}]
    forms = {"matmul": "BA16a16b", "conv": "Acdb64a"}
    file = tuning(tmp_path / "t.json", *({**row, "form": forms[row["op"]]} for row in others))
    context, _ = compiled(source, "tuned", "--tuning", file)
    assert bytes_of(context)[1] == bytes_of(plain)[1]


def test_a_file_that_changes_nothing_is_no_other_request(tmp_path, source):
    plain, report = compiled(source, "plain")
    context, same = compiled(source, "tuned", "--tuning", tuning(tmp_path / "t.json", {**PRODUCT, "form": "table"}))
    assert bytes_of(context) == bytes_of(plain)
    assert same["key"] == report["key"]


@panels
def test_builds_see_the_file(tmp_path, source):
    file = tuning(tmp_path / "t.json", {**PRODUCT, "form": "BA16a16b"})
    options = ["--tuning", file, "--if-needed", "--depfile", tmp_path / "net.d", "--cache-dir", tmp_path / "cache"]
    _, report = compiled(source, "out", *options)
    assert not report["up_to_date"]
    assert str(file) in report["files_read"]
    assert str(file) in (tmp_path / "net.d").read_text()
    assert compiled(source, "out", *options)[1]["up_to_date"]
    tuning(file, {**PRODUCT, "form": "BA16a16b", "us": 2.5, "table_us": 3})  # other times are no other request
    assert compiled(source, "out", *options)[1]["up_to_date"]
    before = bytes_of(tmp_path / "out" / "net_ctx.onnx")
    tuning(file, {**PRODUCT, "form": "BA16a64b"})
    context, report = compiled(source, "out", *options)
    assert not report["up_to_date"]
    assert report["programs_cached"] == 0
    assert bytes_of(context)[1] != before[1]
    assert compiled(source, "again", *options)[1]["outputs_cached"]


@pytest.mark.parametrize(("fields", "names"), [
    ({"instruction_set": "avx9"}, ["avx9", "instruction set"]),
    ({"library": "oneDNN 2.7.1"}, ["oneDNN 2.7.1", "oneDNN 3"]),
    ({"ctxgen_tuning": 7}, ["version 7"]),
])
def test_files_of_other_machines_are_refused(tmp_path, source, fields, names):
    file = tuning(tmp_path / "t.json", **fields)
    refused(2, "INVALID_GRAPH", "compile", source, "--tuning", file, names=names)
    assert not (tmp_path / "net_ctx.onnx").exists()


@pytest.mark.parametrize(("rows", "names"), [
    ([{**PRODUCT, "form": "BA16a24b"}], ["BA16a24b", "BA16a16b", "table"]),
    ([{**PRODUCT, "form": "Acdb16a"}], ["Acdb16a", "matmul"]),
    ([{**PRODUCT, "op": "softmax", "form": "BA16a16b"}], ["softmax"]),
    ([{**PRODUCT, "from": "BA16a16b"}], ["from", "form", "row 1", "t.json"]),
    ([{**PRODUCT, "group": 2, "form": "BA16a16b"}], ["group", "1"]),
    ([{**WINDOWS, "group": 5, "form": "Acdb16a"}], ["group", "24"]),
    ([{**PRODUCT, "form": "table"}] * 2, ["two rows", "96"]),
])
def test_rows_that_mean_nothing_are_refused(tmp_path, source, rows, names):
    refused(1, "INVALID_ARGUMENT", "compile", source, "--tuning", tuning(tmp_path / "t.json", *rows), names=names)


def test_a_file_that_is_none_is_refused(tmp_path, source):
    (tmp_path / "t.json").write_text("{\n\"rows\": [}")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--tuning", tmp_path / "t.json", names=["t.json", "line 2"])
    refused(3, "IO_ERROR", "compile", source, "--tuning", tmp_path / "none.json", names=["none.json"])


@pytest.mark.parametrize(("options", "names"), [
    (["--portable"], ["--portable"]),
    (["--isa", "sse41,avx2"], ["--isa"]),
    (["--config", "ep.enable_weightless_mode=1"], ["weightless"]),
    (["--report", "t.json"], ["--report", "--tuning"]),
    (["--provider", "cpu"], ["no provider"]),
])
def test_options_that_do_not_fit_are_refused(tmp_path, monkeypatch, source, options, names):
    tuning(tmp_path / "t.json", {**PRODUCT, "form": "BA16a16b"})
    monkeypatch.chdir(tmp_path)
    refused(1, "INVALID_ARGUMENT", "compile", source, "--tuning", "t.json", *options, names=[*names, "tuning"])


# ---- --tune ----

def tuned(source, name, *options, seconds=2):
    context, report = compiled(source, name, f"--tune={seconds}", *options)
    return context, report["tuning"]


@panels
def test_tuning_writes_a_file_that_gives_the_same_bytes(tmp_path, source):
    file = tmp_path / "t.json"
    context, report = tuned(source, "tuned", "--tuning", file)
    assert (report["shapes"], report["measured"], report["known"], report["unfinished"]) == (2, 2, 0, 0)
    document = json.loads(file.read_text())
    assert document["library"] == library()
    assert document["instruction_set"] == isa_here()
    assert document["threads"] == 1
    assert [(row["op"], row["dims"], row["rows"]) for row in document["rows"]] == [("conv", "24x16x3x3", 64), ("matmul", "96x200", 1)]
    assert all(row["us"] > 0 for row in document["rows"])
    assert len(report["gains"]) == sum(row["form"] != "table" for row in document["rows"])
    assert len(report["stays"]) == sum(row["form"] == "table" for row in document["rows"])
    assert all(stay["closest"] != stay["form"] and stay["closest_share"] > 0 for stay in report["stays"])
    again, _ = compiled(source, "again", "--tuning", file)
    assert bytes_of(again) == bytes_of(context)
    done("verify", context, "--against", source)


@panels
def test_what_a_file_has_is_not_measured_again(tmp_path, source):
    file = tuning(tmp_path / "t.json", {**PRODUCT, "rows": 1, "form": "BA16a16b"}, {**PRODUCT, "dims": "64x64", "form": "table"}, threads=1)
    context, report = tuned(source, "tuned", "--tuning", file)
    assert (report["shapes"], report["known"], report["measured"]) == (2, 1, 1)
    assert report["gains"][-1]["form"] == "BA16a16b"
    assert {row["dims"] for row in json.loads(file.read_text())["rows"]} == {"96x200", "64x64", "24x16x3x3"}
    before = file.read_text()
    again, report = tuned(source, "again", "--tuning", file)
    assert (report["known"], report["measured"]) == (2, 0)
    assert file.read_text() == before
    assert bytes_of(again) == bytes_of(context)


@panels
def test_what_the_cache_has_is_not_measured_again(tmp_path, source):
    cache = ["--cache-dir", tmp_path / "cache"]
    context, report = tuned(source, "tuned", *cache)
    assert report["measured"] == 2
    again, report = tuned(source, "again", *cache)
    assert (report["known"], report["measured"]) == (2, 0)
    assert bytes_of(again) == bytes_of(context)
    assert json_of("cache", "stats", "--cache-dir", tmp_path / "cache")["kinds"]["tuning"]["entries"] == 2
    # With other threads it is another question.
    assert tuned(source, "threads", *cache, "--threads", "2")[1]["known"] == 0


@panels
def test_if_needed_looks_at_the_file_before_it_measures(tmp_path, source):
    options = ["--tune=1", "--tuning", tmp_path / "t.json", "--if-needed"]
    compiled(source, "out")
    _, report = compiled(source, "out", *options)
    assert "tuning" in report  # no file says that these outputs were measured
    _, report = compiled(source, "out", *options)
    assert report["up_to_date"]
    assert str(tmp_path / "t.json") in report["files_read"]


@panels
def test_if_needed_measures_where_the_file_has_no_rows(tmp_path, source):
    options = ["--tune=1", "--tuning", tuning(tmp_path / "t.json", threads=1), "--if-needed"]
    compiled(source, "out")  # a file without rows gives the same key
    assert compiled(source, "out", *options)[1]["tuning"]["measured"] == 2


@panels
def test_if_needed_measures_what_the_file_has_no_rows_for(tmp_path, source):
    """Rows of other models, and of a part of this one; forms of the table, so that the outputs have the same key."""
    table = {"form": "table"}
    rows = [{**PRODUCT, "dims": "64x64", **table}, {**WINDOWS, **table}]
    file = tuning(tmp_path / "t.json", *rows, threads=1)
    compiled(source, "out")
    finished = done("compile", source, "-o", into(tmp_path / "out"), "--tuning", file, "--if-needed", "-v")
    assert "up to date" in finished.stdout
    options = ["--tune=1", "--tuning", file, "--if-needed"]
    finished = done("compile", source, "-o", into(tmp_path / "out"), *options, "-v")
    assert "no row for matmul float32[96, 200]" in finished.stderr
    assert "of 2 shapes faster" in finished.stdout
    # A row for any number of rows of the result covers each of them.
    tuning(file, *rows, {**PRODUCT, **table}, threads=1)
    compiled(source, "out")
    assert compiled(source, "out", *options)[1]["up_to_date"]


@panels
def test_if_needed_measures_each_model_of_a_batch(tmp_path, source):
    save(network(), tmp_path / "same.onnx")
    other = network()
    other.graph.node[0].attribute.append(helper.make_attribute("strides", [2, 2]))
    for window in other.graph.node[1].attribute:
        window.ints[:] = [2, 2]
    save(other, tmp_path / "other.onnx")
    table = [{**PRODUCT, "form": "table"}, {**WINDOWS, "form": "table"}]
    options = ["--tune=1", "--tuning", tuning(tmp_path / "t.json", *table, threads=1), "--if-needed", "-o", into(tmp_path / "out")]
    for batch, needed in (("same", False), ("other", True)):
        models = f"{source},{tmp_path / batch}.onnx"
        json_of("compile", models, "-o", into(tmp_path / "out"))
        assert json_of("compile", models, *options)["up_to_date"] is not needed


@panels
def test_if_needed_knows_a_model_without_anything_to_measure(tmp_path):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "net",
                              [info("x", TensorProto.FLOAT, [4])], [info("y", TensorProto.FLOAT, [4])])
    source = save(make_model(graph), tmp_path / "net.onnx")
    options = ["--tune=1", "--tuning", tmp_path / "t.json", "--if-needed"]
    assert "tuning" in compiled(source, "out", *options)[1]
    assert compiled(source, "out", *options)[1]["up_to_date"]


@panels
def test_sizes_that_are_planned_ahead_are_measured(tmp_path):
    model = network()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    source = save(model, tmp_path / "net.onnx")
    _, report = tuned(source, "planned", "--dim", "n=3,1", "--tuning", tmp_path / "t.json")
    assert report["shapes"] == 2
    assert [row["rows"] for row in json.loads((tmp_path / "t.json").read_text())["rows"]] == [256, 4]
    finished = done("compile", source, "-o", into(tmp_path / "open"), "--tune=1")
    assert "nothing to measure" in finished.stderr


@panels
def test_a_dry_run_writes_no_file(tmp_path, source):
    done("compile", source, "--tune=1", "--tuning", tmp_path / "t.json", "--dry-run")
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize(("options", "status", "name"), [
    (["-o", "out/net_ctx.onnx", "--tuning", "out/net_ctx.onnx"], 1, "net_ctx.onnx"),
    (["-o", "out/net_ctx.onnx", "--tuning", "r.json", "--report", "r.json"], 1, "r.json"),
    (["-o", "out/net_ctx.onnx", "--tuning", "nofolder/t.json"], 3, "nofolder"),
])
def test_files_are_checked_before_anything_is_measured(tmp_path, monkeypatch, source, options, status, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    code = {1: "INVALID_ARGUMENT", 3: "IO_ERROR"}[status]
    refused(status, code, "compile", source, "--tune=600", *options, names=[name])
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != source]


def test_the_folder_is_checked_before_a_model_for_stdout_is_measured(tmp_path, source):
    missing = tmp_path / "none" / "t.json"
    refused(3, "IO_ERROR", "compile", source, "--embed", "-o", "-", "--tune=600", "--tuning", missing, names=["none"])


@pytest.mark.parametrize(("there", "options"), [
    ("out/net_ctx.onnx", []), ("out/net_dnnl.bin", []), ("net.bin", ["--bin", "net.bin"]),
    ("out/net.data", ["--external-initializers", "net.data"]), ("net.bin", ["-o", "-", "--bin", "net.bin"]),
])
def test_no_clobber_is_asked_before_anything_is_measured(tmp_path, monkeypatch, source, there, options):
    """Of what goes next to the model, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / there).write_text("mine")
    to = [] if "-o" in options else ["-o", "net_ctx.onnx" if "--bin" in options else "out/net_ctx.onnx"]
    refused(1, "INVALID_ARGUMENT", "compile", source, *to, "--tune=600", "--tuning", "t.json", "--no-clobber", *options, names=[there])
    assert (tmp_path / there).read_text() == "mine"
    assert not (tmp_path / "t.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every folder")
def test_a_folder_that_takes_no_files_is_refused_before_anything_is_measured(tmp_path, source):
    closed = tmp_path / "closed"
    closed.mkdir(0o555)
    refused(3, "IO_ERROR", "compile", source, "-o", tmp_path / "net_ctx.onnx", "--tune=600", "--tuning", closed / "t.json", names=["closed"])


@panels
def test_the_summary_says_what_was_measured(tmp_path, source):
    finished = done("compile", source, "-o", into(tmp_path / "out"), "--tune=1", "-v")
    assert "tuning: " in finished.stdout
    assert "of 2 shapes faster" in finished.stdout
    assert "s left" in finished.stderr


@panels
def test_an_interrupt_keeps_what_is_known(tmp_path, source):
    file = tuning(tmp_path / "t.json", {**PRODUCT, "rows": 1, "form": "BA16a16b"}, threads=1)
    command = [os.environ["CTXGEN_BIN"], "compile", source, "-v", "-o", into(tmp_path / "out"), "--tune=600", "--tuning", file]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    lines = [next(line for line in process.stderr if "tuning:" in line)]
    process.send_signal(signal.SIGINT)
    lines += process.stderr.readlines()
    assert process.wait() == 130
    assert "CANCELLED" in lines[-1]
    assert "1 of 2 shapes" in lines[-1]
    assert {"op": "matmul", "form": "BA16a16b"}.items() <= json.loads(file.read_text())["rows"][-1].items()
    assert not list((tmp_path / "out").glob("*"))


@panels
def test_rows_that_another_process_wrote_meanwhile_are_kept(tmp_path, source):
    file = tuning(tmp_path / "t.json", {**PRODUCT, "rows": 1, "form": "BA16a16b"}, threads=1)
    other = tuning(tmp_path / "other.json", {**PRODUCT, "dims": "64x64", "form": "table"}, threads=1)
    command = [os.environ["CTXGEN_BIN"], "compile", source, "-v", "-o", into(tmp_path / "out"), "--tune=2", "--tuning", file]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    next(line for line in process.stderr if "tuning:" in line)
    other.replace(file)
    process.stderr.readlines()
    assert process.wait() == 0
    assert {row["dims"] for row in json.loads(file.read_text())["rows"]} == {"96x200", "64x64", "24x16x3x3"}


@pytest.mark.parametrize(("options", "names"), [
    (["--portable"], ["--portable"]),
    (["--isa", "sse41"], ["--isa", "sse41"]),
    (["--isa", "sse41,avx2"], ["--isa"]),
    (["--config", "ep.enable_weightless_mode=1"], ["weightless"]),
    (["--if-needed"], ["--if-needed", "--tuning"]),
    (["--provider", "cpu"], ["no provider"]),
    (["--tune=0"], ["--tune", "1"]),
    (["--tune=soon"], ["--tune"]),
    (["--tuning", "net.onnx"], ["net.onnx"]),
    (["--tuning", "other.json"], ["threads=7"]),
])
def test_what_cannot_be_measured_is_refused(tmp_path, monkeypatch, source, options, names):
    if isa_here() == "sse41":
        pytest.skip("this machine's instruction set is the one of the test")
    tuning(tmp_path / "other.json", threads=7)
    monkeypatch.chdir(tmp_path)
    tune = [] if options[0].startswith("--tune=") else ["--tune"]
    refused(1, "INVALID_ARGUMENT", "compile", source, *tune, *options, names=names)


def test_lists_are_not_measured(tmp_path, source):
    (tmp_path / "list.txt").write_text("net.onnx --tune\n")
    refused(1, "INVALID_ARGUMENT", "compile", "--list", tmp_path / "list.txt", names=["--tune"])
    (tmp_path / "list.txt").write_text("net.onnx\n")
    refused(1, "INVALID_ARGUMENT", "compile", "--list", tmp_path / "list.txt", "--tune", names=["--tune"])
