"""Generation of targets with keras_hub's samplers: sources are encoded once, then the decoder runs step by step."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from bert_zoo.models.cut_texts import warning_of_cut_texts
from bert_zoo.models.direct import for_this_device
from bert_zoo.models.graphs import in_graph, on_model
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.tasks.generation import (
    OPEN,
    Generation,
    IdOutput,
    TextOutput,
    checked_ids,
    filled,
    slots_for,
    with_prefix,
)
from bert_zoo.tasks.logits import without

# Maximum tokens that a SavedModel generates.
SERVED_TOKENS = 256


@dataclass(frozen=True)
class DecoderStep:
    """A `bert_zoo.tasks.generation.Step` for the decoder.

    Attributes:
        never: ids that must not be chosen.
        gives_logits: whether scores are logits and not log-probabilities.
    """

    never: tuple[int, ...]
    gives_logits: bool = False
    fixed: ClassVar[tuple[str, ...]] = ("source", "source_mask")

    def __call__(self, model, tokens, state):
        backbone = model.encoder.backbone
        logits, memory = model.decoder.step(
            backbone.embeddings(tokens[:, None]),
            state["source"],
            state["source_mask"],
            backbone.token_table,
            state["memory"],
            state["start"][0],
        )
        scores = ops.cast(logits[:, 0], "float32")
        scores = scores if self.gives_logits else ops.log_softmax(scores)
        return without(scores, self.never), {**state, "memory": memory, "start": state["start"] + 1}


def _read_sources(model, inputs, *, slots: int):
    """Returns the state before a target's first token, from the encoder's inputs.

    `start`, the number of tokens in memory, is the same for all rows, but like all states has one entry per row.
    """
    encoded = model.encoder.unmasked(inputs, training=False)["sequence_output"]
    rows = ops.shape(encoded)[0]
    return {
        "source": model.decoder.source(encoded),
        "source_mask": ops.convert_to_tensor(inputs["padding_mask"]),
        "memory": model.decoder.initial_memory(rows, slots),
        "start": ops.zeros_like(inputs["token_ids"][:, 0]),
    }


def _read_texts(model, texts, *, preprocessor):
    return for_this_device(preprocessor)(texts)


def generate(
    model,
    sources,
    *,
    sentinels: bool,
    batch_size: int,
    stream: bool,
    **options,
):
    """See `TextToText.generate`."""
    check_batch_size(batch_size)
    generation = Generation(model, stream=stream, **options)
    step = DecoderStep(_never_chosen(model, sentinels), generation.reads_logits)
    sources = with_prefix(sources, generation.config.prefix, "sources")
    kind = IdSources if isinstance(sources, Mapping) else TextSources
    read = kind(model, sources, generation.stop_ids)
    if not len(read.lengths):
        return generation.no_texts()
    number, new_tokens = len(read.lengths), generation.new_tokens(1)

    def begin(rows: np.ndarray):
        start = np.full((len(rows), 1), model.start_id, "int32")
        slots = slots_for(new_tokens)
        return start, on_model(model, _read_sources, read.inputs(rows), slots=slots)

    if stream:
        begins = [partial(begin, np.arange(number))]
        pieces = generation.outputs(read, begins, step, new_tokens)
        next(pieces)  # the first piece, the text before the new tokens, is empty
        return pieces
    order = np.arange(number)
    if number > batch_size:
        # Group sources of similar length to avoid padding.
        order = np.argsort(read.lengths, kind="stable")
    batches = np.split(order, range(batch_size, number, batch_size))
    begins = [partial(begin, rows) for rows in batches]
    with warning_of_cut_texts(model, sources, parts=1):
        return generation.outputs(read, begins, step, new_tokens, order=np.argsort(order))


def served_targets(model, texts, preprocessor):
    """Returns targets, string [batch], as `generate` writes them by default; in the graph of a SavedModel."""
    import tensorflow as tf

    # A sampler makes a variable, which TensorFlow allows in no trace, and traces belong to threads.
    with ThreadPoolExecutor(1) as outside:
        options = {"own": True, "num_return_sequences": 1}
        generation = outside.submit(Generation, model, **options).result()
    number = generation.new_tokens(1, SERVED_TOKENS)
    if generation.config.prefix is not None:
        texts = tf.strings.join([generation.config.prefix, texts])
    inputs, tokenizer = preprocessor(texts), preprocessor.tokenizer
    start = tf.fill([tf.size(texts), 1], model.start_id)
    tokens = filled(
        model,
        tf.pad(start, [[0, 0], [0, number]], constant_values=OPEN),
        1,
        _read_sources(model, inputs, slots=slots_for(number)),
        step=DecoderStep(_never_chosen(model, sentinels=False), generation.reads_logits),
        sampler=served(generation.sampler),
        stop_ids=generation.stop_ids,
        processor=generation.processor,
    )[:, 1:]
    is_stop = tf.reduce_any(
        tokens[..., None] == tf.constant(generation.stop_ids, tokens.dtype), axis=-1
    )
    is_over = tf.logical_or(is_stop, tokens == OPEN)
    is_shown = tf.cumsum(tf.cast(is_over, tf.int32), axis=1) == 0
    return tokenizer.detokenize(tf.ragged.boolean_mask(tokens, is_shown))


def served(sampler):
    """Returns a sampler of its own, without the variables of its seeds, which a SavedModel would have to hold."""
    drawer = getattr(sampler, "drawer", sampler)
    if getattr(drawer, "variables", ()):
        drawer.seed_generator = ServedSeeds()
    return sampler


class ServedSeeds(keras.random.SeedGenerator):
    """Seeds that TensorFlow draws at each run of a graph."""

    def __init__(self):
        """Makes no variable."""

    def next(self, ordered: bool = True):
        import tensorflow as tf

        return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


class IdSources(IdOutput):
    """Sources and results as ids.

    Attributes:
        lengths: lengths to sort sources by, int [sources].
    """

    def __init__(self, model, sources: Mapping[str, Any], stop_ids):
        token_ids, mask = checked_ids(model, sources, "source")
        super().__init__(token_ids[:, :0])
        self._inputs = {"token_ids": token_ids, "padding_mask": mask}
        self.lengths = np.sum(mask, axis=1)

    def inputs(self, rows: np.ndarray) -> dict[str, Any]:
        """Returns the encoder's inputs for some rows, without columns of padding at the end."""
        inputs = {name: ids[rows] for name, ids in self._inputs.items()}
        end = np.flatnonzero(inputs["padding_mask"].any(axis=0))[-1] + 1
        return {name: ids[:, :end] for name, ids in inputs.items()}


