"""The machines that a context is compiled for: --portable and --isa. Machines are made of this one by oneDNN's own limit on
instruction sets, which holds for a process."""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from cli_support import attributes, conv_model, dnnl_provider, done, ep_nodes, has_isa, into, isa_here, json_of, make_model, save
from context_support import made_for, metadata_made_for
from onnx import TensorProto, helper, numpy_helper

SMALLER = [isa for isa in ("sse41", "avx2", "avx512_core") if has_isa(isa)]


def on_isa(isa, *arguments, check=True):
    """ctxgen on a machine with this instruction set, one that this machine has (None: all of it)."""
    limit = {"ONEDNN_MAX_CPU_ISA": isa} if isa else {}
    finished = subprocess.run([os.environ["CTXGEN_BIN"], *map(str, arguments)], env=os.environ | limit, capture_output=True, text=True, check=False)
    assert not check or finished.returncode == 0, f"{isa}: status {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    return finished


def needs(isa):
    if not has_isa(isa):
        pytest.skip(f"this machine has no {isa}")


def outputs(isa, model, folder, *arguments):
    on_isa(isa, "run", model, "--output-dir", folder, *arguments)
    return {path.name: np.load(path) for path in sorted(folder.glob("*.npy"))}


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def qdq_model(results=8, side=8):
    """x -> QuantizeLinear -> DequantizeLinear -> Conv of dequantised weights -> y; sums pass 16 bits."""
    random = np.random.default_rng(3)
    constants = [
        numpy_helper.from_array(np.float32(1 / 255), "xs"),
        numpy_helper.from_array(np.uint8(0), "xz"),
        numpy_helper.from_array(random.integers(-127, 128, (results, 64, 3, 3)).astype(np.int8), "wq"),
        numpy_helper.from_array(np.float32(0.02), "ws"),
        numpy_helper.from_array(np.int8(0), "wz"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"], name="dequantize"),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], name="weights"),
        helper.make_node("Conv", ["d", "w"], ["y"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "qdq", [info("x", TensorProto.FLOAT, [1, 64, side, side])], [info("y", TensorProto.FLOAT, [1, results, side, side])], constants)
    return make_model(graph)


def test_portable_says_so_everywhere(tmp_path):
    done("compile", save(conv_model(batch=2), tmp_path / "net.onnx"), "--portable")
    model = onnx.load(tmp_path / "net_ctx.onnx")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["ep_compatibility_info.CtxgenDnnlExecutionProvider"] == "format=1;onednn=3;isa=portable"
    node = attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])
    assert node["hardware_architecture"] == b"portable" and node["max_size"] == 0
    context = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]
    assert context["fingerprint"] == "format=1;onednn=3;isa=portable"
    assert context["programs"][0]["plans"] == [{"input_dims": [[2, 3, 8, 8]], "arena_bytes": 0, "scratch_bytes": 0}]
    inspected = done("inspect", "-v", tmp_path / "net_dnnl.bin").stdout
    assert "(plain)" in inspected and "(packed)" not in inspected


def test_portable_runs_with_every_instruction_set(tmp_path):
    source = save(conv_model(batch="n"), tmp_path / "net.onnx")
    done("compile", source, "--portable", "--dim", "n=1,3")
    expected = outputs(None, source, tmp_path / "expected", "--provider", "cpu", "--dim", "n=3")
    for isa in [*SMALLER, None]:
        for batch in (3, 2):  # planned ahead, and not
            found = outputs(isa, tmp_path / "net_ctx.onnx", tmp_path / f"{isa}{batch}", "--dim", f"n={batch}")
            if batch == 3:
                assert_close(found, expected)
            assert all(np.isfinite(value).all() for value in found.values())
        check = on_isa(isa, "check", tmp_path / "net_ctx.onnx", check=False)
        assert check.returncode == 4 and check.stdout.startswith("prefer recompilation: it is portable"), check.stdout
        plans = json.loads(on_isa(isa, "bench", tmp_path / "net_ctx.onnx", "--iterations", 1, "--json").stdout)["plans"]
        assert plans["stored"] == 2


