"""Every row of the dnnl provider's table against ONNX Runtime and against a double-precision reference, in each schema version."""

import functools

import numpy as np
import onnx
import onnx.defs
import pytest
from cli_support import done, has_vnni, json_of, run_arrays, save
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from operator_cases import FAMILIES, MS, Case

onnxruntime = pytest.importorskip("onnxruntime")

OLDEST, NEWEST = 7, 25  # opsets; ONNX Runtime runs none below 7
CONTRIB_OPSET = 17
NEWER = {"CausalConvWithState": 27, "LinearAttention": 27}  # since versions of operators that Debian's onnx does not know
SUMS_OF_BYTES = {"ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QAttention", "QGemm", "QLinearConv",
                 "QLinearMatMul"}  # fmt: skip


@functools.cache
def sums_bytes_exactly():
    """Whether ONNX Runtime does on this processor. Without VNNI it saturates sums of two products of bytes in 16 bits, against ONNX's text: then
    double precision alone decides. It asks the processor itself, whatever ./dev test --isa says."""
    weights = numpy_helper.from_array(np.full((2, 1), 127, np.int8), "w")
    info = helper.make_tensor_value_info
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "pair", [info("x", TensorProto.UINT8, [1, 2])], [info("y", TensorProto.INT32, [1, 1])], [weights])
    (sums,) = run_onnxruntime(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8), {"x": np.full((1, 2), 255, np.uint8)})
    return sums.item() == 2 * 255 * 127


def in_onnxruntime(case):
    """Whether Debian's (1.23) has a kernel, and one that computes what ONNX says."""
    if case.unknown_to_onnxruntime:
        return False
    if case.op_type in SUMS_OF_BYTES and not sums_bytes_exactly():
        return False
    if case.op_type in {"QuantizeLinear", "DequantizeLinear"}:
        return case.opset < 23
    return case.opset < 24 and (case.op_type, case.opset) != ("GroupNormalization", 18)


def is_contrib(operator):
    """ONNX Runtime's: onnx has no schema of it."""
    return bool(operator.domain) or not onnx.defs.has(operator.op_type)


def versions(family):
    """The oldest opset of each of the operator's schemas."""
    if family.op_type in NEWER and not family.domain:
        return [NEWER[family.op_type]]
    if is_contrib(family):
        return [CONTRIB_OPSET]
    found = set()
    for opset in range(OLDEST, min(NEWEST, family.last) + 1):
        try:
            found.add(max(OLDEST, onnx.defs.get_schema(family.op_type, opset, family.domain).since_version))
        except onnx.defs.SchemaError:
            continue
    return sorted(found)


@functools.cache
def cases_by_opset():
    found = {}
    for family in FAMILIES:
        for opset in versions(family):
            for variant in range(family.variants):
                name = "_".join(["ms"] * bool(family.domain) + [family.op_type, str(variant)])
                case = Case(name, opset, family.op_type, family.domain)
                family.build(case, variant)
                found.setdefault(opset, []).append(case)
    return found


def output_type(case):
    if case.op_type.endswith("Integer"):
        return TensorProto.INT32
    bytes_again = case.op_type.startswith("QLinear") or (case.op_type == "QGemm" and case.quantum)
    return TensorProto.UINT8 if bytes_again else TensorProto.FLOAT


def model_of(cases, opset, symbolic=False, double=False):
    """The cases side by side in one graph."""

    def retype(array):
        return array.astype(np.float64) if double and array.dtype == np.float32 else array

    def info(name, array):
        dims = [f"{name}_{i}" for i in range(array.ndim)] if symbolic else array.shape
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(retype(array).dtype), dims)

    graph = helper.make_graph(
        [node for case in cases for node in case.nodes],
        "operators",
        [info(name, array) for case in cases for name, array in case.inputs.items()],
        [helper.make_tensor_value_info(name, output_type(case), None) for case in cases for name in case.outputs],
        [numpy_helper.from_array(retype(array), name) for case in cases for name, array in case.constants.items()],
    )
    if double:
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)], ir_version=8 if opset < 21 else 10)


