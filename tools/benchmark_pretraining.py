"""Pretraining measured in parts: the input pipeline beside a step, a masked step beside KerasHub's, and rows
that are packed, in buckets or padded.

Every race counts tokens: a contestant's seconds are those of the tokens that the race is for.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

import bert_zoo
from bert_zoo.cli.pretraining import new_model
from bert_zoo.cli.pretraining.masked import compile_for
from bert_zoo.data.corpus import Corpus
from bert_zoo.data.pretraining_rows import (
    DocSentences,
    PackedDocuments,
    Scheme,
    SentencePairs,
    epoch_rows,
)
from bert_zoo.data.subword_vocabularies import train_vocabulary
from bert_zoo.data.token_shards import TokenShards, write_token_shards
from bert_zoo.objectives import Draws, objective_for
from bert_zoo.registry import registry
from bert_zoo.text import preprocessor_from_dir
from bert_zoo.training.optimizers import bert_adamw
from bert_zoo.training.pretraining_batches import PretrainingBatches

# Batches of a round: of the pipeline, whose batches are quick and made ahead, and of a step.
PIPELINE_BATCHES, STEP_BATCHES = 64, 4
# Where rows are packed, in buckets or padded: rows a batch, tokens that seconds are for, and steps ahead,
# in which TensorFlow meets widths that differ.
ROWS, PER_TOKENS, TRACED = 16, 1_000, 3
# Of the masked step, as BERT's: 15% of 128 tokens, and rows of two texts.
PREDICTIONS, MASK_ID = 20, 103
# KerasHub's BERT has the tanh approximation of GELU, and another epsilon in the head's norm.
TOLERANCE = 5e-3


@dataclass(frozen=True)
class Race:
    """What is timed beside each other."""

    title: str
    tokens: int  # what a contestant's seconds are for
    contestants: dict[str, Callable[[], float]]  # give seconds


def seconds_of(work: Callable[[], object], share: float = 1.0) -> float:
    """The seconds of a call, times a share."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * share


# --- The input pipeline beside the nano step ---


def nano(preprocessor) -> Any:
    """The model that `bert_zoo pretrain --recipe bert --size nano` begins with."""
    family = registry().families["bert"]
    _, size = family.pretraining_preset.of_size("nano")
    return new_model(family, size.config, preprocessor)


def nano_preprocessor(corpus: Corpus, scratch: Path) -> Any:
    """A vocabulary of the text as the recipe makes it."""
    family = registry().families["bert"]
    preset, size = family.pretraining_preset.of_size("nano")
    train_vocabulary(
        (sentence for document in corpus for sentence in document),
        preset.vocabulary,
        scratch / "vocabulary",
        vocab_size=size.config["vocab_size"],
        lowercase=preset.lowercase,
    )
    length = size.config["max_positions"]
    return preprocessor_from_dir(scratch / "vocabulary", "bert", sequence_length=length)


def pipeline_race(corpus: Corpus, scratch: Path) -> Race:
    """Ready tokens to batches, as `fit` gets them, beside training on batches that are there."""
    preset, _ = registry().families["bert"].pretraining_preset.of_size("nano")
    preprocessor = nano_preprocessor(corpus, scratch)
    shards = write_token_shards(corpus, preprocessor, scratch / "tokens")
    model = nano(preprocessor)
    objective = objective_for(model, counts=shards.counts)
    length, rows = preset.phases[-1][0], preset.recipe.batch_size
    batches = PretrainingBatches(
        shards, SentencePairs(preset.rows, length), objective, rows, seed=0
    )
    compile_for(model, bert_adamw(1e-3), objective, batches.at(0)[1])
    ready = [batches.at(number) for number in range(STEP_BATCHES)]
    first = itertools.count(0, PIPELINE_BATCHES)

    def read() -> None:
        begin = next(first)
        for _ in batches.dataset(begin, begin + PIPELINE_BATCHES):
            pass

    def train() -> None:
        for inputs, labels in ready:
            model.train_on_batch(inputs, labels)

    return Race(
        f"Batches of {rows}x{length} tokens: input pipeline, and the nano step",
        round(batches.tokens),
        {
            "input pipeline": lambda: seconds_of(read, 1 / PIPELINE_BATCHES),
            "nano step": lambda: seconds_of(train, 1 / STEP_BATCHES),
        },
    )


# --- A masked step beside KerasHub's ---


