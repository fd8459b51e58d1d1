"""`ctxgen compile FOLDER`: a folder as ONNX Runtime GenAI reads it, with its models compiled, and its loop through Python's ONNX Runtime."""

import json

import numpy as np
import onnx
import pytest
from cli_support import add_model, ctxgen, done, save
from decoder_support import tiny_decoder

EP = "CtxgenDnnlExecutionProvider"


def config_of(filename="model.onnx", providers=()):
    return {
        "model": {
            "bos_token_id": 1,
            "context_length": 256,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": list(providers)},
                "filename": filename,
                "head_size": 16,
                "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key"},
                "num_hidden_layers": 2,
            },
            "type": "llama",
        },
        "search": {"temperature": 0.7, "top_k": 50, "past_present_share_buffer": True},
    }


def write(folder, config):
    (folder / "genai_config.json").write_text(json.dumps(config))


@pytest.fixture
def source(tmp_path):
    """A decoder with weights in a file of their own, and a tokenizer."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    onnx.save(tiny_decoder(), folder / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=64)
    (folder / "tokenizer.json").write_text('{"vocab": []}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    write(folder, config_of())
    return folder


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


COMPILED = ["chat_template.jinja", "genai_config.json", "model_ctx.onnx", "model_dnnl.bin", "tokenizer.json"]


def test_a_folder_becomes_a_folder(source, tmp_path):
    output = tmp_path / "out"
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    done("compile", "-q", source, "-o", output)
    assert names_in(output) == COMPILED
    config = json.loads((output / "genai_config.json").read_text())
    expected = config_of("model_ctx.onnx", [{EP: {}}])
    assert config == expected
    assert list(config["model"]) == list(expected["model"])  # in their order
    assert (output / "tokenizer.json").read_bytes() == before["tokenizer.json"]
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    done("compile", "-q", source, "-o", output)  # again, over its own
    assert "up to date" in done("compile", source, "-o", output, "--if-needed").stdout
    assert names_in(output) == COMPILED


def test_models_of_one_folder_share_a_bin(source, tmp_path):
    """Further parts, and steps of a pipeline, that have no options of their own take the decoder's."""
    save(add_model(), source / "embedding.onnx")
    config = config_of()
    config["model"]["embedding"] = {"filename": "embedding.onnx"}
    config["model"]["vision"] = {"pipeline": [{"head": {"filename": "embedding.onnx", "session_options": {}}}]}
    write(source, config)
    done("compile", "-q", source, "-o", tmp_path / "out")
    made = json.loads((tmp_path / "out" / "genai_config.json").read_text())["model"]
    assert made["embedding"] == {"filename": "embedding_ctx.onnx"}
    assert made["vision"]["pipeline"] == [{"head": {"filename": "embedding_ctx.onnx", "session_options": {"provider_options": [{EP: {}}]}}}]
    assert names_in(tmp_path / "out") == sorted([*COMPILED, "embedding_ctx.onnx"])


def test_nothing_compiled_needs_no_plugin(source, tmp_path):
    done("compile", "-q", source, "-o", tmp_path / "out", "--provider", "cpu")
    assert json.loads((tmp_path / "out" / "genai_config.json").read_text()) == config_of("model_ctx.onnx")


def test_the_loop(source, tmp_path):
    """As GenAI runs it: the config says which model, which provider and which names."""
    plugin = pytest.importorskip("test_plugin")
    done("compile", "-q", source, "-o", tmp_path / "out")

    def tokens(folder, steps=12):
        config = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]
        (entry,) = config["session_options"]["provider_options"] or [{}]
        path = folder / config["filename"]
        if entry:
            session = plugin.session(path, entry[EP], {"session.disable_model_compile": "1"})
        else:
            session = plugin.onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        pasts = {one.name: np.zeros([1, one.shape[1], 0, one.shape[3]], np.float32) for one in session.get_inputs() if one.name.startswith("past")}
        names, ids, made = [one.name for one in session.get_outputs()], np.arange(1, 9), []
        for length in range(8, 8 + steps):
            outputs = session.run(None, {"input_ids": ids[None], "attention_mask": np.ones([1, length], np.int64), **pasts})
            made.append(int(outputs[0][0, -1].argmax()))
            ids = np.array(made[-1:])
            pasts = {name.replace("present", "past_key_values"): value for name, value in zip(names[1:], outputs[1:], strict=True)}
        return made

    assert tokens(tmp_path / "out") == tokens(source)


def refused(code, *texts, arguments):
    finished = ctxgen("compile", *arguments)
    assert finished.returncode == code, finished.stderr
    for text in texts:
        assert text in finished.stderr, finished.stderr


def test_what_is_no_such_folder(source, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(1, "without a genai_config.json", arguments=[tmp_path / "empty", "-o", tmp_path / "out"])
    refused(1, "-o FOLDER", arguments=[source])
    refused(1, "is the folder of the models", arguments=[source, "-o", source])
    for text, words in (
        ("{", "line 1"),
        ('{"model": {}}', "names no model"),
        (json.dumps(config_of("../model.onnx")), "not in the folder"),
        (json.dumps(config_of("/model.onnx")), "not in the folder"),
        (json.dumps(config_of(providers=[{"cuda": {}}])), 'for the provider "cuda"'),
        (json.dumps(config_of("none.onnx")), "none.onnx"),
        ("[" * 100000, "in each other"),
        ('{"model": {"decoder": {"filename": "model.onnx", "session_options": 3}}}', "session_options"),
        ('{"model": {"decoder": {"filename": "model.onnx", "session_options": {"provider_options": {}}}}}', "array of providers"),
    ):
        (source / "genai_config.json").write_text(text)
        finished = ctxgen("compile", source, "-o", tmp_path / "out")
        assert finished.returncode in (1, 2, 3), finished.stderr
        assert words in finished.stderr, finished.stderr
    assert not (tmp_path / "out").exists()


def test_a_name_is_one_file(source, tmp_path):
    """Commas in it do not lead to models elsewhere."""
    save(add_model(), tmp_path / "elsewhere.onnx")
    save(add_model(), source / "first")
    write(source, config_of(f"first,{tmp_path}/elsewhere.onnx"))
    refused(3, "elsewhere.onnx", arguments=[source, "-o", tmp_path / "out"])
    assert not (tmp_path / "out").exists()


def test_outputs_of_an_earlier_compile_are_not_copied_over_new_ones(source, tmp_path):
    (source / "model_dnnl.bin").write_text("of an earlier compile in place")
    refused(1, "model_dnnl.bin", arguments=[source, "-o", tmp_path / "out"])
    assert not (tmp_path / "out").exists()


def test_what_is_the_users_stays(source, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    (output / "tokenizer.json").write_text("mine")
    refused(1, "tokenizer.json", "another file", arguments=[source, "-o", output])
    (output / "tokenizer.json").unlink()
    (output / "genai_config.json").write_text("{}")
    refused(1, "not written for compiled models", arguments=[source, "-o", output])
    assert names_in(output) == ["genai_config.json"]
    assert (output / "genai_config.json").read_text() == "{}"


def test_a_dry_run_writes_nothing(source, tmp_path):
    done("compile", "-q", source, "-o", tmp_path / "out", "--dry-run")
    assert not (tmp_path / "out").exists()
