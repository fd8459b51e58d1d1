"""ctxgen compile --config: ONNX Runtime's session keys, what they do and what they contradict."""

import numpy as np
import onnx
import pytest
from cli_support import attributes, conv_model, done, ep_nodes, json_of, refused, save, unknown_model
from onnx import helper, numpy_helper


@pytest.fixture
def model(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def compiled(model, *config, flags=()):
    return done("compile", model, *flags, *(f"--config={entry}" for entry in config))


def contradiction(model, *config, flags=(), names=()):
    before = sorted(model.parent.iterdir())
    message = refused(1, "INVALID_ARGUMENT", "compile", model, *flags, *(f"--config={entry}" for entry in config), names=names)
    assert sorted(model.parent.iterdir()) == before
    return message


def falls_back(path):
    """A model with a Trilu, which only cpu runs, behind the compiled part."""
    return save(conv_model(batch=10, tail=helper.make_node("Trilu", ["z"], ["y"], name="tail")), path)


def test_context_enable(model, tmp_path):
    compiled(model, "ep.context_enable=1")
    assert (tmp_path / "net_ctx.onnx").exists()
    contradiction(model, "ep.context_enable=0", names=["ep.context_enable"])


def test_context_file_path_names_the_output(model, tmp_path):
    (tmp_path / "a").mkdir()
    compiled(model, f"ep.context_file_path={tmp_path}/a/b_ctx.onnx")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["b_ctx.onnx", "b_dnnl.bin"]
    compiled(model, f"ep.context_file_path={tmp_path}/a/b_ctx.onnx", flags=["-o", tmp_path / "a" / "b_ctx.onnx"])


@pytest.mark.parametrize("path", ["a/", "a", "."])
def test_context_file_path_is_no_folder(model, tmp_path, path):
    (tmp_path / "a").mkdir()
    contradiction(model, f"ep.context_file_path={tmp_path}/{path}", names=["ep.context_file_path", "folder"])
    assert list((tmp_path / "a").iterdir()) == []


def test_context_file_path_and_o(model, tmp_path):
    contradiction(model, f"ep.context_file_path={tmp_path}/a.onnx", flags=["-o", tmp_path / "b.onnx"], names=["ep.context_file_path", "b.onnx"])
    contradiction(model, f"ep.context_file_path={tmp_path}/a.onnx", flags=["-o", "-", "--embed"], names=["ep.context_file_path"])
    other = save(conv_model(seed=1), tmp_path / "other.onnx")
    contradiction(model, f"ep.context_file_path={tmp_path}/a.onnx", flags=[other], names=["ep.context_file_path", "batch"])


def test_context_embed_mode(model, tmp_path):
    compiled(model, "ep.context_embed_mode=1")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net_ctx.onnx"]
    assert attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])["embed_mode"] == 1
    contradiction(model, "ep.context_embed_mode=0", flags=["--embed"], names=["ep.context_embed_mode=0", "--embed"])
    contradiction(model, "ep.context_embed_mode=1", flags=["--bin", tmp_path / "b.bin"], names=["ep.context_embed_mode", "--bin"])


def test_context_node_name_prefix(model, tmp_path):
    compiled(model, "ep.context_node_name_prefix=left_")
    assert attributes(ep_nodes(tmp_path / "net_ctx.onnx")[0])["partition_name"].startswith(b"left_")
    contradiction(model, "ep.context_node_name_prefix=a", flags=["--node-prefix", "b"], names=["ep.context_node_name_prefix=a", "--node-prefix b"])


def test_external_initializers_file_name(tmp_path):
    source = falls_back(tmp_path / "net.onnx")
    loaded = onnx.load(source)
    loaded.graph.node.append(helper.make_node("Det", ["square"], ["det"], name="det"))
    loaded.graph.initializer.append(numpy_helper.from_array(np.eye(2, dtype=np.float32), "square"))
    loaded.graph.node.append(helper.make_node("Mod", ["y", "divisor"], ["w"], name="mod", fmod=1))
    loaded.graph.initializer.append(numpy_helper.from_array(np.full(10, 3, np.float32), "divisor"))
    loaded.graph.output.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, None))
    save(loaded, source)
    report = json_of("compile", source, "--config", "ep.context_model_external_initializers_file_name=net.weights")
    assert report["external_initializers"]["name"] == "net.weights"  # small ones too: the key's threshold is 0
    contradiction(
        source, "ep.context_model_external_initializers_file_name=a", flags=["--external-initializers", "b"],
        names=["ep.context_model_external_initializers_file_name=a", "--external-initializers b"],
    )


