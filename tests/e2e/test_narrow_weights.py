"""--provider-option dnnl:weights=bf16|f16: weights of f32 models are stored narrow and computed with in f32."""

import json

import numpy as np
import pytest
from cli_support import ctxgen, done, into, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

ROWS, DEPTH, WIDTH = 6, 300, 96
info = helper.make_tensor_value_info


def to_bf16(values):
    bits = np.asarray(values, np.float32).view(np.uint32)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


def rounded(values, option):
    return to_bf16(values) if option == "bf16" else values.astype(np.float16).astype(np.float32)


def constants():
    random = np.random.default_rng(5)
    return {name: (0.05 * random.standard_normal(shape)).astype(np.float32)
            for name, shape in {"table": (50, DEPTH), "first": (DEPTH, WIDTH), "second": (64, WIDTH), "bias": (64,)}.items()}


def lookup_and_products(change=lambda name, values: values, element=TensorProto.FLOAT):
    """A Gather of rows, MatMul, Relu and a Gemm with a transposed matrix and a bias."""
    kept = [numpy_helper.from_array(change(name, values), name) for name, values in constants().items()]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("MatMul", ["x", "first"], ["h"]),
             helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Gemm", ["r", "second", "bias"], ["y"], transB=1)]
    return make_model(helper.make_graph(nodes, "net", [info("ids", TensorProto.INT64, ["rows"])], [info("y", element, ["rows", 64])], kept))


def compiled(tmp_path, *options, model=None, name="out"):
    source = save(model or lookup_and_products(), tmp_path / "net.onnx")
    report = json_of("compile", source, "-o", into(tmp_path / name), *options)
    return tmp_path / name / "net_ctx.onnx", report["models"][0]["partitions"][0]["notes"]


def weights_option(value):
    return "--provider-option", f"dnnl:weights={value}"


def run(context, tmp_path):
    ids = np.random.default_rng(4).integers(0, 50, ROWS)
    np.save(tmp_path / "ids.npy", ids)
    done("run", context, "--input", f"ids={tmp_path / 'ids.npy'}", "--output-dir", tmp_path / "results")
    return ids, np.load(tmp_path / "results" / "y.npy")


def expected_of(ids, change):
    values = {name: change(name, value).astype(np.float64) for name, value in constants().items()}
    return np.maximum(values["table"][ids] @ values["first"], 0) @ values["second"].T + values["bias"]


@pytest.mark.parametrize("option", ["bf16", "f16"])
@pytest.mark.parametrize("target", [(), ("--portable",), ("--isa", "avx2")])
def test_results_are_f32_ones_of_the_rounded_weights(tmp_path, option, target):
    context, notes = compiled(tmp_path, *weights_option(option), *target)
    ids, y = run(context, tmp_path)
    expected = expected_of(ids, lambda name, values: values if name == "bias" else rounded(values, option))
    assert np.abs(y - expected).max() < 2e-6 * np.abs(expected).max()
    exact = expected_of(ids, lambda name, values: values)
    assert np.abs(y - exact).max() > 2e-5 * np.abs(exact).max()  # rounded they are
    assert notes == [f"products, convolutions and lookups: 3 with {option} weights, 0 with f32"]


def test_bins_are_half_as_large_and_loads_pack_nothing(tmp_path):
    plain, _ = compiled(tmp_path, name="plain")
    narrow, _ = compiled(tmp_path, *weights_option("bf16"))
    sizes = [(path.parent / "net_dnnl.bin").stat().st_size for path in (plain, narrow)]
    assert sizes[1] < 0.56 * sizes[0]  # headers are not small here
    assert json_of("bench", narrow, "--iterations", "2", "--dim", "rows=3")["plans"]["repacked_weights"] == 0


def test_weights_beyond_the_range_stay_f32(tmp_path):
    def change(name, values):
        if name == "first":
            values = values * np.float32(1e6)
        return values * np.float32(1e-7) if name == "second" else values
    _, notes = compiled(tmp_path, *weights_option("f16"), model=lookup_and_products(change))
    assert notes == ["products, convolutions and lookups: 1 with f16 weights, 2 with f32"]
    _, notes = compiled(tmp_path, *weights_option("bf16"), model=lookup_and_products(change), name="brain")
    assert notes == ["products, convolutions and lookups: 3 with bf16 weights, 0 with f32"]


def test_float16_models_keep_their_weights(tmp_path):
    model = lookup_and_products(lambda name, values: values.astype(np.float16), TensorProto.FLOAT16)
    context, notes = compiled(tmp_path, model=model)
    assert notes == ["products, convolutions and lookups: 3 with f16 weights, 0 with f32"]
    ids, y = run(context, tmp_path)
    expected = expected_of(ids, lambda name, values: values.astype(np.float16))
    assert np.abs(y - expected).max() < 2e-3 * np.abs(expected).max()
    done("verify", context, "--against", tmp_path / "net.onnx", "--dim", "rows=4")


def test_another_choice_is_another_compile(tmp_path):
    source, out = save(lookup_and_products(), tmp_path / "net.onnx"), tmp_path / "out"
    arguments = ["compile", source, "-o", into(out), "--if-needed", "--provider-option"]
    bins = []
    for option in ("bf16", "f16", "bf16"):
        done(*arguments, f"dnnl:weights={option}")
        bins.append((out / "net_dnnl.bin").read_bytes())
    assert bins[0] != bins[1]
    assert bins[0] == bins[2]


