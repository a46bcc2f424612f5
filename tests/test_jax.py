"""Models run, learn, load and save on Keras's JAX backend where TensorFlow cannot be imported."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import text_results
from helpers import slow_but

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None,
    reason="JAX is not installed; `pip install bert_zoo[jax]`, or pip install jax",
)

TESTS = Path(__file__).parent

PREAMBLE = """
import sys
sys.modules["tensorflow"] = None  # importing it raises ImportError
sys.path.insert(0, {tests!r})
import pathlib, re, tempfile
import keras, numpy as np
import bert_zoo
from helpers import *
assert keras.backend.backend() == "jax"
"""


def run(program: str, environment: dict) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def run_on_jax(program: str) -> None:
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run(PREAMBLE.format(tests=str(TESTS)) + program, environment)


@pytest.mark.parametrize(
    ("missing", "advice"),
    [
        (("tensorflow",), "set the environment variable KERAS_BACKEND=jax before Python starts"),
        (("tensorflow", "jax"), 'pip install "bert_zoo[tensorflow]"; or JAX'),
    ],
)
def test_a_backend_that_is_missing_is_named_each_time_with_what_to_do(missing, advice, tmp_path):
    """Where Keras is set to nothing, and so to TensorFlow."""
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    run(
        f"""
import importlib.util, sys
missing, found = {missing}, importlib.util.find_spec
sys.modules.update(dict.fromkeys(missing))
importlib.util.find_spec = lambda name, *package: None if name in missing else found(name, *package)
import bert_zoo
assert "minilm_l6" in bert_zoo.list_models()
for _ in range(2):
    try:
        bert_zoo.load("bert_nano")
    except ImportError as error:
        assert {advice!r} in str(error), error
    else:
        raise AssertionError("no error")
""",
        {**environment, "KERAS_HOME": str(tmp_path)},
    )


def test_a_discriminator_learns_from_its_generators_samples():
    run_on_jax("""
from bert_zoo.families.electra import ElectraConfig
from bert_zoo.models import Encoder, Pretraining
from bert_zoo.tasks.objectives import Draws, OBJECTIVES, TokenIds
from bert_zoo.training import bert_adamw, compile_for_task
keras.utils.set_random_seed(0)
config = ElectraConfig(vocab_size=30, hidden_size=16, generator_hidden_size=8, num_layers=1,
                       num_heads=2, intermediate_size=32, max_positions=16, pooler=False)
ids = np.random.default_rng(0).integers(5, 9, (8, 12)).astype("int32")
batch = {"token_ids": ids, "padding_mask": np.ones_like(ids), "special": np.arange(12) % 11 + 0 * ids == 0}
objective = OBJECTIVES["replaced_tokens"].for_tokens(TokenIds(mask_id=4, vocab_size=30))
inputs, labels = objective(batch, Draws(0, 0, np.arange(8)))
model = Pretraining(Encoder(config, "electra"))
compile_for_task(model, bert_adamw(3e-3))
first = model.evaluate(inputs, labels, verbose=0)
assert model.evaluate(inputs, labels, verbose=0) == first
model.fit(inputs, labels, epochs=20, verbose=0)
assert model.evaluate(inputs, labels, verbose=0)[0] < first[0]
""")


def test_training_on_ids_learns_with_dropout():
    run_on_jax("""
from bert_zoo.training import bert_adamw, compile_for_task
labels = {
    "classification": np.array([2, 1, 1, 0]),
    "multi_label_classification": np.array([[1, 0, 0, 1], [0] * 4, [0, 1, 0, 0], [1, 1, 1, 0]]),
    "masked_lm": np.where(np.arange(16) % 3 == 1, task_inputs("masked_lm")["token_ids"], -100),
}
for task, y in labels.items():
    keras.utils.set_random_seed(0)
    model, x = load_task(task), task_inputs(task)
    assert model.encoder.config.hidden_dropout == 0.1
    compile_for_task(model, bert_adamw(3e-3, total_steps=40))
    first = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    model.fit(x, y, batch_size=4, epochs=20, verbose=0)
    last = model.evaluate(x, y, verbose=0, return_dict=True)
    assert last["loss"] < 0.7 * first, (task, first, last)
    assert last.get("micro_f1", 1) > 0.7, last
""")


@pytest.mark.slow
def test_sentence_vectors_learn_from_pairs_at_once_and_in_mini_batches():
    run_on_jax("""