def test_portable_has_the_same_bytes_from_every_machine(tmp_path):
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    for number, isa in enumerate([*SMALLER, None]):
        on_isa(isa, "compile", source, "-o", into(tmp_path / f"o{number}"), "--portable", "--threads", number % 2 + 1)
    made = [{path.name: path.read_bytes() for path in (tmp_path / f"o{number}").iterdir()} for number in range(len(SMALLER) + 1)]
    assert len(made[0]) == 2 and all(one == made[0] for one in made)


def test_portable_multiplies_bytes_by_kernels_of_its_own(tmp_path):
    source = save(qdq_model(), tmp_path / "net.onnx")
    done("compile", source, "--portable")
    kinds = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]["programs"][0]["ops"]
    assert "byte_conv" in kinds and "qconv" not in kinds
    expected = outputs(None, source, tmp_path / "expected", "--provider", "cpu")
    for isa in SMALLER:
        assert_close(outputs(isa, tmp_path / "net_ctx.onnx", tmp_path / isa), expected)


def test_what_is_not_portable_is_refused_on_a_smaller_machine(tmp_path):
    done("compile", save(conv_model(batch=1), tmp_path / "net.onnx"))
    if isa_here() == "sse41":
        pytest.skip("this machine has nothing above sse41")
    finished = on_isa("sse41", "run", tmp_path / "net_ctx.onnx", check=False)
    assert finished.returncode == 2 and re.search("INVALID_GRAPH: .*instruction set is .*, this machine has", finished.stderr), finished.stderr
    assert on_isa("sse41", "check", tmp_path / "net_ctx.onnx", check=False).returncode == 2


def test_another_major_version_is_refused(tmp_path):
    """The file says onednn=3; a library that says otherwise is made by changing the file."""
    done("compile", save(conv_model(batch=1), tmp_path / "net.onnx"), "--portable", "--embed")
    data = (tmp_path / "net_ctx.onnx").read_bytes()
    assert data.count(b"onednn=3;isa=portable") == 2  # the metadata and the header of the payload
    at = data.rindex(b"onednn=3;isa=portable")
    (tmp_path / "net_ctx.onnx").write_bytes(data[:at] + b"onednn=4;isa=portable" + data[at + 21 :])
    check = on_isa(None, "check", tmp_path / "net_ctx.onnx", check=False)
    assert check.returncode == 2


def grouped_model():
    """Groups with more results than channels: the one form of a weight that oneDNN chooses where it has no panels."""
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(rng.standard_normal(dims, dtype=np.float32), name) for name, dims in (("grouped", (16, 2, 3, 3)), ("dense", (32, 16, 3, 3)))]
    nodes = [helper.make_node("Conv", ["x", "grouped"], ["h"], group=4), helper.make_node("Conv", ["h", "dense"], ["y"])]
    value = helper.make_tensor_value_info
    x, y = value("x", TensorProto.FLOAT, [1, 8, 20, 20]), value("y", TensorProto.FLOAT, [1, 32, 16, 16])
    return make_model(helper.make_graph(nodes, "grouped", [x], [y], weights))


def test_another_minor_version_is_judged_by_what_it_takes(tmp_path):
    done("compile", save(conv_model(batch=1), tmp_path / "net.onnx"))
    expected = outputs(None, tmp_path / "net_ctx.onnx", tmp_path / "expected")
    made_for(tmp_path / "net_dnnl.bin", "onednn", "3.0.0")
    metadata_made_for(tmp_path / "net_ctx.onnx", "onednn", "3.0.0")
    told = json.loads(on_isa(None, "check", tmp_path / "net_ctx.onnx", "--json").stdout)
    assert told["verdict"] == "optimal", told
    assert_close(outputs(None, tmp_path / "net_ctx.onnx", tmp_path / "found"), expected)
    made_for(tmp_path / "net_dnnl.bin", "onednn", "2.7.0")
    refused = on_isa(None, "run", tmp_path / "net_ctx.onnx", check=False)
    assert refused.returncode == 2 and "onednn is" in refused.stderr, refused.stderr


