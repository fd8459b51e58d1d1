"""The manifests in samples/fleet: their shapes, and their commands, which run here as the engine would run them."""

import os
import pathlib
import shutil
import subprocess

import yaml
from engines import SAMPLES

GITHUB_JOB = {"runs-on", "strategy", "steps", "needs"}
GITHUB_STEP = {"uses", "with", "run", "name"}
GITLAB_JOB = {"stage", "tags", "parallel", "script", "artifacts", "needs"}


def wrong_fields(value, kind, models, where):
    """What Kubernetes' own description of its types does not know, or knows as another type. Yields sentences."""
    if kind.startswith("list["):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for index, one in enumerate(value):
            yield from wrong_fields(one, kind[5:-1], models, f"{where}[{index}]")
    elif kind.startswith("dict("):
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            yield f"{where} is no map of text"
    elif hasattr(models, kind):
        model = getattr(models, kind)
        fields = {json_name: name for name, json_name in model.attribute_map.items()}
        for key, one in value.items():
            if key not in fields:
                yield f"{where} has no field {key}"
            else:
                yield from wrong_fields(one, model.openapi_types[fields[key]], models, f"{where}.{key}")
        try:
            model(**{fields[key]: one for key, one in value.items() if key in fields})  # refuses what lacks a field
        except ValueError as problem:
            yield f"{where}: {problem}"
    elif not isinstance(value, {"str": str, "int": int, "bool": bool}.get(kind, object)):
        yield f"{where} is {value!r}, expected {kind}"


class Commands:
    """Runs shell lines of manifests with `ctxgen` and the paths of the fleet in place of the manifest's."""

    def __init__(self, fleet, folder):
        self.fleet, self.folder = fleet, folder
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "ctxgen").symlink_to(fleet.ctxgen)
        (folder / "models").mkdir()
        shutil.copy(fleet.list_file, folder / "models" / "models.txt")

    def run(self, command, **environment):
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "CTXGEN_CACHE_DIR": "", **environment}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def contexts(self, folder="out"):
        return sum(1 for _ in (self.folder / folder).glob("*_ctx.onnx"))


def finish(commands, fleet, checks, what):
    checks.equal(commands.contexts(), len(fleet.models), f"{what}: context models")
    if (commands.folder / "merged").exists():
        checks.equal((commands.contexts("merged"), len(list((commands.folder / "merged").glob("*.bin")))), (len(fleet.models), 1), f"{what}: merged")
    shutil.rmtree(commands.folder)
    print(f"{what:<44} {len(fleet.models)} models by the commands of the manifest")


def check_kubernetes(fleet, checks, folder):
    from kubernetes.client import models

    job = yaml.safe_load((SAMPLES / "kubernetes-job.yaml").read_text())
    checks.equal(list(wrong_fields(job, "V1Job", models, "job")), [], "kubernetes-job.yaml")
    checks.equal((job["apiVersion"], job["kind"]), ("batch/v1", "Job"), "kubernetes-job.yaml")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    checks.equal({mount["name"] for mount in container["volumeMounts"]}, {volume["name"] for volume in pod["volumes"]}, "volumes of the pod")
    variables = {one["name"]: one["value"] for one in container["env"]}
    checks.equal((variables["SHARES"], spec["completionMode"]), (str(spec["completions"]), "Indexed"), "shares of the Indexed Job")
    commands = Commands(fleet, folder)
    line = [part.replace("/models/", "models/").replace("/out/", "out/") for part in container["command"] + container["args"]]
    (folder / "out").mkdir()
    for index in range(spec["completions"]):
        done = commands.run(line, JOB_COMPLETION_INDEX=str(index), **variables)
        checks.equal(done.returncode, 0, f"pod {index}: {done.stderr}")
    finish(commands, fleet, checks, "Kubernetes Indexed Job")


def check_github(fleet, checks, folder):
    workflow = yaml.safe_load((SAMPLES / "github.yml").read_text())
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads the key `on` as a truth value
    checks.equal(set(workflow), {"name", "on", "jobs"}, "github.yml")
    commands = Commands(fleet, folder)
    for name, job in workflow["jobs"].items():
        checks.that(set(job) <= GITHUB_JOB and {"runs-on", "steps"} <= set(job), f"github.yml: job {name} has {sorted(job)}")
        for step in job["steps"]:
            checks.that(set(step) <= GITHUB_STEP and ("uses" in step) != ("run" in step), f"github.yml: a step of {name} has {sorted(step)}")
        for share in job.get("strategy", {}).get("matrix", {}).get("share", [None]):
            for step in (step for step in job["steps"] if "run" in step):
                done = commands.run(["bash", "-e", "-c", step["run"].replace("${{ matrix.share }}", str(share))])
                checks.equal(done.returncode, 0, f"github.yml: {step['run']}: {done.stderr}")
    checks.that(workflow["jobs"]["merge"]["needs"] in workflow["jobs"], "github.yml: what merge needs")
    finish(commands, fleet, checks, "GitHub matrix")


def check_gitlab(fleet, checks, folder):
    pipeline = yaml.safe_load((SAMPLES / "gitlab.yml").read_text())
    commands = Commands(fleet, folder)
    for name, job in pipeline.items():
        checks.that(set(job) <= GITLAB_JOB and "script" in job, f"gitlab.yml: job {name} has {sorted(job)}")
        checks.that(set(job.get("needs", [])) <= set(pipeline), f"gitlab.yml: what {name} needs")
        total = job.get("parallel", 1)
        for index in range(1, total + 1):
            for line in job["script"]:
                done = commands.run(["bash", "-e", "-c", line], CI_NODE_INDEX=str(index), CI_NODE_TOTAL=str(total))
                checks.equal(done.returncode, 0, f"gitlab.yml: {line}: {done.stderr}")
    finish(commands, fleet, checks, "GitLab parallel")


def check(fleet, checks):
    folder = pathlib.Path(fleet.folder) / "manifests"
    for check_one in (check_kubernetes, check_github, check_gitlab):
        check_one(fleet, checks, folder)
