"""How many floating-point operations a model asks for: two per multiplication and addition of its products, convolutions and
recurrent layers, as the ONNX graph says; what a runtime does instead (Winograd, padding) does not count."""

import math

import onnx

RECURRENT_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# op type -> which inputs are the two matrices
PRODUCTS = {"MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3), "Gemm": (0, 1), "FusedGemm": (0, 1), "FusedMatMul": (0, 1)}
CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}


def attribute(node, name, default):
    for candidate in node.attribute:
        if candidate.name == name:
            return onnx.helper.get_attribute_value(candidate)
    return default


def attributes(node):
    return {candidate.name: onnx.helper.get_attribute_value(candidate) for candidate in node.attribute}


def bind(graph, dims):
    """Gives the symbolic dims of the inputs and outputs their sizes; one that `dims` lacks is 1."""
    for value in [*graph.input, *graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param or not dim.HasField("dim_value"):
                dim.dim_value = dims.get(dim.dim_param, 1)


class Shapes:
    """Of all values of a graph, as far as they can be inferred: None where not."""

    def __init__(self, graph):
        self.known = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
        for value in [*graph.input, *graph.value_info, *graph.output]:
            shape = value.type.tensor_type.shape
            if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in shape.dim):
                self.known[value.name] = [dim.dim_value for dim in shape.dim]
        for node in graph.node:
            if node.op_type == "Constant":
                self.known[node.output[0]] = list(attribute(node, "value", onnx.TensorProto()).dims)

    def of(self, node, index):
        names = node.input
        return self.known.get(names[index]) if index < len(names) else None


def product_flops(node, shapes):
    a, b = (shapes.of(node, index) for index in PRODUCTS[node.op_type])
    out = shapes.known.get(node.output[0])
    if a is None or out is None:
        return None
    deep = a[0] if attribute(node, "transA", 0) else a[-1]
    return 2.0 * math.prod(out) * deep if b is None or len(b) else None


def convolution_flops(node, shapes):
    weights, out = shapes.of(node, CONVOLUTIONS[node.op_type]), shapes.known.get(node.output[0])
    return None if weights is None or out is None else 2.0 * math.prod(out) * math.prod(weights[1:])


def transposed_convolution_flops(node, shapes):
    src, weights = shapes.of(node, 0), shapes.of(node, 1)
    return None if src is None or weights is None else 2.0 * math.prod(src) * math.prod(weights[1:])


def recurrent_flops(node, shapes):
    src, weights = shapes.of(node, 0), shapes.of(node, 1)
    if src is None or weights is None:
        return None
    steps, batch, inputs = src
    hidden = weights[1] // RECURRENT_GATES[node.op_type]
    return 2.0 * steps * batch * weights[0] * weights[1] * (inputs + hidden)


def node_flops(node, shapes):
    """0 for what is no product, None where sizes are unknown."""
    if node.op_type in PRODUCTS:
        return product_flops(node, shapes)
    if node.op_type in CONVOLUTIONS:
        return convolution_flops(node, shapes)
    if node.op_type == "ConvTranspose":
        return transposed_convolution_flops(node, shapes)
    return recurrent_flops(node, shapes) if node.op_type in RECURRENT_GATES else 0.0


def low_bit_bytes(path):
    """Of the matrices of MatMulNBits with their scales and zero points, which each run reads; 0 where there are none."""
    graph = onnx.load(str(path), load_external_data=False).graph
    sizes = {tensor.name: math.prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize for tensor in graph.initializer}
    return sum(sizes.get(name, 0) for node in graph.node if node.op_type == "MatMulNBits" for name in node.input[1:4])


def op_types(path):
    return {node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node}


def model_flops(path, dims):
    """Of the main graph with its symbolic dims bound; None if a product's sizes, or anything, cannot be inferred."""
    model = onnx.load(str(path), load_external_data=False)
    bind(model.graph, dims)
    del model.graph.value_info[:]  # inferred anew, with sizes
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except onnx.shape_inference.InferenceError:
        return None
    shapes = Shapes(inferred)
    counted = [node_flops(node, shapes) for node in inferred.node]
    return None if None in counted else sum(counted)