def test_weights_that_loads_pack_are_named(tmp_path):
    """The line of the summary, and the verdict on a file of another version, name what a load packs; bench counts the same."""
    done("compile", save(grouped_model(), tmp_path / "net.onnx"), "--report", tmp_path / "report.json")
    notes = json.loads((tmp_path / "report.json").read_text())["models"][0]["partitions"][0]["notes"]
    packed = {threads: json_of("bench", tmp_path / "net_ctx.onnx", "--iterations", 1, "--threads", threads)["plans"]["repacked_weights"] for threads in (1, 2, 8)}
    if any(packed.values()):
        assert any("grouped" in note for note in notes), (packed, notes)
    made_for(tmp_path / "net_dnnl.bin", "onednn", "3.0.0")
    for threads, count in packed.items():
        told = json.loads(on_isa(None, "check", tmp_path / "net_ctx.onnx", "--json", "--threads", threads, check=False).stdout)
        assert told["verdict"] == ("prefer recompilation" if count else "optimal"), (threads, count, told)
        assert ("grouped" in told["reason"]) == bool(count), told


@pytest.mark.skipif("CTXGEN_MODELS" not in os.environ, reason="CTXGEN_MODELS is not set")
@pytest.mark.parametrize("name", ["rfb320_face", "micro_kws_qdq", "micro_kws_qoperator", "light_shufflenet", "fused_gemm_contrib", "squeezenet_fp16"])
def test_portable_trained_models_match_everywhere(tmp_path, name):
    folder = pathlib.Path(os.environ["CTXGEN_MODELS"]) / name
    tolerance = json.loads((folder / "meta.json").read_text())["tolerance"]
    done("compile", folder / "model.onnx", "-o", into(tmp_path), "--portable")
    for isa in [*SMALLER, None]:
        on_isa(isa, "run", tmp_path / "model_ctx.onnx", "--test-data", folder, "--rtol", tolerance["rtol"], "--atol", tolerance["atol"])


def test_one_instruction_set_is_that_machines_compile(tmp_path):
    """The bytes are those that the smaller machine itself would make, and it uses them in place."""
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    for isa in [isa for isa in SMALLER if isa != "avx512_core"]:
        on_isa(None, "compile", source, "-o", into(tmp_path / f"here{isa}"), "--isa", isa)
        on_isa(isa, "compile", source, "-o", into(tmp_path / f"there{isa}"))
        for name in ("net_ctx.onnx", "net_dnnl.bin"):
            assert (tmp_path / f"here{isa}" / name).read_bytes() == (tmp_path / f"there{isa}" / name).read_bytes()
        model = tmp_path / f"here{isa}" / "net_ctx.onnx"
        assert attributes(ep_nodes(model)[0])["hardware_architecture"] == isa.encode()
        bench = json.loads(on_isa(isa, "bench", model, "--iterations", 1, "--json").stdout)
        assert bench["plans"]["repacked_weights"] == 0 and bench["plans"]["stored"] == 1
        assert on_isa(isa, "check", model, check=False).returncode == 0


def test_a_smaller_instruction_set_runs_here_with_the_same_result(tmp_path):
    needs("avx2")
    if isa_here() == "avx2":
        pytest.skip("this machine has nothing above avx2")
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    done("compile", source, "--isa", "avx2")
    check = on_isa(None, "check", tmp_path / "net_ctx.onnx", check=False)
    assert check.returncode == 4 and check.stdout.startswith('prefer recompilation: isa is "avx2", here'), check.stdout
    expected = outputs(None, source, tmp_path / "expected", "--provider", "cpu")
    assert_close(outputs(None, tmp_path / "net_ctx.onnx", tmp_path / "here"), expected)
    assert_close(outputs("avx2", tmp_path / "net_ctx.onnx", tmp_path / "there"), expected)


