"""`ctxgen report` and `compile --html`: what the page holds, that nothing in a model can get out of its text, and what is written where."""

import itertools
import json

import numpy as np
import onnx
import pytest
from cli_support import add_model, conv_model, ctxgen, done, json_of, refused
from onnx import TensorProto, helper, numpy_helper
from report_support import HOSTILE, chain_model, read_page, save

QUICK = ("--no-run", "--dim", "batch=2")


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


@pytest.fixture
def context(model, tmp_path):
    done("compile", model, "--dim", "batch=2", "-o", tmp_path / "net_ctx.onnx")
    return tmp_path / "net_ctx.onnx"


def report(path, *options):
    page = path.parent / "page.html"
    done("report", path, "-o", page, *options)
    parsed, data = read_page(page)
    assert len(data) == 1
    return parsed, data[0]


def nodes_by_name(data):
    return {node["name"]: node for node in data["report"]["nodes"]}


# ---- what it tells -------------------------------------------------------------------------------------------------


def test_a_page_is_one_file_without_references(model):
    page, data = report(model, *QUICK)
    assert page.title == "net.onnx"
    assert [name for name, _ in page.attributes if name in ("src", "href", "action", "data")] == []
    assert "url(" not in page.scripts[0] and "@import" not in page.scripts[0] and "http:" not in page.scripts[0].replace("http://www.w3.org/2000/svg", "")
    policy = dict(page.attributes)["content"] if "content" in dict(page.attributes) else ""
    assert any(value and "default-src 'none'" in value for _, value in page.attributes), policy
    text = (model.parent / "page.html").read_text()
    assert len(text) - len(page.data[0]) < 200_000
    assert data["report"]["from_source"] is True


def test_fused_nodes_are_linked_to_the_op_that_computes_them(model):
    _, data = report(model, *QUICK)
    nodes = nodes_by_name(data)
    assert set(nodes) == {"conv", "relu", "pool", "flatten", "gemm"}
    assert all(node["provider"] == "dnnl" and node["program"] == 0 for node in nodes.values())
    ops = data["report"]["programs"][0]["ops"]
    assert nodes["conv"]["op"] == nodes["relu"]["op"], "the convolution takes the relu in"
    assert ops[nodes["conv"]["op"]]["kind"] == "conv" and "relu" in ops[nodes["conv"]["op"]]["fused"]
    assert nodes["gemm"]["op"] is not None and ops[nodes["gemm"]["op"]]["kind"] == "matmul"
    order = [node["name"] for node in data["report"]["nodes"]]
    assert [order[i] for i in nodes["relu"]["reads"]] == ["conv"] and "reads" not in nodes["conv"]


def test_plans_have_steps_and_regions_that_do_not_overlap(tmp_path):
    path = save(chain_model([f"n{i}" for i in range(6)], op="Softmax", dims=(64, 64)), tmp_path / "chain.onnx")
    _, data = report(path, "--no-run")
    (program,) = data["report"]["programs"]
    (plan,) = program["plans"]
    assert plan["input_dims"] == [[64, 64]]
    assert all(step["op"] < len(program["ops"]) and step["implementation"] for step in plan["steps"])
    assert any(step["types"].startswith(("f32", "float32")) for step in plan["steps"])
    assert plan["regions"], "values between the steps are in the arena"
    for region in plan["regions"]:
        assert region["first"] <= region["last"] < len(plan["steps"])
        assert region["offset"] + region["bytes"] <= plan["arena_bytes"]
    for a, b in itertools.combinations(plan["regions"], 2):
        same_time = a["first"] <= b["last"] and b["first"] <= a["last"]
        same_place = a["offset"] < b["offset"] + b["bytes"] and b["offset"] < a["offset"] + a["bytes"]
        assert not (same_time and same_place), (a, b)


def test_weights_name_layout_and_blob(model):
    _, data = report(model, *QUICK)
    (program,) = data["report"]["programs"]
    (context,) = data["report"]["contexts"]
    assert {weight["name"] for weight in program["weights"]} >= {"cw", "gw"}
    assert all(weight["blob"] < len(context["blobs"]) and weight["layout"] not in ("", "unknown") for weight in program["weights"])


def test_measured_times_are_those_of_steps(model):
    page = model.parent / "page.html"
    said = done("report", model, "-o", page, "--dim", "batch=2", "--iterations", "3").stdout
    assert "5 of 5 nodes compiled; none stays." in said
    _, (data,) = read_page(page)
    measured = data["report"]["measured"]
    assert measured["iterations"] == 3 and measured["latency_ms"]["p50"] > 0 and measured["peaks"]["gflops_per_second"] > 0
    steps = data["report"]["programs"][0]["plans"][0]["steps"]
    assert all(step["us"] > 0 for step in steps)
    assert sum(step["us"] for step in steps) == pytest.approx(sum(op["us"] for op in measured["ops"]))


