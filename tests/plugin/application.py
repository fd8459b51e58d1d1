"""What an application sees of the plugin EP in one ONNX Runtime library: checks for tests/e2e/test_plugin_host.py and ./dev plugin-matrix.

Each check starts tests/plugin/ort_host, an application in C++, in processes of its own. Codes are ONNX Runtime's: 1 FAIL, 2 INVALID_ARGUMENT,
9 NOT_IMPLEMENTED, 10 INVALID_GRAPH, 13 MODEL_REQUIRES_COMPILATION.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from cli_support import add_model, conv_model, done, ep_nodes, make_model, mixed_model, save

BUILD = pathlib.Path(os.environ["CTXGEN_BIN"]).parent.parent
PLUGIN = BUILD / "lib" / "libctxgen_onnxruntime.so"
PROBE = BUILD / "tests" / "libort_table_probe.so"
HOST = BUILD / "tests" / "ort_host"
SANITIZED = HOST.exists() and any(name in HOST.read_bytes() for name in (b"__tsan_init", b"__asan_init"))

# Since when ONNX Runtime calls a member of the tables in what the checks do (the others are asked for by accelerators only).
REACHED_SINCE = {
    "GetKernelRegistry": 24,
    "IsConcurrentRunSupported": 24,
    "GetHardwareDeviceIncompatibilityDetails": 24,
    "GetNumCustomOpDomains": 24,
    "GetCustomOpDomains": 24,
    "CreateProfiler": 25,
    "Sync": 27,  # since 1.25, but not in what the checks do
    "IsGraphCaptureEnabled": 26,
    "IsGraphCaptured": 26,
    "ReplayGraph": 26,
    "GetGraphCaptureNodeAssignmentPolicy": 26,
    "OnSessionInitializationEnd": 27,
    "GetDefaultMemoryDevice": 27,
    "GetWeightlessSupport": 29,
}

LOSS = """<ir_version: 7, opset_import: ["" : 13]>
loss (float[3, 5] x, int64[3] t) => (float y) {
  l = LogSoftmax <axis = 1> (x)
  y = NegativeLogLikelihoodLoss <reduction = "sum"> (l, t)
}"""


def chain_model(length=48, size=768):
    """A partition of many products, which takes some milliseconds."""
    weight = np.random.default_rng(1).standard_normal((size, size), dtype=np.float32) / size**0.5
    nodes = [helper.make_node("MatMul", [f"v{i}" if i else "x", "w"], [f"v{i + 1}"]) for i in range(length)]
    nodes.append(helper.make_node("Relu", [f"v{length}"], ["y"]))
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size])] for name in ("x", "y")]
    return make_model(helper.make_graph(nodes, "chain", *ends, [numpy_helper.from_array(weight, "w")]))


@dataclasses.dataclass(frozen=True)
class Application:
    """On `library`; sessions and compiled models have `threads` threads. `folder` holds the models of make_models()."""

    library: pathlib.Path
    folder: pathlib.Path
    threads: int
    repeats: int = 3  # of what crashes by chance

    @property
    def minor_version(self):
        """23 for 1.23.2: Debian has it in the name of the file, npm in that of the folder."""
        return int(re.search(r"(?:-|\.so\.)1\.(\d+)", f"{self.library.parent.name}/{self.library.name}")[1])

    def host(self, verb, model="net_ctx.onnx", *, plugin=PLUGIN, threads=None, flags=(), environment=None):
        threads = self.threads if threads is None else threads
        command = [HOST, verb, "--library", self.library, "--plugin", plugin, "--model", self.folder / model, "--threads", threads, *flags]
        # The suite has idle threads sleep; those of an application spin for a while, and fail if their code is unloaded.
        environment = {**{key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}, **(environment or {})}
        # ONNX Runtime has no sanitizer: what it leaves at the end of a process counts as a leak, and so does what the verb leak leaves.
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        seconds = 1200 if SANITIZED else 300
        return subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=False, timeout=seconds)

    def ok(self, verb, *arguments, **options):
        finished = self.host(verb, *arguments, **options)
        assert finished.returncode == 0, f"{verb}: status {finished.returncode}\n{finished.stdout}{finished.stderr[-2000:]}"
        return finished

    def refusal(self, verb, *arguments, **options):
        """Code and text."""
        finished = self.host(verb, *arguments, **options)
        assert finished.returncode == 1, f"{verb}: status {finished.returncode}, expected a refusal\n{finished.stdout}{finished.stderr[-2000:]}"
        return finished.stdout

    def refused(self, code, verb, *arguments, **options):
        """The text that goes with the code."""
        text = self.refusal(verb, *arguments, **options)
        assert text.startswith(f"{code}: "), f"{verb}: expected code {code}\n{text}"
        return text


def make_models(folder, threads):
    done("compile", "-q", save(conv_model(batch=1), folder / "net.onnx"), "--threads", threads)
    done("compile", "-q", save(chain_model(), folder / "chain.onnx"), "--threads", threads)
    save(add_model(), folder / "add.onnx")
    negation = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "negation",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    save(make_model(negation), folder / "negation.onnx")
    save(parse_model('<ir_version: 8, opset_import: ["" : 17]> none (float[2] x) => (int64[1, n] y) { y = NonZero(x) }'), folder / "none.onnx")
    save(mixed_model(), folder / "mixed.onnx")


def config(**entries):
    return [word for key, value in entries.items() for word in ("--config", f"{key.replace('__', '.')}={value}")]


def check_rounds(application):
    """Registers, loads, runs and unregisters again and again in one process."""
    application.ok("run", flags=["--rounds", application.repeats])


def check_processes(application):
    """Registers, loads, runs, unregisters and exits in many processes."""
    for _ in range(application.repeats):
        application.ok("run")


def check_default_threads(application):
    """As many as there are cores: more than that do not spin."""
    application.ok("run", threads=0, flags=["--rounds", application.repeats])
    for _ in range(application.repeats):
        for verb in ("run", "keep"):
            application.ok(verb, threads=0)


def check_ways_to_end(application):
    """However the application ends: in order, without unregistering, without destroying anything, with all that after main()."""
    for verb in ("keep", "leak", "static"):
        for _ in range(application.repeats):
            application.ok(verb)


def check_sessions_that_outlive(application):
    """The registration, the environment."""
    for verb in ("early", "orphan"):
        for _ in range(application.repeats):
            application.ok(verb)


def check_what_stays_mapped(application):
    found = set(application.ok("mapped").stdout.split())
    assert found >= {"libctxgen_onnxruntime.so", "libgomp.so", "libdnnl.so"}, found


def check_tables(application):
    """ort_tables.h against the library: it finds each member of the probe's tables where the header says."""
    flags = ["--ep-name", "ProbeExecutionProvider"]
    called, loud = set(), set()
    for verb, extra in (("run", []), ("run", ["--config", "ep.enable_weightless=1"]), ("incompatibility", [])):
        for version, calls in (("", called), ("23", loud)):
            environment = {"CTXGEN_PROBE_VERSION": version} if version else {}
            found = application.host(verb, "negation.onnx", plugin=PROBE, flags=[*flags, *extra], environment=environment)
            assert found.returncode in (0, 1, 3), f"{verb}: status {found.returncode}\n{found.stdout}{found.stderr[-500:]}"
            calls.update(re.findall(r"^called (\w+)$", found.stdout, re.M))
    assert called == {name for name, since in REACHED_SINCE.items() if since <= application.minor_version}, called
    assert loud <= {"GetHardwareDeviceIncompatibilityDetails"}, f"read from tables of 1.23: {loud}"


