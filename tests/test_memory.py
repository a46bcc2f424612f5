"""The memory guide: what layers keep, against TensorFlow's graphs; the card; the documented table."""

import re
from pathlib import Path

import numpy as np
import pytest

import bert_zoo
from bert_zoo import memory
from bert_zoo.registry import registry

ROOT = Path(__file__).parents[1]
ROWS, LENGTH = 4, 32
TINY = {"num_layers": 2, "hidden_size": 32, "num_heads": 4, "vocab_size": 300}
ENCODER = TINY | {"intermediate_size": 64, "max_positions": 64}

# --- Against TensorFlow's graph of a training step ---


def traced_gradient(model, inputs: dict, loss):
    """The operations of a training step up to the loss, and those from there to the gradients.

    `loss` reads outputs and inputs.
    """
    import tensorflow as tf

    forward = []

    @tf.function
    def gradient(inputs):
        with tf.GradientTape() as tape:
            value = loss(model(inputs, training=True), inputs)
        forward[:] = tf.compat.v1.get_default_graph().get_operations()
        return tape.gradient(value, [variable.value for variable in model.trainable_variables])

    operations = gradient.get_concrete_function(inputs).graph.get_operations()
    return forward, operations[len(forward) :]


def bytes_read_by_gradients(forward: list, backward: list) -> int:
    """The bytes of what forward operations make and gradient operations read."""
    same_buffer = {"Reshape", "Identity", "IdentityN", "ExpandDims", "Squeeze", "StopGradient"}
    shapes_alone = {"Shape", "Size", "BroadcastGradientArgs"}
    no_result = {"ReadVariableOp", "Const", "Placeholder"}

    names = {op.name for op in forward}
    kept = {}
    for op in backward:
        if op.type in shapes_alone:
            continue
        for tensor in op.inputs:
            while tensor.op.type in same_buffer and tensor.op.name in names:
                # IdentityN, of functions with gradients of their own, has as many as it gives.
                tensor = tensor.op.inputs[tensor.value_index]
            if tensor.op.name in names and tensor.op.type not in no_result:
                kept[tensor.name] = int(np.prod(tensor.shape)) * tensor.dtype.size
    return sum(kept.values())


@pytest.mark.parametrize("task", ["masked_lm", "classification"])
@pytest.mark.parametrize(
    ("name", "changes", "dtype"),
    [
        ("bert_base_uncased", ENCODER, "float32"),
        ("bert_base_uncased", ENCODER, "mixed_bfloat16"),
        ("albert_base", ENCODER | {"embedding_size": 16}, "float32"),
        ("mobilebert_uncased", ENCODER | {"embedding_size": 12, "bottleneck_size": 16}, "float32"),
        ("modernbert_base", ENCODER | {"local_attention": 64}, "float32"),
        ("modernbert_base", ENCODER | {"local_attention": 8}, "float32"),
    ],
)
def test_an_encoder_keeps_what_gradients_read(name, changes, dtype, task):
    import tensorflow as tf

    from bert_zoo import models

    family, checkpoint = registry().resolve(name)
    config = family.config(checkpoint).replace(**changes)
    encoder = models.Encoder(config, family.name, dtype=dtype)
    if task == "masked_lm":
        model = models.MaskedLM(encoder)
    else:
        model = models.Classifier(encoder, num_classes=2)
    ids = tf.TensorSpec((ROWS, LENGTH), tf.int32)

    def loss(logits, inputs):
        labels = inputs["token_ids"] if task == "masked_lm" else tf.zeros([ROWS], tf.int32)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    operations = traced_gradient(model, {"token_ids": ids, "padding_mask": ids}, loss)
    step = memory.Step(ROWS, LENGTH, LENGTH, memory.POLICIES[dtype])
    kept = memory.kept_for_backward(config, family.heads[task], step).total(rematerialize=False)
    assert kept == pytest.approx(bytes_read_by_gradients(*operations), rel=0.03)


def test_a_recurrent_language_model_keeps_what_gradients_read():
    import tensorflow as tf

    from bert_zoo import models

    family, checkpoint = registry().resolve("transformer_xl_enwik8")
    sizes = TINY | {"head_size": 8, "embedding_size": 32, "intermediate_size": 64, "mem_len": 0}
    config = family.config(checkpoint).replace(**sizes)
    model = models.CausalLM(models.Encoder(config, "transformer_xl"))
    ids = tf.TensorSpec((ROWS, LENGTH), tf.int32)
    operations = traced_gradient(
        model, {"token_ids": ids, "labels": ids}, lambda outputs, inputs: -outputs["log_probs"]
    )
    step = memory.Step(ROWS, LENGTH, LENGTH, memory.FLOAT32)
    kept = memory.kept_for_backward(config, None, step).total(rematerialize=False)
    assert kept == pytest.approx(bytes_read_by_gradients(*operations), rel=0.03)


def test_weights_are_those_of_the_built_model():
    from helpers import unallocated

    family, checkpoint = registry().resolve("albert_base")
    config = family.config(checkpoint)
    built = unallocated(config.with_pooler(False), "masked_lm", family.name).count_params()
    pooler = config.hidden_size**2 + config.hidden_size
    head = memory.head_parameters(config, family.heads["masked_lm"])
    assert checkpoint.params - pooler + head == built


# --- The estimate ---


def estimate(name="bert_base_uncased", task="classification", **changes) -> memory.TrainingMemory:
    family, checkpoint = registry().resolve(name)
    shape = {"batch_size": 32, "length": 128, "head": family.heads.get(task)} | changes
    return memory.training_memory(family.config(checkpoint), checkpoint.params, **shape)