@pytest.mark.parametrize("value", ["bf16:32", "fp16", "bf16:search", "BF16", "f32"])
def test_other_values_are_refused(tmp_path, value):
    source = save(lookup_and_products(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, *weights_option(value), names=["bf16 or f16", "s4:64:search"])


def test_weightless_is_refused(tmp_path):
    source = save(lookup_and_products(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, *weights_option("bf16"), "--config", "ep.enable_weightless_mode=2", names=["dnnl:weights"])


def test_a_target_without_kernels_is_refused(tmp_path):
    source = save(lookup_and_products(), tmp_path / "net.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", source, *weights_option("bf16"), "--isa", "sse41", names=["dnnl:weights=bf16", "sse41", "avx2"])
    half = save(lookup_and_products(lambda name, values: values.astype(np.float16), TensorProto.FLOAT16), tmp_path / "half.onnx")
    [note] = json_of("compile", half, "-o", into(tmp_path / "half"), "--isa", "sse41")["models"][0]["partitions"][0]["notes"]
    assert note == "products, convolutions and lookups: 1 with f16 weights, 2 with f32"  # the table is read by bytes


def brain(values, name):
    """A constant of type bfloat16, which NumPy does not have."""
    bits = (to_bf16(values).view(np.uint32) >> 16).astype(np.uint16)
    return helper.make_tensor(name, TensorProto.BFLOAT16, values.shape, bits.tobytes(), raw=True)


def brain_network():
    """lookup_and_products() in bfloat16, with a Cast at its end."""
    kept = [brain(values, name) for name, values in constants().items()]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("MatMul", ["x", "first"], ["h"]),
             helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Gemm", ["r", "second", "bias"], ["b"], transB=1),
             helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)]
    return make_model(helper.make_graph(nodes, "net", [info("ids", TensorProto.INT64, ["rows"])], [info("y", TensorProto.FLOAT, ["rows", 64])], kept))


@pytest.mark.parametrize("target", [(), ("--portable",), ("--isa", "avx2"), ("--isa", "sse41")])
def test_bfloat16_models_run_everywhere_and_keep_their_weights(tmp_path, target):
    context, notes = compiled(tmp_path, "--strict", *target, model=brain_network())
    if "sse41" not in target:
        assert notes == ["products, convolutions and lookups: 3 with bf16 weights, 0 with f32"]
        checked = ctxgen("check", context, "--json")  # 4 if it is portable: loads pack its weights
        assert json.loads(checked.stdout)["precisions"] == {"weights=bf16": 3}
        assert "3 weights=bf16" in ctxgen("check", context).stdout
    ids, y = run(context, tmp_path)
    expected = expected_of(ids, lambda name, values: to_bf16(values))
    assert np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()  # values between are f32
    done("verify", context, "--against", tmp_path / "net.onnx", "--dim", "rows=4")


def test_values_of_bfloat16_cross_the_boundary(tmp_path):
    """Inputs and outputs are bfloat16; what is between them is not rounded."""
    element = TensorProto.BFLOAT16
    random = np.random.default_rng(6)
    kernel, x = (0.1 * random.standard_normal((32, 16, 3, 3))).astype(np.float32), random.standard_normal((1, 16, 8, 8)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Softmax", ["c"], ["y"], axis=1)]
    model = make_model(helper.make_graph(nodes, "net", [info("x", element, [1, 16, 8, 8])], [info("y", element, [1, 32, 8, 8])], [brain(kernel, "k")]))
    context, _ = compiled(tmp_path, model=model)
    (tmp_path / "x.pb").write_bytes(brain(x, "x").SerializeToString())
    done("run", context, "--input", f"x={tmp_path / 'x.pb'}", "--output-dir", tmp_path / "results")
    tensor = TensorProto.FromString((tmp_path / "results" / "y.pb").read_bytes())
    assert tensor.data_type == element
    y = (np.frombuffer(tensor.raw_data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(1, 32, 8, 8)
    assert np.abs(y.sum(axis=1) - 1).max() < 0.02
    done("verify", context, "--against", tmp_path / "net.onnx")


def test_what_a_model_in_16_bits_is_computed_in_is_a_line(tmp_path):
    source = save(brain_network(), tmp_path / "net.onnx")
    [cost] = json_of("explain", source)["costs"]
    assert "bfloat16" in cost
    assert "float32" in cost
    [model] = json_of("compile", source, "-o", into(tmp_path / "out"))["models"]
    assert model["costs"] == [cost]


def test_casts_to_bfloat16_round(tmp_path):
    nodes = [helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), helper.make_node("Cast", ["b"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Relu", ["f"], ["y"])]
    model = make_model(helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, [64])], [info("y", TensorProto.FLOAT, [64])]))
    context, _ = compiled(tmp_path, "--strict", model=model)
    x = np.random.default_rng(2).standard_normal(64).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done("run", context, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "results")
    assert np.array_equal(np.load(tmp_path / "results" / "y.npy"), np.maximum(to_bf16(x), 0))
