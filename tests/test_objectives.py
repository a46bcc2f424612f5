"""Objectives side by side: a discriminator with its generator; heads with a layer before the logits."""

from dataclasses import dataclass, replace

import keras
import numpy as np
import pytest
from keras import ops

import bert_zoo
from bert_zoo.config import EncoderConfig
from bert_zoo.layers.heads import OutputHead
from bert_zoo.models import Encoder, Pretraining
from bert_zoo.models.losses import ReplacedTokenLoss
from bert_zoo.registry import registry
from bert_zoo.training import compile_for_task
from bert_zoo.weights.bind import variables_of

IDS = np.array([[1, 2, 3, 4], [5, 6, 7, 0]], "int32")
AT = np.array([[1], [2]], "int32")


@dataclass(frozen=True)
class WithGenerator(EncoderConfig):
    generator_size: int = 4

    @property
    def generator(self):
        sizes = {"hidden_size": self.generator_size, "intermediate_size": 6, "num_layers": 1}
        return self.replace(pooler=False, **sizes)


@pytest.fixture
def discriminator(monkeypatch):
    """A tiny one of a family of its own, with narrow tables."""
    page = replace(
        registry().families["bert"],
        name="two",
        config_class=WithGenerator,
        objectives=("replaced_token", "masked_lm"),
    )
    monkeypatch.setitem(registry().families, page.name, page)
    sizes = {
        "vocab_size": 11,
        "hidden_size": 8,
        "embedding_size": 3,
        "num_layers": 2,
        "num_heads": 2,
    }
    sizes |= {"intermediate_size": 12, "max_positions": 9, "pooler": False}
    config = WithGenerator(**sizes, hidden_dropout=0.0, attention_dropout=0.0)
    return Pretraining(Encoder(config, page.name))


def test_a_discriminator_and_its_generator_share_tables(discriminator):
    paths = variables_of(discriminator)
    of_generator = [p for p in paths if p.startswith("generator/embeddings/")]
    projection = "generator/embeddings/projection"
    assert of_generator == [f"{projection}/kernel", f"{projection}/bias"]
    assert len(paths) == len(discriminator.weights)
    outputs = discriminator({"token_ids": IDS})
    assert outputs["discriminator_logits"].shape == (2, 4)
    assert outputs["mlm_logits"].shape == (2, 4, 11)


def test_the_generator_reads_masked_and_the_discriminator_replaced_tokens(discriminator):
    first = discriminator({"token_ids": IDS, "mask_positions": AT})
    second = discriminator({"token_ids": IDS, "replaced_token_ids": IDS + 1, "mask_positions": AT})
    other = discriminator({"token_ids": IDS + 1, "mask_positions": AT})
    assert first["mlm_logits"].shape == (2, 1, 11)
    np.testing.assert_array_equal(first["mlm_logits"], second["mlm_logits"])
    name = "discriminator_logits"
    np.testing.assert_array_equal(second[name], other[name])
    assert not np.array_equal(first[name], second[name])


def test_replaced_tokens_have_a_signature_and_are_named_where_they_are_wrong(
    discriminator, tmp_path
):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("SavedModels are TensorFlow's")
    import tensorflow as tf

    bert_zoo.export(discriminator, tmp_path, text=False)
    serve = tf.saved_model.load(str(tmp_path)).signatures["replaced_token_ids"]
    ids = {name: tf.constant(IDS, tf.int32) for name in ("token_ids", "replaced_token_ids")}
    ids["replaced_token_ids"] += 1
    zeros = tf.zeros_like(IDS, tf.int32)
    others = {"segment_ids": zeros, "padding_mask": zeros + 1}
    for name, logits in discriminator(ids).items():
        np.testing.assert_allclose(serve(**ids, **others)[name], logits, atol=1e-5)
    with pytest.raises(ValueError, match=r"replaced_token_ids\[0, 0\] is 11, outside of \[0, 11\)"):
        discriminator({"token_ids": IDS, "replaced_token_ids": np.full_like(IDS, 11)})