def test_providers_lists_what_isa_takes(tmp_path):
    """The machine's own is among those that it has; each of them compiles."""
    sets = dnnl_provider()["instruction_sets"]
    assert has_isa(isa_here()) and [one["name"] for one in sets][:3] == ["sse41", "avx", "avx2"]
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    for one in sets:
        status = 0 if one["usable"] else 1
        assert on_isa(None, "compile", source, "-o", into(tmp_path / one["name"]), "--isa", one["name"], check=False).returncode == status, one


def failed(isa, *arguments):
    finished = on_isa(isa, *arguments, check=False)
    lines = [line for line in finished.stderr.splitlines() if line.startswith("ctxgen: error: ")]
    assert finished.returncode == 1 and len(lines) == 1, finished.stderr
    return lines[0]


def test_what_this_machine_lacks_is_refused_by_name(tmp_path):
    source = save(conv_model(), tmp_path / "net.onnx")
    message = failed("sse41", "compile", source, "--isa", "avx512_core")
    assert '"avx512_core"' in message and '"sse41"' in message
    message = failed("sse41", "compile", source, "--isa", "sse41,avx512_core_amx_fp16")
    assert '"avx512_core_amx_fp16"' in message and '"sse41"' in message
    for isa in [one["name"] for one in dnnl_provider()["instruction_sets"] if not one["usable"]]:
        message = failed(None, "compile", source, "--isa", isa)
        assert "beyond this machine" in message and f'"{isa_here()}"' in message
    message = failed(None, "compile", source, "--isa", "avx3")
    assert "avx512_core_bf16" in message  # lists the known ones
    for wrong in (["--isa", ""], ["--isa", "avx2,"], ["--isa", "avx2,avx2"], ["--isa", "avx2", "--portable"], ["--isa", "avx2", "--provider", "cpu"],
                  ["--isa", "avx2_vnni,avx512_core"]):
        failed(None, "compile", source, *wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


BOTH = "avx2,avx512_core"


@pytest.fixture
def wide_machine():
    needs("avx512_core")


def programs_of(path):
    return json_of("inspect", path)["context"]["programs"]


def test_several_instruction_sets_in_one_file(tmp_path, wide_machine):
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    done("compile", source, "--isa", BOTH)
    context = json_of("inspect", tmp_path / "net_dnnl.bin")["context"]
    assert context["format"] == "1.1" and f"isa={BOTH}" in context["fingerprint"]
    small, large = context["programs"]
    assert (small["isa"], small["variant_of"]) == ("avx2", "")
    assert (large["isa"], large["variant_of"], large["name"]) == ("avx512_core", small["name"], small["name"] + "@avx512_core")
    node = attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])
    assert node["partition_name"].decode() == small["name"] and node["hardware_architecture"] == BOTH.encode()
    assert "avx512_core: another form of" in done("inspect", tmp_path / "net_dnnl.bin").stdout
    expected = outputs(None, source, tmp_path / "expected", "--provider", "cpu")
    for isa, status in (("avx2", 0), ("avx512_core", 0), ("sse41", 2)):
        assert on_isa(isa, "check", tmp_path / "net_ctx.onnx", check=False).returncode == status
        if status == 0:
            assert_close(outputs(isa, tmp_path / "net_ctx.onnx", tmp_path / isa), expected)
            plans = json.loads(on_isa(isa, "bench", tmp_path / "net_ctx.onnx", "--iterations", 1, "--json").stdout)["plans"]
            assert plans["repacked_weights"] == 0
    finished = on_isa("sse41", "run", tmp_path / "net_ctx.onnx", check=False)
    assert finished.returncode == 2 and f'"{BOTH}"' in finished.stderr


def test_variants_are_what_each_would_be_alone_and_share_blobs(tmp_path, wide_machine):
    source = save(conv_model(batch=2), tmp_path / "net.onnx")
    done("compile", source, "-o", into(tmp_path / "both"), "--isa", BOTH)
    both = json_of("inspect", tmp_path / "both" / "net_dnnl.bin")["context"]
    alone = []
    for isa in BOTH.split(","):
        done("compile", source, "-o", into(tmp_path / isa), "--isa", isa)
        alone.append(json_of("inspect", tmp_path / isa / "net_dnnl.bin")["context"])
    assert [program["hash"] for program in both["programs"]] == [one["programs"][0]["hash"] for one in alone]
    hashes = [{blob["hash"] for blob in one["blobs"]} for one in alone]
    assert {blob["hash"] for blob in both["blobs"]} == hashes[0] | hashes[1]
    assert hashes[0] & hashes[1]  # biases at least
    assert both["weight_bytes"] < sum(one["weight_bytes"] for one in alone)


