"""Convolutional networks as ONNX Runtime's quantize_static leaves them in QDQ form: values that layers read or make are asymmetric u8 by the range that a
calibration found, weights symmetric s8 with a scale per channel, biases integers; activations that only bound a result of such a layer are part of its range."""

import numpy as np
from onnx import TensorProto, helper

QUANTISED = ("Conv", "Gemm", "Add", "MaxPool", "GlobalAveragePool", "Flatten")
BOUNDS = ("Relu", "Clip")


def ranges_of(built):
    """{value: (least, largest)} of all f32 values of a run on the sample inputs, 0 among them."""
    import onnxruntime

    model = built.model()
    known = {output.name for output in model.graph.output}
    made = [name for node in model.graph.node if node.op_type in QUANTISED + BOUNDS for name in node.output]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made if name not in known)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values = dict(zip(names, session.run(names, built.sample_inputs), strict=True)) | built.sample_inputs
    return {name: (min(float(value.min()), 0.0), max(float(value.max()), 0.0)) for name, value in values.items()}


class Quantizer:
    def __init__(self, built):
        self.built = built
        self.ranges = ranges_of(built)
        self.nodes = []
        self.real = {}  # values that have gone through bytes: what their readers read
        self.scales = {}  # of those
        self.readers = {}
        for node in built.nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def constants(self, name, **parts):
        return [self.built.initializer(f"{name}_{part}", array) for part, array in parts.items()]

    def value(self, name, stored=None):
        """Through bytes, once for all readers; an output of the graph keeps its name after them."""
        if name in self.real:
            return self.real[name]
        low, high = self.ranges[name]
        scale = np.float32((high - low) / 255) or np.float32(1)
        steps = self.constants(name, scale=np.array(scale), zero_point=np.array(np.clip(np.rint(-low / scale), 0, 255), np.uint8))
        is_output = any(output.name == name for output in self.built.outputs)
        quantised, result = f"{name}_QuantizeLinear_Output", name if is_output else f"{name}_DequantizeLinear_Output"
        self.nodes.append(helper.make_node("QuantizeLinear", [stored or name, *steps], [quantised], name=f"{name}_QuantizeLinear"))
        self.nodes.append(helper.make_node("DequantizeLinear", [quantised, *steps], [result], name=f"{name}_DequantizeLinear"))
        self.real[name], self.scales[name] = result, scale
        return result

    def dequantized(self, name, values, scale, axis=0):
        inputs = self.constants(name, quantized=values, scale=scale, zero_point=np.zeros(scale.shape, values.dtype))
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_DequantizeLinear_Output"], name=f"{name}_DequantizeLinear", axis=axis))
        return f"{name}_DequantizeLinear_Output"

    def parameters(self, source, names):
        weights = self.built.initializers.pop(names[0])
        scale = (np.abs(weights.reshape(weights.shape[0], -1)).max(axis=1) / 127).astype(np.float32)
        rounded = np.rint(weights / scale.reshape(-1, *[1] * (weights.ndim - 1))).astype(np.int8)
        found = [self.dequantized(names[0], rounded, scale)]
        if len(names) > 1:
            units = (scale * self.scales[source]).astype(np.float32)
            counts = np.rint(self.built.initializers.pop(names[1]) / units).astype(np.int32)
            found.append(self.dequantized(names[1], counts, units))
        return found

    def bounded(self, node):
        """The node after `node` that only bounds its result, which nothing else reads."""
        readers = self.readers.get(node.output[0], [])
        return readers[0] if len(readers) == 1 and readers[0].op_type in BOUNDS else None

    def layer(self, node):
        constants = [name for name in node.input if name in self.built.initializers]
        sources = [name for name in node.input if name not in self.built.initializers]
        inputs = [self.value(name) for name in sources] + (self.parameters(sources[0], constants) if constants else [])
        after = self.bounded(node) if node.op_type in ("Conv", "Gemm", "Add") else None
        result = (after or node).output[0]
        stored = f"{result}_QuantizeLinear_Input"
        kept = helper.make_node(node.op_type, inputs, [stored], name=node.name)
        kept.attribute.extend(node.attribute)
        self.nodes.append(kept)
        self.value(result, stored)
        return after

    def run(self):
        dropped = []
        for node in self.built.nodes:
            if node in dropped:
                continue
            if node.op_type in QUANTISED:
                if (after := self.layer(node)) is not None:
                    dropped.append(after)
            else:
                self.nodes.append(node)
        self.built.nodes = self.nodes
        return self.built


def static_int8(name, make, **options):
    """The model of `make`, quantised."""
    return Quantizer(make(name, **options)).run()
