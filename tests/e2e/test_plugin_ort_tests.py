"""What ONNX Runtime's own tests check, with the plugin EP in the environment's ONNX Runtime (./dev plugin-matrix has it for other releases)."""

import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "tests" / "plugin"))

from test_plugin_host import DEBIAN, application  # noqa: E402 (skips where there is nothing to test)

import ort_tests  # noqa: E402

CHECKS = list(dict.fromkeys(row.check for row in ort_tests.TESTS if not isinstance(row.check, str)))


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return application.make_application(DEBIAN[0], tmp_path_factory.mktemp("host"), threads=1)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_theirs_check(host, check):
    outcome = ort_tests.run_one(host, check)
    if outcome.startswith("not applicable"):
        pytest.skip(outcome)
    assert outcome == "passed"
