"""compile --max-error: weights of single operators in fewer bits, within a bound on the outputs' error, with a proof."""

import collections
import json
import re
import struct

import numpy as np
import pytest
from cli_support import ctxgen, done, into, isa_here, json_of, make_model, refused, save
from context_support import forge_certificates, message_of
from fault_support import run_faulty
from onnx import TensorProto, helper, numpy_helper

ROWS, DEPTH, WIDTH = 4, 256, 128
info = helper.make_tensor_value_info


def network(seed=7):
    """Four products; the last has rows of very different sizes, so that few bits spoil it."""
    random = np.random.default_rng(seed)
    weights = {f"w{i}": (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
               for i, shape in enumerate([(DEPTH, WIDTH), (WIDTH, WIDTH), (WIDTH, DEPTH), (DEPTH, 16)])}
    nodes, before = [], "x"
    for i in range(4):
        nodes.append(helper.make_node("MatMul", [before, f"w{i}"], [f"m{i}"], name=f"product{i}"))
        before = f"m{i}"
        if i < 3:
            nodes.append(helper.make_node("Relu", [before], [f"r{i}"], name=f"relu{i}"))
            before = f"r{i}"
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, [ROWS, DEPTH])],
                              [info(before, TensorProto.FLOAT, [ROWS, 16])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return make_model(graph)


def samples(tmp_path, count=6, name="samples.npz", seed=3):
    path = tmp_path / name
    np.savez(path, x=np.random.default_rng(seed).standard_normal((count, ROWS, DEPTH)).astype(np.float32))
    return path


def compiled(tmp_path, bound, *more, name="out", model=None):
    source = save(model or network(), tmp_path / "net.onnx")
    data = tmp_path / "samples.npz"
    if not data.exists():
        samples(tmp_path)
    report = json_of("compile", source, "-o", into(tmp_path / name), "--max-error", bound, "--samples", data, *more)
    return tmp_path / name / "net_ctx.onnx", report


def bin_of(context):
    return context.parent / "net_dnnl.bin"


def proof(tmp_path, context):
    return json_of("verify", context, "--against", tmp_path / "net.onnx", "--samples", tmp_path / "samples.npz")["certificate"]


def test_a_proof_reads_the_context_once(tmp_path):
    """As often as verify without a proof, which looks at every byte, and then at the certificate."""
    context, _ = compiled(tmp_path, "1e-3")
    against = ["--against", tmp_path / "net.onnx", "--samples", tmp_path / "samples.npz"]
    opened = {}
    for name, options in (("plain", []), ("proof", against)):
        finished = run_faulty(context.parent, "verify", context, *options, FAULT_COUNT=str(tmp_path / name))
        assert finished.returncode == (0 if options else 4), finished.stderr
        opened[name] = int(re.search(r"^open (\d+)$", (tmp_path / name).read_text(), re.MULTILINE).group(1))
    assert opened["proof"] == opened["plain"] == 2


@pytest.mark.parametrize("bound", ["1e-5", "1e-3", "2e-2", "rms:0.1", "mean:0.5"])
def test_outputs_stay_within_the_bound(tmp_path, bound):
    context, report = compiled(tmp_path, bound)
    most = float(bound.rpartition(":")[2])
    certificate = proof(tmp_path, context)
    assert certificate["bound"] == most
    assert certificate["norm"] == (bound.rpartition(":")[0] or "max")
    assert certificate["searched_error"] <= 0.75 * most
    assert certificate["held_out_error"] <= most
    assert (certificate["searched"], certificate["held_out"]) == (4, 2)
    assert certificate["repeated"]["searched_error"] == pytest.approx(certificate["searched_error"], rel=0.05, abs=1e-5)
    search = report["precision_search"]
    assert sum(search["ops"].values()) == 4
    assert search["trials"] >= 1
    assert bin_of(context).stat().st_size <= search["bytes_f32"]


def test_wider_bounds_take_fewer_bits(tmp_path):
    sizes, ops = [], []
    for i, bound in enumerate(["1e-6", "1e-3", "3e-2", "0.9"]):
        context, report = compiled(tmp_path, bound, name=f"out{i}")
        sizes.append(bin_of(context).stat().st_size)
        ops.append(report["precision_search"]["ops"])
    assert sizes == sorted(sizes, reverse=True)
    assert ops[0] == {"f32": 4}
    assert ops[1] == {"weights=f16": 4}
    assert ops[3] == {"weights=s4:32": 4}
    assert "weights=s8:32" in ops[2]
    assert sizes[3] < 0.3 * sizes[0]


def test_errors_are_those_of_the_outputs(tmp_path):
    context, _ = compiled(tmp_path, "2e-2")
    data = np.load(tmp_path / "samples.npz")["x"]
    plain = tmp_path / "plain"
    done("compile", tmp_path / "net.onnx", "-o", into(plain))
    errors = []
    for sample in data:
        np.save(tmp_path / "x.npy", sample)
        outputs = []
        for model in (context, plain / "net_ctx.onnx"):
            done("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "results")
            outputs.append(np.load(tmp_path / "results" / "m3.npy").astype(np.float64))
        errors.append(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[1]).max())
    certificate = proof(tmp_path, context)
    assert certificate["searched_error"] == pytest.approx(max(errors[i] for i in (0, 1, 2, 4)), rel=1e-6)
    assert certificate["held_out_error"] == pytest.approx(max(errors[i] for i in (3, 5)), rel=1e-6)


def test_the_same_request_gives_the_same_bytes(tmp_path):
    first, _ = compiled(tmp_path, "2e-2", name="first")
    second, _ = compiled(tmp_path, "2e-2", "-j", "2", name="second")
    assert bin_of(first).read_bytes() == bin_of(second).read_bytes()
    assert first.read_bytes() == second.read_bytes()


def test_outputs_come_from_the_cache_without_a_search(tmp_path):
    cache = ["--cache-dir", tmp_path / "cache"]
    first, report = compiled(tmp_path, "2e-2", *cache, name="first")
    assert "precision_search" in report
    second, report = compiled(tmp_path, "2e-2", *cache, name="second")
    assert report["outputs_cached"]
    assert "precision_search" not in report
    assert bin_of(first).read_bytes() == bin_of(second).read_bytes()
    _, report = compiled(tmp_path, "1e-3", *cache, name="third")
    assert not report["outputs_cached"]


def test_if_needed_looks_at_the_bound_and_the_samples(tmp_path):
    _, report = compiled(tmp_path, "2e-2", "--if-needed")
    assert not report["up_to_date"]
    assert str(tmp_path / "samples.npz") in report["files_read"]
    assert compiled(tmp_path, "2e-2", "--if-needed")[1]["up_to_date"]
    assert not compiled(tmp_path, "1e-3", "--if-needed")[1]["up_to_date"]
    samples(tmp_path, seed=4)
    assert not compiled(tmp_path, "1e-3", "--if-needed")[1]["up_to_date"]


def test_readers_show_the_certificate(tmp_path):
    context, report = compiled(tmp_path, "2e-2")
    [note, *_] = report["models"][0]["partitions"][0]["notes"]
    assert note.startswith("every output is within 0.02 of f32 by the norm max")
    [program] = json_of("inspect", bin_of(context))["context"]["programs"]
    assert program["certificate"]["bound"] == 0.02
    assert program["certificate"]["programs"] == [program["hash"]]
    assert set(program["certificate"]["choices"]) <= {f"w{i}" for i in range(4)}
    counts = collections.Counter(program["certificate"]["choices"].values())
    check = json_of("check", context)
    assert {name: count for name, count in check["precisions"].items() if name != "f32"} == counts
    assert sum(check["precisions"].values()) == 4
    assert check["precisions"] == report["precision_search"]["ops"]


def test_a_proof_needs_its_samples_and_its_source(tmp_path):
    context, _ = compiled(tmp_path, "2e-2")
    finished = ctxgen("verify", context)
    assert finished.returncode == 4
    assert "certificate: every output is within 0.02 of f32" in finished.stdout
    for name in ("NOT_SATISFIED", "--samples", "--against"):
        assert name in finished.stderr
    other = samples(tmp_path, name="other.npz", seed=5)
    refused(4, "NOT_SATISFIED", "verify", context, "--against", tmp_path / "net.onnx", "--samples", other, names=["hash"])
    refused(1, "INVALID_ARGUMENT", "verify", context, "--samples", tmp_path / "samples.npz", names=["--against"])


def test_a_comparison_does_not_repeat_a_proof(tmp_path):
    context, _ = compiled(tmp_path, "1e-6")  # all of it is f32
    refused_run = ctxgen("verify", context, "--against", tmp_path / "net.onnx")
    assert refused_run.returncode == 4
    for name in ("NOT_SATISFIED", "--samples"):
        assert name in refused_run.stderr


def test_compile_verifies_by_the_certificate(tmp_path):
    compiled(tmp_path, "2e-2", "--verify")


@pytest.mark.parametrize("options", [["--portable"], ["--isa", "sse41"], ["--output-names", "r1"], ["--input-names", "r0"],
                                     ["--input-names", "r0", "--output-names", "m2"]])
def test_proofs_of_parts_and_of_other_targets_are_repeated(tmp_path, options):
    data = tmp_path / "samples.npz"
    width = WIDTH if "--input-names" in options else DEPTH
    name = "r0" if "--input-names" in options else "x"
    np.savez(data, **{name: np.random.default_rng(3).standard_normal((6, ROWS, width)).astype(np.float32)})
    context, report = compiled(tmp_path, "2e-2", *options)
    assert set(report["precision_search"]["ops"]) != {"f32"}
    assert proof(tmp_path, context)["repeated"] is not None


def test_another_source_is_noticed(tmp_path):
    context, _ = compiled(tmp_path, "2e-2")
    other = save(network(seed=8), tmp_path / "other.onnx")
    refused(4, "NOT_SATISFIED", "verify", context, "--against", other, "--samples", tmp_path / "samples.npz", names=["f32"])


def test_outputs_are_compared_by_their_names(tmp_path):
    """A source with other outputs, or with the same ones in another order, which once read beyond a vector."""
    both = network()
    both.graph.output.append(info("r1", TensorProto.FLOAT, [ROWS, WIDTH]))
    context, _ = compiled(tmp_path, "2e-2", model=both)
    swapped = network()
    swapped.graph.output.insert(0, both.graph.output[1])
    data = ["--samples", tmp_path / "samples.npz"]
    done("verify", context, "--against", save(swapped, tmp_path / "swapped.onnx"), *data)
    done("verify", context, "--against", save(network(), tmp_path / "inner.onnx"), *data)  # r1 is a value of it
    renamed = network()
    renamed.graph.node[3].output[0] = renamed.graph.node[4].input[0] = "other"
    refused(4, "NOT_SATISFIED", "verify", context, "--against", save(renamed, tmp_path / "renamed.onnx"), *data, names=['"r1"'])


def scaled(size):
    """The network, and its result in double times `size`."""
    model = network()
    [last] = (output.name for output in model.graph.output)
    model.graph.initializer.append(numpy_helper.from_array(np.array(size, np.float64), "size"))
    model.graph.node.extend([helper.make_node("Cast", [last], ["wide"], to=TensorProto.DOUBLE), helper.make_node("Mul", ["wide", "size"], ["y"])])
    model.graph.output[0].CopyFrom(info("y", TensorProto.DOUBLE, [ROWS, 16]))
    return model


@pytest.mark.parametrize("norm", ["max", "rms", "mean"])
def test_huge_outputs_have_the_error_of_small_ones(tmp_path, norm):
    """Their squares and sums overflow."""
    certificates = []
    for size in (1.0, 2.0**1020):
        context, _ = compiled(tmp_path, f"{norm}:2e-2", name=f"out{size:.0e}", model=scaled(size))
        certificates.append(proof(tmp_path, context))
    assert certificates[1]["searched_error"] == pytest.approx(certificates[0]["searched_error"], rel=1e-6)
    assert 0 < certificates[1]["searched_error"] <= 2e-2


def test_samples_without_a_finite_output_prove_nothing(tmp_path):
    np.savez(tmp_path / "samples.npz", x=np.full((4, ROWS, DEPTH), np.nan, np.float32))
    source = save(network(), tmp_path / "net.onnx")
    refused(4, "NOT_SATISFIED", "compile", source, "-o", into(tmp_path / "out"), "--max-error", "0.1", "--samples", tmp_path / "samples.npz",
            names=["finite"])
    assert not list((tmp_path / "out").glob("*"))


def test_a_model_without_a_proof_has_none(tmp_path):
    source = save(network(), tmp_path / "net.onnx")
    done("compile", source, "-o", into(tmp_path / "out"))
    done("verify", tmp_path / "out" / "net_ctx.onnx")
    refused(4, "NOT_SATISFIED", "verify", tmp_path / "out" / "net_ctx.onnx", "--against", source, "--samples",
            samples(tmp_path), names=["certificate"])


def test_a_changed_bin_is_noticed(tmp_path):
    context, _ = compiled(tmp_path, "2e-2")
    content = bytearray(bin_of(context).read_bytes())
    content[-100] ^= 1
    bin_of(context).write_bytes(content)
    finished = ctxgen("verify", context, "--against", tmp_path / "net.onnx", "--samples", tmp_path / "samples.npz")
    assert finished.returncode == 2
    assert "INVALID_GRAPH" in finished.stderr
    assert "repeated" not in finished.stdout


BOUND, NORM, SEARCHED, HELD_OUT, SEARCHED_ERROR, HELD_OUT_ERROR, PRODUCER, FINGERPRINT, CHOICES, PROGRAMS = 1, 2, 5, 6, 7, 8, 9, 10, 11, 12


def replaced(number, value):
    return lambda fields: [[n, kind, value if n == number else old] for n, kind, old in fields]


def without(number):
    return lambda fields: [field for field in fields if field[0] != number]


def more_choices(op, choice):
    forged = [CHOICES, 2, message_of([[1, 2, op], [2, 2, choice]])]
    return lambda fields: sorted([*fields, forged], key=lambda field: (field[0], field[2] if field[0] == CHOICES else b""))


def double(value):
    return struct.pack("<d", value)


@pytest.mark.parametrize(("change", "names"), [
    (lambda fields: fields, []),
    (replaced(SEARCHED, 1_000_000), ["1000000"]),
    (replaced(HELD_OUT, 2**63), [str(2**63)]),
    (replaced(SEARCHED_ERROR, double(1e-9)), ["samples of the search", "1e-09"]),
    (replaced(HELD_OUT_ERROR, double(1e-9)), ["held out", "1e-09"]),
    (replaced(NORM, b"mean"), ["the largest error"]),
    (without(CHOICES), ["of which it says nothing"]),
    (more_choices(b"w9", b"weights=f16"), ["w9", "weights=f16"]),
    (lambda fields: [[n, kind, old.replace(b"weights=", b"weighty=") if n == CHOICES else old] for n, kind, old in fields], ["is not"]),
    (replaced(PRODUCER, b"ctxgen 0.0.9"), ["0.0.9"]),
    (replaced(FINGERPRINT, b"isa=avx9"), ["avx9"]),
])
def test_forged_certificates_are_refused(tmp_path, change, names):
    context, _ = compiled(tmp_path, "2e-2")
    forge_certificates(bin_of(context), change)
    request = ["verify", context, "--against", tmp_path / "net.onnx", "--samples", tmp_path / "samples.npz"]
    if names:
        refused(4, "NOT_SATISFIED", *request, names=["certificate", *names])
    else:
        done(*request)  # the helper changes nothing else


@pytest.mark.parametrize("change", [replaced(NORM, b"xxxxx"), replaced(BOUND, double(1e-9)), replaced(SEARCHED, 0), without(PROGRAMS)])
def test_certificates_that_cannot_be_are_damage(tmp_path, change):
    context, _ = compiled(tmp_path, "2e-2")
    forge_certificates(bin_of(context), change)
    finished = ctxgen("verify", context)
    assert finished.returncode == 2
    assert "INVALID_GRAPH" in finished.stderr
    assert "certificate" in finished.stderr


def test_appending_keeps_a_certificate(tmp_path):
    context, _ = compiled(tmp_path, "2e-2")
    other = save(network(seed=9), tmp_path / "second.onnx")
    done("compile", other, "-o", tmp_path / "out" / "second_ctx.onnx", "--append", bin_of(context))
    assert proof(tmp_path, context)["repeated"] is not None
    done("compile", tmp_path / "net.onnx", "-o", tmp_path / "out" / "plain_ctx.onnx", "--append", bin_of(context))
    assert proof(tmp_path, context)["repeated"] is not None


def sharing(seed):
    """Two products with a step between them that is not compiled; the first product is the same for all seeds."""
    def weight(of, *shape):
        return (np.random.default_rng(of).standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    constants = {"w0": weight(0, DEPTH, WIDTH), "w1": weight(seed, WIDTH, WIDTH), "two": np.array(2.0, np.float64)}
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"]), helper.make_node("Cast", ["a"], ["c"], to=TensorProto.DOUBLE),
             helper.make_node("Mul", ["c", "two"], ["d"]), helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["e", "w1"], ["y"])]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, [ROWS, DEPTH])], [info("y", TensorProto.FLOAT, [ROWS, WIDTH])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return make_model(graph)


@pytest.mark.parametrize("verb", ["append", "merge"])
def test_models_that_share_a_partition_keep_their_certificates(tmp_path, verb):
    sources = [save(sharing(seed), tmp_path / f"{name}.onnx") for seed, name in ((1, "first"), (2, "second"))]
    budget = ["--max-error", "2e-2", "--samples", samples(tmp_path)]
    out = tmp_path / "out"
    done("compile", sources[0], "-o", into(out), *budget)
    if verb == "append":
        done("compile", sources[1], "-o", out / "second_ctx.onnx", *budget, "--append", out / "first_dnnl.bin")
    else:
        done("compile", sources[1], "-o", into(out), *budget)
        done("merge", out / "first_ctx.onnx", out / "second_ctx.onnx", "-o", into(tmp_path / "merged"))
        out = tmp_path / "merged"
    for source in sources:
        done("verify", out / f"{source.stem}_ctx.onnx", "--against", source, "--samples", tmp_path / "samples.npz")


@pytest.mark.parametrize(("change", "names"), [
    (replaced(BOUND, double(0.03)), ["another compile"]),
    (replaced(SEARCHED, 5), ["another compile"]),
    (lambda _: None, ["1 of 2 programs have a certificate"]),
])
def test_all_programs_of_a_model_need_the_same_proof(tmp_path, change, names):
    source = save(sharing(1), tmp_path / "net.onnx")
    done("compile", source, "-o", into(tmp_path / "out"), "--max-error", "2e-2", "--samples", samples(tmp_path))
    context, seen = tmp_path / "out" / "net_ctx.onnx", []

    def change_second(fields):
        seen.append(fields)
        return change(fields) if len(seen) == 2 else fields

    forge_certificates(bin_of(context), change_second)
    assert len(seen) == 2
    refused(4, "NOT_SATISFIED", "verify", context, "--against", source, "--samples", tmp_path / "samples.npz", names=names)


def tuning_file(tmp_path, precisions):
    """Rows for all products of network() but the last, which is small."""
    library = next(one for one in json_of("providers")["providers"] if one["name"] == "dnnl")["version"]
    rows = [{"op": "matmul", "weight": "float32", "dims": dims, "form": "table", "precisions": precisions}
            for dims in (f"{DEPTH}x{WIDTH}", f"{WIDTH}x{WIDTH}", f"{WIDTH}x{DEPTH}")]
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({"ctxgen_tuning": 1, "library": library, "instruction_set": isa_here(), "rows": rows}))
    return path


