"""merge, split, embed, extract: what they write is, byte for byte, what one compile of the same models writes."""

import os
import pathlib
import shutil

import numpy as np
import onnx
import pytest
from cli_support import conv_model, done, has_isa, into, json_of, make_model, refused, save, temporaries
from onnx import TensorProto, helper, numpy_helper
from test_external_initializers import lookup_model
from test_subgraphs import if_model

MODELS = os.environ.get("CTXGEN_MODELS")


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def two_parts(seed):
    """Two partitions with a node in between that stays."""
    model = conv_model(seed=seed, tail=helper.make_node("Mod", ["z", "three"], ["m"], name="mod", fmod=1))
    model.graph.node.append(helper.make_node("Gemm", ["m", "gw2", "gb"], ["y"], name="last"))
    random = np.random.default_rng(seed)
    model.graph.initializer.append(numpy_helper.from_array(np.full(10, 3, np.float32), "three"))
    model.graph.initializer.append(numpy_helper.from_array(random.standard_normal((10, 10), dtype=np.float32), "gw2"))
    return model


def renamed(model, old, new):
    """The same network with another name of a value: the same content, another interface."""
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    for value in [*model.graph.input, *model.graph.output]:
        value.name = new if value.name == old else value.name
    return model


def with_foreign(seed):
    """A node of another provider after ours."""
    model = conv_model(seed=seed, tail=helper.make_node("EPContext", ["z"], ["y"], name="theirs", domain="com.microsoft", source="OtherEP",
                                                        partition_name="p", embed_mode=0, main_context=1, ep_cache_context="theirs.bin"))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


# By name: what is compiled.
SOURCES = {
    "a": lambda: conv_model(seed=1),
    "b": lambda: conv_model(seed=2),
    "same_weights": lambda: two_parts(1),
    "two": lambda: two_parts(4),
    "renamed": lambda: renamed(conv_model(seed=1), "x", "image"),
    "nothing": lambda: make_model(helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.STRING, [1])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [1])])),
    "lookup": lambda: lookup_model(1),
    "lookup2": lambda: lookup_model(2),
    "branches": if_model,
    "branches2": lambda: if_model(shared_outside=True),
    "foreign": lambda: with_foreign(3),
}

BATCHES = [
    (("a", "b"), ()),
    (("b", "a", "two"), ()),
    (("a", "same_weights"), ()),
    (("a", "renamed"), ()),  # one content, two interfaces: names must not depend on which came first
    (("renamed", "a"), ("--node-prefix", "p_")),
    (("nothing", "a"), ()),
    (("lookup", "a", "lookup2"), ()),
    (("lookup", "lookup2", "two"), ("--external-initializers", "all.data")),
    (("two", "same_weights"), ("--external-initializers", "all.data", "--external-threshold", "64")),
    (("branches", "a", "branches2"), ("--subgraphs",)),
    (("a", "two"), ("--dim", "batch=1,4")),
    (("a", "two"), ("--compress",)),
    (("two", "a"), ("--compress=3", "--external-initializers", "w")),
    (("a", "b"), ("--portable",)),
    (("a", "two"), ("--isa", "avx2,avx512_core")),
    (("foreign", "a"), ()),
]


@pytest.fixture
def sources(tmp_path):
    """Makes models in a folder of their own."""

    def make(*names):
        folder = tmp_path / "sources"
        for name in names:
            save(SOURCES[name](), folder / f"{name}.onnx")
            if name == "foreign":
                (folder / "theirs.bin").write_bytes(b"their bytes")
        return [folder / f"{name}.onnx" for name in names]

    return make


def usable(options):
    return "avx512_core" not in " ".join(options) or has_isa("avx512_core")


def make_batch(tmp_path, paths, options):
    """The folder of a batch, and those of its models compiled alone."""
    done("compile", ",".join(map(str, paths)), "-o", into(tmp_path / "batch"), *options)
    alone = {}
    for path in paths:
        alone[path.stem] = tmp_path / "alone" / path.stem
        alone[path.stem].parent.mkdir(exist_ok=True)
        done("compile", path, "-o", into(alone[path.stem]), *options)
    return tmp_path / "batch", alone