def test_several_have_the_same_bytes_each_time(tmp_path, wide_machine):
    for name in ("a", "b"):
        save(conv_model(batch=2, seed=ord(name)), tmp_path / f"{name}.onnx")
    models = f"{tmp_path / 'a.onnx'},{tmp_path / 'b.onnx'}"
    made = []
    for number, (jobs, names) in enumerate(((1, BOTH), (2, "avx512_core,avx2"))):
        done("compile", models, "-o", into(tmp_path / str(number)), "--isa", names, "-j", jobs)
        made.append({path.name: path.read_bytes() for path in (tmp_path / str(number)).iterdir()})
    assert len(made[0]) == 3 and made[0] == made[1]
    for name in ("a", "b"):
        outputs("avx2", tmp_path / "0" / f"{name}_ctx.onnx", tmp_path / f"{name}-out")


def test_several_from_stdin_to_stdout(tmp_path, wide_machine):
    data = conv_model(batch=2).SerializeToString()
    finished = done("compile", "-", "-o", "-", "--embed", "--isa", BOTH, data=data, text=False)
    (tmp_path / "net_ctx.onnx").write_bytes(finished.stdout)
    for isa in ("avx2", "avx512_core"):
        assert on_isa(isa, "check", tmp_path / "net_ctx.onnx", check=False).returncode == 0
        outputs(isa, tmp_path / "net_ctx.onnx", tmp_path / isa)


def test_what_only_the_larger_one_compiles_is_named(tmp_path):
    """Integer convolutions in groups need VNNI: with avx2 among the instruction sets they stay with cpu."""
    needs("avx512_core_vnni")
    random = np.random.default_rng(8)
    weight = numpy_helper.from_array(random.integers(-127, 128, (64, 32, 1, 1)).astype(np.int8), "w")
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("ConvInteger", ["a", "w"], ["i"], name="integers", group=2),
        helper.make_node("Cast", ["i"], ["f"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Conv", ["f", "v"], ["y"], name="reals"),
    ]
    real = numpy_helper.from_array(random.standard_normal((8, 64, 1, 1)).astype(np.float32), "v")
    graph = helper.make_graph(nodes, "mixed", [info("a", TensorProto.UINT8, [4, 64, 1, 1])], [info("y", TensorProto.FLOAT, [4, 8, 1, 1])], [weight, real])
    source = save(make_model(graph), tmp_path / "net.onnx")
    report = json_of("compile", source, "--isa", "avx2,avx512_core_vnni")
    assert any("only for avx512_core_vnni: excluded, because avx2" in warning for warning in report["models"][0]["warnings"]), report["models"][0]
    expected = outputs(None, source, tmp_path / "expected", "--provider", "cpu")
    for isa in ("avx2", "avx512_core_vnni"):
        assert_close(outputs(isa, tmp_path / "net_ctx.onnx", tmp_path / isa), expected)


def test_quantised_programs_differ_and_match(tmp_path):
    """A convolution of more than 2^24 multiplications is oneDNN's where it has VNNI."""
    needs("avx512_core_vnni")
    source = save(qdq_model(results=64, side=24), tmp_path / "net.onnx")
    done("compile", source, "--isa", "avx2,avx512_core_vnni")
    small, large = programs_of(tmp_path / "net_dnnl.bin")
    assert "qconv" in large["ops"] and "qconv" not in small["ops"]
    expected = outputs(None, source, tmp_path / "expected", "--provider", "cpu")
    for isa in ("avx2", "avx512_core_vnni"):
        assert_close(outputs(isa, tmp_path / "net_ctx.onnx", tmp_path / isa), expected)
