"""Bundles as OCI tools take them: oras and skopeo read the layouts, a registry stores them, and the files that come back are those that went in."""

import hashlib
import json
import shutil
import subprocess
import tarfile
import time

from http_store import answers, free_port, wait_until

CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class Registry:
    """docker-registry for the time of a `with`."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()

    def __enter__(self):
        self.folder.mkdir(parents=True)
        configuration = self.folder / "registry.yml"
        configuration.write_text(CONFIGURATION.format(folder=self.folder / "store", port=self.port))
        self.process = subprocess.Popen(["docker-registry", "serve", configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port), "docker-registry")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def name(self, repository, tag="v1"):
        return f"127.0.0.1:{self.port}/{repository}:{tag}"

    def stored(self, digest):
        return (self.folder / "store" / "docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data").exists()


class Tools:
    """Runs commands; one that fails is a check that failed."""

    def __init__(self, checks):
        self.checks = checks

    def __call__(self, *command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        self.checks.equal(done.returncode, 0, f"{' '.join(map(str, command))}: {done.stderr[-500:]}")
        return done.stdout


def digests(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def check_artifact(tool, checks, folder, layout, source, registry):
    tool("oras", "cp", "--from-oci-layout", f"{layout}:v1", "--to-oci-layout", f"{folder / 'copy'}:v1")
    tool("oras", "pull", "--oci-layout", f"{folder / 'copy'}:v1", "-o", folder / "pulled")
    checks.equal(digests(folder / "pulled"), source, "files that oras takes from a copied layout")
    tool("oras", "cp", "--from-oci-layout", f"{layout}:v1", "--to-plain-http", registry.name("models/fleet"))
    tool("oras", "pull", "--plain-http", registry.name("models/fleet"), "-o", folder / "from-registry")
    checks.equal(digests(folder / "from-registry"), source, "files that oras takes from a registry")
    manifest = json.loads(tool("skopeo", "inspect", "--raw", f"oci:{layout}:v1"))
    checks.equal(manifest["artifactType"], "application/vnd.ctxgen.model.v1", "skopeo inspect --raw")
    for digest in source.values():
        checks.that(registry.stored(digest), f"the registry has the blob {digest}")


def check_image(tool, checks, folder, layout, source, registry):
    about = json.loads(tool("skopeo", "inspect", f"oci:{layout}:v1"))
    checks.equal((about["Architecture"], about["Os"], len(about["Layers"])), ("amd64", "linux", len(source)), "skopeo inspect")
    tool("skopeo", "copy", f"oci:{layout}:v1", f"docker://{registry.name('models/image')}", "--dest-tls-verify=false")
    tool("skopeo", "copy", "--src-tls-verify=false", f"docker://{registry.name('models/image')}", f"oci:{folder / 'image-copy'}:v1")
    manifest = json.loads(tool("skopeo", "inspect", "--raw", f"oci:{folder / 'image-copy'}:v1"))
    (folder / "unpacked").mkdir()
    for layer in manifest["layers"]:
        blob = folder / "image-copy" / "blobs" / "sha256" / layer["digest"].removeprefix("sha256:")
        # skopeo compresses layers on their way to a registry.
        with tarfile.open(blob) as archive:
            archive.extractall(folder / "unpacked", filter="data")
    checks.equal(digests(folder / "unpacked"), source, "files of an image that went through a registry")


def check(fleet, checks, contexts):
    """`contexts`: of several models over one context binary, in a folder of their own."""
    folder, started, tool = fleet.folder / "registries", time.monotonic(), Tools(checks)
    source = digests(contexts)
    models = sorted(contexts.glob("*_ctx.onnx"))
    folder.mkdir()
    for form in ("oci", "oci-image"):
        tool(fleet.ctxgen, "bundle", *models, "-o", folder / form, "--format", form, "--tag", "v1", "-q")
    with Registry(folder / "registry") as registry:
        check_artifact(tool, checks, folder, folder / "oci", source, registry)
        check_image(tool, checks, folder, folder / "oci-image", source, registry)
    shutil.rmtree(folder)
    print(f"{'bundles through oras, skopeo and a registry':<44} {len(models)} models in {len(source)} files, {time.monotonic() - started:7.1f} s")
