"""--provenance: every file that was written and read by its SHA-256, in in-toto's statement with SLSA's predicate."""

import hashlib
import json

import onnx
import pytest
from cli_support import conv_model, done, into, json_of, refused, save


@pytest.fixture
def source(tmp_path):
    """A model with external data."""
    onnx.save(conv_model(), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    return tmp_path / "net.onnx"


def digests(entries):
    return {entry["name"]: entry["digest"]["sha256"] for entry in entries}


def of_files(*paths):
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_a_statement_names_all_files(source, tmp_path):
    out, file = tmp_path / "out", tmp_path / "provenance.json"
    arguments = ["compile", source, "-o", into(out), "--provenance", file, "--builder-id", "https://builds.example.org/models"]
    report = json_of(*arguments)
    statement = json.loads(file.read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert digests(statement["subject"]) == of_files(out / "net_ctx.onnx", out / "net_dnnl.bin")
    definition, details = (statement["predicate"][key] for key in ("buildDefinition", "runDetails"))
    assert digests(definition["resolvedDependencies"]) == of_files(source, tmp_path / "net.data")
    assert definition["externalParameters"]["arguments"] == [*map(str, arguments), "--json"]
    assert details["builder"]["id"] == "https://builds.example.org/models" and details["builder"]["version"]["ctxgen"]
    assert details["metadata"]["invocationId"] == report["key"]


def test_equal_compiles_have_equal_statements(source, tmp_path):
    file = tmp_path / "provenance.json"
    for option in ([], [], ["--if-needed"]):
        done("compile", source, "--provenance", file, "-q", *option)
        statement = json.loads(file.read_text())
        del statement["predicate"]["buildDefinition"]["externalParameters"]
        assert statement == json.loads((tmp_path / "first.json").read_text() if (tmp_path / "first.json").exists() else json.dumps(statement))
        (tmp_path / "first.json").write_text(json.dumps(statement))
    assert statement["predicate"]["runDetails"]["builder"]["id"] == "urn:ctxgen"


def test_what_it_is_not_for(source, tmp_path):
    file = tmp_path / "provenance.json"
    refused(1, "INVALID_ARGUMENT", "compile", source, "--provenance", file, "--dry-run", names=["--provenance", "--dry-run"])
    refused(1, "INVALID_ARGUMENT", "compile", source, "--provenance", file, "-o", "-", "--embed", names=["--provenance"])
    refused(1, "INVALID_ARGUMENT", "compile", source, "--builder-id", "urn:x", names=["--builder-id"])
    save(conv_model(), tmp_path / "one.onnx")
    (tmp_path / "models.txt").write_text(f"{tmp_path / 'one.onnx'}\n")
    refused(1, "INVALID_ARGUMENT", "compile", "--list", tmp_path / "models.txt", "--provenance", file, names=["--provenance"])
    before = source.read_bytes()
    refused(1, "INVALID_ARGUMENT", "compile", source, "--provenance", source, names=["--provenance", "net.onnx"])
    assert source.read_bytes() == before and not file.exists()
