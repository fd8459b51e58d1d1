"""Compares pairs of ONNX files, named on alternate lines of the file given: exit 1 if a pair differs.

Both are parsed and serialised by the onnx package, so that only the order of fields in the file does not count. Where the first has
external data, its tensors are brought inline as ctxgen does: raw_data in place of external_data and data_location.
"""
import os
import sys

import onnx
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data


def tensors(message):
    """Every TensorProto inside of a message."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        repeated = hasattr(value, "__len__") and not hasattr(value, "ListFields")
        for each in value if repeated else [value]:
            yield from tensors(each)


def normalised(path):
    model = onnx.load(path, load_external_data=False)
    for tensor in tensors(model):
        if uses_external_data(tensor):
            load_external_data_for_tensor(tensor, os.path.dirname(path))
            tensor.ClearField("data_location")
            del tensor.external_data[:]
    return model.SerializeToString(deterministic=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        paths = file.read().splitlines()
    different = [copy for source, copy in zip(paths[::2], paths[1::2]) if normalised(source) != normalised(copy)]
    for copy in different:
        print("differs from its source:", os.path.basename(copy), file=sys.stderr)
    return 1 if different or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