def check_incompatibility(application):
    finished = application.host("incompatibility")
    if application.minor_version < 24:
        assert finished.returncode == 3
        return
    assert finished.returncode == 0, f"status {finished.returncode}\n{finished.stdout}"
    # CPUs are fine, for others the device is the reason
    assert set(finished.stdout.splitlines()) == {"device of type 0: reasons 0", "device of type 1: reasons 2"}, finished.stdout


def check_suboptimal(application):
    """Good models are good, whatever number of threads session and machine have."""
    application.ok("run", flags=config(session__fail_on_suboptimal_compiled_model=1))


def check_verdicts(application):
    fingerprint = done("inspect", "--json", application.folder / "net_ctx.onnx").stdout
    fingerprint = re.search(r"format=\d+;onednn=[^\"\\]*", fingerprint)[0]
    old = re.sub(r"onednn=[^;]*", "onednn=1.2.3", fingerprint)
    other = f"{fingerprint};threads=63"  # as older files say
    for info, verdict in (("", "not applicable"), (fingerprint, "optimal"), (other, "optimal"), (old, "unsupported")):
        finished = application.ok("verdict", flags=["--info", info])
        assert finished.stdout == f"{verdict}\n", f"{info}: {finished.stdout}"
        if verdict == "unsupported":
            assert "1.2.3" in finished.stderr, "the reason is not logged"


