"""What the command line says to a user who mistyped, forgot or misunderstood something, and what it says with --json."""

import json
import re

import numpy as np
import onnx
import pytest
from cli_support import conv_model, ctxgen, done, json_of, make_model, refused, save
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


@pytest.fixture
def context(model, tmp_path):
    done("compile", model)
    return tmp_path / "net_ctx.onnx"


def says(arguments, *parts, status=1, code="INVALID_ARGUMENT", **options):
    """The error of a command, which has to hold all `parts`."""
    message = refused(status, code, *arguments, **options)
    for part in parts:
        assert part in message, message
    return message


# ---- commands, options, values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, parts", [
    (["complie", "m.onnx"], ['unknown command "complie"', 'did you mean "compile"?']),
    (["xyzzy"], ['unknown command "xyzzy"', "compile", "bench", "providers"]),
    (["--jsno"], ['unknown option "--jsno"']),
    (["cache", "clean"], ['"clean"', 'did you mean "clear"?']),
    (["cache"], ["stats, clear, trim or lookup"]),
    (["help", "complie"], ['did you mean "compile"?']),
    (["compile", "m", "--embedd"], ['unknown option "--embedd"', 'did you mean "--embed"?', "(ctxgen compile --help)"]),
    (["bench", "m", "--thread", "2"], ['did you mean "--threads"?', "(ctxgen bench --help)"]),
    (["run", "m", "-threads", "2"], ['did you mean "--threads"?']),
    (["compile", "m", "--against", "x"], ["it is an option of ctxgen verify"]),
    (["compile", "m", "-M"], ['unknown option "-M"']),
    (["compile", "m", "--graph-optimization", "bsic"], ["expected none, basic, extended or all", 'did you mean "basic"?']),
    (["compile", "m", "-o"], ["-o needs a value (OUT)"]),
    (["compile", "m", "--output"], ["--output needs a value (OUT)"]),
    (["compile", "m", "-MF"], ["-MF needs a value (FILE)"]),
    (["compile"], ["compile needs MODEL"]),
    (["run", "a", "b"], ['unexpected argument "b"']),
    (["run", "a", "--seed", "1", "--seed", "2"], ["--seed is given twice"]),
    (["run", "a", "--threads", "abc"], ['--threads: expected a whole number from 0 to 4096, got "abc"']),
    (["run", "a", "--threads", "5000"], ["expected a whole number from 0 to 4096, got 5000"]),
    (["compile", "m", "--weight-memory", "1GX"], ['expected a size in bytes', '"1GX"']),
    (["compile", "m", "--cache-size", "99999999EiB"], ["too large"]),
    (["compile", "m", "--compress", "20"], ["--compress=20"]),
    (["compile", "m", "--compress=20"], ["expected 1 to 19"]),
    (["compile", "m", "--isa", "avx512"], ['unknown instruction set "avx512"', "avx512_core"]),
    (["compile", "m", "--isa", "avx512_cor"], ['did you mean "avx512_core"?']),
    (["compile", "m", "--provider", "dnl"], ['unknown provider "dnl"', 'did you mean "dnnl"?']),
    (["compile", "m", "--config", "ep.context_embed_mod=1"], ['did you mean "ep.context_embed_mode"?']),
])
def test_what_was_mistyped_is_named_and_what_was_meant(words, parts):
    says(words, *parts)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e", "", "0x1p3 "])
@pytest.mark.parametrize("option", ["--rtol", "--atol"])
def test_tolerances_are_finite_numbers(option, value):
    says(["run", "m", "--test-data", "d", option, value], option)
    says(["verify", "m", "--against", "d", option, value], option)


@pytest.mark.parametrize("size, moved", [("4096", 1), ("4k", 1), ("4KiB", 1), ("0.5k", None), ("4097", 0), ("1MB", 0), ("1GiB", 0)])
def test_sizes_take_units(tmp_path, size, moved):
    """The 4 KiB of w stay outside of the compiled nodes: the threshold decides where they go."""
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1024])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1024])],
                              [numpy_helper.from_array(np.ones(1024, np.float32), "w")])
    model = save(make_model(graph), tmp_path / "m.onnx")
    command = ["compile", model, "--provider", "cpu", "--external-initializers", "w.data", "--external-threshold", size,
               "--weight-memory", size, "--cache-size", size, "--cache-dir", tmp_path / "cache"]
    if moved is None:
        says(command, "expected a size in bytes")
    else:
        report = json_of(*command)
        assert report.get("external_initializers", {}).get("tensors", 0) == moved


