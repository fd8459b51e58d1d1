"""Many models that have weights in common, the same ones from the same numbers."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALL_BASES, LARGE_BASES = 50, 4
SMALL_WIDTH = 96


def chain_of_products(random, own, width, depth):
    """x [batch, width] -> (MatMul, Relu) x depth of the base -> MatMul of its own -> y [batch, 10]."""
    scale = np.float32(1 / np.sqrt(width))
    weights = [random.standard_normal((width, width), dtype=np.float32) * scale for _ in range(depth)]
    weights.append(own.standard_normal((width, 10), dtype=np.float32) * scale)
    nodes, value = [], "x"
    for index, _ in enumerate(weights):
        last = index == depth
        nodes.append(helper.make_node("MatMul", [value, f"w{index}"], ["y" if last else f"p{index}"], name=f"product_{index}"))
        if not last:
            nodes.append(helper.make_node("Relu", [f"p{index}"], [f"r{index}"], name=f"relu_{index}"))
        value = f"r{index}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="fleet")


def write_models(folder, small, large, large_megabytes):
    """The paths. Models with equal numbers modulo the bases are fine-tunes of one base: all but the last matrix are equal."""
    folder.mkdir(parents=True)
    paths = []
    for index in range(small):
        random = np.random.default_rng([1, index % SMALL_BASES])
        model = chain_of_products(random, np.random.default_rng([2, index]), SMALL_WIDTH, depth=2)
        paths.append(folder / f"small_{index:04}.onnx")
        onnx.save(model, paths[-1])
    for index in range(large):
        random = np.random.default_rng([3, index % LARGE_BASES])
        width = max(64, int((large_megabytes * 1e6 / 4 / 4) ** 0.5) // 64 * 64)
        model = chain_of_products(random, np.random.default_rng([4, index]), width, depth=4)
        paths.append(folder / f"large_{index:02}.onnx")
        onnx.save(model, paths[-1], save_as_external_data=True, location=f"large_{index:02}.data", size_threshold=1024)
    return paths
