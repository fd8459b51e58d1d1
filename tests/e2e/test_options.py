"""docs/options.md: every flag, key and setter stands there with a test that exists; and the flags that no other file shows."""

import os
import pathlib
import re

import numpy as np
import onnx
from cli_support import conv_model, done, json_of, save
from onnx import TensorProto, helper

SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
PAGE = (SOURCE / "docs" / "options.md").read_text()
RUNTIME_PAGE = (SOURCE / "docs" / "runtime.md").read_text()


def rows(title, page=PAGE):
    """Cells of the table under a heading, without its two header lines."""
    part = page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def names(cells):
    return re.findall(r"`([^`]+)`", cells)


def test_the_page_has_every_flag():
    text = done("compile", "--help").stdout
    flags = set()
    for line in text.splitlines():
        if match := re.match(r"  +(-[A-Za-z-]+(?:, *-[A-Za-z-]+)*)", line):
            flags |= set(re.split(r", *", match[1]))
    assert {"-o", "--output", "--embed", "-j", "--help"} <= flags
    assert {name for row in rows("Flags of `ctxgen compile`") for name in names(row[0])} == flags


def test_the_page_has_every_key():
    source = (SOURCE / "lib" / "compiler" / "options" / "compile_config_keys.cpp").read_text()
    table = source.split("constexpr Row kRows[] = {", 1)[1]
    keys = re.findall(r'\{\{"([a-z_.]+)"', table)
    assert len(keys) > 10
    written = [names(row[0])[0] for row in rows("ONNX Runtime's keys")]
    refused = PAGE.split("Refused because they do not apply", 1)[1].split("\n\n", 1)[0]
    written += [name for name in names(refused) if re.fullmatch(r"(ep|session)\.[a-z_.]+", name)]
    assert sorted(written) == sorted(keys)


def test_the_page_has_every_setter():
    header = re.sub(r"/\*.*?\*/", "", (SOURCE / "lib/compiler/capi/include/ctxgen_compiler.h").read_text(), flags=re.S)
    setters = re.findall(r"CTXGEN_COMPILER_API[^;]*?\b(ctxgen\w*?_(?:set|add)_\w+)\(", header)
    assert len(setters) > 20
    assert [names(row[0])[0] for row in rows("Setters of the C API")] == setters


def test_the_page_has_the_names_of_the_table():
    """lib/compiler/options/option_table.cpp declares each option once: field, flag, key and setter."""
    source = (SOURCE / "lib" / "compiler" / "options" / "option_table.cpp").read_text()
    table = []
    for field, rest in re.findall(r"\{CTXGEN_FIELD\((\w+)\)(.*?)\},\n", source, re.S):
        table.append({"field": field} | dict(re.findall(r'\.(flag|key|setter) = "([^"]*)"', rest)))
    assert len(table) > 40
    setters = {names(row[0])[0].removeprefix("ctxgen_compile_options_"): (names(row[1]), names(row[2])) for row in rows("Setters of the C API")}
    for setter, (fields, flags) in setters.items():
        declared = [row for row in table if row.get("setter") == setter]
        if not declared:
            continue
        assert {row["field"] for row in declared} <= set(fields), setter
        assert {row["flag"].split(",")[0] for row in declared if "flag" in row} <= {flag.split(" ")[0].split("[")[0] for flag in flags}, setter
    assert {row["setter"] for row in table if "setter" in row} <= set(setters)
    keys = {names(row[0])[0]: names(row[3]) for row in rows("ONNX Runtime's keys")}
    for row in table:
        if "key" in row and "flag" in row:
            assert row["flag"] in keys[row["key"]], row["key"]


def test_the_page_of_the_runtime_has_every_key_and_setter():
    table = (SOURCE / "lib" / "runtime" / "config_keys.cpp").read_text().split("constexpr std::array kKeys{", 1)[1]
    keys = re.findall(r'SessionConfigKey\{\s*"([a-z_.]+)"', table)
    assert len(keys) > 5
    assert [names(row[0])[0] for row in rows("ONNX Runtime's keys", RUNTIME_PAGE)] == keys
    header = re.sub(r"/\*.*?\*/", "", (SOURCE / "lib/runtime/capi/include/ctxgen_runtime.h").read_text(), flags=re.S)
    setters = re.findall(r"CTXGEN_API[^;]*?\b(ctxgen_session_options_(?:set|add)_\w+)\(", header)
    assert len(setters) > 5
    assert [names(row[0])[0] for row in rows("Options of a session", RUNTIME_PAGE)] == setters


def test_the_tests_exist():
    programs = {path: path.read_text() for path in (SOURCE / "tests").rglob("*_test.cpp")}
    named = [row[-1] for title in ("ONNX Runtime's keys", "Setters of the C API", "Flags of `ctxgen compile`") for row in rows(title)]
    named += [row[-1] for title in ("ONNX Runtime's keys", "Options of a session") for row in rows(title, RUNTIME_PAGE)]
    assert len(named) > 75
    for cell in named:
        (name,) = names(cell)
        if "::" in name:
            file, test = name.split("::")
            assert f"def {test}(" in (SOURCE / "tests" / file).read_text(), name
        else:
            suite, test = name.split(": ")[1].split(".")
            assert any(re.search(rf"TEST(_F|_P)?\({suite}, {test}\)", text) for text in programs.values()), name


def test_shape(tmp_path):
    save(conv_model(), tmp_path / "net.onnx")
    done("compile", tmp_path / "net.onnx", "--shape", "x=4x3x8x8")
    (program,) = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]["programs"]
    assert [plan["input_dims"] for plan in program["plans"]] == [[[4, 3, 8, 8]]]


def test_freeze_initializers(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4]), helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")],
    )
    source = save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    done("compile", source, "--freeze-initializers", "-q")
    assert [one.name for one in onnx.load(tmp_path / "net_ctx.onnx").graph.input] == ["x"]