import dataclasses
from bert_zoo.embeddings import MultipleNegativesRanking
from bert_zoo.models import Encoder, SentenceEmbedder
from bert_zoo.training import compile_for_task
config = load_case("encoder", dropout=0.0).config
config = dataclasses.replace(config, num_layers=1)
ids = np.random.default_rng(0).integers(5, 80, (2, 5, 6)).astype("int32")
columns = tuple({"token_ids": part, "padding_mask": (part % 5 > 0).astype("int32")} for part in ids)

def fitted(mini_batch_size):
    keras.utils.set_random_seed(0)
    model = SentenceEmbedder(Encoder(config, "bert"))
    compile_for_task(model, keras.optimizers.SGD(0.1))
    history = model.fit(columns, epochs=3, mini_batch_size=mini_batch_size, shuffle=False, verbose=0)
    assert model.jit_compile and isinstance(model.loss_in_use, MultipleNegativesRanking)
    return history.history["loss"], variables_of(model)

whole, parts = fitted(None), fitted(2)
assert whole[0][-1] < whole[0][0]
np.testing.assert_allclose(parts[0], whole[0], atol=1e-5)
for path, value in whole[1].items():
    np.testing.assert_allclose(parts[1][path], value, atol=1e-5, err_msg=path)
""")


def test_losses_of_token_vectors_are_those_of_sentence_transformers():
    run_on_jax("""
import jax
from helpers import ALL_GOLDEN
from bert_zoo.embeddings import DistillKL, MultipleNegativesRanking
from bert_zoo.tasks import embedding_losses
golden, maxsim = np.load(ALL_GOLDEN / "vector_losses.npz"), embedding_losses.Comparison("maxsim")
texts = np.arange(32, dtype="float32").reshape(4, 4, 2)

def ranking(vectors):
    loss = MultipleNegativesRanking()
    loss.comparison = maxsim
    return loss(texts, vectors)

def divergence(vectors):
    return DistillKL()(golden["scores"], embedding_losses.scores_of_rows(vectors, maxsim))

for name, loss in {"ranking_negatives": ranking, "divergence": divergence}.items():
    for embedding_losses.MOST_PRODUCTS in (1, 2**25):
        value, gradient = jax.jit(jax.value_and_grad(loss))(golden["tokens"])
        np.testing.assert_allclose(value, golden[f"tokens/{name}"], rtol=1e-5)
        expected = golden[f"tokens/{name}/gradient"][..., :-1]
        np.testing.assert_allclose(gradient[..., :-1], expected, atol=1e-6)
""")


def test_probes_of_layers_find_what_is_in_one():
    run_on_jax("""
from bert_zoo.probing import LayerVectors, probe_layers
rng = np.random.default_rng(0)
labels = rng.integers(3, size=(40, 5))
noise = rng.normal(size=(200, 4))
array = np.concatenate([noise, np.eye(4)[labels.ravel()] + noise / 9], axis=1).astype("float16")
vectors = LayerVectors([["word"] * 5] * 40, (4, 4), array)
found = probe_layers(vectors, labels.tolist(), learning_rate=0.05)
assert found.score.mean[0] < 0.8 < 0.95 < found.score.mean[1]
""")


def test_what_needs_tensorflow_says_so():
    run_on_jax("""
model, words = load_task("classification"), "bert_zoo[tensorflow]"
assert_refused(lambda: bert_zoo.export(model, "directory"), words, RuntimeError)
assert_refused(lambda: load_case("xlm/encoder").embed(["a text"]), words, NotImplementedError)
""")


def test_texts_give_what_their_ids_give_whatever_the_batch():
    run_on_jax("""
texts = [f"{text} {'cat ' * (i % 9)}" for i, text in enumerate(TEXTS * 6)]
for task, x in (("classification", texts), ("classification", (texts, texts[::-1])), ("encoder", texts)):
    model = load_task(task)
    expected = model(model.preprocessor(x), training=False)
    found = model.predict(x, 5, verbose=0)
    if task == "encoder":
        length = expected["sequence_output"].shape[1]
        mask = model.preprocessor(x)["padding_mask"][..., None]
        found["sequence_output"] = found["sequence_output"][:, :length] * mask
        expected["sequence_output"] = expected["sequence_output"] * mask
    assert_same(found, expected, 1e-5)
alone = np.concatenate([model.embed(text) for text in texts[:4]])
np.testing.assert_allclose(model.embed(texts, batch_size=7)[:4], alone, atol=1e-5)
scores = bert_zoo.similarity(texts[0], texts[:2], model=model)
np.testing.assert_allclose(scores, alone[:1] @ alone[:2].T, atol=1e-5)
""")


def test_data_of_every_kind_are_read_in_whole_passes():
    run_on_jax("""