def test_a_context_model_tells_without_its_source(context):
    _, data = report(context, "--no-run")
    assert data["report"]["from_source"] is False and data["report"]["measured"] is None
    (program,) = data["report"]["programs"]
    assert [node["op"] for node in data["report"]["nodes"]] == list(range(len(program["ops"])))
    assert data["models"][0]["input"] == "net.onnx" and data["models"][0]["output"] == "net_ctx.onnx"
    assert len(data["key"]) == 32 and int(data["key"], 16) != 0
    assert {file["kind"] for file in data["files"]} == {"model", "bin"}


def test_error_of_each_partition(context, model):
    _, data = report(context, "--no-run", "--against", model, "--dim", "batch=2")
    verification = data["report"]["verification"]
    assert verification["match"] is True
    assert verification["runs"][0]["partitions"][0]["partition"] == data["report"]["programs"][0]["name"]
    _, data = report(model, *QUICK, "--verify")
    assert data["report"]["verification"]["match"] is True


def test_nodes_that_stay_are_found_with_a_reason(tmp_path):
    tail = helper.make_node("TopK", ["z", "k"], ["y", "i"], name="top", axis=1)
    made = conv_model(tail=tail)
    made.graph.initializer.append(numpy_helper.from_array(np.array([10], np.int64), "k"))
    path = save(made, tmp_path / "net.onnx")
    _, data = report(path, *QUICK)
    assert data["report"]["sentence"].startswith("5 of 6 nodes compiled; 1 stays because of TopK: ")
    lint = next(lint for lint in data["report"]["lints"] if lint["kind"] == "fallback")
    assert [data["report"]["nodes"][i]["name"] for i in lint["nodes"]] == ["top"]
    assert lint["title"] == "1 node not compiled: TopK" and lint["help"]


