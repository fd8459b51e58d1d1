"""QDQ networks with activations of 16 bits and weights of 8, as ONNX Runtime's quantize_static writes them with QInt16 or QUInt16."""

import numpy as np
import pytest
from cli_support import done, json_of, run_arrays, save
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")

STEP = np.float32(0.002)
FORMS = [("com.microsoft", 17, np.uint16, 32768), ("", 21, np.int16, 0), ("", 21, np.uint16, 30000)]
WORK = {"Conv", "MatMul", "Gemm", "Relu", "GlobalAveragePool", "QuantizeLinear", "DequantizeLinear"}


class Network:
    """Convolutions, a pool, a product and a Gemm, each between a pair of steps of 16 bits."""

    def __init__(self, domain, opset, kind, zero):
        self.domain, self.opset, self.kind, self.zero = domain, opset, kind, zero
        self.random = np.random.default_rng(3)
        self.nodes, self.constants = [], []

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op, inputs, domain="", **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], f"{op}_{len(self.nodes)}", domain=domain, **attributes))
        return output

    def steps(self, value):
        points = [self.constant(STEP), self.constant(np.array(self.zero, self.kind))]
        stored = self.node("QuantizeLinear", [value, *points], self.domain)
        return self.node("DequantizeLinear", [stored, *points], self.domain)

    def weights(self, *shape):
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        scale = np.float32(1.5 / (127 * np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0])))
        given = [self.constant(values), self.constant(scale), self.constant(np.int8(0))]
        return self.node("DequantizeLinear", given, self.domain)

    def model(self):
        x = self.steps(self.node("Conv", [self.steps("x"), self.weights(64, 8, 3, 3)], pads=[1] * 4))
        x = self.steps(self.node("Relu", [self.node("Conv", [x, self.weights(128, 64, 1, 1)])]))
        x = self.steps(self.node("Flatten", [self.steps(self.node("GlobalAveragePool", [x]))]))
        x = self.steps(self.node("MatMul", [x, self.weights(128, 256)]))
        x = self.steps(self.node("Gemm", [x, self.weights(256, 64)]))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "wide", [info("x", TensorProto.FLOAT, [1, 8, 9, 9])], [info(x, TensorProto.FLOAT, [1, 64])], self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("form", FORMS, ids=["microsoft", "int16", "uint16"])
def test_they_are_one_partition_whose_weights_stay_bytes(tmp_path, form):
    model = Network(*form).model()
    source = save(model, tmp_path / "wide.onnx")
    explained = json_of("explain", source)["assignment"]
    assert [node["name"] for node in explained if node["provider"] == "cpu" and node["name"].split("_")[0] in WORK] == []
    assert len({node["partition"] for node in explained if node["provider"] == "dnnl"}) == 1
    done("compile", "-q", source, "-o", tmp_path / "wide_ctx.onnx")
    assert (tmp_path / "wide_dnnl.bin").stat().st_size < 1.6 * source.stat().st_size  # float32 would be 4


@pytest.mark.parametrize("form", FORMS, ids=["microsoft", "int16", "uint16"])
def test_results_are_those_of_onnx_runtime_and_of_cpu(tmp_path, form):
    model = Network(*form).model()
    source = save(model, tmp_path / "wide.onnx")
    x = np.random.default_rng(5).standard_normal((1, 8, 9, 9)).astype(np.float32)
    results = []
    for folder, provider in (("both", "dnnl,cpu"), ("alone", "cpu")):
        (tmp_path / folder).mkdir()
        done("compile", "-q", source, "--provider", provider, "-o", tmp_path / folder / "wide_ctx.onnx")
        results.append(next(iter(run_arrays(tmp_path / folder / "wide_ctx.onnx", {"x": x}, tmp_path / folder).values())))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results.append(session.run(None, {"x": x})[0])
    assert np.abs(results[2]).max() > 50 * STEP
    # Sums of products are rounded in another order: next to the middle of two steps that is one step, in each of the six
    # layers, of which few reach the result.
    for other in results[1:]:
        apart = np.abs(results[0] - other) / STEP
        assert apart.max() <= 2.01, apart.max()
        assert np.count_nonzero(apart > 0.5) <= apart.size // 8
