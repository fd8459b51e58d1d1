"""A system call on the files of a compile or load fails: an error that names the file, and a whole set or the old one."""

import numpy as np
import pytest
from cli_support import conv_model, save, temporaries
from fault_support import SETS, X, Work, calls, make_work, run_faulty


@pytest.fixture(params=SETS)
def work(request, tmp_path):
    return make_work(tmp_path, request.param)


FAILURES = {
    "open": ["EACCES", "EMFILE"],
    "write": ["ENOSPC", "EIO"],
    "fsync": ["EIO"],
    "close": ["EDQUOT"],
    "rename": ["EXDEV"],
    "mmap": ["ENOMEM"],
    "fstat": ["EIO"],
}


def status_and_name(error):
    """Want of memory has a name of its own (docs/cli.md, exit statuses)."""
    return (2, "RESOURCE_LIMIT") if error == "ENOMEM" else (3, "IO_ERROR")


def test_every_failing_system_call_is_an_error_and_leaves_a_whole_set(work):
    counted, failed = calls(work), 0
    for call, errors in FAILURES.items():
        for number in range(1, counted[call] + 1):
            error = errors[number % len(errors)]
            work.start_from("old")
            before = work.snapshot()
            finished = run_faulty(work.folder, *work.command(), FAULT=f"{call}:{number}:{error}")
            context = f"{call} {number} {error}: {finished.stderr}"
            assert temporaries(work.folder) == [], context
            if finished.returncode == 0:  # a call whose failure does no harm: flushing a folder, looking for leftovers
                assert work.check_whole() == ["new"] * len(work.names), context
                continue
            failed += 1
            status, name = status_and_name(error)
            assert finished.returncode == status, context
            assert f"ctxgen: error: {name}: " in finished.stderr, context
            assert any(name in finished.stderr for name in work.files), context
            if call != "rename":  # one that fails behind the first leaves a set that is refused
                assert work.snapshot() == before, context
            assert "new" not in work.check_whole() or call == "rename", context
    assert failed >= 8


@pytest.mark.parametrize("fault", ["write:*:SHORT", "write:*:EINTR", "open:*:EINTR", "fsync:*:EINTR", "close:*:EINTR"])
def test_short_and_interrupted_calls_change_nothing(work, fault):
    work.start_from("new")
    expected = work.snapshot()
    work.start_from("old")
    finished = run_faulty(work.folder, *work.command(), FAULT=fault)
    assert finished.returncode == 0, finished.stderr
    assert work.snapshot() == expected


@pytest.mark.parametrize("fault", ["read:*:SHORT", "read:*:EINTR", "open:*:EINTR"])
def test_short_and_interrupted_reads_change_nothing(tmp_path, fault):
    work = Work(tmp_path, ["net"])
    np.save(work.folder / "x.npy", X)
    arguments = ["run", work.contexts[0], "--input", f"x={work.folder / 'x.npy'}", "--output-dir", work.scratch / "z"]
    finished = run_faulty(work.folder, *arguments, FAULT=fault)
    assert finished.returncode == 0, finished.stderr
    assert (work.scratch / "z" / "y.npy").read_bytes() == work.expected["new"][0]


@pytest.mark.parametrize(("call", "error"), [("open", "EACCES"), ("fstat", "EIO"), ("mmap", "ENOMEM"), ("mmap", "EACCES")])
def test_every_failing_call_while_loading_is_an_error(tmp_path, call, error):
    work = Work(tmp_path, ["net"])
    count = work.scratch / "count"
    assert run_faulty(work.folder, "run", work.contexts[0], FAULT_COUNT=str(count)).returncode == 0
    total = int(dict(line.split() for line in count.read_text().splitlines())[call])
    assert total >= 1
    for number in range(1, total + 1):
        finished = run_faulty(work.folder, "run", work.contexts[0], FAULT=f"{call}:{number}:{error}")
        status, name = status_and_name(error)
        assert finished.returncode == status, f"{number}: {finished.stderr}"
        assert f"ctxgen: error: {name}: " in finished.stderr
        assert "net_" in finished.stderr


@pytest.mark.parametrize("error", ["EROFS", "EACCES", "ENOENT"])
def test_a_folder_that_takes_no_file(tmp_path, error):
    """As on a read-only file system, without the right to write, without the folder. The second open makes the first output."""
    source = save(conv_model(), tmp_path / "in" / "net.onnx")
    (tmp_path / "out").mkdir()
    finished = run_faulty(tmp_path / "out", "compile", source, "-o", tmp_path / "out" / "net_ctx.onnx", FAULT=f"open:*:{error}")
    assert finished.returncode == 3, finished.stderr
    assert "IO_ERROR" in finished.stderr and "net_" in finished.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_a_missing_folder(tmp_path):
    source = save(conv_model(), tmp_path / "net.onnx")
    finished = run_faulty(tmp_path, "compile", source, "-o", tmp_path / "missing" / "net_ctx.onnx")
    assert finished.returncode == 3, finished.stderr
    assert "missing" in finished.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