@pytest.mark.parametrize(("precisions", "expected"), [
    (["weights=f16"], {"weights=f16": 3}),
    (["weights=bf16", "weights=f16"], {"weights=bf16": 3}),
    ([], {"f32": 3}),
])
def test_measured_precisions_come_by_time(tmp_path, precisions, expected):
    _, report = compiled(tmp_path, "0.5", "--tuning", tuning_file(tmp_path, precisions))
    ops = report["precision_search"]["ops"]
    assert {name: ops.get(name, 0) for name in expected} == expected
    assert ops.get("weights=s4:32", 0) <= 1  # the last product, of which nothing is known


def test_measured_precisions_give_the_same_bytes_from_the_file(tmp_path):
    path = tmp_path / "tuning.json"
    context, _ = compiled(tmp_path, "0.05", "--tune=8", "--tuning", path)
    rows = json.loads(path.read_text())["rows"]
    assert rows and all(isinstance(row["precisions"], list) for row in rows)
    again, _ = compiled(tmp_path, "0.05", "--tuning", path, name="again")
    assert bin_of(context).read_bytes() == bin_of(again).read_bytes()
    assert proof(tmp_path, context)["repeated"]


@pytest.mark.parametrize(("bound", "precisions"), [("0.5", ["weights=f16"]), ("1e-9", ["weights=bf16"])])
def test_if_needed_looks_for_rows_with_precisions(tmp_path, bound, precisions):
    """In float32, and in narrower types, of which the file has no rows."""
    path = tuning_file(tmp_path, precisions)
    document = json.loads(path.read_text())
    document["rows"].append({**document["rows"][0], "dims": f"{DEPTH}x16"})
    path.write_text(json.dumps(document))
    options = ["--tune=1", "--tuning", path, "--if-needed"]
    _, report = compiled(tmp_path, bound, "--tuning", path)
    assert (report["precision_search"]["ops"].get("f32") == 4) == (bound == "1e-9")
    assert compiled(tmp_path, bound, *options)[1]["up_to_date"]
    if bound == "1e-9":
        del document["rows"][0]["precisions"]
        path.write_text(json.dumps(document))
        compiled(tmp_path, bound, "--tuning", path)
        assert not compiled(tmp_path, bound, *options)[1]["up_to_date"]


