"""Exports for LiteRT and ONNX Runtime compute what the models do."""

import functools
import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ONE_A_TASK,
    TOLERANCE,
    assert_refused,
    load_case,
    loaded,
    slow_but,
    steps_of,
)

import bert_zoo
from bert_zoo import private
from bert_zoo.layers.common import LayerNorm
from bert_zoo.models.base import encoder_of
from bert_zoo.models.onnx_conversion import converting

# What converts, and what runs the result.
MODULES = {"litert": ["ai_edge_litert"], "onnx": ["onnx", "onnxruntime", "tf2onnx"]}
needs_onnx = pytest.mark.skipif(
    not all(map(find_spec, MODULES["onnx"])), reason="needs the extra: bert_zoo[onnx]"
)
# XLNet shifts scores and has two streams.
QUICK = ("bert/classification", "xlnet/masked_lm")
WITH_MEMORY = (
    "transformer_xl/hf_adaptive",
    "transformer_xl/hf_encoder",
    "gpt/causal_lm",
    "gpt2/causal_lm",
    "gpt2/encoder",
)


def formats(*quick: str) -> list:
    """The formats as parameters, all but some of them slow."""
    return [
        pytest.param(
            name,
            marks=[
                pytest.mark.skipif(
                    not all(map(find_spec, modules)), reason=f"needs the extra: bert_zoo[{name}]"
                ),
                *(() if name in quick else [pytest.mark.slow]),
            ],
        )
        for name, modules in MODULES.items()
    ]


def export(model, directory, format: str, **options) -> dict:
    """Exports what takes ids; gives the inputs of each signature."""
    bert_zoo.export(model, directory, format=format, **{"text": False, **options})
    return json.loads((directory / "runtime.json").read_text())["signatures"]


def runner(directory, signature: str):
    """A signature as a function of arrays by name to arrays by name."""
    if (directory / "model.tflite").exists():
        from ai_edge_litert.interpreter import Interpreter

        # Holds the interpreter.
        return Interpreter(str(directory / "model.tflite")).get_signature_runner(signature)
    from onnxruntime import InferenceSession

    session = InferenceSession(directory / f"{signature}.onnx")
    names = [output.name for output in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(None, inputs), strict=True))


def named(model, outputs) -> dict:
    return outputs if isinstance(outputs, dict) else {model.interface.outputs[0]: outputs}


# Both sides are rounded: each is within TOLERANCE of the exact numbers, on either side of them.
BOTH = 2 * TOLERANCE


def assert_holds(served: dict, expected: dict, atol: float = BOTH) -> None:
    for name, value in served.items():
        np.testing.assert_allclose(value, expected[name], atol=atol, rtol=0, err_msg=name)


def inputs_for(model, io: dict, names) -> dict:
    """A case's inputs; where it has none of a name, some."""
    shape = io["token_ids"].shape
    others = {
        "segment_ids": np.zeros(shape, np.int32),
        "padding_mask": np.ones(shape, np.int32),
        "task_type_ids": np.zeros(shape, np.int32),
        "mask_positions": np.tile(np.int32([1, 3]), (shape[0], 1)),
        "replaced_token_ids": io["token_ids"][:, ::-1],
        "global_attention_mask": np.zeros(shape, np.int32) + (np.arange(shape[-1]) % 5 == 2),
    }
    return {name: io[name] if name in io else others[name] for name in names}


@pytest.mark.parametrize("format", formats("litert", "onnx"))
@pytest.mark.parametrize("case", slow_but(ONE_A_TASK, *QUICK))
def test_outputs_are_the_models(case, format, tmp_path):
    model, io = load_case(case), steps_of(case, labels=False)[0]
    if not encoder_of(model).backbone.is_portable:
        with pytest.raises(ValueError, match="Export a SavedModel"):
            export(model, tmp_path, format)
        return
    signatures = export(model, tmp_path, format)
    for name, inputs in signatures.items():
        if any(part.startswith("memory") for part in inputs):
            continue
        given = inputs_for(model, io, inputs)
        expected = named(model, model(given))
        for rows in [slice(None), slice(1), *([slice(0)] if format == "onnx" else [])]:
            one = {n: value[rows] for n, value in given.items()}
            served = runner(tmp_path, name)(**one)
            assert_holds(served, {n: v[rows] for n, v in expected.items()})
        if format == "onnx":
            assert_is_described(tmp_path / f"{name}.onnx", model)


