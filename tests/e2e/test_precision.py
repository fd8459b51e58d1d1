"""--provider-option dnnl:precision=bf16 and dnnl:fpmath=bf16: products and convolutions multiply bfloat16."""

import numpy as np
import pytest
from cli_support import ctxgen, done, has_isa, into, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper

info = helper.make_tensor_value_info
UNIT = 2.0 ** -8  # half a unit of bfloat16's last place, of numbers from 1 on


needs_bf16 = pytest.mark.skipif(not has_isa("avx512_core_bf16"), reason="the machine, or ./dev test --isa, has no AVX512_BF16")


def to_bf16(values):
    bits = np.asarray(values, np.float32).view(np.uint32)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def random(seed, *shape):
    return (np.random.default_rng(seed).standard_normal(shape) / 8).astype(np.float32)


def network():
    """Convolutions with a residual sum, Swish, pools, a flattening product and softmax."""
    constants = {"w1": random(1, 32, 3, 3, 3), "b1": random(2, 32), "w2": random(3, 32, 32, 3, 3), "w3": random(4, 64, 32, 1, 1),
                 "w4": random(5, 40, 64), "b4": random(6, 40)}
    node = helper.make_node
    nodes = [node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r1"]),
             node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]), node("Add", ["c2", "p1"], ["s2"]), node("Relu", ["s2"], ["r2"]),
             node("Conv", ["r2", "w3"], ["c3"]), node("Sigmoid", ["c3"], ["g3"]), node("Mul", ["c3", "g3"], ["m3"]),
             node("GlobalAveragePool", ["m3"], ["p3"]), node("Flatten", ["p3"], ["f3"]),
             node("Gemm", ["f3", "w4", "b4"], ["y4"], transB=1), node("Softmax", ["y4"], ["y"], axis=-1)]
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["n", 3, 16, 16])], [info("y", TensorProto.FLOAT, ["n", 40])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return make_model(graph)


def product():
    constants = [numpy_helper.from_array(random(1, 200, 96), "w"), numpy_helper.from_array(random(2, 96), "b")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    return make_model(helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["rows", 200])], [info("y", TensorProto.FLOAT, ["rows", 96])], constants))


def compiled(tmp_path, model, *options, name="out"):
    source = save(model, tmp_path / "net.onnx")
    report = json_of("compile", source, "-o", into(tmp_path / name), *options)
    return tmp_path / name / "net_ctx.onnx", report["models"][0]["partitions"][0]["notes"]


def option(value):
    return "--provider-option", f"dnnl:{value}"