@pytest.mark.parametrize("names, options", BATCHES, ids=lambda value: "-".join(value).replace("--", ""))
def test_merged_is_a_batch_and_split_is_alone(tmp_path, sources, names, options):
    if not usable(options):
        pytest.skip("this machine has one of the instruction sets only")
    batch, alone = make_batch(tmp_path, sources(*names), options)
    naming = [option for option in options if option.startswith("--external-initializers") or option in ("all.data", "w")]
    report = json_of("merge", *(alone[name] / f"{name}_ctx.onnx" for name in names), "-o", tmp_path / "merged", *naming)
    assert files_of(tmp_path / "merged") == files_of(batch)
    assert sorted(report) == sorted(["models", "bins", "files", "programs", "programs_shared", "weight_bytes_added", "weight_bytes_stored",
                                     "dry_run", "files_read", "seconds"])
    assert [model["output"] for model in report["models"]] == [f"{name}_ctx.onnx" for name in names]
    for name in names:
        done("split", tmp_path / "merged" / f"{name}_ctx.onnx", "-o", into(tmp_path / f"split_{name}"), *naming)
        assert files_of(tmp_path / f"split_{name}") == files_of(alone[name]), name
        if name != "foreign":
            done("verify", tmp_path / "merged" / f"{name}_ctx.onnx")


@pytest.mark.parametrize("name, options", [("a", ()), ("two", ()), ("lookup", ("--external-initializers", "all.data")), ("a", ("--compress",)),
                                           ("a", ("--isa", "avx2,avx512_core"))])
def test_embedded_is_as_compiled_so(tmp_path, sources, name, options):
    if not usable(options):
        pytest.skip("this machine has one of the instruction sets only")
    (path,) = sources(name)
    done("compile", path, "-o", into(tmp_path / "file"), *options)
    done("compile", path, "--embed", "-o", into(tmp_path / "inside"), *options)
    done("embed", tmp_path / "file" / f"{name}_ctx.onnx", "-o", into(tmp_path / "embedded"))
    assert files_of(tmp_path / "embedded") == files_of(tmp_path / "inside")
    done("extract", tmp_path / "embedded" / f"{name}_ctx.onnx", "-o", into(tmp_path / "extracted"))
    assert files_of(tmp_path / "extracted") == files_of(tmp_path / "file")


def test_embed_takes_one_model_out_of_a_group(tmp_path, sources):
    batch, _ = make_batch(tmp_path, sources("a", "two"), ())
    done("compile", tmp_path / "sources" / "two.onnx", "--embed", "-o", tmp_path / "two_ctx.onnx")
    done("embed", batch / "two_ctx.onnx", "-o", tmp_path / "embedded.onnx")
    assert (tmp_path / "embedded.onnx").read_bytes() == (tmp_path / "two_ctx.onnx").read_bytes()


def test_merging_takes_any_form_and_groups_that_are_merged(tmp_path, sources):
    paths = sources("a", "b", "two")
    batch, alone = make_batch(tmp_path, paths, ())
    done("embed", alone["a"] / "a_ctx.onnx", "-o", tmp_path / "a_ctx.onnx")
    done("merge", alone["b"] / "b_ctx.onnx", alone["two"] / "two_ctx.onnx", "-o", tmp_path / "some")
    done("merge", tmp_path / "a_ctx.onnx", tmp_path / "some" / "b_ctx.onnx", tmp_path / "some" / "two_ctx.onnx", "-o", tmp_path / "merged")
    assert files_of(tmp_path / "merged") == files_of(batch)


def test_merging_what_was_appended_is_a_batch(tmp_path, sources):
    a, b = sources("a", "two")
    done("compile", a, "-o", into(tmp_path / "group"))
    done("compile", b, "-o", into(tmp_path / "group"), "--append", tmp_path / "group" / "a_dnnl.bin")
    done("compile", f"{b},{a}", "-o", tmp_path / "batch")
    done("merge", tmp_path / "group" / "two_ctx.onnx", tmp_path / "group" / "a_ctx.onnx", "-o", tmp_path / "merged")
    assert files_of(tmp_path / "merged") == files_of(tmp_path / "batch")