def assert_is_described(file, model) -> None:
    """A graph tells its axes, its layer norms and what it is of."""
    import onnx

    graph = onnx.load(file)
    onnx.checker.check_model(graph, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(graph, strict_mode=True, data_prop=True)
    for value in (*inferred.graph.input, *inferred.graph.output):
        axes = [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        assert axes[0] == "batch"
        assert all(axes), f"{value.name} has the axes {axes}."
        if value.name == "token_ids":
            assert axes[-1] == "sequence"
    ops = [node.op_type for node in graph.graph.node]
    is_normed = any(isinstance(layer, LayerNorm) for layer in private.all_layers(model))
    assert ("LayerNormalization" in ops) == is_normed
    assert not (is_normed and {"Sqrt", "Reciprocal"} & {*ops})  # of layer norms in parts
    said = {prop.key: prop.value for prop in graph.metadata_props}
    assert graph.producer_name == "bert_zoo"
    assert said["task"] == model.task
    assert json.loads(said.get("labels", "[]")) == [*model.labels]


@needs_onnx
def test_tables_made_before_a_conversion_give_no_warning():
    values = tf.lookup.KeyValueTensorInitializer(["a"], [1])
    tf.lookup.StaticHashTable(values, 0)
    assert None in tf.compat.v1.get_collection("table_initializer")
    with converting():
        assert None not in tf.compat.v1.get_collection("table_initializer")


@needs_onnx
def test_keras_own_onnx_files_run(tmp_path):
    from onnxruntime import InferenceSession

    model, io = load_case("bert/classification"), steps_of("bert/classification", labels=False)[0]
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    (logits,) = InferenceSession(tmp_path / "model.onnx").run(None, io)
    np.testing.assert_allclose(logits, model(io), atol=BOTH)


@pytest.mark.parametrize("format", formats("litert"))
@pytest.mark.parametrize("case", slow_but(WITH_MEMORY, "transformer_xl/hf_encoder"))
def test_a_memory_goes_in_and_comes_out(case, format, tmp_path):
    model = load_case(case)
    signatures = export(model, tmp_path, format)
    steps = [step["token_ids"] for step in steps_of(case, labels=False)]
    if len(steps) == 1:  # in one, in parts
        steps = [steps[0][:, :3], steps[0][:, 3:4], steps[0][:, 4:]]
    memory = model.initial_memory(len(steps[0]))
    carried = {f"memory_{i}": np.asarray(layer) for i, layer in enumerate(memory["memory"])}
    carried["memory_mask"] = np.asarray(memory["memory_mask"])
    runners = {name: runner(tmp_path, name) for name in signatures.keys() - {"tokens"}}
    for step in steps:
        ids = {"token_ids": step}
        expected = model({**ids, **memory})
        memory = {name: expected[name] for name in ("memory", "memory_mask")}
        layers = {f"new_memory_{i}": layer for i, layer in enumerate(memory["memory"])}
        expected = {**expected, **layers, "new_memory_mask": memory["memory_mask"]}
        for name, run in runners.items():
            served = run(**ids, **carried)
            if name == "step" and "log_probs" in served:  # of the next token
                assert_holds(served, {**expected, "log_probs": expected["log_probs"][:, -1]})
            else:
                assert_holds(served, expected)
        carried = {n.removeprefix("new_"): v for n, v in served.items() if n.startswith("new_")}


@pytest.mark.parametrize("format", formats("litert"))
@pytest.mark.parametrize("quantize", slow_but(["int8", "float16"], "int8"))
def test_quantized_weights_take_less_room_and_give_nearly_the_same(quantize, format, tmp_path):
    model = bert_zoo.load("bert_l2_h128", weights=None, task="embedding")
    signatures = export(model, tmp_path / "float32", format)
    export(model, tmp_path / "small", format, quantize=quantize)
    sizes = [
        sum(file.stat().st_size for file in (tmp_path / name).iterdir() if file.suffix != ".json")
        for name in ("float32", "small")
    ]
    assert sizes[1] < sizes[0] * {"int8": 0.3, "float16": 0.55}[quantize]
    ids = np.arange(1000, 1024, dtype=np.int32).reshape(2, 12)
    given = inputs_for(model, {"token_ids": ids}, signatures["tokens"])
    served = runner(tmp_path / "small", "tokens")(**given)["embedding"]
    cosines = np.sum(served * np.asarray(model(given)), axis=-1)
    assert (cosines > {"int8": 0.98, "float16": 0.99999}[quantize]).all()


@pytest.mark.parametrize(
    ("case", "options", "words"),
    [
        ("classification", {"format": "tflite"}, "'tflite' is format='litert' here"),
        ("classification", {"format": "litert", "quantize": "int4"}, "must be one of"),
        ("classification", {"quantize": "int8"}, "needs format='litert'"),
        ("classification", {"format": "litert", "pairs": True}, "Leave pairs out"),
        ("classification", {"layout": "hf"}, "layout is 'hf'"),
        ("pretraining", {"format": "onnx", "layout": "hf"}, "has mlm_logits, nsp_logits"),
    ],
)
def test_what_a_format_cannot_do_is_refused(case, options, words, tmp_path):
    if options.get("format") == "onnx" and not all(map(find_spec, MODULES["onnx"])):
        pytest.skip("needs the extra: bert_zoo[onnx]")
    assert_refused(lambda: bert_zoo.export(loaded(f"bert/{case}"), tmp_path, **options), words)


def test_half_precision_and_other_files_are_refused(tmp_path):
    half = load_case("bert/classification", dtype="mixed_bfloat16")
    model, options = loaded("bert/classification"), {"format": "litert", "text": False}
    assert_refused(lambda: bert_zoo.export(half, tmp_path, **options), "dtype='float32'")
    (tmp_path / "mine.txt").touch()
    export = functools.partial(bert_zoo.export, model, tmp_path, **options)
    assert_refused(export, "mine.txt", FileExistsError)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


# --- Hugging Face's layout -------------------------------------------------------------------------


@needs_onnx
def test_hugging_faces_layout_has_its_names_and_files(tmp_path):
    from onnxruntime import InferenceSession

    model, io = load_case("bert/classification"), steps_of("bert/classification", labels=False)[0]
    directory = tmp_path / "export"
    bert_zoo.export(model, directory, format="onnx", layout="hf")
    files = {path.relative_to(directory).as_posix() for path in directory.rglob("*.*")}
    assert {"config.json", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx"} <= files
    assert not [file for file in files if file.endswith(".safetensors")]
    session = InferenceSession(directory / "onnx" / "model.onnx")
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    names["token_type_ids"] = "segment_ids"
    assert [value.name for value in session.get_inputs()] == [*names]
    assert {value.type for value in session.get_inputs()} == {"tensor(int64)"}
    given = {name: io[ours].astype(np.int64) for name, ours in names.items()}
    (logits,) = session.run(["logits"], given)
    np.testing.assert_allclose(logits, model(io), atol=BOTH)
    (directory / "model.safetensors").touch()
    with pytest.raises(FileExistsError, match=r"model\.safetensors"):
        bert_zoo.export(model, directory, format="onnx", layout="hf")


@pytest.mark.parametrize(
    "case, task, names, outputs",
    [
        ("bert/encoder", "embedding", 3, ["last_hidden_state"]),
        ("bert/question_answering", None, 3, ["start_logits", "end_logits"]),
        ("roberta/token_classification", None, 2, ["logits"]),
        ("mpnet/masked_lm", None, 2, ["logits"]),
    ],
)
def test_hugging_faces_names_by_task_and_family(case, task, names, outputs):
    from bert_zoo.serving.portable import hugging_face_function

    function = hugging_face_function(load_case(case, task))
    expected = ["input_ids", "attention_mask", "token_type_ids"][:names]
    assert [spec.name for spec in function.specs] == expected
    traced = function.traced().structured_outputs
    assert set(traced) == set(outputs)


# What transformers.js gives for texts, with NODE_PATH=.../node_modules in the environment.
PROGRAM = """
const {env, pipeline} = require("@huggingface/transformers");
const [root, name, kind, texts, options] = process.argv.slice(1);
env.localModelPath = root; env.allowRemoteModels = false;
(async () => {
  const run = await pipeline(kind, name, {dtype: "fp32"});
  const found = await run(JSON.parse(texts), JSON.parse(options));
  console.log(JSON.stringify(found.tolist ? found.tolist() : found));
})();
"""


def in_transformers_js(directory, kind: str, texts, **options):
    if not (Path(os.environ.get("NODE_PATH", "-")) / "@huggingface" / "transformers").is_dir():
        pytest.skip("needs node with @huggingface/transformers, its directory in NODE_PATH")
    arguments = [directory.parent, directory.name, kind, json.dumps(texts), json.dumps(options)]
    command = ["node", "-e", PROGRAM, "--", *map(str, arguments)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


@pytest.mark.slow
@needs_onnx
@pytest.mark.parametrize("name", ["bert_nano", "roberta_nano"])
def test_transformers_js_answers_as_the_models_do(name, tmp_path):
    texts = ["the cat sat on a mat", "a big red house in the city, she said"]

    def exported(task: str, **options):
        model = bert_zoo.load(name, task=task, **options)
        bert_zoo.export(model, tmp_path / task, format="onnx", layout="hf")
        return model, tmp_path / task

    model, directory = exported("classification", labels=["bad", "good", "so so"])
    found = in_transformers_js(directory, "text-classification", texts, top_k=3)
    for ours, theirs in zip(model.classify(texts), found, strict=True):
        assert {row["label"]: row["score"] for row in theirs} == pytest.approx(ours.scores)
    model, directory = exported("embedding")
    found = in_transformers_js(
        directory, "feature-extraction", texts, pooling="mean", normalize=True
    )
    np.testing.assert_allclose(found, model.embed(texts), atol=TOLERANCE)
    model, directory = exported("token_classification", labels=["O", "B-X", "I-X"])
    found = in_transformers_js(directory, "token-classification", texts[0], ignore_labels=[])
    probabilities = tf.nn.softmax(model.predict(texts[:1], verbose=0)[0]).numpy()
    for row in found:
        assert row["score"] == pytest.approx(probabilities[row["index"]].max(), abs=TOLERANCE)