def test_a_discriminator_is_trained_and_comes_back_with_its_generator(discriminator, tmp_path):
    compile_for_task(discriminator)
    discriminator.run_eagerly = keras.backend.backend() == "tensorflow"  # faster than to trace it
    labels = {
        "discriminator_logits": np.array([[0, 1, 0, 0], [1, 0, 0, -100]]),
        "mlm_logits": np.array([[-100, 2, -100, -100], [-100, -100, 1, -100]]),
    }
    inputs = {"token_ids": IDS, "replaced_token_ids": IDS}
    losses = discriminator.evaluate(inputs, labels, verbose=0, return_dict=True)
    of_output = [losses[f"{name}_loss"] for name in discriminator.label_ranges({})]
    assert losses["loss"] == pytest.approx(50 * of_output[0] + of_output[1], rel=1e-5)
    discriminator.fit(inputs, labels, verbose=0)
    discriminator.save(tmp_path / "two.keras")
    again = keras.models.load_model(tmp_path / "two.keras")
    shared = again.encoder.embeddings.token_embedding
    assert again.generator.embeddings.token_embedding is shared
    for name, logits in discriminator(inputs).items():
        np.testing.assert_array_equal(again(inputs)[name], logits)


# The last row has one mask, and padding.
HIDDEN = {
    "token_ids": np.array([[1, 10, 3, 10], [5, 6, 10, 0]], "int32"),
    "mask_positions": np.array([[1, 3], [2, 0]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], "int32"),
}
WANTED = {"mlm_logits": np.array([[2, 4], [7, -100]], "int32")}


def softmax(logits):
    values = np.exp(logits - logits.max(-1, keepdims=True))
    return values / values.sum(-1, keepdims=True)


def test_a_joint_step_has_the_originals_losses_and_gradients(discriminator):
    tf = pytest.importorskip("tensorflow")
    compile_for_task(discriminator)
    for weight in discriminator.weights:  # far from their starts, where all logits are alike
        weight.assign_add(np.random.default_rng(0).normal(0, 0.5, weight.shape))
    weights = [weight.value for weight in discriminator.trainable_weights]
    names = ["mlm_logits", "discriminator_logits"]
    with tf.GradientTape() as tape:
        outputs = discriminator(HIDDEN, training=True)
        logits = [outputs[name] for name in names]
        loss = discriminator.compute_loss(HIDDEN, WANTED, outputs)
    found = tape.gradient(loss, [*logits, *weights], unconnected_gradients="zero")
    # What was sampled stands where the masks were, and nowhere else.
    read = outputs["replaced_token_ids"].numpy()
    assert not (read != HIDDEN["token_ids"])[[0, 0, 1, 1, 1], [0, 2, 0, 1, 3]].any()
    # google-research/electra run_pretraining.py, in NumPy.
    original = np.array([[1, 2, 3, 4], [5, 6, 7, 0]])
    used = WANTED["mlm_logits"] >= 0
    chances = softmax(logits[0].numpy())
    ones = np.eye(11)[np.where(used, WANTED["mlm_logits"], 0)]
    mlm_loss = -np.sum(np.log(np.sum(chances * ones, -1)) * used) / used.sum()
    is_replaced, is_real = read != original, HIDDEN["padding_mask"]
    scores = logits[1].numpy()
    binary = np.logaddexp(0, scores) - scores * is_replaced
    wanted = mlm_loss + 50 * np.sum(binary * is_real) / is_real.sum()
    assert float(loss) == pytest.approx(wanted, rel=1e-5)
    gradients = [
        (chances - ones) * used[..., None] / used.sum(),
        50 * (1 / (1 + np.exp(-scores)) - is_replaced) * is_real / is_real.sum(),
    ]
    for ours, theirs in zip(found, gradients, strict=False):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    # None goes through the samples: as if the discriminator's tokens were given.
    with tf.GradientTape() as tape:
        given = discriminator({**HIDDEN, "replaced_token_ids": read}, training=True)
        given = [given[name] for name in names]
    options = {"output_gradients": [tf.constant(g, "float32") for g in gradients]}
    wanted = tape.gradient(given, weights, **options, unconnected_gradients="zero")
    for ours, theirs in zip(found[2:], wanted, strict=True):
        ours, theirs = map(tf.convert_to_tensor, (ours, theirs))
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_correct_sample_counts_as_original(discriminator):
    bias = np.full(11, -1e4, "float32")
    bias[4] = 1e4  # the generator's only answer
    discriminator.masked_lm.bias.assign(bias)
    compile_for_task(discriminator)
    outputs = discriminator(HIDDEN, training=True)
    read = ops.convert_to_numpy(outputs["replaced_token_ids"])
    assert read.tolist() == [[1, 4, 3, 4], [5, 6, 4, 0]]
    labels, rest = discriminator._with_sampled_labels(HIDDEN, WANTED, outputs)
    labels = ops.convert_to_numpy(labels["discriminator_logits"])
    assert labels.tolist() == [[0, 1, 0, 0], [0, 0, 1, -100]]
    assert sorted(rest) == ["discriminator_logits", "mlm_logits"]


