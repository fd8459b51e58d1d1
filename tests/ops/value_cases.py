"""Cases of operators on labels, maps, sequences and optionals, for make_contrib_cases.py; the outputs are ONNX Runtime's."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"


def map_type(key, value):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


def map_proto(entries):
    """By hand: numpy_helper.from_dict does not take strings."""
    proto = onnx.MapProto()
    for key in entries:
        if isinstance(key, str):
            proto.key_type = TensorProto.STRING
            proto.string_keys.append(key.encode())
        else:
            proto.key_type = TensorProto.INT64
            proto.keys.append(key)
    proto.values.elem_type = onnx.SequenceProto.TENSOR
    for value in entries.values():
        array = np.array(value, object if isinstance(value, str) else np.float32)
        proto.values.tensor_values.append(numpy_helper.from_array(array))
    return proto


def serialised(value, value_type):
    if value_type.HasField("optional_type"):
        return numpy_helper.from_optional(value).SerializeToString()
    if isinstance(value, dict):
        return map_proto(value).SerializeToString()
    if isinstance(value, list) and not (value and isinstance(value[0], dict)):
        return numpy_helper.from_list(value, dtype=None if value else onnx.SequenceProto.TENSOR).SerializeToString()
    if isinstance(value, list):
        sequence = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP)
        sequence.map_values.extend(map_proto(one) for one in value)
        return sequence.SerializeToString()
    return numpy_helper.from_array(np.asarray(value)).SerializeToString()


def value_case(folder, name, op, given, given_type, output_type, version=3, **attributes):
    """An operator of ai.onnx.ml with one input."""
    write_case(folder, name, op, [given], [given_type], output_type, domain=ML, ml_version=version, **attributes)


def write_case(folder, name, op, given, given_types, output_type, domain="", ml_version=3, **attributes):
    names = [f"x{i}" for i in range(len(given))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], domain=domain, **attributes)], name,
        [helper.make_value_info(n, t) for n, t in zip(names, given_types)], [helper.make_value_info("y", output_type)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, ml_version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, dict(zip(names, given)))
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / name / "model.onnx").write_bytes(model)
    for i, (value, value_type) in enumerate(zip(given, given_types)):
        (data / f"input_{i}.pb").write_bytes(serialised(value, value_type))
    (data / "output_0.pb").write_bytes(serialised(result, output_type))


def sequence_cases(folder):
    FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
    tensor = helper.make_tensor_type_proto
    floats = tensor(FLOAT, None)
    sequence = helper.make_sequence_type_proto(floats)
    a, b, c = (np.arange(n, dtype=np.float32).reshape(2, -1) for n in (4, 6, 2))

    def case(name, op, given, types, output_type, **attributes):
        write_case(folder, name, op, given, types, output_type, **attributes)

    at = np.array(-2, np.int64)
    case("sequence_construct", "SequenceConstruct", [a, b], [floats, floats], sequence)
    case("sequence_empty", "SequenceEmpty", [], [], sequence)
    case("sequence_at", "SequenceAt", [[a, b, c], at], [sequence, tensor(INT64, [])], floats)
    case("sequence_erase", "SequenceErase", [[a, b, c], at], [sequence, tensor(INT64, [])], sequence)
    case("sequence_erase_last", "SequenceErase", [[a, b, c]], [sequence], sequence)
    case("sequence_length", "SequenceLength", [[a, b, c]], [sequence], tensor(INT64, []))
    case("concat_from_sequence", "ConcatFromSequence", [[a, b, c]], [sequence], floats, axis=-1)
    case("concat_from_sequence_new_axis", "ConcatFromSequence", [[a, a + 1]], [sequence], floats, axis=1, new_axis=1)
    case("optional", "Optional", [a], [floats], helper.make_optional_type_proto(floats))


def write(folder):
    sequence_cases(folder)
    FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
    tensor = helper.make_tensor_type_proto
    words = np.array(["b", "nobody", "a"], object)
    numbers = np.array([[2, 7], [0, 1]], np.int64)

    def case(*arguments, **attributes):
        value_case(folder, *arguments, **attributes)

    case("label_encoder_1", "LabelEncoder", words, tensor(STRING, [3]), tensor(INT64, [3]), version=1,
         classes_strings=["a", "b", "c"], default_int64=-5)
    case("label_encoder_1_back", "LabelEncoder", numbers, tensor(INT64, [2, 2]), tensor(STRING, [2, 2]), version=1,
         classes_strings=["a", "b", "c"], default_string="none")
    case("label_encoder_2_floats", "LabelEncoder", np.array([0.0, np.nan, 1.5, 3], np.float32), tensor(FLOAT, [4]),
         tensor(INT64, [4]), version=2, keys_floats=[1.5, float("nan"), 0.0], values_int64s=[10, 20, 30])
    case("category_mapper", "CategoryMapper", words, tensor(STRING, [3]), tensor(INT64, [3]), version=1,
         cats_strings=["a", "b"], cats_int64s=[70, 80], default_int64=3)
    case("category_mapper_back", "CategoryMapper", numbers, tensor(INT64, [2, 2]), tensor(STRING, [2, 2]), version=1,
         cats_strings=["a", "b"], cats_int64s=[7, 1], default_string="none")

    scores = np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]], np.float32)
    for key, labels in ((INT64, {"classlabels_int64s": [30, 10, 20]}), (STRING, {"classlabels_strings": ["z", "x", "y"]})):
        sequence = helper.make_sequence_type_proto(map_type(key, FLOAT))
        kind = "ints" if key == INT64 else "strings"
        case(f"zip_map_{kind}", "ZipMap", scores, tensor(FLOAT, [2, 3]), sequence, version=1, **labels)
    case("dict_vectorizer", "DictVectorizer", {"b": 2.0, "c": 3.0}, map_type(STRING, FLOAT), tensor(FLOAT, [1, 3]), version=1,
         string_vocabulary=["a", "b", "c"])
    case("cast_map_dense", "CastMap", {5: 1.5, 9: -2.0}, map_type(INT64, FLOAT), tensor(INT64, [1, 2]), version=1,
         cast_to="TO_INT64")
    case("cast_map_sparse", "CastMap", {1: 1.5, 3: -2.0}, map_type(INT64, FLOAT), tensor(FLOAT, [1, 4]), version=1,
         cast_to="TO_FLOAT", map_form="SPARSE", max_map=4)
