"""Seeds of the fuzz targets, made at run time from libonnx-testdata and by the onnx package: `make(target, folder)`."""

import io
import itertools
import json
import pathlib
import struct
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TESTDATA = pathlib.Path("/usr/include/onnx/backend/test/data")
MAX_BYTES = 4096  # longer ones cost more than they show


def _models():
    """Every small model of the backend tests, by name."""
    for path in sorted(TESTDATA.glob("*/*/model.onnx")):
        if path.stat().st_size <= MAX_BYTES:
            yield path.parent.name, path


def _with_constants(path):
    """The model with its test inputs as initializers, so that the data are part of the fuzzed bytes."""
    model = onnx.load(path)
    for index, info in enumerate(list(model.graph.input)):
        data = path.parent / "test_data_set_0" / f"input_{index}.pb"
        if not info.type.HasField("tensor_type") or not data.exists() or data.stat().st_size > MAX_BYTES:
            continue
        tensor = TensorProto()
        tensor.ParseFromString(data.read_bytes())
        tensor.name = info.name
        model.graph.initializer.append(tensor)
        model.graph.input.remove(info)
    model.ir_version = max(model.ir_version, 4)
    return model.SerializeToString()


def _tensors():
    for number, value in enumerate([np.float32(1.5), np.arange(6, dtype=np.int64).reshape(2, 3), np.array(["a", "bc"], object)]):
        yield f"pb{number}", b"\1" + numpy_helper.from_array(np.asarray(value), "t").SerializeToString()
    for number, kind in enumerate(["<f4", ">i8", "|b1", "<c8", "<f2"]):
        for order in "CF":
            file = io.BytesIO()
            np.save(file, np.ones((2, 3), np.dtype(kind), order=order))
            yield f"npy{number}{order}", b"\0" + file.getvalue()
    for number, save in enumerate([np.savez, np.savez_compressed]):
        file = io.BytesIO()
        save(file, x=np.ones((2, 3), np.float32), y=np.arange(4))
        yield f"npz{number}", b"\2" + file.getvalue()


def _options():
    yield "dims", b"--dim\nbatch=1,8\n--shape\nx=1x3x8x8,scalar\n--fix-dim=n=4"
    yield "providers", b"--provider=dnnl,cpu\n--provider-option\ndnnl:bf16=1\n--threads=2\n--freeze-initializers"
    yield "rest", b"--external-data-dir=/tmp\n--config\nx\n--\n-x\n--dim=a=1\n--dim=a=2"


def _external():
    def entry(key, value):
        return bytes([key, len(value)]) + value

    for number, place in enumerate([b"w.bin", b"sub/x.bin", b"inner", b"outer", b"up/secret.bin", b"../secret.bin", b"/etc/passwd",
                                    b"around", b"loop", b"sub/../w.bin", b"./w.bin", b"empty.bin", b"root/etc/hostname", b"../model_b/w.bin"]):
        yield f"e{number}", bytes([1, 16]) + entry(0, place) + entry(1, b"8") + entry(2, b"16")


def _tuning():
    row = {"op": "conv", "weight": "float32", "dims": "64x32x3x3", "strides": "2x2", "rows": 1024, "form": "Acdb64a", "us": 1.5}
    for number, rows in enumerate([[], [row], [row, {"op": "matmul", "weight": "bfloat16", "source": "float32", "dims": "64x48", "form": "table"}]]):
        yield f"t{number}", json.dumps({"ctxgen_tuning": 1, "library": "oneDNN 3.12.1", "instruction_set": "avx2", "threads": 1, "rows": rows}).encode()


