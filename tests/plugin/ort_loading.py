"""Checks for tests/plugin/ort_tests.py: context models that are loaded, their fingerprints, devices, policies, data by functions, packages."""

import json
import re
import shutil

import application as app
import numpy as np
import onnx
from cli_support import conv_model, done, json_of, save
from ort_making import ALL_OURS, COMPILED, EP, NotApplicable, agree, answer, compiled, config, folder_of, names_in, needs


def changed(application, change):
    """A context model whose first EPContext node is another."""
    folder = folder_of(application, "changed")
    for name in ("net_ctx.onnx", "net_dnnl.bin"):
        shutil.copy(application.folder / name, folder / name)
    model = onnx.load(folder / "net_ctx.onnx")
    change(model, next(node for node in model.graph.node if node.op_type == "EPContext"))
    onnx.save(model, folder / "net_ctx.onnx")
    return folder / "net_ctx.onnx"


def set_attribute(node, name, value):
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def refuses_bin(application, name):
    model = changed(application, lambda _model, node: set_attribute(node, "ep_cache_context", name))
    application.refused(10, "load", model)


def a_missing_bin(application):
    model = changed(application, lambda _model, _node: None)
    model.with_name("net_dnnl.bin").unlink()
    application.refused(10, "load", model)


def a_relative_path_that_leaves(application):
    refuses_bin(application, "../net_dnnl.bin")


def an_absolute_path(application):
    refuses_bin(application, str(application.folder / "net_dnnl.bin"))


def a_file_that_is_not_there(application):
    refuses_bin(application, "another.bin")


def no_name(application):
    refuses_bin(application, "")


def two_contexts(application, *options):
    """Two nodes with main_context=1 in one model."""
    folder = folder_of(application, "two")
    for name, seed in (("a", 1), ("b", 2)):
        tail = onnx.helper.make_node("Tanh", ["z"], ["y"], name="tail")
        done("compile", "-q", save(conv_model(batch=1, seed=seed, tail=tail), folder / f"{name}.onnx"), "-o", folder / f"{name}_ctx.onnx", *options)
    models = [onnx.load(folder / f"{name}_ctx.onnx") for name in "ab"]
    first, second = models
    for node in second.graph.node:
        node.name = f"second_{node.name}"
        for names in (node.input, node.output):
            names[:] = [name if name == "x" else f"second_{name}" for name in names]
    for output in second.graph.output:
        output.name = f"second_{output.name}"
    first.graph.node.extend(second.graph.node)
    first.graph.output.extend(second.graph.output)
    onnx.save(first, folder / "both_ctx.onnx")
    wanted = np.concatenate([answer(application, f"two/{name}.onnx", "--plain") for name in "ab"])
    np.testing.assert_allclose(answer(application, "two/both_ctx.onnx", *COMPILED), wanted, rtol=1e-4, atol=1e-5)


def two_embedded_contexts(application):
    two_contexts(application, "--embed")


def another_name_of_the_node(application):
    """partition_name says which program it is, and not the node's name."""

    def rename(_model, node):
        node.name = "something else"

    agree(application, "net.onnx", changed(application, rename), *COMPILED)


def dynamic_options(application):
    app.check_dynamic_options(application)


# Compatibility

KEY = f"ep_compatibility_info.{EP}"


def said(model):
    return {one.key: one.value for one in onnx.load(model).metadata_props}.get(KEY)


def judged(application, info):
    """The verdict on a fingerprint."""
    return application.ok("verdict", flags=["--info", info]).stdout.strip()


def fingerprint_is_written(application):
    made = compiled(application, "net.onnx")
    assert said(made) == said(application.folder / "net_ctx.onnx")
    assert judged(application, said(made)) == "optimal"


def with_fingerprint(application, text):
    def change(model, _node):
        for one in model.metadata_props:
            if one.key == KEY:
                one.value = text

    return changed(application, change)


def optimal(application):
    application.ok("load", flags=config(session__fail_on_suboptimal_compiled_model=1))


def suboptimal(application):
    """A portable context runs everywhere, and should be compiled again for where it runs."""
    model = folder_of(application, "made") / "portable_ctx.onnx"
    done("compile", "-q", "--portable", application.folder / "net.onnx", "-o", model)
    assert judged(application, said(model)) == "prefer recompilation"
    agree(application, "net.onnx", model, *COMPILED)
    application.refusal("load", model, flags=config(session__fail_on_suboptimal_compiled_model=1))


def unsupported(application):
    text = re.sub(r"onednn=[^;]*", "onednn=1.2.3", said(application.folder / "net_ctx.onnx"))
    assert judged(application, text) == "unsupported"
    finished = application.host("load", with_fingerprint(application, text))
    assert finished.returncode == 1, finished.stdout
    assert "1.2.3" in finished.stdout + finished.stderr