def compiled_outputs(cases, opset, folder, symbolic=False):
    """Output by name."""
    source = save(model_of(cases, opset, symbolic), folder / "operators.onnx")
    done("compile", "-q", source, "-o", folder / "operators_ctx.onnx")
    inputs = {name: array for case in cases for name, array in case.inputs.items()}
    return run_arrays(folder / "operators_ctx.onnx", inputs, folder)


def run_onnxruntime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def onnxruntime_outputs(case):
    return run_onnxruntime(model_of([case], case.opset), case.inputs)


def double_outputs(case):
    if case.exact:
        outputs = case.exact(*(array.astype(np.float64) for array in case.inputs.values()))
        return outputs if isinstance(outputs, list) else [outputs]
    doubles = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in case.inputs.items()}
    return ReferenceEvaluator(model_of([case], case.opset, double=True)).run(None, doubles)


def difference(case, found, expected):
    """What is wrong with an output, or None."""
    if found.shape != expected.shape:
        return f"shape {found.shape} for {expected.shape}"
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    allowed = case.quantum * 1.01 if case.quantum else 1e-5 * (np.abs(expected) + np.abs(expected).max(initial=0))
    wrong = ~(np.abs(found - expected) <= allowed)
    if wrong.any():
        return f"{wrong.sum()} of {wrong.size} differ, by up to {np.abs(found - expected).max()}"
    steps = np.count_nonzero(np.abs(found - expected) > case.quantum / 2) if case.quantum else 0
    return f"{steps} of {found.size} differ by a step" if steps > found.size // 20 else None


def differences(cases, found, reference, said_by):
    wrong = []
    for case in cases:
        for name, expected in zip(case.outputs, reference(case), strict=True):
            if said := difference(case, found[name], np.asarray(expected)):
                wrong.append(f"{case.name} beside {said_by}: {said}")
    return wrong


@pytest.mark.parametrize("opset", sorted(cases_by_opset()))
def test_operators_give_what_both_references_give(tmp_path, opset):
    cases = cases_by_opset()[opset]
    found = compiled_outputs(cases, opset, tmp_path)
    wrong = differences(filter(in_onnxruntime, cases), found, onnxruntime_outputs, "ONNX Runtime")
    wrong += differences(cases, found, double_outputs, "double precision")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("opset", sorted(cases_by_opset()))
def test_so_they_do_with_unknown_sizes(tmp_path, opset):
    cases = cases_by_opset()[opset]
    found = compiled_outputs(cases, opset, tmp_path, symbolic=True)
    wrong = differences(cases, found, double_outputs, "double precision")
    assert not wrong, "\n".join(wrong)


def rows_of_this_machine():
    rows = [row for row in json_of("providers", "--operators")["operators"] if row["provider"] == "dnnl"]
    return [row for row in rows if has_vnni() or "needs VNNI" not in row["limits"]]


def is_row_of(case, row):
    if (case.op_type, case.domain or "ai.onnx") != (row["op_type"], row["domain"]):
        return False
    newer = 0 if case.domain else NEWER.get(case.op_type, 0)
    since = newer or 1 if is_contrib(case) else onnx.defs.get_schema(case.op_type, case.opset, "").since_version
    return row["since_min"] <= since <= row["since_max"]


def test_the_cases_are_compiled_and_cover_every_row(tmp_path):
    rows = rows_of_this_machine()
    covered, elsewhere = set(), []
    for opset, cases in cases_by_opset().items():
        explained = json_of("explain", save(model_of(cases, opset), tmp_path / f"{opset}.onnx"))
        node_of = {node["name"]: node for node in explained["assignment"]}
        for case in cases:
            found, node = {i for i, row in enumerate(rows) if is_row_of(case, row)}, node_of[case.tested]
            covered |= found
            if found and node["provider"] != "dnnl":
                elsewhere.append(f"{case.name} of opset {opset}: {node['reasons']}")
    missing = [f"{row['domain']} {row['op_type']} {row['since_min']} to {row['since_max']}" for i, row in enumerate(rows) if i not in covered]
    assert not elsewhere, "\n".join(elsewhere)
    assert not missing, "\n".join(missing)