def test_weights_gradients_and_moments_are_float32_in_every_dtype():
    for dtype in memory.POLICIES:
        parts = estimate(dtype=dtype)
        assert parts.weights == parts.gradients == 109_482_240 * 4
        assert parts.moments == 2 * parts.weights
    total = parts.weights * 4 + parts.activations + parts.workspace
    assert parts.total == total


def test_shared_weights_are_few_and_their_activations_many():
    shared, plain = estimate("albert_base"), estimate()
    assert shared.weights < plain.weights / 9
    assert shared.activations > 0.8 * plain.activations


def test_attention_grows_with_the_square_of_the_length():
    per_token = [
        estimate(task="question_answering", length=length, batch_size=1).activations / length
        for length in (128, 512)
    ]
    probabilities = 12 * 12 * (512 - 128) * 9  # layers, heads, keys, bytes
    assert per_token[1] - per_token[0] == probabilities


def test_rematerialization_keeps_outputs_of_blocks_and_two_blocks():
    family, checkpoint = registry().resolve("bert_base_uncased")
    step = memory.Step(32, 128, 128, memory.FLOAT32)
    kept = memory.kept_for_backward(family.config(checkpoint), family.heads["classification"], step)
    assert estimate().activations == kept.embeddings + 11 * kept.block + kept.last
    outputs = 12 * 32 * 128 * 768 * 4
    small = kept.embeddings + outputs + 2 * kept.block
    assert estimate(rematerialize=True).activations == small < estimate().activations / 3


def test_predicted_tokens_cost_a_vocabulary_and_a_last_layer_each():
    options = {"task": "masked_lm"}
    family, checkpoint = registry().resolve("bert_base_uncased")
    config, head = family.config(checkpoint), family.heads["masked_lm"]
    twenty, next_one, every = (
        memory.kept_for_backward(config, head, memory.Step(32, 128, n, memory.FLOAT32)).last
        for n in (20, 21, 128)
    )
    few, many = (estimate(predictions=n, **options).activations for n in (20, 21))
    assert many - few == pytest.approx(32 * 30522 * 4 + next_one - twenty, rel=0.2)
    assert 0.2 < twenty / every < 0.3
    assert estimate(**options).activations > estimate(predictions=100, **options).activations


def test_heads_over_the_first_token_spare_most_of_a_layer():
    first, every = estimate(), estimate(task="question_answering")
    spared = (every.activations - first.activations) / every.activations
    assert 0.75 / 12 < spared < 1 / 12
    assert estimate(task="multiple_choice") == estimate(task="regression") == first


def test_the_largest_batch_is_the_last_that_fits():
    family, checkpoint = registry().resolve("bert_base_uncased")
    fits = memory.largest_batches(
        family.config(checkpoint),
        checkpoint.params,
        length=128,
        head=family.heads["classification"],
    )
    for device, rows in fits.items():
        limit = memory.USABLE * memory.DEVICES[device]
        assert estimate(batch_size=rows).total <= limit < estimate(batch_size=rows + 1).total
    large = bert_zoo.describe("xlm_roberta_large", max_length=512)
    assert large["largest_batch"]["float32"]["8 GiB"] == 0


# --- The card ---


def test_cards_without_a_question_say_nothing_of_training():
    assert "training_memory" not in bert_zoo.describe("bert_base")


def test_a_card_shows_parts_and_what_fits():
    card = bert_zoo.describe("bert_base", batch_size=32, max_length=128)
    assert set(card["training_memory"]) == set(card["largest_batch"]) == set(memory.SETTINGS)
    assert card["training_memory"]["float32"] == estimate()
    assert set(card["largest_batch"]["float32"]) == set(memory.DEVICES)
    text = str(card)
    assert "32 rows of 128 tokens, classification" in text
    total = estimate().total / 2**30
    assert f"float32: {total:.2f} GiB (weights 0.41, gradients 0.41, moments 0.82" in text
    assert re.search(r"mixed_bfloat16: 8 GiB \d+, 16 GiB \d+, .*TPU v5e \d+", text)


def test_what_is_not_asked_has_the_checkpoints_own_value():
    card = bert_zoo.describe("minilm_l6", batch_size=8)
    assert card["training_step"].startswith("8 rows of ")
    assert "tokens, classification" in card["training_step"]
    assert bert_zoo.describe("bert_base", max_length=64)["training_step"].startswith("32 rows")
    assert "causal_lm" in bert_zoo.describe("transformer_xl_wt103", max_length=64)["training_step"]


def test_every_listed_model_has_an_estimate():
    for name in bert_zoo.list_models():
        card = bert_zoo.describe(name, batch_size=1, max_length=32)
        totals = [parts.total for parts in card["training_memory"].values()]
        assert all(total > 16 * card["parameters"] for total in totals)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; it must be a positive integer"),
        ({"batch_size": 8.0}, r"batch_size is 8\.0; it must be"),
        ({"max_length": 513}, "max_length is 513 and this model has 512 positions"),
        ({"max_length": 64, "predictions": 65}, "predictions is 65; a row has 64 tokens"),
        ({"task": "causal_lm"}, "family bert has no task 'causal_lm'; it has classification, "),
    ],
)
def test_what_cannot_be_estimated_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        bert_zoo.describe("bert_base", **options)


def test_an_unknown_dtype_lists_the_known():
    with pytest.raises(ValueError, match=r"'float16'; .*float32, mixed_bfloat16"):
        estimate(dtype="float16")
