"""Reads the pages of `ctxgen report`, and makes models whose names are hostile or many."""

import html.parser
import json
import pathlib

import onnx
from json_schema import violations
from onnx import TensorProto, helper

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(html.parser.HTMLParser):
    """The elements of a page and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.scripts, self.data, self.title, self.open = [], [], [], [], "", []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            (self.data if ("type", "application/json") in attrs else self.scripts).append("")
            self.kind = self.data if ("type", "application/json") in attrs else self.scripts

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.kind[-1] += data
        elif self.open and self.open[-1] == "title":
            self.title += data


def read_page(path):
    """The page and its data, which fit the schema."""
    page = Page(pathlib.Path(path).read_text(encoding="utf-8"))
    data = [json.loads(text) for text in page.data]
    for one in data:
        assert violations(one, SCHEMA) == []
    return page, data


def chain_model(names, op="Relu", dims=(4, 4), opset=17):
    """x -> op -> op ... -> y, a node for each name."""
    values = ["x", *(f"v{i}" for i in range(len(names) - 1)), "y"]
    nodes = [helper.make_node(op, [values[i]], [values[i + 1]], name=name) for i, name in enumerate(names)]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))], [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(dims))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


HOSTILE = [
    "</script><script>document.title = 'taken'</script>",
    "<!-- <script>",
    "]]>",
    '"quoted" \\ back',
    "<img src=x onerror=\"document.title='taken'\">",
    "&lt;&amp;",
    "line\nbreak\ttab",
    "bell\x07 escape\x1b[31m",
    "\u202eright to left\u202c",
    "\u2028\u2029",
    "日本語/ノード/畳み込み",
    "emoji 🧮 \U0010ffff",
    "/".join(["deep"] * 300),
    "long" * 8000,
    "__proto__",
    "constructor",
    "../../etc/passwd",
    "javascript:alert(1)",
    " ",
]


def save(model, path):
    onnx.save(model, path)
    return path
