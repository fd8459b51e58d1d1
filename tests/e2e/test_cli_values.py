"""ctxgen run with values that are no tensors: ONNX's own test data, and what is said of them."""

import pathlib

import numpy as np
import pytest
from cli_support import ctxgen, done, json_of, refused, save
from onnx import TensorProto, helper, numpy_helper

DATA = pathlib.Path("/usr/share/libonnx-testdata/data/node")
if not DATA.exists():
    pytest.skip(f"no test data at {DATA}", allow_module_level=True)

CASES = ["test_sequence_insert_at_front", "test_sequence_map_add_2_sequences", "test_identity_opt", "test_if_opt",
         "test_loop16_seq_none", "test_split_to_sequence_nokeepdims", "test_optional_has_element_empty_optional_input"]


@pytest.mark.parametrize("provider", ["dnnl,cpu", "cpu"])
@pytest.mark.parametrize("case", CASES)
def test_onnxs_data_matches(case, provider):
    assert json_of("run", DATA / case / "model.onnx", "--provider", provider, "--test-data", DATA / case)["match"] is True


@pytest.fixture
def insert(tmp_path):
    """The case's model, and its sequence as a file."""
    return DATA / "test_sequence_insert_at_back" / "model.onnx", tmp_path / "sequence.pb"


def sequence_file(path, *arrays):
    path.write_bytes(numpy_helper.from_list([np.array(a, np.int64) for a in arrays]).SerializeToString())
    return path


def test_another_sequence_is_a_mismatch(insert, tmp_path):
    model, _ = insert
    data = model.parent / "test_data_set_0"
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    sequence_file(tmp_path / "output_0.pb", [1, 2], [3])
    finished = ctxgen("run", model, "--test-data", tmp_path)
    assert finished.returncode == 4 and "MISMATCH" in finished.stdout, finished.stdout + finished.stderr


def test_sequences_are_given_as_files_and_described(insert, tmp_path):
    model, file = insert
    sequence_file(file, [1, 2], [3])
    given = json_of("run", model, "--input", f"sequence={file}")
    assert given["outputs"] == [{"name": "output_sequence", "type": "sequence of 3 x int64"}]
    refused(2, "NOT_IMPLEMENTED", "run", model, "--input", f"sequence={file}", "--output-dir", tmp_path / "out",
            names=["output_sequence"])
    assert not (tmp_path / "out").exists()


def test_a_sequence_has_no_random_values(insert):
    model, _ = insert
    refused(1, "INVALID_ARGUMENT", "run", model, names=['"sequence"', "--input"])


def test_an_optional_that_is_not_given_is_empty(tmp_path):
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["o"], ["has"])], "g", [helper.make_value_info("o", optional)],
        [helper.make_tensor_value_info("has", TensorProto.BOOL, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    done("run", save(model, tmp_path / "has.onnx"), "--output-dir", tmp_path)
    assert np.load(tmp_path / "has.npy") == np.False_