def check_bin_of_a_model_from_memory(application):
    """ep.context_file_path says where it is, also where external initializers have a folder of their own."""
    elsewhere = application.folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    given = {"ep__context_file_path": application.folder / "any.onnx"}
    folder = {"session__model_external_initializers_file_folder_path": elsewhere}
    application.ok("run", flags=["--memory", *config(**given)])
    application.ok("run", flags=["--memory", *config(**given, **folder)])
    application.ok("run", flags=config(**given, **folder))
    assert "ep.context_file_path" in application.refused(10, "load", flags=["--memory"])
    application.refused(10, "load", flags=["--memory", *config(ep__context_file_path=elsewhere / "any.onnx")])


def check_generation(application):
    output = application.folder / "generated.onnx"
    generation = config(ep__context_enable=1, ep__context_file_path=output)
    assert "already compiled" in application.refused(2, "load", flags=generation)
    assert "already compiled" in application.refused(2, "compile", flags=["--output", output])
    assert not output.exists()
    application.ok("load", "net.onnx", flags=generation)
    made = output.with_name("generated_dnnl.bin").read_bytes()
    output.unlink()
    application.ok("compile", "net.onnx", flags=["--output", output])
    assert output.with_name("generated_dnnl.bin").read_bytes() == made
    application.ok("load", output.name)


def outputs_of(application, model, *flags):
    target = application.folder / "outputs.raw"
    application.ok("outputs", model, flags=["--outputs", target, "--fill", 1, *flags])
    return np.fromfile(target, np.float32)


def check_functions_that_are_expanded(application):
    """ONNX Runtime expands a function without a kernel when nodes are compiled already, and asks again: sessions may compile more then, context
    models have what was compiled first, and sessions on them compile nothing."""
    save(parse_model(LOSS), application.folder / "loss.onnx")
    wanted = outputs_of(application, "loss.onnx", "--plain")
    done("compile", "-q", application.folder / "loss.onnx", "-o", application.folder / "by_hand.onnx")
    application.ok("load", "loss.onnx", flags=["--optimization", 0, *config(ep__context_enable=1, ep__context_file_path=application.folder / "loss_made.onnx")])
    assert len(ep_nodes(application.folder / "loss_made.onnx")) == 1
    assert (application.folder / "loss_made_dnnl.bin").read_bytes() == (application.folder / "by_hand_dnnl.bin").read_bytes()
    np.testing.assert_allclose(outputs_of(application, "loss.onnx"), wanted, rtol=1e-5)
    for made in ("loss_made.onnx", "by_hand.onnx"):
        np.testing.assert_allclose(outputs_of(application, made, *config(session__disable_model_compile=1)), wanted, rtol=1e-5)
    for path in application.folder.glob("loss_made*"):
        path.unlink()  # ONNX Runtime writes over no model


def check_external_data(application):
    """It is read from the model's files, or where ONNX Runtime is told that they are, unless the application has them in memory."""
    weight = np.eye(64, dtype=np.float32) * 3
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [64])] for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "outside", *ends, [numpy_helper.from_array(weight, "w")])
    onnx.save(make_model(graph), application.folder / "outside.onnx", save_as_external_data=True, location="outside.data", size_threshold=0)
    x = outputs_of(application, "outside.onnx", "--plain") / 3
    (application.folder / "doubled.data").write_bytes((weight * 2).tobytes())
    cache = ["--ep", f"cache_dir={application.folder / 'outside_cache'}"]
    for _ in range(2):
        for flags, factor in (([], 3), (["--file", f"outside.data={application.folder / 'doubled.data'}"], 6)):
            for more in ([], cache):
                np.testing.assert_allclose(outputs_of(application, "outside.onnx", *flags, *more), x * factor, rtol=1e-5)
        time.sleep(2.1)  # then the weights' hash is kept
    elsewhere = application.folder / "outside_elsewhere"
    elsewhere.mkdir()
    (elsewhere / "outside.data").write_bytes((weight * 2).tobytes())
    for more in ([], ["--memory"]):
        flags = [*more, *config(session__model_external_initializers_file_folder_path=elsewhere)]
        np.testing.assert_allclose(outputs_of(application, "outside.onnx", *flags), outputs_of(application, "outside.onnx", "--plain", *flags), rtol=1e-5)


