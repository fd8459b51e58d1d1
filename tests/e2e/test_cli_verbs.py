"""ctxgen inspect, explain, check, providers, bench, help and version."""

import json
import os
import pathlib
import re
import subprocess

import onnx
import pytest
from cli_support import conv_model, ctxgen, done, has_isa, json_of, refused, save, unknown_model

SOURCE = pathlib.Path(__file__).resolve().parents[2]
VERBS = [
    "compile", "merge", "split", "embed", "extract", "bundle", "sign", "verify-signature", "run", "verify", "check", "inspect", "explain", "bench", "report", "providers", "cache", "doctor",
]


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


@pytest.fixture
def context(model, tmp_path):
    done("compile", model)
    return tmp_path / "net_ctx.onnx"


# ---- help and version ----------------------------------------------------------------------------------------------


def test_version_names_every_part():
    lines = done("--version").stdout.splitlines()
    assert re.fullmatch(r"ctxgen \d+\.\d+\.\d+\S*", lines[0])
    libraries = [one["version"] for one in json_of("providers")["providers"]]
    libraries = [library for library in libraries if not library.startswith("ctxgen ")]
    assert any(library.startswith("oneDNN ") for library in libraries)
    assert lines[2:-1] == libraries
    assert [line.rsplit(" ", 1)[0] for line in (lines[1], lines[-1])] == ["context format", "onnx"]


def test_help_lists_every_verb_and_error():
    text = done("--help").stdout
    for verb in VERBS:
        assert re.search(rf"^ +{verb} ", text, re.MULTILINE), verb


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_has_examples(verb):
    text = done(verb, "--help").stdout
    assert f"Examples:\n  ctxgen {verb}" in text


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "cache"] + ["cache stats", "cache clear", "cache trim", "cache lookup"])
def test_every_verb_takes_quiet_and_verbose(verb):
    text = done(*verb.split(), "--help").stdout
    assert re.search(r"-q, +--quiet", text) and re.search(r"-v, +--verbose", text)


def test_examples_use_options_that_exist():
    for verb in VERBS:
        text = done(verb, "--help").stdout
        options = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", text.split("Examples:")[0]))
        for line in re.findall(rf"^  ctxgen {verb} (.*)$", text, re.MULTILINE):
            if verb == "cache":  # its commands have the options
                command = done(verb, line.split()[0], "--help").stdout
                options = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", command.split("Examples:")[0]))
            used = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", line.split("   ")[0].split("||")[0]))
            assert used <= options, line


def error_rows(text, pattern):
    return [tuple(part.strip(" `") for part in match) for match in re.findall(pattern, text, re.MULTILINE)]


def test_page_help_and_code_have_the_same_exit_statuses():
    from_help = error_rows(done("--help").stdout, r"^ +(\d+)  ([A-Z_]* ) +(.+)$")
    page = (SOURCE / "docs" / "cli.md").read_text()
    from_page = error_rows(page, r"^\| (\d+) \| (`[A-Z_]+`|) ?\| (.+) \|$")
    code = (SOURCE / "lib" / "base" / "status.cpp").read_text()
    from_code = re.findall(r'\{ErrorCode::\w+, "(\w+)", (\d+),\s*"([^"]+)"\}', code)
    assert len(from_code) == 11
    assert from_help == from_page
    assert sorted(from_page[1:]) == sorted((status, name, when) for name, status, when in from_code)


def test_cli_document_has_every_option():
    document = (SOURCE / "docs" / "cli.md").read_text()
    for verb in VERBS:
        text = done(verb, "--help").stdout
        for option in set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", text)):
            assert option in document, f"{verb} {option}"


@pytest.mark.parametrize("arguments", [["frobnicate"], ["run"], ["--frobnicate"]])
def test_wrong_usage(arguments):
    refused(1, "INVALID_ARGUMENT", *arguments)


# ---- inspect -------------------------------------------------------------------------------------------------------


