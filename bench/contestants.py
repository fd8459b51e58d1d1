"""Who takes part in the bench, how each is prepared and how one measurement of it is taken.

Every measurement is a process of its own and gives the same keys: library_load_ms, load_ms, first_run_ms, latency_ms {min,
p50, p99}, resident_bytes, private_bytes, and start_to_output_ms: from the start of a further process that loads, runs once
and ends, to its end.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import time

import flops

PROFILED_ITERATIONS = 5
SLOW = 1.5  # medians, of a step
CHECKED = (0, 4)  # exit statuses of ctxgen check: optimal, prefer recompilation
# what multiplies matrices, by parts of the names of operators: of ctxgen's ops, ONNX and ONNX Runtime
PRODUCT_WORDS = ("conv", "matmul", "gemm", "rnn", "lstm", "gru")


class Failed(Exception):
    """A program ended with an error; the text is its last word."""


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    path: pathlib.Path
    inputs: dict[str, pathlib.Path]
    dims: dict[str, int]  # what the inputs bind the model's symbolic dims to

    @staticmethod
    def read(folder):
        about = json.loads((folder / "model.json").read_text())
        inputs = {name: folder / file for name, file in about["inputs"].items()}
        return Model(about["name"], folder / about.get("file", f"{about['name']}.onnx"), inputs, about["dims"])

    def input_flags(self):
        return [word for name, file in self.inputs.items() for word in ("--input", f"{name}={file}")]

    def dim_flags(self):
        return [word for name, size in self.dims.items() for word in ("--dim", f"{name}={size}")]


@dataclasses.dataclass(frozen=True)
class Settings:
    threads: int
    iterations: int
    work: pathlib.Path  # scratch, one folder per model, thread count and contestant
    isa: str | None = None  # what ctxgen and oneDNN are limited to
    limiter: pathlib.Path | None = None  # the library that limits other programs to it

    def folder(self, model, contestant):
        return self.work / model.name / str(self.threads) / contestant.key


def run_program(command, threads, isa=None, statuses=(0,), limiter=None):
    """Standard output and the wall-clock milliseconds of the whole process, which must end with one of `statuses`."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}  # the Dnnl provider has no other setting
    if isa:
        environment["ONEDNN_MAX_CPU_ISA"] = isa.upper()
    if limiter:
        environment["LD_PRELOAD"] = str(limiter)
    start = time.perf_counter()
    finished = subprocess.run(
        [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    elapsed_ms = (time.perf_counter() - start) * 1e3
    if finished.returncode not in statuses:
        # Debian's ONNX Runtime prints hundreds of harmless "Schema error" lines
        said = [line for line in finished.stderr.decode(errors="replace").splitlines() if line.strip()]
        said = [line for line in said if "Schema error" not in line] or [f"status {finished.returncode}"]
        raise Failed(said[-1])
    return finished.stdout.decode(), elapsed_ms


def json_of(command, threads, isa=None):
    return json.loads(run_program(command, threads, isa)[0])


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def step_summary(steps_ms, prefill_ms=None):
    """Of steps of a decoder, from the third one on."""
    times = sorted(steps_ms)
    median = percentile(times, 0.5)
    return {
        "prefill_ms": prefill_ms,
        "step_ms": {"min": times[0], "p50": median, "p99": percentile(times, 0.99), "max": times[-1]},
        "slow_steps": sum(elapsed > SLOW * median for elapsed in times),
        "steps": len(times),
    }


def share_outside_products(times):
    """Of (name of the operator, time) pairs: how much of the time is not spent in products, convolutions and recurrent layers."""
    total = sum(elapsed for _, elapsed in times)
    inside = sum(elapsed for name, elapsed in times if any(word in name.lower() for word in PRODUCT_WORDS))
    return 1 - inside / total if total > 0 else None


def step_name(op):
    """A step of an op of dnnl without operations of its own is a pass over the op's result."""
    return op["kind"] if op["flops"] > 0 or op["kind"] == "rnn" or op["kind"][0].isupper() else "pass"


class Contestant:
    """`prepare` is called once per model and number of threads, before any measurement; its numbers stand for all rounds."""

    key: str
    title: str
    gives_outputs = True  # False: its results cannot be compared with others'

    def prepare(self, model, settings):
        raise NotImplementedError

    def measure(self, model, settings):
        raise NotImplementedError

    def decode(self, model, settings, decode):
        """Steps of a decoder after a prompt, its caches kept: what step_summary() gives."""
        raise Failed("does not decode")

    def profile(self, model, settings):
        """Where the time goes: outside_share, and what else the contestant knows of itself."""
        raise NotImplementedError

    def outputs(self, model, settings, folder):
        """Runs once and gives the outputs' .npy files in `folder`, in the model's order."""
        raise NotImplementedError


class Ctxgen(Contestant):
    def __init__(self, program, key="ctxgen", title="ctxgen"):
        self.program = program
        self.key = key
        self.title = title

    def version(self):
        return ", ".join(run_program([self.program, "--version"], 1)[0].split("\n")).strip(", ")

    def instruction_set(self, isa):
        """What it uses if limited to `isa`."""
        told = json_of([self.program, "providers", "--json"], 1, isa)
        return next(provider["isa"] for provider in told["providers"] if provider.get("isa"))

    def _context(self, model, settings):
        return settings.folder(model, self) / f"{model.name}_ctx.onnx"

    def _run(self, settings, verb, path, *flags):
        command = [self.program, verb, path, *flags, "--threads", settings.threads]
        return run_program(command, settings.threads, settings.isa)

    def prepare(self, model, settings):
        context = self._context(model, settings)
        context.parent.mkdir(parents=True, exist_ok=True)
        _, compile_ms = self._run(settings, "compile", model.path, "-o", context, "-q", *model.dim_flags())
        size = sum(file.stat().st_size for file in context.parent.iterdir())
        return {"compile_ms": compile_ms, "file_bytes": size}

    def _bench(self, model, settings, iterations, *flags):
        # inputs of the same shapes, seeded by ctxgen: f32 networks take the same time for any ordinary values
        flags = ["--json", "--iterations", iterations, *model.dim_flags(), *flags]
        result = json.loads(self._run(settings, "bench", self._context(model, settings), *flags)[0])
        del result["compile_ms"]  # of the bench process, which had nothing to compile
        return result

    def measure(self, model, settings):
        result = self._bench(model, settings, settings.iterations)
        _, elapsed_ms = self._run(settings, "run", self._context(model, settings), *model.input_flags())
        return {**result, "start_to_output_ms": elapsed_ms}

    def decode(self, model, settings, decode):
        told = json.loads(self._run(settings, "bench", self._context(model, settings), "--json", "--decode", decode)[0])["decode"]
        return {key: told[key] for key in ("prefill_ms", "step_ms", "slow_steps")} | {"steps": decode.steps - 2}

    def profile(self, model, settings):
        """Also the machine's peaks, measured before and after, and the operations that its own products have."""
        result = self._bench(model, settings, PROFILED_ITERATIONS, "-v")
        return {
            "outside_share": share_outside_products([(step_name(op), op["us"]) for op in result["ops"]]),
            "flops": sum(op["flops"] for op in result["ops"]),
            "peak_gflops_per_second": result["peaks"]["gflops_per_second"],
            "read_gbytes_per_second": result["peaks"]["gbytes_per_second"],
        }

    def load_with(self, model, settings, threads):
        """Loads the file that was compiled for `settings` with other threads, and asks whether it fits."""
        other = dataclasses.replace(settings, threads=threads)
        context = self._context(model, settings)
        told = json.loads(self._run(other, "bench", context, "--json", "--iterations", 1, *model.dim_flags())[0])
        checked, _ = run_program([self.program, "check", context, "--threads", threads, "--json"], threads, settings.isa, CHECKED)
        return {
            "load_ms": told["load_ms"],
            "private_bytes": told["private_bytes"],
            "repacked_weights": told["plans"]["repacked_weights"],
            "verdict": json.loads(checked)["verdict"],
        }

    def outputs(self, model, settings, folder):
        folder.mkdir()
        flags = ["--json", "--output-dir", folder, *model.input_flags()]
        told = json.loads(self._run(settings, "run", self._context(model, settings), *flags)[0])
        return [folder / output["file"] for output in told["outputs"]]


class OnnxRuntime(Contestant):
    """One library with one execution provider."""

    def __init__(self, key, title, program, library, provider="cpu"):
        self.key = key
        self.title = title
        self.program = program
        self.library = library
        self.provider = provider

    def _command(self, settings, model_path, *flags):
        return [
            self.program, "--library", self.library, "--provider", self.provider, "--threads", settings.threads,
            "--model", model_path, *flags,
        ]  # fmt: skip

    def _run(self, settings, command):
        return run_program(command, settings.threads, settings.isa, limiter=settings.limiter)

    def _load_flags(self, model, _settings):
        return model.path, []

    def _loaded(self, model, settings, *flags):
        path, load_flags = self._load_flags(model, settings)
        return self._command(settings, path, *load_flags, *model.input_flags(), *flags)

    def prepare(self, model, _settings):
        return {"compile_ms": 0.0, "file_bytes": model_bytes(model.path)}

    def measure(self, model, settings):
        command = self._loaded(model, settings, "--iterations", settings.iterations)
        result = json.loads(self._run(settings, command)[0])
        runs_ms = sorted(result.pop("runs_ms"))
        result["latency_ms"] = {"min": runs_ms[0], "p50": percentile(runs_ms, 0.5), "p99": percentile(runs_ms, 0.99)}
        _, elapsed_ms = self._run(settings, self._loaded(model, settings, "--iterations", 0))
        return {**result, "start_to_output_ms": elapsed_ms}

    def decode(self, model, settings, decode):
        path, load_flags = self._load_flags(model, settings)
        shared = ["--one-buffer"] if "GroupQueryAttention" in flops.op_types(model.path) else []
        told = json.loads(self._run(settings, self._command(settings, path, *load_flags, "--decode", decode, *shared))[0])
        return step_summary(told["steps_ms"], told["prefill_ms"])

    def profile(self, model, settings):
        folder = settings.folder(model, self)
        folder.mkdir(parents=True, exist_ok=True)
        command = self._loaded(model, settings, "--iterations", PROFILED_ITERATIONS, "--profile", folder / "profile")
        profile = pathlib.Path(json.loads(self._run(settings, command)[0])["profile"])
        events = [event for event in json.loads(profile.read_text()) if event["name"].endswith("_kernel_time")]
        return {"outside_share": share_outside_products([(event["args"]["op_name"], event["dur"]) for event in events])}

    def outputs(self, model, settings, folder):
        self._run(settings, self._loaded(model, settings, "--iterations", 0, "--outputs", folder))
        return [folder / f"output_{index}.npy" for index in range(len(list(folder.iterdir())))]


class PrepackedOnnxRuntime(OnnxRuntime):
    """ONNX Runtime's own ahead-of-time path: the optimised model with its weights packed in an external file, mapped at load."""

    def _path(self, model, settings):
        return settings.folder(model, self) / f"{model.name}.onnx"

    def prepare(self, model, settings):
        path = self._path(model, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        _, compile_ms = self._run(settings, self._command(settings, model.path, "--save-optimized", path))
        return {"compile_ms": compile_ms, "file_bytes": model_bytes(path)}

    def _load_flags(self, model, settings):
        return self._path(model, settings), ["--optimization", 0]  # everything has been done


def model_bytes(path):
    data = path.with_name(path.name + ".data")
    return path.stat().st_size + (data.stat().st_size if data.exists() else 0)


def library_providers(program, library):
    """{"version": ..., "providers": [...]} of an ONNX Runtime library."""
    return json.loads(run_program([program, "--library", library, "--providers"], 1)[0].splitlines()[-1])
