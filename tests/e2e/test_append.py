"""--append: a context binary grows, and whoever used it before goes on."""

import os
import shutil
import signal
import subprocess

import pytest
from cli_support import attributes, conv_model, ctxgen, done, ep_nodes, into, json_of, refused, save, temporaries
from fault_support import outputs_of, run_faulty


@pytest.fixture
def group(tmp_path):
    """a and b, alike but for the last layer's weights, and the bin of a."""
    model = conv_model(seed=1)
    save(model, tmp_path / "a.onnx")
    model.graph.initializer[2].raw_data = bytes(len(model.graph.initializer[2].raw_data))
    save(model, tmp_path / "b.onnx")
    save(conv_model(seed=2), tmp_path / "c.onnx")
    done("compile", tmp_path / "a.onnx", "--dim", "batch=2")
    (tmp_path / "scratch").mkdir()
    return tmp_path


BIN = "a_dnnl.bin"


def context_of(path):
    return json_of("inspect", path)["context"]


def append(folder, name, *options):
    return json_of("compile", folder / f"{name}.onnx", "--append", folder / BIN, "--dim", "batch=2", *options)


def test_what_was_there_stays(group):
    before, model = context_of(group / BIN), (group / "a_ctx.onnx").read_bytes()
    result = outputs_of(group / "a_ctx.onnx", group / "scratch")
    report = append(group, "b")
    assert report["bins"][0]["name"] == BIN and report["bins"][0]["kept_programs"] == 1
    after = context_of(group / BIN)
    assert after["programs"][0] == before["programs"][0] and len(after["programs"]) == 2
    kept = [(blob["hash"], blob["bytes"]) for blob in before["blobs"]]
    assert [(blob["hash"], blob["bytes"]) for blob in after["blobs"]][: len(kept)] == kept
    assert len(after["blobs"]) == len(kept) + 1  # the convolution's weights and both biases are shared
    assert (group / "a_ctx.onnx").read_bytes() == model
    assert outputs_of(group / "a_ctx.onnx", group / "scratch") == result
    assert attributes(ep_nodes(group / "b_ctx.onnx")[0])["ep_cache_context"] == BIN.encode()
    done("check", group / "a_ctx.onnx")
    done("check", group / "b_ctx.onnx")
    # b computes what it computes alone
    done("compile", group / "b.onnx", "-o", into(group / "alone"), "--dim", "batch=2")
    assert outputs_of(group / "b_ctx.onnx", group / "scratch") == outputs_of(group / "alone" / "b_ctx.onnx", group / "scratch")
    assert attributes(ep_nodes(group / "b_ctx.onnx")[0])["partition_name"] == attributes(ep_nodes(group / "alone" / "b_ctx.onnx")[0])["partition_name"]
    assert not (group / "b_dnnl.bin").exists()


def test_appending_again_changes_nothing(group):
    append(group, "b")
    files = {path.name: path.read_bytes() for path in group.iterdir() if path.is_file()}
    report = append(group, "b")
    assert report["bins"][0]["kept_programs"] == 2
    append(group, "a")
    assert {path.name: path.read_bytes() for path in group.iterdir() if path.is_file()} == files


def test_a_batch_in_one_go_is_the_same_group(group):
    append(group, "b")
    append(group, "c")
    done("compile", f"{group / 'a.onnx'},{group / 'b.onnx'},{group / 'c.onnx'}", "-o", group / "once", "--dim", "batch=2")
    assert (group / BIN).read_bytes() == (group / "once" / BIN).read_bytes()
    for name in ("a_ctx.onnx", "b_ctx.onnx", "c_ctx.onnx"):
        assert ep_nodes(group / name) == ep_nodes(group / "once" / name), name


def test_another_target_is_refused_by_name(group):
    before = (group / BIN).read_bytes()
    message = refused(2, "INVALID_GRAPH", "compile", group / "b.onnx", "--append", group / BIN, "--portable", names=["isa portable"])
    for part in context_of(group / BIN)["fingerprint"].split(";")[1:]:  # what each is for, in words
        assert part.replace("=", " ") in message
    done("compile", group / "c.onnx", "--portable")
    refused(2, "INVALID_GRAPH", "compile", group / "b.onnx", "--append", group / "c_dnnl.bin", names=["isa portable"])
    done("compile", group / "b.onnx", "--append", group / "c_dnnl.bin", "--portable")
    assert (group / BIN).read_bytes() == before


def test_threads_are_no_target(group, tmp_path):
    alone = tmp_path / "alone"
    shutil.copytree(group, alone)
    done("compile", group / "b.onnx", "--append", group / BIN, "--threads", 7)
    done("compile", alone / "b.onnx", "--append", alone / BIN, "--threads", 1)
    assert (group / BIN).read_bytes() == (alone / BIN).read_bytes()


