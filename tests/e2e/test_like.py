"""compile --like: new weights in the programs of a context model that exists, or a refusal that says what else is different."""

import os

import numpy as np
import onnx
import pytest
from cli_support import conv_model, done, has_isa, into, json_of, refused, save, temporaries
from onnx import TensorProto, helper, numpy_helper
from test_regroup import SOURCES, files_of


def fine_tuned(model, seed=100):
    """The same model with other numbers in every float initializer of the graph that has more than one."""
    random = np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) > 1:
            values = random.standard_normal(tuple(tensor.dims), dtype=np.float32) * 0.1
            tensor.CopyFrom(numpy_helper.from_array(np.abs(values) + 0.1 if tensor.name == "var" else values, tensor.name))
    return model


def with_batch_norm(seed):
    """A normalisation that is folded into the convolution before it."""
    model = conv_model(seed=seed)
    random = np.random.default_rng(seed)
    model.graph.node[0].output[0] = "c0"
    model.graph.node.insert(1, helper.make_node("BatchNormalization", ["c0", "scale", "shift", "mean", "var"], ["c"], name="norm"))
    for name in ("scale", "shift", "mean", "var"):
        model.graph.initializer.append(numpy_helper.from_array(random.uniform(0.5, 1.5, 16).astype(np.float32), name))
    return model


CASES = [
    ("a", ()),
    ("two", ("--dim", "batch=1,4")),
    ("two", ("--external-initializers", "w", "--compress")),
    ("lookup", ()),
    ("branches", ("--subgraphs",)),
    ("a", ("--portable", "--embed")),
    ("a", ("--provider-option", "dnnl:weights=bf16")),
    ("a", ("--isa", "avx2,avx512_core")),
    ("nothing", ()),
    ("norm", ()),
]


def source_of(name):
    return with_batch_norm(5) if name == "norm" else SOURCES[name]()


@pytest.mark.parametrize("name, options", CASES, ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, tuple) else value)
def test_new_weights_in_the_same_programs(tmp_path, name, options):
    """What comes of it is, byte for byte, what the same compile writes without."""
    if "avx512_core" in " ".join(options) and not has_isa("avx512_core"):
        pytest.skip("this machine has one of the instruction sets only")
    save(source_of(name), tmp_path / "base" / "net.onnx")
    save(fine_tuned(source_of(name)), tmp_path / "tuned" / "net.onnx")
    for folder in ("base", "tuned"):
        done("compile", tmp_path / folder / "net.onnx", "-o", into(tmp_path / f"{folder}_out"), *options)
    report = json_of("compile", tmp_path / "tuned" / "net.onnx", "-o", into(tmp_path / "out"), *options, "--like", tmp_path / "base_out" / "net_ctx.onnx")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "tuned_out")
    assert report["files_read"][-1] == str(tmp_path / "base_out" / "net_ctx.onnx")
    if name not in ("nothing", "branches"):  # whose weights are integers, or in bodies
        assert files_of(tmp_path / "out") != files_of(tmp_path / "base_out")


def changed_attribute(model):
    next(node for node in model.graph.node if node.op_type == "Conv").attribute.append(helper.make_attribute("strides", [2, 2]))
    return model


def wider(model):
    for tensor in model.graph.initializer:
        if tensor.name in ("gw", "gb"):
            tensor.CopyFrom(numpy_helper.from_array(np.ones([12, *tensor.dims[1:]], np.float32), tensor.name))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 12
    return model


def other_activation(model):
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Sigmoid"
    return model


def other_input(model):
    model.graph.node[0].input[0] = model.graph.input[0].name = "image"
    return model


def other_rest(model):
    next(node for node in model.graph.node if node.op_type == "Mod").attribute.pop()
    return model


@pytest.mark.parametrize("change, names", [
    (changed_attribute, ["conv"]), (wider, ["outputs"]), (other_activation, ["conv"]), (other_input, ["inputs"]), (other_rest, ["mod"])],
    ids=lambda value: getattr(value, "__name__", ""))