def refused_before_any_work(application):
    """The context is not opened: it is damaged, and the verdict is the error."""
    if application.minor_version < 24:
        raise NotApplicable("1.23 asks for the verdict after the context was opened")
    text = re.sub(r"onednn=[^;]*", "onednn=1.2.3", said(application.folder / "net_ctx.onnx"))
    model = with_fingerprint(application, text)
    model.with_name("net_dnnl.bin").write_bytes(b"nothing")
    finished = application.host("load", model)
    assert finished.returncode == 1 and "not supported" in finished.stdout, finished.stdout


def accepted_and_work_goes_on(application):
    agree(application, "net.onnx", "net_ctx.onnx", *COMPILED)


def not_applicable_verdict(application):
    assert judged(application, "") == "not applicable"


def no_fingerprint(application):
    """A model without it is judged by its context."""

    def change(model, _node):
        del model.metadata_props[:]

    agree(application, "net.onnx", changed(application, change), *COMPILED)


def a_fingerprint_that_is_none(application):
    assert judged(application, "not;a=fingerprint") == "unsupported"
    assert application.host("load", with_fingerprint(application, "not;a=fingerprint")).returncode == 1


def fingerprints_of_several(application):
    """That of another EP changes nothing."""

    def change(model, _node):
        other = model.metadata_props.add()
        other.key, other.value = "ep_compatibility_info.OtherExecutionProvider", "anything"

    agree(application, "net.onnx", changed(application, change), *COMPILED)


def fingerprint_of_a_file(application):
    needs(application, 24, "GetCompatibilityInfoFromModel")
    found = application.ok("fingerprint").stdout.splitlines()
    assert found == [said(application.folder / "net_ctx.onnx")] * 2, found


def fingerprint_of_a_missing_file(application):
    needs(application, 24, "GetCompatibilityInfoFromModel")
    assert application.host("fingerprint", "no_such.onnx").returncode == 1


def fingerprint_of_bytes(application):
    needs(application, 24, "GetCompatibilityInfoFromModelBytes")
    assert application.ok("fingerprint", flags=["--memory"]).stdout.strip() == said(application.folder / "net_ctx.onnx")


def fingerprint_of_other_bytes(application):
    needs(application, 24, "GetCompatibilityInfoFromModelBytes")
    (application.folder / "text.onnx").write_text("no model")
    assert application.host("fingerprint", "text.onnx", flags=["--memory"]).returncode == 1


def fingerprint_that_is_not_there(application):
    needs(application, 24, "GetCompatibilityInfoFromModelBytes")
    assert application.ok("fingerprint", "net.onnx").stdout.splitlines() == ["nothing", "nothing"]


# Plugin EPs


def registered_and_unregistered(application):
    application.ok("run", "net.onnx", flags=["--rounds", 3])


def named_device(application):
    agree(application, "net.onnx", "net.onnx", *ALL_OURS)


def executed_by(application, model, *flags):
    """Which EPs ran nodes."""
    made = application.ok("profile", model, flags=["--output", application.folder / "profile", *flags]).stdout.strip()
    events = json.loads((application.folder / made).read_text())
    return {one["args"].get("provider") for one in events if one["cat"] == "Node"} - {None}


def prefer_cpu(application):
    for policy in ("cpu", "performance"):
        assert EP in executed_by(application, "net.onnx", "--policy", policy)
        agree(application, "net.onnx", "net.onnx", "--policy", policy)


def a_function_selects(application):
    assert EP in executed_by(application, "net.onnx", "--policy", "takes")


def a_function_selects_nothing(application):
    assert "did not select" in application.refusal("load", "net.onnx", flags=["--policy", "nothing"])


def a_function_fails(application):
    assert "no choice was made" in application.refusal("load", "net.onnx", flags=["--policy", "fails"])


def partly_supported(application):
    assert executed_by(application, "mixed.onnx", "--optimization", "0") == {EP, "CPUExecutionProvider"}
    agree(application, "mixed.onnx", "mixed.onnx", "--optimization", "0")


def devices(application):
    needs(application, 24, "GetHardwareDeviceEpIncompatibilityDetails")
    app.check_incompatibility(application)


def profile(application):
    needs(application, 25, "profiling by plugin EPs")
    app.check_profile(application)


