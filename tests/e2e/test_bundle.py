"""ctxgen bundle: OCI layouts and model packages, read by rules of their specifications, and loaded from what is in them."""

import hashlib
import io
import json
import os
import pathlib
import re
import signal
import tarfile

import numpy as np
import onnx
import pytest
from cli_support import conv_model, done, has_isa, into, isa_here, json_of, refused, save, temporaries
from fault_support import run_faulty
from test_regroup import SOURCES, files_of

DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
EMPTY = {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2, "data": "e30=",
         "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}


@pytest.fixture
def compiled(tmp_path):
    """Compiles models of SOURCES into a folder, one batch; gives the context models."""

    def make(*names, options=(), folder="in"):
        sources = tmp_path / "sources"
        for name in names:
            save(SOURCES[name](), sources / f"{name}.onnx")
            if name == "foreign":
                (sources / "theirs.bin").write_bytes(b"their bytes")
        done("compile", ",".join(str(sources / f"{name}.onnx") for name in names), "-o", into(tmp_path / folder), *options)
        return [tmp_path / folder / f"{name}_ctx.onnx" for name in names]

    return make


# ---- readers of the two forms --------------------------------------------------------------------------------------


class Layout:
    """An OCI image layout, checked as image-spec 1.1 asks for: every blob is named by its digest and referred to, sizes fit."""

    def __init__(self, folder):
        self.folder = folder
        assert {path.name for path in folder.iterdir()} == {"oci-layout", "index.json", "blobs"}
        assert json.loads((folder / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
        self.blobs = {path.name: path.read_bytes() for path in (folder / "blobs" / "sha256").iterdir()}
        assert {path.name for path in (folder / "blobs").iterdir()} == {"sha256"}
        for name, data in self.blobs.items():
            assert hashlib.sha256(data).hexdigest() == name
        self.used = set()
        index = json.loads((folder / "index.json").read_text())
        assert (index["schemaVersion"], index["mediaType"]) == (2, "application/vnd.oci.image.index.v1+json")
        (self.entry,) = index["manifests"]
        self.tag = self.entry["annotations"]["org.opencontainers.image.ref.name"]
        assert self.entry["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
        self.manifest = json.loads(self.read(self.entry))
        assert (self.manifest["schemaVersion"], self.manifest["mediaType"]) == (2, self.entry["mediaType"])
        self.config = json.loads(self.read(self.manifest["config"]))
        self.layers = [(layer, self.read(layer)) for layer in self.manifest["layers"]]
        assert self.used == self.blobs.keys()

    def read(self, descriptor):
        name = DIGEST.fullmatch(descriptor["digest"]).group(1)
        assert len(self.blobs[name]) == descriptor["size"]
        self.used.add(name)
        return self.blobs[name]

    def files(self):
        """By name, whatever the form."""
        if "artifactType" in self.manifest:
            return {layer["annotations"]["org.opencontainers.image.title"]: data for layer, data in self.layers}
        files = {}
        for _, data in self.layers:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                (member,) = archive.getmembers()
                assert (member.uid, member.gid, member.mtime, member.mode, member.type) == (0, 0, 0, 0o644, tarfile.REGTYPE)
                files[member.name] = archive.extractfile(member).read()
        return files


def check_variant(root, variant):
    """A variant body of schema 1.0; gives the model file."""
    assert variant.keys() <= {"variant_directory", "ep", "device", "compatibility_string", "executor_info", "additional_metadata"}
    directory = pathlib.PurePosixPath(variant["variant_directory"])
    assert not directory.is_absolute() and ".." not in directory.parts and (root / directory).is_dir()
    assert variant["device"] == "cpu" and variant["ep"].endswith("ExecutionProvider")
    assert variant["executor_info"].keys() == {"ort"}
    return root / directory / variant["executor_info"]["ort"]["model_file"]


def read_package(root):
    """By component: (variant, model file, body), in the manifest's order, which decides between equally good ones."""
    manifest = json.loads((root / "manifest.json").read_text())
    assert manifest.keys() <= {"schema_version", "package_name", "package_version", "description", "layout", "components",
                               "shared_assets", "additional_metadata"}
    assert manifest["schema_version"] == "1.0"
    components = {}
    for name, component in manifest["components"].items():
        assert component.keys() <= {"component_name", "variants", "additional_metadata"}
        components[name] = [(variant, check_variant(root, body), body) for variant, body in component["variants"].items()]
        assert components[name]
    return components


def write_files(files, folder):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


# ---- OCI -----------------------------------------------------------------------------------------------------------


CASES = [
    (("a",), ()),
    (("a", "two", "same_weights"), ()),
    (("a",), ("--embed",)),
    (("lookup", "two"), ("--external-initializers", "all.data")),
    (("foreign", "a"), ()),
    (("nothing",), ()),
    (("branches",), ("--subgraphs",)),
    (("a",), ("--portable",)),
    (("a",), ("--compress",)),
]


@pytest.mark.parametrize("form", ["oci", "oci-image"])
@pytest.mark.parametrize("names, options", CASES, ids=lambda value: "-".join(value).replace("--", ""))
def test_a_layout_has_every_file_once(tmp_path, compiled, form, names, options):
    models = compiled(*names, options=options)
    report = json_of("bundle", *models, "-o", tmp_path / "layout", "--format", form, "--tag", "v1.2")
    layout = Layout(tmp_path / "layout")
    source = files_of(tmp_path / "in")
    assert layout.files() == source
    assert layout.tag == "v1.2" and report["manifest_digest"] == layout.entry["digest"]
    assert {file["name"]: (file["bytes"], file["digest"], file["media_type"]) for file in report["files"]} == {
        name: (len(source[name]), layer["digest"], layer["mediaType"]) for name, (layer, _) in zip(layout.files(), layout.layers, strict=True)}
    assert report["bytes"] == sum(path.stat().st_size for path in (tmp_path / "layout").rglob("*") if path.is_file())
    assert [pathlib.Path(file).name for file in report["files_read"]] == list(layout.files())
    # Bins before the models that need them.
    kinds = [file["kind"] for file in report["files"]]
    assert kinds[-1] == "model" and kinds.count("model") == len(names)
    write_files(layout.files(), tmp_path / "out")
    for model, name in zip(models, names, strict=True):
        if name != "foreign":  # only its own provider loads it
            done("verify", tmp_path / "out" / model.name)
    assert temporaries(tmp_path) == []


def test_an_artifact_says_what_it_is(tmp_path, compiled):
    (model,) = compiled("a")
    done("bundle", model, "-o", tmp_path / "layout")
    layout = Layout(tmp_path / "layout")
    assert layout.manifest["artifactType"] == layout.entry["artifactType"] == "application/vnd.ctxgen.model.v1"
    assert layout.manifest["config"] == EMPTY and layout.config == {} and layout.tag == "latest"
    assert [layer["mediaType"] for layer, _ in layout.layers] == [
        "application/vnd.ctxgen.bin.v1", "application/vnd.ctxgen.context-model.v1.onnx"]
    annotations = layout.layers[1][0]["annotations"]
    assert annotations["vnd.ctxgen.source"] == "CtxgenDnnlExecutionProvider"
    assert annotations["vnd.ctxgen.fingerprint"].endswith(f";isa={isa_here()}")


def test_an_image_is_for_linux_on_amd64_and_names_its_layers(tmp_path, compiled):
    (model,) = compiled("a")
    done("bundle", model, "-o", tmp_path / "layout", "--format", "oci-image")
    layout = Layout(tmp_path / "layout")
    platform = {"architecture": "amd64", "os": "linux"}
    assert layout.entry["platform"] == platform and platform.items() <= layout.config.items()
    assert layout.config["rootfs"] == {"type": "layers", "diff_ids": [layer["digest"] for layer, _ in layout.layers]}
    assert {layer["mediaType"] for layer, _ in layout.layers} == {"application/vnd.oci.image.layer.v1.tar"}


def test_names_that_are_too_long_for_a_header(tmp_path, compiled):
    save(conv_model(), tmp_path / f"{'n' * 150}.onnx")
    done("compile", tmp_path / f"{'n' * 150}.onnx", "-o", into(tmp_path / "in"))
    done("bundle", tmp_path / "in" / f"{'n' * 150}_ctx.onnx", "-o", tmp_path / "layout", "--format", "oci-image")
    assert Layout(tmp_path / "layout").files() == files_of(tmp_path / "in")


@pytest.mark.parametrize("form", ["oci", "oci-image", "onnxruntime"])
def test_the_same_bytes_wherever_and_whenever(tmp_path, compiled, form):
    first = compiled("a", "two", folder="one")
    second = compiled("a", "two", folder="another")
    for models, out in ((first, "x"), (second, "y")):
        done("bundle", ",".join(map(str, models)), "-o", tmp_path / out, "--format", form)

    def tree(folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert tree(tmp_path / "x") == tree(tmp_path / "y")


def test_equal_layers_of_two_bundles_are_equal_blobs(tmp_path, compiled):
    """What a registry stores once: a bin that two artifacts have."""
    models = compiled("a", "two")
    for index, model in enumerate(models):
        done("bundle", model, "-o", tmp_path / f"layout{index}")
    one, two = (Layout(tmp_path / f"layout{index}") for index in range(2))
    assert [name for name in one.files() if name in two.files()] == ["a_dnnl.bin"]
    assert one.layers[0][0]["digest"] == two.layers[0][0]["digest"]


def test_models_of_several_folders(tmp_path, compiled):
    (a,), (b,) = compiled("a", folder="first"), compiled("b", folder="second")
    done("bundle", a, b, "-o", tmp_path / "layout")
    assert Layout(tmp_path / "layout").files() == files_of(tmp_path / "first") | files_of(tmp_path / "second")
    (same,) = compiled("a", folder="third")
    done("bundle", a, same, "-o", tmp_path / "once")  # the same files
    assert Layout(tmp_path / "once").files() == files_of(tmp_path / "first")
    (other,) = compiled("a", folder="fourth", options=("--portable",))
    refused(1, "INVALID_ARGUMENT", "bundle", a, other, "-o", tmp_path / "no", names=["a_dnnl.bin", "package"])
    assert not (tmp_path / "no").exists()


# ---- model packages ------------------------------------------------------------------------------------------------


def test_a_package_of_a_batch_has_its_bin_once(tmp_path, compiled):
    models = compiled("a", "lookup", options=("--external-initializers", "all.data"))
    report = json_of("bundle", *models, "-o", tmp_path / "package", "--format", "onnxruntime")
    components = read_package(tmp_path / "package")
    assert list(components) == ["a", "lookup"]
    folder = tmp_path / "package" / "a" / isa_here()
    assert files_of(folder) == files_of(tmp_path / "in")
    for name, model in zip(components, report["models"], strict=True):
        ((variant, file, body),) = components[name]
        assert variant == isa_here() and file.parent == folder
        assert (model["component"], model["variant"], model["file"]) == (name, variant, str(file.relative_to(tmp_path / "package")))
        assert body["ep"] == "CtxgenDnnlExecutionProvider"
        metadata = {entry.key: entry.value for entry in onnx.load(file).metadata_props}
        assert body["compatibility_string"] == metadata[f"ep_compatibility_info.{body['ep']}"]
        done("verify", file)


def test_variants_by_instruction_set_and_precision(tmp_path, compiled):
    """The most able first, since of equally good variants the first is taken; then in the order given."""
    variants = {"portable": ("--portable",), "avx2": ("--isa", "avx2"), "avx2-bf16_weights": ("--isa", "avx2", "--provider-option", "dnnl:weights=bf16")}
    if has_isa("avx512_core"):
        variants["avx512_core"] = ("--isa", "avx512_core")
        variants["avx2+avx512_core"] = ("--isa", "avx2,avx512_core")
    models = [compiled("a", folder=f"v{index}", options=options)[0] for index, options in enumerate(variants.values())]
    report = json_of("bundle", *models, "-o", tmp_path / "package", "--format", "onnxruntime")
    (name,), (found,) = zip(*read_package(tmp_path / "package").items(), strict=True)
    best = [variant for variant in ("avx512_core", "avx2+avx512_core") if variant in variants]
    assert name == "a" and [variant for variant, _, _ in found] == [*best, "avx2", "avx2-bf16_weights", "portable"]
    inputs = {model["variant"]: model["input"] for model in report["models"]}
    for variant, file, body in found:
        assert file.parent == tmp_path / "package" / "a" / variant
        assert files_of(file.parent) == files_of(pathlib.Path(inputs[variant]).parent)
        assert body["additional_metadata"]["instruction_sets"] == variant.split("-")[0].split("+")
    assert found[-2][2]["additional_metadata"]["precisions"] == ["weights=bf16"]


def test_a_model_of_which_nothing_is_compiled_is_for_cpu(tmp_path, compiled):
    done("bundle", *compiled("nothing"), "-o", tmp_path / "package", "--format", "onnxruntime")
    ((variant, file, body),) = read_package(tmp_path / "package")["nothing"]
    assert (variant, body["ep"]) == ("cpu", "CPUExecutionProvider") and "compatibility_string" not in body
    assert file.exists()


def test_names_of_files_make_no_paths(tmp_path):
    """"..": what is left of "..._ctx.onnx" is no folder of the package."""
    save(conv_model(), tmp_path / "in" / "net.onnx")
    done("compile", tmp_path / "in" / "net.onnx", "-o", tmp_path / "in" / ".._ctx.onnx", "--bin", tmp_path / "in" / "net.bin")
    done("bundle", tmp_path / "in" / ".._ctx.onnx", "-o", tmp_path / "package", "--format", "onnxruntime")
    assert list(read_package(tmp_path / "package")) == ["_.."]


def test_variants_that_are_none(tmp_path, compiled):
    (a,), (same,) = compiled("a", folder="x"), compiled("a", folder="y")
    package = ("-o", tmp_path / "package", "--format", "onnxruntime")
    refused(1, "INVALID_ARGUMENT", "bundle", a, same, *package, names=[f'variant "{isa_here()}"', str(a), str(same)])
    model = SOURCES["a"]()
    model.graph.output[0].name = model.graph.node[-1].output[0] = "another"
    save(model, tmp_path / "z" / "a.onnx")
    done("compile", tmp_path / "z" / "a.onnx", "--portable")
    refused(1, "INVALID_ARGUMENT", "bundle", a, tmp_path / "z" / "a_ctx.onnx", *package, names=["inputs and outputs"])
    refused(1, "INVALID_ARGUMENT", "bundle", a, *package, "--tag", "v1", names=["--tag"])
    assert not (tmp_path / "package").exists() and temporaries(tmp_path) == []


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["oci", "onnxruntime"])
def test_folders(tmp_path, compiled, form):
    (model,) = compiled("a")
    (tmp_path / "empty").mkdir()
    done("bundle", model, "-o", tmp_path / "empty", "--format", form)
    before = sorted(path.name for path in (tmp_path / "empty").iterdir())
    refused(1, "INVALID_ARGUMENT", "bundle", model, "-o", tmp_path / "empty", "--format", form, names=["not empty"])
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == before
    (tmp_path / "file").write_text("text")
    refused(1, "INVALID_ARGUMENT", "bundle", model, "-o", tmp_path / "file", "--format", form)
    refused(1, "INVALID_ARGUMENT", "bundle", model, "-o", tmp_path / "in", "--format", form)  # where the models are
    refused(3, "IO_ERROR", "bundle", model, "-o", tmp_path / "none" / "out", "--format", form)
    refused(3, "IO_ERROR", "bundle", tmp_path / "none_ctx.onnx", "-o", tmp_path / "out", "--format", form)
    assert not (tmp_path / "out").exists() and temporaries(tmp_path) == []


@pytest.mark.parametrize("tag", ["a b", "-x", ".x", "x" * 129, "a/b", "ä"])
def test_tags_that_no_registry_takes(tmp_path, compiled, tag):
    refused(1, "INVALID_ARGUMENT", "bundle", *compiled("a"), "-o", tmp_path / "out", f"--tag={tag}")
    assert not (tmp_path / "out").exists()


def test_nothing_damaged_is_bundled(tmp_path, compiled):
    (model,) = compiled("a")
    source = tmp_path / "sources" / "a.onnx"
    refused(2, "INVALID_GRAPH", "bundle", source, "-o", tmp_path / "out", names=["compile it first"])
    bin_ = tmp_path / "in" / "a_dnnl.bin"
    whole = bin_.read_bytes()
    flipped = bytearray(whole)
    flipped[-1] ^= 1  # of the last weight
    bin_.write_bytes(flipped)
    refused(2, "INVALID_GRAPH", "bundle", model, "-o", tmp_path / "out", names=["a_ctx.onnx"])
    bin_.unlink()
    refused(2, "INVALID_GRAPH", "bundle", model, "-o", tmp_path / "out", names=["a_dnnl.bin"])
    bin_.write_bytes(whole)
    done("bundle", model, "-o", tmp_path / "fine")
    assert not (tmp_path / "out").exists() and temporaries(tmp_path) == []


# ---- interrupted ---------------------------------------------------------------------------------------------------


def command(model, folder, form):
    return ["bundle", model, "-o", folder / "out", "--format", form]


def calls(tmp_path, model, form):
    """How often it makes system calls on files in the folder."""
    (tmp_path / "counted").mkdir()
    assert run_faulty(tmp_path / "counted", *command(model, tmp_path / "counted", form), FAULT_COUNT=str(tmp_path / "count")).returncode == 0
    return sum(int(line.split()[1]) for line in (tmp_path / "count").read_text().splitlines())


@pytest.mark.parametrize("form", ["oci", "onnxruntime"])
def test_killed_at_every_system_call(tmp_path, compiled, form):
    (model,) = compiled("a")
    count, whole = calls(tmp_path, model, form), tmp_path / "counted" / "out"
    names = sorted(str(path.relative_to(whole)) for path in whole.rglob("*"))
    seen, folder = set(), tmp_path / "work"
    folder.mkdir()
    for number in range(1, count + 1):
        assert run_faulty(folder, *command(model, folder, form), FAULT=f"*:{number}:KILL").returncode == -signal.SIGKILL, number
        seen.add((folder / "out").exists())
        if (folder / "out").exists():
            assert sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*")) == names
        else:
            assert [path.name for path in folder.iterdir() if not path.name.endswith(".tmp")] == []
            done(*command(model, folder, form))
            assert temporaries(folder) == []
        for path in sorted((folder / "out").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (folder / "out").rmdir()
    assert False in seen


@pytest.mark.parametrize("fault, status", [("write:1:ENOSPC", 3), ("fsync:2:EIO", 3), ("rename:1:EACCES", 3),
                                           ("fsync:1:TERM", -signal.SIGTERM), ("fsync:1:HUP", -signal.SIGHUP), ("write:1:INT", 130)])
def test_what_fails_or_ends_it_leaves_nothing(tmp_path, compiled, fault, status):
    (model,) = compiled("a")
    folder = tmp_path / "work"
    folder.mkdir()
    finished = run_faulty(folder, *command(model, folder, "oci"), FAULT=fault)
    assert finished.returncode == status, finished.stderr
    assert list(folder.iterdir()) == []


# ---- fine-tunes ----------------------------------------------------------------------------------------------------


def fine_tune(seed):
    """The base with another last layer."""
    model = SOURCES["a"]()
    random = np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.name in ("gw", "gb"):
            tensor.raw_data = random.standard_normal(tuple(tensor.dims), dtype=np.float32).tobytes()
    return model


COUNT = int(os.environ.get("CTXGEN_FINE_TUNES", "12"))


@pytest.mark.parametrize("way", ["batch", "merge", "append"])
def test_fine_tunes_share_what_is_equal(tmp_path, way):
    """One base and models that differ in their last layers: every equal weight is there once, however they come together."""
    names = [f"tune{index}" for index in range(COUNT)]
    for index, name in enumerate(names):
        save(fine_tune(index), tmp_path / f"{name}.onnx")
    paths = [tmp_path / f"{name}.onnx" for name in names]
    out = tmp_path / "out"
    if way == "batch":
        report = json_of("compile", ",".join(map(str, paths)), "-o", into(out))
    elif way == "merge":
        for path in paths:
            done("compile", path, "-o", into(tmp_path / path.stem))
        report = json_of("merge", *(tmp_path / name / f"{name}_ctx.onnx" for name in names), "-o", out)
    else:
        done("compile", paths[0], "-o", into(out))
        for path in paths[1:]:
            report = json_of("compile", path, "-o", out / f"{path.stem}_ctx.onnx", "--append", out / "tune0_dnnl.bin")
    one = json_of("compile", paths[0], "-o", into(tmp_path / "one"))
    assert len(json_of("inspect", out / "tune0_dnnl.bin")["context"]["programs"]) == COUNT
    # Of each further one the two weights of its last layer: the rest is the base's.
    assert report["bins"][0]["blobs"] == one["bins"][0]["blobs"] + 2 * (COUNT - 1)
    for name in names:
        done("verify", out / f"{name}_ctx.onnx", "--against", tmp_path / f"{name}.onnx")