def test_what_differs_in_more_than_weights_is_refused(tmp_path, change, names):
    make = SOURCES["a" if change is wider else "two"]
    save(make(), tmp_path / "base.onnx")
    done("compile", tmp_path / "base.onnx")
    save(change(fine_tuned(make())), tmp_path / "net.onnx")
    refused(4, "NOT_SATISFIED", "compile", tmp_path / "net.onnx", "-o", into(tmp_path / "out"), "--like", tmp_path / "base_ctx.onnx",
            names=["--like", "net", "base_ctx.onnx", *names])
    assert not any((tmp_path / "out").glob("*")) and temporaries(tmp_path) == []


def test_other_options_are_refused(tmp_path):
    save(conv_model(), tmp_path / "base.onnx")
    save(conv_model(seed=1), tmp_path / "net.onnx")
    done("compile", tmp_path / "base.onnx")
    like = ("--like", tmp_path / "base_ctx.onnx")
    for options, word in ((("--dim", "batch=2"), "options"), (("--portable",), "target"), (("--node-prefix", "p"), "options")):
        refused(4, "NOT_SATISFIED", "compile", tmp_path / "net.onnx", *options, *like, names=[f"another {word}" if word == "target" else f"other {word}"])
    refused(2, "INVALID_GRAPH", "compile", tmp_path / "net.onnx", "--like", tmp_path / "base.onnx", names=["--like", "compile it first"])
    refused(3, "IO_ERROR", "compile", tmp_path / "net.onnx", "--like", tmp_path / "none_ctx.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "net.onnx", "-o", tmp_path / "base_ctx.onnx", *like, names=["--like"])
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "net.onnx", tmp_path / "base.onnx", "-o", into(tmp_path / "out"), *like, names=["one model"])
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "net.onnx", "--if-needed", *like)
    assert not (tmp_path / "net_ctx.onnx").exists()


def test_what_a_cache_keeps_is_compared_too(tmp_path):
    save(conv_model(), tmp_path / "base.onnx")
    save(other_activation(conv_model()), tmp_path / "net.onnx")
    done("compile", tmp_path / "base.onnx")
    cache = ("--cache-dir", tmp_path / "cache")
    done("compile", tmp_path / "net.onnx", *cache)
    refused(4, "NOT_SATISFIED", "compile", tmp_path / "net.onnx", "--like", tmp_path / "base_ctx.onnx", *cache)


@pytest.mark.parametrize("name", ["super_resolution", "micro_kws_qdq", "gpt2_tiny_past", "bert_mlm_small", "light_shufflenet"])
def test_trained_models(tmp_path, name):
    """Their own weights, and other ones in the constants that have most numbers."""
    if "CTXGEN_MODELS" not in os.environ:
        pytest.skip("CTXGEN_MODELS names no trained models")
    folder = os.path.join(os.environ["CTXGEN_MODELS"], name)
    (path,) = (os.path.join(folder, file) for file in sorted(os.listdir(folder)) if file.endswith(".onnx"))
    model = onnx.load(path)
    largest = max((tensor for tensor in model.graph.initializer), key=lambda tensor: np.prod(tensor.dims), default=None)
    if largest is None:
        pytest.skip("its weights are not initializers")
    values = numpy_helper.to_array(largest)
    largest.CopyFrom(numpy_helper.from_array(np.roll(values, 1).copy(), largest.name))
    save(model, tmp_path / "tuned" / "net.onnx")
    done("compile", path, "-o", tmp_path / "base_ctx.onnx")
    done("compile", tmp_path / "tuned" / "net.onnx", "-o", into(tmp_path / "plain"))
    done("compile", tmp_path / "tuned" / "net.onnx", "-o", into(tmp_path / "out"), "--like", tmp_path / "base_ctx.onnx")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "plain")
