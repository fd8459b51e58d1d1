"""A context binary that context models beside it need is not replaced by a compile that does not write these models, too."""

import shutil

import numpy as np
import onnx
import pytest
from cli_support import conv_model, done, into, json_of, refused, save


@pytest.fixture
def batch(tmp_path):
    """a and b in one context binary, in out/."""
    for i, name in enumerate("ab"):
        save(conv_model(seed=i), tmp_path / f"{name}.onnx")
    done("compile", tmp_path / "a.onnx", tmp_path / "b.onnx", "-o", tmp_path / "out")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_one_of_a_batch_alone_is_refused(batch):
    before = contents(batch / "out")
    message = refused(4, "NOT_SATISFIED", "compile", batch / "a.onnx", "-o", batch / "out", names=["b_ctx.onnx", "--append", "--force"])
    assert "a_ctx.onnx" not in message
    refused(4, "NOT_SATISFIED", "compile", batch / "a.onnx", "-o", batch / "out", "--dry-run")
    refused(4, "NOT_SATISFIED", "compile", batch / "b.onnx", "-o", batch / "out", "--bin", batch / "out" / "a_dnnl.bin")
    assert contents(batch / "out") == before
    done("run", batch / "out" / "b_ctx.onnx")


def test_the_ways_out(batch):
    done("compile", batch / "a.onnx", "-o", batch / "out", "--append", batch / "out" / "a_dnnl.bin")
    done("run", batch / "out" / "b_ctx.onnx")
    done("compile", batch / "a.onnx", batch / "b.onnx", "-o", batch / "out")
    done("compile", batch / "b.onnx", "-o", batch / "out")  # b_dnnl.bin of its own: a goes on
    done("run", batch / "out" / "a_ctx.onnx")
    done("compile", batch / "a.onnx", "-o", batch / "out")  # and now nobody else needs a_dnnl.bin


def test_force_replaces_it(batch):
    done("compile", batch / "a.onnx", "-o", batch / "out", "--force")
    done("run", batch / "out" / "a_ctx.onnx")
    refused(2, "INVALID_GRAPH", "run", batch / "out" / "b_ctx.onnx")
    done("compile", batch / "a.onnx", "-o", batch / "out", "--dim", "batch=2")  # b is lost already


@pytest.mark.parametrize("options", [["--no-clobber"], ["--embed"], ["--append", "out/a_dnnl.bin"]])
def test_force_contradicts_what_replaces_nothing(batch, options):
    refused(1, "INVALID_ARGUMENT", "compile", "a.onnx", "-o", "new/", "--force", *options, cwd=batch)


def test_recompiling_is_silent(tmp_path):
    path = save(conv_model(), tmp_path / "m.onnx")
    for options in (["--dim", "batch=1"], ["--dim", "batch=2"], ["--portable", "--dim", "batch=1"], ["--dim", "batch=1"]):
        assert "warning" not in done("compile", path, *options).stderr
    # A copy of the context model beside it needs the same programs: it is safe while they stay.
    shutil.copy(tmp_path / "m_ctx.onnx", tmp_path / "copy_ctx.onnx")
    done("compile", path, "--dim", "batch=1")
    save(conv_model(seed=5), path)
    refused(4, "NOT_SATISFIED", "compile", path, names=["copy_ctx.onnx"])


def test_an_interrupted_set_does_not_block(batch):
    """b's bin is another compile's: it does not load as it is."""
    kept = (batch / "out" / "b_ctx.onnx").read_bytes()
    for name in "ab":
        save(conv_model(seed=7 if name == "a" else 8), batch / f"{name}.onnx")
    done("compile", batch / "a.onnx", batch / "b.onnx", "-o", batch / "out")
    (batch / "out" / "b_ctx.onnx").write_bytes(kept)
    done("compile", batch / "a.onnx", "-o", batch / "out")


def test_other_files_do_not_matter(batch):
    """Plain models, rubbish, damaged and embedded models, folders and links to nothing."""
    out = batch / "out"
    (out / "b_ctx.onnx").rename(batch / "moved.onnx")  # elsewhere it names another bin
    shutil.copy(batch / "a.onnx", out / "plain.onnx")
    (out / "rubbish.onnx").write_bytes(b"\xff" * 100)
    (out / "cut.onnx").write_bytes((batch / "moved.onnx").read_bytes()[:-7])
    done("compile", batch / "b.onnx", "-o", out / "embedded.onnx", "--embed")
    (out / "folder.onnx").mkdir()
    (out / "nothing.onnx").symlink_to("missing")
    done("compile", batch / "a.onnx", "-o", out)


def test_a_link_to_a_user_is_a_user(batch):
    (batch / "out" / "b_ctx.onnx").rename(batch / "b_ctx.onnx")
    (batch / "out" / "b.onnx").symlink_to("../b_ctx.onnx")
    done("run", batch / "out" / "b.onnx")
    refused(4, "NOT_SATISFIED", "compile", batch / "a.onnx", "-o", batch / "out", names=["b.onnx"])


def test_models_above_the_folder_of_the_bin_count(tmp_path):
    for i, name in enumerate("ab"):
        save(conv_model(seed=i), tmp_path / f"{name}.onnx")
    (tmp_path / "bins").mkdir()
    both = [tmp_path / "a.onnx", tmp_path / "b.onnx", "--bin", tmp_path / "bins" / "x.bin"]
    done("compile", *both)
    refused(4, "NOT_SATISFIED", "compile", tmp_path / "a.onnx", "--bin", tmp_path / "bins" / "x.bin", names=["b_ctx.onnx"])
    done("compile", *both)


def test_the_cache_does_not_go_around_it(batch):
    cache = ["--cache-dir", batch / "cache"]
    done("compile", batch / "a.onnx", "-o", into(batch / "alone"), *cache)
    before = contents(batch / "out")
    refused(4, "NOT_SATISFIED", "compile", batch / "a.onnx", "-o", batch / "out", *cache)
    assert contents(batch / "out") == before
    assert json_of("compile", batch / "a.onnx", "-o", batch / "alone", *cache)["outputs_cached"]


def test_a_model_on_stdout_is_judged_too(batch):
    before = contents(batch / "out")
    refused(4, "NOT_SATISFIED", "compile", batch / "a.onnx", "-o", "-", "--bin", batch / "out" / "a_dnnl.bin")
    assert contents(batch / "out") == before


def test_outputs_of_the_others_stay_what_they_are(batch):
    """What --append keeps, after a refused compile."""
    np.save(batch / "x.npy", np.ones((1, 3, 8, 8), np.float32))
    run = ["run", batch / "out" / "b_ctx.onnx", "--input", f"x={batch / 'x.npy'}", "--json"]
    first = done(*run).stdout
    refused(4, "NOT_SATISFIED", "compile", batch / "a.onnx", "-o", batch / "out", "--dim", "batch=3")
    done("compile", batch / "a.onnx", "-o", batch / "out", "--append", batch / "out" / "a_dnnl.bin", "--dim", "batch=3")
    assert done(*run).stdout == first
    assert len(onnx.load(batch / "out" / "b_ctx.onnx").graph.node) > 0