class TextSources(TextOutput):
    """Sources and results as texts. Attributes: as for `IdSources`."""

    def __init__(self, model, sources, stop_ids):
        from bert_zoo.text.batches import strings

        self._texts = strings(sources, "sources")
        self._model = model
        self.lengths = np.array([*map(len, self._texts)])
        shown = [np.zeros(0, "int32")] * len(self._texts)
        super().__init__(model.preprocessor.tokenizer, shown, stop_ids, isinstance(sources, str))

    def inputs(self, rows: np.ndarray) -> dict[str, Any]:
        """Returns the encoder's inputs for some texts."""
        from bert_zoo.text.batches import text_batch

        model, texts = self._model, text_batch([self._texts[row] for row in rows])
        inputs = in_graph(model, _read_texts, texts, preprocessor=model.preprocessor)
        return {name: np.asarray(ids) for name, ids in inputs.items()}


def _never_chosen(model, sentinels: bool) -> tuple[int, ...]:
    """Returns padding, ids beyond the vocabulary and, unless allowed, sentinels."""
    if not model.encoder.has_preprocessor:
        return ()
    tokenizer = model.preprocessor.tokenizer
    table, _ = model.id_limits()["token_ids"]
    never = {tokenizer.pad_id, *range(tokenizer.vocab_size, table)}
    return tuple(sorted(never if sentinels else never.union(tokenizer.sentinel_ids)))
