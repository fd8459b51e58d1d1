"""`.npz` files of run: NumPy's archives in and out, and archives that are none."""

import io
import struct
import zipfile

import numpy as np
import pytest
from cli_support import add_model, done, make_model, refused, save
from onnx import TensorProto, helper

X = np.array([[1, 2], [3, 4]], np.float32)
Y = X + np.array([1, 10], np.float32)


@pytest.fixture
def model(tmp_path):
    """y = x + w."""
    return save(add_model(), tmp_path / "net.onnx")


@pytest.fixture
def two(tmp_path):
    """sum = a + b, where a and b may lie in one file; 'less/sum' has a name like those of exporters."""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["less/sum"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("a", "b", "sum", "less/sum")]
    return save(make_model(helper.make_graph(nodes, "two", values[:2], values[2:])), tmp_path / "two.onnx")


def run_x(model, file):
    done("run", model, "--input", f"x={file}", "--output-dir", file.parent / "out")
    return np.load(file.parent / "out" / "y.npy")


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_array_by_name_or_the_only_one(model, tmp_path, write):
    write(tmp_path / "a.npz", other=X + 1, x=X)
    assert np.array_equal(run_x(model, tmp_path / "a.npz"), Y)
    write(tmp_path / "one.npz", whatever=X)
    assert np.array_equal(run_x(model, tmp_path / "one.npz"), Y)
    write(tmp_path / "none.npz", p=X, q=X)
    refused(1, "INVALID_ARGUMENT", "run", model, "--input", f"x={tmp_path}/none.npz", names=['"x"', "p, q"])


def test_a_large_compressed_array(model, tmp_path):
    x = np.zeros((300_000, 2), np.float32)  # deflate makes very little of zeros
    np.savez_compressed(tmp_path / "x.npz", x=x)
    assert (tmp_path / "x.npz").stat().st_size < x.nbytes / 500
    assert np.array_equal(run_x(model, tmp_path / "x.npz")[-1], [1, 10])


def test_all_inputs_from_one_file_and_all_outputs_into_one(two, tmp_path):
    a, b = np.random.default_rng(0).standard_normal((2, 2, 2)).astype(np.float32)
    np.savez(tmp_path / "in.npz", a=a, b=b)
    done("run", two, "--input", tmp_path / "in.npz", "--output-file", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert sorted(out.files) == ["less/sum", "sum"]
        assert np.array_equal(out["sum"], a + b) and np.array_equal(out["less/sum"], a - b)
    first = (tmp_path / "out.npz").read_bytes()
    done("run", two, "--input", tmp_path / "in.npz", "--output-file", tmp_path / "out.npz")
    assert (tmp_path / "out.npz").read_bytes() == first
    np.savez(tmp_path / "c.npz", a=a, c=b)
    refused(1, "INVALID_ARGUMENT", "run", two, "--input", tmp_path / "c.npz", names=['"c"', "a, b"])
    refused(1, "INVALID_ARGUMENT", "run", two, "--input", tmp_path / "in.npz", "--input", f"a={tmp_path}/in.npz", names=['"a"', "twice"])


def test_wrong_uses(model, tmp_path):
    np.savez(tmp_path / "x.npz", x=X)
    refused(1, "INVALID_ARGUMENT", "run", model, "--output-file", tmp_path / "y.npy", names=[".npz"])
    refused(1, "INVALID_ARGUMENT", "run", model, "--test-data", tmp_path, "--output-file", tmp_path / "y.npz", names=["--output-file"])
    refused(3, "IO_ERROR", "run", model, "--output-file", tmp_path / "no" / "y.npz")
    refused(3, "IO_ERROR", "run", model, "--input", tmp_path / "none.npz")
    values = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in ("s", "t")]
    strings = save(make_model(helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "g", values[:1], values[1:])), tmp_path / "strings.onnx")
    (tmp_path / "s.pb").write_bytes(helper.make_tensor("s", TensorProto.STRING, [1], [b"x"]).SerializeToString())
    refused(2, "NOT_IMPLEMENTED", "run", strings, "--input", f"s={tmp_path}/s.pb", "--output-file", tmp_path / "t.npz", names=['"t"'])
    assert not (tmp_path / "t.npz").exists()


# ---- archives that are none ------------------------------------------------------------------------------------------


def archive(entries, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as out:
        for name, content in entries:
            out.writestr(name, content)
    return bytearray(file.getvalue())


def npy(array=X):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def central(data):
    """Where the first entry of the directory begins."""
    return data.index(b"PK\1\2")


def claim(size, both=True):
    """An archive that says its array has `size` bytes."""
    data = archive([("x.npy", npy())], compression=zipfile.ZIP_DEFLATED)
    struct.pack_into("<I", data, central(data) + 24, size)
    if both:
        struct.pack_into("<I", data, 22, size)
    return data


def encrypted():
    data = archive([("x.npy", npy())], compression=zipfile.ZIP_DEFLATED)
    data[6] |= 1
    data[central(data) + 8] |= 1
    return data


def damaged():
    data = archive([("x.npy", npy())])
    data[data.index(X.tobytes())] ^= 1
    return data


BAD = {  # the archive, and what its message names
    "empty": (b"", "empty"),
    "two_bytes": (b"PK", ".npz"),
    "text": (b"not an archive at all, but long enough to look into " * 4, ".npz"),
    "no_directory": (archive([("x.npy", npy())])[:-30], ".npz"),
    "short_array": (archive([("x.npy", npy()[:-1])]), "fit"),
    "no_npy": (archive([("x.txt", b"text")]), "x.txt"),
    "empty_array": (archive([("x.npy", b"")]), "x"),
    "no_array": (archive([]), "no array"),
    "bzip2": (archive([("x.npy", npy())], compression=zipfile.ZIP_BZIP2), "deflated"),
    "claims_more": (claim(len(npy()) + 1), "x"),
    "claims_less": (claim(len(npy()) - 1), "x"),
    "claims_4_gib": (claim(0xFFFFFFF0), "cannot become"),
    "headers_differ": (claim(len(npy()) + 64, both=False), "inconsistent"),
    "encrypted": (encrypted(), "encrypted"),
    "checksum": (damaged(), "CRC"),
}


@pytest.mark.parametrize("name", BAD)
def test_archives_that_are_none(model, tmp_path, name):
    content, says = BAD[name]
    (tmp_path / "x.npz").write_bytes(content)
    for option in (f"x={tmp_path}/x.npz", tmp_path / "x.npz"):
        refused(1, "INVALID_ARGUMENT", "run", model, "--input", option, names=["x.npz", says])


def test_a_name_twice(model, tmp_path):
    with pytest.warns(UserWarning):
        data = archive([("x.npy", npy()), ("x.npy", npy(X + 1))])
    (tmp_path / "x.npz").write_bytes(data)
    refused(1, "INVALID_ARGUMENT", "run", model, "--input", f"x={tmp_path}/x.npz", names=["twice"])


def test_every_truncation_is_refused(model, tmp_path):
    whole = archive([("x.npy", npy())], compression=zipfile.ZIP_DEFLATED)
    for size in range(0, len(whole), 7):
        (tmp_path / "x.npz").write_bytes(whole[:size])
        refused(1, "INVALID_ARGUMENT", "run", model, "--input", f"x={tmp_path}/x.npz", names=["x.npz"])