def check_compile_api(application):
    """Where the model goes, who places initializers, and flags, as in ONNX Runtime's own tests of the Compile API."""
    folder = application.folder / "api"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    stream = folder / "stream.onnx"
    application.ok("compile", "net.onnx", flags=["--memory", "--embed", "--stream", "writes", "--output", stream])
    application.ok("run", "api/stream.onnx", flags=["--memory", *config(session__disable_model_compile=1)])
    assert "the tape is full" in application.refused(1, "compile", "net.onnx", flags=["--memory", "--embed", "--stream", "fails"])
    application.ok("compile", "mixed.onnx", flags=["--output", folder / "placed.onnx", "--weights", folder / "placed.data"])
    assert (folder / "placed.data").stat().st_size >= 4 * 2000
    if application.minor_version not in (24, 25):  # these write such an initializer a second time, as an address of their process, and refuse it
        application.ok("run", "api/placed.onnx", flags=config(session__disable_model_compile=1))
    assert "compile any nodes" in application.refused(1, "compile", "none.onnx", flags=["--output", folder / "none.onnx", "--flags", 1])
    application.ok("compile", "none.onnx", flags=["--output", folder / "none.onnx"])
    before = stream.read_bytes()
    assert "exist" in application.refused(1, "compile", "net.onnx", flags=["--output", stream, "--flags", 2])
    assert stream.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["none.onnx", "placed.data", "placed.onnx", "placed_dnnl.bin", "stream.onnx"]
    application.refused(13, "load", "net.onnx", flags=config(session__disable_model_compile=1))


def check_unknown_options(application):
    for model in ("net_ctx.onnx", "net.onnx"):
        assert "threadz" in application.refused(2, "load", model, flags=["--ep", "threadz=2"])
    application.ok("load", "net.onnx")


def check_dynamic_options(application):
    assert "no_such_key" in application.refused(2, "dynamic", flags=["--config", "no_such_key=1"])
    application.refused(2, "dynamic", flags=["--config", "ep.dynamic.workload_type=Sideways"])
    application.ok("dynamic", flags=["--config", "ep.dynamic.workload_type=Efficient"])


def check_profile(application):
    """Since 1.25 the timeline has the ops of compiled nodes, in the time and the thread of their node, those of each run once."""
    made = application.ok("profile", "chain_ctx.onnx", flags=["--output", application.folder / "profile"]).stdout.strip()
    events = json.loads(pathlib.Path(made).read_text())
    nodes = [one for one in events if one["cat"] == "Node" and one["args"].get("provider") == "CtxgenDnnlExecutionProvider"]
    ops = [one for one in events if one["args"].get("provider") == "ctxgen"]
    assert len(nodes) == 2, events
    if application.minor_version < 25:
        assert not ops
        return
    products = [one for one in ops if one["args"]["op_name"] == "matmul"]
    assert len(products) == 2 * 48 and all(one["cat"] == "Kernel" and int(one["args"]["flops"]) == 2 * 768**3 for one in products), ops
    slack = 50  # microseconds: two clocks
    for op in ops:
        node = [one for one in nodes if one["tid"] == op["tid"]]
        assert len(node) == 1 and node[0]["ts"] - slack <= op["ts"] <= op["ts"] + op["dur"] <= node[0]["ts"] + node[0]["dur"] + slack, (op, nodes)


def check_memory_of_the_application(application):
    """Bound inputs and outputs are used in place, in ordinary memory of the CPU."""
    for model in ("net_ctx.onnx", "net.onnx"):
        application.ok("bound", model, flags=["--rounds", 3])
        assert set(application.ok("memory", model).stdout.splitlines()) == {"input in Cpu", "output in Cpu"}