def _signatures():
    """Statements; bundles with a signature in them need a key, and are in the corpus."""
    digest = "ab" * 32
    for number, names in enumerate([[], ["model_ctx.onnx"], ["a/model_ctx.onnx", "a/model_dnnl.bin", "b.data"]]):
        resources = [{"name": name, "algorithm": "sha256", "digest": digest} for name in names]
        statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "models", "digest": {"sha256": digest}}],
                     "predicateType": "https://model_signing/signature/v1.0",
                     "predicate": {"serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False}, "resources": resources}}
        yield f"s{number}", b"\1" + json.dumps(statement).encode()


def _net():
    """A small net that dnnl compiles whole, with most of its op kinds."""
    random = np.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", ["r"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Add", ["p", "q"], ["s"]),
        node("LRN", ["s"], ["l"], size=3),
        node("Transpose", ["l"], ["t"], perm=[0, 2, 3, 1]),
        node("Transpose", ["t"], ["u"], perm=[0, 3, 1, 2]),
        node("Concat", ["s", "u"], ["k"], axis=1),
        node("GlobalAveragePool", ["k"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w2", "b2"], ["m"]),
        node("MatMulNBits", ["f", "w3", "s3"], ["e"], domain="com.microsoft", K=8, N=3, bits=4, block_size=16, accuracy_level=4),
        node("GatherBlockQuantized", ["w4", "ids", "s4"], ["i"], domain="com.microsoft", bits=4, block_size=16),
        node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        node("ConvInteger", ["xq", "w5", "xz"], ["ci"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Add", ["m", "e"], ["a"]),
        node("Where", ["mask", "a", "low"], ["o"]),
        node("Softmax", ["o"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 4, 4]), helper.make_tensor_value_info("ids", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3]), helper.make_tensor_value_info("i", TensorProto.FLOAT, [2, 16]),
         helper.make_tensor_value_info("ci", TensorProto.INT32, ["n", 4, 4, 4])],
        [weight("w1", 4, 2, 3, 3), weight("b1", 4), weight("w2", 8, 3), weight("b2", 3), weight("s3", 3), weight("s4", 6, 1),
         numpy_helper.from_array(random.integers(0, 256, (6, 8), np.uint8), "w4"),
         numpy_helper.from_array(random.integers(-128, 128, (4, 2, 3, 3), np.int8), "w5"),
         numpy_helper.from_array(random.integers(0, 256, (3, 1, 8), np.uint8), "w3"),
         numpy_helper.from_array(np.array(-1e4, np.float32), "low"), numpy_helper.from_array(np.array([True, False, True]), "mask")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


def _of_dnnl():
    """Two models for each operator that dnnl knows: compiling takes a while."""
    names = ("Conv ConvTranspose Gemm MatMul MaxPool AveragePool GlobalAveragePool GlobalMaxPool Relu LeakyRelu Elu Sigmoid Tanh Clip Add "
             "Sub Mul Div Min Max Pow Sqrt Exp Erf Softmax LogSoftmax BatchNormalization LayerNormalization LRN Concat Transpose Reshape "
             "Flatten Squeeze Unsqueeze Slice Split PRelu HardSigmoid HardSwish Gelu Mish ReduceMean ReduceSum ReduceMax Resize LSTM GRU "
             "RNN InstanceNormalization GroupNormalization Cast Gather Pad Expand Where QLinearConv QLinearMatMul ConvInteger MatMulInteger DynamicQuantizeLinear "
             "QuantizeLinear DequantizeLinear").split()
    left = dict.fromkeys(names, 2)
    for _, path in _models():
        nodes = onnx.load(path).graph.node
        if len(nodes) == 1 and left.get(nodes[0].op_type, 0) > 0:
            left[nodes[0].op_type] -= 1
            yield path


def _bins(ctxgen):
    """Context binaries of small models that dnnl takes: (name, bytes)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        onnx.save(_net(), folder / "net.onnx")
        models = [folder / "net.onnx", *_of_dnnl()]
        for number, model in enumerate(models):
            out = folder / f"o{number}"
            out.mkdir()
            for form in ([], ["--compress"], ["--portable"]) if number == 0 else ([],):
                extra = ["--dim", "n=1,2"] if number == 0 else []
                subprocess.run([ctxgen, "compile", "-q", model, "-o", out / "m_ctx.onnx", *extra, *form], capture_output=True, check=False)
                for path in out.glob("*.bin"):
                    yield f"{number}-{model.parent.name if number else 'net'}{''.join(form)}", path.read_bytes()


def make(target, folder, ctxgen=None):
    """Writes the seeds into `folder`; `ctxgen` is the program, for targets that need compiled models."""
    folder.mkdir(parents=True, exist_ok=True)
    if target in ("onnx_lite", "onnx_import"):
        seeds = ((name, path.read_bytes()) for name, path in _models())
    elif target == "kernels":
        seeds = ((name, _with_constants(path)) for name, path in _models())
    elif target == "context_bin":
        seeds = ((name, content) for name, content in _bins(ctxgen) if len(content) <= 4 * MAX_BYTES)
    elif target == "merged_bin":  # each with the one before
        bins = [("none", b""), *((name, content) for name, content in _bins(ctxgen) if len(content) < 65536)]
        seeds = ((name, len(before).to_bytes(2, "big") + before + content) for (_, before), (name, content) in itertools.pairwise(bins))
    elif target == "program":  # docs/format.md: where the manifest stands in the header
        seeds = ((name, content[slice(*_manifest(content))]) for name, content in _bins(ctxgen))
    else:
        seeds = {"tensor_files": _tensors, "options": _options, "external_data": _external, "signature": _signatures, "tuning_file": _tuning}[target]()
    for name, content in seeds:
        if 0 < len(content) <= 4 * MAX_BYTES:  # libFuzzer leaves longer ones out anyway
            (folder / name).write_bytes(content)


def _manifest(content):
    begin, size = struct.unpack_from("<QQ", content, 40)
    return begin, begin + size