def assignment(application):
    """ONNX Runtime tells the nodes that became ours under the names that the report of a compile has."""
    needs(application, 24, "the key session.record_ep_graph_assignment_info")
    tail = onnx.helper.make_node("Asinh", ["z"], ["y"], name="tail")
    source = save(conv_model(batch=1, tail=tail), application.folder / "named.onnx")
    told = application.ok("assignment", source, flags=["--optimization", "0", *config(session__record_ep_graph_assignment_info=1)]).stdout
    found = {tuple(line.split(" ")) for line in told.splitlines()}
    nodes = json_of("explain", source)["assignment"]
    eps = {"dnnl": EP, "cpu": "CPUExecutionProvider"}
    assert found == {(eps[one["provider"]], one["op_type"], one["name"]) for one in nodes}, found
    assert {line[0] for line in found} == set(eps.values())


# Context data and packages (1.28)


def kept_by_functions(application, *flags):
    needs(application, 28, "functions for context data")
    folder = folder_of(application, "made")
    vault = folder_of(application, "vault")
    application.ok("compile", "net.onnx", flags=["--output", folder / "made.onnx", "--data", vault, *flags])
    assert names_in(folder) == ["made.onnx"]
    assert names_in(vault) == ["made_dnnl.bin.kept"]
    return folder / "made.onnx", vault


def data_by_functions(application):
    """Written and read by functions of the application; nothing is in a file under its own bytes."""
    made, vault = kept_by_functions(application)
    done("compile", "-q", application.folder / "net.onnx", "-o", made.parent / "plain_ctx.onnx")
    kept = bytes(byte ^ 0x5A for byte in (vault / "made_dnnl.bin.kept").read_bytes())
    assert kept.startswith((made.parent / "plain_dnnl.bin").read_bytes()[:8])
    for flags in ([], ["--memory"]):
        found = answer(application, made, "--data", vault, *flags, *COMPILED, verb="data")
        np.testing.assert_allclose(found, answer(application, "net.onnx", "--plain"), rtol=1e-4, atol=1e-5)


def data_that_is_not_there(application):
    made, vault = kept_by_functions(application)
    (vault / "made_dnnl.bin.kept").unlink()
    text = application.refused(10, "data", made, flags=["--data", vault, "--outputs", vault / "x", *COMPILED])
    assert "the vault has no such thing" in text


def data_cannot_be_written(application):
    needs(application, 28, "functions for context data")
    flags = ["--output", application.folder / "x.onnx", "--data", application.folder / "no" / "such"]
    assert "the vault is closed" in application.refusal("compile", "net.onnx", flags=flags)


def data_of_a_shared_context(application):
    needs(application, 28, "functions for context data")
    folder, vault = folder_of(application, "made"), folder_of(application, "vault")
    save(conv_model(batch=1, seed=3), application.folder / "second.onnx")
    flags = ["--second", application.folder / "second.onnx", "--output", folder / "a_ctx.onnx", "--second-output", folder / "b_ctx.onnx"]
    application.ok("compile-group", "net.onnx", flags=[*flags, "--data", vault])
    assert names_in(folder) == ["a_ctx.onnx", "b_ctx.onnx"] and names_in(vault) == ["a_dnnl.bin.kept"]
    for source, name in (("net.onnx", "a"), ("second.onnx", "b")):
        found = answer(application, folder / f"{name}_ctx.onnx", "--data", vault, *COMPILED, verb="data")
        np.testing.assert_allclose(found, answer(application, source, "--plain"), rtol=1e-4, atol=1e-5)


def data_names_that_leave(application):
    made, vault = kept_by_functions(application)
    model = onnx.load(made)
    set_attribute(model.graph.node[0], "ep_cache_context", "../made_dnnl.bin")
    onnx.save(model, made)
    application.refused(10, "data", made, flags=["--data", vault, "--outputs", vault / "x", *COMPILED])


def without_functions(application):
    made = compiled(application, "net.onnx")
    agree(application, "net.onnx", made, *COMPILED)


def a_package(application):
    needs(application, 28, "model packages")
    folder = application.folder / "package"
    shutil.rmtree(folder, ignore_errors=True)
    done("bundle", "--format", "onnxruntime", application.folder / "net_ctx.onnx", "-o", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (component,) = manifest["components"]
    found = answer(application, "package", "--info", component, verb="package")
    np.testing.assert_allclose(found, answer(application, "net.onnx", "--plain"), rtol=1e-4, atol=1e-5)


def a_package_that_fits_nothing(application):
    needs(application, 28, "model packages")
    a_package(application)
    manifest = application.folder / "package" / "manifest.json"
    manifest.write_text(re.sub(r"onednn=[^;\"]*", "onednn=1.2.3", manifest.read_text()))
    (component,) = json.loads(manifest.read_text())["components"]
    application.refusal("package", "package", flags=["--info", component, "--outputs", application.folder / "x"])