def check_many_threads(application):
    """One session, run from eight threads, a thousand times each."""
    application.ok("threads", flags=["--count", 8, "--rounds", 1000])


SHARING = config(ep__share_ep_contexts=1)


def check_sessions_that_share(application):
    """Sessions on one binary compute at the same time with what one of them loaded, and take little memory of their own, in a group and without."""
    for flags in ([], SHARING):
        application.ok("threads", flags=["--apart", "--count", 4, "--rounds", 20, *flags])
        application.ok("threads", "chain_ctx.onnx", flags=["--apart", "--count", 2, "--rounds", 3, *flags])
    alone, together, group = (
        json.loads(application.ok("sessions", model, flags=["--count", 10, *flags], threads=1).stdout.splitlines()[-1])["kib_each_after_a_run"]
        for model, flags in (("chain.onnx", []), ("chain_ctx.onnx", []), ("chain_ctx.onnx", SHARING))
    )
    assert SANITIZED or max(together, group) < alone / 2, (together, group, alone)  # a sanitizer has memory of its own


def check_workers_of_the_session(application):
    """Loops of our own on ONNX Runtime's threads give the same bytes in every run."""
    workers = ["--ep", "workers=session"]
    application.ok("threads", flags=["--count", 4, "--rounds", 100, *workers])
    application.ok("threads", "chain_ctx.onnx", flags=["--count", 2, "--rounds", 3, *workers])
    assert "sideways" in application.refused(2, "load", flags=["--ep", "workers=sideways"])


def source_in_memory(application):
    """The application gives the source of a weightless model as bytes, since 1.29."""
    folder = application.folder / "apart"
    folder.mkdir(exist_ok=True)
    shutil.copy(application.folder / "chain.onnx", folder / "source.onnx")
    application.ok("load", "apart/source.onnx", flags=config(ep__enable_weightless=1, ep__context_enable=1, ep__context_file_path=folder / "chain_ctx.onnx"))
    (folder / "source.onnx").unlink()
    assert "source.onnx" in application.refused(10, "load", "apart/chain_ctx.onnx")
    given = ["--source", application.folder / "chain.onnx"]
    assert application.host("run", "apart/chain_ctx.onnx", flags=given).returncode == (0 if application.minor_version >= 29 else 3)
    application.ok("run", "apart/chain_ctx.onnx", flags=config(ep__context_source_model_path=application.folder / "chain.onnx"))
    shutil.rmtree(folder)


def check_weightless(application):
    """Weights stay in the source's file where a context model is made; ONNX Runtime asks the EP from 1.29 on."""
    keys = config(ep__enable_weightless=1, ep__context_enable=1, ep__context_file_path=application.folder / "less_ctx.onnx")
    application.ok("load", "chain.onnx", flags=keys)
    assert (application.folder / "less_dnnl.bin").stat().st_size < 100_000
    application.ok("run", "less_ctx.onnx")
    for path in application.folder.glob("less_*"):
        path.unlink()
    assert "enable_weightless_mode" in application.refused(9, "load", "net.onnx", flags=config(ep__enable_weightless_mode=1))
    source_in_memory(application)
    application.ok("load", flags=config(ep__enable_weightless_mode=1))


def check_memory_of_an_ordinary_session(application):
    """ONNX Runtime's copy of the weights goes back to the system when it has let go of it: when the session is ready, or at its first run."""
    random, width, layers = np.random.default_rng(1), 512, 24
    weights = [numpy_helper.from_array(random.standard_normal((width, width), dtype=np.float32), f"w{i}") for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(layers)]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])] for name in ("v0", f"v{layers}")]
    save(make_model(helper.make_graph(nodes, "deep", *ends, weights)), application.folder / "deep.onnx")
    ours, plain = (json.loads(application.ok("creation", "deep.onnx", flags=flags).stdout.splitlines()[-1])["anonymous_mib_after_runs"] for flags in ([], ["--plain"]))
    assert SANITIZED or ours < 1.1 * plain, (ours, plain)  # a sanitizer has memory of its own


def check_terminate(application):
    """Noticed between the operators of a node."""
    application.ok("terminate", "chain_ctx.onnx")


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


def make_application(library, folder, threads, repeats=3):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_models(folder, threads)
    return Application(library, folder, threads, repeats)
