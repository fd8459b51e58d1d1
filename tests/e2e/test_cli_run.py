"""ctxgen run: inputs from files and from a seed, outputs to files, comparison with test data."""

import numpy as np
import onnx
import pytest
from cli_support import add_model, conv_model, ctxgen, done, json_of, refused, save, unknown_model
from onnx import numpy_helper

X = np.array([[1, 2], [3, 4]], np.float32)
Y = X + np.array([1, 10], np.float32)


@pytest.fixture
def model(tmp_path):
    return save(add_model(), tmp_path / "add.onnx")


def data_set(folder, x=X, y=Y):
    folder.mkdir(parents=True)
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    (folder / "output_0.pb").write_bytes(numpy_helper.from_array(y, "y").SerializeToString())


@pytest.mark.parametrize("provider", ["dnnl,cpu", "cpu"])
def test_npy_in_and_out(model, tmp_path, provider):
    np.save(tmp_path / "x.npy", X)
    done("run", model, "--provider", provider, "--input", f"x={tmp_path}/x.npy", "--output-dir", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["y.npy"]
    result = np.load(tmp_path / "out" / "y.npy")
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, Y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_npy_of_either_order(model, tmp_path, order, byte_order):
    np.save(tmp_path / "x.npy", np.array(X, dtype=byte_order + "f4", order=order))
    done("run", model, "--input", f"x={tmp_path}/x.npy", "--output-dir", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), Y)


def test_pb_and_raw(model, tmp_path):
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(X, "x").SerializeToString())
    (tmp_path / "x.dat").write_bytes(X.tobytes())
    for arguments in (["--input", f"x={tmp_path}/x.pb"], ["--input", f"x={tmp_path}/x.dat", "--dim", "n=2"],
                      ["--input", f"x={tmp_path}/x.dat", "--shape", "x=2x2"]):
        done("run", model, *arguments, "--output-dir", tmp_path)
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), Y)


def npy(header, data=b"\0" * 16, version=b"\x01\x00"):
    text = header.encode()
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"


def test_the_handmade_npy_is_good(model, tmp_path):
    (tmp_path / "x.npy").write_bytes(npy(GOOD))
    done("run", model, "--input", f"x={tmp_path}/x.npy")


