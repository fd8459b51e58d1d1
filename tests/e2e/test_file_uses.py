"""No command replaces a file that it reads, or writes one file twice; links, pipes and devices among the outputs."""

import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from cli_support import add_model, conv_model, ctxgen, done, ep_nodes, into, json_of, refused, save, temporaries
from onnx import TensorProto, helper


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """m.onnx with external data, n.onnx, what each compiled to, an input; the current folder."""
    onnx.save(conv_model(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    save(conv_model(seed=1), tmp_path / "n.onnx")
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 3, 8, 8), np.float32))
    (tmp_path / "opts").write_text("--seed 1\n")
    done("compile", tmp_path / "m.onnx")
    (tmp_path / "hard.onnx").hardlink_to(tmp_path / "m.onnx")
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    (tmp_path / "here").symlink_to(".")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


CLASHES = [
    # the model
    "compile m.onnx --bin m.onnx", "compile m.onnx --report m.onnx", "compile m.onnx --depfile m.onnx", "compile m.onnx -o m.onnx",
    "compile m.onnx --provider cpu --external-initializers m.onnx", "compile m.onnx,n.onnx --bin n.onnx", "compile m.onnx --append m.onnx",
    # by other names
    "compile m.onnx --bin ./m.onnx", "compile m.onnx --bin here/m.onnx", "compile m.onnx --bin hard.onnx", "compile m.onnx --bin link.onnx",
    "compile hard.onnx --bin m.onnx", "compile link.onnx --report m.onnx", "compile m.onnx --report here/here/m.onnx", "compile here/m.onnx --bin m.onnx",
    # its external data
    "compile m.onnx --bin m.data", "compile m.onnx --report m.data", "compile m.onnx --depfile m.data", "compile m.onnx -o m.data",
    "compile m.onnx --provider cpu --external-initializers m.data", "compile m.onnx --embed -o - --report m.data",
    "compile m.onnx -o - --bin m.data", "compile m.onnx --if-needed --depfile m.data", "compile m.onnx --dry-run --report m.data",
    # one output over the other
    "compile m.onnx -o q_ctx.onnx --bin q_ctx.onnx", "compile m.onnx --report m_ctx.onnx", "compile m.onnx --depfile m_dnnl.bin",
    "compile m.onnx --report r.json --depfile r.json", "compile m.onnx --report m_dnnl.bin", "compile m.onnx --report here/m_ctx.onnx",
    "compile m.onnx --external-initializers m_dnnl.bin", "compile m.onnx -MD -MF m_ctx.onnx", "compile m.onnx,n.onnx --bin m_ctx.onnx",
    "compile m.onnx --if-needed --report m_ctx.onnx", "compile m.onnx -o new/ --report new", "compile m.onnx --cache-dir m_ctx.onnx -o n_ctx.onnx --report m_ctx.onnx",
    # what else is read
    "compile m.onnx --options opts --report opts", "compile m.onnx --options opts --bin opts",
    "run m.onnx --profile m.onnx", "run m.onnx --profile m.data", "run m_ctx.onnx --profile m_ctx.onnx", "run m_ctx.onnx --profile m_dnnl.bin",
    "run m_ctx.onnx --output-dir out --profile out/y.npy", "run m.onnx --input x=x.npy --profile x.npy", "run m.onnx --options opts --profile opts",
    "run m.onnx --input x=x.npz --output-file x.npz", "run m.onnx --input x.npz --output-file x.npz", "run m.onnx --output-file z.npz --profile z.npz",
    "run m.onnx --provider cpu --profile here/m.data", "bench m_ctx.onnx --iterations 1 --profile m_dnnl.bin", "bench m.onnx --profile hard.onnx",
]


@pytest.mark.parametrize("command", CLASHES)
def test_nothing_that_is_read_or_written_is_replaced(folder, command):
    before = contents(folder)
    refused(1, "INVALID_ARGUMENT", *command.split())
    assert contents(folder) == before


def test_outputs_of_a_run_are_compared_with_its_inputs(folder):
    """run --output-dir: the names of the files come from the model."""
    (folder / "in").mkdir()
    save(add_model(), folder / "add.onnx")
    np.save(folder / "in" / "y.npy", np.ones((1, 2), np.float32))
    before = contents(folder)
    refused(1, "INVALID_ARGUMENT", "run", "add.onnx", "--input", "x=in/y.npy", "--output-dir", "in")
    assert contents(folder) == before
    done("run", "add.onnx", "--input", "x=in/y.npy", "--output-dir", "out")


