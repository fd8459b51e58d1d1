"""--provider-option dnnl:weights=bf16|f16: weights of f32 models are stored narrow and computed with in f32."""

import numpy as np
import pytest
from cli_support import done, into, json_of, make_model, refused, save
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
