"""What ./dev bench --isa hides from peers, where it answers in copies of their libraries (bench/peers/hide_cpuid.py)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.append(str(PEERS))
import hide_cpuid  # noqa: E402

LIBRARY = """
#include <cpuid.h>
extern "C" unsigned features() { unsigned a, b, c, d; __cpuid_count(7, 0, a, b, c, d); return b; }
extern "C" unsigned tiles() { unsigned a, b, c, d; __cpuid_count(7, 0, a, b, c, d); return d; }
extern "C" int fault() { return *(volatile int*)8; }
"""
AVX2, BEYOND = 1 << 5, sum(1 << bit for bit in (16, 17, 21, 28, 30, 31))
TILES = sum(1 << bit for bit in (22, 24, 25))


def compiled(source, folder):
    library = folder / f"lib{source.stem}.so"
    subprocess.run(["c++", "-std=c++23", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """Calls a function of a copy, limited, or of the library, in a process of its own."""
    folder = tmp_path_factory.mktemp("limits")
    (folder / "peer.cpp").write_text(LIBRARY)
    library = compiled(folder / "peer.cpp", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        copy = hide_cpuid.copy_of(library)
    limits = {"LD_PRELOAD": str(compiled(PEERS / "limit_cpuid.cpp", folder)), "LIMIT_CPUID_COPIES": "1"}

    def called(name, isa="AVX2"):
        asked, environment = (copy, limits | {"ONEDNN_MAX_CPU_ISA": isa}) if isa else (library, {})
        command = [sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(asked)!r}).{name}() & 0xFFFFFFFF)"]
        return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)

    return called


def test_what_is_beyond_avx2_is_hidden(call):
    features = int(call("features").stdout)
    assert features & AVX2
    assert not features & BEYOND


def test_with_vnni_what_came_later_is_hidden(call):
    features, tiles = (int(call(name, "AVX512_CORE_VNNI").stdout) for name in ("features", "tiles"))
    assert features == int(call("features", None).stdout)
    assert not tiles & TILES


def test_other_faults_end_the_process(call):
    assert call("fault").returncode == -signal.SIGSEGV


def test_a_library_that_does_not_ask_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "quiet.cpp").write_text('extern "C" int nothing() { return 0; }')
    with pytest.raises(OSError, match="CPUID"):
        hide_cpuid.copy_of(compiled(tmp_path / "quiet.cpp", tmp_path))