def test_a_merged_set_is_current(tmp_path, sources):
    paths = sources("a", "b")
    _, alone = make_batch(tmp_path, paths, ())
    done("merge", alone["a"] / "a_ctx.onnx", alone["b"] / "b_ctx.onnx", "-o", tmp_path / "merged")
    batch = ["compile", ",".join(map(str, paths)), "-o", tmp_path / "merged", "--if-needed"]
    assert json_of(*batch)["up_to_date"]
    assert json_of("compile", paths[0], "-o", into(tmp_path / "merged"), "--if-needed")["up_to_date"]
    finished = done("compile", paths[1], "-o", into(tmp_path / "merged"), "--if-needed", "-v", "--dry-run")
    assert 'it names another context binary, "a_dnnl.bin"' in finished.stderr


def test_a_bin_of_another_name(tmp_path, sources):
    paths = sources("a", "b")
    _, alone = make_batch(tmp_path, paths, ())
    done("compile", ",".join(map(str, paths)), "-o", into(tmp_path / "named"), "--bin", tmp_path / "named" / "all.bin")
    done("merge", f"{alone['a'] / 'a_ctx.onnx'},{alone['b'] / 'b_ctx.onnx'}", "-o", tmp_path / "merged", "--bin", tmp_path / "merged" / "all.bin")
    assert files_of(tmp_path / "merged") == files_of(tmp_path / "named")


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, code, status, names", [
    (("--portable",), "INVALID_GRAPH", 2, ["target=", "target"]),
    (("--dim", "batch=3"), "INVALID_ARGUMENT", 1, ["options=", "other options"]),
    (("--compress",), "INVALID_ARGUMENT", 1, ["options="]),
    (("--external-initializers", "w"), "INVALID_ARGUMENT", 1, ["options="]),
])
def test_models_that_no_batch_has_are_refused(tmp_path, sources, options, code, status, names):
    a, b = sources("a", "b")
    done("compile", a, "-o", into(tmp_path / "one"))
    done("compile", b, "-o", into(tmp_path / "other"), *options)
    refused(status, code, "merge", tmp_path / "one" / "a_ctx.onnx", tmp_path / "other" / "b_ctx.onnx", "-o", tmp_path / "merged",
            names=["found", "expected", "b_ctx.onnx", *names])
    assert not (tmp_path / "merged").exists()


def test_another_version_is_refused(tmp_path, sources):
    _, alone = make_batch(tmp_path, sources("a", "b"), ())
    path = alone["b"] / "b_ctx.onnx"
    model = onnx.load(path)
    (parts,) = [entry for entry in model.metadata_props if entry.key == "ctxgen.compile_key_parts"]
    parts.value = parts.value.replace("versions=", "versions=0")
    onnx.save(model, path)
    refused(2, "INVALID_GRAPH", "merge", alone["a"] / "a_ctx.onnx", path, "-o", tmp_path / "merged", names=["versions=0", "expected"])


