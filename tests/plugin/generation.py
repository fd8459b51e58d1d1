"""Context models that sessions make, against those of the command line: for ./dev plugin-matrix --generation.

With ONNX Runtime's optimizers off the binary of each model is compared with that of `ctxgen compile` of the same file, with the basic ones on with that
of the model that ONNX Runtime saves at that level. Where bytes differ, the difference of the two graphs is named.
"""

import collections
import dataclasses
import shutil

import application as app
import onnx
from cli_support import ctxgen, json_of

SAME = "equal bytes"
NOTHING = "nothing is compiled"
REFUSED = "not compiled, or not loaded, without the plugin either"
CANNOT_WRITE = "ONNX Runtime cannot write the model: bodies of nodes lose what they read of the graph around them, as in microsoft/onnxruntime#32131"
FEWER = "ONNX Runtime knows fewer types: fewer nodes are compiled"
MORE = "ONNX Runtime knows more types: more nodes are compiled"
OTHERS = "the same number of nodes in other partitions"
NAMES = "the same nodes and weights, but other knowledge of dims"
BY_HAND = "only the command line compiles a node"
IN_SESSION = "only the session compiles a node"
CASTS = "the saved model has casts that ONNX Runtime's CPU provider needs"
APART = "the saved model has functions taken apart"
NOT_COMPARED = (NOTHING, REFUSED, CANNOT_WRITE)
REASONS = {
    FEWER: "Its shape inference leaves sizes open that onnx's follows through computed shapes, or it expands functions only after the first nodes were compiled, which the model that it saves has as nodes",
    MORE: "It infers sizes that onnx leaves open, or its optimizers change a node that is compiled for one that the saved model does not have",
    OTHERS: "What it saves has operators in the form of its own functions",
    NAMES: "It has no names for dims that it does not know, so values do not tell which of them are equal; the saved model has its nodes in another order where its optimizers changed none",
    BY_HAND: "The command line takes operators without a kernel apart into the body that ONNX has for them; ONNX Runtime shows them whole",
    CASTS: "It saves a model after it gave nodes of half precision, for which its CPU provider has no kernels, casts to single precision; a session that has the plugin compiles them as they are",
    APART: "It takes functions for which its CPU provider has no kernels apart before it saves a model. A session compiles such a node whole (GroupNormalization), or leaves it outside (NegativeLogLikelihoodLoss, which it expands after the first nodes were compiled: 1.25 to 1.30 lose what is compiled of such nodes)",
    IN_SESSION: "ONNX Runtime expands functions that the command line has as one node",
}
LEVELS = {"off": 0, "basic": 1}


@dataclasses.dataclass
class Outcomes:
    """Of one library at one level: names of models by what became of them, and what is wrong."""

    by_kind: dict
    wrong: list

    @property
    def summary(self):
        return {kind: len(names) for kind, names in self.by_kind.items()}

    @property
    def share_of_others(self):
        compared = sum(len(names) for kind, names in self.by_kind.items() if kind not in NOT_COMPARED)
        return 1 - len(self.by_kind.get(SAME, [])) / max(compared, 1)


def difference(ours, theirs):
    """What differs between the graphs of two binaries."""
    a, b = (json_of("inspect", path)["context"]["programs"] for path in (ours, theirs))
    counts = [sum(sum(one["ops"].values()) for one in programs) for programs in (a, b)]
    if counts[0] != counts[1]:
        return FEWER if counts[0] < counts[1] else MORE
    if [one["ops"] for one in a] != [one["ops"] for one in b]:
        return OTHERS
    return NAMES


def of_saved_model(kind, saved):
    """Why the graphs differ, where the model that ONNX Runtime saved shows it."""
    graph = onnx.load(saved, load_external_data=False).graph
    if any(node.name.startswith("InsertedPrecisionFreeCast_") for node in graph.node):
        return CASTS
    if any(name.startswith("_inlfunc_") for node in graph.node for name in node.output):
        return APART
    return kind


def cannot_write(text):
    """What ONNX Runtime says of the model that it makes, whose nodes in bodies it wrote."""
    return "Nodes in a graph must be topologically sorted" in text or "Duplicate definition of name" in text