def test_test_data_is_not_replaced(folder):
    (folder / "set").mkdir()
    for name, array in (("input_0", np.zeros((1, 3, 8, 8), np.float32)), ("output_0", np.zeros((1, 10), np.float32))):
        (folder / "set" / f"{name}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    before = contents(folder)
    refused(1, "INVALID_ARGUMENT", "run", "m.onnx", "--test-data", "set", "--profile", "set/output_0.pb")
    assert contents(folder) == before


def foreign_model(path, bin_name, bytes_):
    node = helper.make_node("EPContext", ["x"], ["y"], name="other", domain="com.microsoft", main_context=1, embed_mode=0,
                            ep_cache_context=bin_name, source="OtherExecutionProvider")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    (path.parent / bin_name).write_bytes(bytes_)


def test_bins_of_others_are_neither_replaced_nor_mixed(tmp_path):
    for name in "ab":
        foreign_model(tmp_path / name / f"{name}.onnx", "npu.bin", name.encode())
    before = contents(tmp_path)
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "a" / "a.onnx", "--report", tmp_path / "a" / "npu.bin")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "a" / "a.onnx", "-o", into(tmp_path / "out"), "--report", tmp_path / "out" / "npu.bin")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "a" / "a.onnx", tmp_path / "b" / "b.onnx", "-o", tmp_path / "out")
    assert contents(tmp_path) == before
    foreign_model(tmp_path / "a" / "c.onnx", "npu.bin", b"a")
    report = json_of("compile", tmp_path / "a" / "a.onnx", tmp_path / "a" / "c.onnx", "-o", tmp_path / "out")
    assert [pathlib.Path(one["path"]).name for one in report["files"]] == ["npu.bin", "a_ctx.onnx", "c_ctx.onnx"]
    assert (tmp_path / "out" / "npu.bin").read_bytes() == b"a"


def test_a_model_cannot_write_through_a_link(tmp_path):
    """The copy's name comes out of the model; a link of the user's in the output folder leads it nowhere."""
    foreign_model(tmp_path / "in" / "a.onnx", "notes", b"theirs")
    (tmp_path / "out").mkdir()
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "out" / "notes").symlink_to("../mine")
    refused(1, "INVALID_ARGUMENT", "compile", tmp_path / "in" / "a.onnx", "-o", tmp_path / "out")
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_weights_that_stay_in_the_source_are_not_replaced(folder):
    done("compile", "m.onnx", "-o", "w_ctx.onnx", "--config", "ep.enable_weightless_mode=1")
    before = contents(folder)
    refused(1, "INVALID_ARGUMENT", "run", "w_ctx.onnx", "--profile", "m.data")
    assert contents(folder) == before


def test_earlier_versions_are_replaced(folder):
    """Of all outputs, by any name."""
    options = ["m.onnx", "--report", "r.json", "--depfile", "m.d", "--provider", "cpu", "--external-initializers", "e.data"]
    for _ in range(2):
        done("compile", *options)
        done("compile", "m.onnx", "-o", "here/m_ctx.onnx", "--bin", "here/m_dnnl.bin")
        done("run", "m_ctx.onnx", "--output-dir", "out", "--profile", "p.json", "--output-file", "z.npz")
    assert temporaries(folder) == []


# ---- folders that take no files ----


@pytest.mark.parametrize("options", [
    ["--depfile", "nope/x.d"], ["--report", "nope/r.json"], ["--if-needed", "--depfile", "nope/x.d"], ["-MD", "-MF", "n.onnx/x.d"],
    ["-o", "-", "--embed", "--report", "nope/r.json"], ["--embed", "-o", "nope/m_ctx.onnx"], ["-o", "new/", "--report", "nope/r.json"],
])
def test_a_missing_folder_is_found_before_anything_is_written(folder, options):
    before = contents(folder)
    refused(3, "IO_ERROR", "compile", "m.onnx", *options)
    assert contents(folder) == before and not (folder / "new").exists()


@pytest.mark.parametrize("options", [["--profile", "nope/p.json"], ["--output-file", "nope/z.npz"], ["--output-dir", "n.onnx"], ["--output-dir", "n.onnx/sub"]])
def test_a_missing_folder_is_found_before_a_run(folder, options):
    before = contents(folder)
    refused(3, "IO_ERROR", "run", "m.onnx", *options)
    assert contents(folder) == before


def test_files_may_lie_in_the_folder_that_is_made(folder):
    done("compile", "m.onnx", "-o", "new/", "--report", "new/r.json", "--depfile", "new/m.d")
    assert sorted(path.name for path in (folder / "new").iterdir()) == ["m.d", "m_ctx.onnx", "m_dnnl.bin", "r.json"]
    done("compile", "m.onnx", "-o", "other/", "--dry-run")
    assert not (folder / "other").exists()


# ---- links, pipes and devices ----


def test_links_to_files_stay_links(folder):
    """What they lead to is replaced, in its own folder."""
    (folder / "store").mkdir()
    (folder / "out").mkdir()
    names = ["m_ctx.onnx", "m_dnnl.bin", "r.json", "m.d", "p.json", "z.npz"]
    for name in names:
        home = folder / "out" / ".store" if name == "m_dnnl.bin" else folder / "store"
        home.mkdir(exist_ok=True)
        (home / name).write_text("old")
        (folder / "out" / name).symlink_to(os.path.relpath(home / name, folder / "out"))
    done("compile", "m.onnx", "-o", "out/m_ctx.onnx", "--report", "out/r.json", "--depfile", "out/m.d")
    done("run", "out/m_ctx.onnx", "--profile", "out/p.json", "--output-file", "out/z.npz")
    for name in names:
        assert (folder / "out" / name).is_symlink()
        assert (folder / "out" / name).read_bytes() != b"old"
    assert temporaries(folder) == []
    assert (folder / "store" / "m_ctx.onnx").read_bytes() == (folder / "m_ctx.onnx").read_bytes()
    done("compile", "m.onnx", "-o", "out/m_ctx.onnx", "--keep-unchanged")
    assert (folder / "out" / "m_ctx.onnx").is_symlink()


