"""ep.enable_weightless_mode: weights stay in the source's files and are found from there."""

import numpy as np
import onnx
import pytest
from cli_support import conv_model, ctxgen, done, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

WIDTH = 256


def product_model(seed=0):
    """x -> MatMul -> Relu -> MatMul -> y: weights of 256 kB and 10 kB, in no multiple of 64 bytes of the file."""
    random = np.random.default_rng(seed)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "a"], ["h"], name="first"),
            helper.make_node("Relu", ["h"], ["r"], name="relu"),
            helper.make_node("MatMul", ["r", "b"], ["y"], name="second"),
        ],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [
            numpy_helper.from_array(random.standard_normal((WIDTH, WIDTH), dtype=np.float32), "a"),
            numpy_helper.from_array(random.standard_normal((WIDTH, 10), dtype=np.float32), "b"),
        ],
    )
    return make_model(graph)


WEIGHT_BYTES = WIDTH * WIDTH * 4 + WIDTH * 10 * 4


def external(folder, name="net"):
    onnx.save(product_model(), folder / f"{name}.onnx", save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    return folder / f"{name}.onnx"


def compiled(source, mode, *flags):
    return json_of("compile", source, "--config", f"ep.enable_weightless_mode={mode}", *flags)


def y_of(context, folder):
    folder.mkdir()
    done("run", context, "--dim", "n=3", "--output-dir", folder)
    return np.load(folder / "y.npy")


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}


@pytest.mark.parametrize("dims", [[], ["--dim", "n=1,3"]])
def test_weights_stay_in_external_data(tmp_path, dims):
    source = external(tmp_path)
    done("compile", source, "-o", tmp_path / "plain_ctx.onnx", *dims)
    expected = y_of(tmp_path / "plain_ctx.onnx", tmp_path / "expected")
    report = compiled(source, 1, *dims)
    assert report["weight_bytes_left_in_sources"] == WEIGHT_BYTES
    assert report["bins"][0]["bytes"] < 20_000
    assert any("stay in the source" in text for text in report["models"][0]["warnings"])
    assert metadata(tmp_path / "net_ctx.onnx")["weightless_mode"] == "1"
    assert "weightless_mode" not in metadata(tmp_path / "plain_ctx.onnx")
    np.testing.assert_allclose(y_of(tmp_path / "net_ctx.onnx", tmp_path / "y"), expected, rtol=1e-4, atol=1e-4)
    source.unlink()  # mode 1 needs the data, not the model
    y_of(tmp_path / "net_ctx.onnx", tmp_path / "z")


def test_inline_weights_stay_under_mode_2(tmp_path):
    source = save(product_model(), tmp_path / "net.onnx")
    assert compiled(source, 1)["weight_bytes_left_in_sources"] == 0
    report = compiled(source, 2)
    assert report["weight_bytes_left_in_sources"] == WEIGHT_BYTES
    assert metadata(tmp_path / "net_ctx.onnx")["weightless_mode"] == "2"
    done("compile", source, "-o", tmp_path / "plain_ctx.onnx")
    expected = y_of(tmp_path / "plain_ctx.onnx", tmp_path / "expected")
    np.testing.assert_allclose(y_of(tmp_path / "net_ctx.onnx", tmp_path / "y"), expected, rtol=1e-4, atol=1e-4)
    done("verify", tmp_path / "net_ctx.onnx", "--against", source)


def test_convolutions(tmp_path):
    source = save(conv_model(), tmp_path / "net.onnx")
    done("compile", source, "-o", tmp_path / "plain_ctx.onnx")
    assert compiled(source, 2)["weight_bytes_left_in_sources"] > 0
    done("verify", tmp_path / "net_ctx.onnx", "--against", source)


def test_the_older_key(tmp_path):
    source = external(tmp_path)
    done("compile", source, "--config", "ep.enable_weightless_ep_context_nodes=1")
    assert metadata(tmp_path / "net_ctx.onnx")["weightless_mode"] == "1"
    refused(
        1, "INVALID_ARGUMENT", "compile", source, "--config", "ep.enable_weightless_mode=2",
        "--config", "ep.enable_weightless_ep_context_nodes=1", names=["ep.enable_weightless_ep_context_nodes"],
    )


