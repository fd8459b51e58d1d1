#!/usr/bin/env python3
"""Compiles many models on the engines that fleets run: `./dev fleet-test`.

One machine (compile --list), a Slurm array of two workers, GNU make, Ninja and Bazel compile the same seeded models, among them fine-tunes
of common bases. All have to write the same bytes; a second run has to compile nothing; a new machine has to be served by the HTTP cache. A
model that is damaged fails alone, and a rerun compiles it alone. Then the manifests of samples/fleet are checked, and their commands run, and
oras, skopeo and a registry take bundles.
Exit status: 0 if all checks passed.

    ./dev fleet-test --models 1000 --large 20 --large-megabytes 40
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import engines
import manifests
import registries
from fleet_models import write_models
from http_store import HttpStore
from slurm_cluster import SlurmCluster


@dataclasses.dataclass
class Checks:
    passed: int = 0
    failed: int = 0

    def that(self, holds, what):
        self.passed += bool(holds)
        self.failed += not holds
        if not holds:
            print(f"  FAILED: {what}", flush=True)

    def equal(self, found, expected, what):
        self.that(found == expected, f"{what}: {found!r}, expected {expected!r}")


def digests(paths):
    """SHA-256 of context models and context binaries by their names."""
    result = {}
    for path in paths:
        with open(path, "rb") as file:
            result[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return result


def written(folder):
    return digests(path for path in folder.iterdir() if path.name.endswith(("_ctx.onnx", ".bin")))


def show(what, outcome, more=""):
    print(f"{what:<44} {outcome.compiled:>5} compiled, {outcome.served:>5} from a cache, {outcome.seconds:7.1f} s {more}".rstrip(), flush=True)


class Test:
    def __init__(self, fleet, checks):
        self.fleet, self.checks, self.count = fleet, checks, len(fleet.models)
        self.expected = None

    def outcome(self, what, outcome, compiled, served=0, more=""):
        show(what, outcome, more)
        self.checks.equal((outcome.status, outcome.compiled, outcome.served), (0, compiled, served), f"{what}: status, compiled, served")
        if outcome.status:
            print(outcome.said[-3000:], flush=True)

    def bytes_of(self, what, found):
        if self.expected is None:
            self.expected = found
        different = [name for name in self.expected if found.get(name) != self.expected[name]]
        self.checks.that(found.keys() == self.expected.keys() and not different, f"{what}: {len(found)} files, {len(different)} missing or different: {different[:3]}")

    def merged(self, folder, models_of):
        """The digests of all context models merged; which engine compiled them cannot be seen."""
        out = self.fleet.folder / "merged"
        contexts = [models_of / f"{pathlib.Path(model).stem}_ctx.onnx" for model in self.fleet.models]
        done, seconds = engines.run([self.fleet.ctxgen, "merge", *contexts, "-o", out, "-q"])
        self.checks.equal((done.returncode, done.stderr), (0, ""), f"merge of {folder}")
        found = written(out)
        size = sum(path.stat().st_size for path in out.glob("*.bin"))
        shutil.rmtree(out)
        return found, size, seconds

    def one_machine(self):
        out = self.fleet.folder / "list"
        self.outcome("one machine, compile --list -j 2", engines.by_list(self.fleet, out), self.count)
        self.bytes_of("one machine", written(out))
        self.outcome("  again", engines.by_list(self.fleet, out), 0)
        self.merged_expected, size, seconds = self.merged("list", out)
        apart = sum(path.stat().st_size for path in out.glob("*.bin"))
        print(f"  merged: {apart / 1e6:,.1f} MB in {len(list(out.glob('*.bin')))} context binaries, {size / 1e6:,.1f} MB in one, {seconds:.1f} s")

    def simple(self, name, build):
        out = self.fleet.folder / name
        self.outcome(f"{name} -j2", build(self.fleet, out), self.count)
        self.bytes_of(name, written(out))
        self.outcome("  again", build(self.fleet, out), 0)
        shutil.rmtree(out)

    def slurm(self):
        folder = self.fleet.folder
        with HttpStore(folder / "slurm-store") as store, SlurmCluster(folder / "slurm") as cluster:
            remote = ["--isa", self.fleet.isa, "--cache-url", store.url, "--cache-dir"]
            first = engines.by_slurm(cluster, self.fleet, folder / "by-slurm", *remote, folder / "cache-a")
            self.outcome("Slurm array of 2 tasks on 2 workers", first, self.count, more=first.said)
            self.checks.equal(sorted(word.split()[-1] for word in first.said.split(", ")), ["n0", "n1"], "nodes that ran a task")
            self.bytes_of("Slurm", written(folder / "by-slurm"))
            self.outcome("  again", engines.by_slurm(cluster, self.fleet, folder / "by-slurm", *remote, folder / "cache-a"), 0)
            self.checks.equal(self.merged("Slurm", folder / "by-slurm")[0], self.merged_expected, "merge of Slurm's context models")
            shutil.rmtree(folder / "cache-a")
            shutil.rmtree(folder / "by-slurm")
            requests, _ = store.asked()
            print(f"  the store: {store.stored_bytes() / 1e6:,.1f} MB; {requests}")
            new = engines.by_slurm(cluster, self.fleet, folder / "new-machine", *remote, folder / "cache-b")
            self.outcome("  on new machines, by the remote cache", new, 0, self.count)
            self.bytes_of("Slurm with the remote cache", written(folder / "new-machine"))
            requests, sent = store.asked()
            print(f"  the store: {sent / 1e6:,.1f} MB sent; {requests}")
            shutil.rmtree(folder / "new-machine")
            shutil.rmtree(folder / "cache-b")
            self.one_fails(cluster)

    def one_fails(self, cluster):
        """A damaged model: the array fails, all others are compiled, and the same command compiles it alone once it is whole."""
        out, model = self.fleet.folder / "with-damage", self.fleet.models[1]
        whole = model.read_bytes()
        model.unlink()
        model.write_bytes(whole[: len(whole) // 2])
        failing = engines.by_slurm(cluster, self.fleet, out, tasks=3)
        self.checks.that(failing.status != 0, "an array with a damaged model ends with a status")
        self.checks.equal(failing.compiled, self.count - 1, "models that are compiled beside a damaged one")
        model.write_bytes(whole)
        self.outcome("  an array after a damaged model was mended", engines.by_slurm(cluster, self.fleet, out, tasks=3), 1)
        self.bytes_of("Slurm after a failure", written(out))
        shutil.rmtree(out)

    def bazel(self):
        folder = self.fleet.folder
        merges = self.count > 0
        with HttpStore(folder / "bazel-store") as store:
            first = engines.BazelWorkspace(self.fleet, folder / "bazel-one")
            try:
                self.outcome("Bazel, 2 jobs", first.build(store), self.count + merges)
                self.bytes_of("Bazel", self.bazel_outputs(first))
                merged = digests(path for path in first.outputs_of("*") if path.parent.name == "merged")
                self.checks.that(len(merged) == self.count + 1, f"files of ctxgen_merge: {len(merged)}")
                self.outcome("  again", first.build(store), 0)
            finally:
                first.stop()
            requests, _ = store.asked()
            print(f"  the store: {store.stored_bytes() / 1e6:,.1f} MB; {requests}")
            self.bazel_removed(first)
            other = engines.BazelWorkspace(self.fleet, folder / "bazel-two")
            try:
                self.outcome("  on a new machine, by the remote cache", other.build(store), 0, self.count + merges)
                self.bytes_of("Bazel with the remote cache", self.bazel_outputs(other))
            finally:
                other.stop()
            requests, sent = store.asked()
            print(f"  the store: {sent / 1e6:,.1f} MB sent; {requests}")
            self.bazel_removed(other)

    def registries(self):
        """A few models are enough: each is a layer."""
        out, few = self.fleet.folder / "few", self.fleet.models[:3]
        done, _ = engines.run([self.fleet.ctxgen, "merge", *(self.fleet.folder / "list" / f"{model.stem}_ctx.onnx" for model in few), "-o", out, "-q"])
        self.checks.equal((done.returncode, done.stderr), (0, ""), "merge for a bundle")
        registries.check(self.fleet, self.checks, out)
        shutil.rmtree(out)

    def bazel_outputs(self, workspace):
        return digests(path for path in workspace.outputs_of("*") if path.parent.parent.name == "models" and path.suffix in (".onnx", ".bin"))

    def bazel_removed(self, workspace):
        subprocess.run(["chmod", "-R", "u+w", workspace.outputs], check=False)  # Bazel makes its outputs read-only
        shutil.rmtree(workspace.outputs)
        shutil.rmtree(workspace.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=12, help="small ones, about 80 kB each (default 12)")
    parser.add_argument("--large", type=int, default=2, help="with external data (default 2)")
    parser.add_argument("--large-megabytes", type=float, default=4, help="weights of a large one (default 4)")
    parser.add_argument("--only", help="engines of list,make,ninja,slurm,bazel,manifests,registries, separated by commas; list is always there")
    parser.add_argument("--isa", default="avx2", help="what all compile for (default avx2)")
    parser.add_argument("--folder", type=pathlib.Path, help="where the files go (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.models < 3:
        parser.error("--models is at least 3")
    known = ("make", "ninja", "slurm", "bazel", "manifests", "registries")
    chosen = arguments.only.split(",") if arguments.only else known
    if set(chosen) - {"list", *known}:
        parser.error(f"--only takes {','.join(known)}")
    checks = Checks()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="ctxgen-fleet-") as name:
        folder = pathlib.Path(name).resolve()
        models = write_models(folder / "models", arguments.models, arguments.large, arguments.large_megabytes)
        size = sum(path.stat().st_size for path in (folder / "models").iterdir())
        print(f"{arguments.models} small and {arguments.large} large models, {size / 1e6:,.1f} MB, for {arguments.isa}", flush=True)
        list_file = folder / "models.txt"
        list_file.write_text("".join(f'"{model}"\n' for model in models))
        os.environ.pop("CTXGEN_CACHE_DIR", None)
        os.environ.pop("CTXGEN_CACHE_URL", None)
        test = Test(engines.Fleet(folder, models, list_file, arguments.isa, os.environ["CTXGEN_BIN"]), checks)
        test.one_machine()
        for engine in known:
            if engine not in chosen:
                continue
            if engine in ("make", "ninja"):
                test.simple(engine, getattr(engines, f"by_{engine}"))
            elif engine == "manifests":
                manifests.check(test.fleet, checks)
            else:
                getattr(test, engine)()
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
