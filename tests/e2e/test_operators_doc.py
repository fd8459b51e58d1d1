"""docs/operators.md says what the providers' tables say."""

import os
import pathlib

from cli_support import done, json_of

DOCUMENT = pathlib.Path(os.environ["CTXGEN_SOURCE"]) / "docs" / "operators.md"


def test_document_is_current():
    written = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    assert written == done("providers", "--operators").stdout, "docs/operators.md is out of date: run ./dev operators-doc and commit it"


def test_json_names_the_same_rows():
    rows = json_of("providers", "--operators")["operators"]
    conv = [(row["provider"], row["since_max"]) for row in rows if row["domain"] == "ai.onnx" and row["op_type"] == "Conv"]
    assert [provider for provider, _ in conv] == ["dnnl", "cpu"]
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ") and not line.startswith("| operator")]
    assert len(lines) == len(rows)
