"""ctxgen bench: how long it measures, and what it shows of single runs."""

import csv
import os
import pty
import subprocess
import xml.etree.ElementTree as ET

import pytest
from cli_support import conv_model, done, json_of, refused, save, unknown_model

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(conv_model(batch=1), tmp_path_factory.mktemp("bench") / "net.onnx")


def test_percentiles_are_in_order(model):
    result = json_of("bench", model, "--iterations", "20")
    latency = result["latency_ms"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p95"] <= latency["p99"] <= latency["max"]
    assert latency["min"] <= latency["mean"] <= latency["max"]
    assert result["runs"] == 20
    assert result["serial_runs_per_second"] == pytest.approx(1000 / latency["mean"])


def test_a_duration_measures_for_so_long(model):
    result = json_of("bench", model, "--iterations", "1", "--duration", "300")
    assert result["runs"] > 1
    assert result["runs"] * result["latency_ms"]["mean"] > 150  # some of it is between runs


def test_warm_up_runs_are_not_measured(model):
    result = json_of("bench", model, "--iterations", "3", "--warmup", "100")
    assert result["runs"] == 3


def test_each_run_has_a_line(model, tmp_path):
    result = json_of("bench", model, "--iterations", "12", "--csv", tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [str(number) for number in range(1, 13)]
    latencies = [float(row["latency_ms"]) for row in rows]
    assert min(latencies) == pytest.approx(result["latency_ms"]["min"], abs=1e-5)
    assert float(rows[2]["start_ms"]) == pytest.approx(latencies[0] + latencies[1], abs=1e-5)


@pytest.mark.parametrize("iterations", [1, 12, 3000])
def test_the_plot_is_a_picture_of_all_runs(model, tmp_path, iterations):
    hostile = save(conv_model(batch=1), tmp_path / "a<b>&c.onnx")
    done("bench", hostile, "--iterations", iterations, "--plot", tmp_path / "runs.svg")
    root = ET.parse(tmp_path / "runs.svg").getroot()
    assert root.tag == f"{SVG}svg" and root.find(f"{SVG}title").text == "a<b>&c.onnx"
    points = [tuple(map(float, point.split(","))) for point in root.find(f"{SVG}polyline").get("points").split()]
    assert min(iterations, 600) <= len(points) <= 1400
    assert all(0 <= x <= 800 and 0 <= y <= 320 for x, y in points)
    assert any("p99" in text.text for text in root.iter(f"{SVG}text"))


def test_what_shows_runs_of_one_model_is_for_one(model, tmp_path):
    refused(1, "INVALID_ARGUMENT", "bench", model, "--compare", model, "--plot", tmp_path / "x.svg", names=["--plot", "--compare"])
    refused(1, "INVALID_ARGUMENT", "bench", model, "--decode", "4,4", "--csv", tmp_path / "x.csv", names=["--decode", "--csv"])
    before = model.read_bytes()
    refused(1, "INVALID_ARGUMENT", "bench", model, "--csv", model)
    assert model.read_bytes() == before


@pytest.mark.parametrize("value, colored", [(None, True), ("", True), ("1", False)])
def test_no_color(tmp_path, value, colored):
    """On a terminal, a warning has colours unless NO_COLOR is set."""
    path = save(unknown_model(), tmp_path / "odd.onnx")
    environment = {name: text for name, text in os.environ.items() if name != "NO_COLOR"} | ({} if value is None else {"NO_COLOR": value})
    ours, theirs = pty.openpty()
    finished = subprocess.run([os.environ["CTXGEN_BIN"], "compile", path, "-v"], env=environment, stdout=subprocess.DEVNULL, stderr=theirs, check=False)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert finished.returncode == 0
    assert (b"\x1b[3" in text or b"\x1b[0" in text) == colored, text
