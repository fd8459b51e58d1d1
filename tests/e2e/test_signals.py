"""A signal that ends a compile or a run leaves no temporary; a limit of the file size is an error like a full disk."""

import os
import resource
import signal
import subprocess

import pytest
from cli_support import conv_model, save, temporaries
from fault_support import make_work, run_faulty


ENDING = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM]


@pytest.fixture(autouse=True)
def as_from_a_terminal():
    """Signals that whoever runs the tests ignores (nohup) are not ignored here, and nothing leaves a core file."""
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limit[1]))
    before = [(one, signal.signal(one, signal.SIG_DFL)) for one in ENDING
              if one != signal.SIGPIPE and signal.getsignal(one) == signal.SIG_IGN]  # subprocess restores SIGPIPE itself
    yield
    for one, handler in before:
        signal.signal(one, handler)
    resource.setrlimit(resource.RLIMIT_CORE, limit)


def limit_files(bytes_):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
    return limit


@pytest.mark.parametrize("ending", ENDING)
def test_a_signal_between_writing_and_renaming(tmp_path, ending):
    """The flush before the first rename: temporaries of all outputs are there."""
    work = make_work(tmp_path, "single")
    work.start_from("old")
    before = work.snapshot()
    finished = run_faulty(work.folder, *work.command(), FAULT=f"fsync:1:{ending.name.removeprefix('SIG')}")
    assert finished.returncode == -ending
    assert temporaries(work.folder) == []
    assert work.snapshot() == before


def test_a_run_that_is_ended_while_it_writes(tmp_path):
    path = save(conv_model(), tmp_path / "net.onnx")
    finished = run_faulty(tmp_path, "run", path, "--output-file", tmp_path / "y.npz", FAULT="fsync:1:TERM")
    assert finished.returncode == -signal.SIGTERM
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]


def test_a_first_interrupt_is_an_answer_and_not_a_death(tmp_path):
    work = make_work(tmp_path, "single")
    work.start_from("old")
    finished = run_faulty(work.folder, *work.command(), FAULT="open:1:INT")
    assert finished.returncode == 130, finished.stderr
    assert finished.stderr.startswith("ctxgen: error: CANCELLED: ")
    assert temporaries(work.folder) == [] and work.check_whole() == ["old"]


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGTERM])
def test_what_the_caller_ignores_stays_ignored(tmp_path, ignored):
    """nohup"""
    work = make_work(tmp_path, "single")
    work.start_from("old")
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        finished = run_faulty(work.folder, *work.command(), FAULT=f"fsync:1:{ignored.name.removeprefix('SIG')}")
    finally:
        signal.signal(ignored, before)
    assert finished.returncode == 0, finished.stderr
    assert work.check_whole() == ["new"]


@pytest.mark.parametrize("options", [[], ["--embed"], ["--weight-memory", "0"], ["--provider", "cpu", "--external-initializers", "e.data"]])
def test_the_limit_of_file_sizes_is_an_io_error(tmp_path, options):
    """ulimit -f"""
    path = save(conv_model(), tmp_path / "net.onnx")
    finished = subprocess.run([os.environ["CTXGEN_BIN"], "compile", path, *options], preexec_fn=limit_files(500), capture_output=True, text=True)
    assert finished.returncode == 3, finished.stderr
    assert finished.stderr.splitlines()[-1].startswith("ctxgen: error: IO_ERROR: ")
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]


def test_the_limit_of_file_sizes_in_a_run(tmp_path):
    path = save(conv_model(), tmp_path / "net.onnx")
    finished = subprocess.run([os.environ["CTXGEN_BIN"], "run", path, "--profile", tmp_path / "p.json"], preexec_fn=limit_files(100),
                              capture_output=True, text=True)
    assert finished.returncode == 3 and "IO_ERROR" in finished.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]


def test_a_reader_that_went_away(tmp_path):
    """The model goes to a closed pipe while the context binary waits for its rename."""
    path = save(conv_model(), tmp_path / "net.onnx")
    (tmp_path / "out").mkdir()
    reader, writer = os.pipe()
    os.close(reader)
    finished = subprocess.run([os.environ["CTXGEN_BIN"], "compile", path, "-o", "-", "--bin", tmp_path / "out" / "x.bin"], stdout=writer,
                              stderr=subprocess.PIPE)
    os.close(writer)
    assert finished.returncode in (-signal.SIGPIPE, 3)
    assert list((tmp_path / "out").iterdir()) == []
