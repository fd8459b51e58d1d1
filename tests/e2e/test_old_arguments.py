"""The argument forms of ONNX Runtime's deprecated ep_weight_sharing_ctx_gen (docs/migration.md)."""

import pytest
from cli_support import attributes, conv_model, done, ep_nodes, refused, save


@pytest.fixture
def models(tmp_path):
    return ",".join(str(save(conv_model(seed=0), tmp_path / f"{name}.onnx")) for name in ("a", "b"))


def outputs(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".bin" or path.stem.endswith("_ctx"))


@pytest.mark.parametrize("name", ["dnnl", "CtxgenDnnlExecutionProvider"])
def test_the_tools_command_line(models, tmp_path, name):
    """N context models and one bin named after the first, beside the inputs, as that tool writes them."""
    done("compile", "-e", name, "-C", "ep.context_node_name_prefix|p_  ep.share_ep_contexts|1", models)
    assert outputs(tmp_path) == ["a_ctx.onnx", "a_dnnl.bin", "b_ctx.onnx"]
    assert attributes(ep_nodes(tmp_path / "b_ctx.onnx")[0])["partition_name"].startswith(b"p_")


@pytest.mark.parametrize("name", ["qnn", "tensorrt", "openvino", "vitisai"])
def test_other_vendors_are_refused_by_name(models, name):
    refused(1, "INVALID_ARGUMENT", "compile", "-e", name, models, names=["-e", name])


def test_provider_options(models):
    message = refused(1, "INVALID_ARGUMENT", "compile", "-e", "dnnl", "-i", "backend_path|libQnnHtp.so vtcm_mb|8", models)
    assert '"backend_path"' in message and "dnnl" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ["-i", "a|b a|c"],
        ["-C", "ep.share_ep_contexts"],
        ["-C", "ep.context_embed_mode|0|1"],
        ["-C", "|1"],
        ["-C", "ep.context_enable|0"],
        ["-C", "ep.context_embed_mode|1"],
        ["-C", "ep.no_such_key|1"],
        ["-p", "plugin.json"],
        ["-e", "dnnl", "--provider", "dnnl"],
        ["-C", "ep.share_ep_contexts|1", "--config", "ep.share_ep_contexts=1"],
    ],
)
def test_wrong_and_contradictory_forms(models, tmp_path, arguments):
    refused(1, "INVALID_ARGUMENT", "compile", *arguments, models)
    assert outputs(tmp_path) == []
