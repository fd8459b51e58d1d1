"""ctxgen verify and compile --verify: integrity, and outputs against the source, partition by partition."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_support import conv_model, ctxgen, done, ep_nodes, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))


def chain_model(first=1, second=2):
    """x -> MatMul, Relu (partition) -> Mod (cpu) -> MatMul, Relu (partition) -> y; weights by seed."""

    def weight(name, seed):
        return numpy_helper.from_array(np.random.default_rng(seed).standard_normal((8, 8), dtype=np.float32), name)

    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["xa"], name="first"),
        helper.make_node("Relu", ["xa"], ["left"], name="relu_1"),
        helper.make_node("Mod", ["left", "three"], ["middle"], name="between", fmod=1),
        helper.make_node("MatMul", ["middle", "b"], ["mb"], name="second"),
        helper.make_node("Relu", ["mb"], ["y"], name="relu_2"),
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [weight("a", first), weight("b", second), numpy_helper.from_array(np.full(8, 3, np.float32), "three")],
    )
    return make_model(graph)


def random_model():
    """A source that gives something else at each run."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"], name="noise"),
        helper.make_node("MatMul", ["noise", "w"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    return make_model(graph)


@pytest.fixture
def chain(tmp_path):
    source = save(chain_model(), tmp_path / "chain.onnx")
    done("compile", source)
    return source, tmp_path / "chain_ctx.onnx"


def test_equal_outputs_of_every_partition(chain):
    source, context = chain
    result = json_of("verify", context, "--against", source, "--dim", "n=1,5", "--runs", "2")
    assert result["intact"] and result["match"] and result["first_divergence"] is None
    assert [run["inputs"] for run in result["runs"]] == ["seed 0, n=1", "seed 1, n=1", "seed 0, n=5", "seed 1, n=5"]
    for run in result["runs"]:
        assert [(one["name"], one["match"]) for one in run["partitions"]] == [("left", True), ("y", True)]
        assert [(one["name"], one["match"]) for one in run["outputs"]] == [("y", True)]
        assert all(one["cosine"] > 0.999999 and one["max_abs"] < 1e-5 for one in run["partitions"])
    names = {one["what"] for one in result["integrity"]}
    assert {"chain_ctx.onnx", "chain_dnnl.bin", "metadata"} < names
    assert "outputs were not compared" in done("verify", context).stdout


def looping_model(first=1, second=2, skipped=3):
    """Loop { state -> MatMul, Relu (partition) -> Mod (cpu) -> If { MatMul, Relu (partition), Mod | the same } }: both branches have the
    same names, and the second one starts with the third iteration."""

    def weight(name, seed):
        return numpy_helper.from_array(np.random.default_rng(seed).standard_normal((8, 8), dtype=np.float32), name)

    def branch(name, seed):
        nodes = [
            helper.make_node("MatMul", ["middle", "w"], ["product"], name="product"),
            helper.make_node("Relu", ["product"], ["positive"], name="relu"),
            helper.make_node("Mod", ["positive", "three"], ["out"], name="rest", fmod=1),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("out", TensorProto.FLOAT, [4, 8])], [weight("w", seed)])

    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "a"], ["sa"], name="first"),
            helper.make_node("Relu", ["sa"], ["left"], name="relu_1"),
            helper.make_node("Mod", ["left", "three"], ["middle"], name="between", fmod=1),
            helper.make_node("Less", ["i", "two"], ["early"], name="when"),
            helper.make_node("If", ["early"], ["next"], name="which", then_branch=branch("early", second), else_branch=branch("late", skipped)),
            helper.make_node("Identity", ["go_in"], ["go_out"], name="on"),
        ],
        "loop",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("go_out", TensorProto.BOOL, []), helper.make_tensor_value_info("next", TensorProto.FLOAT, [4, 8])],
        [weight("a", first), numpy_helper.from_array(np.full(8, 3, np.float32), "three"), numpy_helper.from_array(np.array(2), "two")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "go", "x"], ["y"], name="outer", body=body)], "looping",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [numpy_helper.from_array(np.array(4), "count"), numpy_helper.from_array(np.array(True), "go")],
    )
    return make_model(graph)