def test_a_search_that_does_not_hold_writes_nothing(tmp_path):
    """The samples that are held out are far larger: their errors are, too."""
    source, path = save(saturating(), tmp_path / "net.onnx"), tmp_path / "samples.npz"
    data = np.random.default_rng(3).standard_normal((4, ROWS, DEPTH)).astype(np.float32)
    data[:3] = 0
    np.savez(path, x=data)
    refused(4, "NOT_SATISFIED", "compile", source, "-o", into(tmp_path / "out"), "--max-error", "1e-3", "--samples", path, names=["held out"])
    assert not list((tmp_path / "out").glob("*"))


def saturating():
    return network()


@pytest.mark.parametrize(("options", "names"), [
    (["--max-error", "0.1"], ["--samples"]),
    (["--samples", "samples.npz"], ["--max-error"]),
    (["--max-error", "0", "--samples", "samples.npz"], ["--max-error"]),
    (["--max-error", "l2:0.1", "--samples", "samples.npz"], ["rms"]),
    (["--max-error", "0.1", "--samples", "samples.npz", "--provider-option", "dnnl:weights=bf16"], ["dnnl:weights"]),
    (["--max-error", "0.1", "--samples", "samples.npz", "--subgraphs"], ["--subgraphs"]),
    (["--max-error", "0.1", "--samples", "samples.npz", "--isa", "avx2,sse41"], ["--isa"]),
])
def test_options_that_do_not_fit_are_refused(tmp_path, monkeypatch, options, names):
    source = save(network(), tmp_path / "net.onnx")
    samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    refused(1, "INVALID_ARGUMENT", "compile", source, *options, names=names)


def test_samples_that_do_not_fit_are_refused(tmp_path):
    source, path = save(network(), tmp_path / "net.onnx"), tmp_path / "samples.npz"
    for arrays in ({"y": np.zeros((2, ROWS, DEPTH), np.float32)}, {"x": np.zeros((2, DEPTH), np.float32)},
                   {"x": np.zeros((1, ROWS, DEPTH), np.float32)}, {"x": np.zeros((2, ROWS, DEPTH), np.int64)}):
        np.savez(path, **arrays)
        refused(1, "INVALID_ARGUMENT", "compile", source, "--max-error", "0.1", "--samples", path, names=["samples"])