def test_a_discriminator_is_trained_on_its_generators_samples(discriminator):
    compile_for_task(discriminator)
    first = discriminator.evaluate(HIDDEN, WANTED, verbose=0, return_dict=True)
    assert first["loss"] == pytest.approx(
        50 * first["discriminator_logits_loss"] + first["mlm_logits_loss"], rel=1e-5
    )
    assert discriminator.evaluate(HIDDEN, WANTED, verbose=0, return_dict=True) == first
    state = [np.array(v) for v in discriminator.variables]
    discriminator.fit(HIDDEN, WANTED, epochs=20, verbose=0)
    last = discriminator.evaluate(HIDDEN, WANTED, verbose=0, return_dict=True)
    assert last["loss"] < first["loss"]
    # Without training or evaluation nothing is sampled.
    assert "replaced_token_ids" not in discriminator.predict(HIDDEN, verbose=0)
    # The state of the samples is among the variables, so that a training goes on with them.
    seeds = discriminator.samples.state
    assert any(seeds is variable for variable in discriminator.variables)
    reads = []
    for value in (seeds.numpy() if hasattr(seeds, "numpy") else np.array(seeds),) * 2:
        seeds.assign(value)
        outputs = [discriminator(HIDDEN, training=True)["replaced_token_ids"] for _ in range(8)]
        reads.append(np.stack([*map(ops.convert_to_numpy, outputs)]))
    np.testing.assert_array_equal(*reads)
    assert len(np.unique(reads[0].reshape(8, -1), axis=0)) > 1
    assert len(state) == len(discriminator.variables)


def test_the_loss_of_replaced_tokens_leaves_out_what_has_no_label():
    logits = np.array([[2.0, -1.0, 30.0], [0.5, 7.0, -9.0]], "float32")
    labels = np.array([[1, 0, -100], [0, -100, -100]])
    wanted = np.mean(np.logaddexp(0, [-2.0, -1.0, 0.5]))
    assert float(ReplacedTokenLoss()(labels, logits)) == pytest.approx(wanted, rel=1e-6)
    assert float(ReplacedTokenLoss()(np.full((2, 3), -100), logits)) == 0


@pytest.mark.parametrize("dropout_first", [0.5, 0.0])
def test_dropout_comes_before_the_layer_only_where_it_is_said(dropout_first):
    options = {"transform": "relu", "transform_size": 5, "dropout_first": dropout_first}
    head = OutputHead(2, dropout=0.5, initializer_range=0.5, **options)
    seen = []
    head.build((None, 64))
    head.transform.call = lambda x, **_: seen.append(x) or ops.zeros((*x.shape[:-1], 5))
    head(np.ones((1, 64), "float32"), training=True)
    assert np.any(ops.convert_to_numpy(seen[0]) == 0) == (dropout_first > 0)