def test_external_data_folder(tmp_path):
    (tmp_path / "data").mkdir()
    onnx.save(conv_model(), tmp_path / "data" / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    source = (tmp_path / "data" / "net.onnx").rename(tmp_path / "net.onnx")
    refused(3, "IO_ERROR", "compile", source)
    compiled(source, f"session.model_external_initializers_file_folder_path={tmp_path}/data")
    contradiction(
        source, "session.model_external_initializers_file_folder_path=a", flags=["--external-data-dir", "b"],
        names=["session.model_external_initializers_file_folder_path=a", "--external-data-dir b"],
    )


def test_share_ep_contexts(model, tmp_path):
    other = save(conv_model(), tmp_path / "other.onnx")
    compiled(model, "ep.share_ep_contexts=1", "ep.stop_share_ep_contexts=1", flags=[other])
    assert sorted(p.name for p in tmp_path.glob("*.bin")) == ["net_dnnl.bin"]
    compiled(model, "ep.share_ep_contexts=1")
    contradiction(model, "ep.share_ep_contexts=0", flags=[other], names=["ep.share_ep_contexts=0", "batch"])
    contradiction(model, "ep.share_ep_contexts=1", flags=["--embed"], names=["ep.share_ep_contexts=1", "--embed"])


def test_stop_share_ep_contexts(model):
    contradiction(model, "ep.stop_share_ep_contexts=1", names=["ep.stop_share_ep_contexts=1", "ep.share_ep_contexts=1"])
    contradiction(
        model, "ep.share_ep_contexts=1", "ep.stop_share_ep_contexts=0", names=["ep.stop_share_ep_contexts=0", "ep.share_ep_contexts=1"]
    )


def test_disable_cpu_ep_fallback(model, tmp_path):
    compiled(model, "session.disable_cpu_ep_fallback=1")
    partly = falls_back(tmp_path / "partly.onnx")
    refused(4, "NOT_SATISFIED", "compile", partly, "--config", "session.disable_cpu_ep_fallback=1")
    compiled(partly, "session.disable_cpu_ep_fallback=0")
    contradiction(model, "session.disable_cpu_ep_fallback=1", flags=["--provider", "dnnl,cpu"], names=["session.disable_cpu_ep_fallback", "cpu"])
    contradiction(model, "session.disable_cpu_ep_fallback=0", flags=["--strict"], names=["session.disable_cpu_ep_fallback=0", "--strict"])


def test_disable_model_compile(model, tmp_path):
    message = refused(4, "NOT_SATISFIED", "compile", model, "--config", "session.disable_model_compile=1")
    assert "requires compilation" in message and "conv" in message
    compiled(save(unknown_model(), tmp_path / "odd.onnx"), "session.disable_model_compile=1")
    compiled(model, "session.disable_model_compile=1", flags=["--provider", "cpu"])
    assert not (tmp_path / "net_dnnl.bin").exists()


def test_fail_on_suboptimal_compiled_model(model):
    compiled(model, "session.fail_on_suboptimal_compiled_model=1")
    message = refused(4, "NOT_SATISFIED", "compile", model, "--portable", "--config", "session.fail_on_suboptimal_compiled_model=1")
    assert "portable" in message


@pytest.mark.parametrize("value", ["3", "0x2", "", "02"])
def test_enable_weightless_mode_is_exact(model, value):
    contradiction(model, f"ep.enable_weightless_mode={value}", names=["ep.enable_weightless_mode"])


@pytest.mark.parametrize(
    "entries",
    [
        ["ep.context_enabled=1"],
        ["ep.context_enable"],
        ["=1"],
        ["session.save_external_prepacked_constant_initializers=1"],
        ["ep.context_embed_mode=1", "ep.context_embed_mode=1"],
        ["k" * 129 + "=1"],
        ["ep.context_node_name_prefix=" + "p" * 1025],
    ],
)
def test_bad_entries(model, entries):
    contradiction(model, *entries, names=[entries[0].split("=")[0][:128]])
