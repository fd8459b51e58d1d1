"""An application in C++ with the plugin EP: in the environment's ONNX Runtime, and in the newest one where ./dev bench or
./dev plugin-matrix has fetched it (the suite fetches nothing)."""

import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "tests" / "plugin"), str(PROJECT / "bench" / "peers")]

import application  # noqa: E402
import fetch_ort  # noqa: E402

DEBIAN = sorted(Path("/usr/lib").glob("*/libonnxruntime.so.1.*.*"))

if not application.HOST.exists() or not DEBIAN:
    pytest.skip("the plugin was not built, or there is no ONNX Runtime", allow_module_level=True)


@pytest.fixture(scope="module", params=[(name, threads) for name in ("debian", "newest") for threads in (1, 4)], ids=lambda p: f"{p[0]}-{p[1]}")
def host(request, tmp_path_factory):
    name, threads = request.param
    library = DEBIAN[0] if name == "debian" else fetch_ort.cached()
    if library is None:
        pytest.skip("no newer ONNX Runtime in the cache")
    return application.make_application(library, tmp_path_factory.mktemp("host"), threads)


@pytest.mark.parametrize("check", application.CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_application(host, check):
    check(host)