def test_a_link_to_nothing_is_refused(folder):
    (folder / "d_ctx.onnx").symlink_to("missing")
    before = contents(folder)
    refused(3, "IO_ERROR", "compile", "m.onnx", "-o", "d_ctx.onnx")
    refused(3, "IO_ERROR", "run", "m.onnx", "--profile", "d_ctx.onnx")
    assert contents(folder) == before


def test_what_lies_beside_a_model_is_found_by_loads(folder):
    """A load follows no link out of the model's folder, so none is written through there."""
    (folder / "store").mkdir()
    (folder / "store" / "m_dnnl.bin").write_text("old")
    (folder / "out").mkdir()
    (folder / "out" / "m_dnnl.bin").symlink_to("../store/m_dnnl.bin")
    (folder / "out" / "sub").symlink_to("../store")
    before = contents(folder)
    refused(1, "INVALID_ARGUMENT", "compile", "m.onnx", "-o", "out/m_ctx.onnx")
    refused(1, "INVALID_ARGUMENT", "compile", "m.onnx", "-o", "out/m_ctx.onnx", "--bin", "out/sub/new.bin")
    assert contents(folder) == before


def test_folders_may_be_links(folder):
    (folder / "real").mkdir()
    (folder / "out").symlink_to("real")
    (folder / "kept").mkdir()
    (folder / "cache").symlink_to("kept")
    done("compile", "m.onnx", "-o", "out/", "--cache-dir", "cache")
    assert sorted(path.name for path in (folder / "real").iterdir()) == ["m_ctx.onnx", "m_dnnl.bin"]
    assert any((folder / "kept").iterdir())
    done("run", "out/m_ctx.onnx", "--output-dir", "out")
    assert (folder / "real" / "y.npy").exists()


def test_a_link_in_the_cache_leads_nowhere(folder):
    """Others may write into a cache: what they leave there is replaced."""
    done("compile", "m.onnx", "--cache-dir", "cache")
    for path in (folder / "cache").rglob("*"):
        if path.is_file():
            path.unlink()
            path.symlink_to(folder / "n.onnx")
    before = (folder / "n.onnx").read_bytes()
    done("compile", "m.onnx", "--cache-dir", "cache")
    assert (folder / "n.onnx").read_bytes() == before


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "out.link"])
def test_standard_output_by_name_is_standard_output(folder, name):
    (folder / "out.link").symlink_to("/dev/stdout")
    expected = done("compile", "m.onnx", "--embed", "-o", "-", text=False).stdout
    assert done("compile", "m.onnx", "--embed", "-o", name, text=False).stdout == expected
    with open(folder / "file", "wb") as file:
        subprocess.run([os.environ["CTXGEN_BIN"], "compile", "m.onnx", "--embed", "-o", name], stdout=file, check=True)
    assert (folder / "file").read_bytes() == expected
    assert (folder / "out.link").is_symlink() and pathlib.Path("/dev/stdout").is_symlink()


def test_outputs_go_into_pipes_and_devices(folder):
    os.mkfifo(folder / "pipe")
    expected = done("compile", "m.onnx", "--embed", "-o", "-", text=False).stdout
    reader = subprocess.Popen(["cat", folder / "pipe"], stdout=subprocess.PIPE)
    done("compile", "m.onnx", "--embed", "-o", "pipe")
    assert reader.communicate(timeout=60)[0] == expected
    assert (folder / "pipe").is_fifo()
    done("compile", "m.onnx", "--embed", "-o", "/dev/null", "--report", "/dev/null")
    assert pathlib.Path("/dev/null").is_char_device()
    report = done("compile", "m.onnx", "-q", "--report", "/dev/stdout").stdout
    assert report.startswith("{")
    before = contents(folder)
    for options in (["-o", "/dev/null"], ["-o", "pipe"], ["-o", "/dev/stdout"], ["-o", "/dev/null", "--embed", "-MD"],
                    ["-o", "pipe", "--embed", "--report", "pipe"]):
        refused(1, "INVALID_ARGUMENT", "compile", "m.onnx", *options)
    assert contents(folder) == before


def test_the_summary_does_not_follow_the_model(folder):
    """compile -o /dev/stdout --embed > f: f is the model and nothing else."""
    finished = ctxgen("compile", "m.onnx", "--embed", "-o", "/dev/stdout", text=False)
    (folder / "f.onnx").write_bytes(finished.stdout)
    assert ep_nodes(folder / "f.onnx") and b"m.onnx" in finished.stderr
    done("run", "f.onnx")
