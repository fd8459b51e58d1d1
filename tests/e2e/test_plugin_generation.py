"""Context models that ONNX Runtime makes with the plugin EP: ep.context_enable and its compile API."""

import json
import multiprocessing
import resource
import signal

import onnx
import onnx.parser
import pytest
from cli_support import conv_model, done, ep_nodes, save
from test_plugin import DEVICES, EP, TRAINED, check_data, onnxruntime, refused, session
from test_plugin_sessions import agree, numbers
from test_weightless import WEIGHT_BYTES, external, product_model

# Models of which ONNX Runtime tells other types, with its optimizers off, than onnx infers for the command line.
NAMES = "dims that are not known have other names, or fewer are known to be equal"
FEWER = "fewer types are known, so fewer nodes are compiled"
OTHER_TYPES = {
    "basic_pitch": NAMES,
    "bert_mlm_small": FEWER,
    "firered_vad_stream": NAMES,
    "firered_vad_stream_cache": NAMES,
    "gtcrn_stream": FEWER,
    "magika_v3_3": NAMES,
    "micro_kws_qdq": NAMES,
    "ppocrv3_det": NAMES,
}


def config(output=None, **more):
    given = {"ep.context_enable": "1", **{key.replace("__", "."): value for key, value in more.items()}}
    return given if output is None else {**given, "ep.context_file_path": str(output)}


def generate(model, output=None, ep_options=None, **more):
    """With ONNX Runtime's optimizers off."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in config(output, **more).items():
        options.add_session_config_entry(key, str(value))
    options.add_provider_for_devices(DEVICES, ep_options or {})
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options)


@pytest.fixture
def net(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


X = numbers(2, 3, 8, 8)


def test_the_files_of_a_session(net, tmp_path):
    """Its bin is the command line's, byte for byte, and so is what the node says."""
    made = tmp_path / "made"
    made.mkdir()
    agree(net, {"x": X}, generate(net, made / "net_ctx.onnx"))
    assert sorted(path.name for path in made.iterdir()) == ["net_ctx.onnx", "net_dnnl.bin"]
    agree(net, {"x": X}, session(made / "net_ctx.onnx", config={"session.disable_model_compile": "1"}))
    done("compile", "-q", net)
    assert (made / "net_dnnl.bin").read_bytes() == (tmp_path / "net_dnnl.bin").read_bytes()
    (ours,), (theirs,) = ep_nodes(made / "net_ctx.onnx"), ep_nodes(tmp_path / "net_ctx.onnx")
    assert {a.name: onnx.helper.get_attribute_value(a) for a in ours.attribute} == {a.name: onnx.helper.get_attribute_value(a) for a in theirs.attribute}
    key = f"ep_compatibility_info.{EP}"
    said = [{one.key: one.value for one in onnx.load(folder / "net_ctx.onnx").metadata_props}[key] for folder in (made, tmp_path)]
    assert said[0] == said[1]
    done("check", made / "net_ctx.onnx")