def test_plain_changed_and_damaged_models_are_refused(tmp_path, sources):
    (source,) = sources("two")
    refused(2, "INVALID_GRAPH", "split", source, "-o", tmp_path / "o.onnx", names=["compile it first"])
    done("compile", source, "-o", into(tmp_path / "c"))
    context = tmp_path / "c" / "two_ctx.onnx"
    whole = context.read_bytes()
    model = onnx.load(context)
    model.doc_string = "decides nothing"
    onnx.save(model, context)
    done("split", context, "-o", into(tmp_path / "fine"))
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    onnx.save(model, context)
    refused(4, "NOT_SATISFIED", "split", context, "-o", tmp_path / "o.onnx", names=["changed since it was compiled"])
    value = np.full(10, 3, np.float32).tobytes()
    assert whole.count(value) == 1
    context.write_bytes(whole.replace(value, np.full(10, 4, np.float32).tobytes()))
    refused(2, "INVALID_GRAPH", "split", context, "-o", tmp_path / "o.onnx", names=["damaged"])
    context.write_bytes(whole)
    weights = tmp_path / "c" / "two_dnnl.bin"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    refused(2, "INVALID_GRAPH", "split", context, "-o", tmp_path / "o.onnx", names=["checksum"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "fine", "sources"]


def test_nothing_that_is_read_is_replaced(tmp_path, sources):
    _, alone = make_batch(tmp_path, sources("a", "b"), ())
    before = files_of(alone["a"])
    refused(1, "INVALID_ARGUMENT", "merge", alone["a"] / "a_ctx.onnx", alone["b"] / "b_ctx.onnx", "-o", alone["a"], names=["would replace"])
    refused(1, "INVALID_ARGUMENT", "embed", alone["a"] / "a_ctx.onnx", "-o", alone["a"] / "a_ctx.onnx", names=["would replace"])
    refused(1, "INVALID_ARGUMENT", "split", alone["a"] / "a_ctx.onnx", "-o", tmp_path / "o.onnx", "--bin", alone["a"] / "a_dnnl.bin")
    assert files_of(alone["a"]) == before
    refused(1, "INVALID_ARGUMENT", "merge", alone["a"] / "a_ctx.onnx", alone["a"] / "a_ctx.onnx", "-o", tmp_path / "m", names=["same name"])


def test_what_others_need_stays(tmp_path, sources):
    _, alone = make_batch(tmp_path, sources("a", "b"), ())
    out = tmp_path / "out"
    done("merge", alone["a"] / "a_ctx.onnx", alone["b"] / "b_ctx.onnx", "-o", out)
    before = files_of(out)
    refused(4, "NOT_SATISFIED", "split", alone["a"] / "a_ctx.onnx", "-o", into(out), names=["b_ctx.onnx"])
    refused(1, "INVALID_ARGUMENT", "merge", alone["a"] / "a_ctx.onnx", alone["b"] / "b_ctx.onnx", "-o", out, "--no-clobber", names=["--no-clobber"])
    report = json_of("merge", alone["a"] / "a_ctx.onnx", alone["b"] / "b_ctx.onnx", "-o", out, "--keep-unchanged")
    assert {file["state"] for file in report["files"]} == {"unchanged"}
    assert files_of(out) == before
    done("split", alone["a"] / "a_ctx.onnx", "-o", into(out), "--force")
    assert files_of(out) != before
    report = json_of("merge", alone["a"] / "a_ctx.onnx", alone["b"] / "b_ctx.onnx", "-o", tmp_path / "none", "--dry-run")
    assert {file["state"] for file in report["files"]} == {"planned"} and not (tmp_path / "none").exists()


def test_bodies_are_not_embedded(tmp_path, sources):
    (source,) = sources("branches")
    done("compile", source, "--subgraphs", "-o", into(tmp_path / "c"))
    refused(1, "INVALID_ARGUMENT", "embed", tmp_path / "c" / "branches_ctx.onnx", "-o", tmp_path / "o.onnx", names=["body"])


def test_weightless_models_are_refused(tmp_path, sources):
    (source,) = sources("a")
    done("compile", source, "-o", source.parent / "a_ctx.onnx", "--config", "ep.enable_weightless_mode=2")
    refused(2, "NOT_IMPLEMENTED", "split", source.parent / "a_ctx.onnx", "-o", into(tmp_path / "o"), names=["ep.enable_weightless_mode"])


@pytest.mark.skipif(MODELS is None, reason="CTXGEN_MODELS is not set (a folder of models, see ./dev help)")
@pytest.mark.parametrize("names", [("mnist_cntk", "light_shufflenet"), ("ppocrv3_det", "micro_kws_qdq", "squeezenet_fp16"), ("gtcrn_stream", "crop_and_resize_loop")])
def test_trained_models(tmp_path, names):
    paths = []
    for name in names:
        shutil.copytree(pathlib.Path(MODELS) / name, tmp_path / "sources" / name)
        paths.append((tmp_path / "sources" / name / "model.onnx").rename(tmp_path / "sources" / name / f"{name}.onnx"))
    batch, alone = make_batch(tmp_path, paths, ())
    done("merge", *(alone[name] / f"{name}_ctx.onnx" for name in names), "-o", tmp_path / "merged")
    assert files_of(tmp_path / "merged") == files_of(batch)
    for name in names:
        done("split", tmp_path / "merged" / f"{name}_ctx.onnx", "-o", into(tmp_path / name))
        assert files_of(tmp_path / name) == files_of(alone[name])
    assert temporaries(tmp_path) == []
