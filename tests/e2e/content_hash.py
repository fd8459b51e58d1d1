"""The content hash of docs/format.md, computed from a model as the onnx package reads it: independent of ctxgen's code."""

import ctypes
import pathlib
import struct

from onnx import AttributeProto, TensorProto, numpy_helper

MAGIC = b"\x89CTXGEN\n"


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3_128(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found = library.XXH3_128bits(bytes(data), len(data))
    return f"{found.high:016x}{found.low:016x}"


class Canonical:
    def __init__(self, folder):
        self.folder, self.data = pathlib.Path(folder), bytearray()

    def number(self, value):
        self.data += struct.pack("<Q", value & (2**64 - 1))

    def text(self, value):
        value = value.encode() if isinstance(value, str) else bytes(value)
        self.number(len(value))
        self.data += value

    def list(self, items, add):
        self.number(len(items))
        for item in items:
            add(item)

    def domain(self, name):
        self.text("" if name == "ai.onnx" else name)

    def opsets(self, imports):
        found = sorted({(b"" if one.domain == "ai.onnx" else one.domain.encode(), one.version) for one in imports})
        self.list(found, lambda one: (self.text(one[0]), self.number(one[1])))

    def model(self, model):
        self.number(model.ir_version)
        self.opsets(model.opset_import)
        self.graph(model.graph)
        self.list(model.functions, self.function)

    def function(self, function):
        self.domain(function.domain)
        self.text(function.name)
        self.text(getattr(function, "overload", ""))
        for names in (function.input, function.output, function.attribute):
            self.list(names, self.text)
        self.attributes(function.attribute_proto, False)
        self.opsets(function.opset_import)
        self.list(function.node, self.node)

    def graph(self, graph):
        self.list(graph.input, self.value_info)
        self.list(graph.output, self.value_info)
        self.list(graph.initializer, self.named_tensor)
        self.list(graph.sparse_initializer, self.named_sparse)
        self.list(graph.node, self.node)

    def node(self, node):
        self.text(node.op_type)
        self.domain(node.domain)
        self.text(getattr(node, "overload", ""))
        self.list(node.input, self.text)
        self.list(node.output, self.text)
        self.attributes(node.attribute, (node.op_type, node.domain) == ("EPContext", "com.microsoft"))

    def attributes(self, attributes, of_context):
        def add(one):
            self.text(one.name)
            self.attribute(one, of_context and one.name == "ep_cache_context")

        self.list(sorted(attributes, key=lambda one: one.name.encode()), add)

    def attribute(self, one, is_context):
        self.text(one.ref_attr_name)
        self.number(one.type)
        if one.ref_attr_name:
            return
        bits = lambda value: self.number(struct.unpack("<I", struct.pack("<f", value))[0])
        kinds = AttributeProto
        add = {
            kinds.FLOAT: lambda: bits(one.f),
            kinds.INT: lambda: self.number(one.i),
            kinds.STRING: lambda: self.number(len(one.s)) if is_context and one.s.startswith(MAGIC) else self.text(one.s),
            kinds.TENSOR: lambda: self.tensor(one.t),
            kinds.GRAPH: lambda: self.graph(one.g),
            kinds.FLOATS: lambda: self.list(one.floats, bits),
            kinds.INTS: lambda: self.list(one.ints, self.number),
            kinds.STRINGS: lambda: self.list(one.strings, self.text),
            kinds.TENSORS: lambda: self.list(one.tensors, self.tensor),
            kinds.GRAPHS: lambda: self.list(one.graphs, self.graph),
            kinds.SPARSE_TENSOR: lambda: self.sparse(one.sparse_tensor),
            kinds.SPARSE_TENSORS: lambda: self.list(one.sparse_tensors, self.sparse),
            kinds.TYPE_PROTO: lambda: self.type(one.tp),
            kinds.TYPE_PROTOS: lambda: self.list(one.type_protos, self.type),
        }
        add[one.type]()

    def tensor(self, tensor):
        self.number(tensor.data_type)
        self.list(tensor.dims, self.number)
        if tensor.data_location == TensorProto.EXTERNAL:
            places = {entry.key: entry.value for entry in tensor.external_data}
            begin, length = int(places.get("offset", 0)), int(places["length"])
            self.text((self.folder / places["location"]).read_bytes()[begin : begin + length])
        elif tensor.data_type == TensorProto.STRING:
            self.list(tensor.string_data, self.text)
        elif tensor.HasField("raw_data"):
            self.text(tensor.raw_data)
        else:
            self.text(numpy_helper.to_array(tensor).tobytes())

    def named_tensor(self, tensor):
        self.text(tensor.name)
        self.tensor(tensor)

    def sparse(self, sparse):
        self.tensor(sparse.values)
        self.tensor(sparse.indices)
        self.list(sparse.dims, self.number)

    def named_sparse(self, sparse):
        self.text(sparse.values.name)
        self.sparse(sparse)

    def value_info(self, info):
        self.text(info.name)
        self.type(info.type)

    def type(self, type_):
        kind = type_.WhichOneof("value")
        numbers = {"tensor_type": 1, "sequence_type": 4, "map_type": 5, "opaque_type": 7, "sparse_tensor_type": 8, "optional_type": 9}
        self.number(numbers.get(kind, 0))
        if kind in ("tensor_type", "sparse_tensor_type"):
            inner = getattr(type_, kind)
            self.number(inner.elem_type)
            self.number(1 if inner.HasField("shape") else 0)
            if inner.HasField("shape"):
                self.list(inner.shape.dim, self.dim)
        elif kind in ("sequence_type", "optional_type"):
            self.type(getattr(type_, kind).elem_type)
        elif kind == "map_type":
            self.number(type_.map_type.key_type)
            self.type(type_.map_type.value_type)

    def dim(self, dim):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            self.number(1)
            self.number(dim.dim_value)
        elif dim.WhichOneof("value") == "dim_param" and dim.dim_param:
            self.number(2)
            self.text(dim.dim_param)
        else:
            self.number(0)


def content_hash(model, folder):
    canonical = Canonical(folder)
    canonical.model(model)
    return xxh3_128(canonical.data)