def attention_with_logits():
    node = onnx.helper.make_node("Attention", ["q", "k", "v", "mask"], ["y", "", "", "weights"], qk_matmul_output_mode=3, softcap=2.0)
    shapes = {"q": (1, 2, 3, 8), "k": (1, 2, 5, 8), "v": (1, 2, 5, 8), "mask": (3, 5), "y": (1, 2, 3, 8), "weights": (1, 2, 3, 5)}
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = onnx.helper.make_graph([node], "logits", values[:4], values[4:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=11)


def test_attention_that_gives_logits_is_one_node_for_both(tmp_path):
    model = save(attention_with_logits(), tmp_path / "net.onnx")
    made = tmp_path / "made"
    made.mkdir()
    generate(model, made / "net_ctx.onnx")
    done("compile", "-q", model)
    assert (made / "net_dnnl.bin").read_bytes() == (tmp_path / "net_dnnl.bin").read_bytes()
    feeds = {"q": numbers(1, 2, 3, 8), "k": numbers(1, 2, 5, 8), "v": numbers(1, 2, 5, 8), "mask": numbers(3, 5)}
    agree(model, feeds, session(made / "net_ctx.onnx"))


UNREAD = """<ir_version: 8, opset_import: ["" : 17]>
unread (float[3, 4] x) => (float[3, 4] y) <float[4, 4] w = {1, 0, 0, 2, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 1}> {
  a = MatMul(x, w)
  s = Shape(a)
  u = Size(s)
  y = Relu(a)
}"""


def test_an_output_that_nothing_reads(tmp_path):
    """The program has it, as the command line's; the node leaves it out, which both runtimes accept."""
    source = save(onnx.parser.parse_model(UNREAD), tmp_path / "net.onnx")
    generate(source, tmp_path / "made_ctx.onnx")
    done("compile", "-q", source)
    assert (tmp_path / "made_dnnl.bin").read_bytes() == (tmp_path / "net_dnnl.bin").read_bytes()
    (node,) = ep_nodes(tmp_path / "made_ctx.onnx")
    assert sorted(node.output) == ["", "y"]
    agree(source, {"x": numbers(3, 4)}, session(tmp_path / "made_ctx.onnx", config={"session.disable_model_compile": "1"}))
    done("verify", tmp_path / "made_ctx.onnx", "--against", source)


def test_names_by_default(net, tmp_path):
    generate(net)
    assert {path.name for path in tmp_path.iterdir()} == {"net.onnx", "net_ctx.onnx", "net_dnnl.bin"}


def test_an_embedded_context(net, tmp_path):
    output = tmp_path / "made.onnx"
    generate(net.read_bytes(), output, ep__context_embed_mode="1")
    assert {path.name for path in tmp_path.iterdir()} == {"net.onnx", "made.onnx"}
    agree(net, {"x": X}, session(output.read_bytes()))


@pytest.mark.parametrize("data", [False, True], ids=["file", "memory"])
@pytest.mark.parametrize("embed", [False, True], ids=["bin", "embedded"])
def test_the_compile_api(net, tmp_path, data, embed):
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(DEVICES, {})
    output = tmp_path / "made.onnx"
    source = net.read_bytes() if data else str(net)
    onnxruntime.ModelCompiler(options, source, embed_compiled_data_into_model=embed).compile_to_file(str(output))
    assert (tmp_path / "made_dnnl.bin").exists() is not embed
    agree(net, {"x": X}, session(output, config={"session.disable_model_compile": "1"}))


def test_the_compile_api_to_memory(net):
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(DEVICES, {})
    made = onnxruntime.ModelCompiler(options, net.read_bytes(), embed_compiled_data_into_model=True).compile_to_bytes()
    agree(net, {"x": X}, session(made))


def test_a_model_from_memory_needs_a_path(net):
    with pytest.raises(Exception, match="ep.context_file_path"):
        generate(net.read_bytes())


def test_a_prefix(net, tmp_path):
    generate(net, tmp_path / "made.onnx", ep__context_node_name_prefix="own_")
    (node,) = ep_nodes(tmp_path / "made.onnx")
    names = [attribute.s.decode() for attribute in node.attribute if attribute.name == "partition_name"]
    assert names[0].startswith("own_dnnl_")


def test_a_compiled_model_is_refused(net, tmp_path):
    done("compile", "-q", net)
    refused(2, "already compiled", "ep.context_enable", model=tmp_path / "net_ctx.onnx", config=config(tmp_path / "made.onnx"))
    assert not (tmp_path / "made.onnx").exists()


def test_a_file_of_another_kind_is_not_replaced(net, tmp_path):
    other = tmp_path / "made_dnnl.bin"
    other.write_bytes(b"a user's own")
    with pytest.raises(Exception, match="not a context binary"):
        generate(net, tmp_path / "made.onnx")
    assert other.read_bytes() == b"a user's own"
    assert not (tmp_path / "made.onnx").exists()


def test_models_share_a_bin(tmp_path):
    """Two models give three files, those of the command line's batch."""
    sources = [save(conv_model(), tmp_path / "a.onnx")]
    changed = onnx.load(sources[0])
    changed.graph.node.append(onnx.helper.make_node("Neg", [changed.graph.output[0].name], ["negative"]))
    changed.graph.output.append(onnx.helper.make_tensor_value_info("negative", onnx.TensorProto.FLOAT, None))
    sources.append(save(changed, tmp_path / "b.onnx"))
    made, batch = tmp_path / "made", tmp_path / "batch"
    made.mkdir()
    generate(sources[0], made / "a_ctx.onnx", ep__share_ep_contexts="1")
    generate(sources[1], made / "b_ctx.onnx", ep__share_ep_contexts="1", ep__stop_share_ep_contexts="1")
    done("compile", "-q", *sources, "-o", batch)
    assert sorted(path.name for path in made.iterdir()) == ["a_ctx.onnx", "a_dnnl.bin", "b_ctx.onnx"]
    for name in ("a", "b"):
        agree(tmp_path / f"{name}.onnx", {"x": X}, session(made / f"{name}_ctx.onnx"))
    sizes = [(folder / "a_dnnl.bin").stat().st_size for folder in (made, batch)]
    assert sizes[0] == sizes[1]
    # The group has ended: the next one has a file of its own.
    generate(sources[1], made / "c_ctx.onnx", ep__share_ep_contexts="1", ep__stop_share_ep_contexts="1")
    assert (made / "c_dnnl.bin").exists()


def test_options_reach_the_programs(net, tmp_path):
    generate(net, tmp_path / "exact.onnx")
    generate(net, tmp_path / "narrow.onnx", {"weights": "bf16"})
    assert (tmp_path / "narrow_dnnl.bin").stat().st_size < (tmp_path / "exact_dnnl.bin").stat().st_size


PRODUCTS = numbers(3, 256)


@pytest.mark.parametrize(("keys", "mode"), [
    ({"ep__enable_weightless_mode": "1"}, 1),
    ({"ep__enable_weightless_mode": "2"}, 2),
    ({"ep__enable_weightless_ep_context_nodes": "1"}, 1),
    ({"ep__enable_weightless": "1"}, 2),
    ({"ep__enable_weightless": "1", "ep__enable_weightless_mode": "1"}, 1),
], ids=str)
@pytest.mark.parametrize("inline", [False, True], ids=["external", "inline"])
def test_weights_that_stay_in_files(tmp_path, keys, mode, inline):
    """The bin is that of the command line, and has the weights only where the mode leaves them out of the files."""
    source = save(product_model(), tmp_path / "net.onnx") if inline else external(tmp_path)
    agree(source, {"x": PRODUCTS}, generate(source, tmp_path / "made_ctx.onnx", **keys))
    done("compile", "-q", source, "--config", f"ep.enable_weightless_mode={mode}")
    made = (tmp_path / "made_dnnl.bin").read_bytes()
    assert made == (tmp_path / "net_dnnl.bin").read_bytes()
    assert (len(made) > WEIGHT_BYTES) == (inline and mode == 1)
    agree(source, {"x": PRODUCTS}, session(tmp_path / "made_ctx.onnx", config={"session.disable_model_compile": "1"}))


def test_an_embedded_context_without_weights(tmp_path):
    source = external(tmp_path)
    generate(source, tmp_path / "made.onnx", ep__context_embed_mode="1", ep__enable_weightless_mode="1")
    assert (tmp_path / "made.onnx").stat().st_size < 20_000
    agree(source, {"x": PRODUCTS}, session(tmp_path / "made.onnx"))


def test_weights_that_the_optimizers_changed_are_in_the_context(net, tmp_path):
    """ONNX Runtime puts the batch normalisation into the convolution's weights, which are in no file then."""
    refused_or_made = tmp_path / "made_ctx.onnx"
    options = onnxruntime.SessionOptions()
    for key, value in config(refused_or_made, ep__enable_weightless_mode="2").items():
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices(DEVICES, {})
    onnxruntime.InferenceSession(str(net), options)
    agree(net, {"x": X}, session(refused_or_made))


def test_weightless_contexts_need_files(net, tmp_path):
    (tmp_path / "below").mkdir()
    with pytest.raises(Exception, match="which file the model is"):
        generate(net.read_bytes(), tmp_path / "made.onnx", ep__enable_weightless_mode="2")
    with pytest.raises(Exception, match="in or below the folder"):
        generate(net, tmp_path / "below" / "made.onnx", ep__enable_weightless_mode="2")
    with pytest.raises(Exception, match="is mode 1"):
        generate(net, tmp_path / "made.onnx", ep__enable_weightless_mode="2", ep__enable_weightless_ep_context_nodes="1")
    with pytest.raises(Exception, match="expected 0 to 2"):
        generate(net, tmp_path / "made.onnx", ep__enable_weightless_mode="3")
    refused(9, "ep.context_enable=1", model=net, config={"ep.enable_weightless_mode": "1"})
    assert not list(tmp_path.rglob("made*"))


def test_the_source_of_a_weightless_model_elsewhere(tmp_path):
    """Its external data is looked for from its folder; what the command line and a session write is read the same way."""
    sources = tmp_path / "sources"
    sources.mkdir()
    onnx.save(product_model(), sources / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=50_000)
    generate(sources / "net.onnx", tmp_path / "made_ctx.onnx", ep__enable_weightless_mode="2")
    done("compile", "-q", sources / "net.onnx", "-o", tmp_path / "by_hand_ctx.onnx", "--config", "ep.enable_weightless_mode=2")
    moved = sources.rename(tmp_path / "moved")
    for name in ("made_ctx.onnx", "by_hand_ctx.onnx"):
        (node,) = ep_nodes(tmp_path / name)
        assert [one.s for one in node.attribute if one.name == "onnx_model_filename"] == [b"sources/net.onnx"]
        refused(10, "net.", model=tmp_path / name)
        agree(moved / "net.onnx", {"x": PRODUCTS}, session(tmp_path / name, config={"ep.context_source_model_path": str(moved / "net.onnx")}))
        refused(10, "other.onnx", model=tmp_path / name, config={"ep.context_source_model_path": str(moved / "other.onnx")})
        refused(10, "bytes", model=tmp_path / name, config={"ep.context_source_model_path": str(save(conv_model(), moved / "wrong.onnx"))})


def test_the_source_of_a_model_from_memory(tmp_path):
    """Weights stay in its file, if the application says which that is; others are not taken from it."""
    source = save(product_model(), tmp_path / "net.onnx")
    key = {"ep.context_source_model_path": str(source)}
    generate(source.read_bytes(), tmp_path / "made_ctx.onnx", ep__enable_weightless_mode="2", ep__context_source_model_path=source)
    assert (tmp_path / "made_dnnl.bin").stat().st_size < 20_000
    agree(source, {"x": PRODUCTS}, session(tmp_path / "made_ctx.onnx"))
    agree(source, {"x": PRODUCTS}, session((tmp_path / "made_ctx.onnx").read_bytes(), config={**key, "ep.context_file_path": str(tmp_path / "made_ctx.onnx")}))
    other = save(product_model(seed=1), tmp_path / "other.onnx")
    generate(source.read_bytes(), tmp_path / "own_ctx.onnx", ep__enable_weightless_mode="2", ep__context_source_model_path=other)
    assert (tmp_path / "own_dnnl.bin").stat().st_size > WEIGHT_BYTES
    agree(source, {"x": PRODUCTS}, session(tmp_path / "own_ctx.onnx"))


def generate_on_a_full_disk(model, output, results):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        generate(model, output)
        results.put("made")
    except Exception as error:  # of ONNX Runtime, which has no class for it
        results.put(str(error))


def test_a_full_disk_is_an_error(net, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    worker = spawn.Process(target=generate_on_a_full_disk, args=(net, tmp_path / "made.onnx", results))
    worker.start()
    assert "made_dnnl.bin" in results.get(timeout=120)
    worker.join()
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


@pytest.mark.parametrize("folder", TRAINED, ids=lambda path: path.name)
def test_trained_models_give_the_bytes_of_the_command_line(folder, tmp_path):
    made, by_hand = tmp_path / "made", tmp_path / "by_hand"
    made.mkdir()
    by_hand.mkdir()
    generate(folder / "model.onnx", made / "m_ctx.onnx")
    done("compile", "-q", folder / "model.onnx", "-o", by_hand / "m_ctx.onnx")
    ours, theirs = made / "m_dnnl.bin", by_hand / "m_dnnl.bin"
    assert ours.exists() == theirs.exists()
    if not theirs.exists():
        return
    equal = ours.read_bytes() == theirs.read_bytes()
    assert equal == (folder.name not in OTHER_TYPES), OTHER_TYPES.get(folder.name)
    tolerance = json.loads((folder / "meta.json").read_text())["tolerance"]
    check_data(session(made / "m_ctx.onnx"), folder, tolerance["rtol"], tolerance["atol"])