def test_inspect_a_model(model):
    facts = json_of("inspect", model)
    assert facts["kind"] == "model"
    assert facts["model"]["nodes"] == 5
    assert {"op": "Conv", "count": 1} in facts["model"]["ops"]
    assert facts["model"]["inputs"] == [{"name": "x", "type": "float32[batch, 3, 8, 8]"}]
    assert facts["model"]["initializers"] == 4
    assert "Conv" in done("inspect", model).stdout


def test_inspect_a_context_model(context, tmp_path):
    facts = json_of("inspect", context)
    assert facts["kind"] == "context_model"
    assert facts["model"]["partitions"][0]["source"] == "CtxgenDnnlExecutionProvider"
    (bin_facts,) = facts["contexts"]
    assert bin_facts["bytes"] == (tmp_path / "net_dnnl.bin").stat().st_size
    assert bin_facts["programs"][0]["name"] == facts["model"]["partitions"][0]["partition_name"]
    keys = [entry["key"] for entry in facts["model"]["metadata"]]
    assert "ep_compatibility_info.CtxgenDnnlExecutionProvider" in keys


def test_inspect_a_bin(context, tmp_path):
    facts = json_of("inspect", tmp_path / "net_dnnl.bin")
    assert facts["kind"] == "context"
    assert facts["context"]["format"] == "1.0"
    assert sum(blob["bytes"] for blob in facts["context"]["blobs"]) == facts["context"]["weight_bytes"]
    text = done("inspect", tmp_path / "net_dnnl.bin", "-v").stdout
    assert facts["context"]["blobs"][0]["hash"] in text


def test_inspect_shows_sharing(tmp_path):
    save(conv_model(), tmp_path / "a.onnx")
    save(conv_model(tail=onnx.helper.make_node("Relu", ["z"], ["y"], name="tail")), tmp_path / "b.onnx")
    done("compile", tmp_path / "a.onnx", tmp_path / "b.onnx")
    facts = json_of("inspect", tmp_path / "a_dnnl.bin")["context"]
    assert facts["shared_blobs"] > 0
    assert facts["saved_bytes"] == sum(blob["bytes"] * (blob["weights"] - 1) for blob in facts["blobs"])


