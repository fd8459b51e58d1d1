"""A small writer of ONNX models in the shape in which torch.onnx.export (dynamo=False) leaves them.

Nodes are named by module path ("/layer1/layer1.0/conv1/Conv", then "Conv_1"), outputs after their node
("..._output_0"), parameters by their dotted name, and weights that the exporter made itself (folded or transposed ones)
"onnx::Conv_497". Shapes that tracing could not fold are chains of Shape, Gather, Unsqueeze and Concat.
"""

import contextlib
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_OF_OPSET = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 21: 10}
PROTOBUF_LIMIT_BYTES = 2**31 - 1
ELEMENT_TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8,
}  # fmt: skip


def random_for(name, seed=0):
    """A generator that depends on the weight's name only, so that models which share a weight share its bytes."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def normal(name, shape, std, mean=0.0):
    values = random_for(name).standard_normal(shape, dtype=np.float32)
    values *= np.float32(std)
    if mean:
        values += np.float32(mean)
    return values


def uniform(name, shape, low, high):
    return random_for(name).uniform(low, high, shape).astype(np.float32)


def tensor_of(name, values):
    """`values` is an array, or a tensor of a type that NumPy lacks."""
    if not isinstance(values, TensorProto):
        return numpy_helper.from_array(values, name)
    values.name = name
    return values


class Builder:
    def __init__(self, name, opset):
        self.name = name
        self.opset = opset
        self.nodes = []
        self.initializers = {}
        self.inputs = []
        self.outputs = []
        self.sample_inputs = {}
        self._scopes = []
        self._node_counts = {}
        self._serial = 100

    # ---- names ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, *names):
        """Enters submodules, outermost first."""
        self._scopes.extend(names)
        yield
        del self._scopes[len(self._scopes) - len(names) :]

    def parameter_name(self, leaf):
        return ".".join([*self._scopes, leaf])

    def _node_name(self, op):
        parts = []
        for scope in self._scopes:  # the items of a Sequential repeat its name ("/layer1/layer1.0"), those of a ModuleList do not
            parts.append(f"{parts[-1]}.{scope}" if scope.isdigit() and parts else scope)
        base = "/" + "/".join([*parts, op])
        count = self._node_counts.get(base, 0)
        self._node_counts[base] = count + 1
        return f"{base}_{count}" if count else base

    def _next_serial(self):
        self._serial += 1
        return self._serial

    # ---- content --------------------------------------------------------------------------------------------------

    def input(self, name, sample, dims=None):
        """`sample` is what the bench feeds; `dims` the declared shape, its symbolic dims as strings."""
        self.inputs.append(helper.make_tensor_value_info(name, ELEMENT_TYPES[sample.dtype], dims or list(sample.shape)))
        self.sample_inputs[name] = sample
        return name

    def output(self, value, name, dims, element_type=TensorProto.FLOAT):
        """Gives the value its public name, as the exporter does: the node that makes it is renamed, no Identity."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, old in enumerate(names):
                    if old == value:
                        names[i] = name
        self.outputs.append(helper.make_tensor_value_info(name, element_type, dims))

    def node(self, op, inputs, outputs=1, **attributes):
        name = self._node_name(op)
        names = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=np.float32):
        tensor = numpy_helper.from_array(np.asarray(value, dtype=dtype))
        return self.node("Constant", [], value=tensor)

    def ints(self, *values):
        return self.constant(list(values), np.int64)

    def weight(self, leaf, values):
        """A parameter under its own name, kept by the exporter as it is."""
        return self.initializer(self.parameter_name(leaf), values)

    def made_weight(self, op, values):
        """A weight that the exporter folded or transposed: it loses its name."""
        return self.initializer(f"onnx::{op}_{self._next_serial()}", values)

    def initializer(self, name, values):
        assert name not in self.initializers, name
        self.initializers[name] = values
        return name

    # ---- shape arithmetic, as tracing leaves it -------------------------------------------------------------------

    def dim(self, value, axis):
        return self.node("Gather", [self.node("Shape", [value]), self.constant(axis, np.int64)], axis=0)

    def unsqueeze(self, value, *axes):
        return self.node("Unsqueeze", [value, self.ints(*axes)])

    def shape_of(self, *dims):
        """A Concat of dims: strings are scalar values of the graph, integers constants."""
        parts = [self.unsqueeze(d, 0) if isinstance(d, str) else self.ints(d) for d in dims]
        return self.node("Concat", parts, axis=0)

    # ---- writing --------------------------------------------------------------------------------------------------

    def model(self):
        tensors = [tensor_of(name, values) for name, values in self.initializers.items()]
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, self.outputs, tensors)
        return helper.make_model(
            graph,
            producer_name="ctxgen bench/models",
            ir_version=IR_OF_OPSET[self.opset],
            opset_imports=[helper.make_opsetid("", self.opset)],
        )

    def save(self, path):
        """Weights go inside the file, or beside it where the file would pass protobuf's limit."""
        total = sum(len(values.raw_data) if isinstance(values, TensorProto) else values.nbytes for values in self.initializers.values())
        external = total > PROTOBUF_LIMIT_BYTES - (64 << 20)
        onnx.save_model(
            self.model(),
            path,
            save_as_external_data=external,
            all_tensors_to_one_file=True,
            location=path.name + ".data",
        )