@pytest.fixture
def looping(tmp_path):
    source = save(looping_model(), tmp_path / "looping.onnx")
    done("compile", source, "--subgraphs")
    return source, tmp_path / "looping_ctx.onnx"


def test_partitions_in_bodies(looping):
    source, context = looping
    result = json_of("verify", context, "--against", source, "--runs", "1")
    assert result["intact"] and result["match"]
    (run,) = result["runs"]
    assert [(one["name"], one["match"]) for one in run["partitions"]] == [("left", True), ("positive", True), ("positive", True)]
    assert len({one["partition"] for one in run["partitions"]}) == 3 and run["without_reference"] == []


@pytest.mark.parametrize(("other", "guilty"), [({"first": 9}, 0), ({"second": 9}, 1), ({"skipped": 9}, 2)])
def test_the_guilty_partition_of_a_body_is_named_and_no_other(looping, tmp_path, other, guilty):
    source, context = looping
    names = [one["partition"] for one in json_of("verify", context, "--against", source, "--runs", "1")["runs"][0]["partitions"]]
    other_source = save(looping_model(**other), tmp_path / "other.onnx")
    finished = ctxgen("verify", context, "--against", other_source, "--runs", "1", "--json")
    assert finished.returncode == 4, finished.stderr
    result = json.loads(finished.stdout)
    assert [one["match"] for one in result["runs"][0]["partitions"]] == [place != guilty for place in range(3)]
    assert result["first_divergence"]["partition"] == names[guilty]


@pytest.mark.parametrize(("other", "guilty"), [({"first": 9}, "left"), ({"second": 9}, "y")])
def test_the_guilty_partition_is_named_and_no_other(chain, tmp_path, other, guilty):
    _, context = chain
    source = save(chain_model(**other), tmp_path / "other.onnx")
    finished = ctxgen("verify", context, "--against", source)
    assert finished.returncode == 4
    name = {n.output[0]: n.name for n in ep_nodes(context)}[guilty]
    assert f'NOT_SATISFIED: partition "{name}": output "{guilty}" differs from the source' in finished.stderr
    assert finished.stdout.count("MISMATCH") == 2  # that partition, and the model's output
    assert "3 runs compared; 1 of 2 partition outputs match" in finished.stdout


def test_another_models_source_is_refused(chain, tmp_path):
    _, context = chain
    refused(1, "INVALID_ARGUMENT", "verify", context, "--against", save(conv_model(), tmp_path / "conv.onnx"),
            names=["another model's"])


def test_each_damaged_byte_of_the_binary_is_found(chain):
    _, context = chain
    binary = context.with_name("chain_dnnl.bin")
    whole = binary.read_bytes()
    blobs = len(whole) - 256  # the last blob has 256 bytes
    for at in [0, 9, 60, 200, 4090, blobs, len(whole) - 1]:  # header, manifest, padding, weights
        binary.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        finished = ctxgen("verify", context, "--json")
        assert finished.returncode == 2 and '"intact":false' in finished.stdout.replace(" ", ""), at
        assert "INVALID_GRAPH" in finished.stderr and "chain_dnnl.bin" in finished.stderr, at
    binary.unlink()
    assert ctxgen("verify", context).returncode == 2


def test_metadata_of_another_target_is_found(chain):
    _, context = chain
    model = onnx.load(context)
    for entry in model.metadata_props:
        if entry.key.startswith("ep_compatibility_info."):
            entry.value += ";more"
    onnx.save(model, context)
    finished = ctxgen("verify", context)
    assert finished.returncode == 2 and "DAMAGED" in finished.stdout and "ep_compatibility_info" in finished.stderr