@pytest.mark.parametrize("damage", ["missing", "longer", "flipped"])
def test_another_file_is_refused(tmp_path, damage):
    source = external(tmp_path)
    compiled(source, 1)
    data = tmp_path / "net.data"
    content = bytearray(data.read_bytes())
    if damage == "missing":
        data.unlink()
    elif damage == "longer":
        data.write_bytes(content + b"x")
    else:
        content[1000] ^= 1
        data.write_bytes(content)
    refused(2, "INVALID_GRAPH", "run", tmp_path / "net_ctx.onnx", names=["net.data"])
    assert ctxgen("verify", tmp_path / "net_ctx.onnx").returncode != 0


def test_sources_lie_below_the_outputs(tmp_path):
    source = external(tmp_path)
    (tmp_path / "out").mkdir()
    refused(
        1, "INVALID_ARGUMENT", "compile", source, "-o", tmp_path / "out" / "net_ctx.onnx", "--config", "ep.enable_weightless_mode=1",
        names=["ep.enable_weightless_mode", "net.data"],
    )
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "data").mkdir()
    nested = external(tmp_path / "data", "inner")
    report = compiled(nested, 1, "-o", tmp_path / "outer_ctx.onnx")
    assert report["weight_bytes_left_in_sources"] == WEIGHT_BYTES
    y_of(tmp_path / "outer_ctx.onnx", tmp_path / "y")


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "far").mkdir()
    external(tmp_path / "far")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "net.onnx").write_bytes((tmp_path / "far" / "net.onnx").read_bytes())
    (tmp_path / "near" / "net.data").symlink_to(tmp_path / "far" / "net.data")
    finished = ctxgen("compile", tmp_path / "near" / "net.onnx", "--config", "ep.enable_weightless_mode=1")
    assert finished.returncode == 2 and "net.data" in finished.stderr


def test_a_model_from_stdin_has_no_file(tmp_path):
    finished = ctxgen(
        "compile", "-", "-o", tmp_path / "net_ctx.onnx", "--config", "ep.enable_weightless_mode=2",
        data=product_model().SerializeToString(), text=False,
    )
    assert finished.returncode == 1 and b"from memory" in finished.stderr


def test_several_instruction_sets_contradict_it(tmp_path):
    refused(
        1, "INVALID_ARGUMENT", "compile", external(tmp_path), "--isa", "sse41,avx2", "--config", "ep.enable_weightless_mode=1",
        names=["ep.enable_weightless_mode", "--isa"],
    )


def test_a_cache_keeps_modes_apart(tmp_path):
    source = external(tmp_path)
    cache = ["--cache-dir", tmp_path / "cache"]
    bins = {}
    for mode in (0, 1, 2, 1, 0):
        report = compiled(source, mode, *cache)
        assert report["weight_bytes_left_in_sources"] == (WEIGHT_BYTES if mode else 0)
        content = (tmp_path / "net_dnnl.bin").read_bytes()
        assert bins.setdefault(bool(mode), content) == content
        done("verify", tmp_path / "net_ctx.onnx", "--against", source)
    assert len(bins[True]) < 20_000 < len(bins[False])


def test_embedded_contexts_refer_too(tmp_path):
    source = external(tmp_path)
    compiled(source, 1, "--embed")
    assert (tmp_path / "net_ctx.onnx").stat().st_size < 20_000
    y_of(tmp_path / "net_ctx.onnx", tmp_path / "y")


def test_computed_weights_are_stored_and_counted(tmp_path):
    """float16 weights are computed in f32: in no file."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, 64])],
        [numpy_helper.from_array(np.ones((64, 64), np.float16), "w")],
    )
    source = save(make_model(graph), tmp_path / "half.onnx")
    report = compiled(source, 2)
    assert report["weight_bytes_left_in_sources"] == 0
    assert any("0 weights (0 bytes) stay" in text and "computed by the compiler" in text for text in report["models"][0]["warnings"])
    done("run", tmp_path / "half_ctx.onnx")


def test_a_batch_refers_to_each_source_once(tmp_path):
    for name in ("a", "b"):
        external(tmp_path, name)
    report = compiled(tmp_path / "a.onnx", 1, tmp_path / "b.onnx")
    assert report["bins"][0]["bytes"] < 30_000
    for name in ("a", "b"):
        y_of(tmp_path / f"{name}_ctx.onnx", tmp_path / f"y_{name}")


def test_the_same_bytes_in_another_folder(tmp_path):
    contents = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        compiled(external(tmp_path / name), 1)
        contents.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]