def step_race(rows: int, length: int) -> Race:
    """A training step of BERT-base's shape on the same batch, from the same weights.

    Raises:
        RuntimeError: the models do not compute the same.
    """
    rng = np.random.default_rng(0)
    whole = rng.integers(1000, 20000, (rows, length), "int32")
    positions = np.sort(
        rng.permuted(np.tile(np.arange(1, length), (rows, 1)), axis=1)[:, :PREDICTIONS]
    )
    labels = np.take_along_axis(whole, positions, axis=1)
    inputs = {
        "token_ids": whole.copy(),
        "segment_ids": np.tile((np.arange(length) >= length // 2).astype("int32"), (rows, 1)),
        "padding_mask": np.ones_like(whole),
        "mask_positions": positions.astype("int32"),
    }
    np.put_along_axis(inputs["token_ids"], positions, MASK_ID, axis=1)

    ours = bert_zoo.load("bert_base", task="masked_lm", weights=None)
    hubs = {}
    for jit in ("auto", False):
        title = "KerasHub" if jit else "KerasHub, jit_compile=False"
        hubs[title] = hub = hub_model(ours)
        hub.compile(optimizer=keras_adamw(), weighted_metrics=None, jit_compile=jit)
    logits, others = (ops.convert_to_numpy(m(inputs, training=False)) for m in (ours, hub))
    difference = np.abs(logits - others).max()
    if not difference < TOLERANCE:
        raise RuntimeError(f"The models' logits differ by {difference}: they do other work.")
    print(f"Logits of the same weights differ by {difference:.1e} at most.")
    ours.compile(optimizer=bert_adamw(1e-5, bias_correction=True), loss=ours.default_loss())
    models = {"bert_zoo": ours, **hubs}
    for name, model in models.items():
        loss = model.train_on_batch(inputs, labels, return_dict=True)["loss"]
        print(f"Loss of the first step, {name}: {loss:.4f}")

    def step(model) -> Callable[[], float]:
        return lambda: seconds_of(lambda: model.train_on_batch(inputs, labels))

    return Race(
        f"BERT base, masked step, {rows}x{length} tokens, {PREDICTIONS} predictions a row, float32",
        rows * length,
        {name: step(model) for name, model in models.items()},
    )


def keras_adamw() -> keras.optimizers.Optimizer:
    """Keras's AdamW with the settings, and the exclusions, of `bert_adamw(bias_correction=True)`."""
    optimizer = keras.optimizers.AdamW(1e-5, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def hub_model(ours) -> keras.Model:
    """KerasHub's BertMaskedLM with the weights of ours."""
    config = ours.encoder.config
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
    )
    hub = keras_hub.models.BertMaskedLM(backbone)

    def copy(ours, *theirs) -> None:
        """Copies a layer's weights; those of several layers lie side by side in ours."""
        for number, value in enumerate(ours.get_weights()):
            parts = np.split(value, len(theirs), axis=-1)
            for layer, part in zip(theirs, parts, strict=True):
                layer.weights[number].assign(part.reshape(layer.weights[number].shape))

    groups = ours.encoder.backbone.groups()
    copy(groups.embeddings.token_embedding, backbone.token_embedding)
    copy(groups.embeddings.position_embedding, backbone.position_embedding)
    copy(groups.embeddings.segment_embedding, backbone.segment_embedding)
    copy(groups.embeddings.norm, backbone.embeddings_layer_norm)
    for block, layer in zip(groups.stack.blocks, backbone.transformer_layers, strict=True):
        attention = layer._self_attention_layer
        copy(
            block.attention.qkv,
            *(attention._query_dense, attention._key_dense, attention._value_dense),
        )
        copy(block.attention.output_dense, attention._output_dense)
        copy(block.attention_norm, layer._self_attention_layer_norm)
        copy(block.feed_forward.intermediate, layer._feedforward_intermediate_dense)
        copy(block.feed_forward.output_dense, layer._feedforward_output_dense)
        copy(block.output_norm, layer._feedforward_layer_norm)
    copy(ours.masked_lm.transform, hub.masked_lm_head._intermediate_dense)
    copy(ours.masked_lm.norm, hub.masked_lm_head._intermediate_layer_norm)
    return hub


# --- Rows packed, in buckets and padded ---


def row_races(corpus: Corpus, scratch: Path, length: int, vocabulary: str | Path) -> Iterator[Race]:
    """Training steps of two models on three kinds of rows of the same documents.

    Args:
        corpus: of documents that are mostly shorter than a row.
        scratch: an empty directory.
        length: tokens of a row.
        vocabulary: directory with what both models read, minilm_l6's.
    """
    preprocessor = preprocessor_from_dir(vocabulary, "bert", sequence_length=length)
    shards = write_token_shards(corpus, preprocessor, scratch / "tokens")
    mean = shards.num_tokens / shards.num_documents
    kinds: dict[str, tuple[Scheme, bool]] = {
        "packed documents": (PackedDocuments(length), False),
        "a document a row, in buckets": (DocSentences(length), True),
        "a document a row, padded": (DocSentences(length), False),
    }
    models: dict[str, Callable[[], Any]] = {
        "minilm_l6": lambda: bert_zoo.load("minilm_l6", task="masked_lm", init=("masked_lm",)),
        "nano, with minilm_l6's vocabulary": lambda: nano(preprocessor),
    }
    for name, make_model in models.items():
        yield Race(
            f"{name}, steps of {ROWS} rows of up to {length}; documents of {mean:.0f} tokens on average",
            PER_TOKENS,
            {
                kind: trainer(make_model(), shards, scheme, in_buckets)
                for kind, (scheme, in_buckets) in kinds.items()
            },
        )


def trainer(
    model, shards: TokenShards, scheme: Scheme, group_by_length: bool
) -> Callable[[], float]:
    """Seconds of training on `PER_TOKENS` tokens of text, neither special ones nor padding counted."""
    objective = objective_for(model, counts=shards.counts)
    options = {"batch_size": ROWS, "group_by_length": group_by_length, "drop_remainder": True}
    epochs = (epoch_rows(shards, scheme, 0, epoch, **options) for epoch in itertools.count())
    rows = itertools.chain.from_iterable(epochs)

    def prepared() -> tuple[dict[str, np.ndarray], Any, int]:
        batch = next(rows)
        # Of a model's table; the model counts positions from `document_ids`.
        batch.pop("position_ids", None)
        inputs, labels = objective(batch, Draws(0, 0, batch["row"]))
        tokens = np.count_nonzero(~batch["special"])
        return inputs, labels["mlm_logits"] if model.task == "masked_lm" else labels, tokens

    def run() -> float:
        batches = [prepared() for _ in range(STEP_BATCHES)]
        seconds = seconds_of(lambda: [model.train_on_batch(*batch[:2]) for batch in batches])
        return seconds * PER_TOKENS / sum(tokens for *_, tokens in batches)

    compile_for(model, bert_adamw(1e-4), objective, prepared()[1])
    for _ in range(TRACED):
        model.train_on_batch(*prepared()[:2])
    return run