def has_data_outside(model):
    initializers = onnx.load(model, load_external_data=False).graph.initializer
    return any(one.data_location == onnx.TensorProto.EXTERNAL for one in initializers)


def compiled(source, target, data):
    """The binary of the command line, or None; `data`: the folder of external data."""
    target.parent.mkdir(parents=True)
    flags = ["--external-data-dir", data] if has_data_outside(source) else []
    if ctxgen("compile", "-q", source, "-o", target, "--threads", "1", *flags).returncode != 0:
        return None
    return target.with_name("m_dnnl.bin")


def compare(host, case, level, work):
    """What became of one model, and the context model that the session made."""
    source = case.model
    common = ["--optimization", LEVELS[level]]
    if level != "off":
        source = work / "saved.onnx"
        if host.host("load", case.model, flags=["--plain", *common, "--optimized", source]).returncode != 0:
            return REFUSED, None
    theirs = compiled(source, work / "by_hand" / "m_ctx.onnx", case.model.parent)
    if theirs is None:
        return REFUSED, None
    made = work / "made" / "m_ctx.onnx"
    made.parent.mkdir()
    finished = host.host("load", case.model, flags=[*common, *app.config(ep__context_enable=1, ep__context_file_path=made)])
    if finished.returncode != 0:
        if cannot_write(finished.stdout):
            return CANNOT_WRITE, None
        plain = host.host("load", case.model, flags=["--plain", *common])
        return (REFUSED if plain.returncode != 0 else f"failed: {finished.stdout.strip()[-300:]}"), None
    ours = made.with_name("m_dnnl.bin")
    if not ours.exists() and not theirs.exists():
        return NOTHING, None
    if ours.exists() != theirs.exists():
        return (IN_SESSION, made) if ours.exists() else (BY_HAND, None)
    if ours.read_bytes() == theirs.read_bytes():
        return SAME, made
    kind = difference(ours, theirs)
    return (kind if level == "off" else of_saved_model(kind, source)), made


def run(pool, cases, host, level, work, run_made):
    """`run_made(case, context model, folder)`: "" or None, or what is wrong with its outputs."""

    def one(item):
        index, case = item
        folder = work / f"{level}_{index}"
        folder.mkdir(parents=True)
        try:
            kind, made = compare(host, case, level, folder)
            wrong = run_made(case, made, folder) if made is not None else ""
            return case.name, kind, wrong
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    outcomes = Outcomes(collections.defaultdict(list), [])
    for name, kind, wrong in pool.map(one, enumerate(cases)):
        if kind.startswith("failed"):
            outcomes.wrong.append(f"{name}: {kind}")
            continue
        outcomes.by_kind[kind].append(name)
        if wrong:
            outcomes.wrong.append(f"{name}: {wrong}")
    return outcomes


def page(by_release):
    """Lines for docs/onnxruntime-tests.md; `by_release`: outcomes by release and level."""
    lines = ["", "## Context models that sessions make", ""]
    lines.append("Each model compiled in a session and by `ctxgen compile`: with ONNX Runtime's optimizers off of the same file, with the basic ones of the model")
    lines.append("that it saves at that level. All that were made were run and gave their reference outputs.")
    for level in (level for level in LEVELS if all(level in release for release in by_release.values())):
        kinds = list(dict.fromkeys(kind for release in by_release.values() for kind in release[level].by_kind))
        lines += ["", f"### Optimizers: {level}", "", "| | " + " | ".join(by_release) + " |", "|---|" + "---|" * len(by_release)]
        for kind in kinds:
            lines.append(f"| {kind} | " + " | ".join(str(len(release[level].by_kind.get(kind, []))) for release in by_release.values()) + " |")
        lines.append("| share of those that are compared and differ | " + " | ".join(f"{release[level].share_of_others:.3f}" for release in by_release.values()) + " |")
        for kind in kinds:
            if kind in (SAME, NOTHING, REFUSED):
                continue
            names = sorted({name for release in by_release.values() for name in release[level].by_kind.get(kind, [])})
            reason = f" {REASONS[kind]}." if kind in REASONS else ""
            lines += ["", f"**{kind[0].upper()}{kind[1:]}.**{reason} {', '.join(f'`{name}`' for name in names)}."]
    return lines