@pytest.mark.parametrize("content", [
    b"", b"\x93NUMPY", b"not numpy at all", npy(GOOD)[:-1], npy(GOOD, b"\0" * 17), npy(GOOD, version=b"\x09\x00"),
    npy(GOOD.replace("(2, 2)", "(2, 99999999999999999999)")), npy(GOOD.replace("(2, 2)", "(-2, -2)")),
    npy(GOOD.replace("(2, 2)", "(4611686018427387904, 4611686018427387904)")), npy(GOOD.replace("<f4", "|O")),
    npy(GOOD.replace("'<f4'", "[('a', '<f4')]")), npy(GOOD.replace("False", "Maybe")), npy(GOOD.replace("}", "")),
    npy("{'descr': '<f4'}"), npy("{'descr"), b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    npy(GOOD.replace("(2, 2)", "(2, 2"), b"\0" * 16), npy(GOOD.replace("(2, 2)", str((1,) * 40)), b"\0" * 4),
])
def test_damaged_npy_is_refused(model, tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    finished = refused_any(model, f"x={tmp_path}/x.npy")
    assert "x.npy" in finished


def refused_any(model, option):
    finished = ctxgen("run", model, "--input", option)
    assert finished.returncode in (1, 2), finished.stderr
    assert finished.stdout == ""
    return finished.stderr


def test_wrong_inputs(model, tmp_path):
    np.save(tmp_path / "double.npy", X.astype(np.float64))
    np.save(tmp_path / "wide.npy", np.zeros((2, 3), np.float32))
    (tmp_path / "x.npz").write_bytes(b"PK")
    (tmp_path / "short.dat").write_bytes(b"1234")
    for option, names in ((f"x={tmp_path}/double.npy", ["float64", "float32"]), (f"x={tmp_path}/wide.npy", ["[2, 3]"]),
                          (f"x={tmp_path}/x.npz", [".npz"]), (f"x={tmp_path}/short.dat", ["4 bytes"]),
                          (f"q={tmp_path}/wide.npy", ["NAME=FILE", "x"]), ("x", ["NAME=FILE"])):
        refused(1, "INVALID_ARGUMENT", "run", model, "--input", option, names=names)
    refused(3, "IO_ERROR", "run", model, "--input", f"x={tmp_path}/none.npy")


def test_random_inputs_come_from_the_seed(model):
    first, again, other = (json_of("run", model, "--dim", "n=50", "--seed", seed)["outputs"] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first[0]["dims"] == [50, 2]
    assert 0 <= first[0]["min"] < first[0]["max"] < 11


def test_random_inputs_are_bounded_by_the_memory(model):
    refused(2, "RESOURCE_LIMIT", "run", model, "--provider", "cpu", "--dim", "n=137438953472",
            names=['"x"', "float32 [137438953472, 2]", "memory limit"])  # 1 TiB: no tensor is larger


def test_unknown_dimension_names_are_refused(model):
    refused(1, "INVALID_ARGUMENT", "run", model, "--provider", "cpu", "--dim", "m=2", names=["m"])
    refused(1, "INVALID_ARGUMENT", "run", model, "--provider", "cpu", "--dim", "n=2,3")


def test_test_data_matches(model, tmp_path):
    data_set(tmp_path / "sets" / "test_data_set_0")
    data_set(tmp_path / "sets" / "test_data_set_1", X[:1], Y[:1])
    for folder in (tmp_path / "sets", tmp_path / "sets" / "test_data_set_0"):
        for provider in ("dnnl,cpu", "cpu"):
            result = json_of("run", model, "--provider", provider, "--test-data", folder)
            assert result["match"]
    assert [one["data_set"] for one in json_of("run", model, "--test-data", tmp_path / "sets")["outputs"]] == [
        "test_data_set_0", "test_data_set_1"]


def test_test_data_that_differs_is_status_4(model, tmp_path):
    wrong = Y.copy()
    wrong[1, 1] += 0.5
    data_set(tmp_path / "set", X, wrong)
    finished = ctxgen("run", model, "--test-data", tmp_path / "set")
    assert finished.returncode == 4
    assert "MISMATCH" in finished.stdout
    assert "NOT_SATISFIED" in finished.stderr
    done("run", model, "--test-data", tmp_path / "set", "--atol", "0.6")
    done("run", model, "--test-data", tmp_path / "set", "--rtol", "0.1")


def test_test_data_of_another_shape_or_type_differs(model, tmp_path):
    data_set(tmp_path / "shape", X, Y[:1])
    data_set(tmp_path / "type", X, Y.astype(np.float64))
    for name in ("shape", "type"):
        assert ctxgen("run", model, "--test-data", tmp_path / name).returncode == 4


def test_nan_matches_nan_only(model, tmp_path):
    x = np.array([[np.nan, np.inf]], np.float32)
    data_set(tmp_path / "good", x, x)
    data_set(tmp_path / "bad", x, np.zeros_like(x))
    done("run", model, "--provider", "cpu", "--test-data", tmp_path / "good")
    assert ctxgen("run", model, "--provider", "cpu", "--test-data", tmp_path / "bad").returncode == 4


def test_test_data_errors(model, tmp_path):
    refused(3, "IO_ERROR", "run", model, "--test-data", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    refused(1, "INVALID_ARGUMENT", "run", model, "--test-data", tmp_path / "empty", names=["test_data_set_"])
    data_set(tmp_path / "set")
    (tmp_path / "set" / "input_1.pb").write_bytes((tmp_path / "set" / "input_0.pb").read_bytes())
    refused(1, "INVALID_ARGUMENT", "run", model, "--test-data", tmp_path / "set", names=["input_1.pb"])
    (tmp_path / "set" / "input_1.pb").unlink()
    (tmp_path / "set" / "input_0.pb").write_bytes(b"\xff\xff\xff")
    refused(2, "INVALID_GRAPH", "run", model, "--test-data", tmp_path / "set", names=["input_0.pb"])


def test_options_that_would_be_ignored_are_refused(model, tmp_path):
    data_set(tmp_path / "set")
    refused(1, "INVALID_ARGUMENT", "run", model, "--test-data", tmp_path / "set", "--seed", "1", names=["--seed"])
    refused(1, "INVALID_ARGUMENT", "run", model, "--rtol", "1", names=["--rtol"])
    done("run", model, "--test-data", tmp_path / "set", "--dim", "n=2")
    refused(1, "INVALID_ARGUMENT", "run", model, "--test-data", tmp_path / "set", "--dim", "n=2", "--provider", "cpu")
    done("compile", save(conv_model(), tmp_path / "net.onnx"))
    refused(1, "INVALID_ARGUMENT", "run", tmp_path / "net_ctx.onnx", "--provider", "cpu", names=["--provider"])


def test_context_and_original_agree(tmp_path):
    path = save(conv_model(), tmp_path / "net.onnx")
    done("compile", path)
    for name, provider in (("cpu", ["--provider", "cpu"]), ("memory", [])):
        done("run", path, *provider, "--dim", "batch=3", "--output-dir", tmp_path / name)
    done("run", tmp_path / "net_ctx.onnx", "--dim", "batch=3", "--output-dir", tmp_path / "context")
    expected = np.load(tmp_path / "cpu" / "y.npy")
    assert expected.shape == (3, 10)
    for name in ("memory", "context"):
        np.testing.assert_allclose(np.load(tmp_path / name / "y.npy"), expected, rtol=1e-4, atol=1e-5)


def test_context_model_does_not_need_the_source(tmp_path):
    path = save(conv_model(), tmp_path / "net.onnx")
    done("compile", path, "-o", f"{tmp_path}/out/")
    path.unlink()
    done("run", tmp_path / "out" / "net_ctx.onnx")


def test_missing_bin_names_the_place(tmp_path):
    done("compile", save(conv_model(), tmp_path / "net.onnx"))
    (tmp_path / "net_dnnl.bin").unlink()
    refused(2, "INVALID_GRAPH", "run", tmp_path / "net_ctx.onnx", names=[f"{tmp_path}/net_dnnl.bin"])


def test_truncated_and_foreign_bins_are_refused(tmp_path):
    done("compile", save(conv_model(), tmp_path / "net.onnx"))
    whole = (tmp_path / "net_dnnl.bin").read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 25)):
        (tmp_path / "net_dnnl.bin").write_bytes(whole[:size])
        refused(2, "INVALID_GRAPH", "run", tmp_path / "net_ctx.onnx")
    done("compile", save(conv_model(seed=1), tmp_path / "other" / "net.onnx"))
    (tmp_path / "net_dnnl.bin").write_bytes((tmp_path / "other" / "net_dnnl.bin").read_bytes())
    refused(2, "INVALID_GRAPH", "run", tmp_path / "net_ctx.onnx")


def test_flipped_bytes_of_the_bin_are_refused(tmp_path):
    done("compile", save(conv_model(), tmp_path / "net.onnx"))
    whole = (tmp_path / "net_dnnl.bin").read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        bad = bytearray(whole)
        bad[at] ^= 0x40
        (tmp_path / "net_dnnl.bin").write_bytes(bad)
        refused(2, "INVALID_GRAPH", "run", tmp_path / "net_ctx.onnx")


def test_external_data_in_another_folder(tmp_path):
    path = tmp_path / "m" / "net.onnx"
    path.parent.mkdir()
    onnx.save(conv_model(), path, save_as_external_data=True, location="net.data", size_threshold=0)
    (tmp_path / "net.data").write_bytes((path.parent / "net.data").read_bytes())
    done("run", path)
    done("run", path, "--provider", "cpu")
    (path.parent / "net.data").unlink()
    refused(3, "IO_ERROR", "run", path, names=["net.data"])
    for provider in ("dnnl,cpu", "cpu"):
        done("run", path, "--external-data-dir", tmp_path, "--provider", provider)


def test_a_node_that_nobody_runs(tmp_path):
    refused(2, "NOT_IMPLEMENTED", "run", save(unknown_model(), tmp_path / "odd.onnx"), names=["Frobnicate", "test.unknown"])


def test_foreign_context_names_its_provider(tmp_path):
    done("compile", save(conv_model(), tmp_path / "net.onnx"))
    model = onnx.load(tmp_path / "net_ctx.onnx")
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "source":
            attribute.s = b"QNNExecutionProvider"
    onnx.save(model, tmp_path / "foreign.onnx")
    refused(2, "NOT_IMPLEMENTED", "run", tmp_path / "foreign.onnx", names=["QNNExecutionProvider"])


def test_json_names_outputs(model):
    (only,) = json_of("run", model)["outputs"]
    assert (only["name"], only["type"], only["dims"]) == ("y", "float32", [1, 2])