def test_help_of_a_command_in_every_spelling():
    text = done("compile", "--help").stdout
    assert done("help", "compile").stdout == text
    assert done("compile", "-h").stdout == text
    assert done("help").stdout == done("--help").stdout
    assert done("help", "cache", "trim").stdout == done("cache", "trim", "--help").stdout
    assert done("help", "cache").stdout == done("cache", "--help").stdout


def test_help_shows_options_as_they_are_typed():
    text = done("compile", "--help").stdout
    assert "--compress[=LEVEL]" in text and "{9}" not in text
    assert re.search(r"^ +--cache-size BYTES\s", text, re.MULTILINE)
    assert "-MF FILE" in text and "--MF" not in text
    assert "[0]" not in text and "kb(" not in text
    assert "(default: 50)" in done("bench", "--help").stdout


# ---- models and sizes ----------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_model_is_told_what_it_is(context, tmp_path):
    says(["compile", tmp_path / "net_dnnl.bin"], "this is a context binary, not a model", status=2, code="INVALID_GRAPH")
    for content, part in ((b"hello, world\n" * 9, "text file"), (b"PK\3\4" + bytes(40), "ZIP"),
                          (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull")):
        (tmp_path / "other.onnx").write_bytes(content)
        says(["run", tmp_path / "other.onnx"], part, status=2, code="INVALID_GRAPH")


def two_dims():
    """y [batch, seq, 4] = x [batch, seq, 4] @ w."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
    return make_model(graph)


@pytest.mark.parametrize("verb", ["compile", "run", "bench"])
def test_dims_inputs_and_shapes_that_the_model_lacks(tmp_path, verb):
    model = save(two_dims(), tmp_path / "m.onnx")
    says([verb, model, "--dim", "btach=1"], '"btach"', "batch, seq", 'did you mean "batch"?')
    says([verb, model, "--dim", "zzz=1"], "batch, seq")
    says([verb, model, "--shape", "X1=1x2x4"], "it has: x")
    says([verb, model, "--shape", "x=1,2,4"] if verb == "compile" else [verb, model, "--shape", "x=124"],
         "expected 3 sizes, got 1", "a comma separates")
    says([verb, model, "--shape", "x=1x2x5"], "expected 4 as size 3, got 5")


def test_a_context_model_says_the_same_of_sizes(tmp_path):
    model = save(two_dims(), tmp_path / "m.onnx")
    done("compile", model)
    says(["run", tmp_path / "m_ctx.onnx", "--dim", "btach=1"], 'did you mean "batch"?')
    says(["run", tmp_path / "m_ctx.onnx", "--shape", "x=7"], "expected 3 sizes, got 1")
    says(["run", tmp_path / "m_ctx.onnx", "--input", "y1=a.npy"], "(x)")


def wide_window():
    """Needs at least 5 x 5 pixels."""
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[5, 5])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3, "P", "Q"])])
    return make_model(graph)


@pytest.mark.parametrize("verb", ["run", "bench"])
@pytest.mark.parametrize("provider", ["cpu", "dnnl"])
def test_sizes_that_nobody_gave_are_named_where_a_run_fails(tmp_path, verb, provider):
    model = save(wide_window(), tmp_path / "m.onnx")
    finished = ctxgen(verb, model, "--provider", provider)
    assert finished.returncode != 0
    for part in ("taken as 1", "N, H, W", "--shape x=1x3x1x1", "--dim H=SIZE"):
        assert part in finished.stderr, finished.stderr
    given = ctxgen(verb, model, "--provider", provider, "--shape", "x=1x3x4x4")
    assert given.returncode != 0 and "taken as 1" not in given.stderr


def test_run_and_bench_say_which_sizes_they_took(tmp_path):
    model = save(two_dims(), tmp_path / "m.onnx")
    inputs = [{"name": "x", "type": "float32", "dims": [1, 3, 4], "random": True}]
    assert json_of("run", model, "--dim", "seq=3")["inputs"] == inputs
    assert json_of("bench", model, "--dim", "seq=3", "--iterations", "2")["inputs"] == inputs
    for verb in ("run", "bench"):
        text = done(verb, model, "--dim", "seq=3").stdout
        assert "input x: float32 1x3x4 (taken as 1: batch; --dim and --shape set sizes)" in text
    text = done("bench", model, "--compare", model, "--iterations", "2").stdout
    assert "input x: float32 1x1x4 (taken as 1: batch, seq" in text
    fixed = save(conv_model(batch=1), tmp_path / "fixed.onnx")
    assert "input x" not in done("run", fixed).stdout
    assert "input x: float32 1x" in done("bench", fixed, "--iterations", "2").stdout


def test_what_is_not_planned_is_a_warning(tmp_path):
    model = save(two_dims(), tmp_path / "m.onnx")
    finished = done("compile", model)
    for part in ("not planned ahead", "batch, seq", "--dim batch=1,8 --dim seq=1,8", "--shape x=1x1x4"):
        assert part in finished.stderr, finished.stderr
    finished = done("compile", model, "--dim", "batch=1")  # seq is still open: nothing is planned
    assert "not planned ahead" in finished.stderr and "given for seq " in finished.stderr
    for enough in (["--dim", "batch=1", "--dim", "seq=8"], ["--shape", "x=1x8x4"]):
        report = json_of("compile", model, *enough)
        assert report["models"][0]["partitions"][0]["plans"] == 1 and report["models"][0]["warnings"] == []
        assert done("compile", model, *enough).stderr == ""
    report = json_of("compile", model)["models"][0]
    assert report["partitions"][0]["plans"] == 0 and "batch, seq" in report["warnings"][0]
    assert done("compile", model, "-q").stderr == ""
    assert done("compile", save(conv_model(batch=2), tmp_path / "fixed.onnx")).stderr == ""
    assert "planned" not in done("run", model).stderr  # the next run plans what it needs


def quantised(group=1, dims=(64, 32, 3, 3), source=(32, 8, 8)):
    """Conv, or a MatMul, of dequantised values by 8-bit weights, in QDQ form."""
    def scalar(name, value, kind):
        return numpy_helper.from_array(np.array(value, kind), name)

    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        helper.make_node("Conv", ["d", "wd"], ["y"], group=group) if dims[0] == 64 else helper.make_node("MatMul", ["d", "wd"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *source])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [scalar("s", 0.1, np.float32), scalar("z", 10, np.uint8), scalar("ws", 0.02, np.float32), scalar("wz", 0, np.int8),
         numpy_helper.from_array(random.integers(-128, 127, (dims[0], dims[1] // group, *dims[2:]), np.int8), "w")])
    return make_model(graph)


def test_what_a_missing_instruction_costs_is_a_line(tmp_path):
    model = save(quantised(group=2), tmp_path / "q.onnx")
    report = json_of("compile", model, "--isa", "avx2")["models"][0]
    assert len(report["costs"]) == 1 and "VNNI" in report["costs"][0] and "avx2" in report["costs"][0]
    assert report["costs"][0] in done("compile", model, "--isa", "avx2").stdout
    assert "portable" in json_of("compile", model, "--portable")["models"][0]["costs"][0]
    assert report["costs"] == json_of("explain", model, "--isa", "avx2")["costs"]
    plain = save(conv_model(), tmp_path / "plain.onnx")
    assert json_of("compile", plain, "--isa", "avx2")["models"][0]["costs"] == []
    whole = save(quantised(), tmp_path / "whole.onnx")  # our own kernels compute its sums, on every machine
    for target in (["--isa", "avx2"], ["--portable"]):
        assert json_of("compile", whole, *target)["models"][0]["costs"] == []
    here = json_of("providers")["providers"][0]["isa"]
    if "vnni" in here or "bf16" in here or "fp16" in here or "amx" in here:
        assert json_of("compile", model)["models"][0]["costs"] == []


@pytest.mark.parametrize(("kind", "options"), [
    ("convolutions in groups of several channels", {"group": 2}),
    ("convolutions over three dims", {"dims": (64, 32, 3, 3, 3), "source": (32, 4, 4, 4)}),
    ("products by several matrices", {"dims": (4, 64, 32), "source": (4, 8, 64)}),
])
def test_a_cost_names_what_has_it(tmp_path, kind, options):
    [cost] = json_of("explain", save(quantised(**options), tmp_path / "q.onnx"), "--isa", "avx2")["costs"]
    assert f" ({kind}) are stored as float32" in cost


# ---- the state of outputs ------------------------------------------------------------------------------------------------


def test_append_says_what_differs_and_what_to_add(tmp_path):
    a, b = save(conv_model(), tmp_path / "a.onnx"), save(conv_model(seed=1), tmp_path / "b.onnx")
    done("compile", a, "--isa", "avx2", "--threads", "1")
    message = says(["compile", b, "--append", tmp_path / "a_dnnl.bin", "--threads", "1", "--portable"],
                   "isa avx2", "isa portable", "--isa avx2", status=2, code="INVALID_GRAPH")
    assert "fingerprint" not in message


def test_if_needed_says_in_what_a_compile_differs(tmp_path):
    model = save(conv_model(), tmp_path / "net.onnx")

    def why(*options):
        text = done("compile", model, "--if-needed", "-v", *options).stderr
        return re.findall(r"compiling: (.*)", text)

    assert "does not exist" in why()[0]
    assert why() == []
    assert "other options" in why("--node-prefix", "p")[0]
    assert "another target" in why("--node-prefix", "p", "--portable")[0]
    save(conv_model(seed=5), model)
    assert "another model" in why("--node-prefix", "p", "--portable")[0]
    both = why()[0]
    assert "other options" in both and "another target" in both and "another model" not in both


def test_a_tensor_is_named_once(tmp_path):
    weight = numpy_helper.from_array(np.ones(64, np.float32), "W")
    for key, value, part in (("offset", "1" + "0" * 20, "too large"), ("offset", "12x", "expected a decimal number"),
                             ("location", "none.bin", "none.bin")):
        broken = onnx.TensorProto()
        broken.CopyFrom(weight)
        broken.ClearField("raw_data")
        broken.data_location = TensorProto.EXTERNAL
        entries = {"location": "w.bin", "offset": "0", "length": "256"} | {key: value}
        for name, text in entries.items():
            broken.external_data.add(key=name, value=text)
        graph = helper.make_graph([helper.make_node("Add", ["x", "W"], ["y"])], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])], [broken])
        (tmp_path / "w.bin").write_bytes(bytes(256))
        path = tmp_path / "m.onnx"
        path.write_bytes(make_model(graph).SerializeToString())
        finished = ctxgen("run", path)
        assert finished.returncode in (2, 3) and part in finished.stderr, finished.stderr
        assert finished.stderr.count('tensor "W"') <= 1, finished.stderr


# ---- empty values, options without effect, -q -----------------------------------------------------------------------------


def options_with_values(folder):
    """(command, option) for every option that takes a value, from the manual pages."""
    done("documents", folder)
    found = []
    for page in sorted(folder.glob("ctxgen-*.1")):
        verb, command = page.stem.removeprefix("ctxgen-"), []
        for line in page.read_text().replace("\\-", "-").splitlines():
            if verb == "cache" and (named := re.fullmatch(r"\\fB(\w+)\\fR", line)):
                command = [named[1]]
            names = re.match(r"((?:\\fB-[\w-]+\\fR(?:, )?)+) \\fI", line)
            if names:
                found += [([verb, *command], name) for name in re.findall(r"\\fB(-[\w-]+)\\fR", names[1])]
    return found


NEED_OUTPUT = ("bundle", "embed", "extract", "merge", "split")  # verbs that are refused without --output
NEED_KEY = ("sign", "verify-signature")


def test_no_option_takes_an_empty_value(tmp_path):
    found = options_with_values(tmp_path)
    assert len(found) > 60 and (["cache", "trim"], "--cache-size") in found and (["compile"], "-o") in found
    for command, option in found:
        if command == ["compile"] and option == "--cache-dir":
            continue  # "" is no cache, as the manual says
        arguments = [] if command[0] in ("cache", "providers") and command != ["cache", "lookup"] else ["model.onnx"]
        if command[0] in NEED_OUTPUT and option not in ("-o", "--output"):
            arguments += ["--output", tmp_path / "out.onnx"]
        if command[0] in NEED_KEY and option != "--key":
            arguments += ["--key", tmp_path / "key.pem"]
        spellings = [[option, ""]] + ([[option + "="]] if option.startswith("--") else [])
        for words in spellings:
            message = refused(1, "INVALID_ARGUMENT", *command, *arguments, *words)
            assert "expected" in message, message
    assert ctxgen("run", "", "--seed", "1").returncode == 1


def test_an_empty_cache_folder_is_none(model, tmp_path):
    for words in (["--cache-dir", ""], ["--cache-dir="]):
        done("compile", model, *words)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_empty_values_in_a_file_of_options(model, tmp_path):
    (tmp_path / "options").write_text("--bin ''\n")
    says(["compile", model, "--options", tmp_path / "options"], "options:1", "--bin")
    (tmp_path / "options").write_text("--embedd\n")
    says(["compile", model, "--options", tmp_path / "options"], "options:1", 'did you mean "--embed"?')


def test_options_without_effect_are_refused(tmp_path, context):
    model = save(two_dims(), tmp_path / "m.onnx")
    done("compile", model)
    compiled = tmp_path / "m_ctx.onnx"
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 4), np.float32))
    given = ["--input", f"x={tmp_path}/x.npy"]
    for one in (model, compiled):
        says(["run", one, *given, "--dim", "seq=7"], "--dim seq=7", "has 3 there")
        says(["run", one, *given, "--shape", "x=2x7x4"], "--shape x=2x7x4", "has 2x3x4")
    says(["run", compiled, *given, "--dim", "seq=3"], "has no effect")
    says(["verify", compiled, "--against", model, *given, "--dim", "seq=3"], "has no effect")
    done("run", model, *given, "--dim", "seq=3")  # plans for it
    np.zeros((2, 3, 4), np.float32).tofile(tmp_path / "x.raw")
    done("run", compiled, "--input", f"x={tmp_path}/x.raw", "--dim", "batch=2", "--dim", "seq=3")

    for verb in ("compile", "run", "explain"):
        says([verb, model, "--external-data-dir", tmp_path / "nope"], "nope", status=3, code="IO_ERROR")
        says([verb, model, "--external-data-dir", tmp_path], "no effect")
        says([verb, model, "--provider", "cpu,dnnl"], '"dnnl" comes after "cpu"')
    says(["verify", compiled, "--against", model, "--external-data-dir", tmp_path], "no effect")
    done("compile", model, "--provider", "dnnl,cpu")


@pytest.mark.parametrize("verb", ["verify", "check", "run"])
def test_quiet_prints_errors_only(context, verb):
    options = ["--threads", "1"] if verb == "check" else []
    finished = ctxgen(verb, context, "-q", *options)
    assert finished.stdout == "" and finished.stderr == ""
    assert json.loads(ctxgen(verb, context, "-q", "--json").stdout)


def test_quiet_failures_say_why(context, tmp_path):
    data = (tmp_path / "net_dnnl.bin").read_bytes()
    (tmp_path / "net_dnnl.bin").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    finished = ctxgen("verify", context, "-q")
    assert finished.returncode == 2 and finished.stdout == "" and "ctxgen: error: INVALID_GRAPH" in finished.stderr


# ---- errors as JSON --------------------------------------------------------------------------------------------------------


def error_of(finished):
    value = json.loads(finished.stdout)
    assert list(value) == ["error"] and list(value["error"]) == ["code", "status", "message"], value
    assert value["error"]["status"] == finished.returncode
    lines = [line for line in finished.stderr.splitlines() if line.startswith("ctxgen: error: ")]
    assert lines == [f"ctxgen: error: {value['error']['code']}: {value['error']['message']}"]
    return value["error"]


@pytest.mark.parametrize("words, code", [
    (["run", "none.onnx", "--json"], "IO_ERROR"),
    (["compile", "--json", "none.onnx"], "IO_ERROR"),
    (["compile", "none.onnx", "--json", "--embedd"], "INVALID_ARGUMENT"),
    (["complie", "none.onnx", "--json"], "INVALID_ARGUMENT"),
    (["run", "none.onnx", "--threads", "abc", "--json"], "INVALID_ARGUMENT"),
    (["compile", "none.onnx", "--tune=0", "--json"], "INVALID_ARGUMENT"),
    (["cache", "stats", "--json"], "INVALID_ARGUMENT"),
    (["inspect", "--json", "/"], "IO_ERROR"),
    (["explain", "--json", "none.onnx"], "IO_ERROR"),
    (["bench", "--json", "none.onnx"], "IO_ERROR"),
    (["check", "--json", "none.onnx"], "IO_ERROR"),
    (["verify", "--json", "none.onnx"], "IO_ERROR"),
])
def test_errors_are_json_too(words, code, tmp_path):
    finished = ctxgen(*words, cwd=tmp_path)
    assert finished.returncode != 0
    error = error_of(finished)
    assert code is None or error["code"] == code


def test_errors_are_json_only_where_that_is_asked_for(tmp_path):
    for words in (["run", "none.onnx"], ["run", "none.onnx", "--input", "--json"], ["run", "--", "none.onnx", "--json"]):
        finished = ctxgen(*words, cwd=tmp_path)
        assert finished.returncode != 0 and finished.stdout == "", words
    (tmp_path / "options").write_text("--json\n")
    error_of(ctxgen("run", "none.onnx", "--options", "options", cwd=tmp_path))


def test_a_result_that_is_not_satisfied_stays_the_only_object(context, tmp_path):
    other = save(conv_model(seed=9), tmp_path / "other.onnx")
    finished = ctxgen("verify", context, "--against", other, "--json")
    assert finished.returncode == 4
    assert json.loads(finished.stdout)["match"] is False
    error_of(ctxgen("compile", tmp_path / "net.onnx", "--json", "--provider", "cpu", "--require-compiled"))
