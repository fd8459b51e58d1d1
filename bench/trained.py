"""Trained models from a folder of MODEL/model.onnx, as entries of the bench.

Free dims are 1, as ctxgen takes them for `bench` without --dim. Inputs are seeded; integers are 0, which every table has.
"""

import pathlib

import numpy as np
import onnx

import contestants


def is_path(name):
    return name.endswith(".onnx")


def models_in(folder):
    """Name -> file, of all subfolders."""
    return {path.parent.name: path for path in sorted(pathlib.Path(folder).glob("*/model.onnx"))}


def sample_of(value, generator):
    tensor = value.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if np.issubdtype(dtype, np.floating):
        return generator.standard_normal(shape).astype(dtype)
    return np.zeros(shape, dtype)


def read(name, path, work):
    """The model with its inputs written into a folder of `work`.

    Errors: contestants.Failed if an input is no tensor of numbers.
    """
    graph = onnx.load(str(path), load_external_data=False).graph
    folder, generator, inputs = work / f"{name}-inputs", np.random.default_rng(0), {}
    folder.mkdir(exist_ok=True)
    weights, dims = {tensor.name for tensor in graph.initializer}, {}
    for index, value in enumerate(value for value in graph.input if value.name not in weights):
        if not value.type.HasField("tensor_type") or value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            raise contestants.Failed(f"input {value.name} is no tensor of numbers")
        inputs[value.name] = folder / f"input_{index}.npy"
        np.save(inputs[value.name], sample_of(value, generator))
        dims |= {dim.dim_param: 1 for dim in value.type.tensor_type.shape.dim if dim.dim_param}
    return contestants.Model(name, path, inputs, dims)