from bert_zoo.data.buckets import Batches, Batching, RowOrder, Rows
rows = np.arange(10)
for texts in (None, rows[:, None] // 2):  # every text twice
    read = []
    data = Rows(rows, lambda numbers: read.extend(numbers) or (numbers,))
    batches = Batches(data, RowOrder(rows, Batching(4), texts))
    endless = batches.endless()
    for number in range(8 * batches.per_epoch):
        endless[number]
    several = len(read) // 10
    assert several >= 6
    for number in range(several):
        assert sorted(read[10 * number : 10 * number + 10]) == list(rows)
    assert len({tuple(read[10 * number : 10 * number + 10]) for number in range(several)}) > 1
""")


@pytest.mark.parametrize(
    "names", slow_but([("classification",), (*text_results.DATA,)], ("classification",))
)
def test_fits_on_texts_have_the_losses_that_they_have_on_tensorflow(names):
    run_on_jax(f"""
import json, text_results
expected = json.loads(text_results.FILE.read_text())["losses"]
for name in {names}:
    found = text_results.losses(name)
    for metric, values in expected[name].items():
        if metric.endswith("_logits_loss"):
            continue  # a mean over batches on TensorFlow, and over rows on JAX
        np.testing.assert_allclose(found[metric], values, atol=1e-5, rtol=1e-5, err_msg=name)
""")


def test_verbs_say_of_texts_what_they_say_on_tensorflow():
    run_on_jax("""
import json, text_results
said = json.loads(text_results.FILE.read_text())["said"]
try:
    import keras_hub
except ImportError:
    del said["generate"]
for name, lines in said.items():
    assert text_results.said(name) == lines, name
""")


def test_options_of_a_fit_on_texts_hold():
    run_on_jax("""
from unittest import mock
from bert_zoo.training import compile_for_task
keras.utils.set_random_seed(0)
x, y = TEXTS[:2] * 4, ["positive", 0] * 4
model = load_task("classification", dropout=0.0)
compile_for_task(model, keras.optimizers.SGD(0.0))
options = {"batch_size": 4, "verbose": 0}
plain = model.evaluate(x, y, **options)[0]
ids = model.preprocessor(x)
weights = np.arange(8.0)
expected = model.evaluate(ids, np.array([2, 0] * 4), sample_weight=weights, **options)[0]
np.testing.assert_allclose(model.evaluate(x, y, sample_weight=weights, **options)[0], expected, rtol=1e-5)
doubled = model.fit(x, y, class_weight={"positive": 2.0, "neutral": 2.0, "negative": 2.0}, **options)
np.testing.assert_allclose(doubled.history["loss"], [2 * plain], rtol=1e-5)
history = model.fit(x, y, validation_split=0.5, epochs=2, **options).history
assert len(history["val_loss"]) == 2
for wrong in (y[:-1], ["unknown"] * 8, None):
    assert_refused(lambda: model.fit(x, wrong, **options), "")
""")


def test_texts_are_read_as_numpy_arrays():
    pytest.importorskip("tokenizers")
    run_on_jax("""
from bert_zoo.text import preprocessor_from_dir
model = load_task("classification")
reader = model.preprocessor.with_options(sequence_length=12, bucket=4)
for texts in (["A text!", ""], (["A text!", ""], ["one", "two"])):
    inputs = reader(texts)
    assert all(isinstance(value, np.ndarray) for value in inputs.values())
    assert inputs["token_ids"].shape[0] == 2 and inputs["token_ids"].shape[1] % 4 == 0
    assert [name for name in inputs] == ["token_ids", "segment_ids", "padding_mask"]
with tempfile.TemporaryDirectory() as directory:
    bert_zoo.save(model, directory, format="hf")
    assert pathlib.Path(directory, "tokenizer.json").is_file()
    again = preprocessor_from_dir(directory, "bert", **reader.get_config())
    assert all(np.array_equal(ids, inputs[name]) for name, ids in again(texts).items())
assert_refused(lambda: reader.tokenizer(["a text"]), "model.preprocessor.tokenize", ImportError)
rows = reader.tokenize(["A text!"])
assert reader.tokenizer.detokenized(rows) == [b"a text !"], reader.tokenizer.detokenized(rows)
for family in ("xlm", "bertweet", "gpt", "albert", "xlnet", "modernbert"):
    reader = preprocessor_from_dir(ALL_GOLDEN / family / "encoder", family, sequence_length=12)
    if family in ("xlm", "bertweet"):
        assert_refused(lambda: reader(["a text"]), "Install TensorFlow", NotImplementedError)
    else:
        assert len(reader(["some text"])["token_ids"])
""")


def test_wrong_ids_are_refused():
    run_on_jax("""
model, x = load_task("classification"), task_inputs("classification")
x["token_ids"][1, 2] = 120
for call in (lambda: model(x), lambda: model.predict(x), lambda: model.fit(x, np.zeros(4, int))):
    assert_refused(call, "token_ids[1, 2] is 120")
""")


def test_options_of_a_training_hold():
    run_on_jax("""
from bert_zoo.training import add_lora, bert_adamw, compile_for_task, freeze, rematerialize
x, labels = task_inputs("classification"), np.array([2, 1, 1, 0])

def fitted(*options, dropout=0.2, rows=4, epochs=3, **recipe):
    keras.utils.set_random_seed(1)
    model = load_task("classification", dropout=dropout)
    for option in options:
        option(model)
    compile_for_task(model, bert_adamw(1e-3, **recipe))
    model.fit(x, labels, batch_size=rows, epochs=epochs, shuffle=False, verbose=0)
    return model

plain, remat = fitted(), fitted(rematerialize)
for path, value in variables_of(plain).items():
    np.testing.assert_allclose(variables_of(remat)[path], value, atol=2e-5, err_msg=path)
schedule = dict(total_steps=4, clip_norm=0.1, layer_decay=0.8, dropout=0.0)
one, four = fitted(**schedule), fitted(**schedule, rows=1, gradient_accumulation_steps=4)
for path, value in variables_of(one).items():
    np.testing.assert_allclose(variables_of(four)[path], value, atol=2e-5, err_msg=path)
model = fitted(add_lora)
model.encoder._preprocessor = None
expected = model.predict(x, verbose=0)
with tempfile.TemporaryDirectory() as directory:
    bert_zoo.save(model, directory)
    assert_same(bert_zoo.load(directory).predict(x, verbose=0), expected, 1e-5)
start, frozen = load_task("classification"), fitted(freeze)
table = "encoder/embeddings/token_embedding/embeddings"
assert np.array_equal(variables_of(frozen)[table], variables_of(start)[table])
""")


FUSED = """
import dataclasses
from unittest import mock
import jax
from bert_zoo import private
from bert_zoo.models import Encoder

rng = np.random.default_rng(0)
batch = {"token_ids": rng.integers(5, 30, (4, 16)).astype("int32"),
         "padding_mask": (np.arange(16) < [[16], [9], [4], [12]]).astype("int32")}
projection = rng.normal(size=(4, 16, 32)) * batch["padding_mask"][..., None]

def encoder(family, attention_dropout=0.0, **options):
    config = load_case(family + "/classification").encoder.config
    config = dataclasses.replace(config, attention_dropout=attention_dropout, hidden_dropout=0.0)
    keras.utils.set_random_seed(0)
    return Encoder(config, family, **options)

def gradient(model, inputs=batch):
    held = [variable.value for variable in model.non_trainable_variables]
    def loss(weights):
        outputs = model.stateless_call(weights, held, inputs, training=True)[0]
        hidden = outputs["sequence_output"].astype("float32")
        return (hidden * projection[:, : hidden.shape[1]]).sum()
    return jax.jit(jax.grad(loss)), [variable.value for variable in model.trainable_variables]

def on(device):
    return mock.patch.object(keras.distribution, "list_devices", lambda: [device + ":0"])

def computed(model, inputs=batch):
    run, weights = gradient(model, inputs)
    return model(inputs)["sequence_output"], run(weights)
"""


def test_fused_attention_gives_what_products_and_softmax_give():
    # Where there is no kernel, Keras's function computes it in XLA: the arguments are what is tested.
    run_on_jax(
        FUSED
        + """
packed = {**batch, "document_ids": np.repeat([[1, 2, 3, 0]], 4, 0).repeat(4, 1).astype("int32")}
for family, inputs in (("bert", batch), ("bert", packed), ("gpt2", batch), ("modernbert", batch)):
    model = encoder(family)
    expected = computed(model, inputs)
    with on("gpu"), mock.patch.object(private, "has_fused_attention", return_value=True):
        with mock.patch.object(keras.ops, "dot_product_attention", wraps=keras.ops.dot_product_attention) as fused:
            outputs = computed(model, inputs)
    assert fused.call_count == 2 * model.config.num_layers  # one pass, and one for the gradient
    largest = max(np.abs(g).max() for g in jax.tree.leaves(expected[1]))
    for ours, theirs in zip(jax.tree.leaves(outputs), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * max(1, largest), err_msg=family)
"""
    )


def test_heads_are_looked_at_and_their_importance_is_the_same():
    """TensorFlow gives the importance that stands here."""
    run_on_jax("""
from bert_zoo.probing import attention_maps, head_importance
assert attention_maps(load_case("bert/encoder"), "the naïve cat").maps.shape == (3, 4, 9, 9)
model = load_task("classification")
np.testing.assert_allclose(
    head_importance(model, TEXTS, [0, 1, 0])[0], [0.26342, 0.67003, 0.12960, 0.68181], atol=1e-4
)
""")


def test_a_prompts_memory_is_attended_by_the_kernel_too():
    run_on_jax(
        FUSED
        + """
model = load_case("gpt2/causal_lm")
prompt = {"token_ids": batch["token_ids"], **model.initial_memory(4, 18)}
expected = model(prompt)
with on("gpu"), mock.patch.object(private, "has_fused_attention", return_value=True):
    with mock.patch.object(keras.ops, "dot_product_attention", wraps=keras.ops.dot_product_attention) as fused:
        outputs = model(prompt)
assert fused.call_count == model.encoder.config.num_layers
assert_same(outputs, expected, 1e-5)
"""
    )


def test_a_gpus_training_step_has_fused_attention_instead_of_probabilities():
    # Compiled as far as JAX itself does, which takes no GPU.
    run_on_jax(
        FUSED
        + """
from jax._src.cudnn import fused_attention_stablehlo as cudnn
has_kernel = {"check_cudnn_version": lambda: 91100, "check_compute_capability": lambda least: True,
              "is_cuda_compute_capability_equal": lambda version: False}
def kernels(family="bert", inputs=batch, device="gpu", **options):
    # How many there are, forward and backward, and whether there is a tensor of probabilities. What they
    # read and write is not transposed.
    run, weights = gradient(encoder(family, **{"dtype": "mixed_bfloat16", **options}), inputs)
    with mock.patch.multiple(cudnn, **has_kernel), on(device):
        text = run.trace(weights).lower(lowering_platforms=("cuda",)).as_text()
    name = "@__cudnn$fmhaScaleBiasSoftmax"
    if name in text:
        # JAX has its results ("#") in another order of axes with a layout that makes up for it.
        assert not re.findall("transpose %[0-9]+ .*4x16x4x8x", text)
    return text.count(name + "("), text.count(name + "Backward("), "4x4x16x16x" in text

assert kernels("bert") == (3, 3, False)
assert kernels("gpt2") == (2, 2, False)
assert kernels("modernbert") == (4, 4, False)
assert kernels(dtype="mixed_float16") == (3, 3, False)
assert kernels(inputs={name: x[:, :15] for name, x in batch.items()})[:2] == (0, 0)
assert kernels(attention_dropout=0.1) == (0, 0, True)
assert kernels(dtype="float32") == (0, 0, True)
assert kernels("mpnet") == (0, 0, True)  # its bias by distance is learned
assert kernels(device="tpu") == (0, 0, True)
keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0"]))
assert kernels() == (0, 0, True)
keras.distribution.set_distribution(None)
assert kernels() == (3, 3, False)
keras.config.disable_flash_attention()
assert kernels() == (0, 0, True)
"""
    )


@pytest.mark.slow
def test_layers_of_keras_on_an_encoder_leave_padding_out():
    run_on_jax("""
import jax
encoder = load_case("bert/encoder", output_hidden_states=True)
mean, lstm = keras.layers.GlobalAveragePooling1D(), keras.layers.Bidirectional(keras.layers.LSTM(3))
ids, mask = np.arange(5, 27).reshape(2, 11), np.array([[1] * 3 + [0] * 8, [1] * 11])
def pooled(ids, mask):
    outputs = encoder({"token_ids": ids, "padding_mask": mask})
    return mean(outputs["sequence_output"]), lstm(outputs["hidden_states"][1])
alone = pooled(ids[:1, :3], mask[:1, :3])
given = {name: keras.Input((11,), dtype="int32", name=name) for name in ("ids", "mask")}
model = keras.Model(given, pooled(given["ids"], given["mask"]))
for both in (pooled(ids, mask), jax.jit(pooled)(ids, mask), model.predict({"ids": ids, "mask": mask})):
    for x, y in zip(alone, both):
        np.testing.assert_allclose(x[0], y[0], atol=1e-5)
""")


@pytest.mark.slow
def test_a_text_of_weight_0_is_left_out():
    run_on_jax("""
import text_results
for name in text_results.WEIGHED:
    text_results.check_weights(name)
""")
