"""The ways in which a fleet compiles its models: each takes a Fleet and a folder for outputs, and says what it did."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples" / "fleet"
OFFLINE = ["--enable_bzlmod=false", "--enable_workspace=true"]  # the built-in modules would be fetched


@dataclasses.dataclass
class Fleet:
    """What all engines are given."""

    folder: pathlib.Path  # scratch
    models: list
    list_file: pathlib.Path
    isa: str
    ctxgen: str

    @property
    def options(self):
        return ["--isa", self.isa, "--cache-dir="]


@dataclasses.dataclass
class Outcome:
    status: int
    compiled: int  # models whose programs were made, by ctxgen's own count where it says so
    seconds: float
    said: str = ""
    served: int = 0  # models whose outputs came from a cache
    received: int = 0  # bytes, from a remote one


def run(command, **more):
    started = time.monotonic()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)
    return done, time.monotonic() - started


def of_lines(status, seconds, text):
    """The outcome of `compile --list --json`, of one process or of several, one after the other."""
    lines = [json.loads(line) for line in text.splitlines()]
    models = [line for line in lines if "model" in line]
    reports = [line["report"] for line in models if line["state"] == "compiled"]
    served = sum(report["outputs_cached"] for report in reports)
    received = sum(report.get("remote_cache", {}).get("bytes_received", 0) for report in reports)
    return Outcome(status, len(reports) - served, seconds, "", served, received)


def by_list(fleet, out, *options):
    done, seconds = run([fleet.ctxgen, "compile", "--list", fleet.list_file, "-o", f"{out}/", "-j", "2", "--json", *(options or fleet.options)])
    return of_lines(done.returncode, seconds, done.stdout)


def by_slurm(cluster, fleet, out, *options, tasks=2):
    started = time.monotonic()
    cluster.environment["CTXGEN"] = fleet.ctxgen
    status, nodes = cluster.run_array(tasks, SAMPLES / "slurm-array.sh", fleet.list_file, out, *(options or fleet.options))
    seconds = time.monotonic() - started
    outcome = of_lines(status, seconds, "".join(cluster.output(task) for task in range(1, tasks + 1)))
    outcome.said = ", ".join(f"task {task} on {node}" for task, node in sorted(nodes.items()))
    return outcome


def by_make(fleet, out):
    environment = {**os.environ, "CTXGEN": fleet.ctxgen}
    done, seconds = run(["make", "-j2", "-f", SAMPLES / "Makefile", f"MODELS={fleet.folder / 'models'}", f"OUT={out}", f"OPTIONS={' '.join(fleet.options)}"],
                        env=environment)
    return Outcome(done.returncode, done.stdout.count(" compile "), seconds, done.stderr)


def by_ninja(fleet, out):
    out.mkdir(exist_ok=True)
    environment = {**os.environ, "CTXGEN": fleet.ctxgen}
    written, _ = run(["python3", SAMPLES / "ninja.py", fleet.folder / "models", out, *fleet.options], env=environment)
    (out / "build.ninja").write_text(written.stdout)
    done, seconds = run(["ninja", "-C", out, "-j2", "-v"])
    return Outcome(done.returncode or written.returncode, done.stdout.count(" compile "), seconds, done.stderr + written.stderr)


class BazelWorkspace:
    """The sample's BUILD file over the fleet's models."""

    def __init__(self, fleet, folder):
        self.folder, self.outputs = folder, folder.parent / f"{folder.name}-output"
        (folder / "models").mkdir(parents=True)
        shutil.copytree(ROOT / "rules", folder / "rules")
        (folder / "BUILD.bazel").write_text((SAMPLES / "BUILD.bazel").read_text().replace('"avx2"', f'"{fleet.isa}"'))
        for name in ("MODULE.bazel", "WORKSPACE"):
            (folder / name).touch()
        shutil.copy(fleet.ctxgen, folder / "ctxgen")
        for path in (fleet.folder / "models").iterdir():
            os.link(path, folder / "models" / path.name)

    def bazel(self, verb, *arguments):
        options = OFFLINE if verb == "build" else []
        return run(["bazel", f"--output_user_root={self.outputs}", "--max_idle_secs=600", verb, *options, *arguments], cwd=self.folder)

    def build(self, store=None, target=":all"):
        cache = [f"--remote_cache={store.url}"] if store else []
        done, seconds = self.bazel("build", target, "--jobs=2", "--noshow_progress", "--color=no", *cache)
        summary = re.findall(r"^INFO: \d+ process(?:es)?: (.*)$", done.stderr, re.M)  # INFO: 9 processes: 2 remote cache hit, 1 internal, 6 linux-sandbox.
        found = {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z -]+)", summary[-1] if summary else "")}
        ran = sum(count for kind, count in found.items() if kind != "internal" and not kind.endswith("cache hit"))
        return Outcome(done.returncode, ran, seconds, done.stderr, found.get("remote cache hit", 0))

    def outputs_of(self, suffix):
        return (self.folder / "bazel-bin").resolve().rglob(suffix)

    def stop(self):
        self.bazel("shutdown")