def test_a_bin_of_another_version_is_refused(group):
    data = (group / BIN).read_bytes()
    (group / BIN).write_bytes(data.replace(b"ctxgen 0", b"ctxgen 9", 1))
    refused(2, "INVALID_GRAPH", "compile", group / "b.onnx", "--append", group / BIN)  # a checksum at the latest
    assert not (group / "b_ctx.onnx").exists()


def test_contradictions_come_before_any_work(group):
    for wrong in (["--embed"], ["--bin", group / "x.bin"], ["-o", "-"], ["-o", group / "sub" / "b_ctx.onnx"]):
        (group / "sub").mkdir(exist_ok=True)
        refused(1, "INVALID_ARGUMENT", "compile", group / "b.onnx", "--append", group / BIN, *wrong)
    refused(3, "IO_ERROR", "compile", group / "b.onnx", "--append", group / "none.bin", names=["none.bin"])
    refused(2, "INVALID_GRAPH", "compile", group / "b.onnx", "--append", group / "a.onnx")
    assert not (group / "b_ctx.onnx").exists() and temporaries(group) == []
    (group / "low").mkdir()
    os.rename(group / BIN, group / "low" / BIN)  # below the output folder
    done("compile", group / "b.onnx", "--append", group / "low" / BIN)
    assert attributes(ep_nodes(group / "b_ctx.onnx")[0])["ep_cache_context"] == b"low/a_dnnl.bin"


def test_no_clobber_is_about_the_model(group):
    append(group, "b", "--no-clobber")
    refused(1, "INVALID_ARGUMENT", "compile", group / "b.onnx", "--append", group / BIN, "--dim", "batch=2", "--no-clobber", names=["b_ctx.onnx"])


def test_a_damaged_bin_is_not_carried_on(group):
    data = bytearray((group / BIN).read_bytes())
    data[-1] ^= 1
    (group / BIN).write_bytes(data)
    refused(2, "INVALID_GRAPH", "compile", group / "b.onnx", "--append", group / BIN)
    assert (group / BIN).read_bytes() == bytes(data)


def test_two_at_once_lose_nothing(group):
    for number in range(4):
        save(conv_model(seed=20 + number), group / f"m{number}.onnx")
    commands = [[os.environ["CTXGEN_BIN"], "compile", str(group / f"m{number}.onnx"), "--append", str(group / BIN), "--dim", "batch=2"] for number in range(4)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert len(context_of(group / BIN)["programs"]) == 5
    for name in ("a", "m0", "m1", "m2", "m3"):
        done("check", group / f"{name}_ctx.onnx")


def test_fat_and_compressed_bins_grow_too(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        save(conv_model(batch=2, seed=seed), tmp_path / f"{name}.onnx")
    names = "sse41,avx2"
    if ctxgen("compile", tmp_path / "a.onnx", "--isa", names).returncode != 0:
        pytest.skip("this machine has no avx2")
    done("compile", tmp_path / "b.onnx", "--append", tmp_path / BIN, "--isa", names, "--compress")
    done("compile", f"{tmp_path / 'a.onnx'},{tmp_path / 'b.onnx'}", "-o", tmp_path / "once", "--isa", names)
    names_of = lambda path: sorted((one["name"], one["hash"], one["isa"]) for one in context_of(path)["programs"])
    assert names_of(tmp_path / BIN) == names_of(tmp_path / "once" / BIN) and len(names_of(tmp_path / BIN)) == 4
    for name in ("a", "b"):
        done("run", tmp_path / f"{name}_ctx.onnx")


def test_killed_at_every_system_call_the_old_model_goes_on(group):
    files = {path.name: path.read_bytes() for path in group.iterdir() if path.is_file()}
    result = outputs_of(group / "a_ctx.onnx", group / "scratch")
    command = ["compile", group / "b.onnx", "--append", group / BIN, "--dim", "batch=2"]
    count = group / "scratch" / "count"
    assert run_faulty(group, *command, FAULT_COUNT=str(count)).returncode == 0
    total = sum(int(line.split()[1]) for line in count.read_text().splitlines())
    expected = outputs_of(group / "b_ctx.onnx", group / "scratch")
    assert total > 5 and expected is not None
    seen = set()
    for number in range(1, total + 1):
        for path in group.iterdir():
            if path.is_file():
                path.unlink()
        for name, data in files.items():
            (group / name).write_bytes(data)
        assert run_faulty(group, *command, FAULT=f"*:{number}:KILL").returncode == -signal.SIGKILL
        assert outputs_of(group / "a_ctx.onnx", group / "scratch") == result, number
        there = (group / "b_ctx.onnx").exists()
        seen.add(there)
        if there:
            assert outputs_of(group / "b_ctx.onnx", group / "scratch") == expected
        done(*command)
        assert outputs_of(group / "b_ctx.onnx", group / "scratch") == expected and temporaries(group) == []
    assert seen == {True, False} or seen == {False}
