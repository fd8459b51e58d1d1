"""Models as ONNX Runtime's quantize_dynamic leaves them: tables of Gather and matrices of MatMul in symmetric 8-bit integers, one scale each; what is
multiplied is rounded at run time (DynamicQuantizeLinear, once for all its readers), and Cast, Mul and Mul make real numbers of the sums."""

import numpy as np
from onnx import TensorProto, helper


class Quantizer:
    def __init__(self, built):
        self.built = built
        self.nodes = []
        self.rounded = {}  # values that DynamicQuantizeLinear has rounded: bytes, scale, zero point
        self.stored = {}  # initializers: integers, scale, zero point

    def weight(self, name):
        if name not in self.stored:
            values = self.built.initializers.pop(name)
            scale = np.float32(np.abs(values).max() / 127)
            parts = {"quantized": np.rint(values / scale).astype(np.int8), "scale": np.array(scale), "zero_point": np.array(0, np.int8)}
            self.stored[name] = [self.built.initializer(f"{name}_{part}", array) for part, array in parts.items()]
        return self.stored[name]

    def value(self, name):
        if name not in self.rounded:
            self.rounded[name] = [f"{name}_{part}" for part in ("quantized", "scale", "zero_point")]
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [name], self.rounded[name], name=f"{name}_QuantizeLinear"))
        return self.rounded[name]

    def matmul(self, node):
        (a, a_scale, a_zero), (b, b_scale, b_zero) = self.value(node.input[0]), self.weight(node.input[1])
        result, name = node.output[0], node.name
        sums, reals, scales = f"{result}_output_quantized", f"{result}_output_quantized_cast_output", f"{name}_quant_scales_mul:0"
        self.nodes += [
            helper.make_node("MatMulInteger", [a, b, a_zero, b_zero], [sums], name=f"{name}_quant"),
            helper.make_node("Cast", [sums], [reals], name=f"{sums}_cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", [a_scale, b_scale], [scales], name=f"{name}_quant_scales_mul"),
            helper.make_node("Mul", [reals, scales], [result], name=f"{name}_quant_output_scale_mul"),
        ]

    def gemm(self, node):
        """Becomes MatMul and Add first."""
        weight = node.input[1]
        self.built.initializers[weight] = np.ascontiguousarray(self.built.initializers[weight].T)
        product = f"{node.output[0]}_MatMul"
        self.matmul(helper.make_node("MatMul", [node.input[0], weight], [product], name=f"{node.name}_MatMul"))
        self.nodes.append(helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{node.name}_Add"))

    def gather(self, node):
        table, scale, zero = self.weight(node.input[0])
        found = f"{node.output[0]}_quantized"
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        self.nodes.append(helper.make_node("Gather", [table, node.input[1]], [found], name=f"{node.name}_quant", **attributes))
        self.nodes.append(helper.make_node("DequantizeLinear", [found, scale, zero], [node.output[0]], name=f"{node.output[0]}_DequantizeLinear"))

    def is_weight(self, name):
        values = self.built.initializers.get(name)
        return name in self.stored or (values is not None and values.dtype == np.float32)

    def run(self):
        for node in self.built.nodes:
            if node.op_type == "MatMul" and self.is_weight(node.input[1]):
                self.matmul(node)
            elif node.op_type == "Gemm" and self.is_weight(node.input[1]) and [(a.name, a.i) for a in node.attribute if a.name == "transB"] == [("transB", 1)]:
                self.gemm(node)
            elif node.op_type == "Gather" and self.is_weight(node.input[0]):
                self.gather(node)
            else:
                self.nodes.append(node)
        self.built.nodes = self.nodes
        return self.built


def dynamic_int8(name, make, **options):
    """The model of `make`, quantised."""
    return Quantizer(make(name, **options)).run()