def test_inspect_shows_external_files(tmp_path):
    onnx.save(conv_model(), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    (entry,) = json_of("inspect", tmp_path / "net.onnx")["model"]["external_files"]
    assert entry == {"name": "net.data", "bytes": (tmp_path / "net.data").stat().st_size}


def test_inspect_tells_of_a_missing_bin(context, tmp_path):
    (tmp_path / "net_dnnl.bin").unlink()
    (entry,) = json_of("inspect", context)["contexts"]
    assert "error" in entry


def test_inspect_refuses_other_files(tmp_path):
    (tmp_path / "text").write_text("hello, this is no model")
    refused(2, "INVALID_GRAPH", "inspect", tmp_path / "text")
    (tmp_path / "x.bin").write_text("hello, this is no context")
    refused(2, "INVALID_GRAPH", "inspect", tmp_path / "x.bin")
    refused(3, "IO_ERROR", "inspect", tmp_path / "none")
    refused(3, "IO_ERROR", "inspect", tmp_path)


# ---- explain -------------------------------------------------------------------------------------------------------


def test_explain_gives_every_node_a_place(model, tmp_path):
    facts = json_of("explain", model)
    assert [node["name"] for node in facts["assignment"]] == ["conv", "relu", "pool", "flatten", "gemm"]
    assert facts["assignment"][0]["provider"] == "dnnl"
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
    assert "conv" in done("explain", model).stdout


def test_explain_gives_reasons(model, tmp_path):
    odd = json_of("explain", save(unknown_model(), tmp_path / "odd.onnx"))
    (node,) = odd["assignment"]
    assert node["provider"] is None
    assert any("dnnl" in reason for reason in node["reasons"])
    assert any("cpu" in reason for reason in node["reasons"])
    everything = json_of("explain", model, "--provider", "cpu")
    assert {node["provider"] for node in everything["assignment"]} == {"cpu"}


# ---- check ---------------------------------------------------------------------------------------------------------


def test_check_a_fresh_context(context):
    verdict = json_of("check", context)
    assert (verdict["verdict"], verdict["reason"], verdict["partitions"]) == ("optimal", "", 1)
    assert done("check", context).stdout.startswith("optimal")


def test_check_says_which_nodes_of_a_cluster_fit(model, tmp_path):
    """Labels of node-feature-discovery, and an affinity for a pod, of contexts for one instruction set, for several and for any."""
    prefix = "feature.node.kubernetes.io/cpu-cpuid."
    avx2 = [prefix + flag for flag in ("AVX", "AVX2", "FMA3")]
    avx512 = [prefix + flag for flag in ("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL")]
    cases = [(("--isa", "avx2"), ["avx2"], avx2, []), (("--portable",), ["portable"], [], [])]
    if has_isa("avx512_core"):
        cases.append((("--isa", "avx2,avx512_core"), ["avx2", "avx512_core"], avx2, avx512))
    for options, sets, required, preferred in cases:
        done("compile", model, "-o", tmp_path / "for_ctx.onnx", "--force", *options)
        found = json.loads(ctxgen("check", tmp_path / "for_ctx.onnx", "--json").stdout)
        assert found["instruction_sets"] == sets
        assert found["node_labels"] == {"required": required, "preferred": preferred}
        (term,) = found["node_affinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                                            *({"key": label, "operator": "In", "values": ["true"]} for label in required)]
        wishes = found["node_affinity"].get("preferredDuringSchedulingIgnoredDuringExecution", [])
        assert [(wish["weight"], [one["key"] for one in wish["preference"]["matchExpressions"]]) for wish in wishes] == (
            [(100, preferred)] if preferred else [])
    plain = json.loads(ctxgen("check", model, "--json").stdout)
    assert plain["instruction_sets"] == [] and "node_labels" not in plain and "node_affinity" not in plain


def change_fingerprint(context, old, new):
    model = onnx.load(context)
    for entry in model.metadata_props:
        if entry.key.startswith("ep_compatibility_info."):
            changed = re.sub(old, new, entry.value)
            assert changed != entry.value, entry.value
            entry.value = changed
    onnx.save(model, context)


def test_check_a_context_of_another_version(context):
    change_fingerprint(context, r"\d+\.\d+\.\d+", "0.0.1")
    finished = ctxgen("check", context, "--json")
    assert finished.returncode == 2
    verdict = json.loads(finished.stdout)
    assert verdict["verdict"] == "unsupported"
    assert "0.0.1" in verdict["reason"]


def test_check_a_missing_or_damaged_bin(context, tmp_path):
    whole = (tmp_path / "net_dnnl.bin").read_bytes()
    (tmp_path / "net_dnnl.bin").write_bytes(whole[:100])
    assert ctxgen("check", context).returncode == 2
    (tmp_path / "net_dnnl.bin").unlink()
    finished = ctxgen("check", context)
    assert finished.returncode == 2
    assert "net_dnnl.bin" in finished.stdout


def test_check_says_what_run_does(context):
    """A context that check calls unsupported does not load, and the other way round."""
    assert done("check", context) and done("run", context)
    model = onnx.load(context)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "partition_name":
            attribute.s = b"another"
    onnx.save(model, context)
    assert ctxgen("check", context).returncode == 2
    refused(2, "INVALID_GRAPH", "run", context)


# ---- providers and bench -------------------------------------------------------------------------------------------


def test_providers():
    facts = json_of("providers")
    by_name = {one["name"]: one for one in facts["providers"]}
    assert list(by_name)[-1] == "cpu", "it takes what is left"
    assert by_name["dnnl"]["ep_name"] == "CtxgenDnnlExecutionProvider"
    assert by_name["dnnl"]["isa"]
    assert by_name["dnnl"]["compiles"] and not by_name["cpu"]["compiles"]
    text = done("providers").stdout
    for one in facts["providers"]:
        assert one["name"] in text and one["ep_name"] in text


def check_bench(result):
    for key in ("load_ms", "first_run_ms", "primitive_creation_ms", "resident_bytes", "private_bytes"):
        assert result[key] >= 0, key
    assert 0 < result["latency_ms"]["min"] <= result["latency_ms"]["p50"] <= result["latency_ms"]["p99"]
    assert result["private_bytes"] <= result["resident_bytes"]


def test_bench_keys(context):
    result = json_of("bench", context, "--iterations", "3")
    check_bench(result)
    assert result["load_ms"] > 0 and result["partitions"] == 1


def test_bench_counts_primitives_of_planned_shapes(model, tmp_path):
    net = onnx.load(model)
    next(node for node in net.graph.node if node.name == "pool").op_type = "GlobalMaxPool"  # oneDNN's, where others are own loops
    onnx.save(net, model)
    done("compile", model, "--dim", "batch=1")
    result = json_of("bench", tmp_path / "net_ctx.onnx", "--iterations", "1")
    assert result["primitives"] > 0 and result["primitive_creation_ms"] > 0


def test_bench_counts_plans(model, tmp_path):
    done("compile", model, "--dim", "batch=1")
    context = tmp_path / "net_ctx.onnx"
    planned = json_of("bench", context, "--iterations", "2", "--dim", "batch=1")["plans"]
    assert (planned["stored"], planned["made"]) == (1, 0)
    other = json_of("bench", context, "--iterations", "2", "--dim", "batch=3", "--kept-plans", "1")["plans"]
    assert (other["stored"], other["made"], other["kept"], other["dropped"]) == (1, 1, 1, 0)


def test_bench_of_a_plain_model_compiles_in_memory(model):
    result = json_of("bench", model, "--iterations", "2", "--threads", "1")
    check_bench(result)
    assert result["compile_ms"] > 0
    assert json_of("bench", model, "--iterations", "2", "--provider", "cpu")["partitions"] == 0


def test_bench_table_of_operators(context):
    ops = json_of("bench", context, "--iterations", "1", "-v")["ops"]
    assert ops and all(op["us"] >= 0 and op["kind"] for op in ops)
    assert "GFLOP/s" in done("bench", context, "--iterations", "1", "-v").stdout


def test_bench_compares(context, model):
    result = json_of("bench", context, "--compare", model, "--iterations", "2", "--provider", "cpu")
    check_bench(result)
    check_bench(result["compare"])
    assert result["ratio"]["latency_p50_ms"] > 0
    assert "ratio" in done("bench", context, "--compare", context, "--iterations", "1").stdout


def test_bench_compare_reports_the_childs_error(context, tmp_path):
    odd = save(unknown_model(), tmp_path / "odd.onnx")
    refused(2, "NOT_IMPLEMENTED", "bench", context, "--compare", odd, "--iterations", "1", names=["Frobnicate"])


def test_bench_refuses_contradictions(context):
    refused(1, "INVALID_ARGUMENT", "bench", context, "--iterations", "0")
    refused(1, "INVALID_ARGUMENT", "bench", context, "--provider", "cpu", names=["--provider"])
    refused(1, "INVALID_ARGUMENT", "bench", context, "--compare", context, "-v", names=["-v"])


def test_closed_pipe_is_an_io_error(model):
    """A reader that goes away must not look like success."""
    read, write = os.pipe()
    os.close(read)
    finished = subprocess.run([os.environ["CTXGEN_BIN"], "inspect", model], stdout=write, stderr=subprocess.PIPE,
                              check=False)
    os.close(write)
    assert finished.returncode != 0