def run(context, tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    done("run", context, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "results")
    return np.load(tmp_path / "results" / "y.npy")


@needs_bf16
@pytest.mark.parametrize("value", ["precision=bf16", "fpmath=bf16"])
@pytest.mark.parametrize("rows", [1, 9, 70])
def test_a_product_is_that_of_rounded_operands(tmp_path, value, rows):
    context, notes = compiled(tmp_path, product(), *option(value), "--dim", f"rows={rows}")
    x = random(7, rows, 200)
    y = run(context, tmp_path, x)
    # Products of bfloat16 are exact in f32; 200 of them are summed up in f32, pairs at once.
    a, w = to_bf16(x), to_bf16(random(1, 200, 96))
    expected = a @ w + random(2, 96)
    assert np.all(np.abs(y - expected) <= 200 * 2.0 ** -23 * (np.abs(a) @ np.abs(w) + 1))
    assert notes[0].startswith("products and convolutions: 1 in bf16, 0 in f32; ")


@needs_bf16
@pytest.mark.parametrize("value", ["precision=bf16", "fpmath=bf16"])
@pytest.mark.parametrize("images", [1, 3])
def test_a_network_stays_within_the_roundings_of_bf16(tmp_path, value, images):
    plain, _ = compiled(tmp_path, network(), name="plain")
    context, notes = compiled(tmp_path, network(), *option(value))
    x = 8 * random(8, images, 3, 16, 16)
    y, exact = run(context, tmp_path, x), run(plain, tmp_path, x)
    # Four products and what lies between them: at most a dozen roundings in a row, each half a unit.
    assert 0 < np.abs(np.log(y) - np.log(exact)).max() < 12 * UNIT * np.abs(np.log(exact)).max()
    assert np.allclose(y.sum(axis=1), 1, atol=1e-5)
    assert notes[0].startswith("products and convolutions: 4 in bf16, 0 in f32; ")
    done("verify", context, "--against", tmp_path / "net.onnx", "--dim", f"n={images}")


@needs_bf16
def test_precision_keeps_values_narrow_and_fpmath_does_not(tmp_path):
    sizes = {}
    for value in ("precision=bf16", "fpmath=bf16"):
        context, _ = compiled(tmp_path, network(), *option(value), "--dim", "n=8", name=value[:4])
        program = json_of("inspect", context.parent / "net_dnnl.bin")["context"]["programs"][0]
        sizes[value] = program["plans"][0]["arena_bytes"]
        assert program["types"]["conv"]["bfloat16, bfloat16 -> float32"] == (1 if value == "precision=bf16" else 3)
    assert sizes["precision=bf16"] < 0.75 * sizes["fpmath=bf16"]


@needs_bf16
def test_weights_are_stored_as_they_are_multiplied(tmp_path):
    plain, _ = compiled(tmp_path, network(), name="plain")
    context, _ = compiled(tmp_path, network(), *option("precision=bf16"))
    sizes = [(path.parent / "net_dnnl.bin").stat().st_size for path in (plain, context)]
    assert sizes[1] < 0.65 * sizes[0]
    statistics = json_of("bench", context, "--iterations", "2", "--dim", "n=1")
    assert statistics["plans"]["repacked_weights"] == 0


@pytest.mark.parametrize("value", ["precision=bf16", "fpmath=bf16", "precision=f16"])
@pytest.mark.parametrize("target", ["avx2", "avx2,avx512_core", "avx512_core"])
def test_targets_without_the_arithmetic_are_refused(tmp_path, monkeypatch, value, target):
    source = save(product(), tmp_path / "net.onnx")
    if ctxgen("compile", source, "-o", into(tmp_path / "can"), "--isa", target).returncode != 0:
        pytest.skip(f"{target}: not on this machine")
    needed = "avx512_core_bf16" if value.endswith("bf16") else "avx512_core_fp16"
    refused(1, "INVALID_ARGUMENT", "compile", source, *option(value), "--isa", target, names=[f"dnnl:{value}", needed])
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", target.split(",")[0].upper())
    refused(1, "INVALID_ARGUMENT", "compile", source, *option(value), names=[f"dnnl:{value}", needed])


def test_portable_contexts_and_weightless_ones_are_refused(tmp_path):
    source = save(product(), tmp_path / "net.onnx")
    for value in ("precision=bf16", "fpmath=bf16"):
        refused(1, "INVALID_ARGUMENT", "compile", source, *option(value), "--portable", names=[f"dnnl:{value}", "dnnl:weights=bf16"])
        refused(1, "INVALID_ARGUMENT", "compile", source, *option(value), "--config", "ep.enable_weightless_mode=2", names=["dnnl:precision"])


@needs_bf16
def test_a_smaller_machine_refuses_the_context(tmp_path, monkeypatch):
    context, _ = compiled(tmp_path, product(), *option("precision=bf16"))
    made_for = json_of("check", context)["instruction_sets"][-1]
    x = tmp_path / "x.npy"
    np.save(x, random(7, 2, 200))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    refused(2, "INVALID_GRAPH", "run", context, "--input", f"x={x}", names=[f'"{made_for}"', '"avx512_core"'])


@pytest.mark.parametrize("options", [["precision=bf16", "fpmath=bf16"], ["precision=bf16", "precision=bf16"], ["precision=int8"], ["fpmath="],
                                     ["precision=bf16", "weights=f16"]])
def test_other_choices_are_refused(tmp_path, options):
    source = save(product(), tmp_path / "net.onnx")
    arguments = [argument for value in options for argument in option(value)]
    refused(1, "INVALID_ARGUMENT", "compile", source, *arguments, names=["dnnl:"])


@needs_bf16
def test_another_choice_is_another_compile(tmp_path):
    source, out = save(product(), tmp_path / "net.onnx"), tmp_path / "out"
    done("compile", source, "-o", into(out), "--if-needed")
    first = (out / "net_dnnl.bin").read_bytes()
    done("compile", source, "-o", into(out), "--if-needed", *option("precision=bf16"))
    second = (out / "net_dnnl.bin").read_bytes()
    assert second != first
    done("compile", source, "-o", into(out), "--if-needed", *option("precision=bf16"))
    assert (out / "net_dnnl.bin").read_bytes() == second
