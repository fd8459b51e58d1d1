"""What stays in a context model is covered by its content hash, and a plain model does not pass for a compiled one."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_support import conv_model, ctxgen, done, json_of, make_model, refused, save
from content_hash import content_hash
from onnx import TensorProto, external_data_helper, helper, numpy_helper

MODELS = Path(os.environ.get("CTXGEN_MODELS", "/nowhere"))
KEY = "ctxgen.content_hash"


def lookup_model(rows=64, width=8):
    """ids -> GatherND (stays: it reads a table by values) -> MatMul (compiled) -> Mod (stays) -> y."""
    random = np.random.default_rng(0)

    def weight(name, *shape):
        return numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32), name)

    graph = helper.make_graph(
        [
            helper.make_node("GatherND", ["table", "ids"], ["rows"], name="gather"),
            helper.make_node("MatMul", ["rows", "w"], ["m"], name="product"),
            helper.make_node("Mod", ["m", "small"], ["y"], name="rest", fmod=1),
        ],
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [3, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 8])],
        [weight("table", rows, width), weight("w", width, 8), numpy_helper.from_array(np.full((1, 8), 3, np.float32), "small")],
    )
    return make_model(graph)


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}


def states(context, status):
    """{what: state} of `verify`, which must end so."""
    finished = ctxgen("verify", context, "--json")
    assert finished.returncode == status, finished.stdout + finished.stderr
    result = json.loads(finished.stdout)
    assert result["intact"] == (status == 0)
    assert all(one["intact"] == (one["state"] in ("intact", "not covered")) for one in result["integrity"])
    return {one["what"]: one["state"] for one in result["integrity"]}


def flip(path, at, bit=0):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def place_of(path, needle):
    data = path.read_bytes()
    assert data.count(needle) == 1
    return data.index(needle)


TABLE = np.random.default_rng(0).standard_normal((64, 8), dtype=np.float32).tobytes()  # as lookup_model() makes it


@pytest.fixture
def lookup(tmp_path):
    done("compile", save(lookup_model(), tmp_path / "net.onnx"), "-q")
    return tmp_path / "net_ctx.onnx"


# ---- the hash itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--embed"], ["--external-initializers", "net.weights"], ["--provider", "cpu"], ["--fix-dim", "n=3"]])
def test_the_hash_is_that_of_the_documented_form(tmp_path, options):
    model = lookup_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    done("compile", save(model, tmp_path / "net.onnx"), "-q", *options)
    context = tmp_path / "net_ctx.onnx"
    assert metadata(context)[KEY] == content_hash(onnx.load(context, load_external_data=False), tmp_path)
    assert set(states(context, 0).values()) == {"intact"}


@pytest.mark.skipif(not MODELS.is_dir(), reason="CTXGEN_MODELS names no folder of trained models")
@pytest.mark.parametrize("name", ["silero_vad_v6", "gpt2_tiny_past", "lstm_scan_cntk", "crop_and_resize_loop", "xgboost_regressor", "magika_v3_3"])
def test_the_hash_of_trained_models(tmp_path, name):
    source = next((MODELS / name).glob("*.onnx"))
    done("compile", "-q", source, "-o", f"{tmp_path}/", "--subgraphs")
    context = next(tmp_path.glob("*_ctx.onnx"))
    assert metadata(context)[KEY] == content_hash(onnx.load(context, load_external_data=False), tmp_path)
    assert set(states(context, 0).values()) == {"intact"}


def test_in_other_words(lookup):
    """Saved anew, with other texts, metadata in another order, numbers in other fields: the same content."""
    model = onnx.load(lookup)
    onnx.save(model, lookup)
    assert set(states(lookup, 0).values()) == {"intact"}
    model.doc_string = "doc"
    model.producer_name = "another tool"
    for entry in sorted(model.metadata_props, key=lambda entry: entry.key):
        model.metadata_props.add(key=entry.key, value=entry.value)
    del model.metadata_props[: len(model.metadata_props) // 2]
    model.metadata_props.add(key="licence", value="MIT")
    for node in model.graph.node:
        node.doc_string = "doc"
        node.name += "_renamed"
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(values.ravel())
    del model.graph.value_info[:]
    onnx.save(onnx.shape_inference.infer_shapes(model), lookup)
    assert set(states(lookup, 0).values()) == {"intact"}
    assert "warning" not in done("run", lookup).stderr


def test_external_data_of_another_tool(lookup):
    model = onnx.load(lookup)
    onnx.save(model, lookup, save_as_external_data=True, location="moved.data", size_threshold=0)
    assert external_data_helper.uses_external_data(onnx.load(lookup, load_external_data=False).graph.initializer[0])
    assert states(lookup, 0)["content"] == "intact"
    flip(lookup.with_name("moved.data"), 5)
    assert states(lookup, 4)["content"] == "changed"


# ---- changes and damage ------------------------------------------------------------------------------


def change_attribute(model):
    next(node for node in model.graph.node if node.op_type == "Mod").attribute[0].i = 0


def change_initializer(model):
    small = next(tensor for tensor in model.graph.initializer if tensor.name == "small")
    small.CopyFrom(numpy_helper.from_array(np.full((1, 8), 2, np.float32), "small"))


def rename_input(model):
    model.graph.input[0].name = "indices"
    next(node for node in model.graph.node if node.op_type == "GatherND").input[1] = "indices"


def add_node(model):
    model.graph.node[-1].output[0] = "unscaled"
    model.graph.node.append(helper.make_node("Neg", ["unscaled"], ["y"]))


@pytest.mark.parametrize("change", [change_initializer, rename_input, add_node])
def test_what_a_tool_changed_runs_with_a_warning(lookup, change):
    model = onnx.load(lookup)
    change(model)
    onnx.save(model, lookup)
    found = states(lookup, 4)
    assert found.pop("content") == "changed" and set(found.values()) == {"intact"}
    assert "NOT_SATISFIED" in ctxgen("verify", lookup).stderr
    assert "warning" in done("run", lookup).stderr
    assert "warning" in done("run", lookup, "--verify-blobs", "always").stderr
    assert "warning" not in done("run", lookup, "--verify-blobs", "never").stderr
    assert ctxgen("verify", lookup, "--against", lookup.with_name("net.onnx")).returncode in (1, 4)


def test_a_flipped_bit_is_damage(lookup):
    place = place_of(lookup, TABLE)
    for at in [place, place + len(TABLE) - 1, place_of(lookup, b"Mod"), place_of(lookup, b"fmod") + 1, place_of(lookup, b"ctxgen.content_hash") + 25]:
        flip(lookup, at)
        finished = ctxgen("verify", lookup)
        assert finished.returncode == 2 and "INVALID_GRAPH" in finished.stderr, at
        refused(2, "INVALID_GRAPH", "run", lookup)
        refused(2, "INVALID_GRAPH", "bench", lookup, "--verify-blobs", "always")
        flip(lookup, at)
    assert set(states(lookup, 0).values()) == {"intact"}
    flip(lookup, place)
    assert states(lookup, 2)["content"] == "damaged"
    done("run", lookup, "--verify-blobs", "never")


def test_damage_after_another_tool_saved_it(lookup):
    """The mark of our writer is gone: it cannot be told from a change, but it does not pass."""
    onnx.save(onnx.load(lookup), lookup)
    flip(lookup, place_of(lookup, TABLE))
    assert states(lookup, 4)["content"] == "changed"


def test_flips_in_the_file_of_external_initializers(tmp_path):
    done("compile", save(lookup_model(), tmp_path / "net.onnx"), "-q", "--external-initializers", "net.weights")
    context, weights = tmp_path / "net_ctx.onnx", tmp_path / "net.weights"
    assert states(context, 0)["net.weights"] == "intact"
    size = weights.stat().st_size
    for at in [0, 8, 16, 32, 50, 64, size - 1]:  # magic, version, hashes, zeros, tensors
        flip(weights, at)
        assert states(context, 2)["net.weights"] == "damaged", at
        flip(weights, at)
    flip(weights, size - 1)
    refused(2, "INVALID_GRAPH", "run", context)
    done("run", context, "--verify-blobs", "never")
    onnx.save(onnx.load(context, load_external_data=False), context)  # which does not make it a change
    refused(2, "INVALID_GRAPH", "run", context)
    assert states(context, 2)["net.weights"] == "damaged"


def test_damage_in_what_another_model_of_the_batch_uses(tmp_path):
    """Each model of a batch vouches for the whole file that they share."""
    save(lookup_model(), tmp_path / "a.onnx")
    save(lookup_model(rows=100), tmp_path / "b.onnx")
    done("compile", "-q", tmp_path / "a.onnx", tmp_path / "b.onnx", "--external-initializers", "both.weights")
    flip(tmp_path / "both.weights", (tmp_path / "both.weights").stat().st_size - 1)
    for name in "ab":
        assert states(tmp_path / f"{name}_ctx.onnx", 2)["both.weights"] == "damaged"


def test_a_model_of_an_earlier_version_loads_and_is_not_covered(tmp_path):
    done("compile", save(lookup_model(), tmp_path / "net.onnx"), "-q", "--external-initializers", "net.weights")
    context, weights = tmp_path / "net_ctx.onnx", tmp_path / "net.weights"
    model = onnx.load(context, load_external_data=False)
    for entry in [entry for entry in model.metadata_props if entry.key == KEY]:
        model.metadata_props.remove(entry)
    onnx.save(model, context)
    data = bytearray(weights.read_bytes())
    data[32:48] = bytes(16)
    weights.write_bytes(data)
    found = states(context, 0)
    assert found["content"] == "not covered" and found["net.weights"] == "not covered"
    done("run", context, "--verify-blobs", "always")


def test_auto_leaves_out_what_is_large(tmp_path):
    """A table of 16 MiB stays in the model: only `always` reads it."""
    done("compile", save(lookup_model(rows=1 << 16, width=64), tmp_path / "net.onnx"), "-q")
    context = tmp_path / "net_ctx.onnx"
    flip(context, context.stat().st_size // 2)
    done("run", context)
    refused(2, "INVALID_GRAPH", "run", context, "--verify-blobs", "always")
    assert states(context, 2)["content"] == "damaged"


# ---- plain models -------------------------------------------------------------------------------------


def test_a_plain_model_does_not_pass(tmp_path):
    plain = save(conv_model(), tmp_path / "plain.onnx")
    refused_verify = ctxgen("verify", plain)
    assert refused_verify.returncode == 4 and "NOT_SATISFIED" in refused_verify.stderr
    assert states(plain, 4) == {"plain.onnx": "not compiled"}
    assert ctxgen("verify", plain, "--against", plain).returncode == 4
    finished = ctxgen("check", plain, "--json")
    assert finished.returncode == 4
    result = json.loads(finished.stdout)
    assert (result["verdict"], result["partitions"]) == ("not compiled", 0)
    assert ctxgen("check", plain).returncode == 4


def test_a_compile_that_found_nothing_to_compile(tmp_path):
    source = save(conv_model(), tmp_path / "net.onnx")
    done("compile", source, "--provider", "cpu", "-q")
    context = tmp_path / "net_ctx.onnx"
    assert json_of("check", context)["verdict"] == "optimal"
    assert states(context, 0)["content"] == "intact"
    assert json_of("verify", context, "--against", source)["match"]
    assert json_of("compile", source, "--provider", "cpu", "--if-needed")["up_to_date"]
    flip(context, context.stat().st_size // 2)
    assert states(context, 2)["content"] == "damaged"
    refused(2, "INVALID_GRAPH", "run", context, "--provider", "cpu")