@pytest.mark.parametrize("options", [
    ["--runs", "2"], ["--seed", "1"], ["--dim", "n=1"], ["--rtol", "1"], ["--test-data", "."], ["--special-values", "nan"],
])
def test_options_without_a_source_are_refused(chain, options):
    refused(1, "INVALID_ARGUMENT", "verify", chain[1], *options, names=[options[0], "--against"])


def test_given_inputs(chain, tmp_path):
    source, context = chain
    np.save(tmp_path / "x.npy", np.full((3, 8), 2, np.float32))
    result = json_of("verify", context, "--against", source, "--input", f"x={tmp_path / 'x.npy'}", "--runs", "1")
    assert result["match"]
    refused(1, "INVALID_ARGUMENT", "verify", context, "--against", source, "--test-data", tmp_path, "--seed", "2",
            names=["--seed", "--test-data"])


def test_compile_verifies_every_model_and_profile(tmp_path):
    save(chain_model(), tmp_path / "a.onnx")
    save(chain_model(second=5), tmp_path / "b.onnx")
    report = json_of("compile", tmp_path / "a.onnx", tmp_path / "b.onnx", "--verify", "--dim", "n=1,3")
    for model in report["models"]:
        assert model["verification"]["match"]
        assert [run["inputs"] for run in model["verification"]["runs"]] == ["seed 0, n=1", "seed 0, n=3"]
    plain = done("compile", tmp_path / "a.onnx", "-o", tmp_path / "alone/", "--verify").stdout
    assert "1 run compared; 2 of 2 partition outputs match" in plain


def test_compile_from_stdin_is_verified(tmp_path):
    data = chain_model().SerializeToString()
    finished = ctxgen("compile", "-", "-o", tmp_path / "in_ctx.onnx", "--verify", data=data, text=False)
    assert finished.returncode == 0 and b"2 of 2 partition outputs match" in finished.stdout


def test_a_difference_leaves_the_outputs_and_says_4(tmp_path):
    source = save(random_model(), tmp_path / "random.onnx")
    finished = ctxgen("compile", source, "--verify", "--report", tmp_path / "report.json")
    assert finished.returncode == 4
    assert "NOT_SATISFIED: --verify: " in finished.stderr and 'output "y" differs' in finished.stderr
    assert (tmp_path / "random_ctx.onnx").exists() and (tmp_path / "random_dnnl.bin").exists()
    assert '"match":false' in (tmp_path / "report.json").read_text().replace(" ", "")


def test_nothing_written_to_verify(tmp_path):
    source = save(chain_model(), tmp_path / "chain.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, "--embed", "-o", "-", "--verify", names=["-o -", "--verify"])


DATA = ["silero_vad_v6", "gpt2_tiny_past", "squeezenet_fp16", "palm_detection_lite", "rfb320_face"]


@pytest.mark.skipif(not MODELS.is_dir(), reason="CTXGEN_MODELS names no folder of trained models")
@pytest.mark.parametrize("name", DATA)
def test_trained_models_on_their_test_data(name, tmp_path):
    folder = MODELS / name
    source = next(folder.glob("*.onnx"))
    done("compile", "-q", source, "-o", f"{tmp_path}/")
    context = next(tmp_path.glob("*_ctx.onnx"))
    result = json_of("verify", context, "--against", source, "--test-data", folder)
    assert result["match"], result["first_divergence"]
    assert len(result["runs"]) == len(list(folder.glob("test_data_set_*")))


@pytest.mark.skipif(not MODELS.is_dir(), reason="CTXGEN_MODELS names no folder of trained models")
def test_an_int8_model_within_its_steps(tmp_path):
    """A rounding more or less is a whole step: counted in its row, and not to be had where the tolerance is given."""
    source = MODELS / "micro_kws_qdq" / "model.onnx"
    done("compile", "-q", source, "-o", f"{tmp_path}/")
    result = json_of("verify", tmp_path / "model_ctx.onnx", "--against", source)
    assert result["match"] and result["rtol"] is None and result["atol"] is None
    for value in result["runs"][0]["outputs"]:
        assert "step" in value["row"] and value["atol"] < 0.05 and value["used"] <= 1
    given = json_of("verify", tmp_path / "model_ctx.onnx", "--against", source, "--atol", 1.01 / 255)
    assert given["atol"] == 1.01 / 255 and {value["row"] for value in given["runs"][0]["outputs"]} == {"given"}


def half_model():
    """x (float32) -> float16 -> MatMul, Relu, MatMul -> float32 y: what rounds is inside."""
    random = np.random.default_rng(3)
    weights = [numpy_helper.from_array(random.standard_normal((64, 64)).astype(np.float16) / np.float16(8), name) for name in "ab"]
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "a"], ["ha"]),
        helper.make_node("Relu", ["ha"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["rb"]),
        helper.make_node("Cast", ["rb"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes, "half", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])], weights)
    return make_model(graph)