def test_memory_is_that_of_an_application(tmp_path, monkeypatch):
    """Neither what the compile needs nor the first of two models is in it; and no file stays behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4096, 4096), np.float32), "w")
    value = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4096]) for name in "xy"}
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "g", [value["x"]], [value["y"]], [weights])
    path = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "net.onnx")
    done("report", path, path, "--iterations", "2", "-o", tmp_path / "page.html")
    for data in read_page(tmp_path / "page.html")[1]:
        measured = data["report"]["measured"]
        assert 0 < measured["private_bytes"] < weights.ByteSize() < measured["resident_bytes"]
        assert measured["compile_ms"] > 0 and measured["ops"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_unplanned_shapes_name_the_option(model):
    _, data = report(model, "--no-run")
    lint = next(lint for lint in data["report"]["lints"] if lint["kind"] == "unplanned")
    assert lint["help"] == "--dim batch=N plans ahead"
    assert data["report"]["programs"][0]["plans"] == []
    assert not [lint for lint in report(model, *QUICK)[1]["report"]["lints"] if lint["kind"] == "unplanned"]


def test_two_reports_in_one_page(model, context, tmp_path):
    page = tmp_path / "two.html"
    done("report", model, context, "-o", page, "--no-run")
    parsed, data = read_page(page)
    assert parsed.title == "net.onnx and net_ctx.onnx"
    assert [one["report"]["from_source"] for one in data] == [True, False]
    refused(1, "INVALID_ARGUMENT", "report", model, context, model, "-o", page)


def test_json_is_the_data_of_the_page(model):
    _, data = report(model, *QUICK)
    said = json_of("report", model, *QUICK)
    assert said == data


def test_node_data_for_model_explorer(model, tmp_path):
    out = tmp_path / "nodes.json"
    done("report", model, *QUICK, "--format", "model-explorer", "-o", out)
    assert json.loads(out.read_text())["results"]["relu"] == {"value": "dnnl"}
    done("report", model, "--dim", "batch=2", "--iterations", "2", "--format", "model-explorer", "-o", out)
    timed = json.loads(out.read_text())
    assert timed["results"]["conv"]["value"] == timed["results"]["relu"]["value"] > 0 and timed["gradient"]


def test_compile_writes_a_page(model, tmp_path):
    page = tmp_path / "made.html"
    done("compile", model, "--dim", "batch=2", "--html", page, "-o", tmp_path / "out_ctx.onnx", "--verify")
    _, (data,) = read_page(page)
    assert data["report"]["from_source"] and data["report"]["verification"]["match"]
    assert data["report"]["file"]["name"] == "out_ctx.onnx"
    assert [file["path"] for file in data["files"]] == ["out_dnnl.bin", "out_ctx.onnx"]
    refused(1, "INVALID_ARGUMENT", "compile", model, "--html", page, "--dry-run")
    refused(1, "INVALID_ARGUMENT", "compile", model, "--html", page, "--if-needed")
    refused(1, "INVALID_ARGUMENT", "compile", model, "--html", model, names=["--html"])


# ---- hostile models ------------------------------------------------------------------------------------------------


def test_no_name_leaves_its_text(tmp_path):
    path = save(chain_model(HOSTILE), tmp_path / "<b>&'quoted'.onnx")
    page, data = report(path, "--no-run")
    assert page.tags.count("script") == 2 and "img" not in page.tags and "b" not in page.tags
    assert page.title == "<b>&'quoted'.onnx"
    assert [node["name"] for node in data["report"]["nodes"]] == HOSTILE
    assert not set("<>&") & set(page.data[0])


def test_names_that_are_not_text(tmp_path):
    path = tmp_path / "net.onnx"
    bytes_ = chain_model(["aaaa", "bbbb"]).SerializeToString().replace(b"aaaa", b"\xff\xfe<\x00")
    path.write_bytes(bytes_)
    _, data = report(path, "--no-run", "--provider", "cpu")
    assert "<" in data["report"]["nodes"][0]["name"] and "\ufffd" in data["report"]["nodes"][0]["name"]


def test_a_hundred_thousand_nodes(tmp_path):
    path = save(chain_model([f"/block.{i // 1000}/layer.{i // 100 % 10}/node_{i}" for i in range(100_000)]), tmp_path / "long.onnx")
    page, data = report(path, "--no-run", "--provider", "cpu")
    assert len(data["report"]["nodes"]) == 100_000
    assert data["report"]["sentence"] == "0 of 100000 nodes compiled; 100000 stay."
    assert len(page.data[0]) < 25_000_000


def test_equal_names_are_apart(tmp_path):
    _, data = report(save(chain_model(["same"] * 5, op="Softmax", dims=(8, 8)), tmp_path / "net.onnx"), "--no-run")
    nodes = data["report"]["nodes"]
    assert [node.get("reads", []) for node in nodes] == [[], [0], [1], [2], [3]]
    assert [node["op"] for node in nodes] == sorted({node["op"] for node in nodes})


# ---- what is written -----------------------------------------------------------------------------------------------


def test_the_same_bytes_each_time(context, tmp_path):
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        done("report", context, "--no-run", "-o", page)
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert str(tmp_path).encode() not in pages[0].read_bytes()


def test_the_default_is_a_new_file_next_to_the_model(tmp_path):
    save(add_model(), tmp_path / "net.onnx")
    done("report", "net.onnx", "--no-run", cwd=tmp_path)
    page = tmp_path / "net_report.html"
    read_page(page)
    page.write_text("mine")
    refused(1, "INVALID_ARGUMENT", "report", "net.onnx", "--no-run", cwd=tmp_path, names=["net_report.html", "-o"])
    assert page.read_text() == "mine"
    done("report", "net.onnx", "--no-run", "-o", "net_report.html", cwd=tmp_path)
    read_page(page)


def test_nothing_that_is_read_is_replaced(model, context):
    before = {path: path.read_bytes() for path in model.parent.iterdir()}
    for output in before:
        refused(1, "INVALID_ARGUMENT", "report", context, "--no-run", "-o", output, "--against", model)
    assert {path: path.read_bytes() for path in model.parent.iterdir()} == before


def test_a_page_on_stdout(model):
    said = done("report", model, *QUICK, "-o", "/dev/stdout").stdout
    assert said.startswith("<!doctype html>") and said.endswith("</html>\n")


def test_wrong_combinations(model, context):
    for arguments in (
        (model, "--against", model),
        (context, "--verify"),
        (context, "--freeze-initializers"),
        (context, "--no-run", "--freeze-initializers"),
        (model, "--json", "-o", "x.html"),
        (model, "--json", "--format", "model-explorer"),
        (model, context, "--json"),
        (model, context, "--format", "model-explorer"),
        ("-",),
    ):
        refused(1, "INVALID_ARGUMENT", "report", *arguments)


def test_a_damaged_context_is_an_error(context):
    path = next(context.parent.glob("*.bin"))
    path.write_bytes(path.read_bytes()[:200])
    page = context.parent / "page.html"
    assert ctxgen("report", context, "--no-run", "-o", page).returncode == 2
    assert not page.exists()


def test_overridable_initializers_are_shown(tmp_path):
    made = conv_model()
    made.graph.input.append(helper.make_tensor_value_info("gw", TensorProto.FLOAT, [10, 16]))
    path = save(made, tmp_path / "net.onnx")
    onnx.checker.check_model(str(path))
    _, data = report(path, *QUICK)
    lint = next(lint for lint in data["report"]["lints"] if "freeze-initializers" in lint["help"])
    assert lint["kind"] == "warning"
    assert data["report"]["programs"][0]["plans"][0]["steps"]
