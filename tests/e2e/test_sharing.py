"""Weights of several models in one context binary: stored once, in one layout where that serves all, and the report of it."""

import os
import pathlib
import shutil

import pytest
from cli_support import done, json_of, save
from test_compile_cache import LAYER_BYTES, layers_model

MODELS = os.environ.get("CTXGEN_MODELS")


def fixed_rows(model, rows):
    """The same network for one number of rows."""
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_value = rows
    return model


@pytest.mark.parametrize("order", [("prefill", "decode"), ("decode", "prefill")])
def test_one_row_and_many_rows_take_one_layout(tmp_path, order):
    """One row alone would take plain weights, many rows packed ones: together they take packed ones, in any order."""
    for name, rows in (("prefill", 32), ("decode", 1)):
        save(fixed_rows(layers_model(scale=0.1), rows), tmp_path / f"{name}.onnx")
    report = json_of("compile", ",".join(str(tmp_path / f"{name}.onnx") for name in order), "-o", tmp_path / "out")
    assert report["split_layouts"] == []
    assert report["weight_bytes_stored"] == 4 * LAYER_BYTES
    assert report["weight_bytes_added"] == 8 * LAYER_BYTES
    (group,) = report["sharing"]
    assert [user.split(":")[0] for user in group["users"]] == [f"{name}.onnx" for name in order]
    assert (group["blobs"], group["bytes"], group["saved_bytes"]) == (4, 4 * LAYER_BYTES, 4 * LAYER_BYTES)
    assert len(list((tmp_path / "out").iterdir())) == 3
    (bin_file,) = (tmp_path / "out").glob("*.bin")
    inspected = json_of("inspect", bin_file)["context"]
    assert inspected["sharing"][0]["saved_bytes"] == 4 * LAYER_BYTES
    assert len(inspected["sharing"][0]["users"]) == 2
    for name in order:
        done("verify", tmp_path / "out" / f"{name}_ctx.onnx", "--against", tmp_path / f"{name}.onnx")


def test_profiles_of_one_model_take_one_layout(tmp_path):
    source = save(layers_model(scale=0.1), tmp_path / "net.onnx")
    for rows in ("1,32", "32,1"):
        report = json_of("compile", source, "--dim", f"n={rows}")
        assert report["weight_bytes_stored"] == 4 * LAYER_BYTES, rows
        assert report["split_layouts"] == []


def test_the_bytes_do_not_depend_on_the_cache(tmp_path):
    for name, rows in (("prefill", 32), ("decode", 1)):
        save(fixed_rows(layers_model(scale=0.1), rows), tmp_path / f"{name}.onnx")
    models = ",".join(str(tmp_path / f"{name}.onnx") for name in ("decode", "prefill"))
    files = []
    for options in ([], ["--cache-dir", tmp_path / "cache"], ["--cache-dir", tmp_path / "cache"]):
        out = tmp_path / f"out{len(files)}"
        report = json_of("compile", models, "-o", out, *options)
        files.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert files[0] == files[1] == files[2]
    assert report["programs_compiled"] == 0


def test_a_fine_tuned_layer_is_stored_for_itself(tmp_path):
    for name, changed in (("base", None), ("first", 1), ("second", 3)):
        save(fixed_rows(layers_model(changed=changed, scale=0.1), 8), tmp_path / f"{name}.onnx")
    report = json_of("compile", ",".join(str(tmp_path / f"{name}.onnx") for name in ("base", "first", "second")), "-o", tmp_path / "out")
    assert report["weight_bytes_stored"] == 6 * LAYER_BYTES
    assert report["weight_bytes_added"] == 12 * LAYER_BYTES
    assert sum(group["saved_bytes"] for group in report["sharing"]) == 6 * LAYER_BYTES
    by_users = {tuple(user.split(".")[0] for user in group["users"]): group["bytes"] for group in report["sharing"]}
    assert by_users == {("base", "first", "second"): 2 * LAYER_BYTES, ("base", "first"): LAYER_BYTES, ("base", "second"): LAYER_BYTES}
    text = done("compile", ",".join(str(tmp_path / f"{name}.onnx") for name in ("base", "first", "second")), "-o", tmp_path / "out").stdout
    assert "shared weights saved 1.5 MiB" in text and "shared by base.onnx: dnnl_" in text


@pytest.mark.skipif(not MODELS, reason="CTXGEN_MODELS is not set")
@pytest.mark.parametrize("pair", [("firered_vad_stream", "firered_vad_stream_cache"), ("rfb320_face", "rfb320_face_nopost")])
def test_pairs_of_trained_models_share_their_weights(tmp_path, pair):
    """Two exports of one network: three files, and the second model adds next to nothing."""
    sources = [tmp_path / f"{name}.onnx" for name in pair]
    for name, source in zip(pair, sources, strict=True):
        shutil.copy(pathlib.Path(MODELS) / name / "model.onnx", source)
    report = json_of("compile", ",".join(map(str, sources)), "-o", tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 3
    alone = [json_of("compile", source, "-o", tmp_path / "alone.onnx")["weight_bytes_stored"] for source in sources]
    assert report["weight_bytes_stored"] < 1.05 * max(alone)
    assert report["sharing"] and all(len(group["users"]) >= 1 for group in report["sharing"])