def test_the_tolerance_follows_what_is_inside_and_not_the_output(tmp_path, chain):
    source = save(half_model(), tmp_path / "half.onnx")
    done("compile", "-q", source)
    (value,) = json_of("verify", tmp_path / "half_ctx.onnx", "--against", source)["runs"][0]["outputs"]
    assert (value["row"], value["rtol"]) == ("f16", 8 * 2**-10) and 0 < value["used"] < 0.5
    (value,) = json_of("verify", chain[1], "--against", chain[0])["runs"][0]["outputs"]
    assert value["row"] == "f32" and value["rtol"] < 5e-5 and value["used"] < 1


def test_a_relative_error_of_a_thousandth_in_a_float_model_is_found(chain, tmp_path):
    model = onnx.load(chain[0])
    scaled = numpy_helper.to_array(model.graph.initializer[0]) * np.float32(1.001)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(scaled, model.graph.initializer[0].name))
    assert ctxgen("verify", chain[1], "--against", save(model, tmp_path / "scaled.onnx")).returncode == 4


def test_nan_and_infinity_are_tried_and_reported_by_themselves(chain):
    """The Relu that is fused into a product makes 0 of a NaN (docs/numerics.md): a finding, no failure."""
    source, context = chain
    result = json_of("verify", context, "--against", source, "--runs", "1", "--dim", "n=2")
    assert result["match"] and result["first_divergence"] is None
    assert [run["inputs"] for run in result["special_values"]] == ["seed 0, n=2, nan", "seed 0, n=2, infinity"]
    nan = result["special_values"][0]
    assert not nan["match"] and nan["error"] is None
    assert nan["differences"] and all(value["not_finite"] == value["mismatches"] > 0 and value["partition"] for value in nan["differences"])
    assert "handled differently from the source" in done("verify", context, "--against", source, "--runs", "1").stdout


@pytest.mark.parametrize(("words", "runs"), [("none", []), ("nan", ["nan"]), ("infinity", ["infinity"]), ("infinity,nan", ["nan", "infinity"])])
def test_special_values_are_chosen(chain, words, runs):
    source, context = chain
    result = json_of("verify", context, "--against", source, "--runs", "1", "--special-values", words)
    assert [run["inputs"].split(", ")[-1] for run in result["special_values"]] == runs


def test_special_values_that_contradict_are_refused(chain):
    source, context = chain
    assert ctxgen("verify", context, "--against", source, "--special-values", "zero").returncode == 1
    assert ctxgen("verify", context, "--against", source, "--special-values", "none,nan").returncode == 1


@pytest.mark.parametrize("number", ["nan", "-1", "inf", "x"])
def test_a_tolerance_is_a_number(chain, number):
    for option in ["--rtol", "--atol"]:
        assert ctxgen("verify", chain[1], "--against", chain[0], option, number).returncode == 1
